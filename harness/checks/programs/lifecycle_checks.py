"""The checks of the lives of programs: what starts, restarts and ends them, and when (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.fault_events import AgentChanged, FaultStarted
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.run_events import (
    AgentExited,
    AgentFailed,
    ProgramReady,
    ProgramStarted,
)
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS, Tolerances
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged, note
from trunkline.harness.faults.fault_syntax import parse
from trunkline.harness.record.history import History
from trunkline.harness.record.program_lives import ProgramMoment
from trunkline.workloads.program_roles import Program


def programs_lived_as_written(history: History, rules: Rules) -> Iterator[Finding]:
    """Each program starts, becomes ready, and is started again as the scenario and faults say."""
    programs = rules.programs or {}
    for name in sorted(history.programs.moments.keys() - programs.keys()):
        yield fail(f"{name} is no program of the scenario, but the log has its start or end")
    for name, program in programs.items():
        moments = history.programs.of_program(name)
        for moment in moments:
            yield judged()
            yield from _check_step(name, program, moment, history)
        yield from _Starts(history, programs, program).check()
        yield from _check_readiness(history, program)
    started = history.all(ProgramStarted)
    yield note(f"{len(started)} starts, {sum(each.attempt > 0 for each in started)} of them again")


def list_failures(history: History, programs: Mapping[str, Program]) -> list[AgentExited]:
    """The exits of programs by themselves that the scenario does not allow."""
    return [
        event
        for program in programs.values()
        for event, restarts in _list_own_exits(history, program)
        if not program.comes_back(event.status, restarts) and not program.may_end_with(event.status)
    ]


def list_given_up(history: History, programs: Mapping[str, Program]) -> set[str]:
    """The programs that their own rules started again as often as they may, and then no more."""
    return {
        name
        for name, program in programs.items()
        for event, restarts in _list_own_exits(history, program)
        if program.is_given_up(event.status, restarts)
    }


def _list_own_exits(history: History, program: Program) -> Iterator[tuple[AgentExited, int]]:
    """The exits of a program by itself, and how often its own rule had started it again before."""
    restarts = 0
    for moment in history.programs.of_program(program.name):
        if moment.is_own_exit and isinstance(moment.event, AgentExited):
            yield moment.event, restarts
            restarts += program.comes_back(moment.event.status, restarts)


def list_over(history: History, programs: Mapping[str, Program], t_ns: int) -> set[str]:
    """The programs that have ended by a time, and that nothing was to start again."""
    texts = {event.fault: event.text for event in history.all(FaultStarted)}
    over = set()
    for name, program in programs.items():
        restarts, is_over = 0, False
        for moment in history.programs.of_program(name):
            event = moment.event
            if event.t_ns > t_ns:
                break
            if isinstance(event, AgentExited):
                is_over = moment.step.after in (Doing.ENDED, Doing.DEAD)
                if moment.is_own_exit and program.comes_back(event.status, restarts):
                    restarts, is_over = restarts + 1, False
                if event.fault is not None and " for " in texts.get(event.fault, ""):
                    is_over &= getattr(parse(texts[event.fault]), "for_s", None) is None
            elif moment.step.after is not Doing.ENDED:
                is_over &= moment.step.after is Doing.DEAD
        if is_over:
            over.add(name)
    return over


def _check_step(
    name: str, program: Program, moment: ProgramMoment, history: History
) -> Iterator[Finding]:
    event, step = moment.event, moment.step
    what = event.do if isinstance(event, AgentChanged) else event_name(type(event))
    where = f"{name}: {what} at {format_time(event.t_ns)}"
    if not step.is_right:
        yield fail(f"{where}, but it was {step.before}")
    if isinstance(event, ProgramStarted | ProgramReady) and event.attempt != moment.attempt:
        yield fail(f"{where} as attempt {event.attempt}; expected {moment.attempt}")
    if isinstance(event, ProgramStarted) and event.t_ns > history.stop_ns:
        yield fail(f"{where}, after the run had stopped")
    if isinstance(event, ProgramReady) and program.ready is None:
        yield fail(f"{where}, but the scenario does not say when it is ready")


class _Starts:
    """The starts of one program: each comes when it is due, and none is left out."""

    def __init__(self, history: History, programs: Mapping[str, Program], program: Program) -> None:
        self.history = history
        self.program = program
        self.late_ns = _late_ns(history)
        ready = [
            _find_ready_ns(history, each)
            for each in programs.values()
            if each.role in program.after
        ]
        self.first_ns = max([program.start_s * 1e9, *ready])
        self.due_ns: float = self.first_ns
        self.paused = False
        self.restarts = 0

    def check(self) -> Iterator[Finding]:
        for moment in self.history.programs.of_program(self.program.name):
            if isinstance(moment.event, ProgramStarted):
                yield from self._check_start(moment.event)
                self.due_ns = math.inf
            else:
                yield from self._check_missing(moment.t_ns)
                self._take(moment)
        yield from self._check_missing(self.history.stop_ns)

    def _check_start(self, event: ProgramStarted) -> Iterator[Finding]:
        where = f"{event.who} started at {format_time(event.t_ns)}"
        if self.due_ns == math.inf:
            yield fail(f"{where}, but was not to start then")
        elif self.paused:
            yield fail(f"{where} while it was paused")
        elif not -CLOCK_NS <= event.t_ns - self.due_ns <= self.late_ns:
            yield fail(f"{where}; it was to start at {format_time(int(self.due_ns))}")

    def _check_missing(self, t_ns: int) -> Iterator[Finding]:
        if t_ns > self.due_ns + self.late_ns and not self.paused:
            due = format_time(int(self.due_ns))
            yield fail(f"{self.program.name} was to start at {due}, but did not")
            self.due_ns = math.inf

    def _take(self, moment: ProgramMoment) -> None:
        event = moment.event
        self.paused = moment.paused
        match event:
            case AgentChanged(do="restart"):
                self.due_ns = max(event.t_ns, self.first_ns)
            case AgentChanged(do="resume"):
                self.due_ns = max(self.due_ns, event.t_ns)
            case AgentChanged(do="kill" | "leave"):
                self.due_ns = math.inf
            case AgentExited(fault=None):
                self.due_ns = math.inf
                rule = self.program.restart
                back = self.program.comes_back(event.status, self.restarts)
                if rule is not None and back and moment.is_own_exit:
                    self.due_ns = event.t_ns + rule.delay_s(self.restarts) * 1e9
                    self.restarts += 1


def _check_readiness(history: History, program: Program) -> Iterator[Finding]:
    """A program that is to become ready does so in time, or the run fails."""
    if program.ready is None:
        return
    name, moments = program.name, history.programs.of_program(program.name)
    last_ns = program.ready.within_s * 1e9 + _late_ns(history)
    started_ns: int | None = None
    for moment in moments:
        if isinstance(moment.event, ProgramReady) and started_ns is None:
            yield fail(f"{name} was ready twice, or before it had started")
        if started_ns is not None and moment.t_ns - started_ns > last_ns:
            yield from _say_late(history, name, started_ns)
        started_ns = moment.t_ns if isinstance(moment.event, ProgramStarted) else None
    if started_ns is not None and history.stop_ns - started_ns > last_ns:
        yield from _say_late(history, name, started_ns)


def _say_late(history: History, name: str, started_ns: int) -> Iterator[Finding]:
    if not history.all(AgentFailed):
        yield fail(f"{name}, started at {format_time(started_ns)}, was not ready in time")


def _find_ready_ns(history: History, program: Program) -> float:
    """When a program was ready for the first time; infinite if never."""
    kind = ProgramStarted if program.ready is None else ProgramReady
    times = (
        each.t_ns
        for each in history.programs.of_program(program.name)
        if isinstance(each.event, kind)
    )
    return min(times, default=math.inf)


def _late_ns(history: History) -> int:
    """How late the session may do something by itself: on a real clock the host may be busy."""
    tolerances = Tolerances.of(history)
    return max(tolerances.step_ns, tolerances.follow_ns)
