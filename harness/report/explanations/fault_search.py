"""Which fault is behind what happened: by its time, its agents and the ways it touched (pure).

The fault behind a loss touched the lost agent, its way to the controller, or the way between the
two neighbours, and acted when agents noticed the loss. Of several, one that stopped an agent comes
before one that cut a link, and that before one that changed a link's values. If a connection broke
without silence, a kill comes first. A fault that changed delays only counts if one of them grew by
more than TCP's shortest timer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from trunkline.agents.events.causes import (
    BudgetSpent,
    Cause,
    LinkBroke,
    LostAlone,
    NoCandidate,
    NoPlan,
    RefusedAlone,
    SiteLost,
    SiteWithdrew,
)
from trunkline.agents.events.connection_events import (
    BackupStoodDown,
    BackupTookOver,
    ControllerLost,
    LinkLost,
    WorkerLost,
)
from trunkline.agents.events.event import BACKUP, CONTROLLER
from trunkline.agents.events.fault_events import LinkChanged
from trunkline.agents.events.round_events import WorkerFinished
from trunkline.agents.events.task_events import TaskJoined
from trunkline.harness.checks.tolerances import CHANGED_NS, Tolerances
from trunkline.harness.record.history import Disturbance, History, Task
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.lives import Interval, is_dead
from trunkline.harness.report.explanations.links.tcp_limits import SHORTEST_TIMER_S
from trunkline.harness.report.faults.fault_layout import LETTERS, shorten
from trunkline.topologies.model import Topology

CUTS = ("outage", "isolate", "partition", "flap", "availability")
CHANGES = ("setlink", "redraw", "trace")
ENDS = ("kill", "restart")
STOPS = (*ENDS, "pause")
HARMS = (*CUTS, *CHANGES, *STOPS)
"""The faults that may be behind a cut, other values of a link, a stop, and a repair."""

AT_ONCE = ("closed the connection", "Connection reset by peer", "Broken pipe")
"""The ends of the reasons for losses that agents noticed at once."""

LEFT_NS = 10**9
"""A site that lost the controller before it was lost did so at most as long before."""

NOTICED_TIMEOUTS = 2
"""Agents notice a loss within so many timeouts: one of silence, and then the news of it."""


Enough = Callable[[float, float], bool]
"""Whether a change of a delay, from one number of ms to another, may have done something."""


def _anything(before_ms: float, after_ms: float) -> bool:
    return True


def _times_out(before_ms: float, after_ms: float) -> bool:
    """Agents miss no one whose delay grew by less than TCP's shortest timer."""
    return after_ms - before_ms > SHORTEST_TIMER_S * 1e3


def _get_time(event: WorkerLost | LinkLost) -> int:
    return event.t_ns


def _was_silent(lost: WorkerLost | LinkLost) -> bool:
    """Whether agents noticed a loss by silence, and not by a connection that broke."""
    return not lost.reason.endswith(AT_ONCE)


@dataclass(frozen=True)
class FaultSearch:
    """The faults of a run. Agents notice a loss within `detection_ns`.

    The ways to the controller lead to `backup_site` while the backup acts.
    """

    history: History
    topology: Topology
    controller_site: str
    detection_ns: int
    backup_site: str = ""

    @cached_property
    def conditions(self) -> Conditions:
        """The values of all links over time."""
        return Conditions.of(self.history, self.topology)

    def find(
        self,
        names: Collection[str],
        verbs: Collection[str],
        start_ns: int,
        end_ns: int,
        enough: Enough = _anything,
        since_ns: int | None = None,
    ) -> int | None:
        """The fault of these kinds that acted on such agents or links (`a -> b`) in that time.

        One that stops an agent precedes one that cuts a link, and that one a change of values; then
        the one that acted longest in that time, or since `since_ns`, and the latest. One that
        changed nothing but delays counts if it was `enough` for one of them.
        """
        found = []
        for number, each in enumerate(self.history.faults):
            verb = each.started.verb
            if verb in verbs and self._acts(each, {*names}, start_ns, end_ns):
                if verb in CHANGES and not self._did(enough, each, {*names}):
                    continue
                rank = 2 * (verb in STOPS) + (verb in CUTS)
                ended_ns = end_ns if each.end_ns is None else each.end_ns
                from_ns = start_ns if since_ns is None else since_ns
                acted_ns = min(ended_ns, end_ns) - max(each.started.t_ns, from_ns)
                found.append((rank, acted_ns, number, each.started.fault))
        return max(found)[-1] if found else None

    def find_behind(
        self,
        cause: Cause | None,
        sites: Collection[str],
        span: Interval,
        enough: Enough = _times_out,
    ) -> int | None:
        """The harm behind a cause, or behind what happened to these sites.

        It acted in that span of time, or so shortly before that no agent had noticed it yet. A loss
        that is in the log has a fault shortly before it: of those that stop or cut, one that acted
        at that moment precedes one that was over. A connection that broke without silence was that
        of an agent that ended. See `find` for `enough`.
        """
        loss = cause.after if isinstance(cause, NoCandidate) else cause
        last = max(self._list_losses(loss, sites, span[1]), key=_get_time, default=None)
        lost_ns = None if last is None else last.t_ns
        since_ns = (span[0] if lost_ns is None else lost_ns) - self.detection_ns
        touching = self._list_touching(loss, sites, self._find_centre(span[1]))
        if isinstance(loss, SiteLost) and self._has_left(loss.site, span[1]):
            touching |= {CONTROLLER, BACKUP}
        kinds: list[Collection[str]] = [] if last is None else [(*STOPS, *CUTS)]
        if last is not None and not _was_silent(last):
            kinds = [ENDS, *kinds]
        return self._find_first(touching, kinds, lost_ns or 0, (since_ns, span[1]), enough)

    def find_behind_silence(self, site: str, lost_ns: int) -> int | None:
        """The harm by which a site lost the controller at a time: on the way, or at an end."""
        touching = {site, CONTROLLER, BACKUP, *self._list_hops(site, self._find_centre(lost_ns))}
        span = lost_ns - self.detection_ns, lost_ns
        return self._find_first(touching, [(*STOPS, *CUTS)], lost_ns, span, _times_out)

    def _find_first(
        self,
        names: set[str],
        kinds: Iterable[Collection[str]],
        lost_ns: int,
        span: Interval,
        enough: Enough,
    ) -> int | None:
        """The fault of the first of these kinds that acted at a loss, or any harm in the span.

        Of several, the one that was there for most of the silence since the start of the span.
        """
        for verbs in kinds:
            then = self.find(names, verbs, lost_ns, lost_ns, enough, span[0])
            if then is not None:
                return then
        return self.find(names, HARMS, *span, enough)

    def find_begin_ns(self, fault: int | None, span: Interval) -> int:
        """When a fault began in a span of time; the start of the span if not in it."""
        begun_ns = (
            each.started.t_ns for each in self.history.faults if each.started.fault == fault
        )
        return min(max(next(begun_ns, span[0]), span[0]), span[1])

    def find_silence_s(self, cause: Cause | None, fault: int | None, span: Interval) -> float:
        """How much of the time until a loss was noticed was `failover.timeout`, in seconds.

        It is 0 if agents did not notice the loss behind the cause by silence: the connections of an
        agent that ends break at once.
        """
        silencing = {
            each.started.fault for each in self.history.faults if each.started.verb not in ENDS
        }
        loss = cause.after if isinstance(cause, NoCandidate) else cause
        last = max(self._list_losses(loss, (), span[1]), key=_get_time, default=None)
        if last is None or not _was_silent(last) or fault not in silencing:
            return 0.0
        timeout_ns = self.detection_ns // NOTICED_TIMEOUTS
        return max(0, min(timeout_ns, last.t_ns - span[0])) / 1e9

    def _list_losses(
        self, cause: Cause | None, sites: Collection[str], end_ns: int
    ) -> Iterator[WorkerLost | LinkLost]:
        """How agents noticed the loss that is the cause, until a time."""
        match cause:
            case SiteLost(site):
                found = [each for each in self.history.all(WorkerLost) if each.worker == site]
                yield from (each for each in found if each.t_ns <= end_ns)
            case LinkBroke(pair):
                yield from self._list_broken({frozenset(pair)}, end_ns)
            case LostAlone(peer):
                yield from self._list_broken({frozenset({peer, site}) for site in sites}, end_ns)

    def _list_broken(self, pairs: Collection[frozenset[str]], end_ns: int) -> Iterator[LinkLost]:
        for each in self.history.all(LinkLost):
            if frozenset({each.site, each.peer}) in pairs and each.t_ns <= end_ns:
                yield each

    def describe(self, cause: Cause | None, fault: int | None, task: Task) -> str:
        """A task's cause in words, with what the log says of a lost site's part in the task.

        Of a loss without a fault they say so.
        """
        is_loss = isinstance(cause, SiteLost | LinkBroke | NoCandidate)
        who, words = "it " if isinstance(cause, BudgetSpent) else "", str(cause or "")
        loss = cause
        while isinstance(loss, NoCandidate | NoPlan):
            loss = loss.after
        if isinstance(loss, SiteLost | SiteWithdrew):
            words = words.replace(str(loss), self._describe_loss(loss, fault, task), 1)
        return f"{who}{words}{', and no fault explains it' if is_loss and fault is None else ''}"

    def _describe_loss(self, loss: SiteLost | SiteWithdrew, fault: int | None, task: Task) -> str:
        """The loss of a site that only helped, or why a site takes no part in a task."""
        site = loss.site
        if isinstance(loss, SiteLost):
            why = self._describe_centre(site, fault, task)
            is_member = site in task.started.group
            return f"{loss}{why}" if is_member else f"{site}, which helped with it, is lost{why}"
        ended_ns = task.started.t_ns if task.end_ns is None else task.end_ns
        done = (each.t_ns for each in self.history.all(WorkerFinished) if each.site == site)
        if any(t_ns <= ended_ns for t_ns in done):
            return f"{site} has done its rounds"
        knew = any(each.site == site for each in task.all(TaskJoined))
        if knew or any(
            start_ns <= ended_ns for start_ns, _ in self.history.lives.spans(site, is_dead)
        ):
            return str(loss)
        verbs = (e.started.verb for e in self.history.faults if e.started.fault == fault)
        is_cut = next(verbs, None) in CUTS
        return f"{site} had not heard of it{', cut off from the controller' * is_cut}"

    def _describe_centre(self, site: str, fault: int | None, task: Task) -> str:
        """That the controller was cut off from a lost site, whose other ways the fault left."""
        ended_ns = task.started.t_ns if task.end_ns is None else task.end_ns
        centre = self._find_centre(ended_ns)
        if self._has_left(site, ended_ns):
            return f", because it no longer heard the controller, at {centre}, and left it"
        cut = {
            target
            for each in self.history.faults
            if each.started.fault == fault and each.started.verb in CUTS
            for target in each.started.targets
        }
        others = {*self.topology.site_names} - {site, centre}
        is_cut = not cut.isdisjoint(self._list_hops(site, centre))
        if not (is_cut and all(cut.isdisjoint(self._list_hops(site, each)) for each in others)):
            return ""
        from_all = others and not any(cut.isdisjoint(self._list_hops(e, centre)) for e in others)
        how = "was cut off from all other sites" if from_all else "no longer heard it"
        return f", because the controller, at {centre}, {how}"

    def _has_left(self, site: str, until_ns: int) -> bool:
        """Whether a lost site had lost the controller before that lost the site."""
        lost = [e for e in self.history.all(WorkerLost) if e.worker == site and e.t_ns <= until_ns]
        last = max(lost, key=_get_time, default=None)
        if last is None or _was_silent(last):
            return False
        alone_ns = [e.t_ns for e in self.history.all(ControllerLost) if e.site == site]
        return any(last.t_ns - LEFT_NS <= t_ns <= last.t_ns for t_ns in alone_ns)

    def describe_meanwhile(self, names: Collection[str], span: Interval) -> str:
        """Which fault acted on these agents or links in a span of time, in words."""
        number = self.find(names, HARMS, *span)
        texts = (e.started.text for e in self.history.faults if e.started.fault == number)
        text = next(texts, None)
        if text is None:
            return "no fault explains it"
        return f"meanwhile fault {number} acted among its members: {shorten(text, LETTERS)}"

    def _find_centre(self, t_ns: int) -> str:
        """The site of the controller that acted then."""
        terms = self.history.all(BackupTookOver, BackupStoodDown)
        last = next((event for event in reversed(terms) if event.t_ns <= t_ns), None)
        acts = self.backup_site and isinstance(last, BackupTookOver)
        return self.backup_site if acts else self.controller_site

    def _list_touching(self, cause: Cause | None, sites: Collection[str], centre: str) -> set[str]:
        """The agents and links whose harm may be behind a cause.

        A site is lost on its way to the controller, and a neighbour on the way between the two.
        """
        match cause:
            case SiteLost(site) | SiteWithdrew(site):
                return {site, *self._list_hops(site, centre)}
            case LinkBroke((a, b)):
                return {a, b, *self._list_hops(a, b)}
            case LostAlone(peer) | RefusedAlone(peer):
                return {peer, *sites}.union(*(self._list_hops(peer, site) for site in sites))
        about = {*sites, *(cause.names if cause is not None else ())}
        return about.union(*(self._list_ways(site, centre) for site in about))

    def _list_ways(self, site: str, centre: str) -> set[str]:
        """The links of a site's ways to the controller and to its neighbours, and back."""
        if site not in self.topology.site_names:
            return set()
        ends = {*self.topology.overlay.neighbours(site), centre}
        return {hop for end in ends for hop in self._list_hops(site, end)}

    def _list_hops(self, a: str, b: str) -> set[str]:
        """The links of the way between two sites, in both directions."""
        if a == b or not {a, b} <= {*self.topology.site_names}:
            return set()
        hops = [*pairwise(self.topology.path(a, b)), *pairwise(self.topology.path(b, a))]
        return {" -> ".join(hop) for hop in hops}

    def _acts(self, fault: Disturbance, names: set[str], start_ns: int, end_ns: int) -> bool:
        started = fault.started
        ended_ns = end_ns if fault.end_ns is None else fault.end_ns
        if started.t_ns > end_ns or ended_ns < start_ns:
            return False
        if started.verb == "restart" and self._was_dead(started.targets[0], started.t_ns):
            return False  # it ended the harm
        return bool(names.intersection(started.targets or self._list_touched(started.t_ns)))

    def _did(self, enough: Enough, fault: Disturbance, names: set[str]) -> bool:
        """Whether a fault did enough to one of these links; what is no delay always is."""
        ended_ns = self.history.end_ns if fault.end_ns is None else fault.end_ns
        since_ns, until_ns = fault.started.t_ns, ended_ns + self._late_ns
        changes = [
            (before, after)
            for ends, spells in self.conditions.spells.items()
            if " -> ".join(ends) in names
            for before, after in pairwise(spells)
            if since_ns <= after.start_ns <= until_ns
        ]
        return not changes or any(
            before.is_cut != after.is_cut
            or replace(before.link, delay_ms=after.link.delay_ms) != after.link
            or enough(before.link.delay_ms, after.link.delay_ms)
            for before, after in changes
        )

    @property
    def _late_ns(self) -> int:
        """How long after a fault its changes of links are logged, at most."""
        return Tolerances.of(self.history).step_ns + CHANGED_NS * len(self.topology.links)

    def _was_dead(self, who: str, t_ns: int) -> bool:
        spans = self.history.lives.spans(who, is_dead)
        return any(start_ns < t_ns <= end_ns for start_ns, end_ns in spans)

    def _list_touched(self, t_ns: int) -> set[str]:
        """The links that changed from this time on: those of a fault that names none.

        The runner logs a fault, then its changes, one after the other.
        """
        changes = self.history.all(LinkChanged)
        near = (each for each in changes if t_ns <= each.t_ns <= t_ns + self._late_ns)
        return {f"{each.src} -> {each.dst}" for each in near}
