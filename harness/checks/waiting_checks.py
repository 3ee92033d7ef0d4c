"""No site waits forever, and no task for longer than its budget (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from trunkline.agents.events.event import Event, TaskEvent
from trunkline.agents.events.lifecycle import Doing, SiteLife
from trunkline.agents.events.round_events import Ready
from trunkline.agents.events.task_events import (
    Contributed,
    HaltHeard,
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskHalted,
)
from trunkline.harness.checks.losses import HEARD_TIMEOUTS, Losses
from trunkline.harness.checks.outcome_checks import find_task_loss
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import BUDGET_S, BUDGET_SHARE
from trunkline.harness.checks.verdict import (
    Finding,
    excused,
    fail,
    format_time,
    judged,
    note,
    unfinished,
)
from trunkline.harness.record.history import History, Task


def no_site_is_blocked(history: History, rules: Rules) -> Iterator[Finding]:
    """Each ready worker joins a task or continues; each contributor is told how its task ended.

    A worker that waits after a task joins another one or continues, too. `workers_follow` judges
    what a worker does next.
    """
    tasks = {task.number: task for task in history.tasks}
    for site, life in history.lives.last.items():
        if not isinstance(life, SiteLife):
            continue
        moved = [moment for moment in history.lives.moments.get(site, ()) if moment.step.moves]
        for before, moment in pairwise(moved):
            waited = before.doing in (Doing.WAITING, Doing.IN_TASK)
            if waited and not moment.step.is_right:
                yield fail(f"{_describe_wait(before.event)} and went on without an answer")
        waits: list[Event | None] = [
            given
            for number in sorted(life.passive | life.left)
            for given in tasks[number].all(Contributed)
            if given.site == site
        ]
        if life.doing in (Doing.WAITING, Doing.IN_TASK):
            waits.append(moved[-1].event)
        for event in waits:
            yield unfinished(history, f"{_describe_wait(event)} and waited to the end of the log")
    yield judged(len(history.all(Ready)) + len(history.all(Contributed)))


def budgets_kept(history: History, rules: Rules) -> Iterator[Finding]:
    """No task took longer than its budget.

    A controller halts a task whose budget is spent. Time in which that is under way to its members,
    and back, does not count: `hearing_checks` judges messages. A task that one member has finished
    may take a second budget to reach the others. Time in which any agent was stopped or dead does
    not count, nor does the time until a loss is noticed.
    """
    losses = Losses.of(history, rules)
    for task in history.tasks:
        ends = [
            event.t_ns
            for event in (*task.all(TaskFinished), *task.all(TaskDropped), *task.all(TaskAbandoned))
        ]
        start_ns = task.started.t_ns
        alone = find_task_loss(task, losses, start_ns, max(ends, default=history.end_ns))
        end_ns = max(ends, default=start_ns if alone else history.end_ns)
        took_s = (end_ns - start_ns) / 1e9
        allowed_s = rules.task_s * (1 + BUDGET_SHARE) + BUDGET_S
        if took_s > allowed_s:
            allowed_s += _under_way_s(task, end_ns, losses)
        if took_s <= allowed_s:
            yield judged()
            continue
        more_s = losses.paused_s(start_ns, end_ns)
        more_s += rules.detection_s * (alone is not None)
        more_s += rules.task_s * bool(task.all(TaskHalted) and task.all(TaskFinished))
        if took_s > allowed_s + more_s:
            yield judged()
            yield fail(f"{task} took {took_s:.3f} s of {rules.task_s:g} s")
        else:
            text = f"{task} took {took_s:.3f} s, of which {more_s:.3f} s may be more"
            yield excused("agents were stopped or lost, or a result was passed on", text)
    yield note(f"each within {rules.task_s:g} s")


def _under_way_s(task: Task, end_ns: int, losses: Losses) -> float:
    """Seconds in which messages were under way that end a task: its last halt, answers, its end.

    On a slow link each of them may take as long as a controller's messages of repairs.
    """
    over_ns = min((e.t_ns for e in task.all(TaskCompleted, TaskAbandoned)), default=end_ns)
    times_ns = [over_ns, end_ns]
    halts = [event for event in task.all(TaskHalted) if event.t_ns <= over_ns]
    if halts:
        heard = [e for e in task.all(HaltHeard) if halts[-1].t_ns <= e.t_ns <= over_ns]
        answered_ns = [event.t_ns for event in heard if event.site in halts[-1].members]
        times_ns = [halts[-1].t_ns, max(answered_ns, default=halts[-1].t_ns), *times_ns]
    most_ns = HEARD_TIMEOUTS * losses.timeout_ns
    return sum(min(most_ns, max(0, b - a)) for a, b in pairwise(times_ns)) / 1e9


def _describe_wait(event: Event | None) -> str:
    """The wait that began with this event."""
    match event:
        case Ready(t_ns, site, iteration):
            return f"{site} was ready with iteration {iteration} at {format_time(t_ns)}"
        case Contributed(t_ns, site, task, iteration):
            return f"{site} was in task {task} with iteration {iteration} at {format_time(t_ns)}"
        case TaskEvent(t_ns, site, task):
            return f"{site} waited after task {task} at {format_time(t_ns)}"
    raise ValueError(f"no wait begins with {event}")
