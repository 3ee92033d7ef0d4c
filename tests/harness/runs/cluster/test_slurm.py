"""A real SLURM carries out the runs, as Dask's workers and as a job array; both continue."""

import os
import re
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from dask_machines import WAIT_S, Machines, machines, read_trials, wait_until
from slurm_machine import IS_THERE, SlurmMachine

pytestmark = pytest.mark.skipif(not IS_THERE, reason="needs root, slurm-wlm and munge")

FILE = """\
kind: slurm
jobs: 4
walltime: 5 min
memory: 100 MB
interface: lo
"""
TRIALS = int(os.environ.get("SLURM_TRIALS", "8"))
RUN_S = os.environ.get("SLURM_RUN_S", "0.7")
"""Trials of each of two cells, and how long each takes: docs/cluster.md has 500 and 0.2."""

POLL_S = 0.3
"""How often SLURM is asked, which costs more than a look at a file."""


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmMachine]:
    # Not below /tmp, which everybody may write: munge would not trust its key.
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        SlurmMachine(Path(folder, "slurm")) as machine,
    ):
        yield machine


def list_jobs(slurm: SlurmMachine) -> list[str]:
    return slurm.says("squeue", "--noheader", "--array", "--format=%A", "--state=R").split()


def wait_for_jobs(slurm: SlurmMachine) -> None:
    wait_until(lambda: not slurm.says("squeue", "--noheader"), POLL_S)


def compare(here: Machines, *words: str) -> subprocess.Popen[bytes]:
    return here.compare("--trials", str(TRIALS), *words)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The table by this machine's own processes."""
    with machines(tmp_path_factory.mktemp("sequential"), FAKE_S="0") as here:
        done = compare(here, "--jobs", "2")
        assert done.wait(WAIT_S + 2 * TRIALS) == 1, here.read(done)
        return read_trials(here.folder)


def count_ended(here: Machines) -> Counter[str]:
    return Counter(words[1] for words in here.log if words[0] == "end")


def test_jobs_that_are_lost_and_a_lost_command_cost_only_what_was_under_way(
    tmp_path, slurm, expected
):
    pytest.importorskip("dask_jobqueue")
    folder = tmp_path / "a b"  # SLURM's scripts need quotes for it
    with machines(folder, **slurm.env, FAKE_S=RUN_S) as here:
        (folder / "slurm.yaml").write_text(FILE)
        done = compare(here, "--on-cluster", "slurm.yaml")
        wait_until(lambda: here.count("end") >= 4 and len(list_jobs(slurm)) == 4, POLL_S)
        for job in list_jobs(slurm)[:2]:
            slurm.kill(job)
        ended = here.count("end")
        wait_until(lambda: here.count("end") >= ended + 4)
        done.send_signal(signal.SIGKILL)  # with it the scheduler
        done.wait()
        wait_until(lambda: not here.under_way())
        wait_for_jobs(slurm)
        done = compare(here, "--on-cluster", "slurm.yaml")
        assert done.wait(WAIT_S + 2 * TRIALS) == 1, here.read(done)
        pd.testing.assert_frame_equal(read_trials(folder), expected)
        assert set(count_ended(here).values()) == {1}
        assert "Traceback" not in here.read(done)


def test_a_job_array_continues_what_is_missing(tmp_path, slurm, expected):
    folder = tmp_path / "a b"  # SLURM's scripts need quotes for it
    with machines(folder, **slurm.env, FAKE_S=RUN_S) as here:
        file = FILE.replace("interface: lo\n", "").replace("jobs: 4", "jobs: 2")
        file += """directives: ["--comment='a b'"]\nbefore: ['test -z "$NOT_SET"']\n"""
        (folder / "slurm.yaml").write_text(file)
        written = compare(here, "--on-cluster=slurm.yaml", "--sbatch", "array.sh", "--jobs", "8")
        assert written.wait(WAIT_S) == 0, here.read(written)
        array, whole = here.read(written).splitlines()[-2:]
        assert "--jobs" not in whole  # one run at once, as this job has one processor
        submit = ["bash", "-euc", f"{array}; echo $array"]
        slurm_says(here, submit)
        wait_until(lambda: here.count("end") >= 4 and len(list_jobs(slurm)) == 2, POLL_S)
        slurm.kill(list_jobs(slurm)[0])
        wait_for_jobs(slurm)
        assert here.count("end") < 2 * TRIALS
        slurm_says(here, ["bash", "-euc", f"{array}; {whole}"])
        wait_for_jobs(slurm)
        pd.testing.assert_frame_equal(read_trials(folder), expected)
        assert set(count_ended(here).values()) == {1}
        last = sorted(folder.glob("array.sh-*.log"), key=lambda path: path.stat().st_mtime)[-1]
        assert re.search(r"^results  out$", last.read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("queue: none", "SLURM refused: invalid partition specified: none; Batch job "),
        ("queue: short", "waits forever: Partition"),
    ],
)
def test_if_no_job_gets_a_worker_the_command_says_why(tmp_path, slurm, more, why):
    pytest.importorskip("dask_jobqueue")
    with machines(tmp_path, **slurm.env) as here:
        (tmp_path / "slurm.yaml").write_text(f"{FILE}{more}\n")
        done = here.compare("--on-cluster", "slurm.yaml")
        assert done.wait(WAIT_S) == 70, here.read(done)
        said = here.read(done).splitlines()[-1]
        assert said.startswith("trunkline: 4 of 4 jobs have no worker: ")
        assert why in said
        assert "Traceback" not in here.read(done)
        assert not slurm.says("squeue", "--noheader")


def test_jobs_that_fail_are_done_without_and_ctrl_c_ends_the_others(tmp_path, slurm):
    pytest.importorskip("dask_jobqueue")
    with machines(tmp_path, **slurm.env, FAKE_S="2") as here:
        once = f"before: [echo start >> {tmp_path}/starts, mkdir {tmp_path}/once || exit 3]\n"
        (tmp_path / "slurm.yaml").write_text(f"{FILE}{once}".replace("jobs: 4", "jobs: 2"))
        done = here.compare("--on-cluster", "slurm.yaml")
        wait_until(lambda: "no worker" in here.read(done) or done.poll() is not None)
        wait_until(lambda: here.count("end") >= 1 or done.poll() is not None)
        done.send_signal(signal.SIGINT)
        assert done.wait(WAIT_S) == 130, here.read(done)
        why = r"ended before its worker came: FAILED \(NonZeroExitCode\): mkdir: .*"
        lines = here.read(done).splitlines()
        assert any(re.fullmatch(f"1 of 2 jobs start again: {why}", line) for line in lines)
        assert any(re.fullmatch(f"1 of 2 jobs have no worker: {why}", line) for line in lines)
        assert (tmp_path / "starts").read_text().count("start") == 4
        kept = (read_trials(tmp_path)["verdict"] != "missing").sum()
        assert kept >= 1
        assert lines[-1] == "trunkline: interrupted"
        assert lines[-2].startswith(f"{kept} of 8 trials are kept in out; its page and tables ")
        wait_until(lambda: not here.under_way())
        wait_for_jobs(slurm)


def slurm_says(here: Machines, words: list[str]) -> str:
    done = subprocess.run(words, cwd=here.folder, env=here.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
