"""The section on branches that workers computed while they arrived (pure)."""

from __future__ import annotations

import pandas as pd

from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import LETTER, WIDTH, Frame, Scale
from trunkline.harness.report.pages.markup import Child, Html, tag

MAX_ROWS = 40
"""The most workers that are drawn; of more, the first ones are."""

ROW = 22.0
"""The height of a worker's row, in units of the view box."""


def write_section(branches: pd.DataFrame, run: pd.DataFrame) -> list[Child]:
    """The last iteration that began while its model arrived; `run` is the table of that name."""
    brought = branches[branches["kept"] & branches["task"].notna()]
    values = run.iloc[0]
    if not len(brought) or pd.isna(values["step_s"]):
        return []
    words = (
        f"An iteration took {values['step_s']:.3f} s on average from the start of its hand-out, "
        f"forward and backward. In {values['stall_percent']:.1f} % of this time workers waited for "
        "parameters: communication that is not hidden."
    )
    last = brought[brought["iteration"] == _find_last(brought)]
    return [tag("p", words), _draw_step(last)]


def _find_last(brought: pd.DataFrame) -> int:
    """The last iteration of which some worker computed all branches."""
    count = brought["branch"].max() + 1
    per_step = brought.groupby(["iteration", "site"])["branch"].nunique()
    whole = per_step[per_step == count]
    return int((whole if len(whole) else per_step).index.get_level_values(0).max())


def _draw_step(step: pd.DataFrame) -> Html:
    """A row for each worker: arrivals above, computations below."""
    every = list(dict.fromkeys(step["site"]))
    sites = sorted(every)[:MAX_ROWS]
    left = 14 + LETTER * max(6, *map(len, sites))
    begun = step["start_s"] - step["stall_s"]
    x = Scale(float(begun.min()), float(step["end_s"].max()), left, WIDTH - 8)
    top = 8.0
    bottom = top + ROW * len(sites)
    frame = Frame(x, Scale(0, 1, bottom, top))
    bars, stalls, dots, names = [], [], [], []
    for rank, site in enumerate(sites):
        y = top + ROW * rank
        rows = step[step["site"] == site]
        for start_s, end_s, stall_s, arrived_s in zip(
            rows["start_s"], rows["end_s"], rows["stall_s"], rows["arrived_s"], strict=True
        ):
            bars.append((x(start_s), y + 9, x(end_s) - x(start_s), ROW - 12))
            stalls.append(
                (x(start_s - stall_s), y + 9, x(start_s) - x(start_s - stall_s), ROW - 12)
            )
            dots.append((x(arrived_s), y + 5))
        names.append(tag("text", site, x=left - 8, y=y + ROW / 2 + 4, class_="tick end"))
    caption = (
        f"Iteration {int(step['iteration'].iloc[0])}. Dots: a branch has arrived. Bars: its "
        "forward computation, and the waits before it. tables/branches.csv has all "
        "iterations in numbers."
    )
    if len(sites) < len(every):
        caption += f" The first {len(sites)} of {len(every)} workers."
    picture = charts.draw_picture(
        bottom + 46,
        f"When branches arrived and were computed at {len(sites)} workers.",
        frame.draw_axes("time (s)"),
        names,
        charts.draw_bars(stalls, "fill-wait"),
        charts.draw_bars(bars, "fill-compute"),
        charts.draw_dots(dots, "small stroke-orange"),
    )
    entries = [("fill-compute", "compute a branch"), ("fill-wait", "wait for a branch")]
    return charts.make_figure(picture, caption, charts.make_legend(entries))
