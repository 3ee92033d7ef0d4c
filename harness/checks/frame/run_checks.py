"""The frame of a run: its header, its exits, and the events that every log has (pure).

A log that lacks one of these is incomplete, and so proves nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from trunkline.agents.events.causes import (
    Broken,
)
from trunkline.agents.events.event import BACKUP, CONTROLLER, RUNNER, By, Event
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.lifecycle import Doing
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
)
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS, Tolerances
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
        tensors = started.tensor_bytes == rules.scenario.tensor_bytes
        if same != (run.policy, run.plan, run.model_bytes, run.chunk_bytes) or not tensors:
            yield fail(f"{task} has another policy, plan, model or chunk than the run")
        for site in sorted({*started.group, *started.weights} - {*rules.topology.site_names}):
            yield fail(f"{task}: {site} is not a site")
        yield judged()


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
