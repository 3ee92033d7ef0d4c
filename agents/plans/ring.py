"""Ring: all-reduce around a greedy ring from a random member (CREW's paper, Section V, baseline).

So tasks of one group may have different rings and times. Each next member is the one with the
largest rate from the last member. Block q, one p-th of the chunks, is summed along the ring up to
the q-th member. Then the result goes around the ring (Baidu, Horovod).
"""

from __future__ import annotations

import itertools

from trunkline.agents.planning.plan import Block, Plan, PlanError, PlanRequest
from trunkline.agents.planning.trees import route_closure


def build(request: PlanRequest) -> Plan:
    """P blocks whose trees are paths along the ring. Missing links become source routes."""
    if len(request.group) < 2:
        raise PlanError(f"a ring needs at least two sites, got {len(request.group)}")
    found, rates = route_closure(request)
    ring = [request.rng.choice(request.group)]
    rest = [site for site in request.group if site not in ring]
    while rest:
        ring.append(max(rest, key=lambda site: rates[ring[-1], site]))
        rest.remove(ring[-1])
    blocks = []
    for hub, chunks in request.split(dict.fromkeys(ring, 1.0)).items():
        at = ring.index(hub)
        inward = [*ring[at + 1 :], *ring[: at + 1]]
        outward = [*ring[at:], *ring[:at]]
        blocks.append(
            Block(
                chunks,
                hub,
                tuple(found[hop] for hop in itertools.pairwise(inward)),
                tuple(found[hop] for hop in itertools.pairwise(outward)),
            )
        )
    return Plan(request.group, request.group, request.chunk_count, tuple(blocks))
