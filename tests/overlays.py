"""Overlays and plan requests for tests of plans."""

import random

from hypothesis import strategies as st

from trunkline.agents.planning.plan import PlanRequest

MESH = ("a", "b", "c", "d")


def mesh(sites=MESH, rate=100.0):
    return {(a, b): rate for a in sites for b in sites if a != b}


def ladder(sites, rate_mbps=1.0):
    """An overlay with two ways between any two sites: a ring with a chord."""
    pairs = [*zip(sites, sites[1:] + sites[:1], strict=True), (sites[0], sites[len(sites) // 2])]
    return {link: rate_mbps for a, b in pairs for link in ((a, b), (b, a))}


def request(rates, group, chunk_count=100, seed=1, first=None):
    sites = tuple(sorted({site for link in rates for site in link}))
    delays = dict.fromkeys(rates, 10.0)
    rng = random.Random(seed)
    return PlanRequest(tuple(group), sites, rates, delays, chunk_count, rng, first)


@st.composite
def overlays(draw, most=9, extra=20):
    """A random strongly connected overlay: a random tree plus random edges, rates per direction."""
    n = draw(st.integers(2, most))
    sites = [f"s{i}" for i in range(n)]
    edges = {(sites[draw(st.integers(0, i - 1))], sites[i]) for i in range(1, n)}
    pairs = st.tuples(st.sampled_from(sites), st.sampled_from(sites))
    edges |= {(a, b) for a, b in draw(st.lists(pairs, max_size=extra)) if a != b}
    links = sorted({*edges, *((b, a) for a, b in edges)})
    return {link: float(draw(st.integers(1, 300))) for link in links}
