"""The busiest link of a run of programs: its load, and that while calls moved bytes (pure).

Interfaces are counted a few times a second. Between two counts, bytes are assumed to move evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from trunkline.agents.events.run_events import LinksCounted
from trunkline.agents.planning.plan import Directed
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.step_times import list_moving
from trunkline.harness.record.transfers import union
from trunkline.harness.report.calls.calls_in_faults import find_fault_times
from trunkline.harness.report.calls.step_tables import PARTS
from trunkline.harness.report.overlay.link_load import count_counted_bytes
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.model import Topology

LIMIT_SHARE = 0.8
"""A link that carried such a share of its rate while calls moved bytes was the limit."""

LITTLE_SHARE = 0.5
"""A link that carried less was not."""


@dataclass(frozen=True, slots=True)
class Busiest:
    """The link that carried most of what its rate allows.

    Attributes:
        mbps: its load on average over the run, headers included.
        rate_mbps: its rate, on average over the run.
        moving_share: the share of its rate that it carried while a call moved bytes.
        range_mbps: the lowest and the highest rate that it had in the run.
    """

    ends: Directed
    mbps: float
    rate_mbps: float
    moving_share: float
    range_mbps: tuple[float, float] = (0.0, 0.0)

    def describe(self, is_most: bool) -> str:
        """A sentence; `is_most` says that moving bytes was the largest part of the time."""
        src, dst = self.ends
        low, high = (f"{mbps:.4g}" for mbps in self.range_mbps)
        changed = f" (its rate changed between {low} and {high} Mbit/s)" * (low != high)
        is_little = is_most and self.moving_share < LITTLE_SHARE
        link = f"usiest link, {src} -> {dst}, carried {self.mbps:.3g} of its"
        said = (
            f"{'Rates were not the limit: the b' if is_little else 'The b'}{link} "
            f"{self.rate_mbps:.4g} Mbit/s on average{changed}, and {100 * self.moving_share:.0f} % "
            "of its rate while calls moved bytes"
        )
        if is_little:
            return (
                f"{said}. Delays, and TCP on new or idle connections, took more time than the "
                "bytes at these rates."
            )
        if self.moving_share >= LIMIT_SHARE:
            return f"{said}: its rate was the limit."
        return f"{said}. Its rate and delays shared that time." if is_most else f"{said}."


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
    spans = tuple(union(list_moving(history, programs, late_ns)))
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
    return Busiest(busiest, mbps, rate_mbps, share, (min(rates), max(rates)))


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
