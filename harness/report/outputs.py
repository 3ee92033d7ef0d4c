"""Make the tables, figures, page and verdict of a finished run from its folder.

Tables, figures and verdict depend on `events.jsonl` and `resolved.yaml` alone, and on captures and
`checks.json` where there are any: a later version can make them again, and the verdict does not
depend on the state of the run's own processes. The page also shows `environment.json` and the
original `scenario.yaml`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trunkline.agents.events import event_reading
from trunkline.agents.events.event import Event
from trunkline.agents.events.event_reading import EventError
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks import judging
from trunkline.harness.checks.expectations.user_check import UserCheck
from trunkline.harness.checks.protocol import plan_checks
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Check, Verdict
from trunkline.harness.network import capture
from trunkline.harness.processes.lines import read_tail
from trunkline.harness.record.fitting import find_misfit
from trunkline.harness.record.history import History
from trunkline.harness.record.run_folder import RunFolder, StoreError, describe_version
from trunkline.harness.report.explanations.costs.measured_costs import Measured
from trunkline.harness.report.pages import programs_section
from trunkline.harness.report.pages.comparison import comparison_page
from trunkline.harness.report.pages.run_page import write_page
from trunkline.harness.report.parts import report_parts
from trunkline.harness.report.parts.part import Width
from trunkline.harness.report.run_data import Outputs, RunData
from trunkline.harness.scenario.loading import load
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.model import Topology

MEASURED, WITHOUT_FAULTS = "measured.json", "without_faults"
"""What the faults of a run cost it, and the folder of the runs that measured it."""

USER_CHECKS = "checks.json"
"""The results of the user's own checks, which a run's folder keeps."""

LAST_LINES, LAST_BYTES = 20, 4096
"""The end of a program's output that the page shows."""

GANTT_SITES = 200
"""The most sites of the Gantt charts for print: rows for more of them are too thin."""

CLOSE_UP_TASKS = 24
"""The tasks of the close-up Gantt chart, which a run of more than twice as many tasks gets."""


def say_nothing(step: str) -> None:
    """Take no notice of a step."""


def build(
    run_dir: Path, width_in: float | None = None, on_step: Callable[[str], None] = say_nothing
) -> Verdict:
    """Write a run's `tables/`, `plots/`, `verdict.json` and `report.html`; return the verdict.

    `width_in` is the width of the figures in inches; without it, figures have their default widths.
    `on_step` is told in words what is done next. Raises what `read` raises.
    """
    folder = RunFolder(run_dir)
    data = read(run_dir, on_step)
    for name, table in data.tables.items():
        folder.write_table(name, table)
    if data.scenario.outputs.plots or width_in is not None:
        on_step("drawing the figures")
        _draw(folder, data, {} if width_in is None else {"width_in": width_in})
    folder.write_json("verdict.json", data.verdict.to_json())
    on_step("writing the page")
    folder.write_text("report.html", write_page(data, _list_files(run_dir)))
    return data.verdict


def write_page_again(run_dir: Path) -> RunData:
    """Write a run's `report.html` again. Raises what `read` raises."""
    data = read(run_dir)
    RunFolder(run_dir).write_text("report.html", write_page(data, _list_files(run_dir)))
    return data


def write_tables(run_dir: Path) -> None:
    """Write a run's `tables/` only. Raises what `read` raises."""
    for name, table in read(run_dir).tables.items():
        RunFolder(run_dir).write_table(name, table)


def read(run_dir: Path, on_step: Callable[[str], None] = say_nothing) -> RunData:
    """Read a run folder and judge the run; write nothing. `on_step` is told what is done next.

    If a line of the log is not an event, or a plan is not valid, the verdict is `fail` and the
    history ends before it.
    Raises StoreError, and ScenarioErrors if `resolved.yaml` is not a valid scenario.
    """
    on_step("judging the run")
    folder = RunFolder(run_dir)
    next(folder.read_log(), "")  # a folder without a log is no run, whatever else it has
    resolved = folder.read_text("resolved.yaml")
    scenario = load(run_dir / "resolved.yaml")
    history, unreadable = _read_history(folder, scenario.topology)
    rules = Rules.of(scenario)
    if unreadable is None:
        digests = _digest_captures(run_dir / capture.FOLDER, scenario)
        verdict = judging.judge(history, rules, digests, _read_user_checks(folder))
    else:
        text = f"{unreadable}{_name_version(folder)}"
        verdict = Verdict.of([Check("the log is readable", "fail", text, "lines", 1)])
    on_step("making the tables")
    history = plan_checks.cut_at_wrong_plan(history, rules)
    return RunData(
        scenario=scenario,
        verdict=verdict,
        history=history,
        tables=report_parts.make_tables(scenario, history),
        environment=folder.read_json("environment.json", missing={}),
        given=folder.read_text("scenario.yaml", missing=""),
        resolved=resolved,
        outputs=_read_outputs(run_dir / "log", (*(rules.programs or ()),)),
        measured=_read_measured(folder, history),
    )


def read_history(run_dir: Path) -> tuple[Scenario, History]:
    """Read a run's scenario and history only; see `read`."""
    scenario = load(run_dir / "resolved.yaml")
    history, _ = _read_history(RunFolder(run_dir), scenario.topology)
    return scenario, plan_checks.cut_at_wrong_plan(history, Rules.of(scenario))


def compare(
    run_dirs: Sequence[Path],
    page_file: Path,
    cells: comparison_page.Cells | None = None,
    labels: Sequence[str] = (),
) -> None:
    """Write the page that compares runs; the first run is the baseline.

    With `cells`, the runs are the first trials of these cells. `labels` name the runs.

    Raises what `read` raises, and StoreError if the page cannot be written.
    """
    folders = [each.resolve() for each in run_dirs]
    here = page_file.parent.resolve()
    pages = [each / comparison_page.REPORT for each in folders]
    files = [os.path.relpath(each, here) if each.exists() else "" for each in pages]
    text = comparison_page.write_page(folders, list(map(read, run_dirs)), cells, labels, files)
    RunFolder(page_file.parent).write_text(page_file.name, text)


def _read_history(folder: RunFolder, topology: Topology) -> tuple[History, EventError | None]:
    """The history up to the first line that is not an event, and the error of that line.

    An event must fit the topology. Raises StoreError.
    """
    # Lines are sorted only at the end of a run.
    finished = any('"run_finished"' in line for line in folder.read_log())
    events: list[Event] = []
    unreadable = None
    try:
        read = event_reading.read_each(folder.read_log(), ordered=finished)
        for number, event in enumerate(read, start=1):
            if problem := find_misfit(event, topology):
                raise EventError(f"events.jsonl:{number}: {problem}")
            events.append(event)
    except EventError as error:
        unreadable = error
    return History.of(sorted(events, key=lambda event: event.t_ns)), unreadable


def _read_measured(folder: RunFolder, history: History) -> Measured | None:
    """What the run's faults cost it, if that was measured. Raises StoreError."""
    if not (found := folder.read_json(MEASURED, missing={})):
        return None
    try:
        return Measured.from_json(found, history.tasks)
    except (KeyError, TypeError) as error:
        raise StoreError(
            f"{folder.path / MEASURED}: expected what `explain --measure` writes: {error!r}; "
            "remove the file"
        ) from None


def _read_outputs(folder: Path, names: Sequence[str]) -> Outputs:
    """The last LAST_LINES lines of what each program wrote, without streams that are empty."""
    found = {}
    for name in names:
        for stream in programs_section.STREAMS:
            path = folder / f"{name}.{stream}"
            if path.exists():
                lines = read_tail(path, LAST_BYTES).decode(errors="replace").splitlines()
                if lines:
                    found[name, stream] = "\n".join(lines[-LAST_LINES:])
    return found


def _name_version(folder: RunFolder) -> str:
    """The version that wrote a log, if it is not this one; such logs cannot always be read."""
    about = folder.read_json("environment.json", missing={})
    here = describe_version()
    then = {key: about.get(key) for key in here}
    if None in then.values() or then == here:
        return ""
    words = (f"{each['version']} (commit {str(each['commit'])[:8]})" for each in (then, here))
    return "; Trunkline {} wrote this log, and this is {}".format(*words)


def _read_user_checks(folder: RunFolder) -> Mapping[int, UserCheck]:
    """The results of the user's own checks, by their place in `expect:`. Raises StoreError."""
    kept = folder.read_json(USER_CHECKS, missing={"checks": []})
    try:
        found = [UserCheck.of_json(each) for each in kept["checks"]]
    except (KeyError, TypeError) as error:
        text = f"{folder.path / USER_CHECKS}: {type(error).__name__}: {error}: expected checks"
        raise StoreError(text) from None
    return {each.entry: each for each in found}


def _digest_captures(folder: Path, scenario: Scenario) -> Mapping[Directed, str]:
    """The digests of the capture files that are there."""
    files = {ends: folder / capture.file_name(ends) for ends in scenario.capture.ends}
    return {ends: capture.digest_of(file) for ends, file in files.items() if file.is_file()}


def _list_files(run_dir: Path) -> list[str]:
    """The paths of a run folder's tables, figures and captures."""
    folders = (run_dir / "tables", run_dir / "plots", run_dir / capture.FOLDER)
    return sorted(
        str(file.relative_to(run_dir)) for folder in folders for file in folder.glob("*.*")
    )


def _draw(folder: RunFolder, data: RunData, width: Width) -> None:
    from trunkline.harness.report import plots, task_plots  # matplotlib takes a second to load

    for part in report_parts.list_parts(data.scenario, data.history):
        for name, figure in part.figures(data, width):
            plots.write(folder, name, figure)
    scenario, history, tasks = data.scenario, data.history, data.tables["tasks"]
    sites, begin_s = scenario.topology.site_names, data.counted.begin_s
    if len(sites) <= GANTT_SITES:
        plots.write(folder, "gantt", plots.draw_gantt(history, sites, warm_up_s=begin_s, **width))
    if len(tasks) > 2 * CLOSE_UP_TASKS and len(sites) <= GANTT_SITES:
        until_s = tasks["end_s"].fillna(tasks["start_s"])[:CLOSE_UP_TASKS].max()
        close_up = plots.draw_gantt(history, sites, (0.0, until_s), begin_s, **width)
        plots.write(folder, "gantt-start", close_up)
    if len(tasks) or not scenario.runs_programs:
        times = task_plots.draw_task_times(tasks, history.faults, data.verdict.took, **width)
        plots.write(folder, "tasks", times)
    counted = ("tasks" if history.syncs else "the run") if scenario.runs_programs else ""
    links = plots.draw_links(data.links, scenario.topology.node_names, counted, **width)
    plots.write(folder, "links", links)
