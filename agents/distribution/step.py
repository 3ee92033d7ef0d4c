"""The time of one step of workers that compute while their parameters arrive (pure).

A fluid model: a link carries one transfer after the other, in the order of the hand-out, at its
rate. A transfer begins when its source has all of it and its links are free. It takes as long as
its slowest link, and occupies each link for as long as that one needs. A worker computes
base after base, and the branches of a base in the order of their arrival. It waits for a branch
that has not arrived. Then come the backward computation and the rest of the step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trunkline.agents.distribution.handout import SERVER, Cluster, Handout, Link, check
from trunkline.workloads.layered.model import LayeredModel


@dataclass(frozen=True, slots=True)
class ComputedBranch:
    """When a branch arrived at a worker, and when its forward computation began and ended."""

    worker: int
    branch: int
    arrived_s: float
    start_s: float
    end_s: float


def simulate_forward(
    model: LayeredModel, handout: Handout, cluster: Cluster
) -> tuple[ComputedBranch, ...]:
    """The branches of each worker, in the order of computation. Raises HandoutError."""
    check(model, handout)
    arrived_s = _simulate_transfers(model, handout, cluster)
    numbers = range(len(model.branches))
    return tuple(
        ComputedBranch(worker, branch, arrived_s[worker, branch], start_s, end_s)
        for worker in range(handout.workers)
        for branch, start_s, end_s in compute_in_order(
            model, [arrived_s[worker, branch] for branch in numbers]
        )
    )


def compute_in_order(
    model: LayeredModel, arrived_s: Sequence[float]
) -> Iterator[tuple[int, float, float]]:
    """Each branch with the start and the end of its forward computation at a worker, in seconds.

    `arrived_s` is when each branch is there, by its number.
    """
    now_s = 0.0
    for numbers in model.numbers:
        for branch in sorted(numbers, key=lambda branch: (arrived_s[branch], branch)):
            start_s = max(now_s, arrived_s[branch])
            now_s = start_s + model.branches[branch].forward_s
            yield branch, start_s, now_s


def compute_forward_end(model: LayeredModel, handout: Handout, cluster: Cluster) -> float:
    """The time in seconds at which the last worker ends its forward computation."""
    return max(branch.end_s for branch in simulate_forward(model, handout, cluster))


def _simulate_transfers(
    model: LayeredModel, handout: Handout, cluster: Cluster
) -> dict[tuple[int, int], float]:
    """When each branch arrives at each worker: (worker, branch) -> seconds."""
    arrived_s: dict[tuple[int, int], float] = {}
    free_s: defaultdict[Link, float] = defaultdict(float)
    across = handout.workers != cluster.workers
    for transfer in handout.transfers:
        ready_s = 0.0
        if transfer.source != SERVER:
            ready_s = max(arrived_s[transfer.source, branch] for branch in transfer.branches)
        size = sum(model.branches[branch].parameter_bytes for branch in transfer.branches)
        links = cluster.find_links(transfer, across=across)
        start_s = max(ready_s, *(free_s[link] for link in links))
        for link, rate_mbps in links.items():
            free_s[link] = start_s + cluster.startup_s + 8e-6 * size / rate_mbps
        end_s = max(free_s[link] for link in links)
        arrived_s |= {(transfer.target, branch): end_s for branch in transfer.branches}
    return arrived_s
