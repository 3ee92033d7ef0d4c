"""How the group of each task came together before it began (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from trunkline.agents.events.causes import Cause
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.policy_events import PolicyTold
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted, Ready, RoundAlone
from trunkline.agents.events.task_events import (
    Contributed,
    GroupPostponed,
    SiteReleased,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskStarted,
)
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.stops import Standstill, list_stops
from trunkline.harness.report.explanations.wait_reasons import (
    Postponed,
    find_reason,
    list_postponed,
)

LATE = 0.25
"""A fault is the reason that a task began late if it was behind this share of the time."""

LEAST_S = 0.05
"""Of a shorter wait it is not told who went on without a task meanwhile."""

WAITED = 0.1
"""A stop of the last member counts if others waited for at least this share of it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A stop of the last member until it was ready, which made it late.

    Attributes:
        stop: the fault's effect.
        seconds: how long it lasted before the member was ready, while that computed or was awaited.
        lost_s: how long others waited meanwhile. In a group of one, no member did.
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
        fault: the number of the fault behind the reason; None without one.
    """

    seconds: float
    reason: str
    task: int | None = None
    fault: int | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A site waits for a task since `t_ns`: it was ready, or its `push` had ended.

    After a push, a site waits for a pull, and computes nothing before that.
    """

    site: str
    t_ns: int
    push: int | None = None


@dataclass(frozen=True, slots=True)
class Unheard:
    """A site was ready at a time, before the last member, but the controller had not heard of it.

    `fault` is the number of the fault behind that; None as long as none is known.
    """

    site: str
    ready_ns: int
    fault: int | None = None


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
        computed_first: whether the last member had computed before that task ended for it: it only
            helped others in it.
        waited_s: how long each member that was ready had waited for the last one.
        behind: the fault that held the last member up in the task `after` for a good part of the
            wait; None without one.
        held: the stop that made the last member late; None without one.
        stretches: the parts of `decide_s`; as long as they are not known, there are none.
        awaited: the task whose end was the reason; None if it was something else.
        postponed: when the group was postponed, or that of some members, and why.
        push: the push after whose end the last member waited for this task, a pull; else None.
        released: how often the policy let sites that were ready go on without a task since the
            first member was ready.
        unheard: the sites outside the group of which the controller should have heard before.
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
    computed_first: bool = False
    waited_s: Mapping[str, float] = field(default_factory=dict)
    behind: int | None = None
    held: Held | None = None
    cause: Cause | None = None
    stretches: tuple[Stretch, ...] = ()
    awaited: int | None = None
    postponed: tuple[Postponed, ...] = ()
    push: int | None = None
    released: Mapping[str, int] = field(default_factory=dict)
    unheard: tuple[Unheard, ...] = ()

    @property
    def lost_s(self) -> float:
        """The loss before the task: a fault held its last member up, or the controller."""
        return self.decide_s + (self.held.lost_s if self.held else 0.0)

    @property
    def behind_s(self) -> dict[int, float]:
        """How long the controller waited for something that a fault was behind, by its number."""
        found: dict[int, float] = {}
        for each in self.stretches or (Stretch(self.decide_s, self.reason, None, self.fault),):
            if each.fault is not None:
                found[each.fault] = found.get(each.fault, 0.0) + each.seconds
        return found

    @property
    def faults(self) -> frozenset[int]:
        """The faults because of which the task began late: they took a good part of a wait."""
        much = [n for n, seconds in self.behind_s.items() if seconds >= LATE * self.decide_s]
        held = self.held
        if held is not None and held.stop.fault is not None and held.lost_s:
            much.append(held.stop.fault)
        return frozenset(much)


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


@dataclass(slots=True)
class _Known:
    """What is known of sites and tasks at a time of the log.

    Attributes:
        ready: who waits for a task.
        began, killed, ended: since when sites compute, also before they were killed; until when.
        computed: when those that are ready had computed.
        passive, pushes: the members of tasks that need not be ready, and the others of pushes.
        told: what each controller's policy heard last.
        postponed: the groups of which a site was a member, as long as it waits for a task.
        left: the task that each site left last.
        released: who went on without a task.
        heard: of whom each controller has heard since they were ready.
    """

    ready: dict[str, Waiting] = field(default_factory=dict)
    began: dict[str, int] = field(default_factory=dict)
    killed: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    computed: dict[str, Computed] = field(default_factory=dict)
    passive: dict[int, set[str]] = field(default_factory=dict)
    pushes: dict[int, list[str]] = field(default_factory=dict)
    told: dict[str, PolicyTold] = field(default_factory=dict)
    postponed: dict[str, list[GroupPostponed]] = field(default_factory=dict)
    left: dict[str, TaskFinished | TaskDropped] = field(default_factory=dict)
    released: list[SiteReleased] = field(default_factory=list)
    heard: set[str] = field(default_factory=set)

    def take(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case ComputeStarted():
                self.began[event.site] = event.t_ns
                self.ended.pop(event.site, None)
            case ComputeFinished():
                self.ended[event.site] = event.t_ns
            case AgentChanged(who=who, do="kill") if who in self.began:
                self.killed.setdefault(who, self.began.pop(who))
            case Ready():
                self._wait(Waiting(event.site, event.t_ns))
            case TaskFinished() | TaskDropped():
                self.left[event.site] = event
            case TaskCompleted(task=number) if number in self.pushes:
                for site in (each for each in self.pushes[number] if each not in event.without):
                    self.ready[site] = Waiting(site, event.t_ns, number)
                    self.heard.add(site)
                    self.computed.pop(site, None)
            case Contributed() if event.site not in self.passive.get(event.task, ()):
                # it waits no more, such as before a pull
                self.ready.pop(event.site, None)
                self.postponed.pop(event.site, None)
            case PolicyTold():
                self.told[event.site] = event
                if event.told == "ready":
                    self.heard.add(str(event.values["site"]))
            case RoundAlone():
                self.ready.pop(event.site, None)
            case SiteReleased():
                self.released.append(event)
                self.ready.pop(event.worker, None)
            case GroupPostponed():
                for site in event.group:
                    self.postponed.setdefault(site, []).append(event)

    def _wait(self, waiting: Waiting) -> None:
        """A site is ready."""
        site = waiting.site
        self.ready[site] = waiting
        self.heard.discard(site)
        self.computed.pop(site, None)
        self.postponed.pop(site, None)
        if site in self.began:
            since_ns = self.began.pop(site)
            first_ns = self.killed.pop(site, since_ns)
            until_ns = self.ended.pop(site, waiting.t_ns)
            self.computed[site] = Computed(first_ns, since_ns, until_ns)

    def start(self, event: TaskStarted, stops: Collection[Standstill]) -> Wait | None:
        """How the group of a task came together that starts now; None if no member was ready."""
        self.passive[event.task] = {*event.passive}
        active = set(event.group) - self.passive[event.task]
        if event.roles is not None and event.roles.then == "wait":
            self.pushes[event.task] = [site for site in event.group if site in active]
        wait = None
        if here := {site: each for site, each in self.ready.items() if site in active}:
            said = self.told.get(event.site)
            waiting = {**dict.fromkeys(here), **dict.fromkeys(_name_told(event, said))}
            waited = [e for site in waiting for e in self.postponed.get(site, ())]
            waited = sorted(dict.fromkeys(waited), key=lambda each: each.t_ns)
            why = waited[-1] if waited else said
            wait = _make_wait(event, here, self.computed, why, self.left)
            wait = replace(
                wait,
                postponed=tuple(list_postponed(event.group, waited)),
                released=_count_released(wait, self.released),
                unheard=tuple(self._list_unheard(event.group, active, wait.span[0])),
            )
            left = None if wait.computed_first else self.left.get(wait.last)
            wait = _add_stop(wait, here, self.computed, stops, 0 if left is None else left.t_ns)
        for site in event.group:
            self.postponed.pop(site, None)
        return wait

    def _list_unheard(
        self, group: Collection[str], active: Collection[str], last_ns: int
    ) -> Iterator[Unheard]:
        """The sites that were ready before the last member, and of which nobody had heard.

        A group with a single active member, such as for a push, needs no other one.
        """
        for site, waiting in self.ready.items() if len(active) > 1 else ():
            if site not in group and site not in self.heard and waiting.t_ns < last_ns:
                yield Unheard(site, waiting.t_ns)


def find_waits(history: History) -> dict[int, Wait]:
    """How the group of each task came together, by its number, if a member of it was ready."""
    known, stops, found = _Known(), list_stops(history), dict[int, Wait]()
    for event in history.events:
        known.take(event)
        if isinstance(event, TaskStarted) and (wait := known.start(event, stops)) is not None:
            found[event.task] = wait
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
        *find_reason(started.group, why),
        (last.t_ns, started.t_ns),
        _find_heard(ready, why) or (last.site, last.t_ns),
        after=after,
        waited_s={site: (last.t_ns - each.t_ns) / 1e9 for site, each in ready.items()},
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
    left_ns: int,
) -> Wait:
    """The wait with the longest stop of its last member, if the stop made the member late.

    Until `left_ns`, the member was in the task before: what a stop took of that is that task's.

    It did if it took much of the time in which the member computed or the others waited for it, and
    if the others waited for a good part of it; in a group of one it costs nothing. Otherwise the
    member was ready at its usual time: a simulated computation ends at a fixed time, and a stop
    that is over by then changes nothing.
    """
    begin_ns = first_ns = ready_ns = min(each.t_ns for each in ready.values())
    if (own := computed.get(wait.last)) is not None:
        begin_ns, first_ns = own.start_ns, min(own.first_ns, first_ns)
    first_ns, ready_ns = max(first_ns, left_ns), max(ready_ns, left_ns)
    span = first_ns, wait.span[0]
    own_stops = (stop for stop in stops if stop.who == wait.last)
    longest = max(own_stops, key=lambda stop: stop.overlap_s(span), default=None)
    if longest is None or not (seconds := longest.overlap_s(span)):
        return wait
    lost_s = longest.overlap_s((ready_ns, wait.span[0]))
    is_noticed = len(ready) == 1 or lost_s >= WAITED * seconds
    if seconds < LATE * (span[1] - span[0]) / 1e9 or not is_noticed:
        return wait
    computing = own is not None and longest.start_ns >= begin_ns
    return replace(wait, held=Held(longest, seconds, lost_s, computing))


def _count_released(wait: Wait, released: Sequence[SiteReleased]) -> dict[str, int]:
    """How often sites went on without a task since the first member was ready, by site."""
    first_ns = wait.span[0] - round(wait.wait_s * 1e9)
    late = takewhile(lambda event: event.t_ns > first_ns, reversed(released))
    count = Counter(event.worker for event in late)
    return dict(count.most_common()) if wait.wait_s >= LEAST_S else {}


def _name_told(started: TaskStarted, said: PolicyTold | None) -> Iterator[str]:
    """The member of which the policy heard that it was ready, also if it needed not be ready."""
    if said is not None and said.told == "ready" and said.values["site"] in started.group:
        yield str(said.values["site"])


def _find_heard(ready: Mapping[str, Waiting], why: Event | None) -> tuple[str, int] | None:
    """The member that was ready by the last word that the policy heard."""
    if not isinstance(why, PolicyTold) or why.values.get("site") not in ready:
        return None
    site = str(why.values["site"])
    return site, ready[site].t_ns
