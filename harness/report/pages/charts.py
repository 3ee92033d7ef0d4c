"""Building blocks of pictures: scales, axes, bars, lines, legends (pure).

Many bars or dots become one SVG path: an element for each would make pages many times larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from trunkline.harness.report.pages.markup import Child, Html, make_scrollable, number, tag

WIDTH = 960.0
"""The width of every picture in units of its view box; the page scales it to the window."""

LETTER = 7.0
"""The approximate width of a letter of a label, in units of the view box."""

LEAST_REM = 50.0
"""The least width of a picture that can be scrolled, as in the style."""

NARROW_LETTER = 14.0
"""The same of a chart that is as narrow as a narrow window."""

NARROW, DOT_SHARE = 0.4, 0.85
"""How much smaller a chart is in a narrow window; the share of their distance that dots take."""

LOG_RATIO = 20.0
"""Values with a larger ratio of largest to smallest get a logarithmic axis."""

LOGARITHMIC = ", logarithmic axis"
"""What is added to the label of such an axis."""

Bar = tuple[float, float, float, float]
"""(x, y, width, height) in units of the view box."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps the values `low` to `high` to the coordinates `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
        share = (value - low) / (high - low) if high > low else 0.0
        return self.start + share * (self.end - self.start)

    def ticks(self, about: int = 6) -> tuple[float, ...]:
        """Round values within the scale, `about` this many of them, and two if there are any."""
        found = self._find_ticks(about)
        return found if len(found) > 1 else self._find_ticks(2 * about)

    def _find_ticks(self, about: int) -> tuple[float, ...]:
        if self.log:
            found = [
                digit * 10.0**power
                for power in range(math.floor(math.log10(self.low)), 20)
                for digit in (1, 2, 5)
            ]
            inside = [value for value in found if self.low <= value <= self.high]
            if len(inside) > 1:
                return tuple(inside[:: -(-len(inside) // (about + 2)) or 1])
        step = _round_step((self.high - self.low) / max(about, 1))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return tuple(index * step for index in range(first, last + 1))


@dataclass(frozen=True, slots=True)
class Frame:
    """The plotting area of a picture."""

    x: Scale
    y: Scale

    def draw_axes(
        self,
        x_label: str,
        y_label: str = "",
        whole_x: bool = False,
        whole_y: bool = False,
        x_names: Sequence[str] = (),
        above: float = 0.0,
    ) -> Html:
        """Draw grid lines, numbers and labels. An axis without a label has no numbers.

        With `whole_x` and `whole_y`, that axis has ticks at whole numbers only. With `x_names`,
        these stand at 0, 1, 2, ... in place of numbers. The label of a logarithmic axis says so.
        The upper label leaves room for what stands `above` the plotting area.
        """
        x_label, y_label = (
            f"{label}{LOGARITHMIC}" if label and scale.log else label
            for scale, label in ((self.x, x_label), (self.y, y_label))
        )
        left, right = self.x.start, self.x.end
        bottom, top = self.y.start, self.y.end
        y_ticks = self.y.ticks(max(2, round((bottom - top) / 40))) if y_label else ()
        y_ticks = tuple(v for v in y_ticks if not whole_y or v == round(v))
        lines = [Html(f"M{number(left)} {number(self.y(v))}H{number(right)}") for v in y_ticks]
        names = [
            tag("text", format_value(v), x=left - 8, y=self.y(v) + 4, class_="tick end")
            for v in y_ticks
        ]
        room = NARROW_LETTER * (2 + max(map(len, x_names), default=0))
        most = min(10, int((right - left) / room)) if x_names else 10
        x_ticks = [v for v in self.x.ticks(most) if not whole_x or v == round(v)]
        if x_names:
            x_ticks = [v for v in x_ticks if 0 <= v < len(x_names)]
        lines += [Html(f"M{number(self.x(v))} {number(bottom)}V{number(top)}") for v in x_ticks]
        names += [
            tag(
                "text",
                x_names[int(v)] if x_names else format_value(v),
                x=self.x(v),
                y=bottom + 18,
                class_="tick middle",
            )
            for v in x_ticks
            if x_label
        ]
        middle = (left + right) / 2
        move = f"--to-left:{number(left - middle)}px"  # in a narrow window, see the style
        title = tag("text", x_label, x=middle, y=bottom + 38, class_="label middle", style=move)
        return tag(
            "g",
            tag("path", d="".join(lines), class_="grid"),
            names,
            title,
            tag("text", y_label, x=4, y=top - above - 10, class_="label") if y_label else None,
        )


def fit_scale(values: Iterable[float], start: float, end: float, zero: bool = True) -> Scale:
    """A scale for these values with some margin.

    With `zero`, it starts at zero if the values stay readable, and is logarithmic otherwise.
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if zero and low > 0 and high > LOG_RATIO * low:
        return Scale(low / 1.15, high * 1.15, start, end, log=True)
    if zero and low >= 0:
        return Scale(0.0, high * 1.06 or 1.0, start, end)
    room = (high - low) * 0.06 or 1.0
    return Scale(low - room, high + room, start, end)


def draw_picture(
    height: float,
    label: str,
    *children: Child | Iterable[Child],
    fits: bool = False,
    width: float = WIDTH,
) -> Html:
    """An SVG picture; screen readers read the label.

    A picture that `fits` is as narrow as the window, with larger text; others can be scrolled. One
    that is not as wide as others has the same scale.
    """
    share = width / WIDTH
    size = f"width:{number(100 * share)}%;min-width:{number(LEAST_REM * share)}rem"
    return tag(
        "svg",
        *children,
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_label=label,
        class_="fits" if fits else None,
        style=None if width == WIDTH else size,
    )


def make_figure(image: Html, caption: Child | Sequence[Child], *above: Child) -> Html:
    """A picture with a caption below, if any; `above` stands above it, such as a legend."""
    parts = caption if isinstance(caption, list | tuple) else [caption]
    return tag(
        "figure",
        *above,
        make_scrollable(image, "picture, can be scrolled"),
        None if caption is None else tag("figcaption", *parts),
    )


def make_legend(
    entries: Iterable[tuple[str, str]],
    shape: str = "bar",
    lines: Container[str] = (),
    bars: Container[str] = (),
) -> Html:
    """A legend of (CSS class, meaning) entries; `shape` is `bar`, `dot` or `line`.

    Classes in `lines` are drawn as lines in any case, and those in `bars` as bars.
    """

    def find_shape(kind: str) -> str:
        return "line" if kind in lines else "bar" if kind in bars else shape

    made = [tag("li", _draw_key(kind, find_shape(kind)), text) for kind, text in entries]
    return tag("ul", made, class_="legend")


def draw_bars(shown: Iterable[Bar], class_: str) -> Html:
    """Draw bars as one element."""
    path = "".join(
        f"M{number(x)} {number(y)}h{number(width)}v{number(height)}h{number(-width)}z"
        for x, y, width, height in shown
    )
    return tag("path", d=path, class_=class_)


def draw_bands(
    spans: Iterable[tuple[float, float]], top: float, bottom: float, class_: str = "fill-band"
) -> Html:
    """Draw bands behind a chart, by default those of faults, from left to right of each span."""
    return draw_bars(((a, top, b - a, bottom - top) for a, b in spans), class_)


WARM_UP = "warm-up, not in the numbers"
"""What legends say of the background of a warm-up that the numbers beside it leave out."""


def draw_warm_up(x: Scale, warm_up_s: float, top: float, bottom: float) -> Html | None:
    """Draw the background of a warm-up behind a chart over time; nothing without one."""
    span = x(0.0), x(min(warm_up_s, x.high))
    return draw_bands([span], top, bottom, "fill-warm-up") if warm_up_s else None


def draw_line(points: Iterable[tuple[float, float]], class_: str, steps: bool = False) -> Html:
    """Draw a line through points; with `steps`, it keeps each value until the next point."""
    shown = [(number(x), number(y)) for x, y in points]
    begin = f"M{shown[0][0]} {shown[0][1]}" if shown else ""
    path = "".join(f"H{x}V{y}" if steps else f"L{x} {y}" for x, y in shown[1:])
    return tag("path", d=begin + path, class_=class_)


def draw_dots(points: Iterable[tuple[float, float]], class_: str, size: str | None = None) -> Html:
    """Draw dots as one element: lines of length zero with round ends.

    `size` is that of `choose_size`, if not the usual one.
    """
    path = "".join(f"M{number(x)} {number(y)}h0" for x, y in points)
    return tag("path", d=path, class_=f"dots {class_}", style=size)


def choose_size(apart: float) -> str:
    """The size of dots that are so far apart, in wide and in narrow windows, as a style."""
    wide, narrow = (
        number(min(max(DOT_SHARE * each, least), most))
        for each, least, most in ((apart, 2.5, 7.0), (apart * NARROW, 1.5, 6.0))
    )
    return f"--dot:{wide}px;--narrow-dot:{narrow}px"


MARKS: Mapping[str, str] = {"cross": "M-4 -4l8 8m0 -8l-8 8", "tick": "M0 -5v10"}
"""The path of a mark around its middle."""


def draw_marks(points: Iterable[tuple[float, float]], mark: str, class_: str) -> Html:
    """Draw marks of MARKS; they are larger in a narrow window."""
    path = tag("path", d=MARKS[mark], class_=f"line mark {class_}")
    places = (f"translate({number(x)} {number(y)})" for x, y in points)
    return tag("g", [tag("g", path, transform=place) for place in places])


def format_value(value: float) -> str:
    """A number with four significant digits; from 10 000 on whole, with thin spaces."""
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}".replace(",", "\u202f")


def format_known(value: Any, form: str = "") -> str:
    """A value of a table in this form; nothing if it is empty."""
    return "" if pd.isna(value) else format(value, form)


def truncate(text: str, width: float) -> str:
    """The text, cut with an ellipsis if it is wider than `width` units of the view box."""
    letters = max(2, int(width / LETTER))
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def merge(
    spans: Iterable[tuple[float, float]], gap: float, least: float
) -> list[tuple[float, float]]:
    """Sort spans, merge those less than `gap` apart, and make each at least `least` long."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        end = max(end, start + least)
        if found and gap > 0 and start - found[-1][1] < gap:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _draw_key(class_: str, shape: str) -> Html:
    shapes: dict[str, Callable[[], Html]] = {
        "bar": lambda: tag("rect", x=1, y=1, width=16, height=10, class_=class_),
        "dot": lambda: tag("path", d="M9 6h0", class_=f"dots {class_}"),
        "line": lambda: tag("path", d="M1 6h16", class_=class_),
        **{mark: partial(draw_marks, [(9, 6)], mark, class_) for mark in MARKS},
    }
    return tag("svg", shapes[shape](), viewBox="0 0 18 12", class_="key", aria_hidden="true")


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5 or 10 times a power of ten that is at least `least`."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * (1 - 1e-9))
