"""What the embedded kernel needs of this machine, each need tried in a fraction of a second.

`PROBES` are the needs of a guest before it can boot. If a guest dies before its program begins, the
error names those that are not met. `trunkline doctor` shows them all, with more of its own.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from trunkline.harness.kernel import KernelError
from trunkline.harness.processes.needs import ADDRESS_SPACE, FILE_SIZE, PROC, Finding

DEFAULT_MEMORY_MB = 6144
"""The memory of a guest in MiB unless a scenario says otherwise (`limits.memory`)."""

ARCHITECTURE = "x86_64"
"""The only architecture that the embedded kernel is built for, as `uname -m` names it."""

CONTROL_GROUPS = Path("/sys/fs/cgroup")
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
PROGRAMS: Mapping[str, str] = {"setpriv": "util-linux", "taskset": "util-linux"}
"""The programs that start a guest, and their Debian packages."""

GUEST_PROGRAMS: Mapping[str, str] = {"grep": "grep"}
"""The programs that Mininet starts in every run, and their Debian packages."""

GUEST_PATHS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""What a guest's PATH has besides that of this process."""

YAMA = "sys/kernel/yama/ptrace_scope"
ADMINISTRATORS_ONLY, NOBODY = 2, 3
"""Values of Yama's `ptrace_scope` with which an ordinary user cannot trace."""

ROOM_REMEDY = "free some, or mount -o remount,exec,size=8G /dev/shm (in a container: --shm-size=8g)"
UNCONFINED = "docker run --cap-add SYS_PTRACE, or --security-opt seccomp=unconfined"
CAP_SYS_PTRACE = 19
READ_LOG = 3
ARCH_PRCTL, ARCH_SET_CPUID = 158, 0x1012
LOG_BYTES = 1 << 20
BESIDE_MB = 256
"""The address space that a guest's kernel needs beside the guest's memory, with much to spare."""


def find_scratch_folder() -> Path:
    """The folder for temporary files; the one that should be, if none can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return Path(os.environ.get("TMPDIR") or "/tmp")


MEMORY_FOLDERS = (Path("/dev/shm"), find_scratch_folder())
"""The folders that may hold the guest's memory, best first."""


def probe_processor() -> Finding:
    """Whether the embedded kernel exists for this processor."""
    machine = platform.machine()
    if machine != ARCHITECTURE:
        return Finding(
            "processor",
            "problem",
            f"{machine}: the embedded kernel exists for {ARCHITECTURE} only",
            "backend: host, which needs root, with the network of this machine's own kernel",
        )
    info = (PROC / "cpuinfo").read_text()
    model = info.partition("model name")[2].partition(":")[2].partition("\n")[0].strip()
    flags = info.partition("\nflags")[2].partition("\n")[0].split()
    widest = next((flag for flag in ("avx512f", "avx2", "avx") if flag in flags), "sse2")
    if "avx2" not in flags:
        return Finding(
            "processor",
            "warning",
            f"{model}, {widest}: training gives other bits here than on processors with AVX2",
            "a processor with AVX2 (Intel since 2013, AMD since 2015), if bits must be the same",
        )
    return Finding("processor", "ok", f"{model}, {widest}")


def has_cpuid_faulting() -> bool:
    """Whether a process can be stopped at CPUID, so that a guest may hide instructions."""
    return bool(ctypes.CDLL(None).syscall(ARCH_PRCTL, ARCH_SET_CPUID, 1) == 0)


@functools.cache
def probe_tracing() -> Finding:
    """Whether a process may trace its children and set their registers, whatever their size."""
    probe = [sys.executable, "-I", "-S", str(Path(__file__).with_name("tracing_probe.py"))]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Finding("tracing", "problem", f"the probe ended with {done.returncode}: {last}")
    found = json.loads(done.stdout)
    if found["step"] is None:
        kept = "" if found["permitted"] is None else f", features {found['permitted']:#x}"
        return Finding(
            "tracing", "ok", f"ptrace works; {found['registers']} bytes of registers{kept}"
        )
    said, remedy = _explain_refusal()
    what = f"{found['step']} {_describe_failure(found['errno'])}{said}"
    return Finding("tracing", "problem", what, remedy)


def _describe_failure(number: int) -> str:
    """What an error number says; 0: the call succeeded in vain; negative: minus a signal."""
    if number == 0:
        return "does not do what it should"
    if number < 0:
        return f"ends the process ({signal.Signals(-number).name})"
    return f"is refused ({errno.errorcode.get(number, number)})"


def _explain_refusal() -> tuple[str, str]:
    """Why tracing may be refused here: words to append, and a remedy."""
    if _is_gvisor():
        return "; this is gVisor, which lacks it", "another container runtime, such as runc"
    yama = PROC / YAMA
    scope = int(yama.read_text()) if yama.exists() else 0
    if scope == NOBODY:
        remedy = "no program can change it: put kernel.yama.ptrace_scope=1 into /etc/sysctl.d, boot"
        return f"; Yama forbids it ({YAMA} is {scope})", remedy
    status = (PROC / "self/status").read_text()
    capable = int(status.partition("CapEff:")[2].split(maxsplit=1)[0], 16) >> CAP_SYS_PTRACE & 1
    if scope == ADMINISTRATORS_ONLY and not capable:
        remedy = "sudo sysctl kernel.yama.ptrace_scope=1, or the capability CAP_SYS_PTRACE"
        return f"; Yama allows it to administrators only ({YAMA} is {scope})", remedy
    if status.partition("Seccomp:")[2].split(maxsplit=1)[0] == "2":
        contained = any(mark.exists() for mark in CONTAINER_MARKS)
        where = "this container's seccomp filter" if contained else "a seccomp filter"
        return f"; {where} may forbid it", f"a filter that allows ptrace, such as {UNCONFINED}"
    remedy = "ask who runs this machine why processes may not trace their children; in a container:"
    return "", f"{remedy} {UNCONFINED}"


def _is_gvisor() -> bool:
    """Whether this is gVisor: newer ones say so in their version, older ones in their log only."""
    log = ctypes.create_string_buffer(LOG_BYTES)
    ctypes.CDLL(None).klogctl(READ_LOG, log, LOG_BYTES)
    return b"Starting gVisor" in log.value or "gvisor" in (PROC / "version").read_text().lower()


def probe_programs() -> Finding:
    """Whether the programs that start a guest are where it looks for them, and those of a run."""
    looked = ((PROGRAMS, os.defpath), (GUEST_PROGRAMS, extend_path(os.environ.get("PATH"))))
    for programs, path in looked:
        missing = [name for name in programs if shutil.which(name, path=path) is None]
        if missing:
            packages = " ".join(sorted({programs[name] for name in missing}))
            found = f"{' and '.join(missing)} not found in {path}"
            remedy = f"sudo apt-get install {packages}"
            if all(shutil.which(name, path=os.defpath) for name in missing):
                remedy = f"a PATH with {os.defpath} in it, or {remedy}"
            return Finding("programs", "problem", found, remedy)
    if shutil.which("mnexec") is None:
        found = "mnexec not found, which starts shells at sites"
        return Finding("programs", "warning", found, "sudo apt-get install mininet")
    return Finding("programs", "ok", f"{', '.join((*PROGRAMS, *GUEST_PROGRAMS))} and mnexec")


def extend_path(path: str | None) -> str:
    """The PATH in a guest: this one, and where Debian has programs for administrators."""
    paths = (path or os.defpath).split(os.pathsep)
    return os.pathsep.join((*paths, *(each for each in GUEST_PATHS if each not in paths)))


def probe_memory(memory_mb: int = DEFAULT_MEMORY_MB) -> Finding:
    """Whether a folder can hold a guest's memory, and whether there is as much memory."""
    try:
        folder, refused = _choose_memory_folder(memory_mb)
    except KernelError as error:
        found, _, remedy = str(error).partition("; remedy: ")
        return Finding("memory", "problem", found, remedy)
    lines = (PROC / "meminfo").read_text().splitlines()
    available_mb = next(int(line.split()[1]) >> 10 for line in lines if "MemAvailable" in line)
    found = f"{folder} holds a guest's {memory_mb} MB; {available_mb} MB of memory are free"
    allowed_mb = _find_allowed_mb()
    if allowed_mb is not None and allowed_mb < memory_mb:
        found += f", but the control group of this process may use {allowed_mb} MB"
        remedy = "nothing for small runs, which touch less; else a higher limit, such as docker "
        return Finding("memory", "warning", found, f"{remedy}run --memory=8g")
    if refused:
        found += f", but {refused}; a guest is slower if its memory is on a disk"
        return Finding("memory", "warning", found, ROOM_REMEDY)
    if available_mb < memory_mb:
        remedy = "nothing for small runs, which touch less; else end other programs"
        return Finding("memory", "warning", found, remedy)
    return Finding("memory", "ok", found)


def _find_allowed_mb() -> int | None:
    """The memory in MiB that control groups allow to this process; None if they do not say."""
    limits = []
    for line in (PROC / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top = CONTROL_GROUPS / controllers
        # In a container, the path is that of the host, and the group is mounted at the top.
        for group in (top / path.lstrip("/"), *(top / path.lstrip("/")).parents):
            limits += [group / name for name in ("memory.max", "memory.limit_in_bytes")]
            if group == top:
                break
    said = {file.read_text().strip() for file in limits if file.exists()} - {"max"}
    return min((int(limit) >> 20 for limit in said), default=None)


def find_memory_folder(memory_mb: int) -> Path:
    """The first of MEMORY_FOLDERS that is executable and has room for all of the guest's memory.

    Raises:
        KernelError: there is none, with the reason for each folder; or a limit of this process
            forbids so large a file or address space.
    """
    return _choose_memory_folder(memory_mb)[0]


def _choose_memory_folder(memory_mb: int) -> tuple[Path, str]:
    """The folder, and why better ones cannot be used, in words."""
    _check_limits(memory_mb)
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
            return folder, "; ".join(tried)
    raise KernelError(
        f"no place for the guest's {memory_mb} MB of memory: {'; '.join(tried)}; "
        f"remedy: {ROOM_REMEDY}"
    )


def _check_limits(memory_mb: int) -> None:
    by = f"a guest with {memory_mb} MB of memory"
    for limit, needed_mb in ((ADDRESS_SPACE, memory_mb + BESIDE_MB), (FILE_SIZE, memory_mb)):
        if excess := limit.find_excess(needed_mb, by):
            found, remedy = excess
            raise KernelError(f"{found}; remedy: {remedy}, or less limits.memory")


PROBES: tuple[Callable[[], Finding], ...] = (
    probe_processor,
    probe_tracing,
    probe_memory,
    probe_programs,
)


def require(probe: Callable[[], Finding]) -> None:
    """Raise KernelError if the machine does not meet this need."""
    finding = probe()
    if finding.state == "problem":
        raise KernelError(str(finding))
