"""How long a run's agents wait for somebody who is silent (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, pairwise

from trunkline.agents.wire import liveness
from trunkline.agents.wire.liveness import BEATS
from trunkline.harness.scenario.settings import Clock, Failover, Scenario
from trunkline.topologies.model import Topology

MIN_TIMEOUT_S: Mapping[Clock, float] = {"virtual": 2.0, "real": 10.0}
"""Of failover, unless a scenario asks for less: TCP may need two seconds for a packet lost thrice,
and on a real clock a busy agent of a busy host is as silent as a dead one."""

BEAT_PER_LINK_S = 1e-3
"""A beat is at least this long times the directed links: at most a thousand signs of life a second
in the whole network, which else would cost a large mesh more than its idle links do."""


def with_defaults(options: Failover, topology: Topology, clock: Clock) -> Failover:
    """The same with a heartbeat and a timeout that no working connection exceeds.

    The timeout leaves room for the longest round trip eight times, so for several losses in a row,
    and for two queues that fill up in between, and for four beats; a beat is a quarter of it.
    """
    timeout_s = options.timeout_s
    if timeout_s is None:
        sites = topology.site_names
        delays_ms = topology.delays_ms()
        round_trip_s = max(
            sum(delays_ms[hop] + delays_ms[hop[::-1]] for hop in pairwise(topology.path(a, b)))
            for a, b in combinations(sites, 2)
        )
        drain_s = max(topology.queue_bytes(x) * 8e-6 / x.rate_mbps for x in topology.links)
        beats_s = BEATS * BEAT_PER_LINK_S * len(topology.links)
        wanted_s = max(MIN_TIMEOUT_S[clock], beats_s, 8e-3 * round_trip_s + 2 * drain_s)
        timeout_s = max(float(f"{wanted_s:.2g}"), BEATS * (options.heartbeat_s or 0.0))
    heartbeat_s = options.heartbeat_s or timeout_s / BEATS
    return replace(options, heartbeat_s=heartbeat_s, timeout_s=timeout_s)


def make_failover(scenario: Scenario) -> liveness.Failover:
    """How the agents of a scenario deal with silence."""
    options = scenario.failover
    assert options.heartbeat_s is not None
    assert options.timeout_s is not None
    return liveness.Failover(options.heartbeat_s, options.timeout_s, options.replans)
