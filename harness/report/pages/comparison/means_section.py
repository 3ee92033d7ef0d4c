"""The means of a comparison's cells with their intervals, as a chart (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf, isfinite, log10, nan

from trunkline.harness.config.units import count_of
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.accuracy_section import choose_class
from trunkline.harness.report.pages.charts import LETTER, NARROW_LETTER, WIDTH, Frame, Scale
from trunkline.harness.report.pages.markup import Child, Html, tag

TEXT, MARK, MEAN, TRIALS, BELOW = 24.0, 40.0, 20.0, 11.0, 34.0
"""In a cell's row, in units of the view box: the foot of its text and the middle of its marks, from
the top; from there, or from the text without marks, to the mean; from there to the first trial, and
to the end. In a narrow window marks are larger, and trials lower."""

KEY, LABEL = 34.0, 48.0
"""Where the dot of a cell is, and where its label begins."""

SPREAD = 9.0
"""The height over which a cell's trials are spread, in their order: equal ones stay visible."""

GAP = 24.0
"""The room between a cell's name and its numbers."""

LETTERS = int((WIDTH - LABEL - GAP) / NARROW_LETTER)
"""The letters of a line in a narrow window; a cell's name is cut to leave room for its numbers."""

MAX_ROWS = 60
"""The most cells of a chart; the table has all."""


MARKS: Mapping[str, tuple[str, str]] = {
    "estimate": (
        "cross",
        "expected: estimate plus latency, the time of its plan in the fluid model",
    ),
    "bound": ("tick", "lower bound: no plan could be faster"),
}
"""Marks beside a mean -> their shapes and meanings."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A cell's mean over its trials that passed, and the bounds of its 95 % interval.

    Bounds are NaN for a single trial, and the mean as well if no trial has a value. `passed` tells
    how many trials passed: a program may pass without one, and `ended` whether any has ended. Of a
    task's time, `estimate` and `bound` are the means of the time that the plan should take, and of
    the time that no plan can beat. The cell has `planned` trials.
    """

    name: str
    mean: float
    low: float
    high: float
    trials: tuple[float, ...]
    passed: int = 0
    ended: bool = True
    estimate: float = nan
    bound: float = nan
    ratio: str = ""
    planned: int = 1


@dataclass(frozen=True, slots=True)
class Metric:
    """What a chart shows: a quantity with its unit, and its mean in every cell."""

    label: str
    means: Sequence[Mean]


def has_intervals(metrics: Sequence[Metric]) -> bool:
    """Whether a mean has an interval: that of a single trial has none."""
    return any(isfinite(each.high) for metric in metrics for each in metric.means)


def write_section(
    metrics: Sequence[Metric], predicted: bool = False, reference: str = ""
) -> list[Child]:
    """A legend, and a chart for each metric, of runs or of predictions.

    `reference` says which cell's ratio is 1.
    """
    if not metrics:
        return []
    which = "predictions" if predicted else "trials that passed"
    with_interval = ", with its 95 % interval" * has_intervals(metrics)
    if not with_interval:
        with_interval = " (no intervals: they need two trials)"
    keys = [
        ("stroke-blue", f"mean of the {which}{with_interval}"),
        ("small stroke-grey", "a prediction" if predicted else "a trial"),
    ]
    legends = [charts.make_legend(keys, "dot")]
    means = [each for metric in metrics for each in metric.means]
    for kind, (mark, words) in MARKS.items():
        if any(isfinite(getattr(each, kind)) for each in means):
            legends.append(charts.make_legend([("stroke-ink", words)], mark))
    several = any(len(metric.means) > 1 for metric in metrics)
    same = "Each variant has the same colour in all pictures of this page, and in those of plots/."
    if reference and any(each.ratio for each in means):
        same += f" Ratios are taken trial by trial; 1 is {reference}."
    colours = [tag("p", same, class_="facts")] if several else []
    return [*colours, *legends, *map(draw_means, metrics)]


def draw_means(metric: Metric) -> Html:
    """Draw a row for each cell: trials as small dots, the mean as a large one, and its interval.

    The name and the mean as a number stand above, so that the marks have the whole width.
    """
    shown = metric.means[:MAX_ROWS]
    values = [v for each in shown for v in (each.mean, each.high, *each.trials)]
    least = -inf if any(v < 0 for v in values) else 0.0  # an interval knows of no such limit
    values += [max(each.low, least) for each in shown if isfinite(each.low)]
    marked = [v for each in shown for v in (each.estimate, each.bound)]
    texts = [_format(each, metric.label) for each in shown]
    names = [
        charts.truncate(each.name, (LETTERS - len(text)) * LETTER)
        for each, text in zip(shown, texts, strict=True)
    ]
    to_mean = (MARK if any(map(isfinite, marked)) else TEXT) + MEAN
    row = to_mean + BELOW
    bottom = row * len(shown)
    is_log = charts.fit_scale(values, 24, WIDTH - 24).log
    x = charts.fit_scale([*values, *marked, *[0.0] * (not is_log)], 24, WIDTH - 24)
    y = [row * place + to_mean for place in range(len(shown))]
    words = [
        tag("text", name, tag("tspan", text, dx=GAP), x=LABEL, y=row * place + TEXT)
        for place, (name, text) in enumerate(zip(names, texts, strict=True))
    ]
    dots = [
        (x(value), at + TRIALS + SPREAD * number / max(1, len(each.trials) - 1))
        for each, at in zip(shown, y, strict=True)
        for number, value in enumerate(each.trials)
    ]
    marks = [
        charts.draw_marks([(x(value), row * place + MARK)], mark, "stroke-ink")
        for place, each in enumerate(shown)
        for kind, (mark, _) in MARKS.items()
        if isfinite(value := getattr(each, kind))
    ]
    intervals = " with 95 % intervals" * has_intervals([metric])
    picture = charts.draw_picture(
        bottom + 46,
        f"Mean {metric.label} of {len(shown)} cells{intervals}: "
        + "; ".join(f"{each.name}: {text}" for each, text in zip(shown, texts, strict=True)),
        _draw_bands(row, len(shown)),
        Frame(x, Scale(0, 1, bottom, 6)).draw_axes(f"mean {metric.label}"),
        charts.draw_dots(dots, "small stroke-grey trials"),
        marks,
        tag("g", *(_draw_mean(each, row, x, y[row]) for row, each in enumerate(shown))),
        tag("g", *map(_draw_key, range(len(shown)), [row] * len(shown))),
        tag("g", *words, class_="means"),
        fits=True,
    )
    left_out = len(metric.means) - len(shown)
    notes = [f"Not shown: {left_out} cells; the table has them."] if left_out else []
    if any(each.low < x.low for each in shown):
        notes.append("An arrow ends an interval that goes on below 0, where no value is possible.")
    return charts.make_figure(picture, " ".join(notes) or None)


def _draw_bands(row: float, rows: int) -> Html:
    """A pale band behind every other row: the marks between two edges belong to one label."""
    places = range(0, rows, 2) if rows > 1 else ()
    bands = [tag("rect", x=0, y=row * place + 4, width=WIDTH, height=row) for place in places]
    return tag("g", *bands, class_="bands")


def _draw_key(number: int, row: float) -> Html:
    """A dot in the colour of a cell, before its label."""
    class_, *_ = choose_class(number).split()
    return charts.draw_dots([(KEY, row * number + TEXT - 5)], class_)


def _draw_mean(each: Mean, row: int, x: Scale, at: float) -> list[Html]:
    """The interval and the mean of the cell in this row, in the colour that it has everywhere."""
    if not isfinite(each.mean):
        return []
    class_, *_ = choose_class(row).split()  # dashes would hide a short interval
    drawn = [charts.draw_dots([(x(each.mean), at)], class_)]
    if each.high - each.low > 1e-9 * abs(each.mean):
        low, high = x(max(each.low, x.low)), x(each.high)
        arrow = f"M{low + 6:.2f} {at - 5:.2f}L{low:.2f} {at:.2f}l6 5"
        start = arrow if each.low < x.low else f"M{low:.2f} {at - 5:.2f}v10"
        ends = f"{start}M{high:.2f} {at - 5:.2f}v10"
        path = f"M{low:.2f} {at:.2f}H{high:.2f}{ends}"
        drawn.append(tag("path", d=path, class_=f"line {class_}"))
    return drawn


def _format(each: Mean, label: str) -> str:
    if not isfinite(each.mean):
        if each.passed:
            return f"no {label.partition(' (')[0]}"
        return "no trial passed" if each.ended else "no trial has ended"
    ratio = f"; ratio {each.ratio}" if each.ratio else ""
    half = each.high - each.mean
    return format_interval(each.mean, half, len(each.trials), each.planned) + ratio


def format_interval(mean: float, half: float, trials: int = 1, planned: int = 1) -> str:
    """A mean and half of its interval, with equally many decimals: `0.23392 ± 0.00071`.

    The interval has two digits. The mean has at most five, and an interval below the fifth, or that
    is NaN, is left out. Fewer trials than were `planned` are counted beside it: `8 ± 3 (2 trials)`.
    """
    count = f" ({count_of(trials, 'trial')})" if 0 < trials < planned else ""
    if not isfinite(half):
        return format_number(mean) + count
    places = max(0, min(1 - _find_exponent(half), 4 - _find_exponent(mean)))
    if round(half, places) == 0:
        return format_number(mean) + count
    return f"{mean:.{places}f} ± {half:.{places}f}{count}"


def format_ratio(ratio: float, low: float, high: float, trials: int = 1, planned: int = 1) -> str:
    """A ratio and its interval, with equally many decimals: `1.27 (1.24 to 1.30)`.

    The largest has three digits. An interval of one value, or that is NaN, is left out. Fewer
    trials than were `planned` are counted beside it: `1.3 (0.2 to 9.1; 2 trials)`.
    """
    if not isfinite(low) or format_number(low) == format_number(high):
        return format_number(ratio)
    places = max(0, 2 - _find_exponent(high))
    count = f"; {count_of(trials, 'trial')}" if 0 < trials < planned else ""
    return f"{ratio:.{places}f} ({low:.{places}f} to {high:.{places}f}{count})"


def format_number(value: float) -> str:
    """A number with three significant digits; from 1000 on whole."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def _find_exponent(value: float) -> int:
    """The power of ten of the first digit."""
    return floor(log10(abs(value))) if value else 0
