"""Payload takes time on its links, and is sent for a reason (pure)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from trunkline.agents.events.task_events import (
    Contributed,
    ContributionTaken,
    Received,
    Routed,
    Sent,
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskJoined,
)
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.causality_checks import ReadyTimes, judge_after, list_ready
from trunkline.harness.checks.control_paths import Paths
from trunkline.harness.checks.losses import Losses, Span
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS, HANDED_NS, Tolerances
from trunkline.harness.checks.verdict import Finding, excused, fail, judged
from trunkline.harness.record.history import History, Task

AMID_A_CHUNK = "the sender was amid a chunk when it gave the task up or heard of its end"


def payload_takes_time(history: History, rules: Rules) -> Iterator[Finding]:
    """Payload takes at least the delay of its link, and a site sends only chunks that it has.

    A site that is killed or has no controller does not report the bytes that it sent.
    """
    losses, paths = Losses.of(history, rules), Paths(history, rules)
    follow_ns = Tolerances.of(history).follow_ns
    ready = list_ready(history)
    offers = any(task.early for task in history.tasks)
    for task in history.tasks:
        yield from _judge_offers(task, ready if offers else None)
        yield from _judge_repeats(task)
        yield from _judge_reports(task, losses, follow_ns)
        joined_ns = {event.site: event.t_ns for event in reversed(task.all(TaskJoined))}
        given_ns = {event.site: event.t_ns for event in reversed(task.all(Contributed))}
        forwarding = _list_forwarding(task)
        sent: defaultdict[tuple[str, str, str], list[Sent]] = defaultdict(list)
        sizes = _list_sizes(task)
        chunks = Counter[str]()
        for out in task.all(Sent):
            chunks[out.site] += out.chunks
        for out in task.all(Sent):
            sent[out.site, out.dst, out.phase].append(out)
            yield from _judge_span(task, out, sizes)
            known_ns = joined_ns.get(out.site, history.end_ns)
            if out.phase in ("in", "out") and out.start_ns < known_ns - CLOCK_NS:
                yield fail(f"{task}: {out.site} sent before it joined the task")
            own_ns = 0 if (out.site, out.dst) in forwarding else given_ns.get(out.site, 0)
            # A worker logs its contribution when it has handed all of its chunks over.
            handed_ns = CLOCK_NS + HANDED_NS * chunks[out.site]
            if out.phase == "in" and out.start_ns < own_ns - handed_ns:
                yield fail(f"{task}: {out.site} sent before it contributed")
        for into in task.all(Received):
            yield from _judge_span(task, into, sizes)
            outs = sent.get((into.src, into.site, into.phase), [])
            if not outs or losses.before_report(task, into.src):
                yield from _excuse_sender(task, into, losses)
                continue
            yield judged()
            least_ns = paths.link_ns(into.src, into.site)
            text = f"{task} on {into.src} -> {into.site}: the first chunk arrived"
            first_ns = min(out.start_ns for out in outs)
            yield from judge_after(into.start_ns, first_ns + least_ns, text, 0)
            if len(outs) == 1 and outs[0].chunks == into.chunks:
                text = f"{task} on {into.src} -> {into.site}: the last chunk arrived"
                yield from judge_after(into.end_ns, outs[0].end_ns + least_ns, text, 0)


def _judge_offers(task: Task, ready: ReadyTimes | None) -> Iterator[Finding]:
    """A contribution is sent early only once its site is ready, and nothing is before the task.

    Without `ready`, no site sends early. A member that was lost may not have logged that it
    contributes: it was ready before the task.
    """
    given_ns = {event.site: event.t_ns for event in reversed(task.all(Contributed))}
    offered_ns = {
        site: ready.before(site, given_ns.get(site, task.started.t_ns))
        for site in task.started.weights
        if ready is not None
    }
    first_ns = min((task.started.t_ns, *offered_ns.values()))
    for out in task.all(Sent):
        least_ns = offered_ns.get(out.site, first_ns) if out.phase == "early" else first_ns
        if out.start_ns < least_ns - CLOCK_NS:
            yield fail(f"{task}: {out.site} sent payload to {out.dst} before there was any")


def _judge_repeats(task: Task) -> Iterator[Finding]:
    """A site that reports its traffic of a task again has had more since."""
    reported_ns: dict[tuple[str, ...], int] = {}
    for event in task.all(Sent, Received):
        ends = (event.site, event.dst) if isinstance(event, Sent) else (event.src, event.site)
        key = (event.phase, type(event).__name__, *ends)
        if event.end_ns < reported_ns.get(key, 0) - CLOCK_NS:
            yield fail(f"{task}: {event.site} reported payload twice")
        reported_ns[key] = event.t_ns


def _judge_reports(task: Task, losses: Losses, follow_ns: int) -> Iterator[Finding]:
    """A site reports all of its traffic at once, as soon as it is told of the task's end.

    What it reports later has moved since. A controller's messages arrive in their order: a site
    that joins a later task of this controller has been told of the end before.
    """
    reports: defaultdict[str, list[Sent | Received]] = defaultdict(list)
    for event in task.all(Sent, Received):
        reports[event.site].append(event)
    ends = [*task.all(TaskCompleted, TaskAbandoned)]
    for site, said in reports.items():
        told_ns = before_ns = last_ns = said[0].t_ns
        for event in said:
            if event.t_ns > last_ns + follow_ns:  # a line of another report, not the next one
                before_ns, told_ns = told_ns, event.t_ns
            last_ns = event.t_ns
            if told_ns > before_ns and event.end_ns < before_ns - CLOCK_NS:
                late = f"{(event.t_ns - before_ns) / 1e6:.3f} ms after its report"
                yield fail(f"{task}: {site} reported its traffic until {event.end_ns} ns {late}")
        due_ns = _find_next_join(task, ends, site, losses)
        overdue = [event for event in said if event.t_ns > due_ns + follow_ns]
        if any(event.end_ns <= ends[0].t_ns for event in overdue):
            yield fail(f"{task}: {site} reported its traffic when it had joined another task")


def _find_next_join(
    task: Task, ends: Sequence[TaskCompleted | TaskAbandoned], site: str, losses: Losses
) -> float:
    """When a site joined the next task of the controller that ended this one; else never."""
    if len(ends) != 1 or ends[0].site != task.started.site:
        return math.inf
    joined = any(event.site == site for event in task.all(TaskJoined))
    join_ns = losses.joins_next(site, ends[0].t_ns) if joined else None
    term = losses.term_of(ends[0])
    if join_ns is None or term is None:
        return math.inf
    leaders = {losses.leader_of(site, join_ns)} - {None} or {
        each.controller for each in losses.terms
    }
    if leaders == {term.controller} and losses.are_connected(
        term, site, task.started.t_ns, join_ns
    ):
        return join_ns
    return math.inf


def _list_forwarding(task: Task) -> set[Directed]:
    """Links on which their sources may send for others, before they contribute.

    On all other links they send sums, which have their own contribution in them.
    """
    ways = [edge for block in task.blocks for edge in block.in_edges]
    ways += [event.path for event in task.all(Routed)]
    return {hop for way in ways for hop in pairwise(way[1:])}


def _list_sizes(task: Task) -> tuple[int, ...]:
    """The sizes of a model's chunks, ascending."""
    cut = task.cut
    return tuple(sorted({cut.size(index) for index in range(cut.count)}))


def _judge_span(task: Task, event: Sent | Received, sizes: tuple[int, ...]) -> Iterator[Finding]:
    if not event.start_ns <= event.end_ns <= event.t_ns + CLOCK_NS:
        yield fail(f"{task}: payload at {event.site} ended before it began or later")
    least, most = sizes[0], sizes[-1]
    fits = event.chunks * least <= event.bytes <= event.chunks * most
    if len(sizes) == 2:  # all chunks are equal but the last one
        fits &= (event.bytes - event.chunks * least) % (most - least) == 0
    if not fits or not event.chunks:
        yield fail(f"{task}: {event.bytes} B in {event.chunks} chunks at {event.site}")


def _excuse_sender(task: Task, into: Received, losses: Losses) -> Iterator[Finding]:
    """Excuse a sender that did not report.

    It was killed before its report, or it sent early and was lost before it learned of the task. Or
    it was amid one chunk when it gave the task up, or when it heard of the task's end, and the
    receiver, which its controller did not reach then, did not hear of it.
    """
    lost = losses.before_report(task, into.src)
    text = f"{task} on {into.src} -> {into.site}"
    if lost is None and into.chunks == 1:
        away = _find_given_up(task, into, losses)
        reports = (*task.all(Sent, Received), *task.all(ContributionTaken, TaskDropped))
        closed_ns = min((e.t_ns for e in reports if e.site == into.src), default=into.end_ns)
        if away is None and closed_ns < into.end_ns:
            apart = losses.out_of_reach(task.started.site, into.site)
            away = losses.find(apart, closed_ns, closed_ns)
        if away is not None:
            yield excused(AMID_A_CHUNK, f"{text}: {losses.explain(away)}")
            return
    if lost is None and into.phase == "early":
        lost = losses.lost_before_joining(task, into.src)
    if lost is None:
        yield fail(f"{text}: {into.bytes} bytes arrived, and {into.src} does not report them")
    else:
        yield excused(
            "the sender was lost before it reported, or forgot an offer",
            f"{text}: {losses.explain(lost)}",
        )


def _find_given_up(task: Task, into: Received, losses: Losses) -> Span | None:
    """Why the sender of a chunk gave the task up by itself before all of it had arrived.

    It reports no chunk that it has not handed over. The receivers hear that it takes no part after
    the chunk, so they report it.
    """
    drops_ns = [event.t_ns for event in task.all(TaskDropped) if event.site == into.src]
    alone = losses.without_controller(into.src)
    spans = (losses.find(alone, t_ns, t_ns) for t_ns in drops_ns if t_ns < into.end_ns)
    return next(filter(None, spans), None)
