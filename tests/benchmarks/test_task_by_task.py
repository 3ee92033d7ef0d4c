"""The multiples of their estimates that tasks take, from the tables of runs."""

from pathlib import Path

import pandas as pd
from task_by_task import read_tasks, summarize


def write_tasks(folder: Path, *rows: tuple[float, float, float, str]) -> Path:
    """A run whose tasks have these durations, estimates, latencies and outcomes."""
    (folder / "tables").mkdir(parents=True)
    columns = ["duration_s", "estimate_s", "latency_s", "outcome"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "tables/tasks.csv", index=False)
    return folder


def test_a_multiple_is_the_duration_over_estimate_plus_latency(tmp_path: Path) -> None:
    run = write_tasks(tmp_path / "run", (3.0, 1.0, 0.5, "completed"), (1.0, 0.9, 0.1, "completed"))
    found = read_tasks(run)
    assert list(found["expected_s"]) == [1.5, 1.0]
    assert list(found["multiple"]) == [2.0, 1.0]


def test_only_completed_tasks_have_a_multiple(tmp_path: Path) -> None:
    run = write_tasks(tmp_path / "run", (3.0, 1.0, 0.0, "abandoned"), (1.0, 0.5, 0.5, "completed"))
    assert list(read_tasks(run)["multiple"]) == [1.0]


def test_each_task_has_the_mean_of_the_runs_that_have_it(tmp_path: Path) -> None:
    done = "completed"
    runs = [
        write_tasks(tmp_path / "1", (2.0, 1.0, 0.0, done), (1.0, 1.0, 0.0, done)),
        write_tasks(tmp_path / "2", (4.0, 1.0, 0.0, done)),
    ]
    # The t quantile of two values is 12.71, and their standard error is 1.
    assert summarize([*map(read_tasks, runs)]) == ["1.00", "3.00 ± 12.71", "1.00"]
