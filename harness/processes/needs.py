"""What every command needs of its surroundings: limits of the process, /dev and /proc.

Here stand the limits and what helps against each, once: for the probes that try a need before
anything begins, for `trunkline doctor`, which shows them, and for `explain_error`, which says the
same of an error that comes later. `harness.kernel.probes` has what the embedded kernel needs.

Nothing but the standard library is imported, because what is imported must be loadable where
little is allowed. numpy and scipy are not: where OpenBLAS gets no address space, it asks for it
forever, and no signal handler of Python's runs meanwhile.
"""

from __future__ import annotations

import errno
import mmap
import os
import pwd
import resource
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MEMORY_MB = 600
"""The address space that a command may need with one processor; 520 MB were seen with two."""

PROCESSOR_MB = 60
"""The address space for the threads and buffers of OpenBLAS, numpy's and scipy's, per processor."""

MOST_PROCESSORS = 64
"""OpenBLAS starts no more threads than that."""

OPEN_FILES = 1024
"""The files that one process may have to hold open: a guest holds those of all its programs."""

PROCESS_COUNT = 64
"""The processes that a run may have at the same time; one with nine sites has about 15."""

STACK_BYTES = 1 << 16

UNMAPPED = "failed to map segment"
"""What the loader says of a library for which there is no address space."""

PROC = Path("/proc")
NULL = Path(os.devnull)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes:
        name: the check, in one or two words.
        state: `ok`; `warning`: runs work, but something is missing; `problem`: runs cannot work.
        found: what was found, in a few words.
        remedy: what helps; empty if nothing needs to.
    """

    name: str
    state: Literal["ok", "warning", "problem"]
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"; remedy: {self.remedy}" if self.remedy else ""
        return f"{self.name}: {self.found}{remedy}"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a process: its number, what it limits, its command, and its unit as text."""

    number: int
    what: str
    command: str
    unit_bytes: int = 1 << 20
    unit: str = " MB"

    def find_excess(self, needed: int, by: str) -> tuple[str, str] | None:
        """What is wrong and what helps if `by` needs more, in units, than this process may have."""
        allowed, _ = resource.getrlimit(self.number)
        if allowed == resource.RLIM_INFINITY or allowed // self.unit_bytes >= needed:
            return None
        return f"{self.describe()}, and {by} needs {needed}{self.unit}", self.suggest()

    def describe(self) -> str:
        """How far this process is limited."""
        allowed, _ = resource.getrlimit(self.number)
        if allowed == resource.RLIM_INFINITY:
            return f"the {self.what} is limited by the system or a container"
        found = f"the {self.what} is limited to {allowed // self.unit_bytes}"
        return f"{found}{self.unit} ({self.command})"

    def suggest(self) -> str:
        """What helps: the command, unless somebody else has set the limit."""
        allowed, most = resource.getrlimit(self.number)
        if allowed != most == resource.RLIM_INFINITY:
            return f"{self.command} unlimited"
        return "ask who set this limit, such as your batch system, for a higher one"


ADDRESS_SPACE = Limit(resource.RLIMIT_AS, "address space of this process", "ulimit -v")
DATA = Limit(resource.RLIMIT_DATA, "size of data of this process", "ulimit -d")
FILE_SIZE = Limit(resource.RLIMIT_FSIZE, "size of files of this process", "ulimit -f")
FILES = Limit(resource.RLIMIT_NOFILE, "number of open files of this process", "ulimit -n", 1, "")
PROCESSES = Limit(resource.RLIMIT_NPROC, "number of processes of this user", "ulimit -u", 1, "")

WRITING_REMEDIES: Mapping[int, str] = {
    errno.ENOSPC: "free some space, or choose another folder",
    errno.EDQUOT: "free some of your quota, or choose another folder",
    errno.EACCES: "make it writable for you, or choose another folder",
    errno.EPERM: "make it writable for you, or choose another folder",
    errno.EROFS: "choose a folder that is not on a read-only file system",
    errno.ENOTDIR: "move the file that is where a folder should be",
    errno.EEXIST: "move the file that is where a folder should be",
    errno.EISDIR: "move the folder that is where a file should be",
    errno.EFBIG: "ulimit -f unlimited, or a file system that takes larger files",
}
"""What helps if a file or a folder cannot be written."""

LOOP_REMEDY = "remove or mend the symbolic link that leads to itself"

ONLY_WHEN_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
"""The errors among them that reading a file never gives."""


def prepare() -> None:
    """Mend what a process can mend itself: closed standard files, few open files, its environment.

    A file that is opened gets the lowest free number. With standard output closed, what is printed
    would go into that file. HOME says where the kernel and the settings of libraries and of SSH
    are; an empty one would be the root folder.
    """
    for number, mode in ((0, "r"), (1, "w"), (2, "w")):
        try:
            os.fstat(number)
        except OSError:
            _open_null(number, mode)
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = most == resource.RLIM_INFINITY
    wanted = OPEN_FILES if unlimited else min(OPEN_FILES, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    if not os.environ.get("HOME"):
        try:
            os.environ["HOME"] = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:  # such as a number that a container has chosen
            os.environ["HOME"] = "/"
    os.environ.pop("MPLBACKEND", None)  # figures go to files; matplotlib refuses unknown ones
    if not os.environ.get("SOURCE_DATE_EPOCH", "0").isdecimal():  # numpy refuses it
        del os.environ["SOURCE_DATE_EPOCH"]


def _open_null(number: int, mode: str) -> None:
    """Open /dev/null for a standard file that is closed; where there is none, a probe says so."""
    try:
        handle = os.open(NULL, os.O_RDWR)
    except OSError:
        return
    if handle != number:
        os.dup2(handle, number)
        os.close(handle)
    os.set_inheritable(number, True)
    name = ("stdin", "stdout", "stderr")[number]
    if getattr(sys, name) is None:
        setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 (open until the end)


def probe_docstrings() -> Finding:
    """Whether Python keeps docstrings: descriptions of commands and of options are in them."""
    if sys.flags.optimize < 2:
        return Finding("docstrings", "ok", "Python keeps them")
    found = "Python leaves them out (PYTHONOPTIMIZE=2 or -OO), and commands need them"
    return Finding("docstrings", "problem", found, "unset PYTHONOPTIMIZE")


def probe_proc() -> Finding:
    """Whether /proc is mounted."""
    if (PROC / "self" / "status").exists():
        return Finding("proc", "ok", f"{PROC} is mounted")
    return Finding("proc", "problem", f"{PROC} is not mounted", f"mount -t proc proc {PROC}")


def probe_umask() -> Finding:
    """Whether this user may read and write what this process writes."""
    usual = os.umask(0o077)
    os.umask(usual)
    if usual & stat.S_IRWXU and os.geteuid() != 0:
        found = f"files of this process cannot be used by their owner (umask {usual:04o})"
        return Finding("umask", "problem", found, "umask 022")
    return Finding("umask", "ok", f"{usual:04o}")


def probe_devices() -> Finding:
    """Whether /dev/null is the device, and can be written."""
    remedy = "mount --bind a /dev that has it (in a container: the runtime's own /dev)"
    try:
        is_device = stat.S_ISCHR(NULL.stat().st_mode)
    except OSError:
        return Finding("devices", "problem", f"there is no {NULL}", remedy)
    if not is_device:
        return Finding("devices", "problem", f"{NULL} is no device", remedy)
    if not os.access(NULL, os.R_OK | os.W_OK):
        found = f"{NULL} cannot be read and written"
        return Finding("devices", "problem", found, f"chmod 666 {NULL}")
    return Finding("devices", "ok", f"{NULL} works")


def probe_room() -> Finding:
    """Whether this process gets the address space that commands need; it is given back."""
    needed_mb = MEMORY_MB + PROCESSOR_MB * (_count_processors() - 1)
    try:
        mmap.mmap(-1, needed_mb << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, ValueError):
        found, remedy = _explain_lack_of_memory()
        found = f"{found}, and a command needs {needed_mb} MB beside Python"
        return Finding("room", "problem", found, remedy)
    return Finding("room", "ok", f"{needed_mb} MB of address space")


def probe_processes() -> Finding:
    """Whether this process may start others: as many threads as a run has processes are tried.

    Where OpenBLAS may start no threads, it sends SIGINT to its own process. A child starts them,
    because the C library keeps address space for each thread that a process has ever had.
    """
    needed = PROCESS_COUNT + 2 * _count_processors()
    if _may_start(needed):
        return Finding("processes", "ok", f"this process may start {needed} more")
    found = f"{PROCESSES.describe()}, with those that run already, and a run needs {needed}"
    return Finding("processes", "problem", found, PROCESSES.suggest())


def _may_start(count: int) -> bool:
    try:
        child = os.fork()
    except BlockingIOError:
        return False
    if child == 0:
        code = 1
        try:
            threading.stack_size(STACK_BYTES)
            go_on = threading.Event()
            for _ in range(count):
                threading.Thread(target=go_on.wait, daemon=True).start()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _count_processors() -> int:
    """The processors that OpenBLAS sees."""
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSORS)


def probe_files() -> Finding:
    """Whether a process may open as many files as a guest holds open."""
    if excess := FILES.find_excess(OPEN_FILES, "a run"):
        return Finding("files", "problem", *excess)
    return Finding("files", "ok", f"a process may open {resource.getrlimit(FILES.number)[0]} files")


PROBES: tuple[Callable[[], Finding], ...] = (
    probe_proc,
    probe_umask,
    probe_devices,
    probe_room,
    probe_processes,
    probe_files,
)
"""What is tried before a command begins; it takes a few milliseconds."""


def attempt(probe: Callable[[], Finding]) -> Finding:
    """What a probe finds; one that fails has found a problem, too."""
    try:
        return probe()
    except Exception as error:
        name = getattr(probe, "__name__", "probe").partition("_")[2].replace("_", " ")
        cause, remedy = explain_error(error) or ("", "please report this")
        found = f"cannot be tried: {type(error).__name__}: {error}{cause and '; '}{cause}"
        return Finding(name, "problem", found, remedy)


def find_problems(probes: Iterable[Callable[[], Finding]] = PROBES) -> list[Finding]:
    """The needs that are not met."""
    findings = [attempt(probe) for probe in probes]
    return [finding for finding in findings if finding.state == "problem"]


def explain_error(error: BaseException) -> tuple[str, str] | None:
    """What is short if an error is for lack of something, and what helps; None for other errors."""
    if isinstance(error, MemoryError) or (
        isinstance(error, ImportError) and UNMAPPED in str(error)
    ):
        return _explain_lack_of_memory()
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return PROCESSES.describe(), PROCESSES.suggest()
    if isinstance(error, RuntimeError) and "Symlink loop" in str(error):  # Python's until 3.12
        return "a path cannot be followed", LOOP_REMEDY
    if not isinstance(error, OSError):
        return None
    number = error.errno or 0
    if number == errno.ELOOP:
        return f"{error.filename or 'a path'} cannot be followed", LOOP_REMEDY
    if number == errno.ENOENT and error.filename is None and not _has_folder():
        return "the current folder is gone", "cd into a folder that exists"
    if number == errno.ENOMEM:
        return _explain_lack_of_memory()
    if number in (errno.EMFILE, errno.ENFILE):
        return FILES.describe(), FILES.suggest()
    if number == errno.EAGAIN and error.filename is None:  # what `fork` says
        return PROCESSES.describe(), PROCESSES.suggest()
    if number in ONLY_WHEN_WRITING:
        what = error.filename or "standard output or a file"
        return f"{what} cannot be written", WRITING_REMEDIES[number]
    return None


def _has_folder() -> bool:
    """Whether the current folder still exists."""
    try:
        os.getcwd()  # noqa: PTH109 (Path.cwd is the same)
    except FileNotFoundError:
        return False
    return True


def _explain_lack_of_memory() -> tuple[str, str]:
    for limit in (ADDRESS_SPACE, DATA):
        if resource.getrlimit(limit.number)[0] != resource.RLIM_INFINITY:
            return limit.describe(), limit.suggest()
    remedy = "end other programs, or sudo sysctl vm.overcommit_memory=0 if it is 2"
    return "this machine gives no more memory", remedy
