"""Faults in the charts of a page: a strip with their texts, bands, and marks at sites (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from trunkline.harness.record.history import Disturbance
from trunkline.harness.report.activity import HEIGHT, TOP
from trunkline.harness.report.faults.fault_layout import (
    Lane,
    clip_s,
    find_rows_during,
    lay_out,
    lay_out_numbers,
)
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import Scale
from trunkline.harness.report.pages.markup import Html, tag

MAX_LANES, MAX_NAMED = 12, 80
"""The most lanes of the strip of faults; with more than MAX_NAMED faults there is no strip."""

LANE = 15.0
"""The height of a lane in units of the view box."""

LANE_LETTER = 5.9
"""The width of a letter of a lane's text; a text of capitals and digits is wider."""

HATCHES = {"kill": "url(#dead)", "pause": "url(#paused)"}

UNDOING = ("heal", "mend", "resume")
"""They undo faults, and are none."""

PATTERNS = tag(
    "defs",
    *(
        tag(
            "pattern",
            tag("rect", width=6, height=6, class_="veil"),
            tag("path", d=path, class_="line-fault"),
            id=name,
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
        )
        for name, path in (("dead", "M0 0L6 6M6 0L0 6"), ("paused", "M0 6L6 0"))
    ),
)


NUMBER_LANE, NUMBER_LETTER, MAX_NUMBER_LANES = 22.0, 14.0, 5
"""The height of a lane of numbers above tasks, the width of a digit in a narrow window, the most
lanes."""


@dataclass(frozen=True)
class Numbers:
    """The numbers of faults above the tasks that ran during them; `x` is the task's row.

    Attributes:
        shown: those that have a bar in the strip.
        left_out: the number of other faults with tasks.
        without: the numbers of faults during which no task ran.
    """

    x: Scale
    shown: Sequence[Lane]
    left_out: int
    without: Sequence[int]

    @staticmethod
    def of(faults: Sequence[Disturbance], tasks: pd.DataFrame, x: Scale) -> Numbers:
        """Place the numbers in lanes."""
        lanes = lay_out_numbers(faults, tasks, (x.end - x.start) / NUMBER_LETTER)
        shown = [lane for lane in lanes if lane.text_lane < MAX_NUMBER_LANES]
        without = [
            fault.started.fault
            for fault in faults
            if fault.started.targets
            and fault.started.verb not in UNDOING
            and not find_rows_during(fault, tasks)
        ]
        return Numbers(x, shown, len(lanes) - len(shown), without)

    @staticmethod
    def in_time(faults: Sequence[Disturbance], x: Scale) -> Numbers:
        """Place numbers and texts in lanes, over an axis of time, in letters of narrow windows."""
        lanes = lay_out(faults, (x.low, x.high), (x.end - x.start) / NUMBER_LETTER)
        shown = [lane for lane in lanes if lane.text_lane < MAX_NUMBER_LANES]
        return Numbers(x, shown, len(lanes) - len(shown), ())

    @property
    def height(self) -> float:
        """The height of the strip in units of the view box."""
        return NUMBER_LANE * (1 + max((lane.text_lane for lane in self.shown), default=-1))

    def draw(self, bottom: float) -> list[Html]:
        """Draw one bar per fault with its number; the strip ends at `bottom`."""
        if not self.shown:
            return []
        x, top = self.x, bottom - self.height
        bars = [
            (x(lane.start_s), top + lane.number * NUMBER_LANE, x(lane.end_s) - x(lane.start_s),
             NUMBER_LANE - 2)
            for lane in self.shown
        ]  # fmt: skip
        texts = [
            tag(
                "text",
                lane.label,
                x=x(lane.text_s) + (-4 if lane.text_ends else 4),
                y=top + lane.text_lane * NUMBER_LANE + 17,
                class_="end" if lane.text_ends else None,
            )
            for lane in self.shown
        ]
        name = tag("text", "fault", x=x.start - 8, y=top + 13, class_="tick end")
        return [name, charts.draw_bars(bars, "fill-lane"), *texts]

    def describe(self) -> str:
        """What is not shown, for a caption."""
        words = f" {self.left_out} more faults have no number here." if self.left_out else ""
        if self.without:
            numbers = ", ".join(map(str, self.without[:MAX_NAMED]))
            words += f" No task ran during fault{'s' * (len(self.without) > 1)} {numbers}."
        return words


@dataclass(frozen=True)
class Strip:
    """The faults of a chart whose axis of time is `x`, in seconds.

    Attributes:
        shown: all faults of that time.
        named: those that have a bar and a text in the strip above the chart.
    """

    faults: Sequence[Disturbance]
    x: Scale
    shown: Sequence[Lane]
    named: Sequence[Lane]

    @staticmethod
    def of(faults: Sequence[Disturbance], x: Scale) -> Strip:
        """Place the faults in lanes."""
        room = (x.end - x.start) / LANE_LETTER
        shown = lay_out(faults, (x.low, x.high), room)
        few = len(shown) <= MAX_NAMED
        named = [each for each in shown if each.text_lane < MAX_LANES and few]
        return Strip(faults, x, shown, named)

    @property
    def height(self) -> float:
        """The height of the strip in units of the view box."""
        return LANE * (2 + max((lane.text_lane for lane in self.named), default=-2))

    def draw(self) -> list[Html]:
        """Draw one bar per fault with its text."""
        if not self.named:
            return []
        x = self.x
        bars = [
            (
                x(lane.start_s),
                lane.number * LANE + 2,
                max(1.0, x(lane.end_s) - x(lane.start_s)),
                12.0,
            )
            for lane in self.named
        ]
        texts = [
            tag(
                "text",
                lane.label,
                x=x(lane.text_s) + (-3 if lane.text_ends else 3),
                y=lane.text_lane * LANE + 11.5,
                class_="lane end" if lane.text_ends else "lane",
            )
            for lane in self.named
        ]
        return [
            tag("text", "faults", x=x.start - 8, y=12, class_="tick end"),
            charts.draw_bars(bars, "fill-lane"),
            *texts,
        ]

    def draw_bands(self, top: float, bottom: float) -> Html:
        """Draw bands behind the rows at all times with a fault."""
        spans = [self._place(fault) for fault in self.faults if fault.started.targets]
        return charts.draw_bands(charts.merge(spans, 0.01, 0.5), top, bottom)

    def draw_in_rows(self, sites: Sequence[str], top: float, row: float) -> list[Html]:
        """Hatch what is dead or stopped; draw a line above the rows of a disturbed link's ends."""
        spans: defaultdict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
        ranks = {site: rank for rank, site in enumerate(sites)}
        for fault in self.faults:
            names = {name for target in fault.started.targets for name in target.split(" -> ")}
            kind = fault.started.verb if fault.started.verb in HATCHES else "link"
            for site in sorted(names & ranks.keys(), key=ranks.__getitem__):
                spans[kind, ranks[site]].append(self._place(fault))
        lines, found = [], []
        for (kind, rank), of_row in sorted(spans.items()):
            y, hatched = top + (rank + 0.08) * row, top + (rank + 0.5 + TOP) * row
            for start, end in charts.merge(of_row, 0.5, 0.5):
                if kind == "link":
                    lines.append((start, y, end - start, 1.8))
                else:
                    size = {"width": end - start, "height": row * HEIGHT}
                    found.append(tag("rect", x=start, y=hatched, fill=HATCHES[kind], **size))
        return [charts.draw_bars(lines, "fill-fault"), *found]

    def describe(self, who: str) -> str:
        """What the marks mean, for a caption; `who` of a site was stopped. Empty without faults."""
        if not self.shown:
            return ""
        words = " Bands mark the times of faults"
        words += ", which have their numbers in the table of faults." if self.named else "."
        if any(" -> " in target for fault in self.faults for target in fault.started.targets):
            words += " A line above a row: a link of that site was disturbed."
        if any(fault.started.verb in HATCHES for fault in self.faults):
            words += f" Hatched: its {who} stopped (one direction) or dead (crossed)."
        if left := len(self.shown) - len(self.named):
            words += f" {left} of {len(self.shown)} faults are not named here."
        return words

    def _place(self, fault: Disturbance) -> tuple[float, float]:
        """The start and the end of a fault on the axis."""
        high = self.x.high
        start_s, end_s = clip_s(fault, (self.x.low, high))
        return self.x(min(start_s, high)), self.x(min(end_s, high))
