"""The rule by which a run stops at an accuracy or a loss."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.events.causes import NoProgress, TargetReached
from trunkline.agents.events.evaluation_events import ModelEvaluated
from trunkline.harness.record.targets import (
    Streak,
    Target,
    find_converged_ns,
    find_end,
    find_reached_ns,
)
from trunkline.harness.scenario.settings import Stop


def evaluated(*values: float, loss: float = 1.0, first: int = 1) -> list[ModelEvaluated]:
    """Evaluations of these accuracies, one a second."""
    return [
        ModelEvaluated(number * 10**9, "runner", number, "average", (), "", (), value, loss, 100)
        for number, value in enumerate(values, first)
    ]


@pytest.mark.parametrize(
    ("values", "in_a_row", "first", "last"),
    [
        ([79, 80, 81, 90], 1, 2, 2),
        ([79, 80, 81, 90], 3, 2, 4),
        ([80, 81, 79.99, 80, 81, 82, 83], 3, 4, 6),
        ([80, 80, 80], 3, 1, 3),
    ],
)
def test_a_target_must_hold_for_several_evaluations_in_a_row(values, in_a_row, first, last):
    found = find_end(evaluated(*values), Stop(accuracy_percent=80.0, in_a_row=in_a_row))
    assert found is not None
    assert [each.number for each in found[:2]] == [first, last]
    assert found[2] == TargetReached("accuracy", values[last - 1], 80.0, in_a_row)


@pytest.mark.parametrize("values", [[], [79, 80, 81], [80, 80, 79, 80, 80], [math.nan] * 5])
def test_a_row_that_is_too_short_reaches_nothing(values):
    assert find_end(evaluated(*values), Stop(accuracy_percent=80.0)) is None


def test_an_evaluation_that_is_missing_ends_a_row():
    some = evaluated(80, 80) + evaluated(80, 80, first=4)
    assert find_end(some, Stop(accuracy_percent=80.0)) is None
    assert find_end([*some, *evaluated(80, first=6)], Stop(accuracy_percent=80.0)) is not None
    late = evaluated(80, 80, 80, first=2)
    assert find_end(late, Stop(accuracy_percent=80.0)) is not None


def test_a_loss_must_be_small_enough_and_either_target_suffices():
    stop = Stop(loss=0.5, accuracy_percent=90.0, in_a_row=2)
    some = evaluated(10, loss=0.5) + evaluated(10, loss=0.4, first=2)
    found = find_end(some, stop)
    assert found is not None
    assert found[2] == TargetReached("loss", 0.4, 0.5, 2)
    assert str(found[2]) == "loss 0.4 reached 0.5, for 2 evaluations in a row"
    assert find_end(evaluated(10, 10, loss=0.51), stop) is None
    assert find_end(evaluated(10, 10, loss=math.nan), stop) is None
    mixed = evaluated(90, loss=1.0) + evaluated(10, loss=0.1, first=2)
    assert find_end(mixed, stop) is None  # neither target held twice


@given(st.lists(st.floats(70, 90), max_size=30), st.integers(1, 5))
def test_the_first_row_that_is_long_enough_is_found(values, in_a_row):
    holds = [value >= 80 for value in values]
    rows = [n for n in range(len(values) - in_a_row + 1) if all(holds[n : n + in_a_row])]
    found = find_end(evaluated(*values), Stop(accuracy_percent=80.0, in_a_row=in_a_row))
    assert (None if found is None else found[0].number) == (rows[0] + 1 if rows else None)


@pytest.mark.parametrize(
    ("values", "best", "last"),
    [
        ([50, 60, 60, 59], 2, 4),  # as good as before is no progress
        ([50, 49, 51, 50, 50, 90], 3, 5),
        ([0, 0, 0], 1, 3),
        ([math.nan, math.nan, 7], 1, 3),
    ],
)
def test_a_run_without_progress_ends_after_enough_evaluations(values, best, last):
    found = find_end(evaluated(*values), Stop(without_progress=2))
    assert found is not None
    assert [each.number for each in found[:2]] == [best, last]
    assert isinstance(found[2], NoProgress)
    assert found[2].best_percent == pytest.approx(values[best - 1], nan_ok=True)


def test_progress_and_missing_evaluations_begin_the_count_anew():
    stop = Stop(without_progress=3)
    assert find_end(evaluated(50, 50, 50, 51, 50, 50, 52, 51, 51), stop) is None
    some = evaluated(50, 50, 50) + evaluated(50, 50, first=5)
    assert find_end(some, stop) is None
    found = find_end([*some, *evaluated(50, 50, first=7)], stop)
    assert found is not None
    assert [each.number for each in found[:2]] == [1, 7]
    assert str(found[2]) == "accuracy 50.00 % stayed the best for 3 more evaluations"
    assert str(NoProgress(50.0, 1)) == "accuracy 50.00 % stayed the best for 1 more evaluation"


def test_a_target_or_the_end_of_progress_ends_a_run_whichever_is_first():
    stop = Stop(accuracy_percent=80.0, in_a_row=2, without_progress=2)
    assert find_reached_ns(evaluated(70, 80, 80, 80), stop) == 2 * 10**9
    assert find_converged_ns(evaluated(70, 80, 80, 80), stop) is None
    assert find_reached_ns(evaluated(70, 70, 69, 80, 80), stop) is None
    assert find_converged_ns(evaluated(70, 70, 69, 80, 80), stop) == 10**9


@given(st.lists(st.integers(50, 60), min_size=1, max_size=40), st.integers(1, 5))
def test_the_first_best_value_that_stays_so_for_long_enough_is_found(values, without):
    ends = [
        n
        for n in range(without, len(values))
        if max(values[n - without + 1 : n + 1]) <= max(values[: n - without + 1])
    ]
    found = find_end(evaluated(*values), Stop(without_progress=without))
    assert (None if found is None else found[1].number) == (ends[0] + 1 if ends else None)
    if found is not None:
        assert found[0].number == values.index(max(values[: found[1].number])) + 1


def test_without_a_target_nothing_is_reached():
    streak = Streak(Stop(rounds=3))
    assert [streak.take(number, 100.0, 0.0) for number in range(1, 6)] == [None] * 5


def test_words_about_a_target_say_when_it_was_reached():
    stop = Stop(accuracy_percent=80.0)
    assert Target(stop, 2.5).describe("accuracy") == (80.0, "target 80 %, held from 2.5 s on")
    assert Target(stop).describe("accuracy") == (80.0, "target 80 %, not reached")
    assert Target(stop).describe("loss") is None
    both = Stop(accuracy_percent=80.0, loss=0.5)
    assert Target(both, 2.5).describe("loss") == (0.5, "target 0.5")
