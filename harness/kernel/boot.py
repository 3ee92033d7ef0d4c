"""Boots the embedded kernel for one program.

The program sees the host's files with the rights of this user, and is root inside. Its
environment has the variables of `INHERITED`, `ENVIRONMENT`, `numerics` and `env`, in this
order. `/run`, `/dev/shm` and `$TMPDIR` are the guest's own. A host folder below them stays
visible if it is `cwd`, holds this Python or this package, or is in `visible`.

A SIGINT or SIGTERM to this process goes to the program as SIGINT. The program has
INTERRUPT_GRACE_S to end. If it has not begun, or another process keeps it from running, the
guest ends at once. After the guest has ended, the signal takes its usual effect here.

`process` is the host's side of the running guest, `guest` is the first process inside.
"""

import contextlib
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trunkline.harness.config.paths import ROOT
from trunkline.harness.kernel import KernelError, build
from trunkline.harness.kernel.probes import (
    DEFAULT_MEMORY_MB,
    PROBES,
    extend_path,
    find_memory_folder,
    probe_processor,
    probe_programs,
    probe_tracing,
    require,
)
from trunkline.harness.kernel.process import Companion, Guest, Signals
from trunkline.harness.kernel.stall_watch import StallWatch
from trunkline.harness.processes import numerics
from trunkline.harness.processes.lines import write_all
from trunkline.harness.processes.needs import explain_error, find_problems
from trunkline.harness.processes.ownership import Owner

# The same environment for every program in the guest: equal hashes, a home and scratch space that
# end with the guest, no terminal, and the same numerics everywhere, with one thread, because the
# guest has one processor and a spinning helper thread stops virtual time.
ENVIRONMENT: Mapping[str, str] = {
    "HOME": "/run/tmp",
    "LANG": "C.UTF-8",
    # The heap keeps large blocks that are freed. As mappings of their own, they would be missed
    # page by page when they are used again, in no order (`guest._keep_memory_in_order`).
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "PYTHONHASHSEED": "0",
    # Mininet compares versions with distutils. setuptools would replace distutils by its own copy
    # and import all of itself. From Python 3.12 on there is no other distutils.
    "SETUPTOOLS_USE_DISTUTILS": "stdlib" if sys.version_info < (3, 12) else "local",
    "TERM": "dumb",
    "TMPDIR": "/run/tmp",
}

# The variables that are taken from the host's environment: the paths of programs and libraries.
INHERITED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")

# Host folders that the guest's own file systems hide.
COVERED = (Path("/run"), Path("/dev"))

# The guest's calendar clock begins here when its clock is virtual: 2026-01-01 00:00 UTC.
VIRTUAL_EPOCH_S = 1_767_225_600

# The guest waits this long before the program starts. Before its first tick its timers are late by
# milliseconds, and `ping` floods in the first second after boot. With a virtual clock the wait
# takes no time.
SETTLE_S = 1.0

TRY_OUT_LIMIT_S = 600.0
"""The real time in which a guest must boot, also on an emulated processor."""


def run(
    argv: Sequence[str],
    *,
    clock: Literal["virtual", "real"] = "virtual",
    cwd: Path | None = None,
    env: Mapping[str, str] = {},
    visible: Sequence[Path] = (),
    seed: int = 0,
    parameters: Sequence[str] = (),
    memory_mb: int = DEFAULT_MEMORY_MB,
    on_output: Callable[[bytes], None] | None = None,
    companion: Companion | None = None,
    on_time: Callable[[int, str | None], None] = lambda clock_ns, warning: None,
    stall_timeout_s: float | None = None,
    timeout_s: float | None = None,
    stdin: int | None = None,
    kernel: Path | None = None,
) -> int:
    """Runs `argv` inside the embedded kernel and returns its exit code (128 + n for signal n).

    Args:
        argv: the program and its arguments; the program is looked up in PATH.
        clock: "virtual" stands still while a process computes, jumps ahead while all processes
            sleep, and begins at VIRTUAL_EPOCH_S; "real" is the host's clock.
        cwd: the working folder; by default that of this process.
        env: additional environment variables.
        visible: host folders that must stay visible in the guest.
        seed: the seed of all random numbers of the guest's kernel (ports, hash keys,
            `/dev/urandom`). With the virtual clock, the same seed gives the same run.
        parameters: more words for the kernel's command line, such as `tcp_cubic.hystart=0`.
        memory_mb: the guest's memory in MiB; the host provides only the pages that it touches.
        on_output: gets the program's output as it comes; by default it goes to our standard output.
            While it leaves more than PIPE_BYTES unread, the program waits while virtual time runs.
        companion: talks to the program while it runs.
        on_time: gets the guest's monotonic clock in nanoseconds several times a second, and a
            warning while it has stood still for long.
        stall_timeout_s: the processor time in seconds that one process may use while the virtual
            clock stands still. A process that uses more counts as spinning, so choose more than the
            longest computation takes. By default a minute, or more if booting was slow. Unused with
            the real clock.
        timeout_s: the real time in seconds that the whole run may take; by default no limit.
        stdin: a file descriptor whose bytes are the program's standard input. By default that is a
            pipe that stays open and silent: at the end of input, many programs poll forever.
        kernel: the kernel to boot; by default this user's.

    Raises:
        KernelError: there is no kernel or no memory, or the guest crashed, spun or took too long.
    """
    memory_folder = check_machine(memory_mb)
    kernel = kernel or find_kernel()
    request = _make_request(argv, clock, cwd, env, visible)
    stall_timeout_s = stall_timeout_s if clock == "virtual" else math.inf
    service = _Service(companion, on_output or _to_stdout, on_time, stall_timeout_s, timeout_s)
    with Signals() as signals, _make_folder(memory_folder, request) as folder:
        arguments = _arguments(clock, seed, parameters, memory_mb, folder)
        with _start(kernel, arguments, Path(folder), stdin) as guest:
            service.serve(guest, signals)
        return guest.result()


def check_machine(memory_mb: int = DEFAULT_MEMORY_MB) -> Path:
    """Try all that a guest needs; the folder for its memory. Raises KernelError with a remedy."""
    for probe in (probe_processor, probe_programs, probe_tracing):
        require(probe)
    return find_memory_folder(memory_mb)


def try_out(kernel: Path) -> None:
    """Boot a kernel for a program that does nothing. Raises KernelError if that fails."""
    code = run(["true"], kernel=kernel, on_output=lambda _: None, timeout_s=TRY_OUT_LIMIT_S)
    if code != 0:
        raise KernelError(f"{kernel}: the embedded kernel boots, but `true` ended with code {code}")


@dataclass(frozen=True, slots=True)
class _Service:
    """What the host does for a guest while it runs; the arguments of `run` say what each one is.

    `deadline_s` is when the run has taken `timeout_s`.
    """

    companion: Companion | None
    on_output: Callable[[bytes], None]
    on_time: Callable[[int, str | None], None]
    stall_timeout_s: float | None
    timeout_s: float | None
    deadline_s: float = field(init=False)

    def __post_init__(self) -> None:
        limit_s = math.inf if self.timeout_s is None else self.timeout_s
        object.__setattr__(self, "deadline_s", time.monotonic() + limit_s)

    def serve(self, guest: Guest, signals: Signals) -> None:
        """Serve a guest until it ends. Raises KernelError if it spins or takes too long."""
        companion, watch = self.companion, StallWatch(guest, self.stall_timeout_s)
        if companion is not None:
            companion.began(guest)
        while guest.serve(self.on_output, companion.handles() if companion else {}):
            signals.pass_on_to(guest, companion)
            watch.check()
            self.on_time(guest.virtual_time_ns, watch.warning)
            if time.monotonic() > self.deadline_s:
                raise KernelError(f"the run took more than {self.timeout_s:g} s of real time")


def _make_request(
    argv: Sequence[str],
    clock: str,
    cwd: Path | None,
    env: Mapping[str, str],
    visible: Sequence[Path],
) -> dict[str, Any]:
    """What the guest's first process is asked to do. Raises KernelError if a folder is missing."""
    where = (cwd or Path.cwd()).absolute()
    for needed in (where, *visible):
        if not needed.is_dir():
            raise KernelError(f"{needed}: the guest needs this folder, and it does not exist")
    return {
        "argv": list(argv),
        "cwd": str(where),
        "env": _environment(env),
        "visible": _find_hidden((where, *visible)),
        "settle_s": SETTLE_S if clock == "virtual" else 0.0,
    }


@contextlib.contextmanager
def _make_folder(memory_folder: Path, request: Mapping[str, Any]) -> Iterator[str]:
    """A folder for the guest's memory and its request, while the guest runs."""
    with tempfile.TemporaryDirectory(
        prefix=Owner.me().prefix, dir=memory_folder, ignore_cleanup_errors=True
    ) as folder:
        Path(folder, "request.json").write_text(json.dumps(request))
        yield folder


def _start(kernel: Path, arguments: Sequence[str], folder: Path, stdin: int | None) -> Guest:
    try:
        return Guest(kernel, arguments, folder, stdin)
    except OSError as error:
        problems = "".join(f"\n{problem}" for problem in find_problems(PROBES))
        said = f"the embedded kernel cannot be started: {error}"
        if short := explain_error(error):
            said = f"{said}; {short[0]}; remedy: {short[1]}"
        raise KernelError(f"{said}{problems}") from error


def find_kernel() -> Path:
    """The embedded kernel. Raises KernelError with a remedy if it is not built."""
    kernel = build.path()
    if problem := build.find_problem(kernel):
        raise KernelError(
            f"{kernel}: the embedded kernel is {problem}; remedy: trunkline kernel build"
        )
    return kernel


def _arguments(
    clock: str, seed: int, parameters: Sequence[str], memory_mb: int, folder: str
) -> list[str]:
    interpreter = os.path.realpath(sys.executable)
    program = Path(__file__).with_name("guest.py")
    for word in (interpreter, str(program), folder):
        if '"' in word:
            raise KernelError(f"{word}: the embedded kernel takes no path with a quotation mark")
    virtual = ("time-travel=inf-cpu", f"time-travel-start={VIRTUAL_EPOCH_S * 10**9}")
    return [
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "rw",
        "quiet",
        f"mem={memory_mb}M",
        # Python orders sets of objects by their addresses, so equal runs need equal addresses.
        "norandmaps",
        # IPv6 sockets exist, because many programs open one for both families. But no interface has
        # an IPv6 address: IPv6 would announce itself at random times, and no two runs be equal.
        "ipv6.disable_ipv6=1",
        f"random_seed={seed % 2**64}",
        *(virtual if clock == "virtual" else ()),
        *parameters,
        f"uml_dir={folder}/uml",
        "umid=guest",
        f'init="{interpreter}"',
        "--",
        "-I",
        "-S",
        f'"{program}"',
        f'"{folder}"',
    ]


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment = {**inherited, **ENVIRONMENT, **numerics.environment(), **extra}
    return {**environment, "PATH": extend_path(environment.get("PATH"))}


def _find_hidden(wanted: Iterable[Path]) -> list[str]:
    """The folders that must stay visible and that the guest's mounts hide, outer ones first."""
    ours = (Path(sys.prefix), Path(sys.base_prefix), ROOT)
    folders = {folder.resolve() for folder in (*wanted, *ours)}
    hidden = (f for f in folders if any(f.is_relative_to(covered) for covered in COVERED))
    return sorted(map(str, hidden), key=len)


def _to_stdout(data: bytes) -> None:
    write_all(1, data)
