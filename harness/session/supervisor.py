"""Supervises the processes of a run: starts them, collects their events and ends them.

There are two kinds of children: Trunkline's agents (`agent_children`) and a scenario's own programs
(`program_children`). A kind defines how its children are forked and what their pipes and exits
mean. The supervisor has one loop over all descriptors, the deadlines and the faults. It ends every
process that it forked, also after errors, and signals no other process.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trunkline.agents.events.causes import Ending
from trunkline.agents.events.event import RUNNER, Kind, P
from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.run_events import AgentExited, Stopping, TimersLate
from trunkline.agents.timing.clock import Punctuality
from trunkline.harness.faults.fault_steps import AgentChange
from trunkline.harness.processes.fork import Process, signals_held
from trunkline.harness.processes.start_time import wait_for_start
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.session.run_schedule import Schedule
from trunkline.harness.session.shared_agents.agent_group import SharedAgent

GRACE_S = 5.0
"""Time from SIGTERM to SIGKILL, in seconds of the run's clock, in which a child can end itself."""

READ_BYTES = 1 << 20

FORKS_AT_ONCE = 100
"""After so many forks the supervisor pauses. While no process waits, the guest's watch takes the
processor time of the one that computes for that of one that spins."""

PAUSE_S = 0.2
"""The guest reports every tenth of a virtual second that its processes have waited."""

Sink = Callable[[bytes], Iterable[LoggedEvent]]
"""Turns the bytes from a pipe into events."""


@dataclass(slots=True, eq=False)
class Child:
    """One child: its process, the pipe to it, and the pipes from it, each with a sink.

    Attributes:
        files: further descriptors that are closed with the child.
        ready: whether the child waits for the start of the clock.
        waits: whether a program waits for its own start.
        paused: whether a fault has paused it.
        fault: the number of the fault that killed it, or asked it to leave.
        stopped_ns: when that was, on the monotonic clock.
        asked: whether SIGTERM was sent to it.
        code: its exit code or minus the signal; None until its end was handled.
        is_closed: whether its descriptors are closed.
    """

    name: str
    process: Process | SharedAgent
    told_fd: int
    read_fds: tuple[int, ...]
    sinks: Sequence[Sink] = ()
    files: list[int] = field(default_factory=list)
    ready: bool = False
    waits: bool = False
    paused: bool = False
    fault: int | None = None
    stopped_ns: float = math.inf
    asked: bool = False
    code: int | None = None
    is_closed: bool = False

    def tell(self, data: bytes) -> None:
        """Write to the child, unless it has ended."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.told_fd, data)

    def close(self) -> None:
        """Close all descriptors except the process's, unless they are closed."""
        if self.is_closed:
            return
        self.is_closed = True
        for fd in (self.told_fd, *self.read_fds, *self.files):
            os.close(fd)

    @property
    def has_ended(self) -> bool:
        """Whether its process has ended, also if that was not handled yet."""
        return self.process.has_ended


class Children(Protocol):
    """One kind of children.

    Attributes:
        pipes: how many pipes lead from a child to the supervisor.
        signals: the signals that pause and resume a child, or ask it to leave.
        timers: where the loop notes how late its timers are; None if the children do that.
        stop_s: the monotonic time of the run's end; infinite if the children watch the time.
        schedule: what the children do later by themselves; None if nothing.
    """

    pipes: int
    signals: Mapping[AgentChange, int]
    timers: Punctuality | None
    stop_s: float
    schedule: Schedule | None

    def names(self) -> Iterator[str]:
        """The names of the run's children; each child is forked before the next name is taken."""

    def fork(
        self, name: str, ends: Sequence[int], close: Callable[[], None]
    ) -> Process | SharedAgent:
        """Fork a child, which may replace an earlier one with its name.

        `ends` are its ends of the pipes; it reads from the last one. In the child, `close` closes
        the supervisor's ends of all pipes.
        """

    def sinks(self, child: Child) -> Sequence[Sink]:
        """One sink for each of the child's pipes. Raises OSError."""

    def begin(self, ready: Iterable[Child], epoch_ns: int) -> Iterable[LoggedEvent]:
        """Tell children that the clock has started; returns events for the log."""

    def stop(self, begun: Iterable[Child], cause: Ending) -> None:
        """Have the run end as by its own stop condition, for this cause."""

    def note_change(self, child: Child, do: AgentChange) -> None:
        """A fault has paused or resumed a child, or asked it to leave."""

    def cause_to_end(self, forked: Sequence[Child]) -> Ending | None:
        """Why all children have to end now; None if they need not."""

    def exit_events(self, child: Child, now_ns: Callable[[], int]) -> Iterable[LoggedEvent]:
        """Set the `code` of a child that was reaped; returns the events of its end.

        A program's pipes are read to their ends.
        """

    def is_failure(self, event: AgentExited) -> bool:
        """Whether the run has failed with this exit of a child."""


class Supervisor:
    """All children of one run. Use as a context manager: leaving it ends every child that runs."""

    def __init__(
        self,
        scenario: Scenario,
        children: Children,
        on_start: Callable[[int], None] = lambda epoch_ns: None,
    ) -> None:
        """`on_start` is called when the clock starts, with its epoch."""
        self.epoch_ns = 0
        self._on_start = on_start
        self._run_s = scenario.limits.run_s
        self._children = children
        self._forked: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._open: set[int] = set()
        self._deadline_s = self._kill_s = math.inf
        self._deadline_text = ""
        self._schedule = children.schedule
        if self._schedule is not None:
            self.watch(self._schedule.fd, self._schedule.perform_due)

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._selector.close()

    def start(self) -> None:
        """Fork every child; `events` lets them begin. Raises OSError."""
        gc.collect()
        gc.freeze()
        gc.enable()  # see `processes.first_imports`
        for number, name in enumerate(self._children.names(), start=1):
            self.fork(name)
            if number % FORKS_AT_ONCE == 0:
                time.sleep(PAUSE_S)

    def events(self) -> Iterator[LoggedEvent]:
        """Yield the children's events and those of their ends, until all children have exited.

        When all are ready, the clock starts: `epoch_ns` is set and the children begin. They get
        SIGTERM as soon as their kind has a reason to end them. Raises TimeoutError if the run's
        budget in the scenario, or the time given to `limit`, is over before that; raises OSError if
        a log is not writable.
        """
        self.limit(self._run_s, f"the run took longer than the {self._run_s:g} s of limits.run")
        cause = None
        # While a schedule has plans, a run goes on even if no process is left.
        while cause is None and (self._open or self._schedule is not None):
            ready = self._wait_until(min(self._deadline_s, self._children.stop_s))
            yield from self._serve(ready)
            cause = self._children.cause_to_end(self._forked)
            if not ready and cause is None:
                raise self._overdue()
        if cause is not None:
            yield self._event(Stopping, cause)
            yield from self._end_children()
        if (timers := self._children.timers) is not None:
            yield self._event(TimersLate, timers.late_s, timers.watched_s)

    def watch(self, fd: int, readable: Callable[[], Iterable[LoggedEvent] | None]) -> None:
        """Has `events` call a function whenever there is something to read from a descriptor.

        It may return events for the log.
        """
        self._selector.register(fd, selectors.EVENT_READ, readable)

    def unwatch(self, fd: int) -> None:
        """Stop watching a descriptor."""
        self._selector.unregister(fd)

    def stop(self, cause: Ending) -> None:
        """Have the run end as by its own stop condition, for this cause."""
        self._children.stop(self._forked if self.epoch_ns else [], cause)

    def limit(self, seconds: float, text: str) -> None:
        """Has `events` raise TimeoutError after this time, unless an earlier one is set."""
        deadline_s = time.monotonic() + seconds
        if deadline_s < self._deadline_s:
            self._deadline_s, self._deadline_text = deadline_s, text

    def can_change(self, name: str, do: AgentChange) -> bool:
        """Whether a fault has an effect on a child.

        Only a child that a fault killed, or had leave, can be started again, not one that ended by
        itself. All other faults need a running child.
        """
        child = self._find_last(name)
        if child is None or (child.fault is not None) != (do == "restart"):
            return False
        return do == "restart" or (not child.has_ended and (do != "resume" or child.paused))

    def change(self, name: str, do: AgentChange, fault: int) -> None:
        """Apply a fault that has an effect. The event of a killed child's exit names the fault.

        Raises TimeoutError as `events` does, if a child that shares its process does not obey.
        """
        child = self._find_last(name)
        assert child is not None
        if do == "restart":
            if not child.has_ended:  # it was asked to leave, and has not left
                self._kill(child)
            self.fork(name)
        elif do == "kill":
            child.fault, child.stopped_ns = fault, time.monotonic_ns()
            self._kill(child)
        else:
            number = self._children.signals[do]
            if do == "leave":
                child.fault = fault
            else:
                child.paused = do == "pause"
            if do == "leave" or not child.waits:
                child.process.send(number)
            self._children.note_change(child, do)
            # With several cores it would continue for a moment, and log after its pause.
            if number == signal.SIGSTOP and not child.process.await_stop(self._left_s()):
                raise self._overdue()

    def end(self) -> None:
        """End every running child, wait for it and close its descriptors; drop its events."""
        try:
            for _ in self._end_children():
                pass
        finally:
            for child in self._forked:
                child.process.end()
                child.close()
            self._forked.clear()
            self._open.clear()

    # -- the loop ------------------------------------------------------------------------------

    def _wait_until(self, deadline_s: float) -> list[Callable[[], Iterable[LoggedEvent] | None]]:
        """The functions to call for readable descriptors; none when the deadline has passed."""
        timers = self._children.timers
        period_s = timers.PERIOD_S if timers is not None else math.inf
        now_s = time.monotonic()
        while now_s < deadline_s:
            wait_s = min(deadline_s - now_s, period_s)
            if ready := self._selector.select(wait_s if wait_s < math.inf else None):
                return [key.data for key, _ in ready]
            start_s, now_s = now_s, time.monotonic()
            if timers is not None:
                timers.late_s += now_s - start_s - wait_s
                timers.watched_s += now_s - start_s
        return []

    def _serve(
        self, ready: Iterable[Callable[[], Iterable[LoggedEvent] | None]]
    ) -> Iterator[LoggedEvent]:
        for function in ready:
            yield from function() or ()

    def fork(self, name: str) -> None:
        """Start a child of this name, which may replace an earlier one. Raises OSError."""
        pipes = [os.pipe() for _ in range(self._children.pipes)]
        told_end, told_fd = os.pipe()
        read_fds = tuple(read for read, _ in pipes)
        ends = (*(write for _, write in pipes), told_end)

        def close() -> None:
            for fd in (told_fd, *read_fds):
                os.close(fd)
            for child in self._forked:
                child.close()

        with signals_held():  # so that the end of an interrupted run finds every child
            process = self._children.fork(name, ends, close)
            child = Child(name, process, told_fd, read_fds)
            self._forked.append(child)
        for fd in ends:
            os.close(fd)
        child.sinks = self._children.sinks(child)
        for fd, sink in zip(read_fds, child.sinks, strict=True):
            self._add(fd, functools.partial(self._read, child, fd, sink))
        self._add(process.pidfd, functools.partial(self._reap, child))

    def _add(self, fd: int, function: Callable[[], Iterable[LoggedEvent]]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, function)
        self._open.add(fd)

    def _remove(self, fd: int) -> None:
        self._selector.unregister(fd)
        self._open.remove(fd)

    def _read(self, child: Child, fd: int, sink: Sink) -> Iterator[LoggedEvent]:
        data = b"" if child.is_closed else os.read(fd, READ_BYTES)
        if not data:
            if not child.is_closed:
                self._remove(fd)
            return
        was_ready = child.ready
        yield from sink(data)
        if child.ready and not was_ready:
            yield from self._begin(child)

    def _begin(self, child: Child) -> Iterable[LoggedEvent]:
        """Let the child begin, or all of them if this was the last one to be ready."""
        if self.epoch_ns:
            return self._children.begin([child], self.epoch_ns)
        if not all(each.ready for each in self._forked):
            return ()
        self.epoch_ns = wait_for_start()
        self._on_start(self.epoch_ns)
        self._deadline_s = self.epoch_ns / 1e9 + self._run_s
        return self._children.begin(self._forked, self.epoch_ns)

    def _reap(self, child: Child) -> Iterator[LoggedEvent]:
        self._remove(child.process.pidfd)
        child.process.wait()
        yield from self._children.exit_events(child, self._now_ns)
        if self._children.schedule is not None:  # many processes may follow each other
            for fd in self._open.intersection(child.read_fds):
                self._remove(fd)
            child.close()

    def _end_children(self) -> Iterator[LoggedEvent]:
        """Send SIGTERM, after GRACE_S SIGKILL, to all children that run; wait for their end."""
        if self._schedule is not None:
            self.unwatch(self._schedule.fd)
            self._schedule = None
        for child in self._running():
            if not child.asked:
                child.asked = True
                child.process.send(signal.SIGTERM)
        self._kill_s = min(self._kill_s, time.monotonic() + GRACE_S)
        while time.monotonic() < self._kill_s and self._running():
            yield from self._serve(self._wait_until(self._kill_s))
        for child in self._running():
            child.process.destroy()
        while self._running():
            yield from self._serve(self._wait_until(math.inf))

    # -- children and events -------------------------------------------------------------------

    def _find_last(self, name: str) -> Child | None:
        """The latest child of this name."""
        return next((child for child in reversed(self._forked) if child.name == name), None)

    def _kill(self, child: Child) -> None:
        """Kill a child; its port is free afterwards, so it can be started again."""
        child.process.send(signal.SIGKILL)
        if not child.process.await_end(self._left_s()):
            raise self._overdue()

    def _left_s(self) -> float:
        """The time until the deadline."""
        return self._deadline_s - time.monotonic()

    def _overdue(self) -> TimeoutError:
        """What ends a run after its deadline; it names the agents that hold up their process."""
        shared = [each.process for each in self._running() if isinstance(each.process, SharedAgent)]
        busy = sorted({each.group.notes.busy or "" for each in shared} - {""})
        held = (f"; the code of {name} holds up all agents of its process" for name in busy)
        return TimeoutError(self._deadline_text + "".join(held))

    def _running(self) -> list[Child]:
        """The children that are not reaped."""
        return [child for child in self._forked if child.process.pidfd in self._open]

    def _now_ns(self) -> int:
        """The run's time, 0 before the clock starts."""
        return time.monotonic_ns() - self.epoch_ns if self.epoch_ns else 0

    def _event(self, kind: Kind[P], *values: P.args, **fields: P.kwargs) -> LoggedEvent:
        return LoggedEvent.of(kind(self._now_ns(), RUNNER, *values, **fields))
