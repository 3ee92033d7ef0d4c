"""The repairs of tasks: each follows from the steps before it (pure).

A task is halted, planned anew, or some of its blocks move. `agents.control.tasks` says when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from trunkline.agents.events.causes import BudgetSpent, SiteWithdrew, find_loss
from trunkline.agents.events.connection_events import (
    LinkFound,
    LinkLost,
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
from trunkline.harness.checks.tolerances import CLOCK_NS
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged
from trunkline.harness.record.history import History, Task


def repairs_follow(history: History, rules: Rules) -> Iterator[Finding]:
    """Each repair follows from those before it."""
    losses = Losses.of(history, rules)
    for task in history.tasks:
        yield judged(len(task.all(TaskHalted, TaskRearranged)))
        yield from _check_halts(history, rules, task, losses)
        yield from _check_blocks(task, losses)
        yield from _check_holders(task)


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


def _count(blocks: Iterable[Block]) -> Counter[int]:
    return Counter(index for block in blocks for index in block.indexes())
