"""Predictions as run folders: what a run would leave, made of the events of the fluid model.

    predictions/<scenario>/<YYYYmmdd-HHMMSS[-k]>/    as a run's folder, without log/

The event `Predicted` marks its log. So its verdict is `prediction` wherever the log is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path

import pandas as pd

from trunkline.agents.events.event_writing import to_line
from trunkline.harness.checks.verdict import PREDICTION
from trunkline.harness.fluid import fluid_run
from trunkline.harness.fluid.fluid_log import MODEL
from trunkline.harness.live.sweep_progress import Running
from trunkline.harness.processes.worker_processes import worker_processes
from trunkline.harness.record.history import History
from trunkline.harness.record.run_folder import RunFolder, environment
from trunkline.harness.report import outputs
from trunkline.harness.report.parts.report_parts import make_tables
from trunkline.harness.runs import provenance
from trunkline.harness.runs.run_pool import POLL_S, Finished, Job
from trunkline.harness.runs.run_process import make_record
from trunkline.harness.runs.run_record import RECORD, hash_log
from trunkline.harness.runs.runner import RunResult
from trunkline.harness.scenario.loading import resolve
from trunkline.harness.scenario.settings import Outputs, Scenario
from trunkline.harness.study.comparison import METRICS
from trunkline.harness.study.comparison_runs import Comparison, Kind, Trial


def list_obstacles(scenario: Scenario) -> Iterator[str]:
    """Why a scenario cannot be predicted."""
    yield from fluid_run.list_obstacles(scenario)
    if scenario.capture.ends:
        yield "capture.links: the model has no packets to capture"


def predict(scenario: Scenario, source: Path, runs_dir: Path) -> RunResult:
    """Predict a scenario, and write all that a run would leave. There must be no obstacles.

    Raises StoreError if the folder cannot be written.
    """
    folder = RunFolder.create(runs_dir.resolve(), scenario.name, datetime.now())
    folder.write_bytes("scenario.yaml", source.read_bytes())
    folder.write_text("resolved.yaml", resolve(scenario))
    where = environment(backend=MODEL, clock=scenario.clock, seed=scenario.seed, guest_kernel=None)
    changes = {"overrides": list(scenario.overrides)} if scenario.overrides else {}
    folder.write_json("environment.json", {**where, **changes})
    events = fluid_run.predict_events(scenario)
    folder.write_bytes("events.jsonl", b"".join(map(to_line, events)))
    folder.be_latest()
    return RunResult(outputs.build(folder.path), folder.path, None)


def predict_numbers(scenario: Scenario) -> Mapping[str, float]:
    """Those METRICS of a run that the model predicts; none if it cannot."""
    if any(fluid_run.list_obstacles(scenario)):
        return {}
    history = History.of(fluid_run.predict_events(scenario))
    row = make_tables(scenario, history)["run"].iloc[0]
    return {name: float(row[name]) for name in METRICS if name in row and pd.notna(row[name])}


def predict_beside(
    spec: Comparison, at_once: int, on_progress: Callable[[int, int], None]
) -> Mapping[str, Mapping[str, float]]:
    """The numbers of each trial that can be predicted, by its identity.

    `on_progress` gets the number of trials that were tried, and of all.
    """
    with worker_processes(at_once) as processes:
        found: dict[str, Mapping[str, float]] = {}
        rows = processes.map(_predict_trial, spec.trials)
        for done, (trial, row) in enumerate(zip(spec.trials, rows, strict=True), 1):
            found |= {trial.job.identity: row} if row else {}
            on_progress(done, len(spec.trials))
    return found


def identify(scenario: Scenario) -> str:
    """A hash of all that determines a prediction; never that of a run."""
    return provenance.identify_run(scenario, ("trunkline.harness.fluid.fluid_run",))


def carry_out(
    jobs: Iterable[Job],
    runs_dir: Path,
    at_once: int,
    on_finished: Callable[[Finished], None],
    on_running: Callable[[Sequence[Running]], None],
) -> None:
    """Predict all jobs, `at_once` in parallel; see `run_pool.run`."""
    with worker_processes(at_once) as processes:
        waiting, started = iter(jobs), dict[Future[Finished], Job]()
        while True:
            for job in islice(waiting, 2 * at_once - len(started)):  # no process waits for its next
                started[processes.submit(_carry_out_job, job, runs_dir)] = job
            on_running([Running(job.identity) for job in islice(started.values(), at_once)])
            if not started:
                return
            for each in wait(started, POLL_S, FIRST_COMPLETED).done:
                del started[each]
                on_finished(each.result())


PREDICTIONS = Kind(identify, list_obstacles, lambda scenario: None, carry_out)
"""Trials are predictions."""


def _predict_trial(trial: Trial) -> Mapping[str, float]:
    return predict_numbers(trial.job.load())


def _carry_out_job(job: Job, runs_dir: Path) -> Finished:
    named = replace(job.load(), name=job.name, outputs=Outputs(plots=job.plots))
    result = predict(named, Path(job.file), runs_dir)
    record = make_record(job.identity, hash_log(result.run_dir), None)
    RunFolder(result.run_dir).write_json(RECORD, record)
    return Finished(job, PREDICTION, result.run_dir, None)
