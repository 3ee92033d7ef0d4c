"""The doctor names what keeps runs from working, and what helps."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trunkline.harness.kernel import KernelError, boot, build, probes
from trunkline.harness.runs import doctor

ROOT = Path(__file__).parents[3]
NO_PTRACE = ROOT / "tests/harness/kernel/no_ptrace.c"
TRUNKLINE = [sys.executable, "-m", "trunkline.harness.commands.main"]

REFUSED = r"PTRACE_TRACEME is refused \(EPERM\); (a|this container's) seccomp filter may forbid it"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount file systems")


@pytest.fixture(scope="module")
def no_ptrace(tmp_path_factory) -> str:
    built = tmp_path_factory.mktemp("built") / "no_ptrace"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", built, NO_PTRACE], check=True)
    return str(built)


def ask(*before: str, command: tuple[str, ...] = ("doctor", "--json")) -> tuple[int, str, str]:
    """The exit code, output and errors of a command, started by the words `before`."""
    asked = [*before, *TRUNKLINE, *command]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def mounted(script: str) -> tuple[str, ...]:
    """The words that start a program in mounts of its own, which `script` has changed."""
    return ("unshare", "--mount", "sh", "-c", f'{script} && exec "$@"', "sh")


def problems(output: str) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in json.loads(output) if each["state"] == "problem"}


def test_on_this_machine_runs_work(embedded):
    code, output, _ = ask()
    assert (code, problems(output)) == (0, {})
    assert [each["name"] for each in json.loads(output)] == [
        "processor",
        "tracing",
        "memory",
        "kernel",
        "boot",
        "folders",
        "build tools",
        "data set",
        "host backend",
        "versions",
    ]


def test_a_filter_that_forbids_ptrace_is_named_and_nothing_is_booted(no_ptrace):
    code, output, _ = ask(no_ptrace)
    found = problems(output)
    assert code == 1
    assert re.fullmatch(REFUSED, found["tracing"]["found"])
    assert "--security-opt seccomp=unconfined" in found["tracing"]["remedy"]
    assert found["boot"]["found"] == "not tried, because of the problems above"


def test_a_guest_that_cannot_boot_says_why_in_place_of_a_call_trace(no_ptrace, embedded):
    code, _, errors = ask(no_ptrace, command=("kernel", "run", "--", "true"))
    assert code == 70
    assert "the embedded kernel ended before its program began (exit status " in errors
    assert re.search(f"tracing: {REFUSED}; remedy: ", errors)
    assert "Call Trace" not in errors


def test_a_kernel_that_dies_for_another_reason_shows_its_last_words(tmp_path):
    kernel = tmp_path / "linux"
    kernel.write_text(
        "#!/bin/sh\nseq 20\necho Kernel panic: no registers\necho Call Trace:\nexit 3\n"
    )
    kernel.chmod(0o755)
    with pytest.raises(KernelError) as error:
        boot.run(["true"], kernel=kernel)
    assert str(error.value).splitlines() == [
        "the embedded kernel ended before its program began (exit status 3)",
        "this machine has all that the kernel needs, as far as `trunkline doctor` can see; please "
        "report this with your processor and these last words",
        "its last words:",
        *(f"    {number}" for number in range(16, 21)),
        "    Kernel panic: no registers",
    ]


@needs_root
def test_no_room_for_the_guest_s_memory_is_a_problem():
    small = "mount -t tmpfs -o size=16m none"
    code, output, _ = ask(*mounted(f"{small} /dev/shm && {small} /tmp"))
    found = problems(output)
    assert code == 1
    assert found["memory"]["found"] == (
        "no place for the guest's 6144 MB of memory: /dev/shm has 16 MB free; /tmp has 16 MB free"
    )
    assert "--shm-size=8g" in found["memory"]["remedy"]


@needs_root
def test_a_cache_that_cannot_be_written_is_a_problem_only_if_the_kernel_is_not_built(
    tmp_path, monkeypatch, embedded
):
    read_only = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, output, _ = ask(*mounted(read_only))
    found = problems(output)
    assert code == 1
    cache = build.path().parent
    assert found["kernel"]["found"] == f"{cache}/linux is not built"
    assert found["folders"]["found"] == f"cannot write {cache} (the kernel)"
    code, _, errors = ask(*mounted(read_only), command=("kernel", "build"))
    assert code == 70
    assert "cannot build the embedded kernel: [Errno 30] Read-only file system" in errors


def test_missing_build_tools_are_a_warning_if_the_kernel_is_built(monkeypatch, tmp_path, embedded):
    (tmp_path / "make").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = doctor.check_build_tools()
    assert found.state == "warning"
    assert found.found.startswith("missing bc bison flex gcc ")
    assert found.remedy.startswith("sudo apt-get install bc bison flex gcc ")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert doctor.check_build_tools().state == "problem"


def test_another_processor_is_named_with_the_backend_that_works_there(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    found = probes.probe_processor()
    assert found.state == "problem"
    assert found.found == "aarch64: the embedded kernel exists for x86_64 only"
    assert found.remedy.startswith("backend: host")


@pytest.mark.parametrize(
    ("version", "scope", "seccomp", "said", "remedy"),
    [
        ("Linux version 4.4.0 gVisor", None, 2, "; this is gVisor, which lacks it", "runc"),
        ("Linux", 3, 0, "; Yama forbids it (sys/kernel/yama/ptrace_scope is 3)", "boot"),
        ("Linux", 1, 2, "; a seccomp filter may forbid it", "seccomp=unconfined"),
        ("Linux", None, 0, "", "ask who runs this machine"),
    ],
)
def test_a_refusal_to_trace_is_explained_by_what_the_machine_says_of_itself(
    monkeypatch, tmp_path, version, scope, seccomp, said, remedy
):
    (tmp_path / "version").write_text(version)
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text(f"Name:\tx\nSeccomp:\t{seccomp}\nSeccomp_filters:\t1\n")
    if scope is not None:
        (tmp_path / "sys/kernel/yama").mkdir(parents=True)
        (tmp_path / "sys/kernel/yama/ptrace_scope").write_text(f"{scope}\n")
    monkeypatch.setattr(probes, "PROC", tmp_path)
    monkeypatch.setattr(probes, "CONTAINER_MARKS", ())
    found, helps = probes._explain_refusal()
    assert found == said
    assert remedy in helps


def test_yama_for_administrators_only_stops_ordinary_users(monkeypatch, tmp_path):
    (tmp_path / "sys/kernel/yama").mkdir(parents=True)
    (tmp_path / "sys/kernel/yama/ptrace_scope").write_text("2\n")
    (tmp_path / "version").write_text("Linux")
    monkeypatch.setattr(probes, "PROC", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found, helps = probes._explain_refusal()
    assert found == "; Yama allows it to administrators only (sys/kernel/yama/ptrace_scope is 2)"
    assert helps == "sudo sysctl kernel.yama.ptrace_scope=1"
