"""The page that shows several runs beside each other (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trunkline.harness.config.units import SIZE_BYTES, TIME_S, short
from trunkline.harness.report import manual_actions
from trunkline.harness.report.pages import accuracy_section, caveats, charts, frame
from trunkline.harness.report.pages.charts import WIDTH, Frame, Scale
from trunkline.harness.report.pages.differences import Givens, section, tells
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.pages.markup import Child, Html, table, tag
from trunkline.harness.report.pages.run_page import Story

DRAWN = 16
"""Runs, the first ones, that pictures show; tables show all."""

POINTS = 400
"""Of a line of more steps, about so many are drawn."""

Cells = tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]
"""Of a comparison with trials: titles, a row for each cell, and what went wrong."""


def page(folders: Sequence[Path], each: Sequence[Story], cells: Cells | None = None) -> str:
    """Runs from these folders; the first is the baseline.

    With `cells` each is the first trial of one.
    """
    found = [Givens.of(story) for story in each]
    names = _names(folders, each, found)
    stories = dict(zip(names, each, strict=True))
    givens = dict(zip(names, found, strict=True))
    drawn = dict(list(stories.items())[:DRAWN])
    left = len(stories) - len(drawn)
    note = f" Pictures show the first {DRAWN}; {left} more are in the tables." if left else ""
    what = f"{len(stories)} runs, compared with the first of them.{note}"
    varied = ["scheme"]
    if cells:
        varied += cells[0][: cells[0].index("trials")]
        what = f"{len(cells[1])} cells. Below the table, the first trial of {len(stories)} of them."
    lead = [tag("p", what, class_="lead"), caveats.warning(stories, givens, varied)]
    parts = [
        *([Section("cells", "All trials", _cells(*cells))] if cells else []),
        Section("runs", "Runs", [_runs(stories, givens)]),
        Section("times", "Task times", [_times(drawn)]),
        Section("progress", "Progress", [_progress(drawn)]),
        Section("accuracy", "Accuracy", [_accuracy(drawn)]),
        Section("differences", "What differs", section(found)),
    ]
    command = "trunkline report RUN RUN ..." if cells is None else "trunkline compare"
    end = tag("p", "Made by Trunkline: ", tag("code", command), ".")
    return frame.page("Comparison of runs", lead, parts, end)


def _cells(
    heads: Sequence[str], rows: Sequence[Sequence[str]], problems: Sequence[str]
) -> list[Child]:
    words = (
        "Means over the trials that passed, with half of their 95 % interval; ratios are to the "
        "first value, trial by trial."
    )
    shown: list[Child] = [table(heads, rows, "cells", range(heads.index("trials"), len(heads)))]
    shown.append(tag("p", words))
    if problems:
        shown.append(tag("ul", [tag("li", text) for text in problems]))
    return shown


def _names(
    folders: Sequence[Path], stories: Sequence[Story], givens: Sequence[Givens]
) -> list[str]:
    """What tells the runs apart, numbered: a value of their scenarios, else their folders."""
    scenarios = [each.scenario for each in givens]
    shown = ["/".join(folder.parts[-2:]) for folder in folders]
    for key in scenarios[0]:
        values = [found.get(key, "") for found in scenarios]
        if all(values) and len(set(values)) == len(values) and (key == "name" or tells(key)):
            shown = values if key == "name" else [f"{key} {value}" for value in values]
            break
    clocks = {story.scenario.clock for story in stories}
    return [
        f"{number}: {charts.fit(text, 280)}{caveats.marks(story, clocks)}"
        for number, (text, story) in enumerate(zip(shown, stories, strict=True), 1)
    ]


def _runs(stories: Mapping[str, Story], givens: Mapping[str, Givens]) -> Html:
    """A row for each run; columns that say nothing of any are left out."""
    heads = ("run", "verdict", "ended", "by hand", "not as in the first", "scheme", "tasks",
             "mean task time", "of the first's", "measured / expected", "rounds", "payload",
             "best accuracy")  # fmt: skip
    words = ("run", "verdict", "ended", "not as in the first", "scheme")
    means_s = list(_means(stories.values()))
    first, *_ = givens.values()
    rows = [
        [name, *_row(story, givens[name].unlike(first), mean_s, means_s[0])]
        for (name, story), mean_s in zip(stories.items(), means_s, strict=True)
    ]
    shown = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    return table(
        [heads[column] for column in shown],
        [[row[column] for column in shown] for row in rows],
        "runs",
        [place for place, column in enumerate(shown) if heads[column] not in words],
    )


def _row(story: Story, unlike: Sequence[str], mean_s: float, base_s: float) -> list[Child]:
    scheme, programs = story.scenario.scheme, story.scenario.runs_programs
    kind = f"{scheme.policy.kind}, {scheme.plan.kind}"
    what: list[Child] = [
        frame.mark(story.verdict.outcome),
        manual_actions.describe_end(story.history),
        str(len(manual_actions.list_actions(story.history)) or ""),
        ", ".join(unlike),
        story.scenario.workload.kind if programs else kind,
    ]
    if not story.tables:
        return [*what, *[""] * 7]
    run = story.tables["run"].to_dict("records")[0]
    best = story.tables["accuracy"]["accuracy_percent"].max()
    ratio = _ratios(story.tables["tasks"]).median()
    return [
        *what,
        str(run["tasks"]),
        "" if isnan(mean_s) else short(mean_s, TIME_S),
        "" if isnan(mean_s) or not base_s > 0 else f"{mean_s / base_s:.3f}",
        "" if isnan(ratio) else f"{ratio:.3f}",
        "" if programs else charts.short(float(run["rounds"])),
        "" if programs else short(int(run["bytes_sent"]), SIZE_BYTES),
        "" if isnan(best) else f"{best:.1f} %",
    ]


def _means(stories: Iterable[Story]) -> Iterator[float]:
    for story in stories:
        yield float(story.tables["run"]["task_s"].iloc[0]) if story.tables else float("nan")


def _ratios(tasks: pd.DataFrame) -> pd.Series[float]:
    done = tasks[tasks["outcome"] == "completed"]
    return done["duration_s"] / (done["estimate_s"] + done["latency_s"])


def _completed(story: Story) -> pd.DataFrame:
    if not story.tables:
        return pd.DataFrame({"duration_s": [], "end_s": []}, dtype="float64")
    tasks = story.tables["tasks"]
    return tasks[tasks["outcome"] == "completed"]


def _times(stories: Mapping[str, Story]) -> Html | None:
    """Of each run the share of its completed tasks that took no longer than so much."""
    values = {name: np.sort(_completed(story)["duration_s"]) for name, story in stories.items()}
    known = {name: found for name, found in values.items() if len(found)}
    if not known:
        return None
    x = charts.scale(np.concatenate(list(known.values())), 64, WIDTH - 8)
    frame_ = Frame(x, Scale(0, 100, 330, 24))
    lines = []
    for number, (name, found) in enumerate(values.items()):
        if name not in known:
            continue
        shares = 100 * np.arange(1, len(found) + 1) / len(found)
        start = (x(float(found[0])), frame_.y(0))
        points = [start, *((x(t), frame_.y(s)) for t, s in _thinned(found, shares))]
        lines.append(charts.line(points, f"line {accuracy_section.series(number)}", steps=True))
    picture = charts.picture(
        378,
        "Of each run the distribution of task times; the table of runs has the means",
        frame_.axes("task time (s)", "tasks that took no longer (%)"),
        lines,
    )
    words = "The further left a line, the faster the tasks; the steeper, the more alike they were."
    return charts.figure(picture, words, _legend(values, known))


def _progress(stories: Mapping[str, Story]) -> Html | None:
    """Completed tasks over time."""
    ends = {name: np.sort(_completed(s)["end_s"].dropna()) for name, s in stories.items()}
    known = {name: found for name, found in ends.items() if len(found)}
    if not known:
        return None
    x = charts.scale([0.0, *(float(found[-1]) for found in known.values())], 64, WIDTH - 8)
    y = charts.scale([0.0, *(float(len(found)) for found in known.values())], 330, 24)
    lines = []
    for number, (name, found) in enumerate(ends.items()):
        if name in known:
            counts = np.arange(1.0, len(found) + 1)
            points = [(x(0.0), y(0.0)), *((x(t), y(n)) for t, n in _thinned(found, counts))]
            lines.append(charts.line(points, f"line {accuracy_section.series(number)}", steps=True))
    picture = charts.picture(
        378,
        "Completed tasks of every run over time",
        Frame(x, y).axes("time (s)", "completed tasks"),
        lines,
    )
    return charts.figure(picture, "Times are of each run's own clock.", _legend(ends, known))


def _accuracy(stories: Mapping[str, Story]) -> Html | None:
    found = {
        name: story.tables["accuracy"] if story.tables else pd.DataFrame()
        for name, story in stories.items()
    }
    return accuracy_section.compared(found) if any(map(len, found.values())) else None


def _legend(all_runs: Mapping[str, Any], known: Mapping[str, Any]) -> Html:
    entries = [
        (f"line {accuracy_section.series(number)}", name)
        for number, name in enumerate(all_runs)
        if name in known
    ]
    return charts.legend(entries, "line")


def _thinned(x: Any, y: Any) -> Iterator[tuple[float, float]]:
    """Every so many points of a line, and its last."""
    step = -(-len(x) // POINTS)
    chosen = sorted({*range(0, len(x), step), len(x) - 1})
    return ((float(x[n]), float(y[n])) for n in chosen)
