"""Maps show at which values of two keys trials met the expectations, and count nothing else."""

import pandas as pd
import pytest
from rich.console import Console

from trunkline.harness.checks import judging
from trunkline.harness.report.pages.comparison import maps_section
from trunkline.harness.report.pages.markup import tag
from trunkline.harness.study import comparison, expectation_maps
from trunkline.harness.study.expectation_maps import GIVEN_UP, judge_trial, list_maps

KEYS = ("env.TIMEOUT", "topology.delays")


@pytest.fixture
def cells():
    rows = [
        trial("1", "5 ms", "met"),
        trial("1", "5 ms", "met"),
        trial("1", "90 ms", "missed"),
        trial("1", "90 ms", "met"),
        trial("9", "5 ms", "met"),
        trial("9", "5 ms", ""),
        trial("9", "90 ms", ""),
        trial("9", "90 ms", ""),
    ]
    return comparison.summarize(pd.DataFrame(rows), KEYS)


def trial(timeout, delay, expectations):
    verdict = {"met": "pass", "missed": "fail", "": "unknown"}[expectations]
    row = {KEYS[0]: timeout, KEYS[1]: delay, "trial": 0, "seed": 1, "verdict": verdict}
    return {**row, "expectations": expectations, "task_s": 1.0, "run": "x", "error": ""}


def check(name, outcome):
    return {"name": name, "outcome": outcome}


@pytest.mark.parametrize(
    ("checks", "found"),
    [
        ([check("links kept their rates", "pass"), check("expected: 2 tasks", "pass")], "met"),
        ([check("links kept their rates", "none"), check("expected: 2 tasks", "fail")], "missed"),
        ([check("links kept their rates", "fail"), check("expected: 2 tasks", "fail")], ""),
        ([check("links kept their rates", "unknown"), check("expected: 2 tasks", "pass")], ""),
        ([check("expected: 2 tasks", "pass"), check("expected: 3 tasks", "fail")], "missed"),
        ([check("expected: 2 tasks", "unknown"), check("expected: 3 tasks", "pass")], ""),
        ([check(GIVEN_UP[0], "fail"), check("expected: 2 tasks", "pass")], "missed"),
        ([check(GIVEN_UP[0], "unknown"), check("expected: 2 tasks", "pass")], ""),
        ([check("links kept their rates", "pass")], ""),
    ],
)
def test_a_trial_met_or_missed_what_was_expected_or_proves_neither(checks, found):
    assert judge_trial(checks) == found


def test_a_map_counts_the_trials_that_were_judged(cells):
    (shown,) = list_maps(cells, KEYS)
    assert (shown.rows, shown.columns) == (("1", "9"), ("5 ms", "90 ms"))
    assert shown.counts == {
        ("1", "5 ms"): (2, 2),
        ("1", "90 ms"): (1, 2),
        ("9", "5 ms"): (1, 1),
        ("9", "90 ms"): (0, 0),
    }


def test_a_map_is_the_same_on_a_terminal_on_a_page_and_in_a_figure(cells):
    maps = list(list_maps(cells, KEYS))
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        console.print(expectation_maps.draw_table(maps[0]))
    rows = [line.split("  ") for line in captured.get().splitlines()]
    assert [[text.strip() for text in row if text.strip()] for row in rows][1:] == [
        ["1", "2 of 2", "1 of 2"],
        ["9", "1 of 1", "-"],
    ]
    page = str(tag("section", maps_section.write_section(maps)))
    assert page.count('class="number is-pass"') == 2
    assert page.count('class="number is-unknown"') == page.count('class="number is-none"') == 1
    figure = expectation_maps.draw(maps)
    (axes,) = figure.axes
    assert [text.get_text() for text in figure.legends[0].texts] == ["none", "half", "all"]
    assert [text.get_text() for text in axes.texts] == ["2 of 2", "1 of 2", "1 of 1", "-"]


def test_each_value_of_a_third_key_has_a_map_of_its_own(cells):
    both = pd.concat([cells.assign(seed_of="a"), cells.assign(seed_of="b")])
    titles = [shown.title for shown in list_maps(both, (*KEYS, "seed_of"))]
    assert titles == ["seed of a", "seed of b"]


def test_nothing_is_drawn_if_only_one_key_varies_or_nothing_was_missed(cells):
    assert not list(list_maps(cells, KEYS[:1]))
    assert not list(list_maps(cells.assign(missed=0), KEYS))
    assert not list(list_maps(cells.drop(columns=["met", "missed"]), KEYS))


def test_the_checks_that_programs_fail_by_giving_up_exist():
    assert {*GIVEN_UP} <= {*judging.CHECKS, *judging.PROGRAM_CHECKS}
