"""Boots the embedded kernel around one program: what the guest gets, and how its run ends.

`process` holds the host's side of the running guest, `guest` is the first process inside.
"""

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from trunkline.harness.config.paths import ROOT
from trunkline.harness.kernel import KernelError, build
from trunkline.harness.kernel.process import Companion, Guest, Signals, StallWatch
from trunkline.harness.processes.lines import write_all
from trunkline.harness.processes.ownership import FOLDER_PREFIX, Owner

# What every program in the guest gets, whatever the host's environment says: equal hashes, scratch
# space and a home that end with the guest, no terminal, and one thread for numerics, because the
# guest has one processor and a spinning helper thread stops virtual time.
ENVIRONMENT: Mapping[str, str] = {
    "HOME": "/run/tmp",
    "LANG": "C.UTF-8",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    # Mininet asks distutils for a version; setuptools would bring its own, and all of itself. It
    # has to from Python 3.12 on, which has none.
    "SETUPTOOLS_USE_DISTUTILS": "stdlib" if sys.version_info < (3, 12) else "local",
    "TERM": "dumb",
    "TMPDIR": "/run/tmp",
}

# All that is taken from the host's environment: where programs, libraries and modules are.
INHERITED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")

# Where the guest's memory may lie, best first.
MEMORY_FOLDERS = (Path("/dev/shm"), Path(tempfile.gettempdir()))

# Host folders that the guest covers with file systems of its own.
COVERED = (Path("/run"), Path("/dev"))

# The guest's calendar clock begins here when its clock is virtual: 2026-01-01 00:00 UTC.
VIRTUAL_EPOCH_S = 1_767_225_600

# Until its first tick the guest's timers are late by milliseconds, and `ping` floods while the
# machine is up for less than a second. With a virtual clock waiting costs nothing.
SETTLE_S = 1.0

GUEST_PATHS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def run(
    argv: Sequence[str],
    *,
    clock: Literal["virtual", "real"] = "virtual",
    cwd: Path | None = None,
    env: Mapping[str, str] = {},
    visible: Sequence[Path] = (),
    seed: int = 0,
    parameters: Sequence[str] = (),
    memory_mb: int = 6144,
    on_output: Callable[[bytes], None] | None = None,
    companion: Companion | None = None,
    stall_timeout_s: float | None = None,
    timeout_s: float | None = None,
) -> int:
    """Runs `argv` inside the embedded kernel and returns its exit code (128 + n for signal n).

    The program sees the host's files with the rights of this user and is root inside. Of our
    environment it gets what `INHERITED` names, then `ENVIRONMENT`, then `env`. `/run`, `/dev/shm`
    and `$TMPDIR` are the guest's own; a folder of ours under them stays in sight if it is `cwd`,
    holds this Python or this package, or is named in `visible`.

    Args:
        argv: the program and its arguments; the program is looked up in PATH.
        clock: "virtual" stops while any process computes, skips what all sleep through, and begins
            at VIRTUAL_EPOCH_S; "real" is the host's.
        cwd: working folder; ours by default.
        env: additional environment variables.
        visible: host folders that must stay in sight in the guest.
        seed: of everything that the guest's kernel draws at random (ports, hash keys,
            `/dev/urandom`); with the virtual clock, the same seed gives the same run.
        parameters: more words for the kernel's command line, such as `tcp_cubic.hystart=0`.
        memory_mb: the guest's memory; only what it touches is taken from the host.
        on_output: gets what the program prints, as soon as it does; by default it goes to our
            standard output. While a slow callee leaves more than PIPE_BYTES unread the program
            waits, and virtual time goes on.
        companion: talks to the program while it runs.
        stall_timeout_s: processor seconds that one process may burn while the virtual clock stands
            still, before it counts as spinning. A long computation of one process also looks like
            that: choose more than the longest one takes. By default it is a minute, or more where
            booting was slow. Unused with the real clock.
        timeout_s: real seconds that the whole run may take.

    A SIGINT or SIGTERM that we get is passed on as SIGINT to the program, which has
    INTERRUPT_GRACE_S to end; then the guest is gone and the signal takes its usual effect on us.

    Raises:
        KernelError: no kernel, no memory, a guest that crashed, spun or took too long.
    """
    kernel = build.path()
    if not kernel.exists():
        raise KernelError("the embedded kernel is not built; remedy: trunkline kernel build")
    memory_folder = _memory_folder(memory_mb)
    where = (cwd or Path.cwd()).absolute()
    for needed in (where, *visible):
        if not needed.is_dir():
            raise KernelError(f"{needed}: the guest needs this folder, and it does not exist")
    request = {
        "argv": list(argv),
        "cwd": str(where),
        "env": _environment(env),
        "visible": _find_hidden((where, *visible)),
        "settle_s": SETTLE_S if clock == "virtual" else 0.0,
    }
    deadline_s = time.monotonic() + timeout_s if timeout_s is not None else math.inf
    with (
        Signals() as signals,
        tempfile.TemporaryDirectory(
            prefix=f"{FOLDER_PREFIX}{Owner.me().tag}-",
            dir=memory_folder,
            ignore_cleanup_errors=True,
        ) as folder,
    ):
        Path(folder, "request.json").write_text(json.dumps(request))
        arguments = _arguments(clock, seed, parameters, memory_mb, folder)
        with Guest(kernel, arguments, Path(folder)) as guest:
            watch = StallWatch(guest, stall_timeout_s if clock == "virtual" else math.inf)
            if companion is not None:
                companion.began(guest)
            while guest.serve(on_output or _to_stdout, companion.handles() if companion else {}):
                signals.pass_on_to(guest, companion)
                watch.check()
                if time.monotonic() > deadline_s:
                    raise KernelError(f"the run took more than {timeout_s:g} s of real time")
        return guest.result()


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
        # Addresses decide the order of sets of objects.
        "norandmaps",
        # IPv6 announces itself at random times, which is enough to make no two runs equal.
        "ipv6.disable=1",
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
    environment = {**inherited, **ENVIRONMENT, **extra}
    paths = environment.get("PATH", os.defpath).split(os.pathsep)
    paths += [path for path in GUEST_PATHS if path not in paths]
    return {**environment, "PATH": os.pathsep.join(paths)}


def _find_hidden(wanted: Iterable[Path]) -> list[str]:
    """The folders that the guest's mounts would hide, outer ones first."""
    ours = (Path(sys.prefix), Path(sys.base_prefix), ROOT)
    folders = {folder.resolve() for folder in (*wanted, *ours)}
    hidden = (f for f in folders if any(f.is_relative_to(covered) for covered in COVERED))
    return sorted(map(str, hidden), key=len)


def _memory_folder(memory_mb: int) -> Path:
    """The first of MEMORY_FOLDERS that is executable and has room for all of the guest's memory.

    Raises:
        KernelError: there is none; the message lists what was tried.
    """
    tried = []
    for folder in dict.fromkeys(MEMORY_FOLDERS):
        if not os.access(folder, os.W_OK | os.X_OK):
            tried.append(f"{folder} is not writable")
            continue
        system = os.statvfs(folder)
        free_mb = system.f_bavail * system.f_frsize >> 20
        if system.f_flag & os.ST_NOEXEC:
            tried.append(f"{folder} is mounted noexec")
        elif free_mb < memory_mb:
            tried.append(f"{folder} has {free_mb} MB free")
        else:
            return folder
    raise KernelError(
        f"no place for the guest's {memory_mb} MB of memory: {'; '.join(tried)}; "
        "remedy: free some, or mount -o remount,exec,size=8G /dev/shm"
    )


def _to_stdout(data: bytes) -> None:
    write_all(1, data)
