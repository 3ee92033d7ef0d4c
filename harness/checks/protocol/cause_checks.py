"""Causes hold: what an agent gives as its reason had happened (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Set

from trunkline.agents.events.causes import (
    BudgetSpent,
    Cause,
    DecidedWithout,
    FinishedTooEarly,
    HaltedAlone,
    Halting,
    LinkBroke,
    LostAlone,
    NoCandidate,
    NoPlan,
    NoRepair,
    RefusedAlone,
    SiteLost,
    SiteWithdrew,
    TakenOver,
)
from trunkline.agents.events.connection_events import (
    LinkLost,
    LossesReported,
    WorkerFound,
    WorkerLost,
)
from trunkline.agents.events.event import Event
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.round_events import WorkerFinished
from trunkline.agents.events.task_events import (
    GroupPostponed,
    HaltHeard,
    TaskAbandoned,
    TaskDropped,
    TaskFinished,
    TaskHalted,
    TaskRearranged,
    TaskReplanned,
)
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS, TIMER_S
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged
from trunkline.harness.record.history import History, Task


def causes_hold(history: History, rules: Rules) -> Iterator[Finding]:
    """Each cause of a halt, a repair, an end or a postponed group is true where it was logged."""
    losses = Losses.of(history, rules)
    for task in history.tasks:
        events = (
            *task.all(TaskHalted, TaskRearranged),
            *task.all(TaskReplanned),
            *task.all(TaskAbandoned, TaskDropped),
        )
        for event in events:
            if event.cause is not None:
                yield judged()
                name = f"{task}: {event_name(type(event))} at {format_time(event.t_ns)}"
                if wrong := _find_wrong(history, rules, losses, task, event, event.cause):
                    yield fail(f"{name}: {wrong}")
    for postponed in history.all(GroupPostponed):
        yield judged()
        for site in sorted(postponed.cause.names - set(rules.topology.site_names)):
            yield fail(f"a group was postponed because of {site}, which is not a site")


Explained = TaskHalted | TaskRearranged | TaskReplanned | TaskAbandoned | TaskDropped
"""The events of a task that have a cause."""


def _find_wrong(
    history: History, rules: Rules, losses: Losses, task: Task, event: Explained, cause: Cause
) -> str | None:
    """Why the event cannot have had this cause; None if it can."""
    if strangers := cause.names - set(rules.topology.site_names):
        return f"{', '.join(sorted(strangers))} is not a site"
    match event, cause:
        case TaskHalted(cause=halting) | TaskRearranged(cause=halting), _:
            return _find_wrong_halt(history, rules, losses, task, event, halting)
        case TaskDropped(site=site), HaltedAlone() | NoRepair() | RefusedAlone() | LostAlone():
            return _find_wrong_drop(history, losses, task, event, site, cause)
        case _, NoPlan(after=None):
            return None
        case TaskDropped(), _:
            told = {each.cause for each in task.all(TaskAbandoned) if each.t_ns <= event.t_ns}
            given = not told or cause in told or cause == DecidedWithout()
            return None if given else "no controller gave this cause"
        case _, NoPlan(after=after) if after is not None:
            cause = after
    halts = {each.cause for each in task.all(TaskHalted) if each.t_ns <= event.t_ns}
    return None if cause in halts else "the task was not halted for this cause"


def _find_wrong_halt(
    history: History,
    rules: Rules,
    losses: Losses,
    task: Task,
    event: TaskHalted | TaskRearranged,
    cause: Halting,
) -> str | None:
    """Why a task cannot have been halted or rearranged for this cause."""
    is_own = losses.term_of(task.started) == losses.term_of(event)
    spent_s = (event.t_ns - task.started.t_ns) / 1e9
    match cause:
        case NoCandidate(after):
            return _find_wrong_halt(history, rules, losses, task, event, after)
        case SiteLost(site) if not _has_lost(history, losses, event, site):
            return f"the {event.site} had not lost {site}"
        case LinkBroke((a, b)) if not _had_no_link(losses, task.started.t_ns, event.t_ns, {a, b}):
            return f"{a} and {b} had not lost each other"
        case LinkBroke((a, b)) if not _was_told(history, losses, event, {a, b}):
            return f"no worker had told the {event.site} that {a} and {b} lost each other"
        case SiteLost() | LinkBroke() if is_own and not _has_just_heard(history, event):
            return f"the {event.site} had heard of no loss at that moment"
        case SiteWithdrew(site) if not _may_withdraw(history, losses, task, event, site):
            return f"{site} had no reason to withdraw"
        case BudgetSpent(budget_s) if budget_s != rules.task_s:
            return f"its budget is {rules.task_s:g} s, not {budget_s:g} s"
        case BudgetSpent() if is_own and spent_s < rules.task_s - TIMER_S:
            return f"only {spent_s:.3f} s of its budget were over"
        case FinishedTooEarly(site) if not any(
            done.site == site and done.t_ns <= event.t_ns for done in task.all(TaskFinished)
        ):
            return f"{site} had not finished"
        case TakenOver() if is_own:
            return "its controller was not lost"
    return None


def _find_wrong_drop(
    history: History, losses: Losses, task: Task, event: TaskDropped, site: str, cause: Cause
) -> str | None:
    """Why a member cannot have given a task up for this cause, which it found on its own."""
    if not losses.find(losses.without_controller(site), event.t_ns - CLOCK_NS, event.t_ns):
        return f"{site} had a controller"
    if isinstance(cause, HaltedAlone) and not any(
        heard.site == site and heard.t_ns <= event.t_ns for heard in task.all(HaltHeard)
    ):
        return f"{site} had heard of no halt"
    if isinstance(cause, LostAlone) and not any(
        (lost.site, lost.peer) == (site, cause.site)
        and event.t_ns - CLOCK_NS <= lost.t_ns <= event.t_ns
        for lost in history.all(LinkLost)
    ):
        return f"{site} had not lost {cause.site} at that moment"
    return None


def _may_withdraw(history: History, losses: Losses, task: Task, event: Event, site: str) -> bool:
    """Whether a site had done its rounds, was once without a controller, or gave the task up."""
    done = (each for each in history.all(WorkerFinished) if each.site == site)
    dropped = (each for each in task.all(TaskDropped) if each.site == site)
    alone = losses.find(losses.without_controller(site), 0, event.t_ns)
    return alone is not None or any(each.t_ns <= event.t_ns for each in (*done, *dropped))


def _has_just_heard(history: History, event: TaskHalted | TaskRearranged) -> bool:
    """Whether a controller heard at that moment of a loss or a return.

    It repairs its own tasks at once. A task whose result cannot reach the others is halted again
    when anything changes.
    """
    news = (*history.all(WorkerLost), *history.all(WorkerFound), *history.all(LossesReported))
    return any(
        each.site == event.site and abs(each.t_ns - event.t_ns) <= 2 * CLOCK_NS for each in news
    )


def _has_lost(
    history: History, losses: Losses, event: TaskHalted | TaskRearranged, worker: str
) -> bool:
    """Whether the controller has lost this worker in the same term."""
    term = losses.term_of(event)
    return term is not None and any(
        lost.worker == worker and lost.site == event.site and term.start_ns <= lost.t_ns
        for lost in history.all(WorkerLost)
        if lost.t_ns <= event.t_ns
    )


def _was_told(
    history: History, losses: Losses, event: TaskHalted | TaskRearranged, ends: Set[str]
) -> bool:
    """Whether a worker has reported in this term that it had lost the other end."""
    term = losses.term_of(event)
    return term is not None and any(
        {said.worker, peer} == ends
        for said in history.all(LossesReported)
        if term.has(said) and said.t_ns <= event.t_ns
        for peer in said.lost
    )


def _had_no_link(losses: Losses, start_ns: int, t_ns: int, ends: Set[str]) -> bool:
    """Whether two sites had lost each other, or one was started again and had no links yet."""
    if any(span.start_ns <= t_ns for span in losses.broken(frozenset({frozenset(ends)}))):
        return True
    new_ns = start_ns - losses.detection_ns
    return any(losses.find(losses.dead(site), new_ns, t_ns) for site in ends)
