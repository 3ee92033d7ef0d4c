"""A share of a comparison's trials, for tasks of a job array that go on beside each other."""

from __future__ import annotations

from pathlib import Path

from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.runs import finished_runs, run_pool, run_record
from trunkline.harness.runs.run_pool import Finished
from trunkline.harness.study import comparison_runs, trial_progress
from trunkline.harness.study.comparison_runs import Comparison, OnProgress


def run_share(
    spec: Comparison, folder: Path, share: tuple[int, int], at_once: int, on_progress: OnProgress
) -> tuple[int, int]:
    """Run the missing trials of share n of so many; other shares may run at the same time.

    It writes no tables: `run` does, when all shares are over. Returns the number of its trials, and
    that of those which could not be carried out. Raises as `run` does.
    """
    number, count = share
    output = RunFolder(folder)
    output.prepare("runs")
    with finished_runs.lock(folder, f"{number}-of-{count}"):
        trials = comparison_runs.list_in_turn(spec)[number - 1 :: count]
        there = comparison_runs.find_finished(spec, folder)
        missing = comparison_runs.list_missing(trials, folder, there)
        if missing:
            comparison_runs.check_machine(spec, folder)
        lost = 0
        sweep = trial_progress.make(spec, trials)
        for identity in {trial.job.identity for trial in trials} & there.keys():
            sweep.note_before(identity, run_record.read_outcome(there[identity]))

        def on_finished(result: Finished) -> None:
            nonlocal lost
            lost += result.run_dir is None
            sweep.note_finished(result.job.identity, result.outcome, result.tries)

        on_running = run_pool.tell_progress(sweep, on_progress)
        jobs = missing.values()
        spec.kind.carry_out(jobs, folder / "runs", at_once, on_finished, on_running)
    return len(trials), lost
