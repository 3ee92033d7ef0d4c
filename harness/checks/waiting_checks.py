"""No site waits for ever, and no task for longer than its budget (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from trunkline.agents.events.connection_events import ControllerFound
from trunkline.agents.events.event import TaskEvent
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import (
    Ready,
    RoundAlone,
    RoundFinished,
    WorkerFinished,
)
from trunkline.agents.events.task_events import (
    Contributed,
    ContributionTaken,
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

    A worker that waits after a task joins another one or continues, too. If it found a controller
    during the task, it is ready again instead.
    """
    anew: set[str] = set()
    waiting: dict[str, Ready | Contributed | ContributionTaken | TaskFinished] = {}
    aside: dict[tuple[str, int], Contributed] = {}
    tasks = {task.number: task for task in history.tasks}
    for event in history.events:
        task = tasks.get(event.task) if isinstance(event, TaskEvent) else None
        match event:
            case Contributed() if task is not None and task.is_passive(event.site):
                aside[event.site, event.task] = event
                continue
            case (
                TaskFinished(task=number)
                | TaskDropped(task=number)
                | ContributionTaken(task=number)
            ) if aside.pop((event.site, number), None) is not None:
                continue
        match event:
            case Ready() | Contributed():
                before = waiting.get(event.site)
                joined = not isinstance(before, Contributed) and isinstance(event, Contributed)
                if before is not None and not joined:
                    yield fail(f"{_describe_wait(before)} and got no answer before it asked again")
                waiting[event.site] = event
                anew.discard(event.site)
            case ControllerFound():
                anew.add(event.site)
            case TaskFinished() | ContributionTaken() if task is not None and task.waits:
                waiting[event.site] = event
                if event.site in anew:
                    del waiting[event.site]
            case (
                TaskFinished()
                | TaskDropped()
                | ContributionTaken()
                | RoundFinished()
                | WorkerFinished()
                | RoundAlone()
            ):
                given = waiting.pop(event.site, None)
                if isinstance(event, RoundFinished) and isinstance(given, Contributed):
                    aside[given.site, given.task] = given  # it went on before the task's end
            case AgentChanged(who=who, do="kill"):
                waiting.pop(who, None)
                aside = {key: each for key, each in aside.items() if key[0] != who}
    for left in (*waiting.values(), *aside.values()):
        yield unfinished(history, f"{_describe_wait(left)} and waited to the end of the log")
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


def _describe_wait(event: Ready | Contributed | ContributionTaken | TaskFinished) -> str:
    if isinstance(event, ContributionTaken | TaskFinished):
        return f"{event.site} waited after task {event.task} at {format_time(event.t_ns)}"
    what = "ready with" if isinstance(event, Ready) else f"in task {event.task} with"
    return f"{event.site} was {what} iteration {event.iteration} at {format_time(event.t_ns)}"
