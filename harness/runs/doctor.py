"""What runs need of this machine, each need tried: the checks of `trunkline doctor`.

A check is a function without arguments that returns a `Finding`; `CHECKS` lists them in the order
in which they are shown. The kernel's own needs are in `harness.kernel.probes`.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from trunkline.harness.kernel import KernelError, boot, build
from trunkline.harness.kernel.probes import (
    find_scratch_folder,
    probe_memory,
    probe_processor,
    probe_programs,
    probe_tracing,
)
from trunkline.harness.network import shaping
from trunkline.harness.network.interface import NetworkError
from trunkline.harness.network.namespace import Namespace, check_rights
from trunkline.harness.processes import needs
from trunkline.harness.processes.needs import Finding, attempt
from trunkline.topologies.links import Link
from trunkline.workloads.learning import datasets

SLEEP_S = 100
"""The virtual time that the guest sleeps to show that its clock is virtual."""

TESTED = {
    "matplotlib": "3.11.2",
    "mininet": "2.3.0.dev6",
    "networkx": "3.6.1",
    "numpy": "2.4.6",
    "pandas": "3.1.1",
    "pydantic": "2.14.4",
    "scipy": "1.17.1",
    "torch": "2.13.0",
}
"""The versions of packages with which the tests were run last: those of `locks/`."""

TESTED_PYTHON = (3, 11)


def check_kernel() -> Finding:
    """Whether the embedded kernel is built and whole."""
    status = build.status()
    if status.problem:
        found = f"{status.path} is {status.problem}"
        return Finding("kernel", "problem", found, "trunkline kernel build")
    return Finding("kernel", "ok", f"{status.version}, {status.path}, {status.why}")


def check_boot() -> Finding:
    """Whether the kernel boots, and whether its clock is virtual."""
    said: list[bytes] = []
    said_s: list[float] = []

    def note(words: bytes) -> None:
        said.append(words)
        said_s.append(time.monotonic())

    program = ["sh", "-c", f"date +%s; sleep {SLEEP_S}; date +%s"]
    start_s = time.monotonic()
    try:
        code = boot.run(program, cwd=Path("/"), on_output=note, timeout_s=boot.TRY_OUT_LIMIT_S)
    except KernelError as error:
        found, _, remedy = str(error).partition("; remedy: ")
        return Finding("boot", "problem", found, remedy)
    times = [int(word) for word in b"".join(said).split() if word.isdigit()]
    if code != 0 or len(times) != 2:
        found = f"a program in the guest ended with {code}: {b''.join(said).decode()!r}"
        return Finding("boot", "problem", found, "see the message")
    began_s, slept_s = times[0] - boot.VIRTUAL_EPOCH_S, times[1] - times[0]
    booted_s, took_s = said_s[0] - start_s, said_s[-1] - said_s[0]
    if not (0 <= began_s <= 2 and SLEEP_S <= slept_s <= SLEEP_S + 1 and took_s < SLEEP_S):
        found = f"the guest's clock began {began_s} s after its epoch, and {SLEEP_S} s of sleep "
        found += f"took {slept_s} s of it and {took_s:.1f} s of ours"
        return Finding("boot", "problem", found, "trunkline kernel build, or report this")
    found = f"boots in {booted_s:.1f} s; {SLEEP_S} virtual seconds took {took_s:.1f} s"
    return Finding("boot", "ok", found)


def check_folders() -> Finding:
    """Whether the folders that runs and builds write to can be written."""
    cache, runs = build.cached_path().parent, Path("runs").absolute()
    scratch = find_scratch_folder()
    refused = [
        f"{folder} ({purpose})"
        for folder, purpose in ((cache, "the kernel"), (runs, "runs"), (scratch, "scratch files"))
        if not _can_write(folder)
    ]
    if not refused:
        return Finding("folders", "ok", f"{cache}, {runs} and {scratch} can be written")
    built = build.find_problem(build.path()) is None
    harmless = built and all("the kernel" in folder for folder in refused)
    return Finding(
        "folders",
        "warning" if harmless else "problem",
        f"cannot write {' and '.join(refused)}",
        "the working folder or --runs for runs, XDG_CACHE_HOME for the kernel, TMPDIR for the rest",
    )


def _can_write(folder: Path) -> bool:
    """Whether a folder has room and can be written, or its nearest parent that exists."""
    try:
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"room?")
            file.flush()
    except OSError:
        return False
    return True


def check_build_tools() -> Finding:
    """Whether the embedded kernel can be built here, unless a package has it."""
    if (chosen := build.choose()).prebuilt:
        return Finding("build tools", "ok", f"not needed: the kernel is {chosen.why}")
    missing = build.missing_packages()
    if not missing:
        return Finding("build tools", "ok", "all that building the kernel needs")
    built = build.find_problem(build.path()) is None
    return Finding(
        "build tools",
        "warning" if built else "problem",
        f"missing {' '.join(missing)}{', but the kernel is built' if built else ''}",
        f"sudo apt-get install {' '.join(missing)}",
    )


def check_data_set() -> Finding:
    """Whether the data set of the training workload is there and whole."""
    try:
        found = datasets.load()
    except datasets.DatasetError as error:
        return Finding("data set", "warning", str(error), datasets.REMEDY)
    return Finding("data set", "ok", f"Fashion-MNIST, {len(found.train_labels)} training images")


def check_host_backend() -> Finding:
    """Whether `backend: host` works, and for which links."""
    try:
        check_rights()
        site = Namespace("doctor")
    except NetworkError as error:
        return Finding("host backend", "warning", f"not usable: {error.what}", error.remedy)
    except OSError as error:  # a kernel without network namespaces
        return Finding("host backend", "warning", f"not usable: {error}", "backend: embedded")
    try:
        link = Link("a", "b", 1.0, delay_ms=1.0, queue_bytes=15_000)
        shaping.choose(site.channel, (link,), mtu=1500)
    except NetworkError as error:
        found = f"usable for links without delay, jitter and loss only: {error.what}"
        return Finding("host backend", "warning", found, error.remedy)
    finally:
        site.close()
    return Finding("host backend", "ok", "usable for all links")


def check_versions() -> Finding:
    """Whether the versions are those that were tested."""
    others = [] if sys.version_info[:2] == TESTED_PYTHON else [f"Python {sys.version.split()[0]}"]
    for package, tested in TESTED.items():
        installed = re.sub(r"\+.*", "", importlib.metadata.version(package))
        if installed != tested:
            others.append(f"{package} {installed} (tested: {tested})")
    if others:
        remedy = "nothing, unless results differ from those of others: versions can move them"
        return Finding("versions", "warning", f"not tested: {', '.join(others)}", remedy)
    return Finding("versions", "ok", f"Python {sys.version.split()[0]} and packages as tested")


KERNEL_CHECKS: tuple[Callable[[], Finding], ...] = (
    probe_processor,
    probe_tracing,
    probe_memory,
    probe_programs,
    check_kernel,
    check_boot,
)
"""What `kernel status --check` tries."""

CHECKS = (
    *needs.PROBES,
    *KERNEL_CHECKS,
    check_folders,
    check_build_tools,
    check_data_set,
    check_host_backend,
    check_versions,
)
"""What `trunkline doctor` tries, a few seconds in all."""


OF_THE_KERNEL = (*KERNEL_CHECKS[1:], check_build_tools)
"""What says nothing where the embedded kernel does not exist for the processor."""


def examine(checks: tuple[Callable[[], Finding], ...] = CHECKS) -> Iterator[Finding]:
    """Carry the checks out one after the other.

    The kernel is not booted if another check has found why it cannot. On processors that it does
    not exist for, nothing else of it is checked.
    """
    broken = foreign = False
    for check in checks:
        if foreign and check in OF_THE_KERNEL:
            continue
        if check is check_boot and broken:
            found = "not tried, because of the problems above"
            yield Finding("boot", "problem", found, "the remedies above")
            continue
        finding = attempt(check)
        broken = broken or finding.state == "problem"
        foreign = foreign or (check is probe_processor and broken)
        yield finding
