"""Faults happened as written, and no connection was lost without one (pure).

The timeline is a pure function of the scenario and its seed, so a check can run it again and
compare each of its steps with the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trunkline.agents.events.connection_events import (
    BackupStoodDown,
    BackupTookOver,
    ControllerLost,
    LinkLost,
    WorkerLost,
)
from trunkline.agents.events.event import CONTROLLER
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.fault_events import (
    AgentChanged,
    CommandTyped,
    FaultEnded,
    FaultStarted,
    LinkChanged,
)
from trunkline.agents.events.lifecycle import ALIVE, Doing
from trunkline.agents.events.round_events import WorkerFinished
from trunkline.agents.events.run_events import AgentExited, ProgramsStarted, Stopping
from trunkline.agents.events.task_events import TaskStarted
from trunkline.harness.checks.losses import TOO_SHORT, Losses
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CHANGED_NS, LOSS_NS, Tolerances
from trunkline.harness.checks.verdict import Finding, doubt, fail, format_time, judged, note
from trunkline.harness.config.units import count_of
from trunkline.harness.faults.fault_steps import AgentStep, Began, Ended, FaultStep, LinkStep
from trunkline.harness.faults.fault_syntax import parse
from trunkline.harness.faults.fault_types import Kill
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Timeline
from trunkline.harness.record.history import History
from trunkline.topologies.links import CHANGEABLE

SILENT = 0.5
"""A peer that is alive counts as lost after a timeout without a byte. Its last one may have come so
many timeouts before the fault that silenced it: heartbeats are lost, and wait in queues."""

Logged = FaultStarted | FaultEnded | LinkChanged | AgentChanged


@dataclass(frozen=True, slots=True)
class Due:
    """A step of the timeline and the time from which on it may be in the log."""

    t_ns: int
    step: FaultStep


def faults_as_written(history: History, rules: Rules) -> Iterator[Finding]:
    """Each step of the timeline, and no other, is in the log at its time and in its order."""
    if history.run is None:
        return
    for began in history.all(FaultStarted):
        if began.verb != began.text.split()[0]:
            yield fail(f"fault {began.fault} is {began.verb!r}, but its text is {began.text!r}")
    kinds = (FaultStarted, FaultEnded, LinkChanged, AgentChanged)
    logged = [event for event in history.events if isinstance(event, kinds)]
    found: list[Finding] = []
    # The runner hears of the stop a little later than it is stamped: steps may be due in between.
    for until_ns in _list_stops(history, rules):
        problems = list(_compare(history, rules, logged, until_ns))
        if not problems:
            found = []
            break
        found = found or problems
    yield from found
    yield judged(len(logged))
    yield note(count_of(len(history.all(FaultStarted)), "fault"))


def losses_have_causes(history: History, rules: Rules) -> Iterator[Finding]:
    """A connection breaks only if a fault touched one of its ends or its path shortly before.

    A worker also loses a controller that stands down. When the run stops, connections are closed.
    The backup takes over when it has lost the controller.
    """
    losses = Losses.of(history, rules)
    stop_ns = history.stop_ns
    typed_ns = min((event.t_ns for event in history.all(CommandTyped)), default=history.end_ns)
    turns_ns = [event.t_ns for event in history.all(BackupStoodDown)]
    touches = _list_touches(history, SILENT * losses.timeout_ns)
    for event in history.events:
        match event:
            case LinkLost(site=site, peer=peer):
                touched = {site, peer, *_find_links(rules, site, peer)}
            case WorkerLost(site=controller, worker=worker):
                touched = _find_path(rules, controller, worker)
            case ControllerLost(site=site):
                names = rules.controllers
                touched = {touch for name in names for touch in _find_path(rules, name, site)}
            case BackupTookOver(site=site):
                touched = _find_path(rules, CONTROLLER, site)
            case _:
                continue
        yield judged()
        late_ns = 2 * losses.timeout_ns
        waits_ns = event.t_ns - losses.detection_ns - LOSS_NS
        if isinstance(event, BackupTookOver) and losses.find(
            losses.stopped(event.site), waits_ns, event.t_ns
        ):
            late_ns = losses.detection_ns  # a backup that is started waits for the controller
        early_ns = event.t_ns - late_ns - LOSS_NS
        caused = any(
            start_ns <= event.t_ns and early_ns <= end_ns and (not targets or targets & touched)
            for start_ns, end_ns, targets in touches
        )
        stood_down = not isinstance(event, LinkLost | BackupTookOver) and any(
            early_ns <= t_ns <= event.t_ns + LOSS_NS for t_ns in turns_ns
        )
        if isinstance(event, WorkerLost) and not event.reported:
            # A worker that reaches the controller before reports to no backup.
            caused |= losses.leader_of(event.worker, event.t_ns) not in (None, event.site)
        if not (caused or stood_down) and event.t_ns < min(stop_ns, typed_ns):
            peer = getattr(event, "peer", getattr(event, "worker", CONTROLLER))
            where = f"{event.site} lost {peer} at {format_time(event.t_ns)}"
            yield doubt(f"{where} without a fault: {TOO_SHORT}")


def _list_touches(history: History, silent_ns: float) -> list[tuple[float, int, set[str]]]:
    """When faults can break connections, and their targets: agents, links `a -> b`; none means all.

    The connections of an agent that ends break at once, all others when they were silent for long.
    """
    return [
        (
            fault.started.t_ns + silent_ns * (fault.started.verb not in ("kill", "restart")),
            history.end_ns if fault.end_ns is None else fault.end_ns,
            set(fault.started.targets),
        )
        for fault in history.faults
        if fault.started.verb not in ("churn", "heal", "mend", "resume")
    ]


def _find_path(rules: Rules, controller: str, worker: str) -> set[str]:
    """A controller and a worker or the backup, and the links on the routes between them."""
    end = rules.controllers.get(worker, worker)
    site = rules.controllers.get(controller, end)
    if end not in rules.topology.site_names:
        return {controller}
    return {controller, worker, *_find_links(rules, site, end)}


def _find_links(rules: Rules, a: str, b: str) -> set[str]:
    """The links on the paths between two sites, both ways, as faults name them."""
    if not {a, b} <= set(rules.topology.site_names):
        return set()
    paths = rules.topology.path(a, b), rules.topology.path(b, a)
    return {f"{src} -> {dst}" for path in paths for src, dst in pairwise(path)}


def kills_are_faults(history: History, rules: Rules) -> Iterator[Finding]:
    """An agent changes only by a fault that has begun, and says nothing while it is stopped."""
    began_ns = {event.fault: event.t_ns for event in history.all(FaultStarted)}
    losses = Losses.of(history, rules)
    for change in history.all(AgentChanged):
        if began_ns.get(change.fault, history.end_ns + 1) > change.t_ns:
            yield fail(f"fault {change.fault} changed {change.who} before it began")
        yield judged()
    for who in {event.who for event in history.all(AgentChanged)}:
        said = [event for event in history.events if event.site == who]
        for span in losses.stopped(who):
            for event in said:
                if span.start_ns < event.t_ns < span.end_ns:
                    yield fail(f"{span.what} at {format_time(event.t_ns)}, but logged an event")
                    break


def _list_stops(history: History, rules: Rules) -> Iterator[int]:
    """The times at which the timeline may have ended: when the run stops, or the next steps."""
    stop_ns = _find_stop_ns(history, rules)
    yield stop_ns
    *_, timeline = _replay(history, rules, stop_ns)
    start_ns, last_ns = find_start_ns(history), stop_ns + _late_ns(history, rules)
    while isinstance(timeline, Timeline) and start_ns is not None and timeline.next_ns is not None:
        due_ns = start_ns + timeline.next_ns
        if due_ns > last_ns:
            return
        timeline.advance(timeline.next_ns)
        yield due_ns


def _compare(
    history: History, rules: Rules, logged: Sequence[Logged], until_ns: int
) -> Iterator[Finding]:
    """Compare the log with a timeline that ends at `until_ns`, when all faults end in any order."""
    *due, timeline = _replay(history, rules, until_ns)
    assert isinstance(timeline, Timeline)
    place = 0
    for each in due:
        assert isinstance(each, Due)
        event = logged[place] if place < len(logged) else None
        if event is not None and _agrees(each.step, event):
            place += 1
            late_ns = event.t_ns - each.t_ns
            if not 0 <= late_ns <= _late_ns(history, rules):
                when = "earlier" if late_ns > 0 else "later"
                yield fail(f"{_describe(event)}; it was due {abs(late_ns) / 1e6:.6g} ms {when}")
        elif not _may_be_left_out(each, history, rules):
            found = "the log ends" if event is None else f"the log has {_describe(event)}"
            yield fail(f"{_name_step(each.step)} was due at {format_time(each.t_ns)}, but {found}")
            return
    kills = {number: fault.who for number, fault in timeline.active if isinstance(fault, Kill)}
    left = timeline.finish(rules.programs or ())  # programs stay dead
    for event in logged[place:]:
        step = next((step for step in left if _agrees(step, event)), None)
        if step is None:
            yield fail(f"{_describe(event)}; the timeline has no such step then")
            return
        last_ns = max(until_ns + _late_ns(history, rules), _last_stop_ns(history, rules))
        if not until_ns <= event.t_ns <= last_ns:
            yield fail(f"{_describe(event)}; it was due when the run stopped")
        left.remove(step)
    last_ns = until_ns + _late_ns(history, rules)
    done = {event.site for event in history.all(WorkerFinished) if event.t_ns <= last_ns}
    done.add(CONTROLLER)
    for event in logged[place:]:
        if isinstance(event, AgentChanged) and event.do == "restart":
            done.discard(event.who)
    for step in left:
        if kills.get(getattr(step, "number", -1)) in done:
            continue  # agents that are done stay dead
        may_lack = _may_be_left_out(Due(until_ns, step), history, rules)
        if not may_lack and not history.broke_off:
            yield fail(f"{_name_step(step)} was due when the run stopped, but is not in the log")


def _replay(history: History, rules: Rules, until_ns: int) -> Iterator[Due | Timeline]:
    """The steps of the timeline and of typed faults until a time, and then the timeline."""
    assert history.run is not None
    targets = rules.scenario.targets
    timeline = Timeline(rules.topology, rules.scenario.timeline, history.run.seed, targets)
    start_ns = find_start_ns(history)
    if start_ns is not None:
        for event in history.all(FaultStarted):
            if event.asked and event.t_ns <= until_ns:
                yield from _advance(timeline, start_ns, event.t_ns)
                for step in timeline.begin(parse(event.text), event.t_ns - start_ns):
                    yield Due(event.t_ns, step)
        yield from _advance(timeline, start_ns, until_ns)
    yield timeline


def _advance(timeline: Timeline, start_ns: int, until_ns: int) -> Iterator[Due]:
    while timeline.next_ns is not None and start_ns + timeline.next_ns <= until_ns:
        at_ns = timeline.next_ns
        for step in timeline.advance(at_ns):
            yield Due(start_ns + at_ns, step)


def find_start_ns(history: History) -> int | None:
    """When the timeline began: with the first task, or with the programs."""
    kinds = (TaskStarted, ProgramsStarted)
    return min((event.t_ns for kind in kinds for event in history.all(kind)), default=None)


def _find_stop_ns(history: History, rules: Rules) -> int:
    """When the timeline ended: at the stop, or at `stop.time` if no controller stopped the run.

    In a run that broke off it ended with the log.
    """
    times_ns = [event.t_ns for event in history.all(Stopping)]
    if rules.stop.time_s is not None:
        times_ns.append(round(rules.stop.time_s * 1e9))
    if history.broke_off:  # then nothing undoes the faults
        times_ns.append(history.end_ns)
    return min(times_ns, default=history.end_ns)


def _last_stop_ns(history: History, rules: Rules) -> int:
    """When the last controller stopped the run, and the latest time to undo faults after that."""
    stops = [event.t_ns for event in history.all(Stopping)]
    return max(stops, default=history.end_ns) + _late_ns(history, rules)


def _late_ns(history: History, rules: Rules) -> int:
    """How late a step may be: a fault may change every link, one after the other."""
    return Tolerances.of(history).step_ns + CHANGED_NS * len(rules.topology.links)


def _agrees(step: FaultStep, event: Logged) -> bool:
    """Whether the event logs this step."""
    match step, event:
        case Began(), FaultStarted():
            same = (step.number, write(step.fault), tuple(step.targets))
            return same == (event.fault, event.text, event.targets)
        case Ended(), FaultEnded():
            return step.number == event.fault
        case AgentStep(), AgentChanged():
            return (step.who, step.do, step.number) == (event.who, event.do, event.fault)
        case LinkStep(), LinkChanged():
            after = step.after
            values = [getattr(after, name) for name in CHANGEABLE]
            found = [getattr(event, name) for name in CHANGEABLE]
            ends = (after.src, after.dst) == (event.src, event.dst)
            return ends and values == found and tuple(sorted(step.cuts_after)) == event.cuts
    return False


def _may_be_left_out(due: Due, history: History, rules: Rules) -> bool:
    """Whether the step had no effect: its agent had exited by itself before it was carried out.

    A program may run again after its exit.
    """
    step, last_ns = due.step, due.t_ns + _late_ns(history, rules)
    if not isinstance(step, AgentStep):
        return False
    if rules.programs is None:
        exits = (e for e in history.all(AgentExited) if e.who == step.who and e.fault is None)
        return any(event.t_ns <= last_ns for event in exits)
    for doing, paused in history.programs.states(step.who, due.t_ns, last_ns):
        right = (Doing.DEAD,) if step.do == "restart" else ALIVE
        if doing not in right or (step.do == "resume" and not paused):
            return True
    return False


def _name_step(step: FaultStep) -> str:
    """A step in words, such as `the restart of madrid by fault 0`."""
    match step:
        case Began(number=number, fault=fault):
            return f"the start of fault {number}, {write(fault)},"
        case Ended(number=number):
            return f"the end of fault {number}"
        case LinkStep(after=after):
            return f"a change of the link {after.src} -> {after.dst}"
        case AgentStep(who=who, do=do, number=number):
            return f"the {do} of {who} by fault {number}"


def _describe(event: Logged) -> str:
    return f"{event_name(type(event))} at {format_time(event.t_ns)}"
