"""The init process of a site's program: the first process in the program's namespaces.

The namespaces have the site's network, their own process ids and the site's name; all sites' names
resolve there. The init process starts the program, answers questions about names, reaps orphans,
reports how the program ended and exits. The kernel then kills every process that is left in the
namespaces, daemons included. The init process also ends when the process that forked it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import resource
import runpy
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from trunkline.harness.processes.fork import HANDLERS, Process, fork
from trunkline.harness.processes.lines import encode
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.session import name_server, site_accounts
from trunkline.workloads.calls import call_timing, step_compute
from trunkline.workloads.program import search_path
from trunkline.workloads.program_roles import Program
from trunkline.workloads.site_time import SiteTime

REPORTS_FD, CONTROL_FD, GATE_FD = 3, 4, 5
REPORTS = f"/proc/1/fd/{REPORTS_FD}"
"""Where a program writes its reports: the init process holds the pipe open for all others."""

NOT_STARTED = 127

RESOLVER = "/etc/resolv.conf"

PAUSE, RESUME = signal.SIGUSR1, signal.SIGUSR2
"""With these signals the init process stops all its processes, and lets them continue."""

CALLS = str(Path(call_timing.__file__).parent)
"""The folder whose `sitecustomize.py` has a program's calls timed."""

_NEW_MOUNTS, _NEW_NAME, _NEW_PROCESSES = 0x00020000, 0x04000000, 0x20000000
_BIND, _PRIVATE_BELOW = 0x1000, 0x44000
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Post:
    """What to run at a site. With `python`, this interpreter itself runs the command's file.

    With `time_calls`, it times the file's calls of `torch.distributed`. With `time`, the program
    takes virtual time as that says.
    """

    site: str
    enter: Callable[[str], None]
    hosts: Path
    resolver: Path
    command: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    python: bool
    time_calls: bool = False
    time: SiteTime | None = None


def environment(
    scenario: Scenario, addresses: Mapping[str, str], program: Program, attempt: int = 0
) -> dict[str, str]:
    """The environment variables of a program; `addresses` are those of all sites.

    The names are those of torchrun, so that a program for torchrun runs unchanged. Those with PET_
    are the defaults of torchrun's own options: its nodes are the sites of the role.
    """
    sites = program.sites
    place = {"RANK": str(sites.index(program.site)), "WORLD_SIZE": str(len(sites))}
    first = {"MASTER_ADDR": addresses[sites[0]], "MASTER_PORT": str(program.master_port)}
    return {
        **os.environ,
        "PATH": search_path(),
        "HOSTNAME": program.site,
        "TRUNKLINE_SITE": program.site,
        "TRUNKLINE_SITE_RANK": str(program.site_rank),
        **({"TRUNKLINE_ROLE": program.role} if program.role else {}),
        **{f"TRUNKLINE_{name}": value for name, value in place.items()},
        "TRUNKLINE_SITES": ",".join(sites),
        "TRUNKLINE_ADDRESSES": ",".join(addresses[site] for site in sites),
        "TRUNKLINE_ATTEMPT": str(attempt),
        "TRUNKLINE_CLOCK": scenario.clock,
        "TRUNKLINE_SEED": str(scenario.seed),
        "TRUNKLINE_REPORTS": REPORTS,
        **place,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        **first,
        "PET_NODE_RANK": place["RANK"],
        "PET_NNODES": place["WORLD_SIZE"],
        **{f"PET_{name}": value for name, value in first.items()},
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


def fork_init(post: Post, pipes: Sequence[int]) -> Process:
    """Fork an init process. Call this with `signals_held`.

    `pipes` are the init process's ends of five pipes, in this order: the program's output, its
    errors, its reports (REPORTS), control, and the gate. Control gets one JSON object per line:
    `{"ready": true}`, `{"failed": why}` or `{"ended": exit code or -signal}`. The program starts
    when a byte arrives at the gate.
    """
    passed_on = {
        signal.SIGTERM: (signal.SIGTERM, signal.SIGCONT),
        PAUSE: (signal.SIGSTOP,),
        RESUME: (signal.SIGCONT,),
    }
    handlers = dict(HANDLERS)
    for number, to_all in passed_on.items():
        handlers[number] = functools.partial(_signal_all, to_all)
    with _new_process_ids():
        return fork(lambda: _run_init(post, pipes), handlers)


@contextlib.contextmanager
def _new_process_ids() -> Iterator[None]:
    """The next process forked inside becomes the first one of a new namespace of process ids."""
    here = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("make process ids", _libc.unshare, _NEW_PROCESSES)
        yield
        _call("return to its process ids", _libc.setns, here, _NEW_PROCESSES)
    finally:
        os.close(here)


def _run_init(post: Post, pipes: Sequence[int]) -> int:
    control = pipes[-2]
    try:
        post.enter(post.site)
        _place_pipes(pipes)
        control = CONTROL_FD
        _isolate(post)
        program = os.fork()
        if program == 0:
            _run_program(post)
        name_server.serve(post.hosts)
        os.write(control, encode({"ready": True}))
        while True:
            dead, status = os.wait()
            if dead == program:
                os.write(control, encode({"ended": os.waitstatus_to_exitcode(status)}))
                return 0
    except BaseException as error:
        os.write(control, encode({"failed": str(error)}))
        return NOT_STARTED


def _place_pipes(pipes: Sequence[int]) -> None:
    """Let descriptors 0 to 5 be /dev/null and the five pipes; close all others."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [fcntl.fcntl(pipe, fcntl.F_DUPFD, GATE_FD + 1) for pipe in pipes]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for place, pipe in enumerate(spare, start=1):
        os.dup2(pipe, place, inheritable=place <= 2)
    os.closerange(GATE_FD + 1, most)


def _isolate(post: Post) -> None:
    """Give the namespaces their own mounts, host name and /etc/hosts."""
    _call("make its mounts", _libc.unshare, _NEW_MOUNTS | _NEW_NAME)
    _mount("none", "/", flags=_PRIVATE_BELOW)
    _mount("proc", "/proc", kind="proc")
    _mount(str(post.hosts), "/etc/hosts", flags=_BIND)
    if Path(RESOLVER).exists():  # without it, programs ask the same name server
        _mount(str(post.resolver), RESOLVER, flags=_BIND)
    socket.sethostname(post.site)


def _run_program(post: Post) -> NoReturn:
    """Wait for the start, then become the program."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    try:
        if not os.read(GATE_FD, 1):
            os._exit(NOT_STARTED)  # the supervisor is gone
        if post.time is not None:
            site_accounts.join(post.site, post.time)
        os.chdir(post.folder)
        if post.python:
            _run_python(post)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(post.command[0], post.command, dict(post.environment))
    except OSError as error:
        what = f"cannot run {post.command[0]} in {post.folder}: {error.strerror}"
        os.write(CONTROL_FD, encode({"failed": what}))
    finally:
        os._exit(NOT_STARTED)


def _run_python(post: Post) -> NoReturn:
    """Run the file as `python FILE` would, but with the modules that are imported already."""
    for handle in (REPORTS_FD, CONTROL_FD, GATE_FD):
        os.close(handle)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(post.environment)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1)
    file, *_ = sys.argv = list(post.command[1:])
    sys.path[0] = str((post.folder / file).resolve().parent)
    if post.time_calls:
        call_timing.install()
    step_compute.install(call_timing)
    code: Any = 0
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as stop:
        code = stop.code
        if isinstance(code, str):
            sys.stderr.write(f"{code}\n")
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
        call_timing.settle(exits_at_once=True)
    os._exit(code if isinstance(code, int) else int(code is not None))


def _signal_all(numbers: Sequence[int], *_: object) -> None:
    """Send signals to all other processes of the namespace."""
    with contextlib.suppress(ProcessLookupError):
        for number in numbers:
            os.kill(-1, number)


def _mount(source: str, target: str, *, kind: str = "", flags: int = 0) -> None:
    arguments = (source.encode(), target.encode(), kind.encode() or None, flags, None)
    _call(f"mount {target}", _libc.mount, *arguments)


def _call(what: str, function: Callable[..., int], *arguments: Any) -> None:
    if function(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot {what}: {os.strerror(error)}")
