"""What each controller may say after what: the grammar of its events (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.agents.events.awareness_events import PlansUpdated
from trunkline.agents.events.causes import TimeUp
from trunkline.agents.events.connection_events import (
    ControllerFound,
    ControllerLost,
    LinkFound,
    LinkLost,
    LossesReported,
    WorkerFound,
    WorkerLost,
)
from trunkline.agents.events.event import BACKUP, CONTROLLER
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.fault_events import CommandTyped
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.policy_events import PolicyBegan, PolicyTold
from trunkline.agents.events.round_events import WorkerFinished
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import (
    GroupPostponed,
    SiteExcluded,
    SiteReleased,
    TaskAbandoned,
    TaskCompleted,
    TaskHalted,
    TaskJoined,
    TaskRearranged,
    TaskReplanned,
    TaskStarted,
)
from trunkline.harness.checks.losses import Losses, Term
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import STOP_SHARE, Tolerances
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged, note
from trunkline.harness.record.history import History, Task

FIRST_VERSION = 1
"""The version of the rates that plans follow before the first update."""


def controllers_follow(history: History, rules: Rules) -> Iterator[Finding]:
    """A controller numbers its tasks without a gap, and begins none after it stops the run."""
    losses = Losses.of(history, rules)
    for event in history.all(TaskStarted):
        if event.site not in (CONTROLLER, BACKUP) or losses.term_of(event) is None:
            yield fail(f"task {event.task} was started by {event.site}, which was not in charge")
    kinds = (
        TaskHalted,
        TaskRearranged,
        TaskReplanned,
        GroupPostponed,
        SiteReleased,
        SiteExcluded,
        PlansUpdated,
        LossesReported,
        PolicyBegan,
        PolicyTold,
        Stopping,
        WorkerFound,
        WorkerLost,
    )
    for said in history.events:
        if isinstance(said, kinds) and losses.term_of(said) is None:
            what = f"{event_name(type(said))} at {format_time(said.t_ns)}"
            yield fail(f"{what} is of {said.site}, which was not in charge")
    for found in history.all(ControllerFound):
        acting = [term for term in losses.terms if term.controller == found.controller]
        if not any(
            term.start_ns <= found.t_ns <= term.end_ns + losses.timeout_ns for term in acting
        ):
            when = format_time(found.t_ns)
            yield fail(f"{found.site} found the {found.controller} at {when}, which did not act")
    last: dict[str, int] = {}
    for term in losses.terms:
        yield from _check_numbers(history, term, last)
        yield from _check_starts(history, term, losses)
        yield from _check_halts(history, term, losses, rules)
        yield judged()
    yield from _check_steps(history)
    yield from _check_time_up(history, losses)
    yield note(f"{len(history.tasks)} tasks")


def _check_numbers(history: History, term: Term, last: dict[str, int]) -> Iterator[Finding]:
    """A controller's tasks have consecutive numbers, also over its terms, which begin with them.

    A controller that was killed may have taken a number for a task that it did not log.
    """
    wanted = last.get(term.controller, term.least_task - 1) + 1
    spare = 0 if term.first else 1
    for began in history.all(PolicyBegan):
        if term.has(began) and not wanted <= began.term <= wanted + spare:
            yield fail(f"the policy of the {term.controller} began with the term {began.term}")
    for event in history.all(TaskStarted):
        if not term.has(event):
            continue
        if not wanted <= event.task <= wanted + spare:
            yield fail(f"the {term.controller} started task {event.task}, not task {wanted}")
        wanted, spare = event.task + 1, 0
        last[term.controller] = event.task


def _check_starts(history: History, term: Term, losses: Losses) -> Iterator[Finding]:
    """A task follows the latest rates, and none of its members is out of the controller's reach."""
    updates = [event for event in history.all(PlansUpdated) if term.has(event)]
    for event in history.all(TaskStarted):
        if not term.has(event):
            continue
        known = [update.version for update in updates if update.t_ns <= event.t_ns]
        if event.version != max(known, default=FIRST_VERSION):
            yield fail(f"task {event.task} follows version {event.version} of the rates")
        for site in event.group:
            if losses.find(losses.unheard(term.controller, site), event.t_ns, event.t_ns):
                yield fail(f"task {event.task} began with {site}, which was lost")


def _check_halts(history: History, term: Term, losses: Losses, rules: Rules) -> Iterator[Finding]:
    """A controller plans a task anew, or ends it without a member, only after it has halted it."""
    for task in history.tasks:
        steps: list[TaskHalted | TaskReplanned | TaskAbandoned | TaskCompleted] = [
            *task.all(TaskHalted),
            *task.all(TaskReplanned),
            *task.all(TaskAbandoned),
            *(event for event in task.all(TaskCompleted) if event.without),
        ]
        repairs: list[TaskHalted | TaskRearranged] = [
            *task.all(TaskHalted),
            *task.all(TaskRearranged),
        ]
        for halt in repairs:
            if term.has(halt):
                yield from _check_cause(history, task, halt, losses, rules)
        was_whole = {each.site for each in task.all(TaskJoined)} >= set(task.started.group)
        halts = replans = 0
        for event in sorted(steps, key=lambda event: event.t_ns):
            if not term.has(event):
                continue
            halts += isinstance(event, TaskHalted)
            replans += isinstance(event, TaskReplanned)
            if replans > halts or (was_whole and not halts):
                what = event_name(type(event))
                yield fail(f"{task}: {what} by the {term.controller} without a halt")


def _check_cause(
    history: History, task: Task, event: TaskHalted | TaskRearranged, losses: Losses, rules: Rules
) -> Iterator[Finding]:
    """A task is repaired only after a loss, after a site has left, or when its budget is spent."""
    name = f"{task}: {event_name(type(event))}"
    if isinstance(event, TaskHalted) and not set(event.members) <= set(task.started.group):
        yield fail(f"{name} asks sites that are not members")
    if isinstance(event, TaskHalted) and len(set(event.members)) < len(event.members):
        yield fail(f"{name} asks a member twice")
    ends = [end.t_ns for end in task.all(TaskCompleted, TaskAbandoned) if end.site == event.site]
    if ends and event.t_ns > max(ends):
        yield fail(f"{name} at {format_time(event.t_ns)}, after the task's end")
    spent_s = (event.t_ns - task.started.t_ns) / 1e9
    early_ns = event.t_ns - losses.detection_ns
    kinds = (
        LinkLost,
        LinkFound,
        LossesReported,  # a controller that begins hears of older losses
        WorkerLost,
        WorkerFound,
        ControllerLost,
        WorkerFinished,
    )
    caused = any(
        early_ns <= cause.t_ns <= event.t_ns for kind in kinds for cause in history.all(kind)
    )
    if not caused and spent_s < rules.task_s:
        yield fail(f"{name} at {format_time(event.t_ns)} without a loss")


def _check_time_up(history: History, losses: Losses) -> Iterator[Finding]:
    """A controller that has been in charge long enough stops the run when its time is up."""
    for stop in history.all(Stopping):
        term = losses.term_of(stop)
        if not isinstance(stop.cause, TimeUp) or term is None:
            continue
        end_ns = round(stop.cause.time_s * 1e9)
        late_ns = stop.t_ns - end_ns * (1 + STOP_SHARE) - Tolerances.of(history).tick_ns
        began_late = 0 < term.start_ns > end_ns - losses.detection_ns
        if began_late or late_ns <= 1e9 * losses.paused_s(end_ns, stop.t_ns, stop.site):
            continue
        if not history.all(CommandTyped):
            yield fail(f"the run stopped at {format_time(stop.t_ns)}, but its time was up before")


def _check_steps(history: History) -> Iterator[Finding]:
    """The backup acts in turns, and a controller starts no task after it has stopped the run.

    Nothing is said of a dead one here: it may have logged at the very moment of its end.
    """
    for name in (CONTROLLER, BACKUP):
        for moment in history.lives.moments.get(name, ()):
            event, step = moment.event, moment.step
            if event is not None and not step.is_right and step.before is not Doing.DEAD:
                what = f"{event_name(type(event))} at {format_time(event.t_ns)}"
                yield fail(f"{what} is of the {name}, which was {str(step.before)!r}")
