"""What the embedded kernel needs of this machine, each need tried in a fraction of a second.

`PROBES` are the needs of a guest before it can boot. If a guest dies before its program begins, the
error names those that are not met. `trunkline doctor` shows them all, with more of its own.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trunkline.harness.kernel import KernelError

DEFAULT_MEMORY_MB = 6144
"""The memory of a guest in MiB unless a scenario says otherwise (`limits.memory`)."""

ARCHITECTURE = "x86_64"
"""The only architecture that the embedded kernel is built for, as `uname -m` names it."""

MEMORY_FOLDERS = (Path("/dev/shm"), Path(tempfile.gettempdir()))
"""The folders that may hold the guest's memory, best first."""

PROC = Path("/proc")
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
YAMA = "sys/kernel/yama/ptrace_scope"
ADMINISTRATORS_ONLY, NOBODY = 2, 3
"""Values of Yama's `ptrace_scope` with which an ordinary user cannot trace."""


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
    name = errno.errorcode.get(found["errno"], str(found["errno"]))
    said, remedy = _explain_refusal()
    return Finding("tracing", "problem", f"{found['step']} is refused ({name}){said}", remedy)


def _explain_refusal() -> tuple[str, str]:
    """Why tracing may be refused here: words to append, and a remedy."""
    if "gvisor" in (PROC / "version").read_text().lower():
        return "; this is gVisor, which lacks it", "another container runtime, such as runc"
    yama = PROC / YAMA
    scope = int(yama.read_text()) if yama.exists() else 0
    if scope == NOBODY:
        return f"; Yama forbids it ({YAMA} is {scope})", "boot this machine with another value"
    if scope == ADMINISTRATORS_ONLY and os.geteuid() != 0:
        remedy = "sudo sysctl kernel.yama.ptrace_scope=1"
        return f"; Yama allows it to administrators only ({YAMA} is {scope})", remedy
    status = (PROC / "self/status").read_text()
    filtered = status.partition("Seccomp:")[2].split(maxsplit=1)[0] == "2"
    contained = any(mark.exists() for mark in CONTAINER_MARKS)
    if filtered or contained:
        where = "this container's seccomp filter" if contained else "a seccomp filter"
        remedy = "a filter that allows ptrace, such as docker run --security-opt seccomp=unconfined"
        return f"; {where} may forbid it", remedy
    return "", "ask who runs this machine why processes may not trace their children"


def probe_memory(memory_mb: int = DEFAULT_MEMORY_MB) -> Finding:
    """Whether a folder can hold a guest's memory, and whether there is as much memory."""
    try:
        folder = find_memory_folder(memory_mb)
    except KernelError as error:
        found, _, remedy = str(error).partition("; remedy: ")
        return Finding("memory", "problem", found, remedy)
    lines = (PROC / "meminfo").read_text().splitlines()
    available_mb = next(int(line.split()[1]) >> 10 for line in lines if "MemAvailable" in line)
    found = f"{folder} holds a guest's {memory_mb} MB; {available_mb} MB of memory are free"
    if available_mb < memory_mb:
        remedy = "nothing for small runs, which touch less; else end other programs"
        return Finding("memory", "warning", found, remedy)
    return Finding("memory", "ok", found)


def find_memory_folder(memory_mb: int) -> Path:
    """The first of MEMORY_FOLDERS that is executable and has room for all of the guest's memory.

    Raises:
        KernelError: there is none; the message says why for each folder.
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
        "remedy: free some, or mount -o remount,exec,size=8G /dev/shm (in a container: "
        "--shm-size=8g)"
    )


PROBES: tuple[Callable[[], Finding], ...] = (probe_processor, probe_tracing, probe_memory)


def find_problems(probes: Iterable[Callable[[], Finding]] = PROBES) -> list[Finding]:
    """The needs of a guest that this machine does not meet."""
    return [finding for finding in (probe() for probe in probes) if finding.state == "problem"]


def require_processor() -> None:
    """Raise KernelError if the embedded kernel does not exist for this processor."""
    finding = probe_processor()
    if finding.state == "problem":
        raise KernelError(str(finding))
