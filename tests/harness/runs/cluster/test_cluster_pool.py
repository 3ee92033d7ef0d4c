"""Runs on a Dask cluster: what is lost is repeated, what is finished is not, the table is the same.

The runs only pretend (`tests/fake_runs.py`); schedulers, workers and their deaths are real.
"""

import json
import os
import re
import signal
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from dask_machines import WAIT_S, Machines, machines, read_trials, wait_until
from warm_python import WarmProcess

from trunkline.harness.runs import orphans

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def sequential(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The table of the same comparison, by one process at a time on this machine."""
    with machines(tmp_path_factory.mktemp("sequential"), FAKE_S="0") as here:
        done = here.compare()
        assert done.wait(WAIT_S) == 1, here.read(done)  # some trials fail
        return read_trials(here.folder)


def list_counted(here: Machines) -> set[str]:
    """The names of runs that are under way, and whose start is counted."""
    file = here.folder / "out" / "tries.json"
    counted = {run[:8] for run in json.loads(file.read_text())} if file.exists() else set()
    begun = {words[1] for words in here.log if words[0] == "start"}
    ended = {words[1] for words in here.log if words[0] == "end"}
    return {name for name in begun - ended if name[-8:] in counted}


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


def test_a_killed_command_and_then_a_lost_scheduler_cost_only_what_was_under_way(
    tmp_path, sequential
):
    with machines(tmp_path) as here:
        scheduler = here.scheduler()
        here.worker(), here.worker()
        done = here.compare("--on-cluster", here.address)
        wait_until(lambda: here.count("end") >= 2 and list_counted(here))
        lost = list_counted(here)
        done.kill()
        done.wait()
        wait_until(lambda: not here.under_way())  # no run outlives its command

        ended = here.count("end")
        done = here.compare("--on-cluster", here.address)
        wait_until(lambda: here.count("end") > ended)
        scheduler.kill()
        assert done.wait(WAIT_S) == 70
        assert here.read(done).splitlines()[-1] == (
            f"trunkline: {here.address}: the connection to the scheduler is lost; finished runs are"
            " kept: start it again if it ended, then the same command continues"
        )
        wait_until(lambda: not here.under_way())  # nor its scheduler

        here.scheduler()
        here.worker()
        done = here.compare("--on-cluster", here.address)
        assert done.wait(WAIT_S) == 1, here.read(done)
        pd.testing.assert_frame_equal(read_trials(tmp_path), sequential)
        ended = Counter(words[1] for words in here.log if words[0] == "end")
        assert set(ended.values()) == {1}
        trials = pd.read_csv(tmp_path / "out" / "tables" / "trials.csv")
        counted = {Path(run).parent.name for run in trials["run"][trials["tries"] > 1]}
        assert lost & counted


def stop_amid_a_run(worker: WarmProcess, scratch: Path) -> None:
    """Stop a worker while the folder of one of its runs is there."""
    while True:
        wait_until(lambda: [*scratch.glob("trunkline-*")])
        worker.send_signal(signal.SIGSTOP)
        if [*scratch.glob("trunkline-*")]:
            return
        worker.send_signal(signal.SIGCONT)


def test_without_a_shared_folder_run_folders_are_fetched(tmp_path, sequential):
    """A worker that is killed leaves a folder, of which `trunkline clean` knows the owner."""
    (scratch := tmp_path / "scratch").mkdir()
    with machines(tmp_path, FAKE_S="0.3", FAKE_UNSHARED="yes", TMPDIR=str(scratch)) as here:
        here.scheduler()
        lost = here.worker()
        done = here.compare("--on-cluster", here.address)
        stop_amid_a_run(lost, scratch)
        lost.kill()
        lost.wait()
        here.worker()
        assert done.wait(WAIT_S) == 1, here.read(done)
        pd.testing.assert_frame_equal(read_trials(tmp_path), sequential)
        assert "dashboard" not in here.read(done)
        assert "8 of 8 done (2 failed)" in here.read(done)
        (left,) = [each for each in orphans.find([scratch]) if isinstance(each, orphans.Folder)]
        assert left.owner.pid == lost.pid
        assert [left.path] == [*scratch.glob("trunkline-*")]


def test_a_cluster_on_this_machine_gives_the_same_table(tmp_path, sequential):
    with machines(tmp_path, FAKE_S="0") as here:
        done = here.compare("--on-cluster", "local", "--jobs", "2")
        assert done.wait(WAIT_S) == 1, here.read(done)
        pd.testing.assert_frame_equal(read_trials(tmp_path), sequential)


def test_ctrl_c_at_the_terminal_ends_a_cluster_on_this_machine_without_a_traceback(tmp_path):
    with machines(tmp_path, FAKE_S="2") as here:
        done = here.compare("--on-cluster", "local", "--jobs", "2")
        wait_until(lambda: here.count("end") >= 1 or done.poll() is not None)
        os.killpg(done.pid, signal.SIGINT)  # so also to the workers
        assert done.wait(WAIT_S) == 130, here.read(done)
        kept = (read_trials(tmp_path)["verdict"] != "missing").sum()
        assert kept >= 1
        assert here.read(done).splitlines()[-2:] == [
            f"{kept} of 8 trials are kept in out; its page and tables show these trials; "
            "the same command continues",
            "trunkline: interrupted",
        ]
        assert "Traceback" not in here.read(done)
        wait_until(lambda: not here.under_way())


def test_a_machine_that_cannot_carry_out_runs_is_sent_away(tmp_path, sequential):
    preload = tmp_path / "served.py"
    name = "distributed.dashboard.scheduler"  # what Dask imports to serve it, if there is bokeh
    preload.write_text(f"import sys\nsys.modules[{name!r}] = sys\n")
    with machines(tmp_path, DASK_DISTRIBUTED__SCHEDULER__PRELOAD=str(preload)) as here:
        here.scheduler()
        here.worker(FAKE_UNFIT="there is no kernel"), here.worker(FAKE_S="0.2")
        done = here.compare("--on-cluster", here.address)
        assert done.wait(WAIT_S) == 1, here.read(done)
        assert here.read(done).count("there is no kernel; the run goes to another worker") == 1
        [line] = [each for each in here.read(done).splitlines() if "dashboard" in each]
        assert re.fullmatch(r"dashboard  http://127\.0\.0\.1:\d+/status", line)
        pd.testing.assert_frame_equal(read_trials(tmp_path), sequential)


def test_an_address_without_a_scheduler_is_an_error(tmp_path):
    with machines(tmp_path, DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="1s") as here:
        done = here.compare("--on-cluster", "tcp://127.0.0.1:9")
        assert done.wait(WAIT_S) == 70
        assert "trunkline: tcp://127.0.0.1:9: cannot be used: " in here.read(done)
