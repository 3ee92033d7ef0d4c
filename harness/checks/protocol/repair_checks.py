"""The repairs of tasks: each has its cause, and follows from the steps before it (pure).

A task is halted, planned anew, or some of its blocks move. `agents.control.tasks` says when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set

from trunkline.agents.events.causes import BudgetSpent, LinkBroke, SiteLost, SiteWithdrew, find_loss
from trunkline.agents.events.connection_events import (
    LinkFound,
    LinkLost,
    LossesReported,
    WorkerFound,
    WorkerLost,
)
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.task_events import (
    TaskFinished,
    TaskHalted,
    TaskRearranged,
    TaskReplanned,
)
from trunkline.agents.planning.plan import Block
from trunkline.agents.planning.repair import replace_blocks
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS, TIMER_S
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged
from trunkline.harness.record.history import History, Task


def repairs_have_causes(history: History, rules: Rules) -> Iterator[Finding]:
    """A repair comes after the loss that it names, and each one follows from those before it."""
    losses = Losses.of(history, rules)
    for task in history.tasks:
        repairs: tuple[TaskHalted | TaskRearranged, ...] = (
            *task.all(TaskHalted),
            *task.all(TaskRearranged),
        )
        for event in repairs:
            yield judged()
            name = f"{task}: {event_name(type(event))} at {format_time(event.t_ns)}"
            if (wrong := _find_wrong_cause(history, rules, losses, task, event)) is not None:
                yield fail(f"{name}: {wrong}")
        yield from _check_halts(history, rules, task, losses)
        yield from _check_blocks(task, losses)
        yield from _check_holders(task)


def _find_wrong_cause(
    history: History, rules: Rules, losses: Losses, task: Task, event: TaskHalted | TaskRearranged
) -> str | None:
    """Why a repair cannot have had the cause that it names; None if it can."""
    loss = find_loss(event.cause)
    is_own = losses.term_of(task.started) == losses.term_of(event)
    spent_s = (event.t_ns - task.started.t_ns) / 1e9
    match loss:
        case SiteLost(site) if not _has_lost(history, losses, event, site):
            return f"the {event.site} had not lost {site}"
        case LinkBroke((a, b)) if not _had_no_link(losses, task.started.t_ns, event.t_ns, {a, b}):
            return f"{a} and {b} had not lost each other"
    if is_own and isinstance(loss, SiteLost | LinkBroke) and not _has_just_heard(history, event):
        return f"the {event.site} had heard of no loss at that moment"
    if is_own and isinstance(event.cause, BudgetSpent) and spent_s < rules.task_s - TIMER_S:
        return f"only {spent_s:.3f} s of its budget were over"
    return None


def _check_halts(history: History, rules: Rules, task: Task, losses: Losses) -> Iterator[Finding]:
    """Members without the result are asked, and a task halts again only after a new plan or event.

    A member that was lost since the start has no part in it any more. Only a task whose result
    cannot reach the others waits without a plan: until a connection is lost or found, or its budget
    is spent. A member at the controller's own site can answer at once.
    """
    finished_ns = {event.site: event.t_ns for event in reversed(task.all(TaskFinished))}
    kinds = (WorkerLost, WorkerFound, LinkLost, LinkFound)
    changes = [event for kind in kinds for event in history.all(kind)]
    before, start_ns = None, task.started.t_ns
    for event in task.all(TaskHalted):
        name = f"{task}: task_halted at {format_time(event.t_ns)}"
        asked = set[str]()
        if losses.term_of(task.started) == losses.term_of(event):
            asked = {
                site
                for site in task.started.receivers
                if finished_ns.get(site, event.t_ns + 1) > event.t_ns
                and not losses.find(losses.out_of_reach(event.site, site), start_ns, event.t_ns)
                and find_loss(event.cause) != SiteWithdrew(site)
            }
        if missing := asked - set(event.members):
            yield fail(f"{name} does not ask {', '.join(sorted(missing))}")
        if before is not None and losses.term_of(before) == losses.term_of(event):
            since_ns, now_ns = before.t_ns, event.t_ns
            anew = any(since_ns <= step.t_ns <= now_ns for step in task.all(TaskReplanned))
            heard_ns = since_ns - losses.timeout_ns
            woken = any(heard_ns <= change.t_ns <= now_ns for change in changes)
            away = set(before.members) - {rules.controllers.get(before.site)}
            answered = now_ns - since_ns > (CLOCK_NS if away else 0)
            stuck = finished_ns and answered and (woken or isinstance(event.cause, BudgetSpent))
            if not anew and not stuck:
                yield fail(f"{name} was halted before, and not planned anew")
        before = event


def _check_blocks(task: Task, losses: Losses) -> Iterator[Finding]:
    """Blocks are numbered without a gap, and new ones carry the chunks of those withdrawn.

    A controller that takes over a task knows no blocks of it, and leaves out some numbers.
    """
    leader, used = losses.term_of(task.started), 0
    live: dict[int, Block] = {}
    for event in (task.started, *task.changes):
        blocks = task.plan_of(event).blocks
        if isinstance(event, TaskRearranged | TaskReplanned):
            name = f"{task}: {event_name(type(event))} at {format_time(event.t_ns)}"
            if event.first < used or (event.first > used and losses.term_of(event) == leader):
                yield fail(f"{name} numbers its blocks from {event.first}, not {used}")
            leader, used = losses.term_of(event), event.first
        if isinstance(event, TaskRearranged):
            if not live.keys() >= set(event.withdrawn):
                yield fail(f"{name} withdraws blocks that the task does not have")
            elif _count(live[number] for number in event.withdrawn) != _count(blocks):
                yield fail(f"{name} has other chunks than the blocks that it withdraws")
            live = replace_blocks(live, event.withdrawn, blocks, used)
        else:
            live = dict(enumerate(blocks, used))
        used += len(blocks)


def _check_holders(task: Task) -> Iterator[Finding]:
    """A new plan carries a member's result to those without it, and else all contributions.

    All members have answered before whether they have finished, and a halted one finishes only by a
    new plan. Without shards, contributions are sent again only if no member has the result.
    """
    finished_ns = {event.site: event.t_ns for event in reversed(task.all(TaskFinished))}
    for event in task.all(TaskReplanned):
        name = f"{task}: task_replanned at {format_time(event.t_ns)}"
        plan = task.plan_of(event)
        givers = set(plan.contributors)
        wanted = set(task.started.weights) if event.holder is None else {event.holder}
        if givers != wanted:
            what = "what all contributors give" if event.holder is None else event.holder
            yield fail(f"{name} has {', '.join(sorted(givers))} give, not {what}")
        done = {site for site, t_ns in finished_ns.items() if t_ns <= event.t_ns}
        if event.holder is not None and event.holder not in done:
            yield fail(f"{name}: {event.holder} did not have the result yet")
        again = done if event.holder is None and not task.shards else done & set(plan.receivers)
        if again:
            yield fail(f"{name}, although {', '.join(sorted(again))} had finished")


def _has_just_heard(history: History, event: TaskHalted | TaskRearranged) -> bool:
    """Whether a controller heard at that moment of a loss or a return.

    It repairs its own tasks at once. A task whose result cannot reach the others is halted again
    when anything changes.
    """
    news = (*history.all(WorkerLost), *history.all(WorkerFound), *history.all(LossesReported))
    return any(
        each.site == event.site and abs(each.t_ns - event.t_ns) <= 2 * CLOCK_NS for each in news
    )


def _count(blocks: Iterable[Block]) -> Counter[int]:
    return Counter(index for block in blocks for index in block.indexes())


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


def _had_no_link(losses: Losses, start_ns: int, t_ns: int, ends: Set[str]) -> bool:
    """Whether two sites had lost each other, or one was started again and had no links yet."""
    if any(span.start_ns <= t_ns for span in losses.broken(frozenset({frozenset(ends)}))):
        return True
    new_ns = start_ns - losses.detection_ns
    return any(losses.find(losses.dead(site), new_ns, t_ns) for site in ends)
