"""A program's keeper: the first process of the small world that a site's program lives in.

The world has the site's network, process ids of its own, and the site's name; every site's name
resolves in it. The keeper starts the program, reaps whatever loses its parent, says how the program
ended and ends itself. The kernel then ends everything that is left in the world, daemons too; and
when whoever forked the keeper dies, the keeper dies with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import json
import os
import resource
import runpy
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

REPORTS_FD, CONTROL_FD, GATE_FD = 3, 4, 5
REPORTS = f"/proc/1/fd/{REPORTS_FD}"
"""Where a program writes its reports: the keeper holds the pipe open for every descendant."""

NOT_STARTED = 127

PAUSE, RESUME = signal.SIGUSR1, signal.SIGUSR2
"""What a keeper hears when everybody in its world is to stop, or to go on."""

_NEW_MOUNTS, _NEW_NAME, _NEW_PROCESSES = 0x00020000, 0x04000000, 0x20000000
_BIND, _PRIVATE_BELOW = 0x1000, 0x44000
_PARENT_DEATH_SIGNAL = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Post:
    """What a keeper is to do. `python` runs the command's file in this very interpreter."""

    site: str
    enter: Callable[[str], None]
    hosts: Path
    command: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    python: bool


@contextlib.contextmanager
def new_processes() -> Iterator[None]:
    """What is forked inside is the first process of a world; it has to be forked at once."""
    here = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("make process ids", _libc.unshare, _NEW_PROCESSES)
        yield
        _call("return to its process ids", _libc.setns, here, _NEW_PROCESSES)
    finally:
        os.close(here)


def keep(post: Post, pipes: Sequence[int], held: Collection[int]) -> NoReturn:
    """Be the keeper, in a process forked for it with the signals `held` to restore.

    `pipes` are this side's ends of five. The first two get the program's output and errors, the
    third what it writes to REPORTS. The fourth, for control, gets a JSON object per line:
    `{"ready": true}`, `{"failed": why}`, `{"ended": exit code or -signal}`. The program starts
    when the last, the gate, gives a byte.
    """
    said_to = pipes[-2]
    try:
        _call("tie itself to its parent", _libc.prctl, _PARENT_DEATH_SIGNAL, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for heard, told in (
            (signal.SIGTERM, (signal.SIGTERM, signal.SIGCONT)),
            (PAUSE, (signal.SIGSTOP,)),
            (RESUME, (signal.SIGCONT,)),
        ):
            signal.signal(heard, functools.partial(_signal_everybody, told))
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        post.enter(post.site)
        _take_places(pipes)
        said_to = CONTROL_FD
        _furnish(post)
        program = os.fork()
        if program == 0:
            _be_program(post)
        _say(said_to, {"ready": True})
        while True:
            dead, status = os.wait()
            if dead == program:
                _say(said_to, {"ended": os.waitstatus_to_exitcode(status)})
                os._exit(0)
    except BaseException as error:
        _say(said_to, {"failed": str(error)})
    finally:
        os._exit(NOT_STARTED)


def _take_places(pipes: Sequence[int]) -> None:
    """Handles 0 to 5 are nothing, output, errors, reports, control, gate; there are no others."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [fcntl.fcntl(pipe, fcntl.F_DUPFD, GATE_FD + 1) for pipe in pipes]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for place, pipe in enumerate(spare, start=1):
        os.dup2(pipe, place, inheritable=place <= 2)
    os.closerange(GATE_FD + 1, most)


def _furnish(post: Post) -> None:
    """Mounts, a name, and names for all sites, seen by nobody outside."""
    _call("make its mounts", _libc.unshare, _NEW_MOUNTS | _NEW_NAME)
    _mount("none", "/", flags=_PRIVATE_BELOW)
    _mount("proc", "/proc", kind="proc")
    _mount(str(post.hosts), "/etc/hosts", flags=_BIND)
    socket.sethostname(post.site)


def _be_program(post: Post) -> NoReturn:
    """Wait for the start, then be the program."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    try:
        if not os.read(GATE_FD, 1):
            os._exit(NOT_STARTED)  # whoever was to start it is gone
        os.chdir(post.folder)
        if post.python:
            _be_python(post)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(post.command[0], post.command, dict(post.environment))
    except OSError as error:
        what = f"cannot run {post.command[0]} in {post.folder}: {error.strerror}"
        _say(CONTROL_FD, {"failed": what})
    finally:
        os._exit(NOT_STARTED)


def _be_python(post: Post) -> NoReturn:
    """Run the file as `python FILE` would, with the modules that are here already."""
    for handle in (REPORTS_FD, CONTROL_FD, GATE_FD):
        os.close(handle)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(post.environment)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1)
    file, *_ = sys.argv = list(post.command[1:])
    sys.path[0] = str((post.folder / file).resolve().parent)
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
    os._exit(code if isinstance(code, int) else int(code is not None))


def _signal_everybody(numbers: Sequence[int], *_: object) -> None:
    with contextlib.suppress(ProcessLookupError):
        for number in numbers:
            os.kill(-1, number)


def _say(handle: int, line: dict[str, Any]) -> None:
    os.write(handle, json.dumps(line).encode() + b"\n")


def _mount(source: str, target: str, *, kind: str = "", flags: int = 0) -> None:
    arguments = (source.encode(), target.encode(), kind.encode() or None, flags, None)
    _call(f"mount {target}", _libc.mount, *arguments)


def _call(what: str, function: Callable[..., int], *arguments: Any) -> None:
    if function(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot {what}: {os.strerror(error)}")
