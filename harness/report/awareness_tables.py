"""Tables of `scheme.awareness`: measured link rates and clock errors beside the truth (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from trunkline.agents.events.awareness_events import ClockSynchronized, RateMeasured
from trunkline.agents.planning.plan import Directed
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.report.tables.row import Row, column
from trunkline.harness.scenario.sections import awareness_section
from trunkline.harness.scenario.settings import Scenario


class ProbeRow(Row, table="probes"):
    """One row per measurement of a link by a site, in order of time; only with
    `scheme.awareness`.
    """  # noqa: D205

    t_s: float = column("when it was")
    src: str = column("the site that sends over the link")
    dst: str = column("the site that receives")
    rate_mbps: float = column("the rate that was set then")
    estimate_mbps: float = column("the rate that the site measured")
    error_percent: float = column("(measured / set - 1) x 100")
    formula_mbps: float = column("the estimator's ideal result: no queue, and TCP fills the link")
    chunks: int = column("number of chunks that were measured")
    bytes: int = column("their total size")
    least_delay_ms: float | None = column(
        "the smallest delay of recent frames, including the difference of the clocks"
    )


class ClockRow(Row, table="clocks"):
    """One row per synchronization of a site's clock; only with `scheme.awareness`."""

    t_s: float = column("when it was")
    site: str = column("the site that asked for the time")
    server: str = column("the time server that answered")
    ahead_ms: float = column(
        "how far the site's clock was ahead of the clock at the acting controller's site"
    )
    before_ms: float | None = column(
        "how far ahead it was with its previous correction; empty at first"
    )
    error_ms: float = column("how far ahead it is with its new correction")
    delay_ms: float = column("round-trip time of question and answer")


def tabulate_probes(history: History, scenario: Scenario) -> Iterator[ProbeRow]:
    """One row per measurement of a link, in order of time.

    `rate_mbps` is the rate that was set then, of the slowest hop of the link's way. `formula_mbps`
    is the ideal value of the estimator: chunks of that size, no queue, a link that TCP fills,
    correct clocks. It is below the rate, because the estimator counts some propagation as
    transmission.
    """
    conditions = Conditions.of(history, scenario.topology)
    share = payload_share(scenario.network.mtu)
    awareness = scenario.scheme.awareness
    estimator = awareness.estimator if awareness else ""
    for event in history.all(RateMeasured):
        ends: Directed = (event.src, event.dst)
        there, back = (
            [conditions.at(hop, event.t_ns) for hop in pairwise(scenario.topology.path(*each))]
            for each in (ends, ends[::-1])
        )
        rate_mbps = min(hop.rate_mbps for hop in there)
        delay_ms, back_ms = (sum(hop.delay_ms for hop in way) for way in (there, back))
        # The propagation that each estimator counts as transmission.
        extra_ms = {"one_way": delay_ms, "round_trip": 0.75 * (delay_ms + back_ms)}
        size_mbit = event.bytes / event.chunks * 8e-6 / share
        took_s = size_mbit / rate_mbps + extra_ms.get(estimator, 0.0) / 1e3
        yield ProbeRow(
            t_s=event.t_ns / 1e9,
            src=event.src,
            dst=event.dst,
            rate_mbps=rate_mbps,
            estimate_mbps=event.rate_mbps,
            error_percent=100 * (event.rate_mbps / rate_mbps - 1),
            formula_mbps=size_mbit / took_s,
            chunks=event.chunks,
            bytes=event.bytes,
            least_delay_ms=event.least_delay_ms,
        )


def tabulate_clocks(history: History, scenario: Scenario) -> Iterator[ClockRow]:
    """One row per synchronization of a site's clock, in order of time.

    `ahead_ms` is how far the uncorrected clock was ahead of the controller's, `before_ms` how far
    with the old correction, `error_ms` how far with the new one.
    """
    for event in history.all(ClockSynchronized):
        backup = scenario.failover.backup if event.controller else None
        right = awareness_section.clock_of(scenario, backup or scenario.controller_site)
        own_ns = awareness_section.clock_of(scenario, event.site).read_ns(event.t_ns)
        ahead_ns = own_ns - right.read_ns(event.t_ns)
        before_ns = event.before_ns
        yield ClockRow(
            t_s=event.t_ns / 1e9,
            site=event.site,
            server=event.server,
            ahead_ms=ahead_ns / 1e6,
            before_ms=None if before_ns is None else (ahead_ns + before_ns) / 1e6,
            error_ms=(ahead_ns + event.correction_ns) / 1e6,
            delay_ms=event.delay_ms,
        )
