"""Carry out one run: create its folder, start its session, judge its results.

The session (`harness.session`) is a process in the embedded kernel or on this host. This module
passes its progress on, and then judges and draws its event log.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from trunkline.harness.checks.verdict import Verdict
from trunkline.harness.config.paths import ROOT
from trunkline.harness.kernel import KernelError, boot, build
from trunkline.harness.kernel.probes import has_cpuid_faulting, probe_programs, require
from trunkline.harness.kernel.process import POLL_S, Companion
from trunkline.harness.live.control_socket import ControlSocket
from trunkline.harness.live.live_state import Progress
from trunkline.harness.live.request_queue import HOLD
from trunkline.harness.network.namespace import check_rights
from trunkline.harness.processes import numerics, ownership
from trunkline.harness.processes.lines import Lines, decode
from trunkline.harness.record.run_folder import RunFolder, StoreError, environment
from trunkline.harness.runs.user_checks import judge_run
from trunkline.harness.scenario.loading import CannotRunError, resolve
from trunkline.harness.scenario.sections import limits
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.session import private_files, site_accounts
from trunkline.workloads.site_time import KEPT

GRACE_S = 15.0
"""What a session on this host gets to clean up after SIGTERM, in seconds, before SIGKILL."""

HOST_CPUID = (
    "Programs that use the instructions RDRAND or RDSEED do not repeat on this processor "
    "(docs/reproducibility.md)."
)


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run's verdict, its folder, and why its session failed, if it did."""

    verdict: Verdict
    run_dir: Path
    error: str | None


def run(
    scenario: Scenario,
    source: Path,
    runs_dir: Path,
    on_progress: Callable[[Progress], None],
    front: socket.socket | None = None,
    on_folder: Callable[[Path], None] = lambda run_dir: None,
) -> RunResult:
    """Carry out a scenario and judge it. Every process of the run has ended when this returns.

    Args:
        scenario: what to run.
        source: the scenario's file, which is copied beside the results.
        runs_dir: the folder of all runs.
        on_progress: is called with the progress and with messages.
        front: a socket to the prompt of `trunkline shell` (see `control_socket`). A virtual clock
            then stands still until the user asks for something that takes time.
        on_folder: is called with the run's folder while it is still empty.

    Raises:
        StoreError: the folder cannot be written.
        KernelError: there is no kernel, it failed, or the machine lacks something for it.
        NetworkError: this process may not build networks on this host.
        CannotRunError: the kernel lacks something: netem, a program, a data set.
    """
    check_machine(scenario)
    for writable in scenario.files.writable:
        if not Path(writable).is_dir():
            raise CannotRunError(f"files.writable: {writable}: there is no such folder")
    folder = RunFolder.create(runs_dir.resolve(), scenario.name, datetime.now())
    holds = front is not None and scenario.clock == "virtual"
    command = [
        sys.executable,
        "-m",
        "trunkline.harness.processes.first_imports",
        "trunkline.harness.session.run_session",
        str(folder.path),
        *([HOLD] * holds),
    ]
    try:
        on_folder(folder.path)
        folder.write_bytes("scenario.yaml", source.read_bytes())
        folder.write_text("resolved.yaml", resolve(scenario))
        folder.write_json("environment.json", describe_environment(scenario))
        _bring_charges(scenario, folder)
        with ControlSocket(folder.path, front) as control:
            session = _Session(folder, on_progress, control.relay)
            with session.own_error_first():
                code = run_command(
                    scenario, command, folder, session.read_output, control, session.note_time
                )
        if session.refused:
            raise CannotRunError(session.refused)
    except BaseException:
        with contextlib.suppress(OSError, StoreError):  # the first error says more
            folder.close_unjudged()
        raise
    error = session.error
    if code and not error:
        error = f"the session ended with code {code}; see {folder.log}/session.log"
    if not folder.events.exists():
        folder.write_text("events.jsonl", "")
    folder.be_latest()  # also a run that failed: its page says why
    try:
        verdict = judge_run(folder.path, on_step=session.show_step)
    except StoreError as refusal:
        rest = f"trunkline report {shlex.quote(str(folder.path))}"
        text = f"{refusal}\nThe run is over; judge it and write the rest with: {rest}"
        raise StoreError(text) from None
    return RunResult(verdict, folder.path, error)


def check_machine(scenario: Scenario) -> None:
    """Raise KernelError or NetworkError if this machine lacks what the scenario's runs need.

    So it is if the guest's memory cannot hold the models.
    """
    if scenario.backend == "embedded":
        boot.find_kernel()
        if shortage := limits.find_shortage(scenario):
            raise KernelError(shortage)
        boot.check_machine(scenario.limits.memory_bytes >> 20)
    else:
        require(probe_programs)
        check_rights()


def run_command(
    scenario: Scenario,
    command: Sequence[str],
    folder: RunFolder,
    on_output: Callable[[bytes], None],
    companion: Companion | None = None,
    on_time: Callable[[int, str | None], None] = lambda clock_ns, warning: None,
) -> int:
    """Run a command on the scenario's backend, and return its exit code.

    `on_output` gets the command's output. The `companion` exchanges messages with the command while
    it runs. `on_time` gets the command's monotonic clock several times a second, and a warning
    while a virtual clock has stood still for long. Raises KernelError.
    """
    if scenario.backend != "embedded":
        return _run_on_host(command, on_output, companion, on_time)
    return boot.run(
        command,
        clock=scenario.clock,
        seed=scenario.seed,
        parameters=(
            *scenario.network.kernel_parameters,
            *site_accounts.kernel_parameters(scenario),
        ),
        memory_mb=scenario.limits.memory_bytes >> 20,
        cwd=ROOT,
        visible=private_files.list_folders(scenario, folder.path),
        on_output=on_output,
        companion=companion,
        on_time=on_time,
    )


@dataclass(slots=True)
class _Session:
    """Reads what a session prints: one JSON object per line; anything else goes to its log.

    Between two reports of progress, `note_time` shows that the run's clock advances.
    """

    folder: RunFolder
    on_progress: Callable[[Progress], None]
    on_answer: Callable[[dict[str, Any]], None]
    error: str | None = None
    refused: str | None = None
    lines: Lines = field(default_factory=Lines)
    last: Progress | None = None
    last_ns: int | None = None

    def note_time(self, clock_ns: int, warning: str | None = None) -> None:
        """Take the present time of the session's clock, or a warning why it stands still."""
        if self.last is None:
            return
        if warning is not None:
            self.on_progress(replace(self.last, message=warning))
            return
        if self.last_ns is None:
            self.last_ns = clock_ns
        since_s = 0.0 if self.last.message else (clock_ns - self.last_ns) / 1e9
        self.on_progress(replace(self.last, virtual_s=self.last.virtual_s + since_s))

    def read_output(self, data: bytes) -> None:
        for line in self.lines.split(data):
            self._handle_line(line)

    def _handle_line(self, line: bytes) -> None:
        said = decode(line)
        if said is None:
            with (self.folder.log / "session.log").open("ab") as log:
                log.write(line + b"\n")
        elif "progress" in said:
            self._show(Progress(**said["progress"]))
        elif "message" in said:
            self._show(Progress(message=said["message"]))
        elif "error" in said:
            self.error = said["error"]
        elif "refused" in said:
            self.refused = said["refused"]
        else:
            self.on_answer(said)

    @contextlib.contextmanager
    def own_error_first(self) -> Iterator[None]:
        """Have a KernelError also say what the session said, such as who used the memory."""
        try:
            yield
        except KernelError as error:
            if self.error is None:
                raise
            raise KernelError(f"{self.error}; {error}") from None

    def show_step(self, step: str) -> None:
        """Show what is done after the session: the run's progress does not change any more."""
        self.on_progress(replace(self.last or Progress(), message=step))

    def _show(self, now: Progress) -> None:
        self.last, self.last_ns = now, None
        self.on_progress(now)


def describe_environment(scenario: Scenario) -> dict[str, object]:
    """The content of `environment.json`: versions, hosts, `--set`, this process as the owner."""
    guest = build.status().version if scenario.backend == "embedded" else None
    found = environment(
        backend=scenario.backend, clock=scenario.clock, seed=scenario.seed, guest_kernel=guest
    )
    if site_accounts.is_kept(scenario):
        found |= _describe_instructions()
    if matters := list(_list_reasons(scenario)):
        found["processor_matters"] = matters
    return {**found, **({"overrides": list(scenario.overrides)} if scenario.overrides else {})}


def _list_reasons(scenario: Scenario) -> Iterator[str]:
    """Why results of this machine's processor are not those of every other."""
    if scenario.clock == "real":
        yield "the real clock"
    if site_accounts.is_measured(scenario):
        yield "charged computing"
    if scenario.runs_programs and not has_cpuid_faulting():
        yield "programs may use its random numbers"
    if numerics.lacks_avx2():
        yield "without AVX2, training rounds differently"


def _bring_charges(scenario: Scenario, folder: RunFolder) -> None:
    """Copy the charges that a run is to use again into its folder. Raises CannotRunError."""
    if site_accounts.find_mode(scenario) != "replay":
        return
    given = scenario.workload.options["charge"]["replay"]
    try:
        folder.write_bytes(KEPT, Path(given, KEPT).read_bytes())
    except OSError as error:
        remedy = "the folder of a run with charge: {record: true}"
        what = f"workload.charge.replay: {given}/{KEPT}: {error.strerror}"
        raise CannotRunError(f"{what}; remedy: {remedy}") from error


def _describe_instructions() -> dict[str, object]:
    """What programs see of the host's processor, and why their run may not repeat."""
    masked = has_cpuid_faulting()
    return {
        "instructions": {"rdtsc": "virtual time", "cpuid": "masked" if masked else "of the host"},
        **({} if masked else {"remarks": [HOST_CPUID]}),
    }


@dataclass(frozen=True, slots=True)
class _OnHost:
    """A program on this host. The host's clock cannot be paused."""

    process: subprocess.Popen[bytes]

    def nudge(self) -> None:
        self.process.send_signal(signal.SIGUSR1)

    def pause(self) -> None:
        """Do nothing."""

    def resume(self) -> None:
        """Do nothing."""


def _run_on_host(
    command: Sequence[str],
    on_output: Callable[[bytes], None],
    companion: Companion | None,
    on_time: Callable[[int, str | None], None],
) -> int:
    """Run a session as a child process, which dies with this process; return its exit code."""
    # As in the embedded kernel: the order of sets and of floating-point sums must not vary.
    settings = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", **numerics.environment()}
    child = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", *command],
        cwd=ROOT,
        env={**ownership.environment(), **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    assert child.stdout is not None
    try:
        if companion is not None:
            companion.began(_OnHost(child))
        output = child.stdout.fileno()
        while True:
            beside = companion.handles() if companion is not None else {}
            with selectors.DefaultSelector() as selector:
                for handle in (output, *beside):
                    selector.register(handle, selectors.EVENT_READ)
                ready = {key.fd for key, _ in selector.select(POLL_S)}
            on_time(time.monotonic_ns(), None)
            if output in ready:
                data = os.read(output, 1 << 16)
                if not data:
                    return child.wait()
                on_output(data)
            for handle, act in beside.items():
                if handle in ready:
                    act()
    finally:
        child.stdout.close()
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
