"""What the numbers of an explanation must add up to."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.told.lost_time_bars import divide, divide_before

LEAST_S = 1e-6


def list_broken(found: Explanation) -> Iterator[str]:
    """What does not add up in one explanation."""
    begin_ns = found.task.started.t_ns
    for step in found.steps:
        if step.start_ns != begin_ns or step.end_ns < begin_ns:
            yield f"{step} does not follow the step before it"
        begin_ns = step.end_ns
    if found.steps and begin_ns != found.task.end_ns:
        yield "the path does not end with the task"
    for part in found.parts:
        if not 0 <= part.seconds <= found.duration_s + LEAST_S:
            yield f"{part} is no part of {found.duration_s:.3f} s"
    sum_s = sum(part.seconds for part in found.parts)
    if found.parts and abs(sum_s - found.duration_s) > LEAST_S:
        yield f"the parts take {sum_s:.3f} s of {found.duration_s:.3f} s"
    taken_s = found.taken_s.values()
    whole_s = found.duration_s + sum(each.late.seconds for each in found.failures)
    if min(taken_s, default=0.0) < 0 or sum(taken_s) > whole_s + LEAST_S:
        yield f"faults took {found.taken_s} of {whole_s:.3f} s"
    if found.wait is not None:
        waited_s = sum(each.seconds for each in found.wait.stretches)
        if found.wait.stretches and abs(waited_s - found.wait.decide_s) > LEAST_S:
            yield f"the stretches take {waited_s:.3f} s of {found.wait.decide_s:.3f} s"
        if sum(found.before_s.values()) > found.wait.lost_s + LEAST_S:
            yield f"faults took {found.before_s} of the wait, {found.wait.lost_s:.3f} s"
    bars = divide_before(found), divide(found)
    lost_s = 0.0 if found.wait is None else found.wait.lost_s
    drawn = [sum(each.values()) for each in bars]
    if max(abs(drawn[0] - lost_s), abs(drawn[1] - found.duration_s)) > LEAST_S:
        yield f"its bar has {drawn} s, but it lost {lost_s} s before it took {found.duration_s} s"
    if min(seconds for each in bars for seconds in each.values()) < -LEAST_S:
        yield f"its bar has parts of less than 0 s: {bars}"
    for late in (each.late for each in found.failures):
        if not 0 <= late.faults_s <= late.seconds + LEAST_S:
            yield f"{late} has more than its time"
