"""Faults in the charts of a page: a strip with their texts, bands, and marks at sites (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from trunkline.harness.record.history import Disturbance
from trunkline.harness.report.faults.fault_layout import Lane, clip_s, lay_out
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

PATTERNS = tag(
    "defs",
    *(
        tag(
            "pattern",
            tag("path", d=path, class_="line-fault"),
            id=name,
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
        )
        for name, path in (("dead", "M0 0L6 6M6 0L0 6"), ("paused", "M0 6L6 0"))
    ),
)


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
        return Strip(faults, x, shown, [each for each in shown if each.number < MAX_LANES and few])

    @property
    def height(self) -> float:
        """The height of the strip in units of the view box."""
        return LANE * (2 + max((lane.number for lane in self.named), default=-2))

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
                lane.text,
                x=x(lane.start_s) + 3 if lane.text_end_s is None else x(lane.text_end_s) - 3,
                y=lane.number * LANE + 11.5,
                class_="lane" if lane.text_end_s is None else "lane end",
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
        shown = charts.merge(spans, 0.01, 0.5)
        return charts.draw_bars(((a, top, b - a, bottom - top) for a, b in shown), "fill-band")

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
            y = top + (rank + 0.08) * row
            for start, end in charts.merge(of_row, 0.5, 0.5):
                if kind == "link":
                    lines.append((start, y, end - start, 1.8))
                else:
                    size = {"width": end - start, "height": row * 0.84}
                    found.append(tag("rect", x=start, y=y, fill=HATCHES[kind], **size))
        return [charts.draw_bars(lines, "fill-fault"), *found]

    def describe(self, who: str) -> str:
        """What the marks mean, for a caption; `who` of a site was stopped. Empty without faults."""
        if not self.shown:
            return ""
        words = " Bands mark the times of faults."
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
