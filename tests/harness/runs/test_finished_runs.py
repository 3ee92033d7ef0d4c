"""How often runs were started is counted over all commands, however they end."""

import json
from pathlib import Path

import pytest

from trunkline.harness.live.sweep_progress import Running
from trunkline.harness.record.run_folder import RunFolder, StoreError
from trunkline.harness.runs.finished_runs import TRIES, Tries, lock
from trunkline.harness.runs.run_pool import Finished, Job


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def finish(run: str, tries: int = 1) -> Finished:
    return Finished(Job(run, "a.yaml", "", (), 1, run), "pass", Path("there"), None, tries=tries)


def test_what_was_in_progress_when_a_command_was_killed_was_tried_once_more(
    folder: RunFolder,
) -> None:
    killed = Tries(folder)
    killed.note_running([Running("a"), Running("b", starts=2)])
    killed.note_finished(finish("a"))
    killed.note_running([Running("b", starts=2), Running("c")])
    later = Tries(folder)  # the same command, after the first one was killed
    later.note_running([Running("b"), Running("c")])
    later.note_finished(finish("b"))
    later.note_finished(finish("c", tries=2))
    later.note_finished(finish("d"))
    assert later.list_all(["a", "b", "c", "d"]) == [1, 3, 3, 1]
    assert Tries(folder).list_all(["a", "b", "c", "d"]) == [1, 3, 3, 1]


def test_what_the_user_ends_is_not_counted(folder: RunFolder) -> None:
    ended = Tries(folder)
    ended.note_running([Running("a"), Running("b", starts=3)])
    ended.forget_running()
    later = Tries(folder)
    later.note_running([Running("a"), Running("b")])
    for run in ("a", "b"):
        later.note_finished(finish(run))
    assert later.list_all(["a", "b"]) == [1, 3]


def test_runs_that_started_once_leave_no_numbers(folder: RunFolder) -> None:
    tries = Tries(folder)
    tries.note_running([Running("a")])
    assert json.loads((folder.path / TRIES).read_text()) == {"a": 1}
    tries.note_finished(finish("a"))
    assert json.loads((folder.path / TRIES).read_text()) == {}
    assert tries.list_all(["a"]) == []


def test_what_a_killed_share_had_started_is_counted_too(folder: RunFolder) -> None:
    first, second = Tries(folder, "1-of-2"), Tries(folder, "2-of-2")
    first.note_running([Running("a")])
    second.note_running([Running("b")])
    first.note_finished(finish("a"))
    first.note_running([Running("c")])
    again = Tries(folder, "2-of-2")  # both were killed, and one of them was submitted again
    again.note_running([Running("b")])
    again.note_finished(finish("b"))
    whole = Tries(folder)
    whole.note_running([Running("c")])
    whole.note_finished(finish("c"))
    assert Tries(folder).list_all(["a", "b", "c"]) == [1, 2, 2]


def test_only_shares_of_the_same_number_go_on_beside_each_other(tmp_path: Path) -> None:
    with lock(tmp_path, "1-of-2"):
        pass
    with lock(tmp_path, "1-of-3"), lock(tmp_path, "2-of-3"):
        for other in ("", "1-of-3", "1-of-2", "3-of-4"):
            with (
                pytest.raises(StoreError, match="another comparison is using it"),
                lock(tmp_path, other),
            ):
                pass
    with lock(tmp_path, "3-of-4"):
        pass
    with lock(tmp_path):
        pass
