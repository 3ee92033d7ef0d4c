"""A scenario's own programs as children of the supervisor, one at a site in the place of agents.

Each program is forked with an init process (`program_init`), which is all that has to be ended for
nothing to be left. What programs print goes to the run's `log/`, what they report becomes events.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trunkline.agents.control.termination import ASKED
from trunkline.agents.wire.clock import Punctuality
from trunkline.harness.network.interface import Network
from trunkline.harness.processes.fork import Process, signals_held
from trunkline.harness.processes.lines import Lines
from trunkline.harness.record.events import RUNNER
from trunkline.harness.scenario.loading import Scenario
from trunkline.harness.session import program_init
from trunkline.harness.session.program_output import (
    OUTPUT_LIMIT_BYTES,
    REPORT_LIMIT_BYTES,
    REPORTS_LIMIT,
    Output,
    report,
)
from trunkline.harness.session.supervisor import READ_BYTES, Event
from trunkline.workloads import kinds
from trunkline.workloads.program import Program, is_python, search_path

MASTER_PORT = 29500
"""Where torch.distributed's rank 0 listens; the site's network has no other listener."""


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
class ProgramChild:
    """One program that was forked with its init process, and the supervisor's ends of the pipes.

    `gate_fd` starts the program, `outputs` are its two files in `log/`.
    """

    name: str
    process: Process
    gate_fd: int
    read_fds: tuple[int, ...]
    outputs: tuple[Output, ...]
    fault: int | None = None
    asked: bool = False
    ready: bool = False
    epoch_ns: int = 0
    control: Lines = field(default_factory=Lines)
    reports: Lines = field(default_factory=Lines)
    reports_left: int = REPORTS_LIMIT
    ended_with: int | None = None

    @property
    def code(self) -> int | None:
        """The program's exit code or minus the signal, None while its init process is there."""
        if self.process.code is None or self.ended_with is None:
            return self.process.code
        return self.ended_with

    @property
    def sinks(self) -> Mapping[int, Callable[[bytes], Iterable[Event]]]:
        """See `supervisor.Child`."""
        output, errors = (each.copy for each in self.outputs)
        sinks = (output, errors, self._take_reports, self._take_control)
        return dict(zip(self.read_fds, sinks, strict=True))

    def _take_reports(self, data: bytes) -> Iterator[Event]:
        """Pass reports on; none after the first that is wrong, and none after too many."""
        now_ns = time.monotonic_ns()
        for line in self.reports.split(data):
            if self.reports_left:
                self.reports_left -= 1
                try:
                    if not self.reports_left:
                        raise ValueError(f"allowed are {REPORTS_LIMIT - 1} of them")
                    yield report(line, self.name, self.epoch_ns, now_ns)
                except ValueError as error:
                    self.reports_left = 0
                    yield self._failure(f"a wrong report: {error}")
        self.reports.rest = self.reports.rest[:REPORT_LIMIT_BYTES]

    def _take_control(self, data: bytes) -> Iterator[Event]:
        for message in map(json.loads, self.control.split(data)):
            if "ready" in message:
                self.ready = True
            elif "failed" in message:
                yield self._failure(message["failed"])
            else:
                self.ended_with = message["ended"]

    def _failure(self, reason: str) -> Event:
        t_ns = time.monotonic_ns() - self.epoch_ns if self.epoch_ns else 0
        return {"t_ns": t_ns, "site": self.name, "event": "agent_failed", "reason": reason}

    def begin(self, epoch_ns: int) -> None:
        """Start the program."""
        self.epoch_ns = epoch_ns
        with contextlib.suppress(BrokenPipeError):  # it was killed already
            os.write(self.gate_fd, b"!")

    def exit_events(self, now_ns: Callable[[], int]) -> Iterator[Event]:
        """See `supervisor.Child`. With its init process all that could write to the pipes ended."""
        for fd, sink in self.sinks.items():
            while data := os.read(fd, READ_BYTES):
                yield from sink(data)
        code = self.code or 0
        yield {
            "t_ns": now_ns(),
            "site": RUNNER,
            "event": "agent_exited",
            "who": self.name,
            "asked": self.asked,
            "code": max(code, 0),
            "signal": max(-code, 0),
        }

    def close(self) -> None:
        """See `supervisor.Child`."""
        for fd in (self.gate_fd, *self.read_fds, *(output.file for output in self.outputs)):
            os.close(fd)


class ProgramChildren:
    """The programs of a run; see `supervisor.Children`."""

    pause_signal = program_init.PAUSE
    resume_signal = program_init.RESUME

    def __init__(self, scenario: Scenario, network: Network, run_id: str, log_dir: Path) -> None:
        self.forked: list[ProgramChild] = []
        self.timers = Punctuality() if scenario.clock == "real" else None
        self.stop_s = math.inf
        self._scenario = scenario
        self._network = network
        self._log_dir = log_dir
        sites, workload = scenario.topology.site_names, scenario.workload
        self._programs: dict[str, Program] = kinds()[workload.kind].placed(sites, workload.options)
        self._asked_to_stop = False

    def start(self) -> Iterator[ProgramChild]:
        """Write the sites' names for all programs, then fork them."""
        sites = self._scenario.topology.site_names
        lines = [f"{self._network.address(site)} {site}" for site in sites]
        self._hosts.write_text("\n".join(["127.0.0.1 localhost", *lines]) + "\n")
        for site in self._programs:
            yield self.fork(site)

    def fork(self, name: str) -> ProgramChild:
        """Fork the init process of a site's program, which says when it is ready."""
        program = self._programs[name]
        post = program_init.Post(
            name,
            self._network.enter,
            self._hosts,
            program.command,
            program.folder,
            environment(
                self._scenario,
                {site: self._network.address(site) for site in self._programs},
                name,
                program,
            ),
            bool(program.preload) and is_python(program.command),
        )
        with contextlib.ExitStack() as ours:
            outputs = []
            for file_name in (f"{name}.out", f"{name}.err"):
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                file = os.open(self._log_dir / file_name, flags, 0o644)
                outputs.append(Output(file, OUTPUT_LIMIT_BYTES))
                ours.callback(os.close, file)
            pipes = [os.pipe() for _ in range(4)]
            gate_end, gate_fd = os.pipe()
            ends = (*(write for _, write in pipes), gate_end)
            read_fds = tuple(read for read, _ in pipes)
            with signals_held():
                process = program_init.fork_init(post, ends)
                child = ProgramChild(name, process, gate_fd, read_fds, tuple(outputs))
                self.forked.append(child)
            ours.pop_all()
        for fd in ends:
            os.close(fd)
        return child

    def begin(self, ready: Iterable[ProgramChild], epoch_ns: int) -> Iterable[Event]:
        """Start the programs, all at once."""
        if self._scenario.stop.time_s:
            self.stop_s = epoch_ns / 1e9 + self._scenario.stop.time_s
        for child in ready:
            child.begin(epoch_ns)
        return [{"t_ns": 0, "site": RUNNER, "event": "programs_started"}]

    def stop(self) -> None:
        """Have all programs told to end, as the scenario's own end does."""
        self._asked_to_stop = True

    def reason_to_end(self) -> str | None:
        """A program failed, or those that the scenario's stop condition waits for have exited."""
        stop = self._scenario.stop
        exited = [child for child in self.forked if child.code is not None]
        awaited = tuple(self._programs) if stop.exit in ("all", None) else stop.exit or ()
        if any(child.code for child in exited):
            return "a program failed"
        if self._asked_to_stop:
            return ASKED
        if {child.name for child in exited} >= set(awaited):
            names = "every site" if len(exited) == len(self.forked) else ", ".join(awaited)
            return f"the program{'s' * (len(awaited) > 1)} at {names} exited"
        if time.monotonic() >= self.stop_s:
            return f"{stop.time_s:g} s are over"
        return None

    @property
    def _hosts(self) -> Path:
        """The file that the programs see as /etc/hosts."""
        return self._log_dir / "hosts"
