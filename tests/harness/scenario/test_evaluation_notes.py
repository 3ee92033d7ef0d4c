"""Notes on evaluations and targets that are allowed, but unlikely."""

import pytest

from trunkline.harness.scenario.loading import load, parse, resolve

TRAINING = """\
topology: {builder: full_mesh, sites: 4, rates: 50 Mbit/s}
workload: {kind: training}
scheme: {policy: preduce, plan: crew, p: 3}
"""


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("stop: {accuracy: 99.9 %}\n", ()),
        (
            "stop: {accuracy: 100 %, in_a_row: 2}\n",
            (
                "stop.accuracy, 100 %: every held-out sample must be right, for 2 evaluations in"
                " a row",
            ),
        ),
        ("stop: {time: 1 s}\n", ()),
        ("stop: {rounds: 1}\nevaluation: {every: 100 s}\n", ()),
        (
            "stop: {time: 5 s}\nevaluation: {every: 10 s}\n",
            (
                "evaluation.every, 10 s: there is no evaluation, because the run is over by "
                "stop.time, 5 s",
            ),
        ),
    ],
)
def test_a_target_or_a_time_that_is_unlikely_is_noted(text, notes):
    assert parse(TRAINING + text, "x.yaml").notes == notes


def test_as_many_evaluations_as_the_target_needs_are_enough():
    text = "stop: {loss: 0.5, time: 300 ms}\nevaluation: {every: 100 ms}\n"
    assert parse(TRAINING + text, "x.yaml").stop.in_a_row == 3
    warm = "warm_up: {time: 2 s}\nstop: {loss: 0.5, time: 1 s}\n"
    assert parse(TRAINING + warm, "x.yaml").stop.loss == 0.5


def test_a_resolved_scenario_without_a_target_is_read_again(tmp_path):
    scenario = parse(TRAINING + "stop: {rounds: 3}\n", "x.yaml")
    (tmp_path / "resolved.yaml").write_text(resolve(scenario))
    assert load(tmp_path / "resolved.yaml") == scenario
