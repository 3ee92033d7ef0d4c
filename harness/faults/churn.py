"""The random faults of a churn: which one is next, within the limits of the churn (pure)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from trunkline.agents.events.event import CONTROLLER
from trunkline.agents.planning.plan import Directed
from trunkline.harness.faults.fault_types import Churn, Fault, Kill, Outage, Pause, SetLink
from trunkline.topologies.links import MAX_QUEUE_S
from trunkline.topologies.model import Topology

LINK_KINDS = ("outages_s", "oneways_s", "losses_s", "slowdowns_s")
CHURN_KINDS = ("outages_s", "pauses_s", "kills_s", "controller_s", *LINK_KINDS[1:])
"""The kinds of random faults of a churn, in the order in which their times are drawn."""

CHURN_LOSS_PERCENT = (10.0, 60.0)
CHURN_RATE_SHARE = 0.1


def draw_fault(
    churn: Churn,
    kind: str,
    active: Sequence[Fault],
    topology: Topology,
    sites: Sequence[str],
    draw: random.Random,
) -> Fault | None:
    """Draw a fault of a kind; None if the limits of the churn forbid one.

    `active` are the faults that the churn has caused and that go on, `sites` have an agent or
    programs that can be stopped.
    """
    cut = {frozenset((each.a, each.b)) for each in active if isinstance(each, Outage | SetLink)}
    hit = {each.who for each in active if isinstance(each, Pause | Kill)}
    lasting_s = draw.uniform(*churn.lasting_s)
    if kind in LINK_KINDS:
        pairs = [
            (link.src, link.dst)
            for link in topology.links
            if link.src < link.dst
            and _may_break(link.src, link.dst, churn, topology)
            and frozenset((link.src, link.dst)) not in cut
        ]
        if len(cut) >= churn.links or not pairs:
            return None
        return _draw_link_fault(kind, draw.choice(pairs), lasting_s, topology, draw)
    among = [site for site in churn.among or sites if site in sites]
    whole = [who for who in ([CONTROLLER] if kind == "controller_s" else among) if who not in hit]
    if len(hit) >= churn.agents or not whole:
        return None
    make = Pause if kind == "pauses_s" else Kill
    return make(draw.choice(whole), lasting_s)


def _may_break(a: str, b: str, churn: Churn, topology: Topology) -> bool:
    """Whether the link is among the churn's: between its sites, or of one and a router."""
    sites = {a, b}.intersection(topology.site_names)
    return sites <= set(churn.among) and bool(sites) if churn.among else True


def _draw_link_fault(
    kind: str, pair: Directed, lasting_s: float, topology: Topology, draw: random.Random
) -> Fault:
    a, b = pair
    match kind:
        case "oneways_s":
            a, b = draw.choice((pair, pair[::-1]))
            return Outage(a, b, "one-way", for_s=lasting_s)
        case "losses_s":
            loss_percent = draw.uniform(*CHURN_LOSS_PERCENT)
            return SetLink(a, b, loss_percent=loss_percent, for_s=lasting_s)
        case "slowdowns_s":
            links = topology.link(a, b), topology.link(b, a)
            # A queue may take at most MAX_QUEUE_S to drain.
            least = max(map(topology.queue_bytes, links)) * 8e-6 / MAX_QUEUE_S
            rate_mbps = max(least, CHURN_RATE_SHARE * min(link.rate_mbps for link in links))
            return SetLink(a, b, rate_mbps=rate_mbps, for_s=lasting_s)
        case _:
            return Outage(a, b, for_s=lasting_s)
