"""The fastest hand-out of whole branches, by trying all of them; for small cases only (pure).

OOS (`baselines.compute_bound`) is a bound. This is the optimum of the model of `step.py`: no other
hand-out ends earlier that sends one branch in each message, and brings each worker the branches of
a base before those of the next one, as the paper's program does (constraint 11). Without that order
(`in_order`), some hand-outs are faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from trunkline.agents.distribution import owl
from trunkline.agents.distribution.grouping import group_evenly
from trunkline.agents.distribution.handout import SERVER, Cluster, Handout, Link, Transfer
from trunkline.agents.distribution.step import compute_forward_end, compute_in_order
from trunkline.workloads.layered.model import LayeredModel

MOST_TRANSFERS = 12
"""Workers times branches of the largest case: it may take a minute."""

ROUNDING_S = 1e-12


def find_optimum(
    model: LayeredModel, cluster: Cluster, *, across: bool = False, in_order: bool = True
) -> tuple[float, Handout]:
    """When the last worker ends its forward computation, in seconds, and the hand-out.

    It is of one rack, whose workers receive from the server and from each other. With `across`, it
    is of the workers of all racks, which help each other. Workers receive bases `in_order`, or in
    any order.

    Raises:
        ValueError: the case is too large.
    """
    workers = cluster.workers * cluster.racks if across else cluster.workers
    if workers * len(model.branches) > MOST_TRANSFERS:
        text = f"{workers} workers, {len(model.branches)} branches"
        raise ValueError(f"{text}: expected {MOST_TRANSFERS} transfers or fewer")
    search = _Search(model, cluster, workers, across and cluster.racks > 1, in_order)
    search.begin_with_owl()
    search.extend(_State({SERVER: dict.fromkeys(range(len(model.branches)), 0.0)}, {}), 0.0, ())
    return search.best_s, Handout(workers, search.best)


@dataclass(frozen=True, slots=True)
class _State:
    """What was sent: site -> branch -> seconds, and when each link is free."""

    arrived_s: Mapping[int, Mapping[int, float]]
    free_s: Mapping[Link, float]

    def send(self, transfer: Transfer, start_s: float, ends_s: Mapping[Link, float]) -> _State:
        """The state when a transfer has been added."""
        target, (branch,) = transfer.target, transfer.branches
        there_s = {**self.arrived_s.get(target, {}), branch: max(ends_s.values())}
        return _State({**self.arrived_s, target: there_s}, {**self.free_s, **ends_s})


@dataclass(slots=True)
class _Search:
    """Depth first through all sequences of transfers, in the order in which they begin.

    A sequence is given up if it cannot end earlier than the best one, or if another order led to
    a state that is nowhere later.
    """

    model: LayeredModel
    cluster: Cluster
    workers: int
    across: bool
    in_order: bool
    best_s: float = float("inf")
    best: tuple[Transfer, ...] = ()
    seen: dict[object, list[tuple[float, ...]]] = field(default_factory=dict)

    def begin_with_owl(self) -> None:
        """Begin with the best of OWL's hand-outs, branch by branch."""
        racks = [self.cluster.workers] * (self.workers // self.cluster.workers)
        for count in owl.count_groups(self.model, self.cluster.workers):
            found = owl.build_across(self.model, racks, count, group_evenly)
            moves = tuple(
                Transfer(each.source, each.target, (branch,))
                for each in found.transfers
                for branch in each.branches
            )
            end_s = compute_forward_end(self.model, Handout(self.workers, moves), self.cluster)
            if end_s < self.best_s:
                self.best_s, self.best = end_s, moves

    def extend(self, state: _State, now_s: float, done: tuple[Transfer, ...]) -> None:
        """Try all continuations of a sequence whose last transfer began at `now_s`."""
        bound_s = self._bound(state, now_s)
        if bound_s >= self.best_s - ROUNDING_S or self._is_dominated(state, now_s):
            return
        if len(done) == self.workers * len(self.model.branches):
            self.best_s, self.best = bound_s, done
            return
        options = []
        for transfer in self._list_next(state):
            start_s, ends_s = self._time(state, transfer)
            if start_s >= now_s - ROUNDING_S:
                options.append((max(ends_s.values()), start_s, transfer, ends_s))
        for _, start_s, transfer, ends_s in sorted(options, key=lambda option: option[:2]):
            self.extend(state.send(transfer, start_s, ends_s), start_s, (*done, transfer))

    def _list_next(self, state: _State) -> Iterator[Transfer]:
        """All transfers that bring a worker a branch that it lacks, `in_order` of the first base.

        Of workers without any branch, which are alike, one is enough; so it is of racks.
        """
        size = self.cluster.workers
        fresh = [worker not in state.arrived_s for worker in range(self.workers)]
        untouched = [all(fresh[at : at + size]) for at in range(0, self.workers, size)]
        for target in range(self.workers):
            rack, place = divmod(target, size)
            first = rack * size
            if fresh[target] and (
                any(fresh[first : first + place]) or (untouched[rack] and any(untouched[:rack]))
            ):
                continue
            held = state.arrived_s.get(target, {})
            lacking = ([b for b in of if b not in held] for of in self.model.numbers)
            left = [branches for branches in lacking if branches]
            for branch in chain.from_iterable(left[:1] if self.in_order else left):
                for source, has in state.arrived_s.items():
                    if branch in has and source != target:
                        yield Transfer(source, target, (branch,))

    def _time(self, state: _State, transfer: Transfer) -> tuple[float, dict[Link, float]]:
        """When a transfer begins, and when its links are free again, in seconds."""
        (branch,) = transfer.branches
        links = self.cluster.find_links(transfer, across=self.across)
        ready_s = state.arrived_s[transfer.source][branch]
        start_s = max(ready_s, *(state.free_s.get(link, 0.0) for link in links))
        bits = 8e-6 * self.model.branches[branch].parameter_bytes
        startup_s = self.cluster.startup_s
        return start_s, {link: start_s + startup_s + bits / rate for link, rate in links.items()}

    def _bound(self, state: _State, now_s: float) -> float:
        """No continuation ends earlier: each missing branch arrives as soon as it can alone.

        All that a rack lacks comes over its link, and a branch is computed after the last of it.
        """
        fastest = max(self.cluster.intra_mbps, self.cluster.inter_mbps)
        sizes = [8e-6 * branch.parameter_bytes for branch in self.model.branches]
        last = min(self.model.branches[number].forward_s for number in self.model.numbers[-1])
        everywhere = [state.arrived_s.get(worker, {}) for worker in range(self.workers)]
        ends_s = []
        for held in everywhere:
            least_s = [held.get(n, now_s + size / fastest) for n, size in enumerate(sizes)]
            *_, (_, _, end_s) = compute_in_order(self.model, least_s)
            ends_s.append(end_s)
        for first in range(0, self.workers, self.cluster.workers):
            in_rack = set[int]().union(*everywhere[first : first + self.cluster.workers])
            inlet = "inlet", first // self.cluster.workers
            rate = self.cluster.inter_mbps if self.across else self.cluster.inlet_mbps
            left = sum(size for n, size in enumerate(sizes) if n not in in_rack)
            if left:
                ends_s.append(max(now_s, state.free_s.get(inlet, 0.0)) + left / rate + last)
        return max(ends_s)

    def _is_dominated(self, state: _State, now_s: float) -> bool:
        """Whether the same transfers to the same workers were all as early, or earlier, before."""
        held = [state.arrived_s.get(worker, {}) for worker in range(self.workers)]
        key = tuple(tuple(sorted(each)) for each in held)
        links = sorted(state.free_s)
        times = [each[branch] for each in held for branch in sorted(each)]
        times += [state.free_s[link] for link in links]
        values = tuple(round(value, 12) for value in (now_s, *times))
        known = self.seen.setdefault((key, tuple(links)), [])
        if any(all(map(float.__le__, earlier, values)) for earlier in known):
            return True
        known.append(values)
        return False
