"""The times after which agents count a silent connection as lost (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from trunkline.agents.wire import failover
from trunkline.agents.wire.failover import BEATS
from trunkline.harness.scenario.settings import Clock, Failover, Scenario
from trunkline.topologies.model import Topology

MIN_TIMEOUT_S: Mapping[Clock, float] = {"virtual": 2.0, "real": 10.0}
"""The shortest default timeout. TCP may need two seconds for a packet that is lost three times. On
a real clock, an agent on a busy host may be as silent as a dead one."""

BEAT_PER_LINK_S = 1e-3
"""The shortest default heartbeat, per directed link. It limits a network to a thousand heartbeats a
second, which would otherwise take most of the processor time of a large idle mesh."""


def with_defaults(options: Failover, topology: Topology, clock: Clock) -> Failover:
    """Fill in a heartbeat and a timeout that no working connection exceeds.

    The timeout is at least eight times the longest round trip, enough for several losses in a row,
    plus the time in which two full queues drain. A heartbeat is a quarter of the timeout.
    """
    timeout_s = options.timeout_s
    if timeout_s is None:
        round_trip_ms = find_longest_round_trip_ms(topology)
        drain_s = max(topology.queue_bytes(x) * 8e-6 / x.rate_mbps for x in topology.links)
        beats_s = BEATS * BEAT_PER_LINK_S * len(topology.links)
        wanted_s = max(MIN_TIMEOUT_S[clock], beats_s, 8e-3 * round_trip_ms + 2 * drain_s)
        timeout_s = max(float(f"{wanted_s:.2g}"), BEATS * (options.heartbeat_s or 0.0))
    heartbeat_s = options.heartbeat_s or timeout_s / BEATS
    return replace(options, heartbeat_s=heartbeat_s, timeout_s=timeout_s)


MANY_SITES = 200
"""From which number of sites on only the farthest sites with a single link are considered."""


def find_longest_round_trip_ms(topology: Topology) -> float:
    """The longest round trip, over both directions of the links from a site to a later one.

    Paths to the same site share their ends, so every hop is added once only.
    """
    delays_ms = topology.delays_ms()
    sites = topology.site_names
    if len(sites) > MANY_SITES:
        sites = _leave_out_near(topology, delays_ms)
    longest_ms = 0.0
    for count, dst in enumerate(sites):
        found_ms = {dst: 0.0}
        for src in sites[:count]:
            walk = [src]
            while walk[-1] not in found_ms:
                walk.append(topology.next_hop(walk[-1], dst))
            for there, here in pairwise(reversed(walk)):
                hop_ms = delays_ms[here, there] + delays_ms[there, here]
                found_ms[here] = found_ms[there] + hop_ms
            longest_ms = max(longest_ms, found_ms[src])
    return longest_ms


def _leave_out_near(
    topology: Topology, delays_ms: Mapping[tuple[str, str], float]
) -> tuple[str, ...]:
    """The sites without those with a single link to a node that has two such sites farther away."""
    leaves: defaultdict[str, list[str]] = defaultdict(list)
    kept: set[str] = set()
    for site in topology.site_names:
        near = topology.neighbours(site)
        if len(near) == 1:
            leaves[near[0]].append(site)
        else:
            kept.add(site)
    for near_site, found in leaves.items():
        far = sorted(found, key=lambda x: delays_ms[x, near_site] + delays_ms[near_site, x])
        kept.update(far[-2:])
    return tuple(site for site in topology.site_names if site in kept)


def make_failover(scenario: Scenario) -> failover.Failover:
    """The settings with which agents handle silent connections."""
    options = scenario.failover
    assert options.heartbeat_s is not None
    assert options.timeout_s is not None
    return failover.Failover(options.heartbeat_s, options.timeout_s, options.replans)
