"""The order in which the flows of one directed link send their chunks (pure; CREW's paper, IV-C).

A flow is what one task sends over a link in one phase: contributions towards the aggregators
(scatter), or results away from them (multicast). What a repair of the task adds are flows of their
own, behind everything that is scheduled before. Chunks of one flow keep their order. The
discipline chooses the flow that sends the next chunk, so a flow is preempted between chunks only.
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
    """One task, phase and repair; a site uses the same object on all of its links.

    `task` numbers tasks in the order of their start. It is None for a contribution that is sent
    before its task is known, and is set when the task is known.
    """

    task: int | None
    inward: bool


@dataclass(frozen=True, slots=True)
class Discipline:
    """A rule for the next flow: of the flows with chunks to send, the one with the lowest rank.

    Flows with equal ranks are served in the order in which they came or, with `turns`, one chunk of
    each in turn.
    """

    rank: Callable[[Flow], float]
    turns: bool = False


def _rank_all_equal(_: Flow) -> float:
    return 0


def _rank_by_task(flow: Flow) -> float:
    return math.inf if flow.task is None else flow.task


DISCIPLINES: Mapping[str, Discipline] = {
    "fcfs": Discipline(_rank_all_equal),
    "fair": Discipline(_rank_all_equal, turns=True),
    "task-fcfs": Discipline(_rank_by_task),
    "C1": Discipline(lambda flow: flow.inward),
    "C2": Discipline(lambda flow: not flow.inward),
}
"""`fcfs`: first come, first served; `fair`: flows in turn; `task-fcfs`: earlier tasks first; `C1`:
multicast first; `C2`: scatter first."""


class Queue(Generic[Item]):
    """The items that wait for one directed link. An empty queue is false."""

    def __init__(self, discipline: Discipline) -> None:
        self._discipline = discipline
        self._flows: dict[Flow, deque[Item]] = {}

    def __bool__(self) -> bool:
        return any(self._flows.values())

    def push(self, item: Item, flow: Flow) -> None:
        """Put an item at the end of its flow.

        A flow keeps its place among the flows until `forget`, even when none of its items waits.
        """
        self._flows.setdefault(flow, deque()).append(item)

    def pop(self) -> Item | None:
        """Remove and return the next item to send; None if nothing waits."""
        waiting = [flow for flow, items in self._flows.items() if items]
        if not waiting:
            return None
        flow = min(waiting, key=self._discipline.rank)
        items = self._flows[flow]
        if self._discipline.turns:
            self._flows[flow] = self._flows.pop(flow)  # to the end: the others have their turn
        return items.popleft()

    def drop(self, unwanted: Callable[[Item], bool]) -> list[Item]:
        """Remove the unwanted items, and return them."""
        dropped: list[Item] = []
        for flow, items in self._flows.items():
            found = [item for item in items if unwanted(item)]
            if found:
                self._flows[flow] = deque(item for item in items if not unwanted(item))
                dropped += found
        return dropped

    def forget(self, flows: Collection[Flow]) -> list[Item]:
        """Remove these flows, and return the items that waited in them."""
        return [item for flow in flows for item in self._flows.pop(flow, ())]
