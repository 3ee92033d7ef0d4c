"""OWL: workers of a rack pass parts of a model on to each other while they compute (pure).

The workers of a rack are parted into communication groups, one for each group of branches of a
base. In the centralized deployment one worker of each, its central worker, pulls the group of
branches from the server and broadcasts it to the others. Then the communication groups all-gather.
In the decentralized one every worker pulls its group of branches from the server (section 4.4).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from trunkline.agents.distribution.grouping import Groups, group_evenly
from trunkline.agents.distribution.handout import SERVER, Cluster, Handout, Transfer
from trunkline.agents.distribution.step import compute_forward_end
from trunkline.workloads.layered.model import LayeredModel

Sizes: TypeAlias = Sequence[int]
"""The sizes of the branches of a base."""

Grouping: TypeAlias = Callable[[Sizes, int], Groups]
"""Makes groups of branches from their sizes, and a number of groups."""

Deployment: TypeAlias = Callable[[int, Groups], Iterator[Transfer]]
"""Makes the transfers of one base from the number of workers and the groups of branches."""


def centralize(workers: int, groups: Groups) -> Iterator[Transfer]:
    """Only central workers pull from the server; they broadcast, then all groups all-gather."""
    yield from _centralize(_part(workers, len(groups)), groups)


def centralize_unevenly(workers: int, groups: Groups) -> Iterator[Transfer]:
    """As `centralize`, in communication groups of one worker each but for one, which has the rest.

    Another reading of OWL-A (see `unbalance`), closer to OWL.
    """
    others = len(groups) - 1
    if others >= workers:
        yield from centralize(workers, groups)
        return
    rest = workers - others
    yield from _centralize([range(rest), *(range(n, n + 1) for n in range(rest, workers))], groups)


def _centralize(members: Sequence[range], groups: Groups) -> Iterator[Transfer]:
    """The transfers in communication groups; the first has the most members."""
    for group, branches in enumerate(groups):
        yield Transfer(SERVER, members[group][0], branches)
    for position in range(1, len(members[0])):
        for group, branches in enumerate(groups):
            if position < len(members[group]):
                yield Transfer(members[group][0], members[group][position], branches)
    yield from _all_gather(members, groups)


def decentralize(workers: int, groups: Groups) -> Iterator[Transfer]:
    """Every worker pulls its group from the server; then all groups all-gather."""
    members = _part(workers, len(groups))
    for number in range(max(workers, len(groups))):
        yield Transfer(SERVER, number % workers, groups[number % len(groups)])
    yield from _all_gather(members, groups)


def unbalance(workers: int, groups: Groups) -> Iterator[Transfer]:
    """One worker pulls every group from the server, and sends each to all others.

    OWL-A, which has "an unbalanced deploy setting" instead of the deploying algorithm. The paper
    does not say which; this is the most unbalanced one (`centralize_unevenly` is a milder one).
    """
    for branches in groups:
        yield Transfer(SERVER, 0, branches)
        for worker in range(1, workers):
            yield Transfer(0, worker, branches)


def build(
    model: LayeredModel, workers: int, count: int, grouping: Grouping, deployment: Deployment
) -> Handout:
    """The hand-out with `count` communication groups; a base with fewer branches has fewer."""
    transfers: list[Transfer] = []
    for base, numbers in zip(model.bases, model.numbers, strict=True):
        sizes = [branch.parameter_bytes for branch in base.branches]
        found = grouping(sizes, min(count, len(sizes)))
        groups = tuple(tuple(numbers[index] for index in group) for group in found)
        transfers += deployment(workers, groups)
    return Handout(workers, tuple(transfers))


def build_across(
    model: LayeredModel, sizes: Sequence[int], count: int, grouping: Grouping
) -> Handout:
    """The hand-out in which racks of these sizes help each other.

    Each group of branches leaves the server once, for one of the racks in turn. Its central worker
    sends the group to that of the next rack, and so on, each over the links between racks (equation
    7). Within a rack, transfers are those of the centralized deployment.
    """
    firsts = [0, *itertools.accumulate(sizes)][:-1]
    transfers: list[Transfer] = []
    turn = 0
    for base, numbers in zip(model.bases, model.numbers, strict=True):
        found = grouping([each.parameter_bytes for each in base.branches], min(count, len(numbers)))
        groups = [tuple(numbers[index] for index in group) for group in found]
        within: list[Transfer] = []
        centres: list[dict[tuple[int, ...], int]] = []
        for first, size in zip(firsts, sizes, strict=True):
            moves = [_shift(each, first) for each in centralize(size, tuple(groups))]
            centres.append({each.branches: each.target for each in moves if each.source == SERVER})
            within += [each for each in moves if each.source != SERVER]
        for group in groups:
            chain = [centre[group] for centre in (*centres[turn:], *centres[:turn])]
            pairs = itertools.pairwise((SERVER, *chain))
            transfers += [Transfer(source, target, group) for source, target in pairs]
            turn = (turn + 1) % len(sizes)
        transfers += within
    return Handout(sum(sizes), tuple(transfers))


def _shift(transfer: Transfer, first: int) -> Transfer:
    """The same transfer in a rack whose first worker has this number."""
    source = transfer.source if transfer.source == SERVER else first + transfer.source
    return Transfer(source, first + transfer.target, transfer.branches)


def count_groups(model: LayeredModel, workers: int) -> range:
    """The numbers of communication groups to try: no more than workers or branches of a base."""
    widest = max(len(base.branches) for base in model.bases)
    return range(1, min(widest, workers) + 1)


def deploy(
    model: LayeredModel,
    cluster: Cluster,
    grouping: Grouping = group_evenly,
    deployment: Deployment = centralize,
) -> Handout:
    """The hand-out whose forward computation ends first (Algorithm 2).

    The algorithm trains one iteration with each number of communication groups, and keeps the
    fastest. Here the model of whole messages (`step.py`) stands for that iteration, as the hand-out
    is one of whole messages. The plan `owl` passes chunks on, and chooses by another model.
    """
    return min(
        (
            build(model, cluster.workers, count, grouping, deployment)
            for count in count_groups(model, cluster.workers)
        ),
        key=lambda handout: compute_forward_end(model, handout, cluster),
    )


def deploy_across(model: LayeredModel, cluster: Cluster) -> Handout:
    """As `deploy`, of racks that help each other."""
    racks = [cluster.workers] * cluster.racks
    return min(
        (
            build_across(model, racks, count, group_evenly)
            for count in count_groups(model, cluster.workers)
        ),
        key=lambda handout: compute_forward_end(model, handout, cluster),
    )


def deploy_by_prediction(model: LayeredModel, cluster: Cluster) -> Handout:
    """The hand-out that equations (13) and (14) prefer, without any iteration."""
    candidates = [
        (predict(model, cluster, count), count, deployment)
        for predict, deployment in (
            (predict_centralized, centralize),
            (predict_decentralized, decentralize),
        )
        for count in count_groups(model, cluster.workers)
    ]
    _, count, deployment = min(candidates, key=lambda candidate: candidate[0])
    return build(model, cluster.workers, count, group_evenly, deployment)


def predict_centralized(model: LayeredModel, cluster: Cluster, count: int) -> float:
    """Seconds until every worker has its first group of every base (equation 13).

    The model enters the rack once. `workers / D - 1` copies of each of D groups follow, and all
    copies in a rack share `B_intra`: (workers / D - 1) sum(d) / B_intra.
    """
    inside = sum(
        (cluster.workers / min(count, len(base.branches)) - 1) * _count_megabits(model, index)
        for index, base in enumerate(model.bases)
    )
    return 8e-6 * model.parameter_bytes / cluster.inlet_mbps + inside / cluster.intra_mbps


def predict_decentralized(model: LayeredModel, cluster: Cluster, count: int) -> float:
    """Seconds until every worker has its first group of every base (equation 14).

    Each of D groups enters the rack `workers / D` times.
    """
    entering = sum(
        cluster.workers / min(count, len(base.branches)) * _count_megabits(model, index)
        for index, base in enumerate(model.bases)
    )
    return entering / cluster.inlet_mbps


def _count_megabits(model: LayeredModel, base: int) -> float:
    return 8e-6 * sum(branch.parameter_bytes for branch in model.bases[base].branches)


def _part(workers: int, count: int) -> list[range]:
    """Equal communication groups; their first members are the central workers.

    With more groups than workers, a worker is the only member of several.
    """
    return [range(group % workers, workers, count) for group in range(count)]


def _all_gather(members: Sequence[range], groups: Groups) -> Iterator[Transfer]:
    """Every communication group gets the branches of all others, each time from another one."""
    count = len(groups)
    held = [set(sources) for sources in members]
    for shift in range(1, count):
        for group, branches in enumerate(groups):
            sources = members[group]
            for index, target in enumerate(members[(group + shift) % count]):
                if target in held[group]:
                    continue
                held[group].add(target)
                yield Transfer(sources[index % len(sources)], target, branches)
