"""Connections are found and lost as their two ends allow (pure).

No agent connects to a dead one, neighbours lose a site that is killed, and a worker joins tasks
of the controller that it follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from trunkline.agents.events.connection_events import (
    ControllerFound,
    LinkFound,
    LinkLost,
    WorkerFound,
    WorkerLost,
)
from trunkline.agents.events.policy_events import PolicyBegan
from trunkline.agents.events.round_events import WorkerFinished
from trunkline.agents.events.task_events import TaskJoined, TaskRearranged, TaskReplanned
from trunkline.harness.checks.losses import Losses, Term
from trunkline.harness.checks.protocol.overlay_checks import controllers_hear_of_losses
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged
from trunkline.harness.record.history import History, Task

UNDER_WAY = 0.25
"""A connection that an agent made before it died is noticed within this share of a timeout after
the end of an older one: a timeout lasts several round trips."""


def connections_have_two_ends(history: History, rules: Rules) -> Iterator[Finding]:
    """An agent that is found is alive; a worker joins tasks of the controller that it follows.

    The controller hears which neighbours its workers lose and find.
    """
    losses = Losses.of(history, rules)
    lost_ns: dict[tuple[str, str], int] = {}
    for event in history.events:
        match event:
            case LinkLost(peer=who) | WorkerLost(worker=who):
                lost_ns[event.site, who] = event.t_ns
                continue
            case LinkFound(peer=who) | WorkerFound(worker=who):
                spans = losses.dead(who)
            case ControllerFound(controller=who):
                spans = losses.stopped(who)
            case _:
                continue
        yield judged()
        for span in spans:
            # A last message may be under way, or wait until the one who finds is resumed.
            late_ns = span.start_ns + losses.timeout_ns
            if span.start_ns < (end_ns := lost_ns.get((event.site, who), 0)):
                late_ns = min(late_ns, end_ns + round(UNDER_WAY * losses.timeout_ns))
            pauses_s = losses.paused_s(span.start_ns, event.t_ns, event.site)
            if late_ns < event.t_ns < span.end_ns and not pauses_s:
                yield fail(f"{_place(event)}: {losses.explain(span)}")
    yield from _check_kills(history, losses, rules)
    yield from _check_returns(history, losses)
    yield from _check_joins(history, losses)
    yield from controllers_hear_of_losses(history, losses)


def _check_kills(history: History, losses: Losses, rules: Rules) -> Iterator[Finding]:
    """A neighbour that is connected to a site when it is killed, and continues, loses it.

    A neighbour that was started again is connected to the sites that it has found since.
    """
    stop_ns = history.stop_ns
    left_ns = {event.site: event.t_ns for event in history.all(WorkerFinished)}
    for site in rules.topology.site_names:
        for span, peer in product(losses.dead(site), rules.topology.overlay.neighbours(site)):
            end_ns = span.start_ns + 2 * losses.timeout_ns
            stopped = losses.find(losses.stopped(peer), span.start_ns - losses.timeout_ns, end_ns)
            over_ns = min(stop_ns, left_ns.get(site, stop_ns), left_ns.get(peer, stop_ns))
            lives_ns = (s.end_ns for s in losses.dead(peer) if s.end_ns <= span.start_ns)
            since_ns = max(lives_ns, default=0)
            changes = _list_changes(history, peer, site)
            said = [e for e in changes if since_ns <= e.t_ns <= end_ns]
            before = [e for e in said if e.t_ns < span.start_ns]
            linked = isinstance(before[-1], LinkFound) if before else not losses.dead(peer)
            if not linked or stopped or over_ns < end_ns:
                continue
            yield judged()
            if said == before:
                when = format_time(span.start_ns)
                yield fail(f"{peer} did not lose {site}, which was killed at {when}")


def _list_changes(history: History, site: str, peer: str) -> list[LinkFound | LinkLost]:
    """What a site said of its connection to a neighbour, in order of time."""
    found = history.all(LinkFound, LinkLost)
    return [event for event in found if event.site == site and event.peer == peer]


def _check_returns(history: History, losses: Losses) -> Iterator[Finding]:
    """A controller finds only a worker that it has lost in the same term, and not again.

    After its policy has begun it loses only a worker that it has not lost already.
    """
    began = history.all(PolicyBegan)
    lost: dict[tuple[Term | None, str], bool] = {}
    for event in history.events:
        match event:
            case WorkerLost(worker=worker):
                term = losses.term_of(event)
                decides = any(term.has(each) and each.t_ns < event.t_ns for each in began if term)
                if decides and lost.get((term, worker)):
                    when = format_time(event.t_ns)
                    yield fail(f"{event.site} lost {worker} at {when}, which it had lost before")
                lost[term, worker] = True
            case WorkerFound(worker=worker):
                term = losses.term_of(event)
                if term is None or not lost.get((term, worker)):
                    yield fail(f"{_place(event)}: it had not lost {worker}")
                lost[term, worker] = False


def _check_joins(history: History, losses: Losses) -> Iterator[Finding]:
    """A worker hears of tasks from the controller that it follows.

    In each life, its parts of the first task cannot be unchanged.
    """
    first_ns: dict[tuple[str, int], int] = {}
    joins = sorted(
        (each.t_ns, each.site) for task in history.tasks for each in task.all(TaskJoined)
    )
    for t_ns, site in joins:
        first_ns.setdefault((site, _count_kills(losses, site, t_ns)), t_ns)
    for task in history.tasks:
        for event in task.all(TaskJoined):
            yield judged()
            life = event.site, _count_kills(losses, event.site, event.t_ns)
            if event.unchanged and event.t_ns == first_ns[life]:
                yield fail(f"{task}: {event.site} had its parts before, but no task")
            leader = losses.leader_of(event.site, event.t_ns)
            if leader is not None and leader not in _list_leaders(task, event.t_ns):
                what = f"{event.site} joined it, but followed the {leader}"
                yield fail(f"{task} of the {task.started.site}: {what}")


def _count_kills(losses: Losses, site: str, t_ns: int) -> int:
    return sum(span.start_ns <= t_ns for span in losses.dead(site))


def _list_leaders(task: Task, t_ns: int) -> set[str]:
    """The controllers that told participants their parts of a task until a time."""
    later = task.all(TaskRearranged, TaskReplanned)
    return {task.started.site, *(event.site for event in later if event.t_ns <= t_ns)}


def _place(event: LinkFound | WorkerFound | ControllerFound) -> str:
    name = getattr(event, "peer", getattr(event, "worker", getattr(event, "controller", "")))
    return f"{event.site} found {name} at {format_time(event.t_ns)}"
