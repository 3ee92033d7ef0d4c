"""Runs on a Dask cluster: what is lost is repeated, what is finished is not, the table is the same.

The runs only pretend (`tests/fake_runs.py`); schedulers, workers and their deaths are real.
"""

import signal
from collections import Counter

import pandas as pd
import pytest
from dask_machines import WAIT_S, machines, read_trials, wait_until

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def sequential(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The table of the same comparison, by one process at a time on this machine."""
    with machines(tmp_path_factory.mktemp("sequential"), FAKE_S="0") as here:
        done = here.compare()
        assert done.wait(WAIT_S) == 1, here.read(done)  # some trials fail
        return read_trials(here.folder)


def test_a_lost_worker_costs_only_its_run_which_is_repeated_and_counted(tmp_path, sequential):
    with machines(tmp_path) as here:
        here.scheduler()
        lost, _ = here.worker(), here.worker()
        done = here.compare("--on-cluster", here.address)
        wait_until(lambda: here.count("end") >= 2 and len(here.under_way()) == 2)
        lost.kill()
        assert done.wait(WAIT_S) == 1, here.read(done)
        assert here.under_way() == set()
        pd.testing.assert_frame_equal(read_trials(tmp_path), sequential)
        tries = pd.read_csv(tmp_path / "out" / "tables" / "trials.csv")["tries"]
        assert sorted(tries) == [1] * 7 + [2]
        assert (here.count("start"), here.count("end")) == (9, 8)
        assert "starts again on" in here.read(done)


def test_without_the_scheduler_the_command_says_what_to_do_and_then_continues(tmp_path, sequential):
    with machines(tmp_path) as here:
        scheduler = here.scheduler()
        here.worker(), here.worker()
        done = here.compare("--on-cluster", here.address)
        wait_until(lambda: here.count("end") >= 3)
        scheduler.kill()
        assert done.wait(WAIT_S) == 70
        said = here.read(done).splitlines()[-1]
        assert said == (
            f"trunkline: {here.address}: the connection to the scheduler is lost; finished runs are"
            " kept: start it again if it ended, then the same command continues"
        )
        wait_until(lambda: not here.under_way())  # no run outlives its cluster
        here.scheduler()
        here.worker()
        done = here.compare("--on-cluster", here.address)
        assert done.wait(WAIT_S) == 1, here.read(done)
        pd.testing.assert_frame_equal(read_trials(tmp_path), sequential)
        ended = Counter(words[1] for words in here.log if words[0] == "end")
        assert set(ended.values()) == {1}


def test_a_command_that_is_killed_leaves_no_run_and_continues(tmp_path, sequential):
    with machines(tmp_path, FAKE_S="3") as here:
        here.scheduler()
        here.worker(FAKE_S="1"), here.worker()
        done = here.compare("--on-cluster", here.address)
        wait_until(lambda: here.count("end") >= 2 and here.under_way())
        done.send_signal(signal.SIGKILL)
        done.wait()
        wait_until(lambda: not here.under_way())
        done = here.compare("--on-cluster", here.address)
        assert done.wait(WAIT_S) == 1, here.read(done)
        pd.testing.assert_frame_equal(read_trials(tmp_path), sequential)


def test_without_a_shared_folder_run_folders_are_fetched(tmp_path, sequential):
    with machines(tmp_path, FAKE_S="0", FAKE_UNSHARED="yes") as here:
        here.scheduler()
        here.worker()
        done = here.compare("--on-cluster", here.address)
        assert done.wait(WAIT_S) == 1, here.read(done)
        pd.testing.assert_frame_equal(read_trials(tmp_path), sequential)


def test_a_cluster_on_this_machine_gives_the_same_table(tmp_path, sequential):
    with machines(tmp_path, FAKE_S="0") as here:
        done = here.compare("--on-cluster", "local", "--jobs", "2")
        assert done.wait(WAIT_S) == 1, here.read(done)
        pd.testing.assert_frame_equal(read_trials(tmp_path), sequential)


def test_a_machine_that_cannot_carry_out_runs_is_sent_away(tmp_path, sequential):
    with machines(tmp_path) as here:
        here.scheduler()
        here.worker(FAKE_UNFIT="there is no kernel"), here.worker(FAKE_S="0.3")
        done = here.compare("--on-cluster", here.address)
        assert done.wait(WAIT_S) == 1, here.read(done)
        assert here.read(done).count("there is no kernel; the run goes to another worker") == 1
        pd.testing.assert_frame_equal(read_trials(tmp_path), sequential)


def test_an_address_without_a_scheduler_is_an_error(tmp_path):
    with machines(tmp_path, DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="1s") as here:
        done = here.compare("--on-cluster", "tcp://127.0.0.1:9")
        assert done.wait(WAIT_S) == 70
        assert "trunkline: tcp://127.0.0.1:9: cannot be used: " in here.read(done)
