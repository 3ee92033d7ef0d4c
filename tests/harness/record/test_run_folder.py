"""Run folders have names of their own, whole files, and errors that say what to do."""

import errno
import json
import os
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
from conftest import Embedded

from trunkline.harness.processes.ownership import Owner
from trunkline.harness.record import run_folder
from trunkline.harness.record.run_folder import RunFolder, StoreError

NOON = datetime(2026, 3, 1, 12, 0, 0)


def test_a_run_folder_is_named_after_its_time_and_has_its_parts(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", "demo", NOON)
    assert folder.path == tmp_path / "runs/demo/20260301-120000"
    assert sorted(path.name for path in folder.path.iterdir()) == ["log", "plots", "tables"]
    assert folder.events == folder.path / "events.jsonl"
    assert folder.log == folder.path / "log"


def test_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    names = [RunFolder.create(tmp_path, "demo", NOON).path.name for _ in range(3)]
    assert names == ["20260301-120000", "20260301-120000-2", "20260301-120000-3"]


def test_latest_points_to_the_run_that_finished_last_and_moves_with_it(tmp_path: Path) -> None:
    first, second = (RunFolder.create(tmp_path, "demo", NOON) for _ in range(2))
    latest = tmp_path / "demo/latest"
    assert not latest.exists()
    second.be_latest()
    assert latest.readlink() == Path("20260301-120000-2")
    first.be_latest()
    assert latest.readlink() == Path("20260301-120000")
    (tmp_path / "demo").rename(tmp_path / "moved")
    assert (tmp_path / "moved/latest").resolve().name == first.path.name


def test_a_run_that_is_removed_is_no_longer_the_latest(tmp_path: Path) -> None:
    first, second = (RunFolder.create(tmp_path, "demo", NOON) for _ in range(2))
    second.be_latest()
    first.remove()
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == [
        "20260301-120000-2",
        "latest",
    ]
    second.remove()
    assert list((tmp_path / "demo").iterdir()) == []


@pytest.mark.parametrize(
    ("events", "log", "left"),
    [
        ('{"event": "x"}\n', "", ["20260301-120000", "20260301-120000-2", "latest"]),
        ('{"event": "x"', "", ["20260301-120000", "latest"]),
        ("", "", ["20260301-120000", "latest"]),
        (None, "", ["20260301-120000", "latest"]),
        (None, "Traceback", ["20260301-120000", "20260301-120000-2", "latest"]),
    ],
)
def test_a_run_that_has_no_verdict_is_the_latest_only_if_it_has_events(
    tmp_path: Path, events: str | None, log: str, left: list[str]
) -> None:
    first, second = (RunFolder.create(tmp_path, "demo", NOON) for _ in range(2))
    first.be_latest()
    if events is not None:
        second.events.write_text(events)
    (second.log / "session.log").write_text(log)
    second.close_unjudged()
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == left
    latest = second if events and events.endswith("\n") else first
    assert (tmp_path / "demo/latest").readlink() == Path(latest.path.name)


def test_a_folder_that_cannot_be_prepared_is_removed(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: str) -> None:
        raise StoreError("no")

    monkeypatch.setattr(RunFolder, "prepare", refuse)
    with pytest.raises(StoreError):
        RunFolder.create(tmp_path, "demo", NOON)
    assert list((tmp_path / "demo").iterdir()) == []


def test_the_only_run_of_a_scenario_leaves_nothing_if_it_has_nothing_to_tell(
    tmp_path: Path,
) -> None:
    RunFolder.create(tmp_path, "demo", NOON).close_unjudged()
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_a_folder_should_be_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    with pytest.raises(StoreError) as raised:
        RunFolder.create(tmp_path, "demo", NOON)
    assert str(raised.value) == (
        f"{tmp_path}/demo: cannot be written: File exists;"
        " move the file that is where a folder should be"
    )


def test_a_folder_called_latest_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "demo/latest").mkdir(parents=True)
    with pytest.raises(StoreError) as raised:
        RunFolder.create(tmp_path, "demo", NOON)
    assert str(raised.value) == (
        f"{tmp_path}/demo/latest: cannot be written: Is a directory;"
        " move the folder that is where a file should be"
    )
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == ["latest"]


def test_a_folder_that_may_not_be_written_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        where, reason = Path("/proc/runs"), "No such file or directory; choose another folder"
    else:
        where, reason = tmp_path, "Permission denied; make it writable for you"
        tmp_path.chmod(0o500)
    with pytest.raises(StoreError) as raised:
        RunFolder.create(where, "demo", NOON)
    assert str(raised.value).startswith(f"{where}/demo: cannot be written: {reason}")


def test_texts_json_and_tables_are_written_readably(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_text("scenario.yaml", "name: café\n")
    folder.write_json("verdict.json", {"verdict": "pass", "checks": []})
    folder.write_table("tasks", pd.DataFrame({"task": [1, 2], "end_s": [0.5, None]}))
    assert folder.read_text("scenario.yaml") == "name: café\n"
    assert json.loads(folder.read_text("verdict.json")) == {"verdict": "pass", "checks": []}
    assert folder.read_text("tables/tasks.csv") == "task,end_s\n1,0.500000\n2,\n"


def test_a_full_disk_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path)
    folder.write_text("verdict.json", "old")

    def half(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(StoreError) as raised:
        folder.write_text("verdict.json", "new")
    assert str(raised.value) == (
        f"{tmp_path}/verdict.json: cannot be written: No space left on device;"
        " free some space, or choose another folder"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["verdict.json"]
    assert folder.read_text("verdict.json") == "old"


def on_a_disk_of_64_kib() -> list[str]:
    """Runs as root of the embedded kernel: the message of a write too many, and what is left."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        subprocess.run(mount, check=True)
        try:
            made = RunFolder.create(Path(folder), "demo", NOON)
            with pytest.raises(StoreError) as raised:
                made.write_text("events.jsonl", "x" * 100_000)
            left = sorted(path.name for path in made.path.iterdir())
        finally:
            subprocess.run(["umount", folder], check=True)
    return [str(raised.value).removeprefix(folder), *left]


def test_a_disk_that_is_really_full_is_reported_the_same_way(embedded: Embedded) -> None:
    assert embedded.call(on_a_disk_of_64_kib) == [
        "/demo/20260301-120000/events.jsonl: cannot be written: No space left on device;"
        " free some space, or choose another folder",
        "log",
        "plots",
        "tables",
    ]


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as raised:
        list(RunFolder(tmp_path).read_log())
    assert str(raised.value) == (
        f"{tmp_path}/events.jsonl: is missing, so {tmp_path} is not a complete run"
    )


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match=r"events\.jsonl: cannot be read: 'utf-8' codec"):
        list(RunFolder(tmp_path).read_log())


SPARSE = 3 * 10**9


@pytest.mark.parametrize(
    ("name", "most", "read"),
    [
        ("environment.json", 100_000_000, lambda folder: folder.read_json("environment.json", {})),
        ("events.jsonl", 2_000_000_000, lambda folder: list(folder.read_log())),
    ],
)
def test_a_file_of_gigabytes_is_not_read(tmp_path, name, most, read):
    with (tmp_path / name).open("wb") as file:
        file.truncate(SPARSE)
    with pytest.raises(StoreError) as raised:
        read(RunFolder(tmp_path))
    told = f"{tmp_path / name}: cannot be read: has {SPARSE} bytes: expected {most} or fewer"
    assert str(raised.value) == told
    assert Owner.of_run(tmp_path) is None


def test_a_line_of_a_log_has_a_longest_length(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "MOST_LINE", 10)
    (tmp_path / "events.jsonl").write_text("123456789\n1234567890\n")
    read = RunFolder(tmp_path).read_log()
    assert next(read) == "123456789\n"
    with pytest.raises(StoreError) as raised:
        next(read)
    told = "cannot be read: line 2: expected 10 characters or fewer"
    assert str(raised.value) == f"{tmp_path}/events.jsonl: {told}"


@pytest.mark.parametrize("name", ["environment.json", "events.jsonl"])
def test_a_pipe_in_a_run_folder_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    folder = RunFolder(tmp_path)
    with pytest.raises(StoreError, match=r"cannot be read: is a pipe: expected a regular file$"):
        list(folder.read_log()) if name == "events.jsonl" else folder.read_text(name)
    assert Owner.of_run(tmp_path) is None


def test_the_environment_names_everything_that_a_result_may_depend_on() -> None:
    found = run_folder.environment(
        backend="embedded", clock="virtual", seed=7, guest_kernel="6.12.30"
    )
    assert list(found) == [
        "version", "commit", "backend", "clock", "seed", "kernel", "host", "python", "packages",
        "owner",
    ]  # fmt: skip
    assert (found["backend"], found["clock"], found["seed"]) == ("embedded", "virtual", 7)
    assert found["kernel"] == "6.12.30"
    assert found["host"]["kernel"] == os.uname().release
    assert found["host"]["cpus"] == os.cpu_count()
    assert found["packages"]["pandas"] == pd.__version__
    assert json.loads(json.dumps(found)) == found


def test_without_a_guest_the_network_ran_in_the_hosts_kernel() -> None:
    found = run_folder.environment(backend="host", clock="real", seed=1, guest_kernel=None)
    assert found["kernel"] == os.uname().release
