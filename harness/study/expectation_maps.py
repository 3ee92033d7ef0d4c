"""Where the expectations of a scenario hold: maps over two varied keys (pure).

A trial is *met* if it met all of `expect:`, and *missed* if it did not meet one, for example
because its programs failed. It counts as neither if another check failed or is unknown, if a user
interrupted it, or if it was not carried out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from rich.table import Table

from trunkline.harness.checks.verdict import EXPECTED
from trunkline.harness.report.pages.comparison.maps_section import Map, format_share
from trunkline.harness.report.plots import BLUE, ORANGE, STYLE
from trunkline.harness.study.comparison import MET, MISSED, describe_key

GIVEN_UP = (
    "every program exited cleanly",
    "every site took part",
    "the log is complete",
    "the run ended as specified",
)
"""The checks that fail, too, if programs give up, or wait until the run's time limit."""

COLUMN_IN, ROW_IN = 0.62, 0.34
"""The size in inches of a place of a map."""

COLOURS = LinearSegmentedColormap.from_list("share", [ORANGE, "#f4f4f4", BLUE])
"""No trial met the expectations, half of them did, all did."""

ALPHA = 0.75


def judge_trial(checks: Sequence[Mapping[str, Any]]) -> str:
    """Whether a run is `met` or `missed`; empty if it is neither. `checks` are its verdict's."""
    own = {check["outcome"] for check in checks if check["name"].startswith(EXPECTED)}
    others = {check["name"]: check["outcome"] for check in checks} if own else {}
    failed = {name for name, outcome in others.items() if outcome == "fail"}
    unknown = {name for name, outcome in others.items() if outcome == "unknown"}
    if any(name not in GIVEN_UP and not name.startswith(EXPECTED) for name in failed | unknown):
        return ""
    if failed:
        return MISSED
    return MET if own == {"pass"} and not unknown else ""


def list_maps(cells: pd.DataFrame, keys: Sequence[str]) -> Iterator[Map]:
    """A map for each combination of the values of all keys but the first two.

    There are no maps for fewer than two keys with several values, or if no trial missed anything.
    """
    varied = [key for key in keys if cells[key].nunique() > 1]
    if MISSED not in cells or not cells[MISSED].any() or len(varied) < 2:
        return
    down, across, *others = varied
    for values, group in cells.groupby(others, sort=False) if others else [((), cells)]:
        title = ", ".join(
            f"{describe_key(key)} {value}" for key, value in zip(others, values, strict=True)
        )
        counts = {
            (str(row[down]), str(row[across])): (int(row[MET]), int(row[MET] + row[MISSED]))
            for row in group.to_dict("records")
        }
        rows, columns = (tuple(dict.fromkeys(map(str, cells[key]))) for key in (down, across))
        yield Map(title, describe_key(down), describe_key(across), rows, columns, counts)


def draw_table(shown: Map) -> Table:
    """A map for the terminal."""
    table = Table(
        f"{shown.down} \\ {shown.across}",
        *shown.columns,
        title=shown.title or None,
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for row in shown.rows:
        table.add_row(row, *(format_share(shown.counts.get((row, at))) for at in shown.columns))
    return table


def draw(maps: Sequence[Map], width_in: float | None = None) -> Figure:
    """Draw maps beside each other, as for a paper, as wide as they need or `width_in`."""
    if width_in is None:
        width_in = max(1.3 + COLUMN_IN * len(maps[0].columns), 2.2) * len(maps)
    height_in = 1.3 + ROW_IN * len(maps[0].rows)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        for axes, shown in zip(figure.subplots(1, len(maps), squeeze=False)[0], maps, strict=True):
            _draw_map(axes, shown)
        words = {"none": 0.0, "half": 0.5, "all": 1.0}
        places = [Patch(facecolor=COLOURS(share), alpha=ALPHA, lw=0) for share in words.values()]
        figure.legend(
            places, words, loc="outside upper left", ncols=3, title="trials that met expectations"
        )
    return figure


def _draw_map(axes: Axes, shown: Map) -> None:
    shares = [[_share(shown.counts.get((row, at))) for at in shown.columns] for row in shown.rows]
    axes.imshow(shares, cmap=COLOURS, vmin=0.0, vmax=1.0, aspect="auto", alpha=ALPHA)
    for y, row in enumerate(shown.rows):
        for x, at in enumerate(shown.columns):
            text = format_share(shown.counts.get((row, at)))
            axes.text(x, y, text, ha="center", va="center", fontsize="small")
    axes.set_xticks(range(len(shown.columns)), shown.columns)
    axes.set_yticks(range(len(shown.rows)), shown.rows)
    axes.set(title=shown.title, xlabel=shown.across, ylabel=shown.down)
    axes.tick_params(length=0)


def _share(counts: tuple[int, int] | None) -> float:
    return counts[0] / counts[1] if counts and counts[1] else float("nan")
