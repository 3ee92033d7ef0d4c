"""The numbers of programs with timed calls in a page's summary (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.harness.config.units import TIME_S, count_of, short
from trunkline.harness.report.calls.calls_in_faults import LEAST_S, find_fault_times
from trunkline.harness.report.calls.pace import find_pace
from trunkline.harness.report.calls.steps.step_tables import rank_parts, sum_steps
from trunkline.harness.report.run_data import RunData

SHOWN = 3
"""The most parts of a program's time that are named."""


def list_tiles(data: RunData) -> Iterator[tuple[str, str, str]]:
    """The time of a step, where the time went, and what faults cost; none without timed calls."""
    calls, steps = data.tables.get("calls"), data.tables.get("steps")
    if calls is None or steps is None or not len(calls):
        return
    if pace := find_pace(steps.to_dict("records"), calls.to_dict("records")):
        what, count = "mean step time", count_of(len(pace.times_s), "step")
        if not pace.of_steps:
            what, count = "mean time between calls", count_of(len(pace.times_s), "time")
        yield what, pace.mean, f"{pace.spread}; {count}"
    sums, programs = sum_steps(steps), data.scenario.programs
    parts = rank_parts(data.history, programs, sums)
    for share, _, name in parts[:1]:
        others = [f"{other:.0f} % {words}" for other, _, words in parts[1:SHOWN]]
        yield name, f"{share:.0f} %", "; ".join(["of a program's time", *others])
    times = find_fault_times(data.history, programs)
    if (lost_s := times.measure_s(len(sums))) >= LEAST_S:
        least = "at least " if times.unknown else ""
        whose = f"{least}{100 * lost_s / sums['duration_s'].mean():.0f} % of a program's time"
        yield "cost of faults", short(lost_s, TIME_S), whose
