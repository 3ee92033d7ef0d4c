"""The stop of a run: its cause held, and it came soon after (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from trunkline.agents.events.causes import (
    Asked,
    Broken,
    Enough,
    NoProgress,
    NoSite,
    ProgramFailed,
    ProgramsExited,
    RoundsDone,
    TargetReached,
    TimeUp,
)
from trunkline.agents.events.connection_events import ControllerFound, LinkLost, WorkerLost
from trunkline.agents.events.evaluation_events import ModelEvaluated
from trunkline.agents.events.event import CONTROLLER, Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import WorkerFinished
from trunkline.agents.events.run_events import (
    AgentExited,
    AgentFailed,
    RunFinished,
    Stopping,
)
from trunkline.agents.events.task_events import (
    SiteExcluded,
    TaskAbandoned,
    TaskCompleted,
    TaskJoined,
    TaskStarted,
)
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.programs.lifecycle_checks import list_failures, list_over
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import STOP_SHARE, TIMER_S, Tolerances
from trunkline.harness.checks.verdict import (
    Finding,
    doubt,
    fail,
    format_time,
    judged,
    note,
    unfinished,
)
from trunkline.harness.record.history import History
from trunkline.harness.record.targets import find_end


def run_ends_as_written(history: History, rules: Rules) -> Iterator[Finding]:
    """The run stopped for the reason that the log gives, and a stop condition held."""
    stops = history.all(Stopping)
    if history.interrupted:
        how = "was interrupted" if history.all(RunFinished) else "did not end: its log breaks off"
        yield doubt(f"the run {how} at {format_time(history.end_ns)}")
    elif not stops:
        causes = [end.cause for end in history.all(RunFinished)]
        why = "".join(f": {cause}" for cause in causes if isinstance(cause, Broken))
        yield unfinished(history, f"the log has no stopping event{why}")
    if not stops:
        return
    broken = bool(history.all(AgentFailed) or _list_failed(history, rules))
    for end in history.all(RunFinished):
        said = any(end.cause == stop.cause for stop in stops)
        if not said and not broken and not history.interrupted:
            why = "" if end.cause is None else str(end.cause)
            yield fail(f"the run ended because of {why!r}, which no controller said")
    if rules.programs is not None and len(stops) > 1:
        yield fail(f"the run stopped {len(stops)} times")
    for stop in stops:
        yield from _check_stop(history, rules, stop)
        yield judged()
    yield from _check_promptness(history, rules, stops)
    # Without a barrier, tasks may begin while others wait for their members.
    if rules.stop.tasks is not None and rules.barrier:
        yield from _check_task_count(history, Losses.of(history, rules), rules.stop.tasks)
    yield note("; ".join(dict.fromkeys(str(stop.cause) for stop in stops)))


def _check_stop(history: History, rules: Rules, stop: Stopping) -> Iterator[Finding]:
    """The condition that the cause names is the scenario's, and held at that time."""
    wanted = rules.stop
    said, until = f"{str(stop.cause)!r} was said", format_time(stop.t_ns)
    match stop.cause:
        case TimeUp(time_s) if time_s == wanted.time_s:
            if stop.t_ns < (time_s - TIMER_S) * 1e9:
                yield fail(f"{said} at {until}")
        case Enough(tasks) if tasks == wanted.tasks:
            started = sum(event.t_ns <= stop.t_ns for event in history.all(TaskStarted))
            if started < tasks:
                yield fail(f"{said} after {started} tasks")
        case TargetReached("accuracy", _, target) if target == wanted.accuracy_percent:
            pass  # `evaluation_checks` judges the values and the time
        case TargetReached("loss", _, target) if target == wanted.loss:
            pass
        case NoProgress(_, evaluations) if evaluations == wanted.without_progress:
            pass
        case RoundsDone():
            yield from _check_rounds(history, rules, stop, stop.cause)
        case NoSite(for_s) if for_s == rules.task_s:
            lost = {event.worker for event in history.all(WorkerLost) if event.t_ns <= stop.t_ns}
            if lost < set(rules.topology.site_names):
                yield fail(f"{said}, but not every site had been lost")
        case ProgramsExited() if rules.programs is not None:
            awaited = rules.scenario.awaited
            over = list_over(history, rules.programs, stop.t_ns)
            for name in sorted(set(awaited) - over):
                yield fail(f"{said} before {name} had exited for good")
            if set(stop.cause.sites) != set(awaited):
                yield fail(f"{said}, but the run waits for {', '.join(sorted(awaited))}")
            if stop.cause.all != (over >= rules.programs.keys()):
                yield fail(f"{said}, which is wrong of all programs")
        case ProgramFailed() if rules.programs is not None:
            failed = (*_list_failed(history, rules), *history.all(AgentFailed))
            if not any(event.t_ns <= stop.t_ns for event in failed):
                yield fail(f"{said}, but none had failed")
        case Asked():
            pass
        case _:
            yield fail(f"{str(stop.cause)!r} is not the scenario's stop condition")


def _list_failed(history: History, rules: Rules) -> list[AgentExited]:
    """The exits that are failures."""
    if rules.programs is not None:
        return list_failures(history, rules.programs)
    return [e for e in history.all(AgentExited) if (e.code or e.signal) and e.fault is None]


def _check_promptness(
    history: History, rules: Rules, stops: Sequence[Stopping]
) -> Iterator[Finding]:
    """The run stopped as soon as a condition held, if a controller lived to say so.

    After a loss, a controller may not know how many tasks and rounds there were.
    """
    wanted, losses = rules.stop, Losses.of(history, rules)
    if history.run is None:
        return
    slack_ns = Tolerances.of(history).stop_ns
    agents = rules.programs is None
    for term in losses.terms if agents else losses.terms[:1]:
        said = [stop.t_ns for stop in stops if term.has(stop) or not agents]
        due_ns = {}
        if wanted.time_s is not None:
            due_ns["the stop time"] = round(wanted.time_s * (1 + STOP_SHARE) * 1e9) + slack_ns
        if (whole_ns := _find_end(history, rules, losses)) is not None:
            due_ns["the stop condition"] = whole_ns + slack_ns
        for name, t_ns in due_ns.items():
            if not term.first or term.controller != CONTROLLER:
                t_ns = max(t_ns, term.start_ns + losses.timeout_ns + slack_ns)
            went_on_ns = min([*said, term.end_ns])
            near_ns = t_ns - losses.detection_ns - slack_ns
            t_ns += round(losses.paused_s(near_ns, went_on_ns, term.controller) * 1e9)
            if term.start_ns < t_ns < went_on_ns:
                until = format_time(went_on_ns)
                yield fail(
                    f"{name} was over at {format_time(t_ns)}, but the run continued to {until}"
                )


def _check_task_count(history: History, losses: Losses, most: int) -> Iterator[Finding]:
    """No controller begins a task if it knows that so many have begun.

    It knows its own tasks, and those that a worker had joined before it found this controller.
    """
    known = Counter[tuple[str, int]]()
    counts: dict[int, int] = {}
    heard: dict[str, int] = {}
    reports: list[tuple[int, str, int]] = []
    for event in history.events:
        match event:
            case TaskJoined(site=site, task=task):
                heard[site] = max(heard.get(site, 0), counts.get(task, 0))
            case AgentChanged(who=who, do="kill"):
                heard.pop(who, None)
            case ControllerFound(site=site, controller=controller):
                reports.append((event.t_ns + losses.timeout_ns, controller, heard.get(site, 0)))
            case TaskStarted(site=controller) if (term := losses.term_of(event)) is not None:
                key = controller, term.start_ns
                told = (
                    count
                    for told_ns, name, count in reports
                    if name == controller and term.start_ns < told_ns < event.t_ns
                )
                known[key] = max((known[key], *told)) + 1
                counts[event.task] = known[key]
                if known[key] > most:
                    yield fail(f"task {event.task} began after {known[key] - 1} tasks of {most}")


def _find_end(history: History, rules: Rules, losses: Losses) -> int | None:
    """When a condition other than the time held, with messages under way; None if not known."""
    wanted = rules.stop
    if rules.programs is not None:
        ends_ns = {event.who: event.t_ns for event in history.all(AgentExited)}
        failed = (event.t_ns for event in _list_failed(history, rules))
        done_ns = max(ends_ns.get(name, history.end_ns) for name in rules.scenario.awaited)
        return min([done_ns, *failed])
    kinds: tuple[type[Event], ...] = (WorkerLost, LinkLost, AgentChanged)
    if not rules.barrier or any(history.all(kind) for kind in kinds):
        return None
    started = [event.t_ns for event in history.all(TaskStarted)]
    found = find_end(history.all(ModelEvaluated), wanted)
    reached = [] if found is None else [found[1].t_ns]
    if wanted.tasks is not None and len(started) >= wanted.tasks:
        reached.append(started[wanted.tasks - 1])
    left = [event.t_ns for event in history.all(WorkerFinished)]
    if wanted.rounds is not None and len(left) == len(rules.topology.site_names):
        ends = history.all(TaskCompleted, TaskAbandoned)
        reached.append(max((*left, *(event.t_ns for event in ends))) + losses.timeout_ns)
    return min(reached, default=None)


def _check_rounds(
    history: History, rules: Rules, stop: Stopping, done: RoundsDone
) -> Iterator[Finding]:
    """Every site within reach had done its rounds, or, in a run without rounds, was excluded.

    Other sites leave after the first stop, because of it.
    """
    excluded = {event.worker for event in history.all(SiteExcluded)}
    left = history.all(WorkerFinished)
    first_ns = history.stop_ns
    early = {event.site for event in left if event.t_ns <= first_ns}
    is_first = stop.t_ns == first_ns
    if rules.stop.rounds is None and (not early <= excluded or (is_first and not early)):
        yield fail(f"{str(done)!r} is not the scenario's stop condition")
        return
    if done.excluded and not excluded:
        yield fail(f"{str(done)!r} was said, but no site was excluded")
    losses = Losses.of(history, rules)
    for event in left:
        late = event.t_ns > stop.t_ns
        if late and (not done.within_reach or _is_in_reach(event.site, stop, losses)):
            yield fail(f"{str(done)!r} was said before {event.site} had finished")


def _is_in_reach(site: str, stop: Stopping, losses: Losses) -> bool:
    """Whether a site had been connected for a timeout to the controller that stops the run."""
    term, since_ns = losses.term_of(stop), stop.t_ns - losses.timeout_ns
    if term is None or losses.find(losses.out_of_reach(stop.site, site), since_ns, stop.t_ns):
        return False
    began_with_it = term == losses.terms[0]
    found = losses.history.all(ControllerFound)
    return began_with_it or any(
        (each.site, each.controller) == (site, stop.site) and term.start_ns <= each.t_ns <= since_ns
        for each in found
    )
