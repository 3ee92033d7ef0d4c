"""What the results of a run count after a warm-up."""

import pandas as pd
import pytest
from three_sites import SITES, history

from trunkline.harness.record.warm_up import WHOLE, Counted, select_counted
from trunkline.harness.report.tables.forecasts import Forecast
from trunkline.harness.report.tables.run_table import RunRow, tabulate_run
from trunkline.harness.report.tables.task_tables import TaskRow, tabulate_tasks
from trunkline.harness.scenario.settings import WarmUp

MS = 1_000_000


@pytest.mark.parametrize(
    ("warm_up", "counted"),
    [
        (WarmUp(), Counted(0, 0)),
        # The tasks start at 210, 1510 and 2400 ms; the log ends at 4.5 s.
        (WarmUp(tasks=1), Counted(1, 1510 * MS)),
        (WarmUp(tasks=2), Counted(2, 2400 * MS)),
        (WarmUp(time_s=1.51), Counted(1, 1510 * MS)),
        (WarmUp(time_s=1.6), Counted(2, 1600 * MS)),
    ],
)
def test_results_begin_with_the_first_task_or_at_the_time_after_the_warm_up(warm_up, counted):
    assert Counted.of(history(), warm_up) == counted


@pytest.mark.parametrize("warm_up", [WarmUp(tasks=3), WarmUp(time_s=100.0)])
def test_a_run_that_ends_in_its_warm_up_has_no_results(warm_up):
    found = history()
    counted = Counted.of(found, warm_up)
    assert counted == Counted(3, found.end_ns)
    row = summed_up(counted)
    assert (row["tasks"], row["window_s"], row["rounds"]) == (0, 0.0, 0.0)


def summed_up(counted):
    found = history()
    tasks = TaskRow.frame(
        tabulate_tasks(found, lambda task: Forecast(1.0, 0.5, 0.0), counted=counted)
    )
    samples = lambda batch: 10  # noqa: E731
    return RunRow.frame([tabulate_run(found, tasks, SITES, samples=samples, counted=counted)]).iloc[
        0
    ]


def test_the_warm_up_is_marked_and_is_in_no_mean_sum_or_window():
    whole, later = summed_up(WHOLE), summed_up(Counted(1, 1510 * MS))
    assert (whole["warm_up_s"], later["warm_up_s"]) == (0.0, 1.51)
    assert later["window_s"] == pytest.approx(4.4 - 1.51)
    assert (whole["tasks"], later["tasks"]) == (2, 1)
    assert later["task_s"] == pytest.approx(0.780)
    assert later["bytes_sent"] == 3_250_000
    assert (whole["updates"], later["updates"]) == (2, 1)
    # Rounds end in tasks 0 (two sites) and 1 (two sites).
    assert (whole["rounds"], later["rounds"]) == pytest.approx((4 / 3, 2 / 3))
    assert later["samples_per_s"] == pytest.approx(2 * 10 / (4.4 - 1.51))
    marks = TaskRow.frame(
        tabulate_tasks(history(), lambda _: Forecast(1.0, 0.5, 0.0), counted=Counted(2))
    )
    assert list(marks["warm_up"]) == [True, True, False]


def test_rows_of_tables_count_from_the_end_of_the_warm_up_on():
    tasks = TaskRow.frame(
        tabulate_tasks(history(), lambda _: Forecast(1.0, 0.5, 0.0), counted=Counted(1))
    )
    assert list(select_counted(tasks)["task"]) == [1, 2]
    assert list(select_counted(tasks, "completed")["task"]) == [1]
    assert list(select_counted(tasks, "completed", "abandoned")["task"]) == [1, 2]
    table = pd.DataFrame({"t_s": [0.0, 1.5, 1.51, 2.0]})
    assert list(Counted(1, 1510 * MS).select(table)["t_s"]) == [1.51, 2.0]
    assert WHOLE.select(table) is table
