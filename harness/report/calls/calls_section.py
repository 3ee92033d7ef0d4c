"""The section on the calls of `torch.distributed`: a timeline, and their durations (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence

import pandas as pd

from trunkline.agents.events.call_events import TimingStopped
from trunkline.harness.config.units import SIZE_BYTES, join_words, short
from trunkline.harness.record.history import Disturbance
from trunkline.harness.report.calls.call_tables import list_kinds, summarize
from trunkline.harness.report.calls.calls_in_faults import HARMLESS
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import LETTER, WIDTH, Frame, Scale
from trunkline.harness.report.pages.fault_strip import Strip
from trunkline.harness.report.pages.markup import Child, make_table, tag

COLOURS = ("fill-blue", "fill-orange", "fill-green", "fill-sky", "fill-purple")
"""The kinds of calls that took most time have a colour each; all others share OTHERS.

They are those of the figure `calls`.
"""

OTHERS = "fill-grey"

MAX_BARS = 12_000
"""The most bars of the timeline; with more, neighbouring bars of a colour are merged."""

APART = 1.0
"""The space after a bar that has room for it, so that calls in a row can be told apart."""

MAX_FAULTS = 5
"""The most faults that are named for a call."""

MAX_REASONS = 20
"""The most processes whose timing stopped that the page lists."""


def write_section(
    calls: pd.DataFrame,
    stopped: Sequence[TimingStopped],
    sites: Sequence[str],
    end_s: float,
    clock: str,
    faults: Sequence[Disturbance] = (),
    idle: Container[int] = (),
) -> list[Child]:
    """When each site was in which call, and how long calls took; says whose timing stopped.

    `idle` are the numbers of faults that touched no call.

    Faults are marked as in the Gantt chart, whose hatching this uses. The timeline ends at `end_s`,
    in seconds; `clock` is the name of the run's clock.
    """
    reasons = [
        tag("p", f"{each.site}, process {each.process}: {each.reason}.")
        for each in stopped[:MAX_REASONS]
    ]
    if not len(calls):
        words = "No program made a call of torch.distributed that could be timed."
        return [tag("p", words), *reasons]
    rows = [
        [
            row["call"],
            _format_size(row["low_bytes"], row["high_bytes"]),
            f"{row['calls']:.0f}",
            *(charts.format_known(row[key], ".4f") for key in _TIMES),
            f"{row['calls'] - row['completed']:.0f}",
        ]
        for row in summarize(calls).to_dict("records")
    ]
    heads = ("call", "size", "calls", "mean (s)", "median (s)", "longest (s)", "sum (s)",
             "not completed")  # fmt: skip
    words = (
        "The calls of all sites together. A call ends when its work is done, even if its program "
        "did not wait for it; tables/calls.csv has each call."
    )
    busy = [fault for fault in faults if fault.started.fault not in idle]
    return [
        *reasons,
        _draw_timeline(calls, list_kinds(calls), sites, end_s, clock, faults),
        tag("p", words, *_describe_longest(calls, busy)),
        make_table(heads, rows, "calls", range(1, len(heads))),
    ]


def _describe_longest(calls: pd.DataFrame, faults: Sequence[Disturbance]) -> Iterator[str]:
    """For some kinds of calls, the faults during which the longest one was under way."""
    done = calls[calls["outcome"] == "completed"]
    told = []
    for kind in list_kinds(done):
        of_kind = done[done["call"] == kind]
        row = of_kind.nlargest(1, "duration_s").to_dict("records")[0]
        begin_s, end_s = row["start_s"], row["start_s"] + row["duration_s"]
        during = [
            str(fault.started.fault)
            for fault in faults
            if fault.started.verb not in HARMLESS
            and fault.started.t_ns < end_s * 1e9
            and (fault.end_ns is None or fault.end_ns > begin_s * 1e9)
        ]
        if during:
            which = f"fault{'s' * (len(during) > 1)} {join_words(during[:MAX_FAULTS])}"
            more = len(during) - MAX_FAULTS
            which += f" and {more} more" if more > 0 else ""
            told.append(f"that of {kind} at {row['site']} during {which}")
    if told:
        yield f" Of the longest calls, some were under way during faults: {'; '.join(told)}."


def _format_size(low: int, high: int) -> str:
    """The size of calls, or the least and the largest one."""
    sizes = [short(size, SIZE_BYTES) for size in dict.fromkeys((low, high))]
    return " to ".join(sizes)


_TIMES = ("mean_s", "median_s", "max_s", "sum_s")


def _draw_timeline(
    calls: pd.DataFrame,
    kinds: Sequence[str],
    sites: Sequence[str],
    end_s: float,
    clock: str,
    faults: Sequence[Disturbance],
) -> Child:
    """A row per site; bars are calls, in the colour of their kind."""
    ends_s = (calls["start_s"] + calls["duration_s"]).fillna(end_s)
    row = 26.0 if len(sites) <= 20 else 15.0
    left = 14 + LETTER * max(6, *map(len, sites))
    x = Scale(0.0, max(end_s, float(ends_s.max()), 1e-3), left, WIDTH - 8)
    strip = Strip.of(faults, x)
    top = strip.height + 4
    bottom = top + row * len(sites)
    colours = dict(zip(kinds, COLOURS, strict=False))
    spans: defaultdict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    ranks = {site: rank for rank, site in enumerate(sites)}
    for site, kind, start_s, end_s in zip(
        calls["site"], calls["call"], calls["start_s"], ends_s, strict=True
    ):
        spans[colours.get(kind, OTHERS), ranks[site]].append((x(start_s), x(end_s)))
    gap = 0.0
    bars = dict(_place_bars(spans, top, row, gap))
    while sum(map(len, bars.values())) > MAX_BARS and gap < WIDTH:
        gap = gap * 2 or 0.25
        bars = dict(_place_bars(spans, top, row, gap))
    picture = charts.draw_picture(
        bottom + 46,
        f"A row for each of {len(sites)} sites: its calls of torch.distributed over time.",
        Frame(x, Scale(0, 1, bottom, top)).draw_axes(f"{clock} time (s)"),
        strip.draw_bands(top, bottom),
        [
            tag("text", site, x=left - 8, y=top + (rank + 0.5) * row + 4, class_="tick end")
            for site, rank in ranks.items()
        ],
        # Short calls lie on top of long ones, such as a broadcast that waits for an all-reduce.
        [charts.draw_bars(bars[colour], colour) for colour in (*COLOURS, OTHERS) if colour in bars],
        strip.draw_in_rows(sites, top, row),
        strip.draw(),
    )
    legend = [(colour, kind) for kind, colour in colours.items()]
    legend += [(OTHERS, "other calls")] if len(kinds) > len(colours) else []
    caption = "Calls of torch.distributed at each site. Calls of the same colour may overlap."
    if calls["duration_s"].isna().any():
        caption += " A call that never ended is drawn until the end."
    if gap:
        caption += " Bars that are close to each other are drawn as one."
    caption += strip.describe("programs were")
    return charts.make_figure(picture, caption, charts.make_legend(legend))


def _place_bars(
    spans: dict[tuple[str, int], list[tuple[float, float]]], top: float, row: float, gap: float
) -> Iterator[tuple[str, list[charts.Bar]]]:
    """Each colour, and its bars."""
    for colour in dict.fromkeys(colour for colour, _ in spans):
        yield (
            colour,
            [
                (start, top + (rank + 0.2) * row, _leave_space(end - start), 0.6 * row)
                for (each, rank), of_row in spans.items()
                if each == colour
                for start, end in charts.merge(of_row, gap, 0.5)
            ],
        )


def _leave_space(width: float) -> float:
    return width - APART if width > 3 * APART else width
