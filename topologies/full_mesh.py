"""Every site has a link to every other one, each direction independent (CREW, section V)."""

from __future__ import annotations

import random
import sys
from pathlib import Path

if __name__ == "builtins":  # exec()ed by `mn --custom`, which leaves the package unimportable
    _FOLDERS = Path(sys._getframe().f_code.co_filename).resolve().parents
    sys.path[:0] = [str(_FOLDERS[1] / "src"), str(_FOLDERS[2])]  # of a checkout, or installed

from trunkline.topologies.formats.network_file import ReadFile
from trunkline.topologies.link_options import Delays, Rates, Sites, build_overlay, parse_sites
from trunkline.topologies.mininet_topo import mininet_topo, read_here
from trunkline.topologies.model import Topology, check_link_count


def build(
    rng: random.Random,
    *,
    sites: Sites = 4,
    rates_mbps: Rates = "n2",
    delays_ms: Delays | None = None,
    jitter_ms: float = 0.0,
    loss_percent: float = 0.0,
    queue_bytes: int | None = None,
    rate_factor: float = 1.0,
    read: ReadFile = read_here,
) -> Topology:
    """A link for each ordered pair of sites.

    Options:
        sites: a count, a list of names or measured regions, or name -> region.
        rates_mbps: one rate, [low, high] (uniform), n1, n2, intercloud, skyplane, a CSV file with a
            matrix, or src -> dst -> rate.
        delays_ms: one-way delays in the same forms, except n1 and n2; by default the measured
            delays if the rates are a measured matrix, else 30 ms.
        jitter_ms, loss_percent, queue_bytes: of every link.
        rate_factor: multiplies every rate. With a model smaller by the same factor, times
            stay the same.
    """
    places = parse_sites(sites)
    names = [site.name for site in places]
    check_link_count(len(names) * (len(names) - 1))  # before there are so many pairs
    return build_overlay(
        "full_mesh",
        places,
        [(src, dst) for src in names for dst in names if src != dst],
        rng,
        rates_mbps=rates_mbps,
        delays_ms=delays_ms,
        jitter_ms=jitter_ms,
        loss_percent=loss_percent,
        queue_bytes=queue_bytes,
        rate_factor=rate_factor,
        read=read,
    )


topos = {"full_mesh": mininet_topo(build)}
