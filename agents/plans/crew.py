"""CREW: weighted stars around every site, shares from a linear program (Luo et al., CREW).

Section III-B: all n sites aggregate, not just the group. The shares `x[j]` of the blocks minimise
T_scatter + T_multicast (LP (2)):

    T_scatter   = max_j x[j] / min_{i in P, i != j} b[i, j]
    T_multicast = max_j x[j] / min_{i in P, i != j} b[j, i]

Algorithm 1 shares the chunks accordingly. With T the optimum, a pipelined task takes T/2 to T. It
takes T if both phases need the same link, as they do between two members of the group.

`split: pipelined` is not in the paper. It minimises the time of the busiest link over both phases
together. That is the time that these stars can reach with many small chunks.

On an overlay that is not a full mesh, the paper gives no share to a site without direct links to
the whole group (`hubs: direct`). If that leaves few sites, their links are the bottleneck. With
`hubs: routed`, all sites aggregate, over source routes. The linear program then counts what each
hop carries, for all stars together:

    T_scatter   b[e] >= sum of x[j] over all i in P whose route to j has the hop e
    T_multicast b[e] >= sum of x[j] over all i in P whose route from j has the hop e

With direct links only, each link carries one share, and this is LP (2).

In a network with routers, links of the overlay share links of the underlay. `split: pipelined` with
`hubs: routed` counts these, too: each carries what all hops over it carry. `aware` does not. Its
optimum would be slower then, because it counts the phases one after the other, but both use the
shared links at the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from trunkline.agents.planning.plan import Block, Directed, Edge, Plan, PlanError, PlanRequest, star
from trunkline.agents.planning.routes import route_rates_mbps, routes

if TYPE_CHECKING:
    from numpy.typing import NDArray

Split = Literal["aware", "even", "pipelined"]
"""`aware`: shares by LP (2), the paper's N-A; `even`: equal shares, its E-D; `pipelined`: shares by
`solve_pipelined`."""

Hubs = Literal["routed", "direct"]
"""The sites that may aggregate: all, over source routes; or those with direct links to the whole
group, the paper's rule."""


Carrier = tuple[Literal["hop", "link"], Directed]
"""What carries shares: a hop of the overlay, or a link of the underlay."""


def build(request: PlanRequest, *, split: Split = "aware", hubs: Hubs = "routed") -> Plan:
    """All sites aggregate; see `build_stars` for sites that the group cannot reach directly.

    Options:
        split: how sites share the model: `aware` by the paper's linear program, `even` equally,
            `pipelined` by a linear program for scatter and multicast at the same time.
        hubs: whether sites without direct links to the whole group aggregate over source routes
            (`routed`) or not at all (`direct`, the paper's rule). Equal shares are of sites with
            direct links, if there are any.
    """
    return build_stars(request, request.sites, split, hubs)


def default(request: PlanRequest, *, split: Split = "aware", hubs: Hubs = "routed") -> Plan:
    """The plan for P = N: the default split of a non-blocking scatter, for every group."""
    return build(replace(request, group=request.sites), split=split, hubs=hubs)


def build_stars(
    request: PlanRequest, candidates: Sequence[str], mode: Split, which: Hubs = "routed"
) -> Plan:
    """Stars around the candidates, over direct links where there are any, else over source routes.

    With `direct`, or with equal shares, only candidates that have direct links, both ways, with the
    whole group take part, unless there is none (the paper's rule for unreachable workers).

    Raises:
        PlanError: the group has fewer than two sites.
    """
    if len(request.group) < 2:
        raise PlanError(f"a partial reduce needs at least two sites, got {len(request.group)}")
    direct = [site for site in candidates if _is_direct(site, request)]
    paper = which == "direct" or mode == "even"
    hubs = direct if paper and direct else list(candidates)
    found = routes(_pairs(hubs, request.group), request.rates_mbps)
    if mode == "even":
        shares = dict.fromkeys(hubs, 1.0)
    elif not paper and (len(direct) < len(hubs) or (request.paths and mode == "pipelined")):
        shares = solve_routed(hubs, request, found, mode == "pipelined")
    else:
        solve = solve_shares if mode == "aware" else solve_pipelined
        shares = solve(hubs, request.group, route_rates_mbps(found, request.rates_mbps))
    blocks = []
    for hub, chunks in request.split(shares).items():
        blocks.append(Block(chunks, hub, *star(hub, request.group, found)))
    return Plan(request.group, request.group, request.chunk_count, tuple(blocks))


def solve_shares(
    hubs: Sequence[str], group: Sequence[str], rates_mbps: dict[Directed, float]
) -> dict[str, float]:
    """Solve LP (2): the share of each hub; shares sum to 1. Raises PlanError without a solution."""
    n = len(hubs)
    inward = [min(rates_mbps[site, hub] for site in group if site != hub) for hub in hubs]
    outward = [min(rates_mbps[hub, site] for site in group if site != hub) for hub in hubs]
    # Unknowns: x[0..n-1], T_scatter, T_multicast. Rates are relative to the fastest, for good
    # conditioning.
    scale = max(*inward, *outward)
    upper = np.zeros((2 * n, n + 2))
    upper[np.arange(n), np.arange(n)] = scale / np.array(inward)
    upper[n + np.arange(n), np.arange(n)] = scale / np.array(outward)
    upper[:n, n] = upper[n:, n + 1] = -1.0
    total = np.concatenate([np.ones(n), [0.0, 0.0]])[np.newaxis]
    cost = np.concatenate([np.zeros(n), [1.0, 1.0]])
    return _solve(hubs, cost, upper, total)


def solve_pipelined(
    hubs: Sequence[str], group: Sequence[str], rates_mbps: dict[Directed, float]
) -> dict[str, float]:
    """Minimise the time T in which every link (i, j) of the stars carries its load.

        (x[j] if i in P) + (x[i] if j in P) <= T b[i, j]

    The first term is the scatter of j's block, the second one the multicast of i's block. Returns
    the share of each hub; shares sum to 1. Raises PlanError without a solution.
    """
    n = len(hubs)
    column = {hub: number for number, hub in enumerate(hubs)}
    scale = max(rates_mbps.values())
    load = np.zeros((len(rates_mbps), n + 1))
    for row, ((src, dst), rate_mbps) in zip(load, rates_mbps.items(), strict=True):
        if src in group and dst in column:
            row[column[dst]] = 1.0
        if dst in group and src in column:
            row[column[src]] = 1.0
        row[n] = -rate_mbps / scale
    cost = np.append(np.zeros(n), 1.0)
    return _solve(hubs, cost, load, np.append(np.ones(n), 0.0)[np.newaxis])


def solve_routed(
    hubs: Sequence[str], request: PlanRequest, found: Mapping[Directed, Edge], pipelined: bool
) -> dict[str, float]:
    """The share of each hub if stars use links that carry several shares.

    Minimises T_scatter + T_multicast of the module's docstring; if `pipelined`, the time of the
    busiest link, over both phases.

    Args:
        hubs: the sites that aggregate.
        request: the group, the rates of hops, and the links that hops share.
        found: the route of each pair of a hub and a member, both ways.
        pipelined: whether both phases run at the same time.
    """
    n, paths = len(hubs), request.paths if pipelined else {}
    loads: defaultdict[Carrier, NDArray[np.float64]] = defaultdict(lambda: np.zeros((2, n)))
    for column, hub in enumerate(hubs):
        for site in request.group:
            for phase, pair in enumerate(((site, hub), (hub, site))):
                for carrier in _list_carriers(found.get(pair, ()), paths):
                    loads[carrier][phase, column] += 1.0
    carriers = sorted(loads)
    mbps = {"hop": request.rates_mbps, "link": request.link_mbps}
    rates = np.array([mbps[kind][ends] for kind, ends in carriers])
    rates /= rates.max()
    # By phase: how many shares of each hub a hop or link carries.
    shares = np.array([loads[carrier] for carrier in carriers]).transpose(1, 0, 2)
    phases = shares.sum(axis=0, keepdims=True) if pipelined else shares
    rows = len(carriers)
    upper = np.zeros((len(phases) * rows, n + len(phases)))
    for number, load in enumerate(phases):
        here = slice(number * rows, (number + 1) * rows)
        upper[here, :n], upper[here, n + number] = load, -rates
    times = np.ones(len(phases))
    cost = np.concatenate([np.zeros(n), times])
    return _solve(hubs, cost, upper, np.concatenate([np.ones(n), 0.0 * times])[np.newaxis])


def _list_carriers(route: Edge, paths: Mapping[Directed, Sequence[Directed]]) -> Iterator[Carrier]:
    """The hops of a route, and the links of the underlay below them."""
    for hop in pairwise(route):
        yield "hop", hop
        for link in paths.get(hop, ()):
            yield "link", link


def _solve(
    hubs: Sequence[str],
    cost: NDArray[np.float64],
    upper: NDArray[np.float64],
    total: NDArray[np.float64],
) -> dict[str, float]:
    """Minimise `cost` subject to `upper` <= 0 and `total` = 1; the shares are the first unknowns.

    With n hubs and m unknowns the shapes are (m,) for `cost`, (rows, m) for `upper` and (1, m) for
    `total`.
    """
    # Imported here, because the import takes a second in the embedded kernel.
    from scipy.optimize import linprog

    solved = linprog(cost, upper, np.zeros(len(upper)), total, [1.0], method="highs")
    if not solved.success or solved.x is None:
        raise PlanError(f"the linear program for the shares has no solution: {solved.message}")
    # The solver may return a share slightly below 0.
    return {hub: max(0.0, float(share)) for hub, share in zip(hubs, solved.x, strict=False)}


def _is_direct(hub: str, request: PlanRequest) -> bool:
    return all(pair in request.rates_mbps for pair in _pairs([hub], request.group))


def _pairs(hubs: Sequence[str], group: Sequence[str]) -> list[Directed]:
    return [
        pair for hub in hubs for site in group if site != hub for pair in ((site, hub), (hub, site))
    ]
