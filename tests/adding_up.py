"""What the numbers of an explanation must add up to."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.harness.report.explanations.explanation import Explanation

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
    costs_s = found.costs_s.values()
    if min(costs_s, default=0.0) < 0 or sum(costs_s) > max(0.0, found.lost_s) + LEAST_S:
        yield f"faults cost {found.costs_s} of {found.lost_s:.3f} s"
    longer_s = sum(each.longer_s for each in found.costs.values())
    if not found.is_abandoned and longer_s > max(0.0, found.late_s) + LEAST_S:
        yield f"faults made it {longer_s:.3f} s longer, of {found.late_s:.3f} s"
    for late in (each.late for each in found.failures):
        if not 0 <= late.faults_s <= late.seconds + LEAST_S:
            yield f"{late} has more than its time"
