"""Runs a scenario's own programs, one at each site, in the place of agents.

It offers what `harness.session.agent_supervisor` offers. Each program is forked with a keeper
(`harness.session.program_init`), which is all that has to be ended for nothing to be left. What
programs print goes to the run's `log/`, what they report becomes events.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trunkline.agents.control.termination import ASKED
from trunkline.agents.wire.clock import Punctuality
from trunkline.harness.network.interface import Network
from trunkline.harness.processes.ownership import signals_held
from trunkline.harness.processes.timer import wait_for_start
from trunkline.harness.record import events
from trunkline.harness.scenario.loading import Scenario
from trunkline.harness.session import program_init
from trunkline.harness.session.program_output import (
    OUTPUT_LIMIT_BYTES,
    REPORT_LIMIT_BYTES,
    REPORTS_LIMIT,
    Event,
    Lines,
    Output,
    report,
)
from trunkline.workloads import kinds
from trunkline.workloads.program import Program, is_python, search_path

GRACE_S = 5.0
"""What programs get to end after SIGTERM, in seconds of the run's clock, before SIGKILL."""

MASTER_PORT = 29500
"""Where torch.distributed's rank 0 listens; nobody else is in the site's network."""

READ_BYTES = 1 << 18


def environment(
    scenario: Scenario, addresses: Mapping[str, str], site: str, program: Program
) -> dict[str, str]:
    """What the program of a site finds in its environment; `addresses` are by site, in rank order.

    The same names as torchrun's, so that a program that torchrun starts runs unchanged.
    """
    sites = list(addresses)
    place = {"RANK": str(sites.index(site)), "WORLD_SIZE": str(len(sites))}
    return {
        **os.environ,
        "PATH": search_path(),
        "HOSTNAME": site,
        "TRUNKLINE_SITE": site,
        **{f"TRUNKLINE_{name}": value for name, value in place.items()},
        "TRUNKLINE_SITES": ",".join(sites),
        "TRUNKLINE_ADDRESSES": ",".join(addresses.values()),
        "TRUNKLINE_CLOCK": scenario.clock,
        "TRUNKLINE_SEED": str(scenario.seed),
        "TRUNKLINE_REPORTS": program_init.REPORTS,
        **place,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": addresses[sites[0]],
        "MASTER_PORT": str(MASTER_PORT),
        **program.env,
    }


@dataclass(slots=True)
class Running:
    """A program that was started; `code` is its exit code or minus the signal, None before.

    `sinks` says what becomes of what comes out of each pipe.
    """

    site: str
    pid: int
    pidfd: int
    gate: int
    outputs: tuple[Output, ...]
    sinks: Mapping[int, Callable[[Running, bytes], Iterable[Event]]]
    control: Lines = field(default_factory=Lines)
    reports: Lines = field(default_factory=Lines)
    reports_left: int = REPORTS_LIMIT
    ready: bool = False
    asked: bool = False
    said_code: int | None = None
    code: int | None = None


class Programs:
    """All programs of one run. Use as a context manager: leaving it ends whatever still runs."""

    def __init__(self, scenario: Scenario, network: Network, run_id: str, log_dir: Path) -> None:
        self._scenario = scenario
        self._network = network
        self._log_dir = log_dir
        sites, workload = scenario.topology.site_names, scenario.workload
        self._programs: dict[str, Program] = kinds()[workload.kind].placed(sites, workload.options)
        self._all: list[Running] = []
        self._selector = selectors.DefaultSelector()
        self._timers = Punctuality()
        self._deadline_s = math.inf
        self._deadline_text = ""
        self._kill_s: float | None = None
        self._asked_to_stop = False
        self.epoch_ns = 0

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._selector.close()

    def start(self) -> None:
        """Fork every program and its keeper; `events` lets them begin. Raises OSError."""
        topology, addresses = self._scenario.topology, {}
        for site in topology.site_names:
            addresses[site] = self._network.address(site)
        hosts = self._log_dir / "hosts"
        lines = ["127.0.0.1 localhost", *(f"{at} {site}" for site, at in addresses.items())]
        hosts.write_text("\n".join(lines) + "\n")
        gc.collect()
        gc.freeze()
        addresses = {site: addresses[site] for site in self._programs}
        for site, program in self._programs.items():
            variables = environment(self._scenario, addresses, site, program)
            python = bool(program.preload) and is_python(program.command)
            post = program_init.Post(
                site, self._network.enter, hosts, program.command, program.folder, variables, python
            )
            self._fork(post)

    def events(self) -> Iterator[Event]:
        """What programs report, as it comes, and how each ends, until all have exited.

        When all are ready, the clock starts: `epoch_ns` is set and they begin. When those that the
        scenario's stop condition waits for have exited, or one has failed, the others are told to
        end. Raises TimeoutError when the run's budget, or what `limit` set, is over before that,
        OSError when a log is not writable.
        """
        run_s = self._scenario.limits.run_s
        self.limit(run_s, f"the run exceeded its {run_s:g} s")
        while any(program.code is None for program in self._all):
            yield from self._step()
            reason = None if self._told_to_end else self._reason_to_stop()
            if reason:
                yield self._event("stopping", reason=reason)
                self._tell_to_end()
            if not self._told_to_end and time.monotonic() >= self._deadline_s:
                raise TimeoutError(self._deadline_text)
        if self._scenario.clock == "real":
            watched = {"seconds": self._timers.late_s, "of_s": self._timers.watched_s}
            yield self._event("timers_late", **watched)

    def watch(self, fd: int, readable: Callable[[], None]) -> None:
        """Has `events` call a function whenever there is something to read from a descriptor."""
        self._selector.register(fd, selectors.EVENT_READ, readable)

    def unwatch(self, fd: int) -> None:
        """Forget what `watch` was told."""
        self._selector.unregister(fd)

    def stop(self) -> None:
        """Have all programs told to end, as the scenario's own end does."""
        self._asked_to_stop = True

    def limit(self, seconds: float, text: str) -> None:
        """Has `events` raise TimeoutError after this time, unless an earlier one is set."""
        deadline_s = time.monotonic() + seconds
        if deadline_s < self._deadline_s:
            self._deadline_s, self._deadline_text = deadline_s, text

    def pause(self, name: str) -> bool:
        """Stop a site's program, with all that it started; True if there was one to stop."""
        return self._tell(name, program_init.PAUSE)

    def resume(self, name: str) -> bool:
        """Let a paused program go on."""
        return self._tell(name, program_init.RESUME)

    def kill(self, name: str, fault: int) -> bool:
        """No program is killed: `scenario.timeline_section` refuses timelines that ask for it."""
        return False

    def restart(self, name: str) -> bool:
        """Neither is one started again."""
        return False

    def end(self) -> None:
        """End every program that still runs, with everything that it started, and wait for it."""
        try:
            self._tell_to_end()
            while any(program.code is None for program in self._all) and not self._killed:
                for _ in self._step():
                    pass
        finally:
            for program in self._all:
                if program.code is None:
                    _signal(program, signal.SIGKILL)
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(program.pid, 0)
                for handle in (program.pidfd, program.gate, *program.sinks):
                    os.close(handle)
                for output in program.outputs:
                    os.close(output.file)
            self._all.clear()

    def _fork(self, post: program_init.Post) -> None:
        """Fork one keeper, which says when it is ready."""
        with contextlib.ExitStack() as ours:
            outputs = []
            for name in (f"{post.site}.out", f"{post.site}.err"):
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                file = os.open(self._log_dir / name, flags, 0o644)
                outputs.append(Output(file, OUTPUT_LIMIT_BYTES))
                ours.callback(os.close, file)
            pipes = [os.pipe() for _ in range(4)]
            gate_end, gate = os.pipe()
            with signals_held() as held, program_init.new_processes():
                pid = os.fork()
                if pid == 0:
                    program_init.keep(post, [*(write for _, write in pipes), gate_end], held)
            ours.pop_all()
        for handle in (*(write for _, write in pipes), gate_end):
            os.close(handle)
        sinks = dict(
            zip(
                (read for read, _ in pipes),
                (self._print, self._complain, self._report, self._control),
                strict=True,
            )
        )
        program = Running(post.site, pid, os.pidfd_open(pid), gate, tuple(outputs), sinks)
        self._all.append(program)
        for handle in (program.pidfd, *sinks):
            self._selector.register(handle, selectors.EVENT_READ, program)

    # -- while they run ------------------------------------------------------------------------

    @property
    def _told_to_end(self) -> bool:
        return self._kill_s is not None

    @property
    def _killed(self) -> bool:
        return self._kill_s == math.inf

    def _reason_to_stop(self) -> str | None:
        """Why no program has anything left to do, None while some have."""
        stop = self._scenario.stop
        exited = [program for program in self._all if program.code is not None]
        awaited = self._programs if stop.exit in ("all", None) else stop.exit
        if any(program.code for program in exited):
            return "a program failed"
        if self._asked_to_stop:
            return ASKED
        if {program.site for program in exited} >= set(awaited or ()):
            names = "every site" if len(exited) == len(self._all) else ", ".join(awaited or ())
            return f"the program{'s' * (len(awaited or ()) > 1)} at {names} exited"
        if stop.time_s and time.monotonic() >= self._epoch_s + stop.time_s:
            return f"{stop.time_s:g} s are over"
        return None

    def _tell_to_end(self) -> None:
        """SIGTERM to everybody who still runs, and to all that they started; once."""
        if self._told_to_end:
            return
        for program in self._all:
            if program.code is None:
                program.asked = True
                _signal(program, signal.SIGTERM)
        self._kill_s = time.monotonic() + GRACE_S

    def _step(self) -> Iterator[Event]:
        """Wait for something to happen, not beyond the next deadline, and deal with it."""
        stop_s = self._scenario.stop.time_s
        if self._kill_s is not None:
            deadline_s = self._kill_s
        else:
            deadline_s = min(self._deadline_s, self._epoch_s + (stop_s or math.inf))
        for key, _ in self._select(deadline_s):
            if not isinstance(key.data, Running):
                key.data()
            elif key.fd == key.data.pidfd:
                yield from self._ended(key.data)
            elif key.data.code is None:
                yield from self._read(key.data, key.fd)
        if self._kill_s is not None and time.monotonic() >= self._kill_s:
            self._kill_s = math.inf  # once
            for program in self._all:
                if program.code is None:
                    _signal(program, signal.SIGKILL)

    def _select(self, deadline_s: float) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready by then. On a real clock, see meanwhile how late timers are."""
        period_s = self._timers.PERIOD_S if self._scenario.clock == "real" else math.inf
        while True:
            start_s = time.monotonic()
            wait_s = min(max(0.0, deadline_s - start_s), period_s)
            ready = self._selector.select(wait_s if wait_s < math.inf else None)
            now_s = time.monotonic()
            if ready or now_s >= deadline_s:
                return ready
            self._timers.late_s += now_s - start_s - wait_s
            self._timers.watched_s += now_s - start_s

    def _read(self, program: Running, handle: int) -> Iterator[Event]:
        data = os.read(handle, READ_BYTES)
        if data:
            yield from program.sinks[handle](program, data)
        else:
            self._selector.unregister(handle)

    def _ended(self, program: Running) -> Iterator[Event]:
        """The keeper has ended, and with it everything that could write into its pipes."""
        self._selector.unregister(program.pidfd)
        status = os.waitstatus_to_exitcode(os.waitpid(program.pid, 0)[1])
        program.code = status if program.said_code is None else program.said_code
        for handle in program.sinks:
            while handle in self._selector.get_map():
                yield from self._read(program, handle)
        if program.said_code is not None:
            program.code = program.said_code
        code, killed = max(program.code, 0), max(-program.code, 0)
        who = {"who": program.site, "asked": program.asked}
        yield self._event("agent_exited", **who, code=code, signal=killed)

    def _print(self, program: Running, data: bytes) -> Iterable[Event]:
        program.outputs[0].copy(data)
        return ()

    def _complain(self, program: Running, data: bytes) -> Iterable[Event]:
        program.outputs[1].copy(data)
        return ()

    def _report(self, program: Running, data: bytes) -> Iterator[Event]:
        """Pass reports on; after the first that is wrong, and after too many, none is heard."""
        now_ns = time.monotonic_ns()
        for line in program.reports.of(data):
            if program.reports_left:
                program.reports_left -= 1
                try:
                    if not program.reports_left:
                        raise ValueError(f"allowed are {REPORTS_LIMIT - 1} of them")
                    yield report(line, program.site, self.epoch_ns, now_ns)
                except ValueError as error:
                    program.reports_left = 0
                    yield self._failure(program.site, f"a wrong report: {error}")
        program.reports.rest = program.reports.rest[:REPORT_LIMIT_BYTES]

    def _control(self, program: Running, data: bytes) -> Iterator[Event]:
        for line in program.control.of(data):
            said = json.loads(line)
            if "ready" in said:
                program.ready = True
                if all(each.ready for each in self._all):
                    yield self._begin()
            elif "failed" in said:
                yield self._failure(program.site, said["failed"])
            else:
                program.said_code = said["ended"]

    def _begin(self) -> Event:
        self.epoch_ns = wait_for_start()
        self._deadline_s = self.epoch_ns / 1e9 + self._scenario.limits.run_s
        for program in self._all:
            with contextlib.suppress(BrokenPipeError):  # killed already
                os.write(program.gate, b"!")
        return {"t_ns": 0, "site": events.RUNNER, "event": "programs_started"}

    def _tell(self, name: str, number: signal.Signals) -> bool:
        running = [each for each in self._all if each.site == name and each.code is None]
        for program in running:
            _signal(program, number)
        return bool(running)

    @property
    def _epoch_s(self) -> float:
        return self.epoch_ns / 1e9 if self.epoch_ns else math.inf

    def _failure(self, site: str, reason: str) -> Event:
        return {**self._event("agent_failed", reason=reason), "site": site}

    def _event(self, event: str, **fields: Any) -> Event:
        t_ns = time.monotonic_ns() - self.epoch_ns if self.epoch_ns else 0
        return {"t_ns": t_ns, "site": events.RUNNER, "event": event, **fields}


def _signal(program: Running, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(program.pidfd, number)
