"""In what order the flows of one directed link send their chunks (pure; CREW's paper, IV-C).

A flow is what one task sends over a link in one phase: contributions towards the aggregators
(scatter) or results away from them (multicast). Chunks of one flow keep their order; the
discipline chooses whose chunk is next. So a flow is preempted between chunks, never within one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(slots=True, eq=False)
class Flow:
    """One task and phase; the same object on every link of a site.

    `task` counts tasks in the order of their start; it is None as long as nobody knows which task
    an early contribution will be part of, and set as soon as that is known.
    """

    task: int | None
    inward: bool


@dataclass(frozen=True, slots=True)
class Discipline:
    """Of the flows with chunks to send the one with the lowest rank is next.

    Among equal ranks it is the one that came first; or, in `turns`, the one whose last turn is
    longest ago.
    """

    rank: Callable[[Flow], float]
    turns: bool = False


def _alike(_: Flow) -> float:
    return 0


def _by_task(flow: Flow) -> float:
    return math.inf if flow.task is None else flow.task


DISCIPLINES: Mapping[str, Discipline] = {
    "fcfs": Discipline(_alike),
    "fair": Discipline(_alike, turns=True),
    "task-fcfs": Discipline(_by_task),
    "C1": Discipline(lambda flow: flow.inward),
    "C2": Discipline(lambda flow: not flow.inward),
}
"""By name: first come, first served; equal shares; earlier tasks, multicast, scatter first."""


class Queue(Generic[Item]):
    """What waits for one directed link. An empty queue is false."""

    def __init__(self, discipline: Discipline) -> None:
        self._discipline = discipline
        self._flows: dict[Flow, deque[Item]] = {}

    def __bool__(self) -> bool:
        return any(self._flows.values())

    def push(self, item: Item, flow: Flow) -> None:
        """Put an item behind all others of its flow.

        A flow keeps its place among the flows, waiting items or not, until `forget`.
        """
        self._flows.setdefault(flow, deque()).append(item)

    def pop(self) -> Item | None:
        """The next item to send; None if nothing waits."""
        waiting = [flow for flow, items in self._flows.items() if items]
        if not waiting:
            return None
        flow = min(waiting, key=self._discipline.rank)
        items = self._flows[flow]
        if self._discipline.turns:
            self._flows[flow] = self._flows.pop(flow)
        return items.popleft()

    def drop(self, unwanted: Callable[[Item], bool]) -> list[Item]:
        """Take out these items; returns them."""
        dropped: list[Item] = []
        for flow, items in self._flows.items():
            found = [item for item in items if unwanted(item)]
            if found:
                self._flows[flow] = deque(item for item in items if not unwanted(item))
                dropped += found
        return dropped

    def forget(self, flows: Collection[Flow]) -> list[Item]:
        """Take out these flows with their places; returns what waited in them."""
        return [item for flow in flows for item in self._flows.pop(flow, ())]
