"""What would have held a task up without a fault on its critical path (pure).

Without a fault, a task ends when the next one of its transfers has ended: that of another way, on
which the fault took less. What the fault took beyond that did not delay the task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from trunkline.agents.events.task_events import Received
from trunkline.agents.planning.plan import Directed
from trunkline.harness.record.history import Task
from trunkline.harness.report.explanations.critical_path import PathStep, find_critical_path
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.time_parts import PLANNED, Cause, Part, sort_parts

MOST_WAYS = 32
"""Of a task, so many transfers that ended last are looked at."""

RESTS: tuple[Cause, ...] = ("queueing", "unexplained", "contribution", "installation")
"""What is left of a step when all that the log shows is taken from it."""

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
    touched = next(e.started.targets for e in run.history.faults if e.started.fault == fault)
    over = [
        each.started.fault
        for each in run.history.faults
        if each.end_ns is not None and each.end_ns <= task.started.t_ns
    ]
    for arrival in arrivals[:MOST_WAYS]:
        if arrival.end_ns <= latest_ns:
            break
        steps = find_critical_path(task, run.delays_ms, run.was_busy, arrival, run.find_got_ns)
        parts = [part for step in steps for part in run.divide(task, step)]
        estimated = _list_estimated(run, task, steps, touched)
        guessed = {None, *over} if estimated else {None}
        taken = [
            part
            for part in parts
            if part.fault == fault
            or (part.fault in guessed and (part.fault is not None or part.cause in estimated))
        ]
        took_s = sum(part.seconds for part in taken)
        without_ns = arrival.end_ns - round(took_s * 1e9)
        if without_ns > latest_ns:
            latest_ns = without_ns
            others = [part for part in parts if part not in taken]
            why = _find_main(others, (without_ns - free_ns) / 1e9)
    return latest_ns, why


def _list_estimated(
    run: Run, task: Task, steps: Sequence[PathStep], touched: Collection[str]
) -> Collection[Cause]:
    """The causes on a way that may be a fault's, as they are TCP's rest, which is an estimate.

    Where the fault touched a link of the way, a connection may be cold because of it, too. Where it
    touched what a sender got, the rest of the sender's transfer may have been a wait for that. The
    same holds for what a fault that was over before the task may have left.
    """
    found = {name for step in steps if step.src for name in (step.src, step.site)}
    found |= _name_hops(run, ((step.src, step.site) for step in steps if step.src))
    if not touched or not found.isdisjoint(touched):  # without targets, such as a redraw: all
        return (*RESTS, "cold start")
    fed = _list_feeding(task, steps)
    return () if _name_hops(run, fed).isdisjoint(touched) else RESTS


def _list_feeding(task: Task, steps: Iterable[PathStep]) -> set[Directed]:
    """The transfers that brought something to the senders of a way before, directly or not."""
    found: set[Directed] = set()
    left = [(step.src, step.end_ns) for step in steps if step.src]
    while left:
        site, until_ns = left.pop()
        for event in task.all(Received):
            ends = event.src, event.site
            if event.site == site and event.start_ns < until_ns and ends not in found:
                found.add(ends)
                left.append((event.src, event.end_ns))
    return found


def _name_hops(run: Run, pairs: Iterable[Directed]) -> set[str]:
    """The links of the ways between pairs of sites, in both directions."""
    ways = (way for ends in {*pairs} for way in (ends, ends[::-1]))
    return {" -> ".join(hop) for way in ways for hop in run.list_hops(way)}


def _find_main(parts: Collection[Part], seconds: float) -> Part | None:
    """The longest unexpected part that explains half of that time or more; else the longest."""
    unexpected = [e for e in parts if e.cause not in PLANNED and 2 * e.seconds >= seconds]
    return max(unexpected or parts, key=lambda part: part.seconds, default=None)


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
