"""Run a scenario many times with random faults, and minimize the first failure.

Every run has its own seed, which also determines its faults, so a failure can be repeated. The
random faults of a failed run become a list of single faults. Faults are removed from it as long as
the run still fails; the rest is a small scenario that shows the problem.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from trunkline.agents.events import event_reading
from trunkline.agents.events.connection_events import ControllerLost, LinkLost
from trunkline.agents.events.fault_events import FaultStarted
from trunkline.agents.events.task_events import (
    TaskDropped,
    TaskFinished,
    TaskHalted,
    TaskRearranged,
    TaskReplanned,
    TaskStarted,
)
from trunkline.harness.faults.fault_syntax import parse as parse_fault
from trunkline.harness.faults.fault_types import Churn
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.live.sweep_progress import SweepProgress
from trunkline.harness.record.history import History
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.runs import provenance, run_pool, runner
from trunkline.harness.runs.run_pool import Finished, Job, Pool
from trunkline.harness.scenario.loading import parse, read_file, resolve
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.model import Topology

CHURN = "churn outages=8s pauses=25s kills=25s controller=30s lasting=0.5..6s links=2 agents=2"
"""The random faults of a scenario without a timeline."""

FAILURES = ("fail", "error")
"""Outcomes that end a soak."""

TRIED = "tried.yaml"
"""The file of the scenario that is currently tried while a failure is minimized."""


@dataclass(frozen=True, slots=True)
class Soak:
    """Runs of one scenario with several seeds; `scenario` has the first seed."""

    scenario: Scenario
    file: str
    text: str
    overrides: tuple[str, ...]
    seeds: tuple[int, ...]

    def job(self, seed: int) -> Job:
        """Make the job of the run with this seed."""
        scenario = parse(self.text, self.file, self.overrides, seed)
        identity = provenance.identify_run(scenario)
        return Job(scenario.name, self.file, self.text, self.overrides, seed, identity)


def plan(
    path: str | Path,
    runs: int,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    churn: str | None = None,
) -> Soak:
    """Plan the runs; run n, from 0, has the scenario's seed plus n.

    `churn` replaces the scenario's timeline by random faults in the syntax of a timeline, with or
    without its first word. Without
    `churn`, a scenario that has no timeline gets CHURN. Raises ScenarioErrors.
    """
    text = read_file(path)
    first = parse(text, str(path), overrides, seed)
    changes = tuple(overrides)
    if churn is not None or not first.timeline:
        words = churn or CHURN
        text_of = words if words.split()[:1] == [Churn.VERB] else f"{Churn.VERB} {words}"
        entry = json.dumps({"do": text_of})
        changes = (*overrides, f"timeline=[{entry}]")
        first = parse(text, str(path), changes, seed)
    seeds = tuple(range(first.seed, first.seed + runs))
    return Soak(first, str(path), text, changes, seeds)


class _FailedError(Exception):
    """Stops the pool after a run has failed."""


def run(
    spec: Soak,
    folder: Path,
    at_once: int,
    on_progress: Callable[[SweepProgress], None],
    keep: int | None = 0,
    pool: Pool | None = None,
) -> tuple[pd.DataFrame, Finished | None]:
    """Run all, up to `at_once` at a time, until one fails.

    Returns the table of runs, which is also `tables/runs.csv`, and the run that failed. The folders
    of the last `keep` runs that passed stay (None: of all), as do those of runs that did not.
    `pool` carries them out in place of this machine. Raises KernelError if this machine lacks
    something.
    """
    if pool is None:
        runner.check_machine(spec.scenario)
    output = RunFolder(folder)
    output.prepare("runs", "tables")
    rows: list[dict[str, Any]] = []
    failed: list[Finished] = []
    passed: deque[Path] = deque()
    sweep = SweepProgress({spec.scenario.name: len(spec.seeds)})

    def on_finished(result: Finished) -> None:
        sweep.note_finished(result.job.identity, result.outcome, result.tries)
        rows.append(describe_run(result))
        if result.outcome == "pass" and result.run_dir is not None:
            passed.append(result.run_dir)
        while keep is not None and len(passed) > keep:
            RunFolder(passed.popleft()).remove()
        output.write_table("runs", pd.DataFrame(rows))
        if result.outcome in FAILURES:
            failed.append(result)
            on_progress(sweep)
            raise _FailedError

    on_running = run_pool.tell_progress(sweep, on_progress)
    with contextlib.suppress(_FailedError):
        carry_out = pool or run_pool.run
        carry_out(map(spec.job, spec.seeds), folder / "runs", at_once, on_finished, on_running)
    return pd.DataFrame(rows), failed[0] if failed else None


def expand_faults(run_dir: Path, topology: Topology) -> tuple[Entry, ...]:
    """The single faults of a run with their times, in place of its `churn`."""
    with (run_dir / "events.jsonl").open(encoding="utf-8") as lines:
        history = History.of(event_reading.read(lines))
    start_ns = min((event.t_ns for event in history.all(TaskStarted)), default=0)
    entries = []
    for event in history.all(FaultStarted):
        fault = parse_fault(event.text, topology, targets=())
        if not isinstance(fault, Churn):
            entries.append(Entry((event.t_ns - start_ns) / 1e9, fault))
    return tuple(entries)


def shrink(
    entries: Sequence[Entry], fails: Callable[[Sequence[Entry]], bool], tries: int
) -> tuple[Entry, ...]:
    """Reduce the entries while `fails` holds for the rest, in at most `tries` calls of it.

    It tries to leave out halves, then quarters, down to single entries (Zeller's delta debugging,
    without its tests of the parts alone).
    """
    kept = tuple(entries)
    size = max(1, len(kept) // 2)
    while kept and tries:
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            tries -= 1
            if fails(rest):
                kept, size = rest, max(1, min(size, len(rest) // 2))
                break
            if not tries:
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
    return kept


def minimize(
    spec: Soak,
    seed: int,
    entries: Sequence[Entry],
    folder: Path,
    tries: int,
    on_failing: Callable[[Scenario], None],
) -> Scenario | None:
    """Minimize a failure: the scenario with as few of these faults as still make it fail.

    `on_failing` gets each failing scenario, which has fewer and fewer faults. Returns None if the
    run passes with all of the faults.
    """
    scenario = parse(spec.text, spec.file, spec.overrides, seed)

    def fails(some: Sequence[Entry]) -> bool:
        tried = replace(scenario, timeline=tuple(some))
        failed = _try_scenario(tried, folder) in FAILURES
        if failed:
            on_failing(tried)
        return failed

    if not fails(entries):
        return None
    return replace(scenario, timeline=shrink(entries, fails, tries))


def sum_up(rows: pd.DataFrame) -> dict[str, int]:
    """The totals of all runs."""
    columns = [name for name in rows if name not in ("seed", "outcome", "error")]
    sums = {str(name): int(rows[name].sum()) for name in columns}
    return {"runs": len(rows), "passed": int((rows["outcome"] == "pass").sum()), **sums}


def _try_scenario(scenario: Scenario, folder: Path) -> str:
    """Run the scenario, remove the run, and return its outcome. Raises StoreError."""
    output = RunFolder(folder)
    text = resolve(scenario)
    output.write_text(TRIED, text)
    file = str(output.path / TRIED)
    identity = provenance.identify_run(scenario)
    job = Job(scenario.name, file, text, (), scenario.seed, identity)
    results: list[Finished] = []
    run_pool.run([job], folder / "runs", 1, results.append, lambda _: None)
    if results[0].run_dir is not None:
        RunFolder(results[0].run_dir).remove()
    output.path.joinpath(TRIED).unlink()
    return results[0].outcome


def describe_run(result: Finished) -> dict[str, Any]:
    """The row of a run: its outcome, its faults, and the outcomes of its tasks."""
    row = {"seed": result.job.seed, "outcome": result.outcome, "error": result.error or ""}
    if result.run_dir is None:
        return row
    try:
        with (result.run_dir / "events.jsonl").open(encoding="utf-8") as lines:
            history = History.of(event_reading.read(lines))
    except event_reading.EventError:
        return row
    verbs = Counter(event.verb for event in history.all(FaultStarted))
    controller = sum(
        event.targets == ("controller",) and event.verb == "kill"
        for event in history.all(FaultStarted)
    )
    kinds = (LinkLost, ControllerLost, TaskRearranged, TaskHalted, TaskReplanned)
    link_lost, controller_lost, rearranged, halted, replanned = (
        len(history.all(kind)) for kind in kinds
    )
    return {
        **row,
        "outages": verbs["outage"],
        "pauses": verbs["pause"],
        "kills": verbs["kill"] - controller,
        "controller_kills": controller,
        "link_lost": link_lost,
        "controller_lost": controller_lost,
        "tasks": len(history.tasks),
        "completed": len(history.completed),
        "abandoned": sum(task.outcome == "abandoned" for task in history.tasks),
        "split": sum(
            bool(task.all(TaskFinished) and task.all(TaskDropped)) for task in history.tasks
        ),
        "rearranged": rearranged,
        "halted": halted,
        "replanned": replanned,
    }
