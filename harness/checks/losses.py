"""Which agents were lost and when, with the faults behind it (pure).

Failover promises less to an agent that was killed or lost the controller. A check that excuses an
object names the span of time in which the loss lasted; `Losses.explain` adds the fault.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from trunkline.agents.events.connection_events import (
    BackupTookOver,
    ControllerFound,
    LinkLost,
    WorkerFound,
    WorkerLost,
)
from trunkline.agents.events.event import BACKUP, CONTROLLER, RUNNER, Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.run_events import AgentExited
from trunkline.agents.events.task_events import (
    Received,
    Sent,
    TaskAbandoned,
    TaskCompleted,
    TaskJoined,
)
from trunkline.agents.wire.agent_settings import TASKS_PER_CONTROLLER
from trunkline.harness.checks.rules import Rules
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.lives import Lives, Moment, is_dead, is_stopped, is_unled, leads

HEARD_TIMEOUTS = 2
"""An agent hears a message within so many timeouts: a packet may be sent again several times before
the connection counts as silent."""

TOO_SHORT = "failover.timeout is too short for this network"
"""Why agents may lose each other without a fault; the run then proves nothing."""


@dataclass(frozen=True, slots=True)
class Span:
    """An interval in which `what` was so, such as `n2 was dead`."""

    start_ns: int
    end_ns: int
    what: str

    def overlaps(self, start_ns: int, end_ns: int) -> bool:
        """Whether the two intervals share a moment."""
        return self.start_ns <= end_ns and start_ns <= self.end_ns


@dataclass(frozen=True, slots=True)
class Term:
    """The time from `start_ns` to `end_ns` in which one controller process was in charge.

    `first` is the first term of its agent. A `whole` term lasts until the run stops; other terms
    end because the agent is killed, or because the backup stands down.
    """

    controller: str
    start_ns: int
    end_ns: int
    first: bool
    whole: bool

    @property
    def least_task(self) -> int:
        """The least number that a task of this controller can have."""
        return TASKS_PER_CONTROLLER if self.controller == BACKUP else 0

    def has(self, event: Event) -> bool:
        """Whether the controller logged this event in this term."""
        return event.site == self.controller and self.start_ns <= event.t_ns <= self.end_ns


@dataclass(frozen=True)
class Losses:
    """The losses and pauses of a run.

    Both ends notice a loss and are connected again within `detection_ns`; a message arrives over a
    working connection within `timeout_ns`.
    """

    history: History
    detection_ns: int
    timeout_ns: int
    _spans: dict[tuple[str, str], tuple[Span, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(cls, history: History, rules: Rules) -> Losses:
        """The losses of a run with these rules."""
        return cls(history, round(rules.detection_s * 1e9), round(rules.timeout_s * 1e9))

    def find(self, spans: Iterable[Span], start_ns: int, end_ns: int) -> Span | None:
        """The first of these spans that overlaps an interval."""
        return next((span for span in spans if span.overlaps(start_ns, end_ns)), None)

    def explain(self, span: Span) -> str:
        """The span in words, with the faults that were active when it began or shortly before."""
        faults = self.faults_at(span.start_ns)
        cause = f" ({'; '.join(faults)})" if faults else ""
        return f"{span.what} from {_format_s(span.start_ns)} to {_format_s(span.end_ns)} s{cause}"

    def faults_at(self, t_ns: int) -> list[str]:
        """The texts of the faults that were active within `detection_ns` before this time."""
        return [
            f"fault {fault.started.fault}: {fault.started.text}"
            for fault in self.history.faults
            if fault.started.verb != "churn"
            and fault.started.t_ns <= t_ns
            and (fault.end_ns is None or t_ns <= fault.end_ns + self.detection_ns)
        ]

    def dead(self, name: str) -> tuple[Span, ...]:
        """When an agent was dead."""
        return self._list_spans(name, "was dead", is_dead)

    def stopped(self, name: str) -> tuple[Span, ...]:
        """When an agent was dead or paused."""
        return self._list_spans(name, "was stopped", is_stopped)

    def without_controller(self, site: str) -> tuple[Span, ...]:
        """When a worker was dead or had no controller, or had not begun in its new life."""
        return self._list_spans(site, "had no controller", is_unled)

    def standalone(self, site: str) -> tuple[Span, ...]:
        """When a worker was dead, or waited for no controller any more and so refused offers."""
        late = (
            replace(span, start_ns=span.start_ns + self.detection_ns)
            for span in self.without_controller(site)
            if span.end_ns - span.start_ns >= self.detection_ns
        )
        return (*self.dead(site), *late)

    def out_of_reach(self, controller: str, site: str) -> tuple[Span, ...]:
        """When a controller did not hear a worker, or the worker was dead or had no controller."""
        unheard = self.unheard(controller, site)
        return tuple(sorted((*unheard, *self.without_controller(site)), key=lambda s: s.start_ns))

    def unheard(self, controller: str, site: str) -> tuple[Span, ...]:
        """From a controller's `worker_lost` to its `worker_found`."""
        return self._unheard.get((controller, site), ())

    def are_connected(self, term: Term, site: str, start_ns: int, end_ns: int) -> bool:
        """Whether messages between a controller and a worker arrive throughout an interval."""
        away = self.out_of_reach(term.controller, site)
        stopped = (*self.stopped(site), *self.stopped(term.controller))
        return end_ns <= term.end_ns and not self.find((*away, *stopped), start_ns, end_ns)

    def unread_since_ns(self, t_ns: int, controllers: Sequence[str] = (CONTROLLER, BACKUP)) -> int:
        """Since when controllers may not have read what arrived, at a time: since they stopped.

        A controller that is resumed acts on earlier messages before it reads of a loss.
        """
        spans = [span for name in controllers for span in self.stopped(name)]
        recent = (s for s in spans if s.start_ns <= t_ns <= s.end_ns + self.timeout_ns)
        return min((span.start_ns for span in recent), default=t_ns)

    def leader_of(self, site: str, t_ns: int) -> str | None:
        """The controller that a worker follows at a time.

        None for a worker that was started again: it does not say which one before it loses it.
        """
        times_ns, leaders = self._leaders.get(site, ([], [CONTROLLER]))
        return leaders[bisect_right(times_ns, t_ns)]

    def may_be_silent(self, task: Task, sites: Sequence[str]) -> list[str]:
        """The sites of which `before_report` may give a span: they died, or passed chunks on."""
        passed = {event.src for event in task.all(Received) if event.phase == "relay"}
        asked = passed | self._ever_dead
        return [site for site in sites if site in asked]

    def before_report(self, task: Task, site: str) -> Span | None:
        """Why a site does not report all of its traffic of a task; None if it has to.

        It was killed before, or it forwarded a chunk after its report and was killed then, or it
        forwarded chunks of offers and forgot the offers, because it had no controller.
        """
        killed = self.dead(site) and (
            self._killed_before_report(task, site) or self._killed_after_report(task, site)
        )
        return killed or self._forgot_offers(task, site)

    def _killed_before_report(self, task: Task, site: str) -> Span | None:
        """When a site was killed before it reported its traffic of a task.

        A site reports when it is told of the task's end; without a controller, as soon as it has
        one again.
        """
        reports = [event.t_ns for event in task.all(Sent, Received) if event.site == site]
        latest_ns = min(reports, default=self.told_ns(task, site))
        kills = (s for s in self.dead(site) if task.started.t_ns <= s.start_ns <= latest_ns)
        return next(kills, None)

    def _killed_after_report(self, task: Task, site: str) -> Span | None:
        """When a site was killed that had forwarded chunks since its report, for other sites."""
        told = {(e.dst, e.phase) for e in task.all(Sent) if e.site == site}
        passed = [
            event
            for event in task.all(Received)
            if event.src == site
            and event.phase in ("aux", "relay")
            and (event.site, event.phase) not in told
        ]
        if not passed or not told:
            return None
        report_ns = max(e.t_ns for e in task.all(Sent) if e.site == site)
        end_ns = max(event.end_ns for event in passed)
        return next((s for s in self.dead(site) if report_ns <= s.start_ns <= end_ns), None)

    def _forgot_offers(self, task: Task, site: str) -> Span | None:
        """Why a site that forwarded chunks of offers does not know that the task took them in.

        It is not told of tasks while it has no controller, and refuses offers after a while. It may
        notice the loss after the end of a task that it was not told of. A member that was not ready
        is asked later, and not at all if the task is abandoned before.
        """
        if not task.early:
            return None
        passed = [e for e in task.all(Received) if e.src == site and e.phase == "relay"]
        if not passed:
            return None
        ends_ns = [event.t_ns for event in task.all(TaskCompleted, TaskAbandoned)]
        end_ns = max((*ends_ns, *(event.end_ns for event in passed)))
        joined = any(event.site == site for event in task.all(TaskJoined))
        end_ns += 0 if joined else self.detection_ns
        if task.all(TaskAbandoned) and site in task.started.group and not joined:
            return Span(task.started.t_ns, end_ns, f"{site} was not asked before the task ended")
        start_ns = min(event.start_ns for event in passed) - self.timeout_ns
        return self.find(self.without_controller(site), start_ns, end_ns)

    def told_ns(self, task: Task, site: str) -> int:
        """When a site has been told of a task's end at the latest, if it was not killed before.

        Of a task without an end, or that it only relayed for, it knows when the run ends. A message
        is under way for up to `timeout_ns`, and a silent connection counts as lost after that long.
        A paused site reads messages when it is resumed. A controller that took over waits up to
        `detection_ns` for reports before it ends a task. A site that joins a later task has been
        told before.
        """
        ends = [event.t_ns for event in task.all(TaskCompleted, TaskAbandoned)]
        knows = any(event.site == site for event in task.all(TaskJoined))
        told_ns = max(ends) if ends and knows else self.history.end_ns
        later_ns = self.joins_next(site, told_ns) if ends and knows else None
        away = self.without_controller(site)
        if later_ns is not None and not self.find(away, told_ns, later_ns):
            return later_ns
        decides_ns = 0
        for span in sorted((*away, *self.stopped(site)), key=lambda span: span.start_ns):
            if span.start_ns <= told_ns + 2 * self.timeout_ns and told_ns <= span.end_ns:
                told_ns, decides_ns = span.end_ns, self.detection_ns
        return told_ns + decides_ns + self.timeout_ns

    def joins_next(self, site: str, t_ns: int) -> int | None:
        """When a site joins the first task that starts after a time.

        Messages of a controller arrive in their order: the site has handled all earlier messages.
        """
        starts_ns, joins_ns = self._joins.get(site, ((), ()))
        return min(joins_ns[bisect_right(starts_ns, t_ns) :], default=None)

    def lost_before_joining(self, task: Task, site: str) -> Span | None:
        """When the controller lost a site that it did not reach with a task."""
        if any(event.site == site for event in task.all(TaskJoined)):
            return None
        spans = self.out_of_reach(task.started.site, site)
        return self.find(spans, task.started.t_ns, task.started.t_ns + self.detection_ns)

    def killed_after_offer(self, task: Task, site: str) -> Span | None:
        """When a site was killed that had sent its contribution early, before it joined the task.

        The task took the contribution in, but the site has not logged it.
        """
        early = any(event.src == site and event.phase == "early" for event in task.all(Received))
        if not early or any(event.site == site for event in task.all(TaskJoined)):
            return None
        t_ns = task.started.t_ns
        return self.find(self.dead(site), t_ns - self.timeout_ns, t_ns + self.timeout_ns)

    def of_part(self, task: Task, site: str) -> Span | None:
        """What kept a receiver from its part of a result that others have parts of.

        It was out of reach itself, or another member was, or neighbours lost their connection.
        """
        start_ns = task.started.t_ns
        end_ns = max((e.t_ns for e in task.all(TaskCompleted, TaskAbandoned)), default=start_ns)
        for member in (site, *task.started.group):
            spans = (*self.dead(member), *self.out_of_reach(task.started.site, member))
            if found := self.find(spans, start_ns, end_ns):
                return found
        members = frozenset(task.started.group)
        pairs = frozenset(frozenset((a, b)) for a in members for b in members if a != b)
        return self.find(self.broken(pairs), start_ns, end_ns)

    def broken(self, pairs: frozenset[frozenset[str]]) -> tuple[Span, ...]:
        """When neighbours of these pairs lost their connection: one moment each."""
        return tuple(
            Span(event.t_ns, event.t_ns, f"{event.site} lost {event.peer}")
            for event in self.history.all(LinkLost)
            if frozenset((event.site, event.peer)) in pairs
        )

    def paused_s(self, start_ns: int, end_ns: int, name: str | None = None) -> float:
        """Seconds that agents (or one of them) were stopped or dead, summed over agents."""
        names = self._lives.moments if name is None else [name]
        spans = [span for each in names for span in self.stopped(each)]
        overlaps = (min(end_ns, s.end_ns) - max(start_ns, s.start_ns) for s in spans)
        return sum(max(0, overlap) for overlap in overlaps) / 1e9

    @cached_property
    def _leaders(self) -> Mapping[str, tuple[list[int], list[str | None]]]:
        """By worker: the times at which it followed another controller, and whom it followed."""
        times_ns = defaultdict[str, list[int]](list)
        leaders = defaultdict[str, list[str | None]](lambda: [CONTROLLER])
        for event in self.history.events:
            match event:
                case ControllerFound(site=site, controller=controller):
                    times_ns[site].append(event.t_ns)
                    leaders[site].append(controller)
                case AgentChanged(who=site, do="kill"):
                    times_ns[site].append(event.t_ns)
                    leaders[site].append(None)
        return {site: (times_ns[site], leaders[site]) for site in times_ns}

    @cached_property
    def _joins(self) -> Mapping[str, tuple[Sequence[int], Sequence[int]]]:
        """By site, when the tasks that it joined started, and when it joined them."""
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for task in self.history.tasks:
            for event in task.all(TaskJoined):
                found[event.site].append((task.started.t_ns, event.t_ns))
        columns = {site: tuple(zip(*sorted(pairs), strict=True)) for site, pairs in found.items()}
        return {site: (starts_ns, joins_ns) for site, (starts_ns, joins_ns) in columns.items()}

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The terms of all controllers, in order of their start."""
        found = []
        for name in (CONTROLLER, BACKUP):
            spans = self._lives.spans(name, leads)
            for span in spans:
                whole = span is spans[-1] and leads(self._lives.moments[name][-1])
                found.append(Term(name, *span, first=span is spans[0], whole=whole))
        return tuple(sorted(found, key=lambda term: term.start_ns))

    def term_of(self, event: Event) -> Term | None:
        """The term in which a controller logged this event."""
        return next((term for term in self.terms if term.has(event)), None)

    @cached_property
    def _lives(self) -> Lives:
        """The lives of all agents. The end of a run that broke off ended them like a kill."""
        history = self.history
        if not history.broke_off:
            return history.lives
        names = sorted({event.site for event in history.events} - {RUNNER})
        kills = (AgentChanged(history.end_ns, RUNNER, name, "kill", -1) for name in names)
        started = (task.started for task in history.tasks)
        return Lives.of((*history.events, *kills), started, history.end_ns)

    @cached_property
    def _ever_dead(self) -> frozenset[str]:
        """The agents that were dead at some time."""
        history = self.history
        names = {event.site for event in history.events}
        names |= {event.who for event in history.all(AgentExited)}
        return frozenset(name for name in names if self.dead(name))

    def _list_spans(self, who: str, what: str, holds: Callable[[Moment], bool]) -> tuple[Span, ...]:
        """When something held of an agent."""
        if (who, what) not in self._spans:
            spans = self._lives.spans(who, holds)
            self._spans[who, what] = tuple(Span(*span, f"{who} {what}") for span in spans)
        return self._spans[who, what]

    @cached_property
    def _unheard(self) -> Mapping[tuple[str, str], tuple[Span, ...]]:
        """From a controller's `worker_lost` to its `worker_found`, by controller and worker."""
        found: defaultdict[tuple[str, str], list[Span]] = defaultdict(list)
        open_ns: dict[tuple[str, str], int] = {}

        def close(ends: tuple[str, str], end_ns: int) -> None:
            what = f"the {ends[0]} did not hear {ends[1]}"
            found[ends].append(Span(open_ns.pop(ends), end_ns, what))

        for event in self.history.events:
            match event:
                case WorkerLost(site=controller, worker=worker):
                    open_ns.setdefault((controller, worker), event.t_ns)
                    continue
                case WorkerFound(site=controller, worker=worker):
                    heard = [(controller, worker)]
                case ControllerFound(controller=controller, site=worker):
                    heard = [(controller, worker)]
                case BackupTookOver(site=controller) | AgentChanged(who=controller, do="restart"):
                    heard = [ends for ends in open_ns if ends[0] == controller]
                case _:
                    continue
            for ends in heard:
                if ends in open_ns:
                    close(ends, event.t_ns)
        for ends in list(open_ns):
            close(ends, self.history.end_ns)
        return {ends: tuple(spans) for ends, spans in found.items()}


def _format_s(t_ns: int) -> str:
    return f"{t_ns / 1e9:.3f}"
