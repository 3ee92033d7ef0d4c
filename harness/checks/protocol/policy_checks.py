"""The check of the decisions: the policy is replayed from the events that it got (pure)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from trunkline.agents.control.replay import Answer, Logged, ReplayError, replay
from trunkline.agents.events import round_events
from trunkline.agents.events.connection_events import ControllerFound, WorkerFound, WorkerLost
from trunkline.agents.events.event import CONTROLLER
from trunkline.agents.events.policy_events import PolicyBegan, PolicyTold
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import Compared as ComparedEvent
from trunkline.agents.events.task_events import (
    Contributed,
    GroupPostponed,
    ServerBegan,
    SiteExcluded,
    SiteReleased,
    TaskAbandoned,
    TaskCompleted,
    TaskStarted,
)
from trunkline.agents.policies.policy import (
    TICK_S,
    Compared,
    Decision,
    Ended,
    Event,
    Exclude,
    Joined,
    Left,
    Lost,
    Proceed,
    Ready,
    Start,
    Tick,
    Wake,
    is_timed,
)
from trunkline.agents.wire.agent_settings import TASKS_PER_CONTROLLER
from trunkline.harness.checks.losses import HEARD_TIMEOUTS, Losses, Term
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import ROUNDED_NS, STOP_SHARE, Tolerances
from trunkline.harness.checks.verdict import Finding, excused, fail, format_time, judged
from trunkline.harness.record.history import History

T = TypeVar("T")


def decisions_follow(history: History, rules: Rules) -> Iterator[Finding]:
    """The policy decides about the events that it was told as it did in the run.

    They must be events of the run: what a site or a controller logged before, at the time of the
    log.
    """
    if rules.policy is None:
        return
    try:
        answers = replay(history.events, rules.policy, rules.servers)
    except ReplayError as error:
        yield fail(str(error))
        return
    except Exception as error:  # a user's policy may raise anything
        yield fail(f"the policy fails in the replay: {type(error).__name__}: {error}")
        return
    losses = Losses.of(history, rules)
    facts = _Facts.of(history, is_timed(rules.policy(0)))
    for term in losses.terms:
        known = _Known(term, facts, losses)
        own = [answer for answer in answers if term.has(answer.told)]
        yield from _judge_term(known, own, history, rules.topology.site_names)
    outside = [answer for answer in answers if losses.term_of(answer.told) is None]
    yield from (fail(f"{_place(answer)}: it was not in charge") for answer in outside)
    yield from _judge_batches(history, answers)


def _judge_term(
    known: _Known, answers: list[Answer], history: History, sites: Sequence[str]
) -> Iterator[Finding]:
    term = known.term
    began = [event for event in history.all(PolicyBegan) if term.has(event)]
    where = f"{term.controller} from {format_time(term.start_ns)}"
    if len(began) > 1 or (answers and not began):
        yield fail(f"{where}: its policy began {len(began)} times")
    least = term.least_task
    for event in began:
        right = event.term == least if term.first else event.term >= least
        numbers = [e.task for each in answers for e in each.logged if isinstance(e, TaskStarted)]
        right = right and event.term == min(numbers, default=event.term)
        if not right or event.term >= least + TASKS_PER_CONTROLLER:
            yield fail(f"{where}: its policy began with the term {event.term}")
    for event in began:
        known.began_ns = event.t_ns
        yield from known.check_beginning(event, sites)
    for answer in answers:
        yield from known.check(answer)
        if answer.is_same:
            yield judged()
        elif not term.whole and answer is answers[-1] and answer.is_begun:
            yield excused("the controller was killed as it acted", _place(answer))
        else:
            yield fail(f"{_place(answer)}: {_describe(answer)}")
            yield judged()
    yield from known.check_ends(answers)
    yield from known.check_wakes(min(term.end_ns, known.facts.stop_ns), "and did not")


@dataclass(slots=True)
class _Known:
    """What a policy may be told in a term, from what else the log has.

    Attributes:
        began_ns: when it began.
        wakes_s: when it wants to wake, and since when; it ticked last at `ticked_s`.
        latest: the last event that it was told.
    """

    term: Term
    facts: _Facts
    losses: Losses
    began_ns: int = 0
    wakes_s: dict[float, float] = field(default_factory=dict)
    ticked_s: float = -math.inf
    latest: Event | None = None

    def check(self, answer: Answer) -> Iterator[Finding]:
        """Check what the policy was told, and note when it wants to wake."""
        event, told = answer.event, answer.told
        late_s = told.t_ns / 1e9 - event.at_s
        paused_s = self.losses.paused_s(round(event.at_s * 1e9), told.t_ns, told.site)
        if not -ROUNDED_NS / 1e9 <= late_s <= self.facts.allowed.policy_ns / 1e9 + paused_s:
            yield fail(f"{_place(answer)}: it has the time {event.at_s:g} s")
        if not self._has_happened(answer):
            yield fail(f"{_place(answer)}: {event} has not happened")
        elif isinstance(event, Ready):
            yield from self._check_iteration(answer, event)
        elif isinstance(event, Ended):
            yield from self._check_promptness(answer, event)
        yield from self.check_wakes(told.t_ns, f"before {event}")
        if event == self.latest and not self._may_come_again(event, told):
            yield fail(f"{_place(answer)}: it was told so just before")
        self.latest = event
        if isinstance(event, Tick):
            self.wakes_s = {at_s: s for at_s, s in self.wakes_s.items() if at_s > event.at_s}
            self.ticked_s = event.at_s
        # A time that has passed means as soon as possible.
        wakes_s = (each.at_s for each in answer.decisions if isinstance(each, Wake))
        for at_s in wakes_s:
            self.wakes_s.setdefault(max(at_s, event.at_s), event.at_s)

    def check_wakes(self, t_ns: float, what: str) -> Iterator[Finding]:
        """A policy that wants to wake gets a tick then, before it is told what comes later."""
        if not self.wakes_s:
            return
        first_s = min(self.wakes_s)
        due_s = max(first_s, self.ticked_s + TICK_S)
        waited_s = due_s - self.wakes_s[first_s]
        late_ns = t_ns - (due_s + STOP_SHARE * waited_s) * 1e9 - self.facts.allowed.tick_ns
        if late_ns > 0 and late_ns > 1e9 * self.losses.paused_s(
            round(due_s * 1e9), round(t_ns), self.term.controller
        ):
            when = format_time(round(due_s * 1e9))
            yield fail(f"the policy of the {self.term.controller} was to wake at {when}, {what}")

    def _check_promptness(self, answer: Answer, ended: Ended) -> Iterator[Finding]:
        """A policy hears at once that a task has ended, or when it begins."""
        told = answer.told
        ends_ns = self.facts.ended_ns[told.site, ended.task, ended.completed]
        since_ns = max(self.began_ns, *(end_ns for end_ns in ends_ns if end_ns <= told.t_ns))
        late_ns = told.t_ns - since_ns - self.facts.allowed.follow_ns
        if late_ns > 1e9 * self.losses.paused_s(since_ns, told.t_ns, told.site):
            yield fail(f"{_place(answer)}: task {ended.task} ended at {format_time(since_ns)}")
        started = self.facts.starts.get(ended.task)
        said_s = dict(ended.report).get("duration_s")
        if started is None or not self.term.has(started) or said_s is None:
            return  # the controller took it over when it heard of it
        took_ns = max(end_ns for end_ns in ends_ns if end_ns <= told.t_ns) - started.t_ns
        if abs(took_ns - said_s * 1e9) > self.facts.allowed.follow_ns:
            yield fail(f"{_place(answer)}: task {ended.task} took {took_ns / 1e9:g} s")

    def _check_iteration(self, answer: Answer, ready: Ready) -> Iterator[Finding]:
        """A site that is ready and has its controller waits for an answer, so it has no later one.

        What was on its way when it lost the controller may be read afterwards. So the site lost it
        before the later iteration, and not long ago.
        """
        told = answer.told
        times_ns = self.facts.ready_ns[ready.site]
        was_ns = max(t_ns for t_ns in times_ns[ready.iteration] if t_ns <= told.t_ns)
        later_ns = (
            t_ns
            for iteration, all_ns in times_ns.items()
            if iteration > ready.iteration
            for t_ns in all_ns
            if was_ns < t_ns <= told.t_ns
        )
        until_ns = min(later_ns, default=None)
        since_ns = self.losses.unread_since_ns(told.t_ns) - HEARD_TIMEOUTS * self.losses.timeout_ns
        alone = self.losses.without_controller(ready.site)
        if until_ns is None or self.losses.find(alone, since_ns, until_ns):
            return
        when = format_time(until_ns)
        yield fail(f"{_place(answer)}: {ready} was no longer so at {when}")

    def check_beginning(self, began: PolicyBegan, sites: Sequence[str]) -> Iterator[Finding]:
        """A policy begins when all workers have reported or are lost, or the time for that is over.

        Workers do not log that they find a controller for the first time in a life. Until then they
        compute nothing.
        """
        term, losses = self.term, self.losses
        if term.first and term.controller == CONTROLLER:
            return
        if began.t_ns >= term.start_ns + losses.detection_ns - ROUNDED_NS:
            return
        found = {
            event.site
            for event in losses.history.all(ControllerFound)
            if event.controller == term.controller and term.start_ns <= event.t_ns <= began.t_ns
        }
        lost = {
            event.worker
            for event in losses.history.all(WorkerLost)
            if term.has(event) and event.t_ns <= began.t_ns
        }
        new = {site for site in sites if losses.leader_of(site, began.t_ns) is None}
        begun: tuple[round_events.ComputeStarted | ServerBegan, ...] = (
            *losses.history.all(round_events.ComputeStarted),
            *losses.history.all(ServerBegan),
        )
        new |= set(sites) - {event.site for event in begun if event.t_ns < term.start_ns}
        if missing := sorted(set(sites) - found - lost - new):
            when = format_time(began.t_ns)
            what = f"before {', '.join(missing)} had reported"
            yield fail(f"the policy of the {term.controller} began at {when}, {what}")

    def _may_come_again(self, event: Event, told: PolicyTold) -> bool:
        """A site that has left, and is found again, reports that again."""
        if not isinstance(event, Left):
            return False
        return self.facts.found_ns.get((told.site, event.site), math.inf) <= told.t_ns

    def _has_happened(self, answer: Answer) -> bool:
        facts, told = self.facts, answer.told
        match answer.event:
            case Ready(site, iteration) as event:
                given_ns = facts.given_ns.get((site, iteration), math.inf) if event.given else 0
                ready_ns = min(facts.ready_ns[site].get(iteration, ()), default=math.inf)
                return max(ready_ns, given_ns) <= told.t_ns
            case Compared(site, similarity):
                return facts.compared_ns.get((site, similarity), math.inf) <= told.t_ns
            case Lost(site):
                return facts.lost_ns.get((told.site, site), math.inf) <= told.t_ns
            case Joined(site):
                return facts.found_ns.get((told.site, site), math.inf) <= told.t_ns
            case Ended(task, group, completed):
                ends_ns = facts.ended_ns.get((told.site, task, completed), ())
                is_over = any(self.term.start_ns <= end_ns <= told.t_ns for end_ns in ends_ns)
                return task in facts.starts and facts.starts[task].group == group and is_over
            case Tick(at_s):
                return min(self.wakes_s, default=math.inf) <= at_s
        return True

    def check_ends(self, answers: list[Answer]) -> Iterator[Finding]:
        """A timed policy hears of every end of a task, once, until the run stops."""
        heard = Counter(a.event.task for a in answers if isinstance(a.event, Ended))
        until_ns = min(self.term.end_ns, self.facts.stop_ns) - self.facts.allowed.policy_ns
        ended = {
            task
            for (site, task, _), ends_ns in self.facts.ended_ns.items()
            if site == self.term.controller
            and any(self.term.start_ns <= end_ns < until_ns for end_ns in ends_ns)
        }
        for task in sorted(ended - heard.keys()) if self.facts.hears_of_ends else ():
            yield fail(f"task {task} has ended and the policy was not told")
        for task in sorted(task for task, times in heard.items() if times > 1):
            yield fail(f"the policy was told {heard[task]} times that task {task} has ended")


@dataclass(frozen=True, slots=True)
class _Facts:
    """When something happened, the first time but for ends, in nanoseconds since the run's start.

    Attributes:
        starts: of each task.
        ready_ns: every time, by site, and then by iteration.
        given_ns: when a site contributed for the first time as an active member, by site and
            iteration.
        compared_ns: by site and similarity.
        lost_ns: by controller and site.
        found_ns: by controller and site.
        ended_ns: by controller, task and whether it was completed; a controller that begins again
            may end a task that it has ended before.
        stop_ns: when the run was told to stop.
        allowed: by how much times may differ.
        hears_of_ends: whether the policy gets the ends of tasks.
    """

    starts: Mapping[int, TaskStarted]
    ready_ns: Mapping[str, Mapping[int, Sequence[int]]]
    given_ns: Mapping[tuple[str, int], int]
    compared_ns: Mapping[tuple[str, float], int]
    lost_ns: Mapping[tuple[str, str], int]
    found_ns: Mapping[tuple[str, str], int]
    ended_ns: Mapping[tuple[str, int, bool], Sequence[int]]
    stop_ns: float
    allowed: Tolerances
    hears_of_ends: bool

    @classmethod
    def of(cls, history: History, hears_of_ends: bool) -> _Facts:
        ended_ns = defaultdict[tuple[str, int, bool], list[int]](list)
        for done in history.all(TaskCompleted):
            ended_ns[done.site, done.task, True].append(done.t_ns)
        for given_up in history.all(TaskAbandoned):
            ended_ns[given_up.site, given_up.task, False].append(given_up.t_ns)
        ready_ns = defaultdict[str, dict[int, list[int]]](dict)
        for ready in history.all(round_events.Ready):
            ready_ns[ready.site].setdefault(ready.iteration, []).append(ready.t_ns)
        return cls(
            {task.number: task.started for task in history.tasks},
            ready_ns,
            _first(
                (given.site, given.iteration, given.t_ns)
                for task in history.tasks
                for given in task.all(Contributed)
                if not task.is_passive(given.site)
            ),
            _first((e.site, e.similarity, e.t_ns) for e in history.all(ComparedEvent)),
            _first((e.site, e.worker, e.t_ns) for e in history.all(WorkerLost)),
            _first((e.site, e.worker, e.t_ns) for e in history.all(WorkerFound)),
            ended_ns,
            min((e.t_ns for e in history.all(Stopping)), default=math.inf),
            Tolerances.of(history),
            hears_of_ends,
        )


def _first(events: Iterable[tuple[str, T, int]]) -> dict[tuple[str, T], int]:
    """The first time of each pair."""
    found: dict[tuple[str, T], int] = {}
    for site, what, t_ns in events:
        found[site, what] = min(t_ns, found.get((site, what), t_ns))
    return found


def _judge_batches(history: History, answers: list[Answer]) -> Iterator[Finding]:
    """A site computes with a batch that the policy has given it."""
    given: set[tuple[str, int | None]] = set()
    for answer in answers:
        for each in answer.decisions:
            match each:
                case Start():
                    given |= set(each.batches.items())
                case Proceed(site, batch):
                    given.add((site, batch))
    for event in history.all(round_events.ComputeStarted):
        if event.batch is not None and (event.site, event.batch) not in given:
            when = f"{event.site} at {format_time(event.t_ns)}"
            yield fail(f"{when}: it computes with a batch of {event.batch}, which was not decided")


def _describe(answer: Answer) -> str:
    """What the run decided and what the replay decides, and why they may differ."""
    again = [_say(each) for each in answer.decisions if not isinstance(each, Wake)]
    ran = [_say(_as_decision(event)) for event in answer.logged]
    return (
        f"the run decided {_list(ran)}, the replay {_list(again)} (is the policy a pure function?)"
    )


def _as_decision(event: Logged) -> Decision:
    match event:
        case TaskStarted(group=group, weights=weights, scale=scale, roles=roles):
            return Start.of(group, weights, scale, roles)
        case GroupPostponed(group=group):
            return Start(group, {}, 1.0)
        case SiteReleased(worker=site):
            return Proceed(site)
        case SiteExcluded(worker=site):
            return Exclude(site)


def _say(decision: Decision) -> str:
    match decision:
        case Start(group, weights, scale):
            shares = (f"{site} {scale * weight:.3g}" for site, weight in weights.items())
            return f"a task of {', '.join(group)} ({', '.join(shares) or 'postponed'})"
        case Proceed(site):
            return f"that {site} proceeds"
        case Exclude(site):
            return f"that {site} is excluded"
        case Wake(at_s):
            return f"to wake at {at_s:g} s"


def _list(decisions: Sequence[str]) -> str:
    """At most two decisions in words."""
    more = len(decisions) - 2
    shown = [*decisions[:2], *([f"{more} more"] if more > 0 else [])]
    return " and ".join(shown) or "nothing"


def _place(answer: Answer) -> str:
    event = type(answer.event).__name__.lower()
    return f"{answer.controller} at {format_time(answer.told.t_ns)} was told {event}"
