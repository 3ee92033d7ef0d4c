"""A scenario's own programs as children of the supervisor: some per site, instead of agents.

A program starts when its time has come, the roles that it comes after are ready, and no fault has
paused it. When it ends by itself, its own rule may start it again. Each of its processes has an
init process (`program_init`); when that ends, the kernel ends all others. The output of programs
goes to the run's `log/`, and their reports become events.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trunkline.agents.events.causes import Asked, Ending, ProgramFailed, ProgramsExited, TimeUp
from trunkline.agents.events.event import RUNNER
from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.run_events import (
    AgentExited,
    ProgramReady,
    ProgramsStarted,
    ProgramStarted,
)
from trunkline.agents.timing.clock import Punctuality
from trunkline.harness.faults.fault_steps import AgentChange
from trunkline.harness.faults.fault_types import LEAVE_S
from trunkline.harness.network.interface import HOSTS, Network
from trunkline.harness.processes.fork import Process
from trunkline.harness.processes.lines import Lines, read_tail
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.session import name_server, program_init, site_accounts
from trunkline.harness.session.output_watch import OutputWatch
from trunkline.harness.session.program_output import (
    NOTE,
    OUTPUT_LIMIT_BYTES,
    Output,
    Reports,
    failure,
)
from trunkline.harness.session.program_readiness import POLL_NS, LineSearch, listens
from trunkline.harness.session.run_schedule import Schedule
from trunkline.harness.session.supervisor import READ_BYTES, Child, Sink
from trunkline.workloads.calls import step_compute
from trunkline.workloads.compute_time import ComputeTime, Constant
from trunkline.workloads.program import is_python
from trunkline.workloads.program_roles import Program, first_process

STEPS = 4096
"""So many steps of a program have times of their own; then the first one follows again."""

RESOLVER = "resolv.conf"

RESULTS = "results"
"""The folder in a run's folder in which each site's program has one for its own files."""

READ_ONLY = os.strerror(errno.EROFS).encode()
LAST_BYTES = 1 << 16
LONGEST_ERROR = 300
READ_ONLY_HINT = (
    "it could not write a file (see its .err in log/): expected /tmp, $TRUNKLINE_RESULTS, and "
    "the folders in files.writable"
)


def _write_step_times(times: ComputeTime, file: Path) -> None:
    """Write the times of a site's steps in seconds, a line each."""
    steps = 1 if isinstance(times.distribution, Constant) else STEPS
    file.write_text("".join(f"{times.time_s(step)!r}\n" for step in range(steps)))


@dataclass(slots=True)
class _Life:
    """The present process of a program, and what remains of those before.

    Attributes:
        watches: what is still expected in its output and in its errors.
        attempts: how many processes it has had.
        restarts: how often its own rule has started it again.
        over: whether it has ended, and its own rule does not start it again.
        given_up: whether its own rule would, but has done so often enough.
        was_ready: whether one of its processes was ready.
        is_ready: whether the present one is.
        failed: whether it has failed, so that the run ends.
    """

    program: Program
    watches: tuple[OutputWatch, OutputWatch]
    child: Child | None = None
    outputs: Sequence[Output] = ()
    attempts: int = 0
    restarts: int = 0
    over: bool = False
    given_up: bool = False
    was_ready: bool = False
    is_ready: bool = False
    failed: bool = False


class ProgramChildren:
    """The programs of a run; see `supervisor.Children`.

    Attributes:
        comes_back: whether a fault that has stopped a program starts it again later.
    """

    pipes = 4
    signals: Mapping[AgentChange, int] = {
        "pause": program_init.PAUSE,
        "resume": program_init.RESUME,
        "leave": signal.SIGTERM,
    }

    def __init__(self, scenario: Scenario, network: Network, run_id: str, log_dir: Path) -> None:
        self.timers = Punctuality() if scenario.clock == "real" else None
        self.stop_s = math.inf
        self.plans = Schedule()
        self.schedule: Schedule | None = self.plans
        self.comes_back: Callable[[str], bool] = lambda name: False
        self.fork_again: Callable[[str], None] = lambda name: None
        self._scenario = scenario
        self._network = network
        self._log_dir = log_dir
        (log_dir / RESOLVER).write_text(name_server.RESOLVER)
        self._lives = {
            name: _Life(each, OutputWatch.of_streams(each.site, name, scenario.expect))
            for name, each in scenario.programs.items()
        }
        self._awaited = scenario.awaited
        self._codes: dict[Child, int] = {}
        self._is_free = scenario.clock == "virtual" and not scenario.workload.options.get("charge")
        self._epoch_ns = 0
        self._asked_to_stop = False

    def names(self) -> Iterator[str]:
        """The names of the programs."""
        yield from self._lives

    def fork(self, name: str, ends: Sequence[int], close: Callable[[], None]) -> Process:
        """Fork the init process of a program; it keeps no descriptors except `ends`."""
        life = self._lives[name]
        program = life.program
        sites = self._scenario.topology.site_names
        addresses = {site: self._network.address(site) for site in sites}
        results = self._log_dir.parent / RESULTS / name
        results.mkdir(parents=True, exist_ok=True)
        variables = program_init.environment(self._scenario, addresses, program, life.attempts)
        if program.step_times is not None:
            steps = self._log_dir / f"{name}.steps"
            _write_step_times(program.step_times, steps)
            variables[step_compute.FILE] = str(steps)
        life.attempts += 1
        post = program_init.Post(
            program.site,
            self._network.enter,
            self._log_dir / HOSTS,
            self._log_dir / RESOLVER,
            program.command,
            program.folder,
            {**variables, "TRUNKLINE_RESULTS": str(results)},
            bool(program.preload) and is_python(program.command),
            program.time_calls,
            program.time if site_accounts.is_kept(self._scenario) else None,
        )
        return program_init.fork_init(post, ends)

    def sinks(self, child: Child) -> Sequence[Sink]:
        life = self._lives[child.name]
        site = life.program.site
        life.child, life.over, life.is_ready, child.waits = child, False, False, True
        for name in (f"{child.name}.out", f"{child.name}.err"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            child.files.append(os.open(self._log_dir / name, flags, 0o644))
        former = life.outputs or [Output(-1, OUTPUT_LIMIT_BYTES)] * 2
        life.outputs = [
            replace(output, file=file) for output, file in zip(former, child.files, strict=True)
        ]
        here = [name for name, each in self._lives.items() if each.program.site == site]
        first = first_process(here, child.name, life.attempts - 1)
        reports, control = Reports(site, first), Lines()

        def take_reports(data: bytes) -> Iterable[LoggedEvent]:
            now_ns = min(time.monotonic_ns(), child.stopped_ns)
            return reports.events(data, self._epoch_ns, int(now_ns))

        def take_control(data: bytes) -> Iterator[LoggedEvent]:
            for message in map(json.loads, control.split(data)):
                if "ready" in message:
                    child.ready = True
                elif "failed" in message:
                    yield failure(site, self._now_ns(), message["failed"])
                else:
                    self._codes[child] = message["ended"]

        return (*self._take_outputs(life), take_reports, take_control)

    def _take_outputs(self, life: _Life) -> Iterator[Sink]:
        """The sinks of a program's output and errors.

        Lines in them may say that it is ready, or be those that the scenario expects.
        """
        ready, child = life.program.ready, life.child
        line = None if ready is None else ready.line
        streams = zip(("out", "err"), life.outputs, life.watches, strict=True)
        for stream, output, watch in streams:
            search = None if line is None else LineSearch(re.compile(line))

            def take(
                data: bytes,
                stream: str = stream,
                output: Output = output,
                watch: OutputWatch = watch,
                search: LineSearch | None = search,
            ) -> Iterator[LoggedEvent]:
                output.copy(data)
                if self._is_free and not life.failed:
                    yield from self._find_flood(life, stream, output, data)
                if watch.left:  # reading the clock takes virtual time
                    yield from watch.events(data, self._now_ns())
                is_open = search is not None and life.child is child and not life.is_ready
                if search is not None and is_open and search.finds(data):
                    yield from self._note_ready(life)

            yield take

    def _find_flood(
        self, life: _Life, stream: str, output: Output, data: bytes
    ) -> Iterator[LoggedEvent]:
        """The failure of a program whose output keeps the clock from moving."""
        if flood := output.find_flood(data, self._now_ns):
            why = "output takes no time, so that the virtual clock would stand still"
            kept = f"log/{life.program.name}.{stream} has the first of it"
            yield self._fail(life, f"wrote {flood}: {why} ({kept})")

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._epoch_ns if self._epoch_ns else 0

    def begin(self, ready: Iterable[Child], epoch_ns: int) -> Iterator[LoggedEvent]:
        is_start = not self._epoch_ns
        if is_start:
            self._epoch_ns = epoch_ns
            if self._scenario.stop.time_s:
                self.stop_s = epoch_ns / 1e9 + self._scenario.stop.time_s
            yield LoggedEvent.of(ProgramsStarted(0, RUNNER))
        now_ns = epoch_ns if is_start else time.monotonic_ns()
        for child in ready:
            yield from self._start(self._lives[child.name], now_ns)

    def stop(self, begun: Iterable[Child], cause: Ending) -> None:
        self._asked_to_stop = True

    def note_change(self, child: Child, do: AgentChange) -> None:
        now_ns, life = time.monotonic_ns(), self._lives[child.name]
        if do == "leave":
            self.plans.add(now_ns + round(LEAVE_S * 1e9), lambda: self._end_leaving(child))
        elif do == "resume":
            self.plans.add(now_ns, lambda: self._start(life))

    def _end_leaving(self, child: Child) -> Iterable[LoggedEvent]:
        if child.code is None:
            child.process.send(signal.SIGKILL)
        return ()

    def cause_to_end(self, forked: Sequence[Child]) -> Ending | None:
        """Why the run ends: a program failed, or those of the stop condition have exited."""
        stop = self._scenario.stop
        if any(life.failed for life in self._lives.values()):
            return ProgramFailed()
        if self._asked_to_stop:
            return Asked()
        if all(map(self._is_over, self._awaited)):
            return ProgramsExited(self._awaited, all=all(map(self._is_over, self._lives)))
        if stop.time_s is not None and time.monotonic() >= self.stop_s:
            return TimeUp(stop.time_s)
        return None

    def _is_over(self, name: str) -> bool:
        return self._lives[name].over and not self.comes_back(name)

    def exit_events(self, child: Child, now_ns: Callable[[], int]) -> Iterator[LoggedEvent]:
        # The init process has exited, so no process is left that could write to the pipes.
        for fd, sink in zip(child.read_fds, child.sinks, strict=True):
            while not child.is_closed and (data := os.read(fd, READ_BYTES)):
                yield from sink(data)
        life = self._lives[child.name]
        for watch in life.watches:
            if watch.left and (watch.lines.rest or watch.nearest):
                yield from watch.end(self._now_ns())
        status = child.process.wait()
        child.code = self._codes.pop(child, status) if status >= 0 else status
        code, number = max(child.code, 0), max(-child.code, 0)
        asked = child.asked or (child.fault is not None and child.stopped_ns == math.inf)
        t_ns = now_ns()
        if life.child is child:
            yield from self._note_exit(life, child, t_ns)
        exited = AgentExited(t_ns, RUNNER, child.name, code, number, asked=asked, fault=child.fault)
        yield LoggedEvent.of(exited)

    def is_failure(self, event: AgentExited) -> bool:
        return self._lives[event.who].failed and not event.asked and event.fault is None

    # -- the life of a program ------------------------------------------------------------------

    def _start(self, life: _Life, now_ns: int | None = None) -> Iterator[LoggedEvent]:
        """Start the program's present process, unless it has to wait for something."""
        child, program = life.child, life.program
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        if child is None or not (child.waits and child.ready) or child.paused:
            return
        if child.asked or child.has_ended:
            return
        if not all(
            each.was_ready for each in self._lives.values() if each.program.role in program.after
        ):
            return
        due_ns = self._epoch_ns + round(program.start_s * 1e9)
        if now_ns < due_ns:
            self.plans.add(due_ns, lambda: self._start(life))
            return
        child.waits = False
        attempt, t_ns = life.attempts - 1, now_ns - self._epoch_ns
        if attempt:
            for output in life.outputs:
                output.note(f"started again at {t_ns / 1e9:.6f} s, attempt {attempt}")
        yield LoggedEvent.of(ProgramStarted(t_ns, RUNNER, child.name, attempt))
        child.tell(b"!")
        if program.ready is None:
            yield from self._note_ready(life)
            return
        limit_ns = now_ns + round(program.ready.within_s * 1e9)
        self.plans.add(limit_ns, lambda: self._expect_ready(life, child))
        if program.ready.port is not None:
            self.plans.add(now_ns, lambda: self._look_up_port(life, child))

    def _look_up_port(self, life: _Life, child: Child) -> Iterator[LoggedEvent]:
        ready = life.program.ready
        if life.child is not child or life.over or ready is None or ready.port is None:
            return
        if listens(child.process.pid, ready.port):
            yield from self._note_ready(life)
        else:
            self.plans.add(time.monotonic_ns() + POLL_NS, lambda: self._look_up_port(life, child))

    def _note_ready(self, life: _Life) -> Iterator[LoggedEvent]:
        """Let those start that wait for this program."""
        program = life.program
        life.is_ready = True
        if program.ready is not None:
            event = ProgramReady(self._now_ns(), RUNNER, program.name, life.attempts - 1)
            yield LoggedEvent.of(event)
        if not life.was_ready:
            life.was_ready = True
            for other in self._lives.values():
                if program.role in other.program.after:
                    yield from self._start(other)

    def _expect_ready(self, life: _Life, child: Child) -> Iterator[LoggedEvent]:
        ready = life.program.ready
        if life.child is child and not life.over and not life.is_ready and ready is not None:
            yield self._fail(life, f"expected {ready} within {ready.within_s:g} s")

    def _note_exit(self, life: _Life, child: Child, t_ns: int) -> Iterator[LoggedEvent]:
        """The present process has ended: whether it is started again, and whether it has failed."""
        assert child.code is not None
        program = life.program
        life.over = True
        if child.asked or (child.fault is not None and self.comes_back(program.name)):
            return
        if child.fault is None and program.comes_back(child.code, life.restarts):
            assert program.restart is not None
            delay_s = program.restart.delay_s(life.restarts)
            life.restarts += 1
            life.over = False
            at_ns = self._epoch_ns + t_ns + round(delay_s * 1e9)
            self.plans.add(at_ns, lambda: self._start_again(life, child))
            return
        if child.fault is None and program.is_given_up(child.code, life.restarts):
            life.given_up = True
            for output in life.outputs:
                output.note(f"not started again at {t_ns / 1e9:.6f} s, {program.last_restart}")
        if child.fault is None and not program.may_end_with(child.code):
            life.failed = True
            if READ_ONLY in self._last_errors(program.name):
                yield failure(program.site, t_ns, READ_ONLY_HINT)
        waiting = [
            each.program.name
            for each in self._lives.values()
            if program.role in each.program.after and each.child and each.child.waits
        ]
        if waiting and not life.was_ready:
            yield self._fail(
                life, f"ended before it was ready, and {waiting[0]} waits for it", t_ns
            )

    def _start_again(self, life: _Life, child: Child) -> Iterable[LoggedEvent]:
        if life.child is child:
            self.fork_again(child.name)
        return ()

    def _fail(self, life: _Life, why: str, t_ns: int | None = None) -> LoggedEvent:
        life.failed = True
        t_ns = self._now_ns() if t_ns is None else t_ns
        who = f"{life.program.name}: " if life.program.role else ""
        return failure(life.program.site, t_ns, f"{who}{why}")

    def last_restart(self, name: str) -> str:
        """The last restart of a program that is given up, in words; else empty."""
        life = self._lives[name]
        return life.program.last_restart if life.given_up else ""

    def last_error(self, name: str) -> str:
        """The last line that a program wrote to its standard error; empty if there is none."""
        lines = self._last_errors(name).decode(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip() and not line.startswith(NOTE)]
        return said[-1][:LONGEST_ERROR] if said else ""

    def _last_errors(self, name: str) -> bytes:
        """The end of what a program wrote to its standard error."""
        return read_tail(self._log_dir / f"{name}.err", LAST_BYTES)
