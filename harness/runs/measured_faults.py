"""Measures what the faults of a run cost it: carries the run out again, without some of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.costs.measured_costs import (
    ALL,
    MOST,
    Measured,
    Outcome,
    describe_step,
    ends_by_time,
    list_entries,
    list_runs,
    list_steps,
    number_steps,
)
from trunkline.harness.report.manual_actions import find_end_ns, list_typed
from trunkline.harness.report.run_data import RunData
from trunkline.harness.runs import runner
from trunkline.harness.scenario.settings import Scenario


def measure(run_dir: Path, data: RunData, on_run: Callable[[str], None]) -> Measured:
    """Carry out a run again without its faults, with the first one, and so on.

    The runs are kept in a folder of the run's, and so is the result, which its explanation has from
    now on. What a user typed is in the timeline of these runs, and an end by hand is their time;
    then one of them has all faults.
    `on_run` hears what runs next. Raises what `runner.run` raises, and ValueError if a run has no
    task that ended.
    """
    entries = list_entries(data.scenario, data.history)
    steps = list_steps(entries)
    counts = [sum(map(len, steps[:place])) for place in range(len(steps) + 1)]
    by_hand = list_typed(data.history) or find_end_ns(data.history) is not None
    again = counts if by_hand else counts[:-1]
    plain = _prepare(data)
    outcomes = []
    for place, count in enumerate(again):
        which = describe_step(entries[:count]) if count else "no fault"
        on_run(f"run {place + 1} of {len(again)}: with {which}")
        changed = replace(plain, timeline=entries[:count])
        folder = run_dir / outputs.WITHOUT_FAULTS
        done = runner.run(changed, run_dir / "resolved.yaml", folder, lambda _: None)
        try:
            outcomes.append(Outcome.of(count, outputs.read(done.run_dir)))
        except ValueError as error:
            raise ValueError(f"{done.run_dir}: {error}") from None
    if len(again) < len(counts):
        outcomes.append(Outcome.of(counts[-1], data))
    is_whole = len(steps) == 1 and len(entries) > MOST
    found = Measured(
        tuple(ALL if is_whole else describe_step(step) for step in steps),
        tuple(outcomes),
        number_steps(steps, data.history),
        ends_by_time(data.history),
        data.scenario.clock == "real",
        list_runs(data.history.tasks),
    )
    RunFolder(run_dir).write_json(outputs.MEASURED, found.to_json())
    return found


def _prepare(data: RunData) -> Scenario:
    """The run's scenario without figures; it ends when a user ended the run, if one did."""
    scenario = data.scenario
    plain = replace(scenario, outputs=replace(scenario.outputs, plots=False))
    if (end_ns := find_end_ns(data.history)) is None:
        return plain
    time_s = end_ns / 1e9 - (scenario.warm_up.time_s or 0.0)
    return replace(plain, stop=replace(plain.stop, time_s=time_s))
