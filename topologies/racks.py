"""Racks of sites with fast links within a rack and slower ones between racks (OWL).

Either each pair of sites has a link of its own, or all traffic into and out of a rack shares the
link of its switch.
"""

from __future__ import annotations

import itertools
import random
import sys
from dataclasses import replace
from pathlib import Path

if __name__ == "builtins":  # exec()ed by `mn --custom`, which leaves the package unimportable
    _FOLDERS = Path(sys._getframe().f_code.co_filename).resolve().parents
    sys.path[:0] = [str(_FOLDERS[1] / "src"), str(_FOLDERS[2])]  # of a checkout, or installed

from trunkline.topologies.links import Link, TopologyError, check_values
from trunkline.topologies.mininet_topo import mininet_topo
from trunkline.topologies.model import MAX_SITES, Site, Topology, check_link_count

ALPHA = 0.5
"""The default ratio of the rates between racks to those within a rack, as in the OWL paper."""


def build(
    rng: random.Random,
    *,
    racks: int = 2,
    sites_per_rack: int = 4,
    intra_rate_mbps: float = 100.0,
    inter_rate_mbps: float | None = None,
    alpha: float | None = None,
    intra_delay_ms: float = 0.1,
    inter_delay_ms: float = 1.0,
    server: bool = False,
    switches: bool = False,
    between_racks: bool = False,
    server_rate_mbps: float | None = None,
    jitter_ms: float = 0.0,
    loss_percent: float = 0.0,
    queue_bytes: int | None = None,
    rate_factor: float = 1.0,
) -> Topology:
    """A link for each ordered pair of sites, or switches; site n of rack m is `rMnN`.

    With `switches`, each site has a link to the switch of its rack, and switches and server have
    one to the router `core`. `rng` is not used.

    OWL: `alpha = B_inter / B_intra`, 0.5 by default. `B_inter` is the rate between racks and to the
    server, `B_intra` the rate within a rack. The paper gives no delays.

    Options:
        racks: the number of racks.
        sites_per_rack: the number of sites in each rack.
        intra_rate_mbps: the rate of links within a rack.
        inter_rate_mbps: the rate of links between racks; by default alpha * intra_rate.
        alpha: the ratio of the rates, inter to intra, instead of inter_rate; by default 0.5.
        intra_delay_ms: the one-way delay of links within a rack.
        inter_delay_ms: the one-way delay of links between racks.
        server: whether there is a site `server` outside the racks, the first one; its links are as
            those between racks.
        switches: whether the sites of a rack share one link to other racks and to the server, of
            `inter_rate` and half of `inter_delay`; the site's link to the switch then has
            `intra_rate` and half of `intra_delay`. If there is a server, only it is connected with
            sites of all racks.
        between_racks: with switches and a server, whether sites of different racks are connected,
            too, over the links of their switches.
        server_rate_mbps: with switches, the rate of the server's link, which all racks share; by
            default it is not a limit: that of all racks together.
        jitter_ms, loss_percent, queue_bytes: of every link.
        rate_factor: multiplies every rate. With a model smaller by the same factor, times
            stay the same.
    """
    _check_ratios(alpha, rate_factor, inter_rate_mbps)
    _check_counts(racks, sites_per_rack, server)
    if inter_rate_mbps is None:
        inter_rate_mbps = intra_rate_mbps * (ALPHA if alpha is None else alpha)
    every = (jitter_ms, loss_percent, queue_bytes)
    intra = Link("", "", rate_factor * intra_rate_mbps, intra_delay_ms, *every)
    inter = Link("", "", rate_factor * inter_rate_mbps, inter_delay_ms, *every)
    for kind, link in (("intra", intra), ("inter", inter)):
        _check_link(kind, link)
    if server_rate_mbps is not None and not (switches and server):
        text = "server_rate: only with server and switches"
        raise TopologyError(text, key="server_rate_mbps")
    if between_racks and not (switches and server):
        text = "between_racks: only with server and switches; without, all sites are connected"
        raise TopologyError(text, key="between_racks")
    sites = _list_sites(racks, sites_per_rack, server)
    if switches:
        together_mbps = racks * inter.rate_mbps
        uplink_mbps = together_mbps if server_rate_mbps is None else rate_factor * server_rate_mbps
        uplink = replace(inter, rate_mbps=uplink_mbps)
        _check_link("server", uplink)
        return _add_switches(sites, intra, inter, uplink, between_racks)
    links = tuple(
        replace(intra if a.rack == b.rack else inter, src=a.name, dst=b.name)
        for a, b in itertools.permutations(sites, 2)
    )
    return Topology("racks", sites, links)


def _check_ratios(alpha: float | None, rate_factor: float, inter_rate_mbps: float | None) -> None:
    for name, ratio in (("alpha", alpha), ("rate_factor", rate_factor)):
        if ratio is not None and not 0 < ratio < float("inf"):
            raise TopologyError(f"{name}: {ratio}: expected above 0", key=name)
    if alpha is not None and inter_rate_mbps is not None:
        raise TopologyError(f"alpha: {alpha}: expected either alpha or inter_rate", key="alpha")


def _check_counts(racks: int, sites_per_rack: int, server: bool) -> None:
    for name, count in (("racks", racks), ("sites_per_rack", sites_per_rack)):
        if not 1 <= count <= MAX_SITES:
            raise TopologyError(f"{name}: {count}: expected 1 to {MAX_SITES}", key=name)
    total = racks * sites_per_rack + server
    if not 2 <= total <= MAX_SITES:
        raise TopologyError(f"{total} sites: expected 2 to {MAX_SITES}", key="racks")
    check_link_count(total * (total - 1))


def _list_sites(racks: int, sites_per_rack: int, server: bool) -> tuple[Site, ...]:
    places = itertools.product(range(1, racks + 1), range(1, sites_per_rack + 1))
    in_racks = (Site(f"r{rack}n{number}", rack=f"r{rack}") for rack, number in places)
    return (*([Site("server")] if server else []), *in_racks)


def _add_switches(
    sites: tuple[Site, ...], intra: Link, inter: Link, uplink: Link, between_racks: bool
) -> Topology:
    """Switches of racks around a core, and a server at the core."""
    switches = tuple(dict.fromkeys(f"{site.rack}-switch" for site in sites if site.rack))
    cables = [(site.name, f"{site.rack}-switch", intra) for site in sites if site.rack]
    cables += [(switch, "core", inter) for switch in switches]
    cables += [(site.name, "core", uplink) for site in sites if not site.rack]
    links = tuple(
        replace(like, src=src, dst=dst, delay_ms=like.delay_ms / 2, jitter_ms=like.jitter_ms / 2)
        for a, b, like in cables
        for src, dst in ((a, b), (b, a))
    )
    pairs: tuple[tuple[str, str], ...] = ()
    if any(not site.rack for site in sites) and not between_racks:
        every = itertools.combinations(sites, 2)
        pairs = tuple((a.name, b.name) for a, b in every if not a.rack or a.rack == b.rack)
    return Topology("racks", sites, links, (*switches, "core"), pairs)


def _check_link(kind: str, link: Link) -> None:
    """Raise TopologyError for impossible values of a kind of links: intra, inter or server."""
    where = "the server's link" if kind == "server" else f"{kind}-rack links"
    try:
        check_values(where, link)
    except TopologyError as error:
        own = ("rate_mbps", "delay_ms")
        raise error.with_keys(lambda key: f"{kind}_{key}" if key in own else key) from None


topos = {"racks": mininet_topo(build)}
