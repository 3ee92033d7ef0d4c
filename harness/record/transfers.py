"""When payloads occupied their links (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trunkline.agents.events.task_events import Received, Sent
from trunkline.harness.record.history import Task
from trunkline.harness.record.lives import Interval


@dataclass(frozen=True, slots=True)
class Transfer:
    """One task's payload of one phase on one directed link.

    `start_ns` is when the first byte was handed to the link, `end_ns` when the last byte left it:
    the last arrival minus the link's delay, or the sender's last hand-over if that is later. The
    hand-over alone would be too early, because the socket's buffer takes bytes before the link.
    """

    task: int
    src: str
    dst: str
    phase: str
    bytes: int
    start_ns: int
    end_ns: int


def transfers(
    tasks: Iterable[Task], delays_ms: Mapping[tuple[str, str], float]
) -> tuple[Transfer, ...]:
    """Every payload that a site sent, with the time that it occupied the link."""
    return tuple(transfer for task in tasks for transfer in _task_transfers(task, delays_ms))


def union(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Merge intervals into ascending ones that neither overlap nor touch."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def _task_transfers(task: Task, delays_ms: Mapping[tuple[str, str], float]) -> Iterable[Transfer]:
    arrived: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for into in task.all(Received):
        arrived[into.src, into.site][into.phase] = into.end_ns
    for event in task.all(Sent):
        link = (event.site, event.dst)
        last = arrived[link].get(event.phase)
        if last is None:  # relayed bytes arrive as the phase that they belong to
            last = max(arrived[link].values(), default=0)
        end_ns = max(event.end_ns, last - round(delays_ms.get(link, 0.0) * 1e6))
        yield Transfer(task.number, *link, event.phase, event.bytes, event.start_ns, end_ns)
