"""The busiest link of a run of programs, and whether rates were the limit (pure).

Interfaces are counted a few times a second. Between two counts, bytes are assumed to move evenly
while calls move bytes. If links carry bytes in turn, none of them is busy for long: so the busiest
link of each moment tells whether rates were the limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from trunkline.agents.events.run_events import LinksCounted
from trunkline.agents.planning.plan import Directed
from trunkline.harness.network.count_times import list_times
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.step_times import list_moving
from trunkline.harness.record.transfers import union
from trunkline.harness.report.calls.calls_in_faults import find_fault_times
from trunkline.harness.report.calls.silent_links import find_counts
from trunkline.harness.report.calls.step_tables import PARTS
from trunkline.harness.report.overlay.link_load import count_counted_bytes
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.model import Topology

LIMIT_SHARE = 0.8
"""Links that carried such a share of their rates while calls moved bytes were the limit."""

LITTLE_SHARE = 0.5
"""Links that carried less were not."""

COUNTS_IN_CALL = 2
"""Counts tell which links a call used in turn if so many of them are in a call."""

LEAST_TOLD = 1 / 3
"""The least share of the time in which calls moved bytes that such counts have to tell of."""


@dataclass(frozen=True, slots=True)
class Busiest:
    """The link that carried most of what its rate allows.

    Attributes:
        mbps: its load on average over the run, headers included.
        rate_mbps: its rate, on average over the run.
        moving_share: the share of its rate that it carried while a call moved bytes.
        range_mbps: the lowest and the highest rate that it had in the run.
        any_share: the share of its rate that the busiest link of each moment carried while a call
            moved bytes, on average; None if counts were too far apart to tell.
    """

    ends: Directed
    mbps: float
    rate_mbps: float
    moving_share: float
    range_mbps: tuple[float, float] = (0.0, 0.0)
    any_share: float | None = None

    def describe(self, is_most: bool) -> str:
        """In sentences; `is_most` says that moving bytes was the largest part of the time."""
        src, dst = self.ends
        low, high = (f"{mbps:.4g}" for mbps in self.range_mbps)
        changed = f" (its rate changed between {low} and {high} Mbit/s)" * (low != high)
        said = (
            f"The busiest link, {src} -> {dst}, carried {self.mbps:.3g} of its "
            f"{self.rate_mbps:.4g} Mbit/s on average{changed}, and {100 * self.moving_share:.0f} % "
            "of its rate while calls moved bytes"
        )
        if self.moving_share >= LIMIT_SHARE:
            return f"{said}: its rate was the limit."
        return f"{said}.{self._describe_any(is_most)}"

    def _describe_any(self, is_most: bool) -> str:
        if self.any_share is None or not (is_most or self.any_share >= LIMIT_SHARE):
            return ""
        said = (
            " At each moment of that time, one link or another carried "
            f"{100 * self.any_share:.0f} % of its rate on average: rates"
        )
        if self.any_share >= LIMIT_SHARE:
            return f"{said} were the limit."
        if self.any_share >= LITTLE_SHARE:
            return f"{said} and delays shared that time."
        return (
            f"{said} were not the limit. Delays, and TCP on new or idle connections, took more "
            "time than the bytes at these rates."
        )


def describe_busiest(history: History, scenario: Scenario, sums: pd.DataFrame) -> Iterator[str]:
    """A sentence on the busiest link, and whether its rate was the limit; none if none moved bytes.

    `sums` are the parts of the time of programs.
    """
    busiest = find_busiest(history, scenario.topology, scenario.programs)
    if busiest is not None:
        yield busiest.describe(sums[list(PARTS)].mean().idxmax() == "moving_s")


def find_busiest(history: History, topology: Topology, programs: Iterable[str]) -> Busiest | None:
    """The busiest link while calls moved bytes; None if none did, or if no bytes were counted."""
    programs = tuple(programs)
    late_ns = find_fault_times(history, programs).since_ns
    moving = tuple(list_moving(history, programs, late_ns))
    spans = tuple(union(moving))
    links = tuple((link.src, link.dst) for link in topology.links)
    if not spans or not history.end_ns or not history.all(LinksCounted):
        return None
    conditions = Conditions.of(history, topology)
    shares = list(_find_shares(history, conditions, links, spans))
    share, busiest = max(zip(shares, links, strict=True), key=lambda each: each[0])
    if not share:
        return None
    run_ns = np.array([0.0, history.end_ns])
    (moved,) = count_counted_bytes(history, (busiest,), run_ns)
    rate_mbps = conditions.mean_rate_mbps(busiest, history.end_ns)
    spells = conditions.within(busiest, 0, history.end_ns)
    rates = [spell.link.rate_mbps for spell, _, _ in spells]
    mbps = 8e3 * float(moved[0]) / history.end_ns
    any_share = _find_any_share(history, conditions, moving, spans)
    return Busiest(busiest, mbps, rate_mbps, share, (min(rates), max(rates)), any_share)


def _find_any_share(
    history: History, conditions: Conditions, moving: Sequence[Interval], spans: Sequence[Interval]
) -> float | None:
    """The share of its rate that the busiest link of each moment carried in these spans.

    `moving` are the times in which single calls moved bytes. None if counts are too far apart.
    """
    longest_ns = _find_usual_ns(moving) / COUNTS_IN_CALL
    busy_ns = defaultdict[int, float](float)
    for ends, counts in find_counts(history).items():
        for since_ns, t_ns, carried in counts:
            if (lasted_ns := t_ns - since_ns) <= longest_ns:
                room = conditions.capacity_bytes(ends, [(since_ns, t_ns)])
                took_ns = lasted_ns * carried / room if room else 0.0
                busy_ns[since_ns] = max(busy_ns[since_ns], took_ns)
    edges_ns = [t_ns for span in spans for t_ns in span]
    past_ns = np.cumsum(np.diff(edges_ns, prepend=edges_ns[0]) * (np.arange(len(edges_ns)) % 2))
    counted_ns = [0, *list_times(history.end_ns)]
    moved_ns = np.diff(np.interp(counted_ns, edges_ns, past_ns))
    told = [
        (min(busy_ns[since_ns], moved), moved)
        for (since_ns, t_ns), moved in zip(pairwise(counted_ns), moved_ns, strict=True)
        if t_ns - since_ns <= longest_ns
    ]
    told_ns = sum(moved for _, moved in told)
    if not told_ns or told_ns < LEAST_TOLD * past_ns[-1]:
        return None
    return float(sum(busy for busy, _ in told) / told_ns)


def _find_usual_ns(moving: Sequence[Interval]) -> float:
    """How long a call moved bytes: half of all time that calls did was in longer ones."""
    lengths = np.sort([end - start for start, end in moving])
    return float(lengths[np.searchsorted(lengths.cumsum(), lengths.sum() / 2)])


def _find_shares(
    history: History,
    conditions: Conditions,
    links: tuple[Directed, ...],
    spans: tuple[Interval, ...],
) -> Iterator[float]:
    """The share of its rate that each link carried in these spans; 0 if it could carry nothing."""
    edges_ns = np.array([t_ns for span in spans for t_ns in span], dtype=float)
    moved = count_counted_bytes(history, links, edges_ns)[::2].sum(axis=0)
    for ends, sent in zip(links, moved, strict=True):
        room = conditions.capacity_bytes(ends, spans)
        yield float(sent) / room if room else 0.0
