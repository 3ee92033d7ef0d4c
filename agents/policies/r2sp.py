"""Round-robin synchronous parallel: workers push one after the other, in spaced turns.

Zhang et al. 2025, "Mitigating server-side communication bottlenecks in distributed learning with
round-robin participant coordination", IEEE Transactions on Networking (R2SP; IV-A, V-A).

A worker that is ready asks to continue, and waits for its turn. Turns come in the order of the
sites, at least `r T / N` apart. In its turn a worker pushes its update. As soon as the servers have
it, the worker pulls the model, together with the size of its next batch: that is its permission to
proceed. So the updates and the pulls are as far apart (figure 3), but for the differences between
the durations of pushes. In the paper's Algorithm 1 (lines 5 to 7) a worker pushes as soon as it has
computed, and only its pull waits for a turn: `wait: pull`. Then a slow worker can miss two updates
of every other one, and updates come in any order. The paper wants them in a fixed order, with a
staleness of at most N - 1 (IV-A2). So by default the push waits, too: `wait: push`. What follows
about pushes at once is about that form.

As many pushes run at once as there are servers: that many workers with links like those of the
servers fill them. A push may overtake an older one. So a pull waits for all pushes that run when
its worker's own has ended. The updates of these are then no longer missing, and as many others may
overtake the worker's next push. No turn starts that might make an update miss more than N - 1
others.

T is the mean over the workers of the time that an iteration takes, or the time of the slowest one
(IV-A3): push, pull and computing, each as a moving average; waiting does not count. N is the number
of workers that are there. If transfers
take most of an iteration, workers wait for each other, and N turns take longer than T. Then turns
are at least `r P / at_once` apart, where P is the time of a push: else several would begin soon
after each other, share the servers' links, and end together.

The rotation waits for a slow worker (IV-B1), but not forever. It skips workers that are lost, and
those that are `patience` times later than expected. An update that is staler than N - 1 because its
worker was late, or away, is dropped: its worker only pulls in its turn. With `wait: pull`, the
limit is 2 (N - 1).

Batch size tuning (IV-A3): the time of computing is linear in the size of the batch, with a fixed
part and a slope, which are fitted to what was measured. Every worker gets the largest batch with
which an iteration takes no longer than that of the slowest worker with the first batch. An update
counts in proportion to its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import Field

from trunkline.agents.planning.option_types import Count, Momentum, Patience
from trunkline.agents.policies import task_ends
from trunkline.agents.policies.moving_average import Average, Line
from trunkline.agents.policies.policy import (
    Decision,
    Ended,
    Event,
    Joined,
    Lost,
    Ready,
    Start,
    Wake,
)
from trunkline.agents.policies.push_pull import Sides, Waiting, Weight
from trunkline.agents.policies.push_pull import State as Known

LARGEST = 8
"""A tuned batch is at most this many times the first one: memory is limited."""

Wait = Literal["push", "pull"]
IterationTime = Literal["mean", "slowest"]


@dataclass(frozen=True, slots=True)
class Progress:
    """One worker: times in seconds since the run's start, and how long its iterations take.

    Attributes:
        turn: the number of its latest turn, from 1; 0 before it.
        room: how many turns may start while its push runs.
        after: the number of the latest turn when its push ended; 0 before it.
        since_s: when its iteration began: its turn started, or it came back.
        push_s: how long its latest push took; None once that is counted.
        pulled_s: when its pull started that runs; None without one.
        began_s: when it began to compute; None if that is not known.
        batch: the size of its batch, relative to the first one.
        pushing: the duration of a push.
        moving: the duration of a push and a pull.
        computing: the duration of computing, by the size of the batch relative to the first one.
    """

    turn: int = 0
    room: int = 0
    after: int = 0
    since_s: float = 0.0
    push_s: float | None = None
    pulled_s: float | None = None
    began_s: float | None = 0.0
    batch: float = 1.0
    pushing: Average = field(default_factory=Average)
    moving: Average = field(default_factory=Average)
    computing: Line = field(default_factory=Line)

    @property
    def iteration_s(self) -> float:
        """How long an iteration with its present batch is expected to take."""
        return self.moving.value + self.computing.time_of(self.batch)

    @property
    def first_s(self) -> float:
        """How long an iteration with the first batch is expected to take."""
        return self.moving.value + self.computing.time_of(1.0)


@dataclass(frozen=True, slots=True)
class State:
    """What is known of workers and servers, whose turn is next, and what the turns depend on.

    Attributes:
        first: the number of the worker whose turn is next.
        turns: how many turns there were.
        turn_s: when the latest turn started; None before the first.
        wake_s: the time of the tick that is asked for; None without one.
    """

    known: Known
    progress: Mapping[str, Progress]
    first: int = 0
    turns: int = 0
    turn_s: float | None = None
    wake_s: float | None = None


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """R2SP. With a `batch`, that of the first iteration, batch sizes are tuned."""

    sides: Sides
    relaxation: float
    patience: float
    at_once: int
    share: float
    momentum: float
    batch: int | None = None
    strict: bool = False
    wait: Wait = "push"
    iteration_time: IterationTime = "mean"
    timed = True
    gives = "update"

    @property
    def initial(self) -> State:
        return State(self.sides.initial, {site: Progress() for site in self.sides.workers})

    def step(self, state: State, event: Event) -> tuple[State, tuple[Decision, ...]]:
        before, known = state.known, self.sides.hear(state.known, event)
        if state.wake_s is not None and event.at_s >= state.wake_s:
            state = replace(state, wake_s=None)
        state = self._observe(replace(state, known=known), before, event)
        if known.lost:
            return state, ()
        decisions: list[Decision] = []
        for waiting in known.waiting:
            if waiting.given and self.wait == "push" and not _is_early(state, waiting.site):
                state, start = self._pull(state, waiting, event.at_s)
                decisions.append(start)
            if not waiting.given and self.wait == "pull" and self._is_fresh(state, waiting):
                state, start = self._push(state, waiting, event.at_s)
                decisions.append(start)
        for _ in self.sides.workers:
            state, more = self._take_turn(state, event.at_s)
            decisions += more
        return state, tuple(decisions)

    def _observe(self, state: State, before: Known, event: Event) -> State:
        """Learn from this event how long iterations take; `before` is what was known before it."""
        match event:
            case Ended(group=group) if (site := group[0]) in state.progress and event.completed:
                return _with(state, site, self._end(state, before, event))
            case Ready(site) if (now := state.progress[site]).began_s is not None:
                if event.iteration == 0 or now.began_s:  # a new controller was told of neither
                    took_s = event.at_s - now.began_s
                    now = replace(now, computing=now.computing.add(now.batch, took_s))
                return _with(state, site, replace(now, began_s=None, pulled_s=None))
            case Lost(site) | Joined(site) if site in state.progress:
                now = replace(state.progress[site], since_s=event.at_s)
                return _with(state, site, replace(now, push_s=None, pulled_s=None, began_s=None))
        return state

    def _end(self, state: State, before: Known, ended: Ended) -> Progress:
        """The progress of a worker whose push or pull has completed."""
        now, took_s = state.progress[ended.group[0]], ended.report.get("duration_s")
        if state.known.updates > before.updates:
            pushing = now.pushing if took_s is None else now.pushing.add(took_s)
            after = state.turns if self.strict else now.turn
            return replace(now, push_s=took_s, pushing=pushing, after=after)
        if now.pulled_s is None or not task_ends.is_of(ended, ended.group, now.pulled_s):
            return now
        moving = now.moving
        if now.push_s is not None and took_s is not None:
            moving = moving.add(now.push_s + took_s)
        return replace(now, push_s=None, pulled_s=None, began_s=ended.at_s, moving=moving)

    def _take_turn(self, state: State, at_s: float) -> tuple[State, tuple[Decision, ...]]:
        """Start the next turn, or ask to be woken when there may be one."""
        waits_for_pull = self.wait == "pull"  # what still waits then has no push to do
        there = state.known.waiting
        fresh = {each.site: each for each in there if waits_for_pull or not each.given}
        pushing = (state.progress[site] for site in _list_pushing(state))
        is_full = any(state.turns + 1 - each.turn > each.room for each in pushing)
        if not fresh or (is_full and not waits_for_pull):
            return state, ()
        earliest_s = at_s if state.turn_s is None else state.turn_s + self._gap_s(state)
        if at_s < earliest_s:
            return self._wake(state, earliest_s)
        for number, site in self._rotate(state):
            if site in fresh:
                return self._start(replace(state, first=number + 1), fresh[site], at_s)
            late_s = self._late_s(state, site)
            if late_s is None:
                return state, ()
            if at_s < late_s:
                return self._wake(state, late_s)
        return state, ()

    def _start(self, state: State, waiting: Waiting, at_s: float) -> tuple[State, tuple[Start]]:
        """Take the turn of a worker: push its update, or only pull if it may or has to."""
        spare = self._spare(state, waiting)
        state = replace(state, turns=state.turns + 1, turn_s=at_s)
        room = min(self.at_once - 1, spare) if self.strict else self.at_once - 1
        now = replace(state.progress[waiting.site], turn=state.turns, room=room, since_s=at_s)
        if self.wait == "pull" or spare < 0:
            now = now if waiting.given else replace(now, push_s=None)
            state, start = self._pull(_with(state, waiting.site, now), waiting, at_s)
        else:
            state = _with(state, waiting.site, replace(now, push_s=None))
            state, start = self._push(state, waiting, at_s)
        return state, (start,)

    def _spare(self, state: State, waiting: Waiting) -> int:
        """How many more updates of others this worker's update may miss."""
        staleness = state.known.updates + len(_list_pushing(state)) - waiting.version
        most = len(self.sides.workers) - 1
        return (2 * most if self.wait == "pull" else most) - staleness

    def _is_fresh(self, state: State, waiting: Waiting) -> bool:
        return self._spare(state, waiting) >= 0

    def _push(self, state: State, waiting: Waiting, at_s: float) -> tuple[State, Start]:
        """Add the update of a worker to the model of the servers."""
        scale = self.share * state.progress[waiting.site].batch
        known, start = self.sides.push(state.known, [waiting], scale, at_s, self.momentum)
        return replace(state, known=known), start

    def _pull(self, state: State, waiting: Waiting, at_s: float) -> tuple[State, Start]:
        """Let a worker continue, with the model and the size of its next batch."""
        known, start = self.sides.pull(state.known, [waiting])
        now = replace(state.progress[waiting.site], pulled_s=at_s, began_s=None)
        if self.batch is not None:
            batch = self._tune(state, now)
            start = replace(start, batches={waiting.site: batch})
            now = replace(now, batch=batch / self.batch)
        return _with(replace(state, known=known), waiting.site, now), start

    def _tune(self, state: State, worker: Progress) -> int:
        """The batch with which this worker's iteration takes as long as the slowest worker's."""
        first = self.batch or 1
        if not (worker.moving.count and worker.computing.slope_s):
            return first
        slowest_s = max(each.first_s for each in _measured(state))
        batch = int(first * worker.computing.size_of(slowest_s - worker.moving.value))
        return min(max(first, batch), LARGEST * first)

    def _gap_s(self, state: State) -> float:
        """The least time between the starts of two turns: `r T / N`, or `r P / at_once`."""
        iteration_s = _iteration_s(state, self.iteration_time)
        share_s = iteration_s / max(1, len(state.known.workers))
        if self.wait == "pull":
            return self.relaxation * share_s
        there = [state.progress[site] for site in sorted(state.known.workers)]
        pushes_s = [each.pushing.value for each in there if each.pushing.count]
        push_s = sum(pushes_s) / max(1, len(pushes_s))
        return self.relaxation * max(share_s, push_s / self.at_once)

    def _late_s(self, state: State, site: str) -> float | None:
        """When a worker that is not ready is late; None if nothing was measured yet."""
        iteration_s = _iteration_s(state, self.iteration_time)
        expected_s = max(iteration_s, state.progress[site].iteration_s)
        return state.progress[site].since_s + self.patience * expected_s if expected_s else None

    def _rotate(self, state: State) -> Iterator[tuple[int, str]]:
        """The workers that are there, with their numbers, in the order of their next turns."""
        workers = self.sides.workers
        for number in range(state.first, state.first + len(workers)):
            if (site := workers[number % len(workers)]) in state.known.workers:
                yield number % len(workers), site

    def _wake(self, state: State, at_s: float) -> tuple[State, tuple[Decision, ...]]:
        if state.wake_s is not None and state.wake_s <= at_s:
            return state, ()
        return replace(state, wake_s=at_s), (Wake(at_s),)


def _list_pushing(state: State) -> list[str]:
    """The workers that are in a push."""
    return [site for push in state.known.pushes for site in push.iterations]


def _is_early(state: State, site: str) -> bool:
    """Whether a push still runs that ran when this worker's latest one ended."""
    after = state.progress[site].after
    return any(state.progress[other].turn <= after for other in _list_pushing(state))


def _measured(state: State) -> list[Progress]:
    """The workers that are there and whose iterations were measured."""
    there = (state.progress[site] for site in sorted(state.known.workers))
    return [each for each in there if each.computing.count]


def _iteration_s(state: State, kind: IterationTime) -> float:
    """T, in seconds; 0 before anything was measured."""
    found = [each.iteration_s for each in _measured(state)]
    if not found:
        return 0.0
    return max(found) if kind == "slowest" else sum(found) / len(found)


def _with(state: State, site: str, progress: Progress) -> State:
    return replace(state, progress={**state.progress, site: progress})


def create(
    sites: tuple[str, ...],
    *,
    servers: tuple[str, ...],
    relaxation: Annotated[float, Field(ge=0, le=1)] = 0.8,
    patience: Patience = 3.0,
    at_once: Count | None = None,
    share: Weight | None = None,
    momentum: Momentum = 0.0,
    batch: Count | None = None,
    strict: bool = False,
    wait: Wait = "push",
    iteration_time: IterationTime = "mean",
) -> RoundRobin:
    """The `sites` are the workers of the `servers`; their order is that of the turns.

    Options:
        relaxation: the factor r from 0 to 1: turns are at least r T / N apart, where T is the time
            of an iteration and N the number of workers.
        patience: how many times as long as expected an iteration may take, 1 or more. If it takes
            longer, the rotation continues without the worker.
        at_once: with `wait: push`, how many turns may have pushes that run at the same time, 1 or
            more; default: as many as there are servers.
        share: the weight of an update that was computed with the first batch, above 0, and within
            what float32 can hold (1.2e-38 to 3.4e38); default: 1 / workers, as with the policy
            `ps`. In the paper it is 1.
        momentum: the part of the servers' last step that is in their next one, from 0 to less than
            1. Workers may have a momentum of their own in their updates.
        batch: the samples per step with which all workers begin, the `batch` of the workload, 1 or
            more. With it, batch sizes are tuned: faster workers get up to 8 times as many samples.
        strict: with `wait: push`, whether no update may ever miss more than N - 1 others. By
            default, `at_once` - 1 more may overtake a push; then workers wait for less time.
        wait: what waits for a worker's turn: its `push`, which its pull follows at once, or only
            its `pull`, as in the paper's Algorithm 1; then it pushes as soon as it has computed.
        iteration_time: T: the `mean` over the workers, or the time of the `slowest` one, as in the
            paper.
    """
    if not servers:
        raise ValueError("servers: at least one is needed")
    for name, value in (("at_once", at_once), ("strict", strict)):
        if wait == "pull" and value:
            why = "as pushes do not wait"
            raise ValueError(f"{name}: {value}: expected none with wait: pull, {why}")
    weight = 1 / len(sites) if share is None else share
    most = len(servers) if at_once is None else at_once
    sides = Sides(sites, servers)
    rest = batch, strict, wait, iteration_time
    return RoundRobin(sides, relaxation, patience, most, weight, momentum, *rest)
