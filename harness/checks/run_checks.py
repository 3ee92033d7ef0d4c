"""The frame of a run: its header, its stop, its exits, and the events that every log has (pure).

A log that lacks one of these is incomplete, and so proves nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

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
from trunkline.agents.events.event import BACKUP, CONTROLLER, RUNNER, By, Event
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.round_events import WorkerFinished
from trunkline.agents.events.run_events import (
    AgentExited,
    AgentFailed,
    ExpectedOutput,
    NetworkReady,
    OutputOutOfBounds,
    Predicted,
    ProgramsStarted,
    RunFinished,
    RunStarted,
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
from trunkline.harness.checks.tolerances import CLOCK_NS, STOP_SHARE, TIMER_S, Tolerances
from trunkline.harness.checks.verdict import (
    Finding,
    doubt,
    fail,
    format_time,
    judged,
    note,
    unfinished,
)
from trunkline.harness.faults.fault_types import LEAVE_S
from trunkline.harness.record.history import History
from trunkline.harness.record.targets import find_end

HEADER = (
    "scenario",
    "seed",
    "backend",
    "clock",
    "sites",
    "model_bytes",
    "chunk_bytes",
    "policy",
    "plan",
)


def log_is_whole(history: History, rules: Rules) -> Iterator[Finding]:
    """The log has the events that frame a run, once each, and every event belongs to something."""
    wanted: list[type[Event]] = [RunStarted, NetworkReady, RunFinished]
    wanted += [] if rules.programs is None else [ProgramsStarted]
    for kind in wanted:
        times = len(history.all(kind))
        if kind is RunFinished and not times:
            yield doubt(
                f"the run did not end: its log breaks off at {format_time(history.end_ns)}, as if "
                "its command had been killed"
            )
        elif times != 1:
            yield fail(f"{event_name(kind)} is in the log {times} times")
    if history.events and not isinstance(history.events[0], RunStarted):
        yield fail("the log does not begin with run_started")
    for line in history.all(Predicted):
        yield fail(f"predicted is in the log at {format_time(line.t_ns)}, but there was a run")
    finished = history.all(RunFinished)
    if finished and not isinstance(history.events[-1], RunFinished):
        yield fail("the log does not end with run_finished")
    before = [event.t_ns for event in history.events if not isinstance(event, RunFinished)]
    reaped_ns = Tolerances.of(history).reaped_ns
    is_late = finished and before and finished[-1].t_ns > before[-1] + reaped_ns
    # A run may be broken off while nothing goes on.
    if is_late and not isinstance(finished[-1].cause, Broken):
        yield unfinished(
            history, "the log has a gap before run_finished: the event before it is much earlier"
        )
    for event in history.strays:
        where = f"{event.site} at {format_time(event.t_ns)}"
        yield fail(f"{where}: {event} belongs to no task or starts one again")
    yield from _check_lines(history, rules)
    speakers = _find_speakers(rules)
    for event in history.events:
        if event.site not in speakers[By.ANY]:
            yield fail(f"{event.site}, which is not an agent, logged {event_name(type(event))}")
        elif event.site not in speakers[event.by]:
            what = f"{event_name(type(event))} at {format_time(event.t_ns)}"
            yield fail(f"{event.site} logged {what}, which it cannot know")
        elif isinstance(event, RunStarted | NetworkReady | ProgramsStarted) and event.t_ns:
            yield fail(f"{event_name(type(event))} is in the log after the clock had started")
    yield judged(len(history.events))
    yield note(f"{len(history.tasks) + len(history.syncs)} tasks")


def _check_lines(history: History, rules: Rules) -> Iterator[Finding]:
    """Each line is one that an entry of `expect:` waits for, the first one of a program."""
    awaited = {
        n for n, each in enumerate(rules.scenario.expect) if each.kind in ("output", "never")
    }
    for event in history.all(ExpectedOutput, OutputOutOfBounds):
        if event.entry not in awaited or event.who not in (rules.programs or ()):
            what = f"entry {event.entry} of expect: waits for no line of {event.who}"
            yield fail(f"{what}, but one is in the log at {format_time(event.t_ns)}")
    lines = Counter((event.who, event.entry) for event in history.all(ExpectedOutput))
    for (who, entry), times in lines.items():
        if times > 1:
            yield fail(
                f"the first line of {who} for entry {entry} of expect: is there {times} times"
            )


def _find_speakers(rules: Rules) -> Mapping[By, Collection[str]]:
    """The agents that may log an event, by what its class says."""
    sites = rules.topology.site_names
    agents = {RUNNER, *rules.controllers, *sites}
    controllers = {CONTROLLER, BACKUP}
    return {
        By.RUNNER: {RUNNER},
        By.CONTROLLER: controllers,
        By.STOPPER: controllers if rules.programs is None else {RUNNER},
        By.BACKUP: {BACKUP},
        By.SITE: sites,
        By.ANY: agents,
    }


def header_agrees(history: History, rules: Rules) -> Iterator[Finding]:
    """The run began with the values of the scenario, and so did each of its tasks."""
    run = history.run
    if run is None:
        yield fail("the log has no run_started event")
        return
    wanted = rules.started or replace(run, sites=rules.topology.site_names)
    for key in HEADER:
        found, right = getattr(run, key), getattr(wanted, key)
        if found != right:
            found, right = (list(x) if isinstance(x, tuple) else x for x in (found, right))
            yield fail(f"{key} is {found!r} in the log, {right!r} in the scenario")
    yield judged(len(HEADER))
    for task in history.tasks:
        started = task.started
        same = (started.policy, started.plan, started.bytes, started.chunk_bytes)
        if same != (run.policy, run.plan, run.model_bytes, run.chunk_bytes):
            yield fail(f"{task} has another policy, plan, model or chunk than the run")
        for site in sorted({*started.group, *started.weights} - {*rules.topology.site_names}):
            yield fail(f"{task}: {site} is not a site")
        yield judged()


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


def exits_follow_the_protocol(history: History, rules: Rules) -> Iterator[Finding]:
    """The controller and every worker ended with exit code 0, unless a fault killed it.

    Each restart by a fault adds one exit.
    """
    agents = (*rules.controllers, *rules.topology.site_names)
    changes = history.all(AgentChanged)
    kills = {(event.who, event.fault) for event in changes if event.do == "kill"}
    restarts = Counter(event.who for event in changes if event.do == "restart")
    exits_ns: defaultdict[str, list[int]] = defaultdict(list)
    for event in history.all(AgentExited):
        exits_ns[event.who].append(event.t_ns)
    for failure in history.all(AgentFailed):
        yield fail(f"{failure.site} gave up: {failure.reason}")
    for who in agents:
        times = len(exits_ns[who])
        if not times:
            yield unfinished(history, f"{who} did not exit before the run ended")
        elif times != 1 + restarts[who]:
            text = f"{who} exited {times} times"
            yield unfinished(history, text) if times == restarts[who] else fail(text)
        yield judged(times)
    yield from check_kills(history)
    last_ns: dict[str, int] = {}
    for said in history.events:
        last_ns[said.site] = said.t_ns
    for who in agents:
        has_ended = len(exits_ns[who]) > restarts[who]
        if has_ended and last_ns.get(who, 0) > max(exits_ns[who]) + CLOCK_NS:
            yield fail(f"{who} logged an event after it had exited")
    for event in history.all(AgentExited):
        if event.who not in agents:
            yield fail(f"{event.who}, which is not an agent of the run, exited")
        if event.fault is not None:
            if (event.who, event.fault) not in kills:
                yield fail(f"{event.who} exited by fault {event.fault}, which did not kill it")
            if (event.signal, event.code) != (9, 0):
                how = f"signal {event.signal} and code {event.code}"
                yield fail(f"{event.who} exited by {how}; a kill gives 9 and 0")
        elif event.signal:
            yield fail(f"{event.who} was ended by signal {event.signal}")
        elif event.code != 0:
            yield fail(f"{event.who} exited with code {event.code}")
    for who in rules.controllers:
        life = history.lives.last.get(who)
        if exits_ns[who] and life is not None and life.doing is Doing.IN_CHARGE:
            yield unfinished(history, f"{who} exited in charge of a run that it had not stopped")
    yield note(f"{len(agents)} agents, {len(kills)} kills")


def _list_failed(history: History, rules: Rules) -> list[AgentExited]:
    """The exits that are failures."""
    if rules.programs is not None:
        return list_failures(history, rules.programs)
    return [e for e in history.all(AgentExited) if (e.code or e.signal) and e.fault is None]


def check_kills(history: History) -> Iterator[Finding]:
    """The exit of what a fault kills is noticed at once, and before its restart.

    A program that was asked to leave has LEAVE_S for it.
    """
    tolerances = Tolerances.of(history)
    late_ns, noticed_ns = tolerances.kill_ns, max(CLOCK_NS, tolerances.follow_ns)
    changes = history.all(AgentChanged)
    exits = [event for event in history.all(AgentExited) if event.fault is not None]
    for kill in (event for event in changes if event.do in ("kill", "leave")):
        until_ns = kill.t_ns + late_ns + round(LEAVE_S * 1e9) * (kill.do == "leave")
        for event in changes:
            if (event.who, event.do) == (kill.who, "restart") and event.t_ns >= kill.t_ns:
                until_ns = min(until_ns, event.t_ns + noticed_ns)
                break
        found = [e.t_ns for e in exits if (e.who, e.fault) == (kill.who, kill.fault)]
        if not any(kill.t_ns - CLOCK_NS <= t_ns <= until_ns for t_ns in found):
            when = format_time(kill.t_ns)
            what = "killed" if kill.do == "kill" else "asked to leave"
            yield fail(f"{kill.who} was {what} at {when}, but did not exit then")


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
