"""What OWL is compared with: Naive, Overlap, IPart, and the bound OOS (pure).

In the first three every worker pulls the whole model from the server. Their layers are the branches
of the model, in the order of the forward computation.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from trunkline.agents.distribution.handout import SERVER, Cluster, Handout, Transfer
from trunkline.workloads.layered.model import Branch, LayeredModel


def naive(model: LayeredModel, cluster: Cluster) -> Handout:
    """Each worker pulls the model in one message, and computes when it has all of it."""
    return pull(cluster.workers, [range(len(model.branches))])


def overlap(model: LayeredModel, cluster: Cluster) -> Handout:
    """Each worker pulls layer after layer, and computes meanwhile."""
    return pull(cluster.workers, [[number] for number in range(len(model.branches))])


def ipart(model: LayeredModel, cluster: Cluster) -> Handout:
    """Overlap with consecutive layers packed into one message, to save start-up times.

    The packs are those with which the forward computation of the last worker ends first, by dynamic
    programming over the number of messages and of layers in them.
    """
    count = len(model.branches)
    sizes = [8e-6 * branch.parameter_bytes / cluster.inlet_mbps for branch in model.branches]
    sent_s = [0.0, *itertools.accumulate(sizes)]
    computed_s = [0.0, *itertools.accumulate(branch.forward_s for branch in model.branches)]
    ends_s = {0: 0.0}
    packs: dict[tuple[int, int], int] = {}
    best_s, best = float("inf"), 0
    for messages in range(1, count + 1):
        before_s, ends_s = ends_s, {}
        for last in range(messages, count + 1):
            arrived_s = cluster.workers * (messages * cluster.startup_s + sent_s[last])
            ends_s[last], packs[messages, last] = min(
                (max(end_s, arrived_s) + computed_s[last] - computed_s[first], first)
                for first, end_s in before_s.items()
                if first < last
            )
        if ends_s[count] < best_s:
            best_s, best = ends_s[count], messages
    return pull(cluster.workers, _unpack(packs, best, count))


def compute_bound(model: LayeredModel, cluster: Cluster, *, across: bool = False) -> float:
    """OOS: the forward computation of no hand-out of whole branches ends before this, in seconds.

    It is a bound, and no optimum: there need not be a hand-out that is as fast. Every branch enters
    each rack at least once. In the bound it enters once, without start-up time, and is at all
    workers then. Bases enter one after the other, so the end of one base is all that the next one
    depends on: dynamic programming with one state for each base.

    It holds for hand-outs in which each rack receives from the server alone, at its share of the
    uplink. With an uplink that racks share, racks that help each other can be faster: `across` is
    the bound for them, too, in which the whole uplink is there for each branch once.
    """
    rate_mbps = cluster.inlet_mbps
    if across:
        uplink_mbps = cluster.inter_mbps if cluster.server_mbps is None else cluster.server_mbps
        rate_mbps = min(cluster.inter_mbps, uplink_mbps)
    end_s, sent_s = 0.0, 0.0
    for base in model.bases:
        end_s += sum(branch.forward_s for branch in base.branches)
        rest_s = sum(branch.forward_s for branch in base.branches)
        for branch in _order_best(base.branches, rate_mbps):
            sent_s += 8e-6 * branch.parameter_bytes / rate_mbps
            end_s = max(end_s, sent_s + rest_s)
            rest_s -= branch.forward_s
    return end_s


def _order_best(branches: Sequence[Branch], rate_mbps: float) -> list[Branch]:
    """Johnson's rule for two machines, here the link and the device: no order ends earlier."""

    def key(branch: Branch) -> tuple[bool, float]:
        sent_s = 8e-6 * branch.parameter_bytes / rate_mbps
        is_late = sent_s >= branch.forward_s
        return is_late, -branch.forward_s if is_late else sent_s

    return sorted(branches, key=key)


def pull(workers: int, packs: Sequence[Sequence[int]]) -> Handout:
    """Every worker pulls every pack; all workers get a pack before the next one begins."""
    return Handout(
        workers,
        tuple(Transfer(SERVER, worker, tuple(pack)) for pack in packs for worker in range(workers)),
    )


def _unpack(packs: dict[tuple[int, int], int], messages: int, last: int) -> list[range]:
    """Follow the best choices back from the last layer."""
    found = []
    for number in range(messages, 0, -1):
        first = packs[number, last]
        found.append(range(first, last))
        last = first
    return found[::-1]
