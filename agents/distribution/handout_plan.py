"""A hand-out as a plan: each message becomes a block with its tree (pure).

The hand-outs of all racks together are one plan. The messages of a rack with the same branches form
a tree from the server, and the trees of all racks share the server as their root. Workers push
directly to the server.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from trunkline.agents.distribution.handout import SERVER, Cluster, Handout, check
from trunkline.agents.planning.plan import Block, Chunks, Directed, Edge, Plan, PlanRequest, star
from trunkline.agents.planning.routes import routes
from trunkline.workloads.layered.model import Base, Branch, LayeredModel

MakeHandout = Callable[[LayeredModel, int], Handout]
"""Makes the hand-out in a rack with so many workers; the groups of branches are always the same."""

MakeAcross = Callable[[LayeredModel, Sequence[int]], Handout]
"""Makes the hand-out of all racks with so many workers each."""

Tree = list[Directed]
"""Who sends to whom; the server is the empty name."""


def make_plan(
    request: PlanRequest, held: Mapping[str, Chunks], make: MakeHandout, *, whole: bool = False
) -> Plan:
    """The plan by which servers hand out their chunks; blocks are `whole` messages or not.

    `held` are the chunks of each server. A server need not be a member of the group. Raises
    HandoutError if a hand-out breaks a constraint of OWL.
    """
    model = get_layers(request)
    trees: defaultdict[tuple[int, ...], Tree] = defaultdict(list)
    for members in find_racks(request, held):
        _grow(trees, model, members, make(model, len(members)))
    return _make_plan(request, held, model, trees, whole)


def make_plan_across(request: PlanRequest, held: Mapping[str, Chunks], make: MakeAcross) -> Plan:
    """The plan by which servers hand out their chunks to racks that help each other.

    Raises HandoutError if the hand-out breaks a constraint of OWL.
    """
    model, racks = get_layers(request), find_racks(request, held)
    trees: defaultdict[tuple[int, ...], Tree] = defaultdict(list)
    if racks:
        members = list(itertools.chain.from_iterable(racks))
        _grow(trees, model, members, make(model, [len(rack) for rack in racks]))
    return _make_plan(request, held, model, trees, False)


def _grow(
    trees: defaultdict[tuple[int, ...], Tree],
    model: LayeredModel,
    members: Sequence[str],
    handout: Handout,
) -> None:
    """Add the transfers of a hand-out to these members to the trees of their messages."""
    check(model, handout)
    for transfer in handout.transfers:
        source = "" if transfer.source == SERVER else members[transfer.source]
        trees[transfer.branches].append((source, members[transfer.target]))


def _make_plan(
    request: PlanRequest,
    held: Mapping[str, Chunks],
    model: LayeredModel,
    trees: dict[tuple[int, ...], Tree],
    whole: bool,
) -> Plan:
    chunks = _find_chunks(request, model)
    if not trees:
        trees[tuple(range(len(chunks)))] = []
    blocks = []
    for branches, tree in trees.items():
        indexes = {chunk for branch in branches for chunk in chunks[branch]}
        for server, spans in held.items():
            own = sorted(chunk for a, b in spans for chunk in range(a, b) if chunk in indexes)
            if own:
                blocks.append(_make_block(request, held, server, _join(own), tree, whole))
    return Plan(request.group, request.group, request.chunk_count, tuple(blocks))


def get_layers(request: PlanRequest) -> LayeredModel:
    """The model of a request; without layers, it has one branch."""
    if request.layers is not None:
        return request.layers
    size = sum(request.chunk_sizes or (4,) * request.chunk_count)
    return LayeredModel((Base("model", (Branch("all", size, 0.0, 0.0),)),))


def find_racks(request: PlanRequest, held: Mapping[str, Chunks]) -> list[list[str]]:
    """The workers of each rack; those without a rack are together."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for site in request.group:
        if site not in held:
            found[request.racks.get(site, "")].append(site)
    return list(found.values())


def measure_cluster(request: PlanRequest, held: Mapping[str, Chunks]) -> Cluster:
    """The racks of a request with their least rates, by which hand-outs are predicted.

    Without routers, a rack receives over the links of all of its workers together. With routers, it
    receives over the links that their paths from the server have in common.
    """
    racks = find_racks(request, held)
    server = next(iter(held))
    rates = request.rates_mbps
    fastest = max(rates.values(), default=1.0)
    within = [rates[a, b] for members in racks for a in members for b in members if (a, b) in rates]
    paths = {site: list(request.paths.get((server, site), ())) for of in racks for site in of}
    shared = _find_common(list(paths.values()))
    inlets = []
    for members in racks:
        common = _find_common([paths[site] for site in members]) - shared
        if common:
            inlets.append(min(request.link_mbps[link] for link in common))
        else:
            inlets.append(sum(rates.get((server, site), fastest) for site in members))
    return Cluster(
        racks=len(racks),
        workers=max(map(len, racks)),
        intra_mbps=min(within, default=fastest),
        inter_mbps=min(inlets),
        server_mbps=min((request.link_mbps[link] for link in shared), default=None),
    )


def _make_block(
    request: PlanRequest,
    held: Mapping[str, Chunks],
    server: str,
    chunks: Chunks,
    tree: Tree,
    whole: bool,
) -> Block:
    others = [site for site in held if site != server and site in request.group]
    edges = [(source or server, target) for source, target in tree]
    edges += [(server, other) for other in others]
    pairs = [
        pair
        for site in request.group
        if site != server
        for pair in ((site, server), (server, site))
    ]
    found = routes([*pairs, *edges], request.rates_mbps)
    in_edges, _ = star(server, request.group, found)
    out_edges: tuple[Edge, ...] = tuple(found[edge] for edge in edges)
    return Block(chunks, server, in_edges, out_edges, whole)


def _find_chunks(request: PlanRequest, model: LayeredModel) -> list[range]:
    """The chunks of each branch: a chunk never spans two tensors."""
    if request.layers is None or request.chunk_sizes is None:
        return [range(request.chunk_count)]
    found, first = [], 0
    for branch in model.branches:
        left, chunk = branch.parameter_bytes, first
        while left > 0:
            left -= request.chunk_sizes[chunk]
            chunk += 1
        found.append(range(first, chunk))
        first = chunk
    return found


def _find_common(paths: Sequence[Sequence[Directed]]) -> set[Directed]:
    """The links that all of several paths have in common; none if there is one path only."""
    if len(paths) < 2:
        return set()
    return set(paths[0]).intersection(*paths[1:])


def _join(indexes: Sequence[int]) -> Chunks:
    """Ascending indexes as half-open ranges."""
    spans: list[tuple[int, int]] = []
    for index in indexes:
        if spans and spans[-1][1] == index:
            spans[-1] = spans[-1][0], index + 1
        else:
            spans.append((index, index + 1))
    return tuple(spans)
