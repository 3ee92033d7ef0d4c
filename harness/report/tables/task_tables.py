"""The tables of tasks and of their members (pure)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from trunkline.agents.events.event import Event
from trunkline.agents.events.task_events import (
    Contributed,
    Discarded,
    Sent,
    TaskDropped,
    TaskFinished,
    TaskJoined,
    TaskStarted,
)
from trunkline.harness.record.history import History, Sync, Task
from trunkline.harness.record.warm_up import WHOLE, Counted
from trunkline.harness.report.tables.forecasts import Forecast
from trunkline.harness.report.tables.row import Row, column, to_s


class TaskRow(Row, table="tasks"):
    """One row per task (one synchronization by a group of sites), in order of start."""

    task: int = column("its number in the event log")
    plan: str = column("the plan; for a program's own synchronization the operation")
    policy: str = column("the policy; for a program's own synchronization `program`")
    group: str = column("the members, separated by spaces")
    bytes: int = column("the model's size")
    bytes_sent: int | None = column(
        "payload that crossed all links together; empty for programs", default=None
    )
    bytes_discarded: int | None = column(
        "the part of it that was sent early and not needed where it arrived", default=None
    )
    start_s: float = column("when the controller started it")
    end_s: float | None = column(
        "when the last member installed the result, or the task was abandoned"
    )
    duration_s: float | None = column("from start to end")
    estimate_s: float | None = column(
        "fluid time of its plan at the rates that TCP's payload gets, without latency", default=None
    )
    latency_s: float | None = column(
        "propagation to add to the estimate, of the message that starts the task too", default=None
    )
    bound_s: float | None = column("no plan is faster: the time of the overlay's smallest cut")
    outcome: str = column("`completed`, `abandoned` or `unfinished`")
    warm_up: bool = column("whether it began in the warm-up, so that `run` does not count it")


class MemberRow(Row, table="members"):
    """One row per task and member of its group; none in a run of programs."""

    task: int = column("the task's number")
    site: str = column("the member")
    contributes: bool = column("whether it contributes to the result")
    receives: bool = column("whether it is to get the result")
    joined_s: float | None = column("when it heard of the task; empty if it did not")
    contributed_s: float | None = column(
        "when it had its contribution ready; empty if it gave none"
    )
    finished_s: float | None = column("when it installed the result; empty if it did not")
    dropped_s: float | None = column("when it gave the task up; empty if it did not")
    sync_s: float = column("from its contribution until it installed the result")


def tabulate_tasks(
    history: History,
    forecast: Callable[[TaskStarted], Forecast],
    bound_s: Callable[[Sync], float | None] = lambda sync: None,
    counted: Counted = WHOLE,
) -> Iterator[TaskRow]:
    """One row per task, in order of start; synchronizations that programs report come last.

    A task ends when its last member has installed the result, or when it is abandoned. The row of
    a program's synchronization has the operation's name as its plan.
    """
    for place, task in enumerate(history.tasks):
        yield _make_task_row(task, forecast(task.started), place < counted.first_task)
    for sync in history.syncs:
        yield _make_sync_row(sync, bound_s(sync))


def tabulate_members(history: History) -> Iterator[MemberRow]:
    """One row per task and member, in order of the tasks' starts and of the groups.

    Of several joins or contributions, such as after a member was lost, the first one counts.
    """
    for task in history.tasks:
        for site in task.started.group:
            yield _describe_member(task, site)


def _describe_member(task: Task, site: str) -> MemberRow:
    steps: tuple[Sequence[Event], ...] = (
        task.all(TaskJoined), task.all(Contributed), task.all(TaskFinished), task.all(TaskDropped),
    )  # fmt: skip
    joined_s, contributed_s, finished_s, dropped_s = (
        next((event.t_ns / 1e9 for event in events if event.site == site), math.nan)
        for events in steps
    )
    return MemberRow(
        task=task.number,
        site=site,
        contributes=site in task.started.weights,
        receives=site in task.started.receivers,
        joined_s=joined_s,
        contributed_s=contributed_s,
        finished_s=finished_s,
        dropped_s=dropped_s,
        sync_s=finished_s - contributed_s,
    )


def _make_task_row(task: Task, forecast: Forecast, warm_up: bool) -> TaskRow:
    started = task.started
    return TaskRow(
        task=started.task,
        plan=started.plan,
        policy=started.policy,
        group=" ".join(started.group),
        bytes=started.bytes,
        bytes_sent=sum(sent.bytes for sent in task.all(Sent)),
        bytes_discarded=sum(discarded.bytes for discarded in task.all(Discarded)),
        start_s=started.t_ns / 1e9,
        end_s=to_s(task.end_ns),
        duration_s=task.duration_s,
        estimate_s=forecast.estimate_s,
        latency_s=forecast.latency_s,
        bound_s=forecast.bound_s,
        outcome=task.outcome,
        warm_up=warm_up,
    )


def _make_sync_row(sync: Sync, bound_s: float | None) -> TaskRow:
    return TaskRow(
        task=sync.number,
        plan=sync.operation,
        policy="program",
        group=" ".join(sorted(sync.begun_ns)),
        bytes=sync.bytes,
        start_s=sync.start_ns / 1e9,
        end_s=to_s(sync.end_ns),
        duration_s=sync.duration_s,
        bound_s=bound_s,
        outcome="unfinished" if sync.end_ns is None else "completed",
        warm_up=False,
    )
