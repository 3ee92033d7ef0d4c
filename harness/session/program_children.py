"""A scenario's own programs as children of the supervisor: one per site, instead of agents.

Each program has an init process (`program_init`); when that ends, the kernel ends all processes of
the program. The output of programs goes to the run's `log/`, and their reports become events.
"""

from __future__ import annotations

import errno
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from trunkline.agents.events.causes import Asked, Ending, ProgramFailed, ProgramsExited, TimeUp
from trunkline.agents.events.event import RUNNER
from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.run_events import AgentExited, ProgramsStarted
from trunkline.agents.wire.clock import Punctuality
from trunkline.harness.faults.timeline import AgentChange
from trunkline.harness.network.interface import HOSTS, Network
from trunkline.harness.processes.fork import Process
from trunkline.harness.processes.lines import Lines
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.session import program_init, site_accounts
from trunkline.harness.session.output_watch import OutputWatch
from trunkline.harness.session.program_output import OUTPUT_LIMIT_BYTES, Output, Reports, failure
from trunkline.harness.session.supervisor import READ_BYTES, Child, Sink
from trunkline.workloads.calls import call_timing, step_compute
from trunkline.workloads.compute_time import ComputeTime, Constant
from trunkline.workloads.program import Program, is_python, search_path

MASTER_PORT = 29500
"""Where torch.distributed's rank 0 listens; the site's network has no other listener."""

CALLS = str(Path(call_timing.__file__).parent)
"""The folder whose `sitecustomize.py` has a program's calls timed."""

STEPS = 4096
"""So many steps of a program have times of their own; then the first one follows again."""

RESULTS = "results"
"""The folder in a run's folder in which each site's program has one for its own files."""

READ_ONLY = os.strerror(errno.EROFS).encode()
LAST_BYTES = 1 << 16
READ_ONLY_HINT = (
    "it could not write a file (see its .err in log/): expected /tmp, $TRUNKLINE_RESULTS, and "
    "the folders in files.writable"
)


def environment(
    scenario: Scenario, addresses: Mapping[str, str], site: str, program: Program
) -> dict[str, str]:
    """The environment variables of a site's program; `addresses` are by site, in rank order.

    The names are those of torchrun, so that a program for torchrun runs unchanged.
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
        **_load_hooks(program),
    }


def _load_hooks(program: Program) -> dict[str, str]:
    """Have every Python of the program load what times its calls and lets its steps take time."""
    if not program.time_calls and program.step_times is None:
        return {}
    own = program.env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, (CALLS, own)))}
    optimizers = {step_compute.OPTIMIZERS: " ".join(program.optimizers)}
    return {
        **paths,
        **({call_timing.WANTED: "1"} if program.time_calls else {}),
        **(optimizers if program.optimizers else {}),
    }


def _write_step_times(times: ComputeTime, file: Path) -> None:
    """Write the times of a site's steps in seconds, a line each."""
    steps = 1 if isinstance(times.distribution, Constant) else STEPS
    file.write_text("".join(f"{times.time_s(step)!r}\n" for step in range(steps)))


class ProgramChildren:
    """The programs of a run; see `supervisor.Children`."""

    pipes = 4
    signals: Mapping[AgentChange, int] = {
        "pause": program_init.PAUSE,
        "resume": program_init.RESUME,
    }

    def __init__(self, scenario: Scenario, network: Network, run_id: str, log_dir: Path) -> None:
        self.timers = Punctuality() if scenario.clock == "real" else None
        self.stop_s = math.inf
        self._scenario = scenario
        self._network = network
        self._log_dir = log_dir
        sites, workload = scenario.topology.site_names, scenario.workload
        self._programs: dict[str, Program] = workload.module.place_programs(
            sites, workload.options, scenario.seed
        )
        self._codes: dict[str, int] = {}
        self._watches: dict[str, list[OutputWatch]] = {}
        self._epoch_ns = 0
        self._asked_to_stop = False

    def names(self) -> Iterator[str]:
        """The sites that have programs."""
        yield from self._programs

    def fork(self, name: str, ends: Sequence[int], close: Callable[[], None]) -> Process:
        """Fork the init process of a site's program; it keeps no descriptors except `ends`."""
        program = self._programs[name]
        addresses = {site: self._network.address(site) for site in self._programs}
        results = self._log_dir.parent / RESULTS / name
        results.mkdir(parents=True, exist_ok=True)
        variables = environment(self._scenario, addresses, name, program)
        if program.step_times is not None:
            steps = self._log_dir / f"{name}.steps"
            _write_step_times(program.step_times, steps)
            variables[step_compute.FILE] = str(steps)
        post = program_init.Post(
            name,
            self._network.enter,
            self._hosts,
            program.command,
            program.folder,
            {**variables, "TRUNKLINE_RESULTS": str(results)},
            bool(program.preload) and is_python(program.command),
            program.time_calls,
            program.time if site_accounts.is_kept(self._scenario) else None,
        )
        return program_init.fork_init(post, ends)

    def sinks(self, child: Child) -> Sequence[Sink]:
        for name in (f"{child.name}.out", f"{child.name}.err"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            child.files.append(os.open(self._log_dir / name, flags, 0o644))
        output, errors = (self._copy(child.name, file) for file in child.files)
        reports, control = Reports(child.name), Lines()

        def take_reports(data: bytes) -> Iterable[LoggedEvent]:
            return reports.events(data, self._epoch_ns, time.monotonic_ns())

        def take_control(data: bytes) -> Iterator[LoggedEvent]:
            for message in map(json.loads, control.split(data)):
                if "ready" in message:
                    child.ready = True
                elif "failed" in message:
                    yield failure(child.name, self._now_ns(), message["failed"])
                else:
                    self._codes[child.name] = message["ended"]

        return (output, errors, take_reports, take_control)

    def _copy(self, name: str, file: int) -> Sink:
        """Copy one stream of a program to a file, and look for the lines that are expected."""
        output = Output(file, OUTPUT_LIMIT_BYTES)
        watch = OutputWatch.of(name, name, self._scenario.expect)
        self._watches.setdefault(name, []).append(watch)

        def take(data: bytes) -> Iterator[LoggedEvent]:
            output.copy(data)
            if watch.left:  # reading the clock takes virtual time
                yield from watch.events(data, self._now_ns())

        return take

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._epoch_ns if self._epoch_ns else 0

    def begin(self, ready: Iterable[Child], epoch_ns: int) -> Iterable[LoggedEvent]:
        self._epoch_ns = epoch_ns
        if self._scenario.stop.time_s:
            self.stop_s = epoch_ns / 1e9 + self._scenario.stop.time_s
        for child in ready:
            child.tell(b"!")
        return [LoggedEvent.of(ProgramsStarted(0, RUNNER))]

    def stop(self, begun: Iterable[Child]) -> None:
        self._asked_to_stop = True

    def cause_to_end(self, forked: Sequence[Child]) -> Ending | None:
        """Why the run ends: a program failed, or those of the stop condition have exited."""
        stop = self._scenario.stop
        exited = {child.name for child in forked if child.code is not None}
        awaited = stop.exit if isinstance(stop.exit, tuple) else tuple(self._programs)
        if any(child.code for child in forked):
            return ProgramFailed()
        if self._asked_to_stop:
            return Asked()
        if exited >= set(awaited):
            return ProgramsExited(awaited, all=len(exited) == len(forked))
        if stop.time_s is not None and time.monotonic() >= self.stop_s:
            return TimeUp(stop.time_s)
        return None

    def exit_events(self, child: Child, now_ns: Callable[[], int]) -> Iterator[LoggedEvent]:
        # The init process has exited, so no process is left that could write to the pipes.
        for fd, sink in zip(child.read_fds, child.sinks, strict=True):
            while data := os.read(fd, READ_BYTES):
                yield from sink(data)
        for watch in self._watches.pop(child.name, ()):
            if watch.left and watch.lines.rest:
                yield from watch.end(self._now_ns())
        child.code = self._codes.get(child.name, child.process.wait())
        if child.code and not child.asked and READ_ONLY in self._last_errors(child.name):
            yield failure(child.name, now_ns(), READ_ONLY_HINT)
        code, number = max(child.code, 0), max(-child.code, 0)
        exited = AgentExited(now_ns(), RUNNER, child.name, code, number, asked=child.asked)
        yield LoggedEvent.of(exited)

    def _last_errors(self, name: str) -> bytes:
        """The end of what a program wrote to its standard error."""
        with (self._log_dir / f"{name}.err").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            return file.read()

    @property
    def _hosts(self) -> Path:
        """The file that the programs see as /etc/hosts."""
        return self._log_dir / HOSTS
