"""Tables of `scheme.awareness`: measured link rates and clock errors beside the truth (pure)."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd

from trunkline.agents.events.awareness_events import ClockSynchronized, RateMeasured
from trunkline.agents.planning.plan import Directed
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.report import columns
from trunkline.harness.scenario.sections import awareness_section
from trunkline.harness.scenario.settings import Scenario


def tabulate_awareness(history: History, scenario: Scenario) -> dict[str, pd.DataFrame]:
    """The tables `probes` and `clocks`."""
    return {
        "probes": tabulate_probes(history, scenario),
        "clocks": tabulate_clocks(history, scenario),
    }


def tabulate_probes(history: History, scenario: Scenario) -> pd.DataFrame:
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
    rows = []
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
        rows.append(
            {
                "t_s": event.t_ns / 1e9,
                "src": event.src,
                "dst": event.dst,
                "rate_mbps": rate_mbps,
                "estimate_mbps": event.rate_mbps,
                "error_percent": 100 * (event.rate_mbps / rate_mbps - 1),
                "formula_mbps": size_mbit / took_s,
                "chunks": event.chunks,
                "bytes": event.bytes,
                "least_delay_ms": event.least_delay_ms,
            }
        )
    return columns.PROBES.frame(rows)


def tabulate_clocks(history: History, scenario: Scenario) -> pd.DataFrame:
    """One row per synchronization of a site's clock, in order of time.

    `ahead_ms` is how far the uncorrected clock was ahead of the controller's, `before_ms` how far
    with the old correction, `error_ms` how far with the new one.
    """
    rows = []
    for event in history.all(ClockSynchronized):
        backup = scenario.failover.backup if event.controller else None
        right = awareness_section.clock_of(scenario, backup or scenario.controller_site)
        own_ns = awareness_section.clock_of(scenario, event.site).read_ns(event.t_ns)
        ahead_ns = own_ns - right.read_ns(event.t_ns)
        before_ns = event.before_ns
        rows.append(
            {
                "t_s": event.t_ns / 1e9,
                "site": event.site,
                "server": event.server,
                "ahead_ms": ahead_ns / 1e6,
                "before_ms": None if before_ns is None else (ahead_ns + before_ns) / 1e6,
                "error_ms": (ahead_ns + event.correction_ns) / 1e6,
                "delay_ms": event.delay_ms,
            }
        )
    return columns.CLOCKS.frame(rows)
