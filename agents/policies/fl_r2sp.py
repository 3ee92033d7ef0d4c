"""Federated round-robin synchronous parallel: groups of clients take turns at the servers.

Zhang et al. 2025, "Mitigating server-side communication bottlenecks in distributed learning with
round-robin participant coordination", IEEE Transactions on Networking (FL-R2SP; IV-B, V-B).

Client i is in the group i mod M. A client computes a round, asks to continue, and waits. As soon as
the earliest share C of a group's clients wait, the group is collected. It then waits for its turn,
in which these clients push their models together, and the servers mix them in:

    w = (M - 1) / M * w + 1 / M * mean of the models

That is line 16 of the paper's Algorithm 2, `mix: paper`. The mean of the models begins with a w
that is M - 1 pushes old. So a push also takes back 1 / M of what the other groups have added since,
and in a round of all groups the model moves by M / (2 M - 1) of what a round of BSP moves it, if
all updates are alike. `mix: delta` adds only what the group has changed:

    w = w + 1 / M * mean of (model - the model with which the client began)

In both cases one group alone is BSP. After the push, all clients of the group that wait pull w. The
others are stragglers: when they have computed, they push nothing and pull the latest model at once.
So an update counts if it was computed from the model of its group's latest push or from a later
one.

The paper's clients push when they have computed, and their server waits with the pushes that came.
With `wait: pull`, too, a client pushes alone and at once, unless its group has enough updates in
this round. Servers add each of these updates when it comes, which only `mix: delta` allows. When
enough are in the model, the group is collected; in its turn, all of its clients that wait pull.

Turns come in the order of the groups and at least T / M apart. T is a moving average over the
rounds of all groups: the time from a group's push to the next time when it is collected (algorithm
2; the text has the same gap as T / K). M is here the number of groups that have clients. With one
group there is no gap; that is BSP with a share of the clients (federated averaging).

The rotation skips groups without clients, and a group that is `patience` times later than T. The
share is a whole number of clients, counted anew in each round among those that are there. In the
paper's algorithm 2 it is a sum of floating-point numbers that is never reset.

Clients whose updates point elsewhere are excluded: those whose cosine similarity with the global
update is below beta for several rounds in a row. The servers of the paper compute it. Here every
client does, from its own update and from what the model that it pulls adds to the one that it
pulled before. So it does not matter how many servers share the model, or whether a site on the way
has added updates, and an update that was not counted is judged as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from trunkline.agents.planning.option_types import Count, Patience, Share
from trunkline.agents.policies.moving_average import Average
from trunkline.agents.policies.policy import (
    Compared,
    Decision,
    Ended,
    Event,
    Exclude,
    Gives,
    Joined,
    Ready,
    Start,
    Wake,
)
from trunkline.agents.policies.push_pull import Sides, Waiting
from trunkline.agents.policies.push_pull import State as Known

PAPER_GROUPS = 8

Mix = Literal["paper", "delta"]
Wait = Literal["push", "pull"]


@dataclass(frozen=True, slots=True)
class Group:
    """What is known of a group, besides its clients.

    Attributes:
        since_s: when its round began: the run began, its latest turn started, or its first client
            came back. A new controller does not know it: None.
        version: the version of the model that has the push of its latest turn, or that it pulled in
            it; 0 before it.
        is_counted: whether it has been collected in this round, and so the time of the round, if it
            is known, is in the moving average.
    """

    since_s: float | None = None
    version: int = 0
    is_counted: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """What is known of clients and servers, whose turn is next, and what the turns depend on.

    Attributes:
        first: the number of the group whose turn is next.
        turn_s: when the latest turn started; None before the first.
        wake_s: the time of the tick that is asked for; None without one.
        round_s: T, in seconds.
        low: for how many rounds in a row a client's update has pointed elsewhere.
        excluded: the clients that take part no more.
        sizes: how many clients each group has: those that are there and not excluded.
    """

    known: Known
    groups: tuple[Group, ...]
    sizes: tuple[int, ...]
    first: int = 0
    turn_s: float | None = None
    wake_s: float | None = None
    round_s: Average = field(default_factory=Average)
    low: Mapping[str, int] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GroupedRoundRobin:
    """FL-R2SP.

    Attributes:
        fraction: C, the share of a group's clients that a push needs.
        similarity: beta; None if no client is excluded.
        strikes: for how many rounds in a row an update is less similar before that.
        mix: what a push adds to the model: `paper` or `delta`.
        wait: what waits for a turn.
        numbers: the number of each client's group.
    """

    sides: Sides
    groups: int
    fraction: Fraction
    patience: float
    similarity: float | None
    strikes: int
    mix: Mix
    wait: Wait
    numbers: Mapping[str, int]
    timed = True

    @property
    def gives(self) -> Gives:
        """What clients contribute to a push."""
        return "model" if self.mix == "paper" else "update"

    @property
    def compares(self) -> bool:
        """Whether clients compare their updates with the global one."""
        return self.similarity is not None

    @property
    def initial(self) -> State:
        return self._count_clients(State(self.sides.initial, (Group(),) * self.groups, ()))

    def step(self, state: State, event: Event) -> tuple[State, tuple[Decision, ...]]:
        before = state
        known = self.sides.hear(state.known, event)
        if state.excluded:
            waiting = tuple(each for each in known.waiting if each.site not in state.excluded)
            known = replace(known, waiting=waiting)
        state = replace(state, known=known)
        if state.wake_s is not None and event.at_s >= state.wake_s:
            state = replace(state, wake_s=None)
        decisions: list[Decision] = []
        more: tuple[Decision, ...]
        match event:
            case Ready(site) if site in state.excluded:
                decisions.append(Exclude(site))  # it was started again, and does not know
            case Ready(site, iteration=0) if state.groups[self.numbers[site]].since_s is None:
                number = self.numbers[site]
                state = _with(state, number, replace(state.groups[number], since_s=0.0))
            case Compared(site, similarity):
                state, more = self._judge(state, site, similarity)
                decisions += more
            case Ended(group=members) if state.known.updates > before.known.updates:
                if self.wait == "push":
                    state = self._end_push(before, state, members[0])
            case Joined(site) if site in self.numbers:
                number = self.numbers[site]
                if not before.sizes[number]:
                    group = replace(state.groups[number], since_s=event.at_s)
                    state = _with(state, number, group)
        if (known.workers, state.excluded) != (before.known.workers, before.excluded):
            state = self._count_clients(state)
        if state.known.lost:
            return state, tuple(decisions)
        fresh, pulling = self._sort(state)
        if pulling:
            known, start = self.sides.pull(state.known, pulling)
            state = replace(state, known=known)
            decisions.append(start)
        if self.wait == "pull":
            state, fresh, more = self._push_at_once(state, fresh, event.at_s)
            decisions += more
        collected = self._collect(state, fresh)
        state = _count_rounds(state, collected, event.at_s)
        while collected:
            state, turn, more = self._take_turn(state, collected, event.at_s)
            decisions += more
            if turn is None:
                break
            del collected[turn]
        return state, tuple(decisions)

    def _judge(
        self, state: State, site: str, similarity: float
    ) -> tuple[State, tuple[Decision, ...]]:
        """Note how similar an update of this client was, and exclude it at the last strike."""
        if self.similarity is None or site in state.excluded:
            return state, ()
        low = state.low.get(site, 0) + 1 if similarity < self.similarity else 0
        state = replace(state, low={**state.low, site: low})
        if low < self.strikes:
            return state, ()
        waiting = tuple(each for each in state.known.waiting if each.site != site)
        known = replace(state.known, waiting=waiting)
        return replace(state, known=known, excluded=state.excluded | {site}), (Exclude(site),)

    def _end_push(self, before: State, state: State, client: str) -> State:
        """The group of this client has pushed: its next round began when the push started."""
        pushes = (push for push in before.known.pushes if push not in state.known.pushes)
        push = next((push for push in pushes if push.group[0] == client), None)
        number = self.numbers[client]
        since_s = state.groups[number].since_s if push is None else push.since_s
        return _with(state, number, Group(since_s, state.known.updates))

    def _sort(self, state: State) -> tuple[list[list[Waiting]], list[Waiting]]:
        """The waiting clients of each group whose updates count, and those that are to pull now.

        No client pulls during its group's push: it would get a model that is old soon. If pulls
        wait for the turn, those whose updates are in the model wait on.
        """
        pushes_wait, numbers = self.wait == "push", self.numbers
        pushing = self._list_pushing(state) if pushes_wait else set()
        versions = [group.version for group in state.groups]
        fresh: list[list[Waiting]] = [[] for _ in state.groups]
        pulling = []
        for each in state.known.waiting:
            number = numbers[each.site]
            if number in pushing:
                continue
            if (each.given and pushes_wait) or each.version < versions[number]:
                pulling.append(each)
            else:
                fresh[number].append(each)
        return fresh, pulling

    def _push_at_once(
        self, state: State, fresh: list[list[Waiting]], at_s: float
    ) -> tuple[State, list[list[Waiting]], tuple[Decision, ...]]:
        """Push the updates that groups still need, each alone; return who waits on, by groups."""
        starts: list[Decision] = []
        staying = []
        for number, waiting in enumerate(fresh):
            needed = self._count_needed(state, number)
            running = [s for push in state.known.pushes for s in push.iterations]
            given = sum(each.given for each in waiting)
            given += sum(self.numbers[site] == number for site in running)
            pushing = [each for each in waiting if not each.given][: max(0, needed - given)]
            for each in pushing:
                scale = 1.0 / (self.groups * needed)
                known, start = self.sides.push(state.known, [each], scale, at_s)
                state = replace(state, known=known)
                starts.append(start)
            staying.append([each for each in waiting if each not in pushing])
        return state, staying, tuple(starts)

    def _count_needed(self, state: State, number: int) -> int:
        """How many updates a round of this group needs."""
        share = self.fraction
        return max(1, -(-share.numerator * state.sizes[number] // share.denominator))  # ceil

    def _collect(self, state: State, fresh: list[list[Waiting]]) -> dict[int, list[Waiting]]:
        """The groups that have enough updates, and who takes part in their turns.

        These are the earliest ones of each, or if pulls wait for the turn, all that wait.
        """
        collected = {}
        for number, waiting in enumerate(fresh):
            needed = self._count_needed(state, number)
            if self.wait == "pull":
                if sum(each.given for each in waiting) >= needed:
                    collected[number] = waiting
            elif len(waiting) >= needed:
                collected[number] = waiting[:needed]
        return collected

    def _take_turn(
        self, state: State, collected: Mapping[int, list[Waiting]], at_s: float
    ) -> tuple[State, int | None, tuple[Decision, ...]]:
        """Start the next turn and return its group, or ask to be woken when there may be one."""
        if state.turn_s is not None and at_s < (earliest_s := state.turn_s + self._gap_s(state)):
            return _wake(state, earliest_s)
        pushing = self._list_pushing(state) if self.wait == "push" else set()
        for number in self._rotate(state):
            if number in collected:
                state, start = self._start(state, number, collected[number], at_s)
                first = (number + 1) % self.groups
                return replace(state, first=first, turn_s=at_s), number, (start,)
            if number in pushing:
                break
            since_s = state.groups[number].since_s
            late_s = (since_s or 0.0) + self.patience * state.round_s.value
            if at_s < late_s:
                return _wake(state, late_s)
        return state, None, ()

    def _start(
        self, state: State, number: int, waiting: list[Waiting], at_s: float
    ) -> tuple[State, Start]:
        """The task of a group's turn: its push, or its pull."""
        if self.wait == "pull":
            state = _with(state, number, Group(at_s, state.known.updates))
            known, start = self.sides.pull(state.known, waiting)
            return replace(state, known=known), start
        scale = 1.0 / (self.groups * len(waiting))
        keep = (self.groups - 1) / self.groups if self.mix == "paper" else 1.0
        known, start = self.sides.push(state.known, waiting, scale, at_s, keep=keep)
        return replace(state, known=known), start

    def _list_pushing(self, state: State) -> set[int]:
        """The groups of which a push runs."""
        return {self.numbers[site] for push in state.known.pushes for site in push.iterations}

    def _count_clients(self, state: State) -> State:
        """Count the clients of each group that are there and not excluded."""
        sizes = [0] * self.groups
        for site in state.known.workers - state.excluded:
            sizes[self.numbers[site]] += 1
        return replace(state, sizes=tuple(sizes))

    def _rotate(self, state: State) -> Iterator[int]:
        """The groups that have clients, in the order of their next turns."""
        for turn in range(state.first, state.first + self.groups):
            if state.sizes[turn % self.groups]:
                yield turn % self.groups

    def _gap_s(self, state: State) -> float:
        """The least time between the starts of two turns: `T / M`, or none with one group."""
        present = len(list(self._rotate(state)))
        return state.round_s.value / present if present > 1 else 0.0


def _count_rounds(state: State, collected: Iterable[int], at_s: float) -> State:
    """Learn from the groups that have just been collected how long a round takes."""
    for number in collected:
        group = state.groups[number]
        if not group.is_counted:
            if group.since_s is not None:
                state = replace(state, round_s=state.round_s.add(at_s - group.since_s))
            state = _with(state, number, replace(group, is_counted=True))
    return state


def _wake(state: State, at_s: float) -> tuple[State, None, tuple[Decision, ...]]:
    if state.wake_s is not None and state.wake_s <= at_s:
        return state, None, ()
    return replace(state, wake_s=at_s), None, (Wake(at_s),)


def _with(state: State, number: int, group: Group) -> State:
    groups = (*state.groups[:number], group, *state.groups[number + 1 :])
    return replace(state, groups=groups)


def create(
    sites: tuple[str, ...],
    *,
    servers: tuple[str, ...],
    groups: Count | None = None,
    fraction: Share = 0.75,
    patience: Patience = 3.0,
    similarity: Annotated[float, Field(ge=-1, le=1)] | None = 0.5,
    strikes: Count = 3,
    mix: Mix = "paper",
    wait: Wait = "push",
) -> GroupedRoundRobin:
    """The `sites` are the clients of the `servers`; a client's number is its place among them.

    Options:
        groups: M, the number of groups, from 1 to the number of clients; default: 8, or as many
            as there are clients. With one group, rounds are those of BSP.
        fraction: C, the share of a group's clients whose updates a round needs, above 0 and at
            most 1; rounded up to whole clients.
        patience: how many times as long as expected a group's round may take, 1 or more. If it
            takes longer, the rotation continues without the group.
        similarity: beta, from -1 to 1: a client is excluded if the cosine similarity of its
            updates with the global one stays below it; null: no client is excluded. Only
            workloads that learn have updates that can be compared.
        strikes: for how many rounds in a row it has to stay below, 1 or more.
        mix: how a push changes the model w of the servers. `paper`: (M - 1) / M w + 1 / M times the
            mean of the clients' models, as in line 16 of the paper's Algorithm 2, with which a
            round makes M / (2 M - 1) of the progress of one of BSP. `delta`: w + 1 / M times the
            mean of what the clients have changed, with which it makes as much.
        wait: what waits for the turn of a group: the `push` of its clients, which do it together,
            or only their `pull`, as in the paper; then each client pushes as soon as it has
            computed. That needs `mix: delta`, as updates are added when they come.
    """
    if not servers:
        raise ValueError("servers: at least one is needed")
    count = min(PAPER_GROUPS, len(sites)) if groups is None else groups
    if not 1 <= count <= len(sites):
        raise ValueError(f"groups = {count} is not from 1 to the number of clients, {len(sites)}")
    if wait == "pull" and mix == "paper":
        raise ValueError("wait: 'pull': expected push, as mix: paper needs all updates at once")
    share = Fraction(str(fraction))  # as it is written: ceil(0.7 * 10) is 7
    sides = Sides(sites, servers)
    numbers = {site: client % count for client, site in enumerate(sites)}
    return GroupedRoundRobin(sides, count, share, patience, similarity, strikes, mix, wait, numbers)
