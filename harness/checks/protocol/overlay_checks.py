"""Part of the check of connections: controllers know which links can be used (pure).

A worker reports each neighbour that it loses or finds to the controller that it follows. Plans use
what the controller knows, so the check of plans relies on these reports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trunkline.agents.events.connection_events import LinkFound, LinkLost, LossesReported
from trunkline.agents.events.run_events import Stopping
from trunkline.harness.checks.losses import Losses, Term
from trunkline.harness.checks.verdict import Finding, excused, fail, format_time, judged
from trunkline.harness.record.history import History

Change = LinkLost | LinkFound


def controllers_hear_of_losses(history: History, losses: Losses) -> Iterator[Finding]:
    """A controller hears of every neighbour that a worker loses or finds, and of no others."""
    said = _Said.of(history)
    for report in history.all(LossesReported):
        yield judged()
        for peer in report.lost:
            if not _has_lost(said, losses, report, peer):
                when = format_time(report.t_ns)
                yield fail(f"{report.site} at {when}: {report.worker} had not lost {peer}")
    stop_ns = min((event.t_ns for event in history.all(Stopping)), default=history.end_ns)
    for changes in said.changes.values():
        for change, later in zip(changes, [*changes[1:], None], strict=True):
            heard_ns = change.t_ns + losses.timeout_ns
            over = heard_ns > stop_ns or (later is not None and later.t_ns <= heard_ns)
            terms = [] if over else [t for t in losses.terms if _must_hear(t, change, losses)]
            if not terms:
                rule = "the worker's connections changed again, or it had no controller"
                yield excused(rule, _name(change))
            for term in terms:
                yield judged()
                known = said.known(term, change.site, heard_ns)
                if (change.peer in known) != isinstance(change, LinkLost):
                    yield fail(f"the {term.controller} did not hear that {_name(change)}")


@dataclass(frozen=True, slots=True)
class _Said:
    """What workers logged of their neighbours, and controllers of these workers' reports.

    Attributes:
        changes: by worker and neighbour, in order of time.
        reports: by controller and worker, in order of time.
    """

    changes: Mapping[tuple[str, str], Sequence[Change]]
    reports: Mapping[tuple[str, str], Sequence[LossesReported]]

    @classmethod
    def of(cls, history: History) -> _Said:
        changes = defaultdict[tuple[str, str], list[Change]](list)
        reports = defaultdict[tuple[str, str], list[LossesReported]](list)
        for event in history.events:
            match event:
                case LinkLost() | LinkFound():
                    changes[event.site, event.peer].append(event)
                case LossesReported():
                    reports[event.site, event.worker].append(event)
        return cls(changes, reports)

    def known(self, term: Term, worker: str, t_ns: int) -> tuple[str, ...]:
        """The neighbours that a worker had lost, as far as the controller knew at a time."""
        reports = self.reports.get((term.controller, worker), ())
        heard = [event for event in reports if term.start_ns <= event.t_ns <= t_ns]
        return heard[-1].lost if heard else ()


def _has_lost(said: _Said, losses: Losses, report: LossesReported, peer: str) -> bool:
    """Whether a worker may have reported so: it lost the neighbour, or has no connection yet."""
    if any(span.start_ns <= report.t_ns for span in losses.dead(report.worker)):
        return True
    changes = said.changes.get((report.worker, peer), ())
    return any(isinstance(each, LinkLost) and each.t_ns <= report.t_ns for each in changes)


def _must_hear(term: Term, change: Change, losses: Losses) -> bool:
    """Whether a worker was connected to a controller long enough before and after a change."""
    start_ns, end_ns = change.t_ns - losses.timeout_ns, change.t_ns + 2 * losses.timeout_ns
    begun_ns = 0 if term.first and term.start_ns == 0 else term.start_ns + losses.detection_ns
    if not begun_ns <= change.t_ns or end_ns > term.end_ns:
        return False
    away = losses.out_of_reach(term.controller, change.site)
    stopped = (*losses.stopped(change.site), *losses.stopped(term.controller))
    return not losses.find((*away, *stopped), start_ns, end_ns)


def _name(change: Change) -> str:
    verb = "lost" if isinstance(change, LinkLost) else "found"
    return f"{change.site} {verb} {change.peer} at {format_time(change.t_ns)}"
