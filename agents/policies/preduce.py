"""Partial reduce, constant weights, first come first served (P-Reduce, Algorithm 2; CREW III-A).

Ready sites queue; as soon as p of them wait, they form a group. Groups run in parallel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.policy import Decision, Event, Left, Ready, Release, average


@dataclass(frozen=True, slots=True)
class State:
    """The sites that still take part, and the queue of those that are ready."""

    active: frozenset[str]
    queue: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartialReduce:
    """Groups of p; of fewer when fewer than p sites still take part, so that none is stranded."""

    sites: tuple[str, ...]
    p: int

    @property
    def initial(self) -> State:
        return State(frozenset(self.sites))

    def step(self, state: State, event: Event) -> tuple[State, tuple[Decision, ...]]:
        match event:
            case Ready(site) if site in state.active and site not in state.queue:
                state = replace(state, queue=(*state.queue, site))
            case Left(site):
                queue = tuple(other for other in state.queue if other != site)
                state = State(state.active - {site}, queue)
        size = min(self.p, len(state.active))
        if not state.queue or len(state.queue) < size:
            return state, ()
        if size == 1:
            return replace(state, queue=()), (Release(state.queue[0]),)
        chosen = state.queue[:size]
        group = tuple(site for site in self.sites if site in chosen)
        return replace(state, queue=state.queue[size:]), (average(group),)


def create(sites: tuple[str, ...], *, p: int = 3) -> PartialReduce:
    """Groups of `p` of the `sites`, 2 <= p <= n."""
    if not 2 <= p <= len(sites):
        raise ValueError(f"p = {p} is not between 2 and the number of sites, {len(sites)}")
    return PartialReduce(sites, p)
