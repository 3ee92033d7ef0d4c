"""Which places of a private run are bound to the user's files, and which of them it may write."""

from pathlib import Path

import pytest

from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import CannotRunError, load
from trunkline.harness.session.private_files import choose_places

SCENARIO = Path(__file__).parents[3] / "scenarios" / "internet2_ring.yaml"


@pytest.fixture
def home(tmp_path):
    for name in ("own/code/bin", "own/code/runs/1", "other/results"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "own/link").symlink_to(tmp_path / "other")
    return tmp_path


def places(home, needed, writable):
    needed, writable = ([home / name for name in names] for names in (needed, writable))
    found = choose_places(needed, writable, [str(home / "own")])
    return [(str(path.relative_to(home)), write) for path, write in found.items()]


def test_what_lies_in_a_hidden_folder_is_bound_once_and_read_only(home):
    needed = ("own/code", "own/code/bin", "other", "own")
    assert places(home, needed, ()) == [("own/code", False)]


def test_a_writable_folder_is_bound_wherever_it_is_also_inside_one_that_is_not(home):
    writable = ("own/code/runs/1", "other/results")
    assert places(home, ("own/code", "other"), writable) == [
        ("other/results", True),
        ("own/code", False),
        ("own/code/runs/1", True),
    ]


def test_what_lies_in_a_writable_folder_stays_writable(home):
    assert places(home, ("own/code/bin",), ("own/code",)) == [("own/code", True)]


def test_a_link_in_a_hidden_folder_keeps_its_name(home):
    assert places(home, ("own/link",), ()) == [("own/link", False)]
    assert places(home, (), ("own/link",)) == [("other", True), ("own/link", True)]


def test_a_writable_folder_that_does_not_exist_is_refused_before_anything_starts(tmp_path):
    nowhere = tmp_path / "nowhere"
    scenario = load(SCENARIO, [f"files.writable=[{nowhere}]"])
    with pytest.raises(CannotRunError, match=f"files.writable: {nowhere}: there is no such folder"):
        runner.run(scenario, SCENARIO, tmp_path / "runs", lambda now: None)
    assert not (tmp_path / "runs").exists()
