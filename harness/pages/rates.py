"""What links were set to and what traffic got of it (pure)."""

from __future__ import annotations

import pandas as pd

from harness.pages import charts
from harness.pages.charts import LETTER, WIDTH, Frame, Scale
from harness.pages.frame import folded
from harness.pages.markup import Child, Html, table, tag

MOST_LINKS = 40
"""Links, those that carried most, that are shown; the file has all."""


def section(links: pd.DataFrame, counted: bool) -> list[Child]:
    """The links that carried most, as bars and in numbers.

    If `counted`, the bytes are the interfaces' (`harness.tables.counted`).
    """
    used = links[links["bytes"] > 0]
    if not len(used):
        return [tag("p", "No link carried any payload.")]
    shown = used.sort_values("bytes", ascending=False, kind="stable")[:MOST_LINKS]
    shown = shown.sort_index()
    numbers = folded(f"In numbers: {len(shown)} links", _numbers(shown), long=True)
    return [_bars(shown, len(used), counted), numbers]


def _bars(links: pd.DataFrame, used: int, counted: bool) -> Html:
    names = [f"{src} → {dst}" for src, dst in zip(links["src"], links["dst"], strict=True)]
    row, top = 15.0, 6.0
    left = 14 + LETTER * max(map(len, names))
    bottom = top + row * len(links)
    most = max(links["rate_mbps"].max(), links["goodput_mbps"].max())
    x = Scale(0.0, most * 1.02, left, WIDTH - 8)
    places = [top + row * number for number in range(len(links))]
    rates = [
        (left, y + 1.5, max(0.5, x(rate) - left), row - 3)
        for y, rate in zip(places, links["rate_mbps"], strict=True)
    ]
    goodputs = [
        (left, y + 4, max(0.5, x(value) - left), row - 8)
        for y, value in zip(places, links["goodput_mbps"].fillna(0), strict=True)
    ]
    picture = charts.picture(
        bottom + 46,
        f"Set rate and goodput of {len(links)} links; the table below has the numbers",
        Frame(x, Scale(0, 1, bottom, top)).axes("Mbit/s"),
        [
            tag("text", name, x=left - 8, y=y + 11, class_="tick end")
            for y, name in zip(places, names, strict=True)
        ],
        charts.bars(rates, "fill-wait"),
        charts.bars(goodputs, "fill-blue"),
    )
    name, words = (
        "goodput while busy",
        "Goodput is payload over the time in which a link carried any.",
    )
    if counted:
        name, words = "carried during tasks", "What interfaces counted while any site synchronized."
    if used > len(links):
        words += (
            f" The {len(links)} of {used} used links that carried most; tables/links.csv has all."
        )
    legend = charts.legend((("fill-wait", "set rate"), ("fill-blue", name)))
    return charts.figure(picture, words, legend)


def _numbers(links: pd.DataFrame) -> Html:
    heads = ("link", "rate (Mbit/s)", "delay (ms)", "payload (MB)", "busy (s)", "goodput (Mbit/s)",
             "goodput / rate (%)", "dropped packets")  # fmt: skip
    rows = [
        (
            f"{row['src']} → {row['dst']}",
            charts.short(row["rate_mbps"]),
            charts.short(row["delay_ms"]),
            f"{row['bytes'] / 1e6:.2f}",
            f"{row['busy_s']:.2f}",
            "" if pd.isna(row["goodput_mbps"]) else f"{row['goodput_mbps']:.2f}",
            "" if pd.isna(row["utilisation_percent"]) else f"{row['utilisation_percent']:.1f}",
            "" if pd.isna(row["drops"]) else str(row["drops"]),
        )
        for row in links.to_dict("records")
    ]
    return table(heads, rows, "links", range(1, 8))
