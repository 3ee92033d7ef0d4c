"""What would have held a task up without a fault on its critical path (pure).

Without a fault, a task ends when the next one of its transfers has ended: that of another way, on
which the fault took less. What the fault took beyond that did not delay the task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from trunkline.agents.events.task_events import Received
from trunkline.harness.record.history import Task
from trunkline.harness.report.explanations.critical_path import find_critical_path
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.time_parts import PLANNED, Part, sort_parts

MOST_WAYS = 32
"""Of a task, so many transfers that ended last are looked at."""

ESTIMATED = ("cold start", "queueing", "unexplained", "contribution", "installation")
"""What is known of TCP only from the settings of links, and transfers before."""

LEAST_S = 0.05
"""A shorter time is left to the fault, as which of two ways was longer is an estimate."""


def charge_other_ways(run: Run, task: Task, end_ns: int, parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts of a task that ended then, less what faults took while another way took as long.

    That time has the main cause of the other way.
    """
    found = [*parts]
    for fault in sorted({part.fault for part in parts if part.fault is not None}):
        took_s = sum(part.seconds for part in parts if part.fault == fault)
        if took_s < LEAST_S:
            continue
        free_ns = end_ns - round(took_s * 1e9)
        until_ns, other = _find_other_way(run, task, fault, free_ns)
        if other is not None and (excess_s := (until_ns - free_ns) / 1e9) >= LEAST_S:
            found = [*_replace(found, fault, min(excess_s, took_s), other)]
    return sort_parts(found)


def _find_other_way(run: Run, task: Task, fault: int, free_ns: int) -> tuple[int, Part | None]:
    """When the last transfer would have ended without a fault, if after that time, and why."""
    arrivals = sorted(task.all(Received), key=lambda event: -event.end_ns)
    latest_ns, why = free_ns, None
    for arrival in arrivals[:MOST_WAYS]:
        if arrival.end_ns <= latest_ns:
            break
        steps = find_critical_path(task, run.delays_ms, run.was_busy, arrival)
        parts = [part for step in steps for part in run.divide(task, step)]
        took_s = sum(part.seconds for part in parts if _has_taken(part, fault))
        without_ns = arrival.end_ns - round(took_s * 1e9)
        if without_ns > latest_ns:
            latest_ns = without_ns
            why = _find_main(parts, fault, (without_ns - free_ns) / 1e9)
    return latest_ns, why


def _has_taken(part: Part, fault: int) -> bool:
    """Whether a fault took a part of another way, or may have: TCP's rest is an estimate."""
    return part.fault == fault or (part.fault is None and part.cause in ESTIMATED)


def _find_main(parts: Collection[Part], fault: int, seconds: float) -> Part | None:
    """The longest unexpected part that explains half of that time or more; else the longest."""
    others = [part for part in parts if not _has_taken(part, fault)]
    unexpected = [e for e in others if e.cause not in PLANNED and 2 * e.seconds >= seconds]
    return max(unexpected or others, key=lambda part: part.seconds, default=None)


def _replace(parts: Sequence[Part], fault: int, seconds: float, other: Part) -> Iterator[Part]:
    """The parts, of which those of a fault have so many seconds less, and the other one more."""
    left_s = seconds
    for part in parts:
        cut_s = min(part.seconds, left_s) if part.fault == fault and part.beside is None else 0.0
        left_s -= cut_s
        share = 1 - cut_s / part.seconds if part.seconds else 1.0
        if share > 0:
            yield replace(part, seconds=part.seconds - cut_s, bytes=part.bytes * share)
    yield replace(other, seconds=seconds - left_s, beside=fault)
