"""How the group of each task came together before it began (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from trunkline.agents.events.causes import Cause
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.policy_events import PolicyTold
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted, Ready
from trunkline.agents.events.task_events import (
    Contributed,
    GroupPostponed,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskStarted,
)
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.stops import Standstill, list_stops

_REASONS = {
    "ready": "The controller waited until {site} was ready",
    "left": "The controller waited until {site} had done its rounds",
    "lost": "The controller waited until {site} counted as lost",
    "joined": "The controller waited until {site} could be reached again",
    "ended": "The controller waited until task {task} had ended",
    "tick": "The controller waited for the time that the policy had set",
}
"""What a policy heard before it decided that a task may begin, as sentences."""

TICKED = _REASONS["tick"]

AGAIN = ", to try it again after failover.timeout"
"""What the controller does with a group that it postponed."""

LATE = 0.25
"""A fault is the reason that a task began late if it took this share of the time."""

LEAST_S = 0.05
"""A fault that took less of the task before is not named, if no other member waited."""

WAITED = 0.1
"""A stop of the last member counts if others waited for at least this share of it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A stop of the last member until it was ready, which made it late.

    Attributes:
        stop: the fault's effect.
        seconds: how long it lasted before the member was ready, while that computed or was awaited.
        lost_s: by how much it delayed the task at most: no longer than others waited. In a group of
            one, no member did.
        computing: whether the member had begun to compute its contribution.
    """

    stop: Standstill
    seconds: float
    lost_s: float
    computing: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the time in which the controller did not start a task that could begin.

    Attributes:
        reason: what it waited for, as a sentence; empty for the message of the last member.
        task: the task whose end it waited for, as members of both can be in one at a time only.
        fault: the number of the fault behind it; None without one.
        late_s: how much of it the fault took: not what was before it, or due anyway.
    """

    seconds: float
    reason: str
    task: int | None = None
    fault: int | None = None
    late_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Postponed:
    """A group of some members was postponed at a time: the reason as a sentence, and its cause."""

    t_ns: int
    reason: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Waiting:
    """A site waits for a task since `t_ns`: it was ready, or its `push` had ended.

    After a push, a site waits for a pull, and computes nothing before that.
    """

    site: str
    t_ns: int
    push: int | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """How the group of a task came together.

    Attributes:
        last: the member that was ready last.
        wait_s: how long the first one had waited for it.
        compute_s: how long the last one had computed; None if it came otherwise.
        decide_s: from then until the controller started the task.
        reason: why the controller started the task no earlier, as a sentence; empty if it had heard
            of the last member just before.
        names: the sites that the reason is about; `cause` says more, if the group was postponed.
        span: from the time at which the last one was ready to the start, in ns.
        fault: the number of the fault behind the reason; None without one.
        heard: the member of which the controller heard last, and when that one was ready, in ns.
        after: the task that the last member was in before it computed, if that task ended for it
            when the first member waited already; else None.
        after_s: how long the first member had waited then.
        computed_first: whether the last member had computed before that task ended for it: it only
            helped others in it.
        waited_s: how long each member that was ready had waited for the last one.
        behind: the fault that cost the task `after` much of this time, and how much; None without.
        held: the stop that made the last member late; None without one.
        stretches: the parts of `decide_s`; empty as long as they are not known.
        awaited: the task whose end was the reason; None if it was something else.
        postponed: when the group was postponed, or that of some members, and why.
        push: the push after whose end the last member waited for this task, a pull; else None.
    """

    last: str
    wait_s: float
    compute_s: float | None
    decide_s: float
    reason: str
    names: tuple[str, ...]
    span: Interval
    heard: tuple[str, int]
    fault: int | None = None
    after: int | None = None
    after_s: float = 0.0
    computed_first: bool = False
    waited_s: Mapping[str, float] = field(default_factory=dict)
    behind: tuple[int, float] | None = None
    held: Held | None = None
    cause: Cause | None = None
    stretches: tuple[Stretch, ...] = ()
    awaited: int | None = None
    postponed: tuple[Postponed, ...] = ()
    push: int | None = None

    @property
    def costs_s(self) -> dict[int, float]:
        """By how much faults made the controller start the task later, in seconds."""
        if not self.stretches:
            return {} if self.fault is None else {self.fault: self.decide_s}
        found: dict[int, float] = {}
        for each in self.stretches:
            if each.fault is not None:
                found[each.fault] = found.get(each.fault, 0.0) + each.late_s
        return found

    @property
    def lost_s(self) -> float:
        """The loss before the task: a fault held its last member up, or the controller."""
        return self.decide_s + (self.held.lost_s if self.held else 0.0)

    @property
    def is_late(self) -> bool:
        """Whether the task began late because of a fault."""
        held_up = sum(self.costs_s.values()) > LATE * self.decide_s
        return held_up or (self.held is not None and self.held.lost_s > 0)

    @property
    def was_for_task(self) -> bool:
        """Whether the others waited much of the time because the last member was in a task."""
        return self.after is not None and self.after_s >= LATE * self.wait_s

    def add_earlier(self, costs_s: Mapping[int, float]) -> Wait:
        """The wait with the fault behind the task `after`, by what faults cost that task.

        That must be a good part of the wait, and others must have waited for a good part of it.
        """
        number = max(costs_s, key=lambda number: costs_s[number], default=None)
        if number is None or not self.was_for_task or self.held is not None:
            return self
        is_much = LATE * self.wait_s <= costs_s[number] <= self.after_s / WAITED
        if len(self.waited_s) == 1:  # nobody waited, but the member itself was late
            is_much = costs_s[number] >= LEAST_S
        return replace(self, behind=(number, costs_s[number])) if is_much else self


@dataclass(frozen=True, slots=True)
class Computed:
    """When a member computed before it was ready; `first_ns` is before it was killed, if it was.

    It may be ready later than it has computed, if it helped others meanwhile.
    """

    first_ns: int
    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """How long it computed, in seconds."""
        return (self.end_ns - self.start_ns) / 1e9


def find_waits(history: History) -> dict[int, Wait]:
    """How the group of each task came together, by its number, if a member of it was ready."""
    ready: dict[str, Waiting] = {}
    began: dict[str, int] = {}
    killed: dict[str, int] = {}
    computed: dict[str, Computed] = {}
    ended: dict[str, int] = {}
    passive: dict[int, set[str]] = {}
    pushes: dict[int, list[str]] = {}
    stops = list_stops(history)
    told: dict[str, PolicyTold] = {}
    postponed: dict[str, list[GroupPostponed]] = {}
    left: dict[str, TaskFinished | TaskDropped] = {}
    found: dict[int, Wait] = {}
    for event in history.events:
        match event:
            case ComputeStarted():
                began[event.site] = event.t_ns
                ended.pop(event.site, None)
            case ComputeFinished():
                ended[event.site] = event.t_ns
            case AgentChanged(who=who, do="kill") if who in began:
                killed.setdefault(who, began.pop(who))
            case Ready():
                ready[event.site] = Waiting(event.site, event.t_ns)
                computed.pop(event.site, None)
                postponed.pop(event.site, None)
                if event.site in began:
                    since_ns = began.pop(event.site)
                    first_ns = killed.pop(event.site, since_ns)
                    until_ns = ended.pop(event.site, event.t_ns)
                    computed[event.site] = Computed(first_ns, since_ns, until_ns)
            case TaskFinished() | TaskDropped():
                left[event.site] = event
            case TaskCompleted(task=number) if number in pushes:
                for site in (each for each in pushes[number] if each not in event.without):
                    ready[site] = Waiting(site, event.t_ns, number)
                    computed.pop(site, None)
            case Contributed() if event.site not in passive.get(event.task, ()):
                # it waits no more, such as before a pull
                ready.pop(event.site, None)
                postponed.pop(event.site, None)
            case PolicyTold():
                told[event.site] = event
            case GroupPostponed():
                for site in event.group:
                    postponed.setdefault(site, []).append(event)
            case TaskStarted():
                passive[event.task] = {*event.passive}
                active = set(event.group) - passive[event.task]
                if event.roles is not None and event.roles.then == "wait":
                    pushes[event.task] = [site for site in event.group if site in active]
                if here := {site: each for site, each in ready.items() if site in active}:
                    waited = [e for site in here for e in postponed.get(site, ())]
                    waited = sorted(dict.fromkeys(waited), key=lambda each: each.t_ns)
                    why = waited[-1] if waited else told.get(event.site)
                    wait = _make_wait(event, here, computed, why, left)
                    wait = replace(wait, postponed=tuple(_list_postponed(event.group, waited)))
                    found[event.task] = _add_stop(wait, here, computed, stops)
                for site in event.group:
                    postponed.pop(site, None)
    return found


def _make_wait(
    started: TaskStarted,
    ready: Mapping[str, Waiting],
    computed: Mapping[str, Computed],
    why: Event | None,
    left: Mapping[str, TaskFinished | TaskDropped],
) -> Wait:
    last = max(ready.values(), key=lambda each: each.t_ns)
    first_ns = min(each.t_ns for each in ready.values())
    before = left.get(last.site)
    left_ns, after = (-1, None) if before is None else (before.t_ns, before.task)
    if last.push is not None:
        left_ns, after = last.t_ns, last.push if last.t_ns > first_ns else None
    after = None if left_ns < first_ns else after
    own = computed.get(last.site)
    ended = why.values["task"] if isinstance(why, PolicyTold) and why.told == "ended" else None
    if ended is not None and ended == last.push:
        why = ended = None  # the controller waited for nothing else
    return Wait(
        last.site,
        (last.t_ns - first_ns) / 1e9,
        None if own is None else own.seconds,
        (started.t_ns - last.t_ns) / 1e9,
        *_find_reason(started.group, why),
        (last.t_ns, started.t_ns),
        _find_heard(ready, why) or (last.site, last.t_ns),
        after=after,
        waited_s={site: (last.t_ns - each.t_ns) / 1e9 for site, each in ready.items()},
        after_s=0.0 if after is None else (left_ns - first_ns) / 1e9,
        computed_first=own is not None and own.end_ns < left_ns,
        cause=why.cause if isinstance(why, GroupPostponed) else None,
        awaited=ended,
        push=last.push,
    )


def _add_stop(
    wait: Wait,
    ready: Mapping[str, Waiting],
    computed: Mapping[str, Computed],
    stops: Collection[Standstill],
) -> Wait:
    """The wait with the longest stop of its last member, if the stop made the member late.

    It did if it took much of the time in which the member computed or the others waited for it, and
    if the others waited for a good part of it; in a group of one it costs nothing. Otherwise the
    member was ready at its usual time: a simulated computation ends at a fixed time, and a stop
    that is over by then changes nothing.
    """
    begin_ns = first_ns = min(each.t_ns for each in ready.values())
    if (own := computed.get(wait.last)) is not None:
        begin_ns, first_ns = own.start_ns, min(own.first_ns, first_ns)
    span = first_ns, wait.span[0]
    own_stops = (stop for stop in stops if stop.who == wait.last)
    longest = max(own_stops, key=lambda stop: stop.overlap_s(span), default=None)
    if longest is None or not (seconds := longest.overlap_s(span)):
        return wait
    lost_s = min(seconds, wait.wait_s)
    is_noticed = len(ready) == 1 or lost_s >= WAITED * seconds
    if seconds < LATE * (span[1] - span[0]) / 1e9 or not is_noticed:
        return wait
    computing = own is not None and longest.start_ns >= begin_ns
    return replace(wait, held=Held(longest, seconds, lost_s, computing))


def _find_heard(ready: Mapping[str, Waiting], why: Event | None) -> tuple[str, int] | None:
    """The member that was ready by the last word that the policy heard."""
    if not isinstance(why, PolicyTold) or why.values.get("site") not in ready:
        return None
    site = str(why.values["site"])
    return site, ready[site].t_ns


def _list_postponed(
    group: Collection[str], events: Collection[GroupPostponed]
) -> Iterator[Postponed]:
    """When and why the members of a group had been postponed."""
    for event in events:
        same = set(event.group) == set(group)
        who = "group" if same else f"group of {' and '.join(event.group)}"
        said = f"The controller postponed the {who}{AGAIN}: {event.cause}"
        yield Postponed(event.t_ns, said, event.cause)


def _find_reason(group: Collection[str], why: Event | None) -> tuple[str, tuple[str, ...]]:
    """Why the task did not begin when the controller heard of its last member, and about whom."""
    match why:
        case GroupPostponed(cause=cause):
            (postponed,) = _list_postponed(group, [why])
            return postponed.reason, tuple(sorted(cause.names))
        case PolicyTold(told=told, values=values) if told in _REASONS:
            if told != "ready" or values["site"] not in group:
                names = (values["site"],) if "site" in values else ()
                return _REASONS[told].format(**values), names
    return "", ()
