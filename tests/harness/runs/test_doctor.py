"""The doctor names what keeps runs from working, and what helps."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trunkline.harness.commands import main
from trunkline.harness.kernel import KernelError, boot, build, probes
from trunkline.harness.processes.needs import Finding
from trunkline.harness.runs import doctor

ROOT = Path(__file__).parents[3]
NO_PTRACE = ROOT / "tests/harness/kernel/no_ptrace.c"
TRUNKLINE = [sys.executable, "-m", "trunkline.harness.commands.main"]

REFUSED = r"PTRACE_TRACEME is refused \(EPERM\); (a|this container's) seccomp filter may forbid it"

ALLOWED = (
    "a filter that allows ptrace, such as docker run --cap-add SYS_PTRACE, or --security-opt "
    "seccomp=unconfined"
)

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


def test_the_brief_form_leaves_out_what_only_some_runs_lack(monkeypatch, capsys):
    found = [
        Finding("kernel", "ok", "6.12"),
        Finding("host backend", "warning", "netem", "modprobe"),
    ]
    monkeypatch.setattr(doctor, "examine", lambda *_: iter(found))
    assert main.main(["doctor", "--brief"]) == 0
    assert capsys.readouterr().out == (
        "2 checks of this machine: none found a problem (trunkline doctor lists them)\n"
    )
    found[0] = Finding("kernel", "problem", "not built", "trunkline kernel build")
    assert main.main(["doctor", "--brief"]) == 1
    said = capsys.readouterr().out
    assert "remedy: trunkline kernel build" in said
    assert "host backend" not in said


def test_on_this_machine_runs_work(embedded):
    code, output, _ = ask()
    assert (code, problems(output)) == (0, {})
    assert [each["name"] for each in json.loads(output)] == [
        "proc",
        "umask",
        "devices",
        "room",
        "processes",
        "files",
        "processor",
        "tracing",
        "memory",
        "programs",
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
    assert found["tracing"]["remedy"] == ALLOWED
    assert found["boot"]["found"] == "not tried, because of the problems above"


def test_where_ptrace_is_refused_every_command_says_so_at_once(no_ptrace, embedded, tmp_path):
    run = ("run", "internet2_ring", "--quiet", "--runs", str(tmp_path))
    for command in (run, ("kernel", "run", "--", "true")):
        code, output, errors = ask(no_ptrace, command=command)
        assert (code, output) == (70, "")
        assert re.fullmatch(f"trunkline: tracing: {REFUSED}; remedy: {ALLOWED}\n", errors)
    assert list(tmp_path.iterdir()) == []


def test_a_kernel_that_dies_for_another_reason_shows_its_last_words(tmp_path):
    kernel = tmp_path / "linux"
    kernel.write_text(
        "#!/bin/sh\nseq 20\necho Kernel panic: no registers\necho CPU: 0\nseq 20\nexit 3\n"
    )
    kernel.chmod(0o755)
    with pytest.raises(KernelError) as error:
        boot.run(["true"], kernel=kernel)
    assert str(error.value).splitlines() == [
        "the embedded kernel ended before its program began, with exit status 3",
        "this machine has all that the kernel needs, as far as `trunkline doctor` can see; please "
        "report this with your processor and these last words",
        "its last words:",
        *(f"    {number}" for number in range(16, 21)),
        "    Kernel panic: no registers",
    ]


def test_a_guest_that_is_killed_before_its_program_begins_shows_the_memory(tmp_path):
    kernel = tmp_path / "linux"
    kernel.write_text("#!/bin/sh\nkill -9 $$\n")
    kernel.chmod(0o755)
    with pytest.raises(KernelError) as error:
        boot.run(["true"], kernel=kernel)
    ended, memory, *rest = str(error.value).splitlines()
    assert ended == (
        "the embedded kernel ended before its program began, killed by SIGKILL from outside, by a "
        "person or for lack of memory (dmesg says so)"
    )
    assert memory.startswith("memory: ")
    assert rest == []


def test_a_filter_that_kills_who_uses_ptrace_is_named(tmp_path):
    built = tmp_path / "no_ptrace"
    kill = "-DREFUSE=SECCOMP_RET_KILL_PROCESS"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", kill, "-o", built, NO_PTRACE], check=True)
    code, output, _ = ask(str(built))
    assert code == 1
    assert "PTRACE_TRACEME ends the process (SIGSYS)" in problems(output)["tracing"]["found"]


@pytest.mark.parametrize(
    ("limit", "found", "remedy"),
    [
        (
            "ulimit -Sv 3000000",
            "the address space of this process is limited to 2929 MB (ulimit -v), and a guest with "
            "6144 MB of memory needs 6400 MB",
            "ulimit -v unlimited, or less limits.memory",
        ),
        (
            "ulimit -f 1000000",
            "the size of files of this process is limited to 976 MB (ulimit -f), and a guest with "
            "6144 MB of memory needs 6144 MB",
            "ask who set this limit, such as your batch system, for a higher one, or less "
            "limits.memory",
        ),
    ],
)
def test_limits_of_the_process_are_named(limit, found, remedy):
    limited = ("bash", "-c", f'{limit} && exec "$@"', "bash")
    code, output, _ = ask(*limited)
    assert code == 1
    memory = problems(output)["memory"]
    assert (memory["found"], memory["remedy"]) == (found, remedy)
    code, _, errors = ask(*limited, command=("kernel", "run", "--", "true"))
    assert (code, errors) == (70, f"trunkline: {found}; remedy: {remedy}\n")


@pytest.mark.parametrize(
    ("group", "file", "at"),
    [
        ("4:memory:/batch/job", "memory/batch/memory.limit_in_bytes", "above the process"),
        ("4:memory:/host/path", "memory/memory.limit_in_bytes", "at the top, in a container"),
        ("0::/batch/job", "batch/job/memory.max", "of the process"),
    ],
)
def test_the_memory_of_a_control_group_is_named(monkeypatch, tmp_path, group, file, at):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text(f"1:cpu:/\n{group}\n")
    (tmp_path / "meminfo").write_text("MemAvailable:   16777216 kB\n")
    limit = tmp_path / "groups" / file
    limit.parent.mkdir(parents=True)
    limit.write_text(f"{2 << 30}\n")
    monkeypatch.setattr(probes, "PROC", tmp_path)
    monkeypatch.setattr(probes, "CONTROL_GROUPS", tmp_path / "groups")
    found = probes.probe_memory(1024)
    assert (found.state, found.found) == (
        "ok",
        "/dev/shm holds a guest's 1024 MB; 16384 MB of memory are free",
    ), at
    found = probes.probe_memory(4096)
    assert found.state == "warning", at
    assert found.found.endswith(", but the control group of this process may use 2048 MB")


@needs_root
def test_a_small_dev_shm_is_a_warning_if_another_folder_has_room():
    code, output, _ = ask(
        *mounted("mount -t tmpfs -o size=16m n /dev/shm && mount -t tmpfs -o size=8g n /tmp")
    )
    assert code == 0
    (memory,) = (each for each in json.loads(output) if each["name"] == "memory")
    assert memory["state"] == "warning"
    assert memory["found"].startswith("/tmp holds a guest's 6144 MB; ")
    assert memory["found"].endswith(
        ", but /dev/shm has 16 MB free; a guest is slower if its memory is on a disk"
    )


@needs_root
def test_where_nothing_can_be_written_the_doctor_says_so():
    read_only = [f"mount -t tmpfs -o ro none {f}" for f in ("/dev/shm", "/tmp", "/var/tmp")]
    script = " && ".join((*read_only, "mount -o remount,bind,ro /"))
    code, output, _ = ask(*mounted(script))
    found = problems(output)
    assert code == 1
    assert found["memory"]["found"] == (
        "no place for the guest's 6144 MB of memory: /dev/shm is not writable; /tmp is not writable"
    )
    assert found["folders"]["found"].endswith(f"{ROOT}/runs (runs) and /tmp (scratch files)")


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
    assert errors.endswith(
        "; remedy: a folder that can be written and has room, in the variable XDG_CACHE_HOME\n"
    )


@needs_root
def test_a_full_disk_is_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    full = f"mount -t tmpfs -o size=4k none {tmp_path} && head -c 4096 /dev/zero >{tmp_path}/x"
    code, output, _ = ask(*mounted(full))
    assert code == 1
    assert (
        problems(output)["folders"]["found"] == f"cannot write {build.path().parent} (the kernel)"
    )


def test_missing_build_tools_are_a_warning_if_the_kernel_is_built(monkeypatch, tmp_path, embedded):
    (tmp_path / "make").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = doctor.check_build_tools()
    assert found.state == "warning"
    assert found.found.startswith("missing bc bison flex gcc ")
    assert found.remedy.startswith("sudo apt-get install bc bison flex gcc ")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert doctor.check_build_tools().state == "problem"


FOREIGN = (
    "processor: i686: the embedded kernel exists for x86_64 only; remedy: backend: host, which "
    "needs root, with the network of this machine's own kernel"
)


def test_on_another_processor_the_doctor_says_nothing_else_of_the_kernel():
    code, output, _ = ask("setarch", "i686")
    assert code == 1
    assert list(problems(output)) == ["processor"]
    assert [each["name"] for each in json.loads(output)] == [
        "proc",
        "umask",
        "devices",
        "room",
        "processes",
        "files",
        "processor",
        "folders",
        "data set",
        "host backend",
        "versions",
    ]


def test_on_another_processor_every_command_says_so_at_once(tmp_path):
    run = ("run", "internet2_ring", "--quiet", "--runs", str(tmp_path))
    for command in (run, ("kernel", "build"), ("kernel", "run", "--", "true")):
        code, output, errors = ask("setarch", "i686", command=command)
        assert (code, output, errors) == (70, "", f"trunkline: {FOREIGN}\n")
    assert list(tmp_path.iterdir()) == []
    assert ask("setarch", "i686", command=("kernel", "status")) == (1, f"{FOREIGN}\n", "")


def test_a_guest_without_a_virtual_clock_is_a_problem(monkeypatch, embedded):
    monkeypatch.setattr(doctor, "SLEEP_S", 1)
    monkeypatch.setattr(boot, "run", functools.partial(boot.run, clock="real"))
    found = doctor.check_boot()
    assert found.state == "problem"
    assert re.fullmatch(
        r"the guest's clock began \d+ s after its epoch, and 1 s of sleep took \d s of it and "
        r"\d\.\d s of ours",
        found.found,
    )


def test_programs_that_are_missing_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    path = f"{tmp_path}:/usr/local/sbin:/usr/sbin:/sbin"
    assert str(probes.probe_programs()) == (
        f"programs: grep not found in {path}; remedy: a PATH with {os.defpath} in it, or sudo "
        "apt-get install grep"
    )
    (tmp_path / "grep").symlink_to("/bin/true")
    found = probes.probe_programs()
    assert (found.state, found.found) == (
        "warning",
        "mnexec not found, which starts shells at sites",
    )
    monkeypatch.setattr(os, "defpath", str(tmp_path))
    told = f"programs: setpriv and taskset not found in {tmp_path}; remedy: sudo apt-get install "
    told += "util-linux"
    assert str(probes.probe_programs()) == told
    with pytest.raises(KernelError) as error:
        boot.run(["true"])
    assert str(error.value) == told


def test_a_check_that_fails_is_a_problem_and_the_others_are_carried_out():
    def check_the_moon():
        raise OSError("no moon")

    assert [str(found) for found in doctor.examine((check_the_moon, doctor.check_boot))] == [
        "the moon: cannot be tried: OSError: no moon; remedy: please report this",
        "boot: not tried, because of the problems above; remedy: the remedies above",
    ]


@pytest.mark.parametrize(
    ("version", "scope", "seccomp", "said", "remedy"),
    [
        ("Linux version 4.19.0-gvisor", None, 2, "; this is gVisor, which lacks it", "runc"),
        ("Linux", 3, 0, "; Yama forbids it (sys/kernel/yama/ptrace_scope is 3)", "boot"),
        (
            "Linux",
            2,
            2,
            "; Yama allows it to administrators only (sys/kernel/yama/ptrace_scope is 2)",
            "sudo sysctl kernel.yama.ptrace_scope=1, or the capability CAP_SYS_PTRACE",
        ),
        ("Linux", 1, 2, "; a seccomp filter may forbid it", "seccomp=unconfined"),
        ("Linux", None, 0, "", "ask who runs this machine"),
    ],
)
def test_a_refusal_to_trace_is_explained_by_what_the_machine_says_of_itself(
    monkeypatch, tmp_path, version, scope, seccomp, said, remedy
):
    (tmp_path / "version").write_text(version)
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text(
        f"Name:\tx\nCapEff:\t000001fffef7ffff\nSeccomp:\t{seccomp}\nSeccomp_filters:\t1\n"
    )
    if scope is not None:
        (tmp_path / "sys/kernel/yama").mkdir(parents=True)
        (tmp_path / "sys/kernel/yama/ptrace_scope").write_text(f"{scope}\n")
    monkeypatch.setattr(probes, "PROC", tmp_path)
    monkeypatch.setattr(probes, "CONTAINER_MARKS", ())
    found, helps = probes._explain_refusal()
    assert found == said
    assert remedy in helps
