"""Every shortage ends a command at once with one sentence: what, which limit, and what helps."""

from __future__ import annotations

import errno
import os
import pwd
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from trunkline.harness.processes import needs

ROOT = Path(__file__).parents[3]
TRUNKLINE = [sys.executable, "-m", "trunkline.harness.commands.main"]
RING = str(ROOT / "scenarios" / "internet2_ring.yaml")
LIMITED = "ask who set this limit, such as your batch system, for a higher one"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount file systems")


def ask(tmp_path: Path, script: str, *command: str, limit_s: float = 20) -> tuple[int, str, str]:
    """The exit code, output and errors of a command that `script` starts as `"$@"`."""
    done = subprocess.run(
        ["bash", "-c", script, "bash", *TRUNKLINE, *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )
    return done.returncode, done.stdout, done.stderr


MOUNTED = 'unshare --mount sh -c \'mount -t tmpfs none {} && exec "$@"\' sh "$@"'
SHORT = {
    "address space": (
        'ulimit -v 300000; exec "$@"',
        r"room: the address space of this process is limited to 292 MB (ulimit -v), and a command "
        f"needs ROOM MB beside Python; remedy: {LIMITED}",
    ),
    "data": (
        'ulimit -Sd 300000; exec "$@"',
        "room: the size of data of this process is limited to 292 MB (ulimit -d), and a command "
        "needs ROOM MB beside Python; remedy: ulimit -d unlimited",
    ),
    "open files": (
        'ulimit -n 16; exec "$@"',
        "files: the number of open files of this process is limited to 16 (ulimit -n), and a run "
        f"needs 1024; remedy: {LIMITED}",
    ),
}
UNPRIVILEGED = "setpriv --reuid=65533 --clear-groups --inh-caps=-all,+dac_override "
UNPRIVILEGED += "--ambient-caps=+dac_override --bounding-set=-all,+dac_override"
"""A user for whom the limit of processes holds, and who may still read this tree."""

MISSING = {
    "/dev": "devices: there is no /dev/null; remedy: mount --bind a /dev that has it (in a "
    "container: the runtime's own /dev)",
    "/proc": "proc: /proc is not mounted; remedy: mount -t proc proc /proc",
}
EMPTY = {folder: (MOUNTED.format(folder), said) for folder, said in MISSING.items()}


@pytest.mark.parametrize(
    "short", [*SHORT, *(pytest.param(folder, marks=needs_root) for folder in EMPTY)]
)
def test_a_run_and_the_doctor_say_the_same_of_a_shortage(tmp_path, short):
    """With 300 MB of address space OpenBLAS asked for more forever, deaf to SIGTERM."""
    script, said = {**SHORT, **EMPTY}[short]
    said = said.replace("ROOM", needs.probe_room().found.split()[0])
    code, output, errors = ask(tmp_path, script, "run", RING, "--quiet")
    assert (code, output, errors) == (70, "", f"trunkline: {said}\n")
    assert list(tmp_path.iterdir()) == []
    name, _, rest = said.partition(": ")
    found, _, remedy = rest.partition("; remedy: ")
    code, output, errors = ask(tmp_path, script, "doctor")
    assert (code, errors) == (1, "")
    assert output.splitlines() == [
        f"{'problem':8} {name:13} {found}",
        f"{'':22} remedy: {remedy}",
        "1 of the checks found a problem: runs in the embedded kernel do not work",
    ]


@needs_root
def test_too_few_processes_are_named(tmp_path):
    """OpenBLAS, which starts threads, interrupted its own process."""
    tmp_path.chmod(0o777)
    script = f'ulimit -u 2; exec {UNPRIVILEGED} "$@"'
    code, output, errors = ask(tmp_path, script, "run", RING, "--quiet")
    assert (code, output) == (70, "")
    assert re.fullmatch(
        r"trunkline: processes: the number of processes of this user is limited to 2 "
        rf"\(ulimit -u\), with those that run already, and a run needs \d+; remedy: {LIMITED}\n",
        errors,
    )
    assert list(tmp_path.iterdir()) == []


def test_what_is_tried_takes_no_address_space_from_the_command():
    script = (
        "from pathlib import Path\n"
        "from trunkline.harness.processes import needs\n"
        "def size_pages(): return int(Path('/proc/self/statm').read_text().split()[0])\n"
        "before = size_pages()\n"
        "assert needs.find_problems() == []\n"
        "print(size_pages() - before)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(told.stdout) < 1000


def test_help_needs_nothing(tmp_path):
    code, output, errors = ask(tmp_path, 'ulimit -v 100000; exec "$@"', "run", "--help")
    assert (code, output[:10], errors) == (0, "usage: tru", "")


def test_a_soft_limit_of_open_files_is_raised(tmp_path):
    code, output, errors = ask(tmp_path, 'ulimit -Sn 16; exec "$@"', "list", "plans")
    assert (code, errors) == (0, "")
    assert "crew" in output


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_files_are_no_trouble(tmp_path, closed):
    script = f'"$@" {closed}; code=$?; ls; exit $code'
    assert ask(tmp_path, script, "list", "plans")[0] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("start", ["HOME=", "unset HOME;"])
def test_without_a_home_the_user_s_own_one_is_used(tmp_path, start):
    find = "from trunkline.harness.processes import needs; needs.prepare(); "
    find += "from trunkline.harness.kernel import build; print(build.cached_path())"
    script = f"{start} XDG_CACHE_HOME= {sys.executable} -c '{find}'"
    _, found, errors = ask(tmp_path, script)
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert found.startswith(f"{home.rstrip('/')}/.cache/trunkline/kernel/"), errors


def test_a_user_without_an_entry_has_the_root_folder_as_home(monkeypatch):
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_001)
    needs.prepare()
    assert os.environ["HOME"] == "/"


def test_output_that_cannot_be_written_is_named(tmp_path):
    code, _, errors = ask(tmp_path, 'exec "$@" >/dev/full', "list", "plans")
    assert code == 70
    assert re.fullmatch(
        r"trunkline: standard output.* cannot be written: No space left on device; remedy: free "
        r"some space, or choose another (file|folder)\n",
        errors,
    )


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (MemoryError(), needs.ADDRESS_SPACE),
        (ImportError("x.so: failed to map segment from shared object"), needs.ADDRESS_SPACE),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), needs.ADDRESS_SPACE),
        (OSError(errno.EMFILE, "Too many open files", "x"), needs.FILES),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), needs.PROCESSES),
        (RuntimeError("can't start new thread"), needs.PROCESSES),
    ],
)
@pytest.mark.parametrize(
    ("most", "remedy"), [(resource.RLIM_INFINITY, "{} unlimited"), (10 << 30, LIMITED)]
)
def test_an_error_for_lack_of_something_names_the_limit(monkeypatch, error, limit, most, remedy):
    unlimited = resource.RLIM_INFINITY, resource.RLIM_INFINITY
    limits = {limit.number: (10 << 30, most)}
    monkeypatch.setattr(resource, "getrlimit", lambda number: limits.get(number, unlimited))
    found, helps = needs.explain_error(error)
    assert found == limit.describe()
    assert limit.command in found
    assert helps == remedy.format(limit.command)


@pytest.mark.parametrize(
    ("start", "error"),
    [
        ("export MPLBACKEND=none SOURCE_DATE_EPOCH=today;", ""),
        (
            "export PYTHONOPTIMIZE=2;",
            "trunkline: docstrings: Python leaves them out (PYTHONOPTIMIZE=2 or -OO), and commands "
            "need them; remedy: unset PYTHONOPTIMIZE\n",
        ),
    ],
)
def test_variables_that_libraries_or_python_understand_otherwise(tmp_path, start, error):
    scenario = Path(__file__).parents[3] / "scenarios/overlap.yaml"
    code, _, errors = ask(tmp_path, f'{start} exec "$@"', "validate", str(scenario))
    assert (code, errors) == (70 if error else 0, error)


def test_matplotlib_and_numpy_bear_what_the_environment_says(tmp_path):
    load = "from trunkline.harness.processes import needs; needs.prepare(); "
    load += "import matplotlib, numpy.f2py; print(1)"
    script = f"MPLBACKEND=none SOURCE_DATE_EPOCH=today {sys.executable} -c '{load}'"
    assert ask(tmp_path, script)[1:] == ("1\n", "")


def test_a_current_folder_that_is_gone_is_named(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    error = FileNotFoundError(errno.ENOENT, "No such file or directory")
    assert needs.explain_error(error) == (
        "the current folder is gone",
        "cd into a folder that exists",
    )


def test_a_link_that_leads_to_itself_is_named(tmp_path):
    (tmp_path / "runs").symlink_to("runs")
    with pytest.raises((RuntimeError, OSError)) as caught:
        (tmp_path / "runs").resolve(strict=True)
    assert needs.explain_error(caught.value)[1] == needs.LOOP_REMEDY


def test_other_errors_are_not_for_lack_of_anything():
    for error in (ValueError("no"), OSError(errno.ENOENT, "no", "x"), PermissionError(13, "no")):
        assert needs.explain_error(error) is None


def test_a_file_that_is_too_large_names_its_limit():
    found, helps = needs.explain_error(OSError(errno.EFBIG, "File too large", "events"))
    assert found == "events cannot be written"
    assert helps.startswith("ulimit -f unlimited")


def test_a_file_in_place_of_dev_null_is_no_device(monkeypatch, tmp_path):
    (tmp_path / "null").touch()
    monkeypatch.setattr(needs, "NULL", tmp_path / "null")
    assert needs.probe_devices().found == f"{tmp_path}/null is no device"


@pytest.mark.parametrize(("user", "umask"), [(0, 0o777), (5, 0o022)])
def test_a_umask_that_leaves_the_owner_its_rights_is_right(monkeypatch, user, umask):
    assert probe_umask(monkeypatch, user, umask).state == "ok"


def test_a_umask_that_takes_the_owner_s_rights_is_named(monkeypatch):
    assert str(probe_umask(monkeypatch, 5, 0o777)) == (
        "umask: files of this process cannot be used by their owner (umask 0777); remedy: umask 022"
    )


def probe_umask(monkeypatch, user, umask):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    usual = os.umask(umask)
    try:
        return needs.probe_umask()
    finally:
        os.umask(usual)


def test_a_probe_that_fails_for_lack_of_files_says_so():
    def probe_the_moon():
        raise OSError(errno.EMFILE, "Too many open files", "moon")

    (found,) = needs.find_problems((probe_the_moon,))
    assert found.name == "the moon"
    assert "the number of open files of this process is limited to" in found.found
    assert found.remedy == needs.FILES.suggest()
