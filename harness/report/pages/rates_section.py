"""The section on the rates of links: set, used and measured (pure)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import LETTER, WIDTH, Frame, Scale
from trunkline.harness.report.pages.frame import fold
from trunkline.harness.report.pages.markup import Child, Html, make_table, tag
from trunkline.harness.report.pages.probes_section import Spread, compute_spreads, draw_probes

MAX_LINKS = 40
"""The number of links, those that carried most, that are shown; the file has all."""


MAX_PRINTED = 20
"""The most links whose numbers are printed."""


def write_section(
    links: pd.DataFrame,
    probes: pd.DataFrame | None,
    counted: bool,
    clock: str,
    synchronized: bool = False,
) -> list[Child]:
    """The links that carried most, as bars and in numbers, with the sites' measurements if any.

    If `counted`, bytes are the interfaces' (`tables.link_table.use_interface_counters`), and
    `synchronized` says whether programs reported when they synchronized.
    """
    used = links[links["bytes"] > 0]
    if not len(used):
        return [tag("p", f"No link carried any {'bytes' if counted else 'payload'}.")]
    shown = used.sort_values("bytes", ascending=False, kind="stable")[:MAX_LINKS]
    shown = shown.sort_index()
    measured = {} if probes is None else compute_spreads(probes)
    parts: list[Child] = [_draw_bars(shown, len(used), counted, measured, synchronized)]
    if probes is not None and len(probes):
        parts += [tag("h3", "Measured by the sites"), draw_probes(probes, clock)]
    file = "tables/links.csv" if len(shown) > MAX_PRINTED else None
    return [
        *parts,
        fold(f"In numbers: {len(shown)} links", _write_numbers(shown, counted), file=file),
    ]


def _draw_bars(
    links: pd.DataFrame,
    used: int,
    counted: bool,
    measured: Mapping[tuple[str, str], Spread],
    synchronized: bool,
) -> Html:
    ends = list(zip(links["src"], links["dst"], strict=True))
    names = [f"{src} → {dst}" for src, dst in ends]
    row, top = 15.0, 6.0
    left = 14 + LETTER * max(map(len, names))
    bottom = top + row * len(links)
    highs = [measured[link].high for link in ends if link in measured]
    most = max(links["rate_mbps"].max(), links["goodput_mbps"].max(), *highs)
    x = Scale(0.0, most * 1.02, left, WIDTH - 8)
    places = [top + row * number for number in range(len(links))]

    def bars(values: pd.Series[float], inset: float, class_: str) -> Html:
        sizes = zip(places, values.fillna(0), strict=True)
        shown = ((left, y + inset, max(0.5, x(v) - left), row - 2 * inset) for y, v in sizes)
        return charts.draw_bars(shown, class_)

    picture = charts.draw_picture(
        bottom + 46,
        f"Set rate and {'carried rate' if counted else 'goodput'} of {len(links)} links; the table "
        "below has the numbers",
        Frame(x, Scale(0, 1, bottom, top)).draw_axes("Mbit/s"),
        [
            tag("text", name, x=left - 8, y=y + 11, class_="tick end")
            for y, name in zip(places, names, strict=True)
        ],
        bars(links["rate_mbps"], 1.5, "fill-wait"),
        bars(links["goodput_mbps"], 4, "fill-blue"),
        [
            _draw_spread(measured[link], x, y + row / 2)
            for y, link in zip(places, ends, strict=True)
            if link in measured
        ],
    )
    name, words = (
        (
            "carried",
            "Bytes that interfaces counted, headers included, over "
            + ("the time in which any site synchronized." if synchronized else "the whole run."),
        )
        if counted
        else (
            "goodput while busy",
            "Goodput is payload over the time in which the link was busy. It is less than the set "
            "rate, because packets have headers, TCP has to find the rate of a new connection, and "
            "chunks wait for other links.",
        )
    )
    if highs:
        words += " Marks are medians of the sites' measurements, lines their middle 90 %."
    if used > len(links):
        words += (
            f" Shown are the {len(links)} of {used} used links that carried most;"
            " tables/links.csv has all."
        )
    entries = [("fill-wait", "set rate, its mean if it changed"), ("fill-blue", name)]
    legend = charts.make_legend(
        [*entries, *([("fill-orange", "measured by sites")] if highs else ())]
    )
    return charts.make_figure(picture, words, legend)


def _draw_spread(found: Spread, x: Scale, y: float) -> Html:
    """Draw a mark at the median and a line over the middle 90 %."""
    line = f"M{x(found.low):.2f} {y:.2f}H{x(found.high):.2f}"
    mark = f"M{x(found.median):.2f} {y - 5:.2f}v10"
    return tag("path", d=line + mark, class_="line stroke-orange")


def _write_numbers(links: pd.DataFrame, counted: bool) -> Html:
    moved, speed, time = ("sent", "carried", "over") if counted else ("payload", "goodput", "busy")
    heads = ("link", "rate (Mbit/s)", "delay (ms)", f"{moved} (MB)", f"{time} (s)",
             f"{speed} (Mbit/s)", f"{speed} / rate (%)", "dropped packets")  # fmt: skip
    rows = [
        (
            f"{row['src']} → {row['dst']}",
            charts.format_value(row["rate_mbps"]),
            charts.format_value(row["delay_ms"]),
            f"{row['bytes'] / 1e6:.2f}",
            f"{row['busy_s']:.2f}",
            charts.format_known(row["goodput_mbps"], ".2f"),
            charts.format_known(row["utilisation_percent"], ".1f"),
            charts.format_known(row["drops"]),
        )
        for row in links.to_dict("records")
    ]
    return make_table(heads, rows, "links", range(1, 8))
