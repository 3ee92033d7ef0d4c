"""A share of a comparison's trials, for tasks of a job array that go on beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trunkline.harness.live.sweep_progress import Running
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.runs import finished_runs, run_pool, run_record
from trunkline.harness.runs.finished_runs import Tries
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
    name = f"{number}-of-{count}"
    with finished_runs.lock(folder, name):
        trials = comparison_runs.list_in_turn(spec)[number - 1 :: count]
        there = comparison_runs.find_finished(spec, folder)
        missing = comparison_runs.list_missing(trials, folder, there)
        if missing:
            comparison_runs.check_machine(spec, folder)
        lost = 0
        tries = Tries(output, name)
        sweep = trial_progress.make(spec, trials)
        for identity in {trial.job.identity for trial in trials} & there.keys():
            sweep.note_before(identity, run_record.read_outcome(there[identity]))

        def on_finished(result: Finished) -> None:
            nonlocal lost
            lost += result.run_dir is None
            sweep.note_finished(result.job.identity, result.outcome, result.tries)
            tries.note_finished(result)

        tell = run_pool.tell_progress(sweep, on_progress)

        def on_running(running: Sequence[Running]) -> None:
            tries.note_running(running)
            tell(running)

        jobs = missing.values()
        try:
            spec.kind.carry_out(jobs, folder / "runs", at_once, on_finished, on_running)
        except KeyboardInterrupt:
            tries.forget_running()
            raise
    return len(trials), lost
