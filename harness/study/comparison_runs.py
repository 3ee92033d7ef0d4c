"""Carry out a comparison: plan its runs, run those that are missing, write its results.

    comparisons/<scenario>/
        comparison.html              a page of all cells, and of the first trial of each
        tables/{trials,cells}.csv    a row per trial; a row per cell, with intervals
        plots/*.png plots/*.svg plots/*.pdf
        runs/<cell>/<time>/          each trial's run folder

A finished run is recognized by a hash of its scenario and code (`harness.runs.provenance`). So an
interrupted comparison continues, a larger grid uses the runs of a smaller one, and runs of older
code or with a damaged log are repeated.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from trunkline.harness.checks.verdict import EXPECTED, Verdict
from trunkline.harness.config.document import Problem, ScenarioErrors
from trunkline.harness.live.sweep_progress import Running, SweepProgress
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.report import outputs, plots
from trunkline.harness.report.pages.accuracy_section import Curve
from trunkline.harness.report.pages.comparison import comparison_page as page
from trunkline.harness.runs import finished_runs, provenance, run_pool, run_record, runner
from trunkline.harness.runs.finished_runs import Tries
from trunkline.harness.runs.run_pool import Finished, Job, Pool
from trunkline.harness.runs.run_record import RECORD, combine_outcome
from trunkline.harness.scenario.loading import parse, read_file
from trunkline.harness.scenario.settings import MAX_NAME, Scenario
from trunkline.harness.study import (
    accuracy_curves,
    comparison,
    comparison_plots,
    comparison_tables,
    expectation_maps,
    trial_progress,
)
from trunkline.harness.study.comparison import EXPECTATIONS
from trunkline.harness.study.grid import (
    Axis,
    Cell,
    GridError,
    add_cells,
    combine,
    combine_beside,
    is_shared,
    name_option,
    refuse_conflicts,
)

PAGE = "comparison.html"
Changes = tuple[str, ...]

OnProgress = Callable[[SweepProgress], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """How trials come about: what determines their results, what they need, who carries them out.

    `list_obstacles` says why a scenario cannot be carried out at all.
    """

    identify: Callable[[Scenario], str]
    list_obstacles: Callable[[Scenario], Iterable[str]]
    check_machine: Callable[[Scenario], None]
    carry_out: Callable[..., None]


RUNS = Kind(
    lambda scenario: provenance.identify_run(scenario),
    lambda _: (),
    lambda scenario: runner.check_machine(scenario),
    lambda *arguments: run_pool.run(*arguments),
)
"""Trials are runs."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the comparison: its cell, its number within the cell from 0, and its job."""

    cell: Cell
    number: int
    job: Job


@dataclass(frozen=True, slots=True)
class Comparison:
    """A planned comparison, all of whose scenarios are valid.

    Attributes:
        name: the first scenario's name.
        trials: every trial, cell by cell.
        real_time: whether any trial uses the real clock, on which simultaneous runs disturb each
            other.
        elsewhere: the other scenarios whose network differs from the first one's.
        labels: a name for each cell, in their order; empty for the varied values.
        kind: how its trials come about.
        predicted: the numbers that a model predicts of each trial, by its identity.
        command: the command that carries it out.
        width_in: the width of its figures in inches; None for one that their names need.
    """

    name: str
    trials: tuple[Trial, ...]
    real_time: bool
    elsewhere: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    kind: Kind = RUNS
    predicted: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    command: str = ""
    width_in: float | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The varied keys."""
        return tuple(key for key, _ in self.trials[0].cell.values)

    def name_variants(
        self, trials: pd.DataFrame, cells: pd.DataFrame
    ) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
        """The tables of trials and cells, and the keys, as they are shown."""
        return comparison.name_variants(trials, cells, self.keys, self.labels, self.name)


def plan(
    path: str | Path,
    axes: Sequence[Axis],
    trials: int,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    draw: bool = False,
    beside: Sequence[str | Path] = (),
    on_progress: Callable[[int, int], None] = lambda planned, total: None,
    kind: Kind = RUNS,
) -> Comparison:
    """Plan the trials; trial t of every cell has the scenario's seed plus t.

    Args:
        path: the scenario's file.
        axes: the varied keys and their values.
        trials: the number of trials per cell.
        overrides: `key.path=value` changes for all cells.
        seed: replaces the scenario's seed.
        draw: whether to draw the figures of every run.
        beside: other scenarios to compare with. They get the same seeds, and those axes and
            overrides that are shared (`grid.SHARED`).
        on_progress: gets the number of planned trials and that of all trials.
        kind: how trials come about.

    Raises:
        ScenarioErrors: all problems of all scenarios.
        GridError: two files have the same name, a key is set twice, or trials of this kind cannot
            be carried out.
    """
    files = [str(path), *map(str, beside)]
    names = [Path(file).stem for file in files]
    for file, name in zip(files, names, strict=True):
        if names.count(name) > 1:
            raise GridError(f"{file}: expected files of different names beside each other")
    shared = tuple(each for each in overrides if is_shared(each))
    grids = [combine(axes, names[0] if beside else None)]
    grids += [combine_beside(axes, name) for name in names[1:]]
    refuse_conflicts(grids[0], overrides)
    problems: defaultdict[Problem, list[Cell]] = defaultdict(list)
    obstacles: dict[str, Cell] = {}
    planned: list[tuple[Trial, Scenario]] = []
    total = trials * sum(map(len, grids))
    for file, grid in zip(files, grids, strict=True):
        text = read_file(file)
        for cell in grid:
            changes = (*(overrides if file == files[0] else shared), *cell.overrides)
            try:
                if seed is None:
                    seed = parse(text, file, changes).seed
                for number in range(trials):
                    here = () if number else ("programs", "checks")
                    scenario = parse(text, file, changes, seed + number, here=here)
                    for obstacle in kind.list_obstacles(scenario):
                        obstacles[obstacle] = cell
                    identity = kind.identify(scenario)
                    job = _make_job(scenario, cell, file, text, changes, draw, identity)
                    planned.append((Trial(cell, number, job), scenario))
                    on_progress(len(planned), total)
            except ScenarioErrors as errors:
                for problem in errors.problems:
                    problems[name_option(problem, cell)].append(cell)
    if problems:
        raise ScenarioErrors(add_cells(problems, sum(map(len, grids))))
    if obstacles:
        raise GridError("\n".join(f"{text} (with {cell})" for text, cell in obstacles.items()))
    # The first trial of each file: dictionaries keep the last value.
    scenarios = {trial.job.file: scenario for trial, scenario in reversed(planned)}
    here = _get_network(scenarios[files[0]])
    return Comparison(
        scenarios[files[0]].name,
        tuple(trial for trial, _ in planned),
        any(scenario.clock == "real" for _, scenario in planned),
        tuple(
            name
            for name, file in zip(names, files, strict=True)
            if _get_network(scenarios[file]) != here
        ),
        kind=kind,
    )


def find_finished(spec: Comparison, folder: Path) -> dict[str, Path]:
    """Identity -> run folder of the trials that have finished; damaged runs are left out."""
    return run_record.find(folder / "runs", {trial.job.identity for trial in spec.trials})


def run(
    spec: Comparison,
    folder: Path,
    at_once: int,
    on_progress: OnProgress,
    on_identical: Callable[[Sequence[str]], None] = lambda lines: None,
    cluster: AbstractContextManager[Pool] | None = None,
) -> pd.DataFrame:
    """Run missing trials, up to `at_once` at a time; write tables and figures of all trials.

    `cluster` carries them out in place of this machine, and says itself how many go on at a time.
    It is entered if trials are missing, and left before tables are written.

    The first trials of all cells come before the second ones. Once all cells have two, and if more
    follow, `on_identical` gets a line for each cell whose first two have come out identical.

    Returns the table of trials. If it is interrupted, finished runs stay for the next time, and the
    page shows them; there are no figures then. Raises StoreError if the folder cannot be written or
    another comparison uses it, and KernelError if the machine lacks something.
    """
    if cluster is None:
        check_machine(spec, folder)
    output = RunFolder(folder)
    output.prepare("runs", "tables", "plots")
    with finished_runs.lock(folder):
        there = find_finished(spec, folder)
        sweep = trial_progress.make(spec, spec.trials)
        for identity, run_dir in there.items():
            sweep.note_before(identity, finished_runs.judge_again(run_dir))
            on_progress(sweep)
        missing = list_missing(list_in_turn(spec), folder, there)
        errors: dict[str, str] = {}
        tries = Tries(output)
        first = [trial for trial in spec.trials if trial.number < 2]
        waited_for = {t.job.identity for t in first if len(first) < len(spec.trials)} & {*missing}

        def on_finished(result: Finished) -> None:
            sweep.note_finished(result.job.identity, result.outcome, result.tries)
            tries.note_finished(result)
            if result.run_dir is None:
                errors[result.job.identity] = result.error or ""
            if result.job.identity in waited_for:
                waited_for.remove(result.job.identity)
                if not waited_for and (same := _list_identical(spec, first, errors, folder)):
                    on_identical(same)

        tell = run_pool.tell_progress(sweep, on_progress)

        def on_running(running: Sequence[Running]) -> None:
            tries.note_running(running)
            tell(running)

        own = contextlib.nullcontext(spec.kind.carry_out)
        try:
            with cluster if cluster and missing else own as carry_out:
                carry_out(missing.values(), folder / "runs", at_once, on_finished, on_running)
        except KeyboardInterrupt:
            tries.forget_running()
            shown = spec.name_variants(*_write_tables(spec, output, errors))
            _write_page(spec, output, *shown, [])
            raise
        trials, summary = _write_tables(spec, output, errors)
        shown = spec.name_variants(trials, summary)
        _write_figures(output, *shown, spec.width_in)
        jobs = {trial.cell: trial.job for trial in spec.trials}  # of each cell, in their order
        targets = [job.load().stop.accuracy_percent for job in jobs.values()]
        curves = accuracy_curves.write(output, *shown, targets, spec.width_in)
        _write_page(spec, output, *shown, curves)
    return trials


def list_in_turn(spec: Comparison) -> list[Trial]:
    """The first trials of all cells, then the second ones."""
    return sorted(spec.trials, key=lambda trial: trial.number)


def list_missing(
    trials: Sequence[Trial], folder: Path, there: Mapping[str, Path]
) -> dict[str, Job]:
    """Identity -> job of the trials that are not there; their unfinished folders are removed."""
    missing = {t.job.identity: t.job for t in trials if t.job.identity not in there}
    for job in missing.values():
        finished_runs.clear(folder / "runs" / job.name)
    return missing


def check_machine(spec: Comparison, folder: Path) -> None:
    """Try what the first missing trial needs of this machine: the others need the same."""
    there = find_finished(spec, folder)
    job = next((t.job for t in spec.trials if t.job.identity not in there), None)
    if job is not None:
        spec.kind.check_machine(job.load())


def _make_job(
    scenario: Scenario,
    cell: Cell,
    file: str,
    text: str,
    changes: Changes,
    draw: bool,
    identity: str,
) -> Job:
    end = f"-seed{scenario.seed}-{identity[: finished_runs.MARK]}"
    words = "-".join(value for _, value in cell.values) or scenario.name
    start = re.sub(r"[^A-Za-z0-9.]+", "-", words).strip("-.") or "cell"
    name = start[: MAX_NAME - len(end)] + end
    return Job(name, file, text, changes, scenario.seed, identity, draw)


def _get_network(scenario: Scenario) -> tuple[Any, ...]:
    return scenario.topology, scenario.network, scenario.backend, scenario.clock


def _write_tables(
    spec: Comparison, output: RunFolder, errors: Mapping[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    output.clear_figures()
    path, there = output.path, find_finished(spec, output.path)
    rows = [_make_row(spec, t, there.get(t.job.identity), errors, path) for t in spec.trials]
    if tries := Tries(output).list_all([t.job.identity for t in spec.trials]):
        rows = [{**row, "tries": n} for row, n in zip(rows, tries, strict=True)]
    columns = dict.fromkeys(column for row in rows for column in row)
    ordered = [column for column in columns if column not in ("run", "error")] + ["run", "error"]
    trials = pd.DataFrame(rows, columns=ordered)
    summary = comparison.summarize(trials, spec.keys)
    labels = dict(zip(_list_cells(spec), spec.labels, strict=False))
    for name, table, cells in (
        ("trials", trials, [trial.cell for trial in spec.trials]),
        ("cells", summary, _list_cells(spec)),
    ):
        labelled = table.assign(label=[labels[cell] for cell in cells]) if labels else table
        output.write_table(name, labelled)
    return trials, summary


def _list_cells(spec: Comparison) -> list[Cell]:
    """The cells, each once."""
    return list(dict.fromkeys(trial.cell for trial in spec.trials))


def _list_identical(
    spec: Comparison, trials: Sequence[Trial], errors: Mapping[str, str], folder: Path
) -> list[str]:
    """A line for each cell whose trials, of these, came out identical."""
    there = find_finished(spec, folder)
    rows = [_make_row(spec, t, there.get(t.job.identity), errors, folder) for t in trials]
    return list(comparison.list_identical(pd.DataFrame(rows), spec.keys))


def _make_row(
    spec: Comparison, trial: Trial, run_dir: Path | None, errors: Mapping[str, str], folder: Path
) -> dict[str, Any]:
    row: dict[str, Any] = {**dict(trial.cell.values), "trial": trial.number}
    row |= {"seed": trial.job.seed}
    identity = trial.job.identity
    predicted = spec.predicted.get(identity, {})
    row |= {f"{comparison.PREDICTED}{name}": value for name, value in predicted.items()}
    if run_dir is None:
        verdict = "error" if identity in errors else "missing"
        return {**row, "verdict": verdict, "run": "", "error": errors.get(identity, "")}
    said = json.loads((run_dir / RECORD).read_text(encoding="utf-8"))
    judged = json.loads((run_dir / "verdict.json").read_text(encoding="utf-8"))
    row["verdict"] = combine_outcome(judged["verdict"], said["error"])
    if any(check["name"].startswith(EXPECTED) for check in judged.get("checks", ())):
        row[EXPECTATIONS] = expectation_maps.judge_trial(judged["checks"])
    table = run_dir / "tables" / "run.csv"
    if table.exists():  # an unreadable log has no tables
        found = pd.read_csv(table, dtype={"by_hand": str}).fillna({"by_hand": ""})
        row |= {str(key): value for key, value in found.to_dict("records")[0].items()}
    error = said["error"] or ""
    if row.get("by_hand") and row["verdict"] == "pass":  # it no longer represents its cell
        row["verdict"], error = "unknown", f"by hand: {row['by_hand']}"
        row |= {EXPECTATIONS: ""} if EXPECTATIONS in row else {}
    elif not error:
        error = "".join(Verdict.of_json({"checks": (), **judged}).problems[:1])
    row |= finished_runs.describe_machine(run_dir)
    return {**row, "run": str(run_dir.relative_to(folder)), "error": error}


def _write_page(
    spec: Comparison,
    output: RunFolder,
    trials: pd.DataFrame,
    summary: pd.DataFrame,
    keys: Sequence[str],
    curves: Sequence[Curve],
) -> None:
    page_file = output.path / PAGE
    page_file.unlink(missing_ok=True)  # there may be no runs for a new page
    names = comparison.name_cells(summary, keys)
    firsts = trials.drop_duplicates(list(keys))
    there = {
        name: output.path / run
        for name, run in zip(names, firsts["run"], strict=True)
        if run and (output.path / run / "events.jsonl").exists()
    }
    if shown := list(there)[: page.DRAWN]:
        cells = comparison_tables.make_cells(
            spec.name, spec.keys, spec.command, trials, summary, keys
        )
        cells = replace(cells, curves=curves)
        outputs.compare([there[name] for name in shown], page_file, cells, shown)


def _write_figures(
    output: RunFolder,
    trials: pd.DataFrame,
    summary: pd.DataFrame,
    keys: Sequence[str],
    width_in: float | None,
) -> None:
    for metric, label in comparison.METRICS.items():
        if metric in trials and trials[metric].nunique() > 1:
            marks = {f"{comparison.PREDICTED}{metric}": f"fluid_{metric}"}
            figure = comparison_plots.draw(
                trials, summary.rename(columns=marks), keys, metric, label, width_in
            )
            plots.write(output, metric, figure)
    if maps := list(expectation_maps.list_maps(summary, keys)):
        plots.write(output, EXPECTATIONS, expectation_maps.draw(maps, width_in))
