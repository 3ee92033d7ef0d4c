"""What the page of a run says of its evaluations."""

import re

import pandas as pd
from finished_runs import make_agents_run

from trunkline.harness.record.targets import Target
from trunkline.harness.report.pages.accuracy_section import draw_run, draw_runs, split_line
from trunkline.harness.scenario.settings import Stop


def test_the_page_says_from_where_evaluations_and_the_timeline_count(tmp_path):
    folder = make_agents_run(tmp_path / "run")
    text = " ".join(re.sub(r"<[^>]+>", "", (folder / "report.html").read_text()).split())
    words = re.search(r"Times count from the start of the run; [^.]*\.\d+ s later\.", text)
    assert words is not None
    assert words[0] == (
        "Times count from the start of the run; the timeline counts from the start of the first "
        "task, 0.210 s later."
    )


def test_a_run_that_converged_says_when_it_was_best():
    evaluated = pd.DataFrame(
        {"t_s": [1.0, 2.0, 3.0], "of": "average", "accuracy_percent": [60.0, 70.0, 69.0],
         "loss": [1.0, 0.9, 0.9]}
    )  # fmt: skip
    drawn = str(draw_run(evaluated, Target(Stop(without_progress=1), None, 2.0), "virtual"))
    said = "best one was at 2 s. The run ended because 1 evaluation after it had no better accuracy"
    assert said in drawn


def test_the_target_has_a_line_of_its_own_colour_in_the_chart_and_in_the_legend():
    """The colour of faults would mean two things."""
    evaluated = pd.DataFrame({"t_s": [1.0], "of": "average", "accuracy_percent": [60.0]})
    evaluated = evaluated.assign(loss=1.0)
    drawn = str(draw_run(evaluated, Target(Stop(accuracy_percent=80.0), None), "virtual"))
    assert "stroke-fault" not in drawn
    assert drawn.count('class="line dashed stroke-ink"') == 2
    assert '<path d="M1 6h16" class="line dashed stroke-ink">' in drawn


def test_evaluations_in_the_warm_up_have_another_background_or_a_thin_line():
    evaluated = pd.DataFrame({"t_s": [1.0, 2.0, 3.0], "of": "average", "loss": 1.0})
    evaluated = evaluated.assign(accuracy_percent=[60.0, 70.0, 80.0])
    drawn = str(draw_run(evaluated, Target(Stop(rounds=3), None), "virtual", warm_up_s=1.5))
    assert drawn.count('class="fill-warm-up"') == 3  # and in the legend
    assert "warm-up" not in str(draw_run(evaluated, Target(Stop(rounds=3), None), "virtual"))
    tables, classes = {"a": evaluated, "b": evaluated}, {"a": "stroke-blue", "b": "stroke-orange"}
    both = str(draw_runs(tables, classes, {"a": 2.5, "b": 0.0}))
    assert both.count('class="line thin stroke-blue"') == 1
    assert 'class="line thin stroke-orange"' not in both
    assert "warm-up</li>" in both
    assert "warm-up" not in str(draw_runs(tables, classes))


def test_a_line_is_split_at_its_last_point_in_the_warm_up():
    points = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]
    assert [*split_line(points, 0.0)] == [(points, "")]
    assert [*split_line(points, 1.5)] == [(points[:2], " thin"), (points[1:], "")]
    assert [*split_line(points, 9.0)] == [(points, " thin")]
