"""The section on accuracy and loss over time (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd

from trunkline.agents.events.causes import Quantity
from trunkline.harness.config.units import count_of
from trunkline.harness.record.targets import Target
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import WIDTH, Frame, Scale
from trunkline.harness.report.pages.markup import Html, tag

MAX_DOTS = 1500
"""The most evaluations that are drawn; of more, every second, third, ... is."""

Point = tuple[float, float]
Line = tuple[Point, ...]
"""Points (time in seconds, accuracy in percent)."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The accuracy of a variant over time: every trial, their mean, and its 95 % interval.

    The mean ends with the first trial that ends; of few trials there is no interval.

    Attributes:
        of: the models that were evaluated, `average`, `server` or `member`; several if a user's
            change of the scenario evaluates another one in some trials.
        target_percent: the accuracy at which the variant's runs stop, if they have one.
        number: the variant's place in the comparison, which decides its colour.
        warm_up_s: when the last warm-up of its trials ended; 0 without one.
    """

    name: str
    trials: tuple[Line, ...]
    mean: Line
    low: Line = ()
    high: Line = ()
    of: tuple[str, ...] = ()
    target_percent: float | None = None
    number: int = 0
    warm_up_s: float = 0.0


MODELS: Mapping[str, str] = {
    "average": "the average of the workers' models",
    "server": "the servers' model",
    "member": "the first worker's model",
}
"""The models that are evaluated, in words."""

SERIES = ("blue", "orange", "green", "fault", "sky", "purple", "grey", "ink")
"""The colours of several runs in one picture; the ninth run starts again, dashed."""


def draw_run(
    table: pd.DataFrame,
    target: Target,
    clock: str,
    timeline_s: float | None = None,
    begin: str = "first task",
    warm_up_s: float = 0.0,
) -> Html:
    """Draw every evaluation of one run, its target and warm-up; `table` is `accuracy`.

    `timeline_s` is when the clock of the run's timeline began, with the start of the `begin`.
    """
    x = Scale(0.0, float(table["t_s"].max()) * 1.02 or 1.0, 64, WIDTH - 8)
    shown = table.iloc[:: -(-len(table) // MAX_DOTS)]
    parts: list[Html] = []
    entries = [("stroke-blue", "accuracy of one evaluation"), ("stroke-orange", "its loss")]
    words = f"{len(table)} evaluations; the last one: {table['accuracy_percent'].iloc[-1]:.1f} %."
    words += " Times count from the start of the run"
    later = f"; the timeline counts from the start of the {begin}, {timeline_s or 0.0:.3f} s later"
    words += f"{'' if timeline_s is None else later}."
    rows: tuple[tuple[Quantity, str, float, float, str, str], ...] = (
        ("accuracy", "accuracy_percent", 270, 24, "test accuracy (%)", "blue"),
        ("loss", "loss", 420, 312, "test loss", "orange"),
    )
    for what, column, bottom, top, label, colour in rows:
        wanted = target.describe(what)
        values = [*table[column], *([] if wanted is None else [wanted[0]])]
        frame = Frame(x, charts.fit_scale(values, bottom, top, zero=what == "loss"))
        behind = charts.draw_warm_up(x, warm_up_s, top, bottom)
        parts += [] if behind is None else [behind]
        parts.append(frame.draw_axes(f"{clock} time (s)" if what == "loss" else "", label))
        points = _list_points(shown, column, frame)
        if not (table["of"] == "task").any():  # programs may report at many sites
            parts.append(charts.draw_line(points, f"line thin stroke-{colour}"))
        parts.append(charts.draw_dots(points, f"small stroke-{colour}"))
        if wanted is not None:
            y, text = frame.y(wanted[0]), wanted[1]
            parts.append(tag("path", d=f"M64 {y:.2f}H{x.end:.2f}", class_=TARGET))
            words += f" {text[0].upper()}{text[1:]}."
    if target.converged_s is not None:
        more = count_of(target.stop.without_progress or 0, "evaluation")
        words += f" The best one was at {target.converged_s:.4g} s. The run ended because {more}"
        words += " after it had no better accuracy."
    if target.stop.has_target:
        entries.append((TARGET, "target"))
    entries += [("fill-warm-up", "warm-up")] if warm_up_s else []
    if len(shown) < len(table):
        words += f" Dots: one of {-(-len(table) // MAX_DOTS)} evaluations."
    picture = charts.draw_picture(462, f"Accuracy and loss over time. {words}", *parts, fits=True)
    return charts.make_figure(
        picture, words, charts.make_legend(entries, "dot", {TARGET}, {"fill-warm-up"})
    )


def draw_runs(
    tables: Mapping[str, pd.DataFrame],
    classes: Mapping[str, str],
    begins_s: Mapping[str, float] = MappingProxyType({}),
) -> Html:
    """Draw the accuracy of several runs over time; `tables` maps run names to `accuracy`.

    `classes` are the CSS classes of their lines, which are thin until a run's warm-up ended, as
    `begins_s` says.
    """
    both = pd.concat(list(tables.values()))
    x = Scale(0.0, float(both["t_s"].max()) * 1.02 or 1.0, 64, WIDTH - 8)
    frame = Frame(x, charts.fit_scale(both["accuracy_percent"], 330, 24, zero=False))
    lines, entries = [], []
    for name, table in tables.items():
        if len(table):
            shown = table.iloc[:: -(-len(table) // MAX_DOTS)]
            points = _list_points(shown, "accuracy_percent", frame)
            for some, thin in split_line(points, x(begins_s.get(name, 0.0))):
                lines.append(charts.draw_line(some, f"line{thin} {classes[name]}"))
            entries.append((f"line {classes[name]}", name))
    entries += [(THIN, "warm-up")] if any(begins_s.values()) else []
    picture = charts.draw_picture(
        378,
        "The accuracy of every run over time",
        frame.draw_axes("time (s)", "test accuracy (%)"),
        lines,
        fits=True,
    )
    return charts.make_figure(
        picture, "Each run has its own clock.", charts.make_legend(entries, "line")
    )


def split_line(points: Sequence[Point], begin: float) -> Iterator[tuple[Sequence[Point], str]]:
    """A line up to its last point until `begin`, as ` thin`, and the rest, from that point on."""
    first = sum(at <= begin for at, _ in points)
    if first > 1:
        yield points[:first], " thin"
    if first < len(points):
        yield points[max(0, first - 1) :], ""


def draw_curves(curves: Sequence[Curve]) -> Html:
    """Draw the mean accuracy of each variant over time, its interval, its trials, and targets."""
    every = [point for curve in curves for line in curve.trials for point in line]
    targets = list_targets(curves)
    x = Scale(0.0, max(t for t, _ in every) * 1.02, 64, WIDTH - 8)
    levels = [*targets, *(value for _, value in every)]
    frame = Frame(x, charts.fit_scale(levels, 330, 24, zero=False))
    bands = [_draw_band(curve, frame) for curve in curves if curve.low]
    lines: list[Html] = []
    entries = []
    for target in targets:
        ends = [(x.start, frame.y(target)), (x.end, frame.y(target))]
        lines.append(charts.draw_line(ends, TARGET))
    for curve, name in zip(curves, name_curves(curves), strict=True):
        class_ = choose_class(curve.number)
        for trial in curve.trials:
            points = [(x(t), frame.y(value)) for t, value in trial]
            lines.append(charts.draw_line(points, f"line thin {class_}"))
            lines.append(charts.draw_dots(points[-1:], f"small {class_}"))
        means = ((x(t), frame.y(value)) for t, value in curve.mean)
        lines.append(charts.draw_line(means, f"line {class_}"))
        entries.append((f"line {class_}", name))
    if targets:
        entries.append((TARGET, describe_targets(targets)))
    warm_up_s = find_warm_up_s(curves)
    entries += [("fill-warm-up", describe_warm_up(curves))] if warm_up_s else []
    picture = charts.draw_picture(
        378,
        "The accuracy of every variant over time",
        charts.draw_warm_up(x, warm_up_s, frame.y.start, frame.y.end),
        frame.draw_axes("time (s)", "test accuracy (%)"),
        _clip(bands, frame) if bands else None,
        lines,
        fits=True,
    )
    words = f"{describe_models(curves)} {CURVES}"
    legend = charts.make_legend(entries, "line", bars={"fill-warm-up"})
    return charts.make_figure(picture, words, legend)


def _draw_band(curve: Curve, frame: Frame) -> Html:
    """The interval of a variant's mean, in its colour; the axis may be too short for all of it."""
    edge = ((frame.x(t), frame.y(value)) for t, value in (*curve.low, *reversed(curve.high)))
    return charts.draw_line(edge, f"band fill-{_choose_colour(curve.number)}")


def _clip(drawn: Sequence[Html], frame: Frame) -> Html:
    """Show only what is within the axes."""
    x, y = frame.x, frame.y
    area = tag("rect", x=x.start, y=y.end, width=x.end - x.start, height=y.start - y.end)
    return tag("g", tag("clipPath", area, id=CLIP), tag("g", *drawn, clip_path=f"url(#{CLIP})"))


def list_targets(curves: Sequence[Curve]) -> list[float]:
    """The accuracies at which runs of these variants stop, each once, in ascending order."""
    return sorted({each.target_percent for each in curves if each.target_percent is not None})


def describe_targets(targets: Sequence[float]) -> str:
    """Targets in words: `target 80 %`."""
    return f"target{'s' * (len(targets) > 1)} {', '.join(f'{each:g} %' for each in targets)}"


def find_warm_up_s(curves: Sequence[Curve]) -> float:
    """When the last warm-up ended; 0 without one."""
    return max((curve.warm_up_s for curve in curves), default=0.0)


def describe_warm_up(curves: Sequence[Curve]) -> str:
    """What the legend says of warm-ups, which may end at different times."""
    alike = len({curve.warm_up_s for curve in curves}) == 1
    return "warm-up" if alike else "until the end of the last warm-up"


def name_curves(curves: Sequence[Curve], names: Sequence[str] = ()) -> list[str]:
    """The names of curves, by default their own; with the model if not all are of the same one."""
    shown = list(names) or [curve.name for curve in curves]
    if len({curve.of for curve in curves}) < 2:
        return shown
    return [f"{name} ({', '.join(c.of)})" for name, c in zip(shown, curves, strict=True)]


def describe_models(curves: Sequence[Curve]) -> str:
    """A sentence about which models were evaluated."""
    found = {of: MODELS.get(of, of) for curve in curves for of in curve.of}
    if len(found) < 2:
        return f"Evaluated: {''.join(found.values())}."
    return f"Evaluated: {'; '.join(f'{of}, {words}' for of, words in found.items())}."


TARGET = "line dashed stroke-ink"
"""The CSS class of a target."""

THIN = "line thin stroke-ink"
"""The CSS class of a line in the warm-up, in legends."""

CLIP = "accuracy-axes"
"""The id of the area within the axes, once on a page."""

CURVES = (
    "Thick: the mean over the trials that passed, with its 95 % interval, until the first of them "
    "ends. Thin: each trial; a dot is its end."
)


def choose_class(number: int) -> str:
    """The CSS class of the lines of the run or variant with this number, from 0."""
    dashed = " dashed" if number >= len(SERIES) else ""
    return f"stroke-{_choose_colour(number)}{dashed}"


def _choose_colour(number: int) -> str:
    return SERIES[number % len(SERIES)]


def _list_points(table: pd.DataFrame, column: str, frame: Frame) -> list[tuple[float, float]]:
    found = zip(table["t_s"], table[column], strict=True)
    return [(frame.x(t), frame.y(value)) for t, value in found if np.isfinite(value)]
