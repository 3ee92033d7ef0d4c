"""The accuracy of all variants of a comparison over time: one picture for all.

All trials are evaluated at the same times (docs/evaluation.md), so their mean at a time is that of
equally many evaluations of every variant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.report import plots
from trunkline.harness.report.faults.fault_layout import WIDTH_IN
from trunkline.harness.report.pages import accuracy_section
from trunkline.harness.report.pages.accuracy_section import Curve, Line, list_targets
from trunkline.harness.report.plots import BLACK, STYLE
from trunkline.harness.study.comparison import COUNTED, confidence_interval, name_cells
from trunkline.harness.study.comparison_plots import COLOURS, shorten_names

FIGURE = "accuracy"
"""The name of the picture's files."""

LEAST = 3
"""The least trials of an interval: that of two is thirteen times as wide as they differ."""

STYLES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
"""The dashes of lines, one after the other when colours begin again."""


def write(
    output: RunFolder,
    trials: pd.DataFrame,
    cells: pd.DataFrame,
    keys: Sequence[str],
    targets: Sequence[float | None],
    width_in: float | None = None,
) -> list[Curve]:
    """Write the figure of a comparison's curves, if it has any; returns them.

    `targets` are the accuracies at which the runs of each cell stop, None without one. The figure
    is `width_in` wide, or as wide as both columns of a page.
    """
    curves = read(output.path, trials, cells, keys, targets)
    if curves:
        plots.write(output, FIGURE, draw(curves, width_in or WIDTH_IN))
    return curves


def read(
    folder: Path,
    trials: pd.DataFrame,
    cells: pd.DataFrame,
    keys: Sequence[str],
    targets: Sequence[float | None] = (),
) -> list[Curve]:
    """The curves of a comparison in its folder, of the trials that count."""
    tables: dict[str, list[pd.DataFrame]] = {name: [] for name in name_cells(cells, keys)}
    of_cells = [tuple(str(row[key]) for key in keys) for row in cells.to_dict("records")]
    names = dict(zip(of_cells, tables, strict=True))
    warm_ups_s = dict.fromkeys(tables, 0.0)
    for row in trials[trials["verdict"].isin(COUNTED)].to_dict("records"):
        file = folder / str(row["run"]) / "tables" / "accuracy.csv"
        if row["run"] and file.exists():
            name = names[tuple(str(row[key]) for key in keys)]
            tables[name].append(pd.read_csv(file, keep_default_na=False))
            warm_ups_s[name] = max(warm_ups_s[name], float(row.get("warm_up_s", 0.0)))
    return make_curves(tables, dict(zip(tables, targets, strict=False)), warm_ups_s)


def make_curves(
    tables: Mapping[str, Sequence[pd.DataFrame]],
    targets: Mapping[str, float | None] = MappingProxyType({}),
    warm_ups_s: Mapping[str, float] = MappingProxyType({}),
) -> list[Curve]:
    """The curve of each variant with evaluations; `tables` has the tables `accuracy` by variant.

    `warm_ups_s` says when the last warm-up of its trials ended.
    Programs report when they like, so their reports are no curves.
    """
    found = (
        _make_curve(name, number, each, targets.get(name), warm_ups_s.get(name, 0.0))
        for number, (name, each) in enumerate(tables.items())
    )
    return [curve for curve in found if curve is not None]


def _make_curve(
    name: str,
    number: int,
    tables: Sequence[pd.DataFrame],
    target_percent: float | None,
    warm_up_s: float,
) -> Curve | None:
    known = [table[table["of"] != "task"].set_index("number") for table in tables]
    known = [table for table in known if len(table)]
    if not known:
        return None
    trials = tuple(_list_points(table["t_s"], table["accuracy_percent"]) for table in known)
    both = pd.concat([table["accuracy_percent"] for table in known], axis="columns", join="inner")
    times = pd.concat([table["t_s"] for table in known], axis="columns", join="inner").mean(axis=1)
    found = [confidence_interval(list(map(float, row))) for row in both.to_numpy()]
    low, high = (
        [(t, getattr(each, end)) for t, each in zip(times, found, strict=True)]
        for end in ("low", "high")
    )
    return Curve(
        name,
        trials,
        tuple((float(t), each.mean) for t, each in zip(times, found, strict=True)),
        tuple(low) if len(known) >= LEAST else (),
        tuple(high) if len(known) >= LEAST else (),
        tuple(dict.fromkeys(of for table in known for of in table["of"])),
        target_percent,
        number,
        warm_up_s,
    )


def _list_points(times: pd.Series[float], values: pd.Series[float]) -> Line:
    return tuple((float(t), float(value)) for t, value in zip(times, values, strict=True))


def draw(curves: Sequence[Curve], width_in: float = WIDTH_IN) -> Figure:
    """Draw the mean of each variant with its interval, and its trials as thin lines."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width_in, 0.5 * width_in + 0.4), layout="constrained")
        axes = figure.subplots()
        short = shorten_names([curve.name for curve in curves])
        names, targets = accuracy_section.name_curves(curves, short), list_targets(curves)
        for curve, name in zip(curves, names, strict=True):
            colour, style = _choose_line(curve.number)
            for trial in curve.trials:
                times, values = zip(*trial, strict=True)
                axes.plot(times, values, color=colour, lw=0.4, alpha=0.6)
                axes.plot(times[-1:], values[-1:], "o", color=colour, ms=2.5, mew=0)
            if curve.low:
                times, low = zip(*curve.low, strict=True)
                _, high = zip(*curve.high, strict=True)
                axes.fill_between(times, low, high, color=colour, alpha=0.15, lw=0)
            times, means = zip(*curve.mean, strict=True)
            axes.plot(times, means, color=colour, ls=style, lw=1.6, label=name)
        for target in targets:
            label = accuracy_section.describe_targets(targets) if target == targets[0] else "_"
            axes.axhline(target, color=BLACK, lw=1, ls=(0, (5, 3)), label=label)
        warm_up = accuracy_section.describe_warm_up(curves)
        plots.draw_warm_up([axes], accuracy_section.find_warm_up_s(curves), label=warm_up)
        axes.set(xlabel="time (s)", ylabel="test accuracy (%)")
        axes.set_xlim(left=0)
        # Intervals of few trials may be wider than all accuracies: they do not set the scale.
        every = [value for curve in curves for line in curve.trials for _, value in line]
        every += targets
        room = 0.05 * (max(every) - min(every)) or 1.0
        axes.set_ylim(min(every) - room, max(every) + room)
        axes.grid()
        figure.legend(loc="outside upper left", ncols=max(1, int(width_in / 2.2)))
    return figure


def _choose_line(number: int) -> tuple[str, str | tuple[int, tuple[float, ...]]]:
    """The colour and the dashes of the variant with this number, from 0."""
    return COLOURS[number % len(COLOURS)], STYLES[number // len(COLOURS) % len(STYLES)]
