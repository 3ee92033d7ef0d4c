"""The page that compares several runs (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from trunkline.harness.config.units import SIZE_BYTES, count_of, short
from trunkline.harness.report import manual_actions
from trunkline.harness.report.pages import accuracy_section, charts, frame
from trunkline.harness.report.pages.comparison import (
    common_faults,
    differences,
    maps_section,
    means_section,
    run_charts,
)
from trunkline.harness.report.pages.comparison.differences import (
    RunInputs,
    is_relevant,
    write_section,
)
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.pages.markup import Child, Html, join, keep_words, make_table, tag
from trunkline.harness.report.pages.run_page import list_facts, write_text
from trunkline.harness.report.run_data import RunData

REPORT = "report.html"
"""The page in a run's folder."""

DRAWN = 16
"""The number of runs in pictures; tables show all runs."""

OF_FIRST = ("differs from run 1 in", "relative to run 1")
"""The columns that compare a run with the first one."""

NAME = 280.0
"""The room for the name of a variant in a table or a legend, in units of the view box."""

ROUNDS = join(
    [
        "Rounds per worker count until the run was told to stop. With ",
        tag("code", "stop.tasks"),
        ", this is when the last task begins, so its round does not count.",
    ]
)

PLUS_MINUS = " \N{PLUS-MINUS SIGN} "


@dataclass(frozen=True, slots=True)
class Cells:
    """A comparison with trials.

    Attributes:
        name: that of the first scenario.
        heads: the titles of the table of cells: those that name it, `trials`, measurements.
        rows: a row of texts per cell.
        keys: the varied keys.
        trials: the number of trials of all cells.
        remarks: what else there is to say, such as trials that failed.
        metrics: what charts show.
        curves: the accuracy of each variant over time.
        maps: where the expectations were met.
        names: the names of the cells, whose places decide their colours.
        missing: the number of trials that have not ended.
        command: what made it, and makes it again.
        reference: the cell whose ratios are 1, in words; empty without ratios.
        problems: a line for every trial that did not pass, and its folder beside the page if any.
    """

    name: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    keys: Sequence[str]
    trials: int
    remarks: Sequence[str] = ()
    metrics: Sequence[means_section.Metric] = ()
    curves: Sequence[accuracy_section.Curve] = ()
    maps: Sequence[maps_section.Map] = ()
    names: Sequence[str] = ()
    missing: int = 0
    command: str = ""
    reference: str = ""
    problems: Sequence[tuple[str, str]] = ()


def write_page(
    folders: Sequence[Path],
    each: Sequence[RunData],
    cells: Cells | None,
    labels: Sequence[str],
    files: Sequence[str],
) -> str:
    """The page of the runs in these folders; the first run is the baseline.

    With `cells`, each run is the first trial of a cell. `labels` are the names of the runs, and
    `files` their own pages, as seen from this one, or empty. A run has the same colour in all
    pictures, which is that of its cell.
    """
    found = [RunInputs.of(data) for data in each]
    names = _name_runs(folders, each, found, labels)
    runs = dict(zip(names, each, strict=True))
    givens = dict(zip(names, found, strict=True))
    drawn = dict(list(runs.items())[:DRAWN])
    places = (
        [cells.names.index(label) for label in labels]
        if cells and cells.names
        else [*range(len(runs))]
    )
    classes = dict(zip(names, map(accuracy_section.choose_class, places), strict=True))
    left = len(runs) - len(drawn)
    note = f" Pictures show the first {DRAWN}; {left} more are in the tables." if left else ""
    what = f"{len(runs)} runs, compared with the first of them.{note}"
    varied = ["scheme"]
    title, description = "Comparison of runs", None
    predicted = all(data.history.is_predicted for data in each)
    command = "trunkline report RUN RUN ..."
    parts = []
    if cells:
        varied += cells.keys
        what = _describe(cells, len(runs), predicted)
        title = f"Comparison of {cells.name}{', predicted' * predicted}"
        command = f"trunkline {'predict' if predicted else 'compare'}"
        description = each[0].scenario.description or None
        parts = [
            Section("map", "Expectations", maps_section.write_section(cells.maps)),
            Section("means", "Means", _write_means(cells, predicted)),
            Section("cells", "Table of means", _write_cells(cells, each)),
            Section("curves", "Accuracy over time", _draw_curves(cells.curves)),
        ]
    lead = [
        tag("p", description, class_="lead") if description else None,
        tag("p", what, class_="facts"),
        *_write_origin(cells, each),
        differences.write_warning(runs, givens, varied),
    ]
    has_curves = cells is not None and cells.curves
    accuracy = [] if has_curves else [run_charts.draw_accuracy(drawn, classes)]
    parts += [
        Section(
            "runs", _name_table(cells, len(runs)), _write_runs(runs, givens, files, cells is None)
        ),
        Section("times", "Task times", [run_charts.draw_times(drawn, classes)]),
        Section("progress", "Progress", [run_charts.draw_progress(drawn, classes)]),
        Section("accuracy", "Accuracy", accuracy),
        Section(
            "differences", "What differs", write_section(found, labels) if len(found) > 1 else []
        ),
        Section("scenario", "Scenario", _write_scenarios(each) if cells else []),
    ]
    end = tag("p", "Made by Trunkline: ", tag("code", command), ".")
    return frame.write_page(title, lead, parts, end)


def _write_origin(cells: Cells | None, each: Sequence[RunData]) -> list[Child]:
    """What all runs have in common, and the command."""
    if cells is None:
        return []
    of_runs = [[*list_facts(data), *_describe_model(data)] for data in each]
    faults = common_faults.describe([data.history for data in each])
    same = [fact for fact in of_runs[0] if all(fact in facts for facts in of_runs)]
    same = [fact for fact in same if not fact.startswith("seed ")]
    whose = "The runs so far" if len(each) < len(cells.rows) else "All runs"
    shown: list[Child] = (
        [tag("p", f"{whose}: {', '.join(same)}.{faults}", class_="facts")] if same else []
    )
    if cells.command:
        code = tag("code", keep_words(cells.command))
        again = ". It runs only the trials that are missing."
        shown.append(tag("p", "Command: ", code, again, class_="facts"))
    return shown


def _describe_model(data: RunData) -> Iterator[str]:
    if not data.scenario.runs_programs:
        yield f"a model of {short(data.scenario.model_bytes, SIZE_BYTES)}"


def _write_scenarios(each: Sequence[RunData]) -> list[Child]:
    """The files that the runs began with, each once."""
    files: dict[str, int] = {}
    for number, data in enumerate(each, 1):
        if data.given:
            files.setdefault(data.given, number)
    return [
        frame.fold(f"The file of run {number}, before the changes of the command", write_text(text))
        for text, number in files.items()
    ]


def _name_table(cells: Cells | None, runs: int) -> str:
    if cells is None:
        return "Runs"
    return "First trials" if runs > 1 else "First trial"


def _describe(cells: Cells, shown: int, predicted: bool) -> str:
    """How many variants and trials there are, and of how many the page shows the first trial."""
    made = "Predicted by the fluid model, not run: " if predicted else ""
    variants = f"{len(cells.rows)} variants, " if len(cells.rows) > 1 else ""
    trials = f"{cells.trials} trial{'s' * (cells.trials > 1)}"
    trials += f", of which {cells.missing} have not ended" if cells.missing else ""
    if not variants:
        return f"{made}{trials}. After the means, the first trial."
    whose = "each variant" if shown == len(cells.rows) else count_of(shown, "variant")
    return f"{made}{variants}{trials}. After the means, the first trial of {whose}."


def _write_means(cells: Cells, predicted: bool) -> list[Child]:
    return means_section.write_section(cells.metrics, predicted, cells.reference)


def _write_cells(cells: Cells, each: Sequence[RunData]) -> list[Child]:
    predicted = all(data.history.is_predicted for data in each)
    which = "predictions" if predicted else "trials that passed"
    words = f"Means over the {which}"
    words += ", with half of their 95 % interval" * means_section.has_intervals(cells.metrics)
    if cells.reference and not any(each.ratio for some in cells.metrics for each in some.means):
        words += f". Ratios are taken trial by trial; 1 is {cells.reference}"
    words += "."
    first = cells.heads.index("trials")
    rows = [
        [*map(_cut_name, row[:first]), *map(_break_interval, row[first:])] for row in cells.rows
    ]
    shown = _tabulate(cells.heads, rows, "cells", first, range(first, len(cells.heads)))
    shown.append(tag("p", words))
    by_tasks = any(data.scenario.stop.tasks is not None for data in each)
    if by_tasks and any(head.startswith("rounds") for head in cells.heads):
        shown.append(tag("p", ROUNDS))
    told = [tag("li", *_link_run(text, run)) for text, run in cells.problems]
    told += [tag("li", text) for text in cells.remarks]
    return [*shown, tag("ul", told) if told else None]


def _break_interval(text: str) -> str:
    """A mean with its interval, which may stand in the next line where a table has no room."""
    return text.replace(PLUS_MINUS, f"{PLUS_MINUS[:-1]}\N{NO-BREAK SPACE}")


def _link_run(text: str, run: str) -> list[Child]:
    """A text on a run, with a link to its page if it has a folder."""
    return [text, ": ", _link(run, f"{run}/{REPORT}")] if run else [text]


def _link(text: str, file: str) -> Html:
    return tag("a", text, href=quote(file))


def _cut_name(name: str) -> Child:
    """A name that fits into a table; a longer one is whole in its tooltip."""
    cut = charts.truncate(name, NAME)
    return name if cut == name else tag("span", cut, title=name)


def _tabulate(
    heads: Sequence[str],
    rows: Sequence[Sequence[Child]],
    caption: str,
    names: int,
    numeric: Collection[int],
) -> list[Child]:
    """A table, and a sentence about the columns that have the same value in all rows.

    The first `names` columns stay. Columns that are empty in all rows are left out.
    """
    several = len(rows) > 1
    shown, same = list(range(names)), []
    for column in range(names, len(heads)):
        values = {str(row[column]) for row in rows}
        if several and len(values) == 1 and rows[0][column]:
            same.append(column)
        elif any(values):
            shown.append(column)
    table = make_table(
        [heads[column] for column in shown],
        [[row[column] for column in shown] for row in rows],
        caption,
        [place for place, column in enumerate(shown) if column in numeric],
    )
    words = [(f"; {heads[n]}: " if place else f"{heads[n]}: ", rows[0][n])
             for place, n in enumerate(same)]  # fmt: skip
    return [table, tag("p", "The same in all: ", *words, ".") if same else None]


def _name_runs(
    folders: Sequence[Path],
    runs: Sequence[RunData],
    givens: Sequence[RunInputs],
    labels: Sequence[str],
) -> list[str]:
    """Number the runs. Name them by labels, a key whose value differs in all, or their folder."""
    scenarios = [each.scenario for each in givens]
    shown = ["/".join(folder.parts[-2:]) for folder in folders]
    for key in scenarios[0]:
        values = [found.get(key, "") for found in scenarios]
        if all(values) and len(set(values)) == len(values) and (key == "name" or is_relevant(key)):
            shown = values if key == "name" else [f"{key} {value}" for value in values]
            break
    shown = list(labels) or shown
    clocks = {data.scenario.clock for data in runs}
    return [
        f"{number}: {charts.truncate(text, NAME)}{differences.write_marks(data, clocks)}"
        for number, (text, data) in enumerate(zip(shown, runs, strict=True), 1)
    ]


def _write_runs(
    runs: Mapping[str, RunData],
    givens: Mapping[str, RunInputs],
    files: Sequence[str],
    compared: bool,
) -> list[Child]:
    """A table with a row for each run, whose name is a link to its page.

    Runs are `compared` with the first one, unless they are trials of cells: these have a reference.
    """
    scheme = _name_scheme(runs)
    heads = ["run", "verdict", "ended", "by hand", "differs from run 1 in", scheme, "tasks",
             "mean task time (s)", "relative to run 1", f"{_name_times(runs)} / expected, median",
             "rounds per worker", "payload", "last accuracy", "time to the target (s)"]  # fmt: skip
    words = ("run", "verdict", "ended", "differs from run 1 in", scheme)
    means_s = [float(data.tables["run"]["task_s"].iloc[0]) for data in runs.values()]
    base_s = means_s[0] if len(runs) > 1 else float("nan")
    first, *_ = givens.values()
    linked = [_link(name, file) if file else name for name, file in zip(runs, files, strict=True)]
    rows = [
        [name, *_write_row(data, givens[key].list_differences(first), mean_s, base_s)]
        for (key, data), name, mean_s in zip(runs.items(), linked, means_s, strict=True)
    ]
    shown = [n for n, head in enumerate(heads) if compared or head not in OF_FIRST]
    told = [heads[n] for n in shown]
    numeric = [column for column, head in enumerate(told) if head not in words]
    return _tabulate(told, [[row[n] for n in shown] for row in rows], "runs", 1, numeric)


def _name_scheme(runs: Mapping[str, RunData]) -> str:
    """What the column on the code of runs is about: a section may differ in other keys as well."""
    programs = all(data.scenario.runs_programs for data in runs.values())
    return "workload's kind" if programs else "policy, plan"


def _name_times(runs: Mapping[str, RunData]) -> str:
    """Where the times of runs come from."""
    kinds = {data.history.is_predicted for data in runs.values()}
    words = {False: "measured", True: "predicted"}
    return " or ".join(words[kind] for kind in sorted(kinds))


def _write_row(data: RunData, unlike: Sequence[str], mean_s: float, base_s: float) -> list[Child]:
    scheme, programs = data.scenario.scheme, data.scenario.runs_programs
    kind = f"{scheme.policy.kind}, {scheme.plan.kind}"
    what: list[Child] = [
        frame.mark(data.verdict.outcome),
        manual_actions.describe_end(data.history),
        str(len(manual_actions.list_actions(data.history)) or ""),
        ", ".join(unlike),
        data.scenario.workload.kind if programs else kind,
    ]
    run = data.tables["run"].to_dict("records")[0]
    done = data.completed
    ratio = (done["duration_s"] / (done["estimate_s"] + done["latency_s"])).median()
    return [
        *what,
        "" if programs and not run["tasks"] else str(run["tasks"]),
        "" if isnan(mean_s) else f"{mean_s:.3f}",
        "" if isnan(mean_s) or not base_s > 0 else f"{mean_s / base_s:.3f}",
        "" if isnan(ratio) else f"{ratio:.3f}",
        "" if programs else charts.format_value(float(run["rounds"])),
        "" if programs else short(int(run["bytes_sent"]), SIZE_BYTES),
        "" if pd.isna(run["accuracy_percent"]) else f"{run['accuracy_percent']:.1f} %",
        "" if pd.isna(run["target_s"]) else f"{run['target_s']:.3f}",
    ]


def _draw_curves(curves: Sequence[accuracy_section.Curve]) -> list[Child]:
    return [accuracy_section.draw_curves(curves[:DRAWN])] if curves else []
