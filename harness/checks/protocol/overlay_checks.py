"""Part of the check of connections: controllers know which links can be used (pure).

A worker reports each neighbour that it loses or finds to the controller that it follows. Plans use
what the controller knows, so the check of plans relies on these reports.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from trunkline.agents.events.connection_events import (
    ControllerFound,
    LinkFound,
    LinkLost,
    LossesReported,
    WorkerFound,
    WorkerLost,
)
from trunkline.agents.events.policy_events import PolicyBegan
from trunkline.harness.checks.losses import HEARD_TIMEOUTS, Losses, Term
from trunkline.harness.checks.verdict import Finding, excused, fail, format_time, judged
from trunkline.harness.record.history import History

Change = LinkLost | LinkFound


def controllers_hear_of_losses(history: History, losses: Losses) -> Iterator[Finding]:
    """A controller hears of every neighbour that a worker loses or finds, and of no others."""
    said = _Said.of(history, losses)
    for report in history.all(LossesReported):
        yield judged()
        for text in said.find_errors(report, losses):
            yield fail(f"{report.site} at {format_time(report.t_ns)}: {text}")
    stop_ns = history.stop_ns
    for change in chain.from_iterable(said.changes.values()):
        heard_ns = change.t_ns + HEARD_TIMEOUTS * losses.timeout_ns
        terms = [t for t in losses.terms if _must_hear(t, change, losses, said.decides_ns)]
        if heard_ns + losses.timeout_ns > stop_ns or not terms:
            yield excused("the worker had no controller, or the run stopped", _name(change))
            continue
        for term in terms:
            yield judged()
            if not said.was_heard(change, term, heard_ns):
                yield fail(f"the {term.controller} did not hear that {_name(change)}")


@dataclass(frozen=True, slots=True)
class _Said:
    """What workers logged of their neighbours, and controllers of these workers' reports.

    Attributes:
        changes: the neighbours that each worker lost and found, in order of time.
        reports: by controller and worker, in order of time.
        whole: the reports with which a worker was found, which have all that it lost before.
        returns_ns: by worker, when it found a controller.
        away_ns: by controller and worker, when it was lost.
        decides_ns: when the first controller had heard of all workers, or had waited long enough.
    """

    changes: Mapping[str, Sequence[Change]]
    reports: Mapping[tuple[str, str], Sequence[LossesReported]]
    whole: Collection[int]
    returns_ns: Mapping[str, Sequence[int]]
    away_ns: Mapping[tuple[str, str], Sequence[int]]
    decides_ns: float

    @classmethod
    def of(cls, history: History, losses: Losses) -> _Said:
        changes = defaultdict[str, list[Change]](list)
        reports = defaultdict[tuple[str, str], list[LossesReported]](list)
        whole = set[int]()
        returns_ns = defaultdict[str, list[int]](list)
        away_ns = defaultdict[tuple[str, str], list[int]](list)
        latest: dict[str, LossesReported] = {}
        for event in history.events:
            before = latest.pop(event.site, None)
            match event:
                case LinkLost() | LinkFound():
                    changes[event.site].append(event)
                case LossesReported():
                    reports[event.site, event.worker].append(event)
                    latest[event.site] = event
                case ControllerFound():
                    returns_ns[event.site].append(event.t_ns)
                case WorkerLost(worker=worker):
                    away_ns[event.site, worker].append(event.t_ns)
                case WorkerFound(worker=worker) if before and before.worker == worker:
                    whole.add(id(before))
        began = (e.t_ns for e in history.all(PolicyBegan) if losses.terms[0].has(e))
        decides_ns = min(began, default=math.inf)
        return cls(changes, reports, whole, returns_ns, away_ns, decides_ns)

    def was_heard(self, change: Change, term: Term, until_ns: int) -> bool:
        """Whether the controller knew of a change at once or until a time."""
        reports = self.reports.get((term.controller, change.site), ())
        before = [each for each in reports if term.start_ns <= each.t_ns <= change.t_ns]
        after = [each for each in reports if change.t_ns <= each.t_ns <= until_ns]
        known = [before[-1].lost if before else (), *(each.lost for each in after)]
        return any((change.peer in lost) == isinstance(change, LinkLost) for lost in known)

    def was_away(self, report: LossesReported, before: LossesReported) -> bool:
        """Whether the controller lost the worker between two of its reports."""
        times_ns = self.away_ns.get((report.site, report.worker), ())
        return any(before.t_ns <= t_ns <= report.t_ns for t_ns in times_ns)

    def find_errors(self, report: LossesReported, losses: Losses) -> Iterator[str]:
        """What a report adds to those before it, or leaves out, although the worker did not say so.

        A worker that was started again, or follows another controller, or had none before, reports
        its whole state: all neighbours that it has lost since its last report, or has no connection
        to yet. Then it says which of them it is connected to again, even if it loses them at that
        moment. A controller that was paused reads of older changes when it is resumed.
        """
        term = losses.term_of(report)
        reports = self.reports[report.site, report.worker]
        place = next(n for n, each in enumerate(reports) if each is report)
        before = reports[:place]
        earlier = [each for each in before if losses.term_of(each) == term]
        known = set(earlier[-1].lost) if earlier else set()
        if earlier and known == set(report.lost) and not self.was_away(report, earlier[-1]):
            yield f"{report.worker} had reported the same before"
        anew = not earlier and (term != losses.terms[0] or report.t_ns <= self.decides_ns)
        whole = id(report) in self.whole or anew
        if whole and losses.find(losses.dead(report.worker), 0, report.t_ns):
            return
        unread_ns = losses.unread_since_ns(report.t_ns, (report.site,))
        unread_ns = max(unread_ns, term.start_ns if term is not None else 0)
        since_ns = 0 if whole else unread_ns - HEARD_TIMEOUTS * losses.timeout_ns
        mine = [e for e in self.changes.get(report.worker, ()) if e.t_ns <= report.t_ns]
        latest = {each.peer: each for each in mine}
        recent = [each for each in mine if each.t_ns >= since_ns]
        lost = {each.peer for each in recent if isinstance(each, LinkLost)}
        found = {each.peer for each in (*recent, *latest.values()) if isinstance(each, LinkFound)}
        for back_ns in self.returns_ns.get(report.worker, ()):
            if since_ns <= back_ns <= report.t_ns:
                then = {each.peer: each for each in mine if each.t_ns < back_ns}
                told = {
                    peer
                    for one, other in pairwise(earlier)
                    for peer in set(one.lost) - set(other.lost)
                    if other.t_ns >= back_ns
                }
                found |= {p for p in known - told if isinstance(then.get(p), LinkFound)}
        for peer in sorted(set(report.lost) - known - lost):
            yield f"{report.worker} had not lost {peer}"
        for peer in sorted(known - set(report.lost) - found):
            yield f"{report.worker} had not found {peer} again"


def _must_hear(term: Term, change: Change, losses: Losses, decides_ns: float) -> bool:
    """Whether a worker was connected to a controller long enough before and after a change.

    Workers do not log when they find their first controller.
    """
    start_ns = change.t_ns - losses.timeout_ns
    end_ns = change.t_ns + (HEARD_TIMEOUTS + 1) * losses.timeout_ns
    is_first = term.first and term.start_ns == 0
    begun_ns = decides_ns if is_first else term.start_ns + losses.detection_ns
    return begun_ns <= change.t_ns and losses.are_connected(term, change.site, start_ns, end_ns)


def _name(change: Change) -> str:
    verb = "lost" if isinstance(change, LinkLost) else "found"
    return f"{change.site} {verb} {change.peer} at {format_time(change.t_ns)}"
