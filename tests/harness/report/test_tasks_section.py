"""The chart of task times on the page: bands of faults with their numbers, and marks."""

import re
from dataclasses import replace
from itertools import pairwise

import pandas as pd
import pytest
from three_sites import added, history

from trunkline.agents.wire.agent_settings import TASKS_PER_CONTROLLER
from trunkline.harness.record.warm_up import Counted
from trunkline.harness.report.pages import charts, frame
from trunkline.harness.report.pages.tasks_section import draw_times, list_tasks, summarize
from trunkline.harness.report.tables.forecasts import Forecast
from trunkline.harness.report.tables.task_tables import TaskRow, tabulate_tasks

KILL = {"fault": 3, "verb": "kill", "text": "kill kyiv", "targets": ["kyiv"]}
FAULTS = history(
    added(300, "runner", "fault_started", **KILL),
    added(1400, "runner", "fault_ended", fault=3),
).faults


def tasks(cold: int = 0) -> pd.DataFrame:
    """The tasks; the first `cold` ones are of the warm-up."""
    counted, forecast = Counted(cold), Forecast(1.0, 0.5, 0.1)
    return TaskRow.frame(tabulate_tasks(history(), lambda started: forecast, counted=counted))


def find_texts(figure: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", figure)


def test_a_band_has_the_number_of_its_fault_above_it_and_the_legend_says_so() -> None:
    figure = str(draw_times(tasks(), "measured", FAULTS))
    texts = find_texts(figure)
    assert texts[texts.index("fault") + 1] == "3"
    (bar,) = re.findall(r'<path d="M([\d.]+) [^"]*h([\d.]+)[^"]*" class="fill-lane">', figure)
    (band, _) = re.findall(r'<path d="M([\d.]+) [^"]*h([\d.]+)[^"]*" class="fill-band">', figure)
    assert bar == band
    assert "during a fault; its number above, as in the table of faults" in figure
    assert ".fill-lane { fill: var(--lane); stroke: var(--fault);" in frame.STYLE


def test_without_faults_there_is_no_strip() -> None:
    figure = str(draw_times(tasks(), "measured"))
    assert "fault" not in find_texts(figure)
    assert "during a fault" not in figure


def test_a_fault_during_which_no_task_ran_is_named_below() -> None:
    (fault,) = FAULTS
    late = replace(fault, started=replace(fault.started, t_ns=10**12), end_ns=None)
    assert "No task ran during fault 3." in str(draw_times(tasks(), "measured", [late]))


def test_the_number_of_a_failed_task_stands_over_its_mark_also_in_a_narrow_window() -> None:
    """The class `middle` moves texts down there, as those below an axis."""
    figure = str(draw_times(tasks(), "measured"))
    (y,) = re.findall(r'<text x="[\d.]+" y="([\d.]+)" class="tick over">\d<', figure)
    assert "abandoned or unfinished, with the task&#x27;s number" in figure
    (dot,) = re.findall(r'd="M[\d.]+ ([\d.]+)h0" class="dots stroke-fault" style', figure)
    assert float(dot) - float(y) == pytest.approx(8, abs=0.02)
    assert float(y) > 24 + 9  # it does not reach what stands above the axis


def test_the_number_of_a_failed_task_stands_below_its_mark_if_marks_are_above_it() -> None:
    found = tasks()
    failed = int((found["outcome"] != "completed").to_numpy().argmax())
    found.loc[failed, ["duration_s", "estimate_s", "latency_s"]] = 1.0, 1.05, 0.1
    figure = str(draw_times(found, "measured"))
    assert len(re.findall('class="tick over under">', figure)) == 1
    found.loc[failed, "estimate_s"] = 0.3
    assert "under" not in str(draw_times(found, "measured"))


def test_numbers_of_a_backup_controllers_tasks_are_explained() -> None:
    found = tasks()
    assert "backup controller" not in str(draw_times(found, "measured"))
    found["task"] += TASKS_PER_CONTROLLER
    words = "Numbers from 1000000 are those of the backup controller"
    assert words in str(draw_times(found, "measured"))


@pytest.mark.parametrize(
    ("apart", "style"),
    [
        (100.0, "--dot:7px;--narrow-dot:6px"),
        (6.0, "--dot:5.1px;--narrow-dot:2.04px"),
        (1.0, "--dot:2.5px;--narrow-dot:1.5px"),
    ],
)
def test_dots_that_are_close_to_each_other_are_small(apart: float, style: str) -> None:
    assert charts.choose_size(apart) == style


def test_long_numbers_of_tasks_do_not_touch_each_other_in_a_narrow_window() -> None:
    x, y = charts.Scale(-0.5, 199.5, 64, charts.WIDTH - 8), charts.Scale(0, 1, 250, 24)
    names = [str(1_000_000 + n) for n in range(200)]
    frame = str(charts.Frame(x, y).draw_axes("task", whole_x=True, x_names=names))
    places = [float(at) for at in re.findall(r'x="([\d.]+)" y="268"', frame)]
    gaps = [b - a for a, b in pairwise(places)]
    assert len(places) > 3
    assert min(gaps) > 7 * charts.NARROW_LETTER


def test_the_label_of_an_axis_leaves_room_for_what_stands_above_the_chart() -> None:
    frame = charts.Frame(charts.Scale(0, 1, 64, 900), charts.Scale(0, 1, 250, 46))
    made = str(frame.draw_axes("", "task time (s)", above=22.0))
    assert 'y="14" class="label">task time (s)' in made


def test_the_sentence_leaves_out_the_warm_up_which_the_chart_and_the_table_mark() -> None:
    """Of the two completed tasks, with 1.27 and 0.78 s of 1.1 s, the first is cold."""
    assert summarize(tasks(), "measured").endswith("; 0 of 2 completed tasks within ±15\xa0%.")
    assert summarize(tasks(1), "measured") == (
        "Measured over expected (estimate plus latency): median 0.709; 0 of 1 completed tasks "
        "within ±15\xa0%. The numbers leave out the warm-up's task."
    )
    assert summarize(tasks(2), "measured") == (
        "0 of 1 tasks were completed. The numbers leave out the 2 tasks of the warm-up."
    )
    assert summarize(tasks(3), "measured") == (
        "No task counts: the run ended in its warm-up, in which 3 began."
    )
    figure = str(draw_times(tasks(1), "measured"))
    bands = re.findall(r'd="M64 ([\d.]+)h([\d.]+)v[\d.]+[^"]*" class="fill-warm-up"', figure)
    third = (charts.WIDTH - 8 - 64) / 3
    assert [float(width) for _, width in bands] == pytest.approx([third, third], abs=0.01)
    assert figure.count(charts.WARM_UP) == 1
    (table,) = list_tasks(tasks(1))
    assert re.findall(r">(yes|)</td></tr>", str(table)) == ["yes", "", ""]
    assert str(table).count(">warm-up<") == 1
    assert "warm-up" not in f"{draw_times(tasks(), 'measured')}{list_tasks(tasks())}"
