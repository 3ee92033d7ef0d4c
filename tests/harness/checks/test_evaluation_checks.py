"""Evaluations at equal times, of the models that sites had, and the stop that follows from them.

The run of three sites is evaluated at 1.45, 2.9 and 4.35 s: 41.5, 81.5 and 81.5 %. It ends at
4.4 s.
"""

from dataclasses import asdict, replace

import pytest
from hand_made import THREE_SITES, change
from three_sites import Change, added, altered, changed, history, without

from trunkline.agents.events.causes import Asked, NoProgress, TargetReached
from trunkline.harness.checks.judging import CHECKS
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Check
from trunkline.harness.scenario.settings import Evaluations, Stop

TIMED = Stop(time_s=4.4, accuracy_percent=80.0)
RULES = change(Rules(THREE_SITES, timeout_s=0.02), stop=TIMED)
TWICE = change(RULES, stop=replace(TIMED, in_a_row=2))
REACHED = asdict(TargetReached("accuracy", 81.5, 80.0, 2))
OF_SITES, AT_TARGET = "evaluations are of the sites' models", "the run stopped by its evaluations"


def one(name: str, *changes: Change, rules: Rules = RULES) -> tuple[str, str]:
    objects, function = CHECKS[name]
    check = Check.of(name, objects, function(history(*changes), rules))
    return check.outcome, check.detail or check.counts


def model(log, site, **values):
    """Another model of a site in evaluation 2."""
    for line in log:
        if line["event"] == "model_evaluated" and line["number"] == 2:
            line["models"] = [m | values if m["site"] == site else m for m in line["models"]]
    return log


NEW_LINE = {"number": 4, "of": "average", "models": [], "digest": "x", "fingerprint": [0.0] * 16,
            "accuracy_percent": 50.0, "loss": 1.0, "samples": 10_000}  # fmt: skip

WRONG: dict[str, list[Change]] = {
    "evaluation 2 is missing": [without("model_evaluated", number=2)],
    "evaluation 2 was due at 2.900 s": [
        altered("model_evaluated", {"t_ns": 2_900_000_001}, number=2)
    ],
    "evaluation 2 is of server, not average; evaluation 2 is off by 28, "
    "rounding explains 0.00256": [altered("model_evaluated", {"of": "server"}, number=2)],
    "evaluation 1 found 101 % of 10000 samples": [
        altered("model_evaluated", {"accuracy_percent": 101.0}, number=1)
    ],
    "evaluation 3 and evaluation 2 differ, but are of the same model": [
        altered("model_evaluated", {"accuracy_percent": 81.6}, number=3)
    ],
    "evaluation 2: rome had another model then": [lambda log: model(log, "rome", digest="rome-1")],
    "evaluation 2 is off by 0.333, rounding explains 0.000854": [
        lambda log: model(log, "kyiv", fingerprint=[5.0, 7.0, 10.0, 13.0, *[0.0] * 12])
    ],
    "evaluation 1 is of rome, not of oslo, rome, kyiv; evaluation 1 is of another model than the "
    "only one; evaluation 1 is off by 2.33, rounding explains 0.000732": [
        altered(
            "model_evaluated",
            {"models": [{"site": "rome", "digest": "result-0",
                         "fingerprint": [6.0, 12.0, 18.0, 24.0, *[0.0] * 12]}]},
            number=1,
        )
    ],
    "evaluation 2 was due at 2.900 s; the numbers of evaluations do not rise; evaluation 1 is "
    "missing": [altered("model_evaluated", {"number": 2}, number=1)],
    "a site measured the result of a task, which only programs do": [
        added(2290, "kyiv", "evaluated", task=1, accuracy_percent=1.0, loss=1.0, samples=1)
    ],
    "evaluation 2 has a model of rome, which was down": [
        changed(1700, "rome", "kill"), changed(4300, "rome", "restart"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("said", "changes"), WRONG.items())
def test_a_wrong_evaluation_is_noticed(said: str, changes: list[Change]) -> None:
    assert one(OF_SITES, *changes) == ("fail", said)


def test_the_same_model_is_measured_on_the_same_number_of_samples() -> None:
    found = one(OF_SITES, altered("model_evaluated", {"samples": 5_000}, number=3))
    assert found == ("fail", "evaluation 3 and evaluation 2 differ, but are of the same model")


def test_the_same_model_may_have_no_number_as_its_loss() -> None:
    """Its training diverged."""
    same = [altered("model_evaluated", {"loss": float("nan")}, number=n) for n in (2, 3)]
    assert one(OF_SITES, *same)[0] == "pass"


def test_evaluations_of_the_models_at_their_times_are_right() -> None:
    assert one(OF_SITES) == ("pass", "3 evaluations judged")


def test_a_model_without_an_accuracy_cannot_be_evaluated() -> None:
    rules = change(RULES, evaluation=Evaluations())
    said = "models were evaluated, but those of this workload have no accuracy"
    assert one(OF_SITES, rules=rules) == ("fail", said)
    assert one(OF_SITES, without("model_evaluated"), rules=rules) == ("none", "no evaluations")


def test_a_site_that_is_down_is_left_out_of_the_average() -> None:
    def alone(log):
        for line in log:
            if line["event"] == "model_evaluated" and line["number"] == 2:
                line["models"] = line["models"][:1]
                line["digest"], line["fingerprint"] = "oslo-1", line["models"][0]["fingerprint"]
        return [line for line in log if line.get("number") != 3]

    down = [changed(1700, "rome", "kill"), changed(1700, "kyiv", "kill")]
    assert one(OF_SITES, *down, alone) == ("fail", "evaluation 3 is missing")
    gone = [*down, changed(3000, "oslo", "kill")]
    assert one(OF_SITES, *gone, alone) == ("pass", "2 evaluations judged")


# Torch reads the clock while it evaluates: 46 times 256 ns for a batch of a small residual network.
@pytest.mark.parametrize("reached_ms", [4350.0, 4350.05, 4350.237, 4359.9])
def test_a_run_stops_when_its_target_has_held_for_long_enough(reached_ms: float) -> None:
    stop = altered("stopping", {"t_ns": round(reached_ms * 1e6), "cause": REACHED})
    said = "accuracy 81.50 % reached 80 %, for 2 evaluations in a row, from 2.900 s on"
    assert one(AT_TARGET, stop, rules=TWICE) == ("pass", said)


def test_a_target_that_is_reached_before_agents_are_connected_ends_the_run_then() -> None:
    none = [without("compute_started"), altered("stopping", {"cause": REACHED})]
    late = added(4400, "kyiv", "compute_started", iteration=0)
    said = "accuracy 81.50 % reached 80 %, for 2 evaluations in a row, from 2.900 s on"
    assert one(AT_TARGET, *none, late, rules=TWICE) == ("pass", said)
    assert one(AT_TARGET, *none, rules=TWICE)[0] == "fail"


def test_a_run_that_another_condition_ended_need_not_have_reached_its_target() -> None:
    said = "not reached: best accuracy 81.50 %, least loss 0.5"
    assert one(AT_TARGET) == ("pass", said)
    asked = altered("stopping", {"cause": asdict(Asked())})
    assert one(AT_TARGET, asked) == ("pass", said)
    never = without("model_evaluated")  # the other check notices those that were due
    assert one(AT_TARGET, never) == ("pass", "no evaluation was due")
    missing = "evaluation 1 is missing; evaluation 2 is missing; evaluation 3 is missing"
    assert one(OF_SITES, never) == ("fail", missing)


def test_no_target_is_judged_where_there_is_none() -> None:
    assert one(AT_TARGET, rules=change(RULES, stop=Stop(time_s=4.4))) == ("none", "no stops")


EARLY = altered("stopping", {"t_ns": 2_900_000_500, "cause": REACHED})
FALSE: dict[str, list[Change]] = {
    # The run went on although its target had held.
    "accuracy 81.50 % reached 80 %, for 2 evaluations in a row at 4.350 s, but the run went on "
    "until 4.400 s": [],
    # It stopped one evaluation too early.
    "'accuracy 81.50 % reached 80 %, for 2 evaluations in a row' was said before, at 2.900 s": [
        EARLY
    ],
    "'accuracy 81.50 % reached 80 %, for 2 evaluations in a row' was said, but no row of "
    "evaluations reached it": [EARLY, without("model_evaluated", number=3)],
    # It stopped because of another value.
    "'accuracy 82.00 % reached 80 %, for 2 evaluations in a row' was said, but accuracy 81.50 % "
    "reached 80 %, for 2 evaluations in a row": [
        altered("stopping", {"t_ns": 4_350_000_500, "cause": REACHED | {"value": 82.0}})
    ],
    # It was evaluated again after that.
    "accuracy 81.50 % reached 80 %, for 2 evaluations in a row at 4.350 s, but evaluation 4 came "
    "later": [
        altered("stopping", {"t_ns": 4_350_000_500, "cause": REACHED}),
        added(4360, "runner", "model_evaluated", **NEW_LINE),
    ],
}


@pytest.mark.parametrize(("said", "changes"), FALSE.items())
def test_a_stop_that_does_not_follow_from_the_evaluations_is_noticed(
    said: str, changes: list[Change]
) -> None:
    assert one(AT_TARGET, *changes, rules=TWICE) == ("fail", said)


STALE = change(RULES, stop=Stop(time_s=4.4, without_progress=1))
STAYED = asdict(NoProgress(81.5, 1))
NO_PROGRESS: dict[str, tuple[str, list[Change]]] = {
    "accuracy 81.50 % stayed the best for 1 more evaluation, from 2.900 s on": (
        "pass", [altered("stopping", {"t_ns": 4_350_000_500, "cause": STAYED})]
    ),
    # The run went on although nothing had got better.
    "accuracy 81.50 % stayed the best for 1 more evaluation at 4.350 s, but the run went on until "
    "4.400 s": ("fail", []),
    # It stopped although the last evaluation was better.
    "'accuracy 81.50 % stayed the best for 1 more evaluation' was said, but no row of evaluations "
    "reached it": (
        "fail",
        [
            altered("model_evaluated", {"accuracy_percent": 81.6}, number=3),
            altered("stopping", {"t_ns": 4_350_000_500, "cause": STAYED}),
        ],
    ),
    # It stopped before that.
    "'accuracy 81.50 % stayed the best for 1 more evaluation' was said before, at 2.900 s": (
        "fail", [altered("stopping", {"t_ns": 2_900_000_500, "cause": STAYED})]
    ),
    "still making progress: best accuracy 81.60 %, least loss 0.5": (
        "pass", [altered("model_evaluated", {"accuracy_percent": 81.6}, number=3)]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("said", "found"), NO_PROGRESS.items())
def test_a_run_stops_when_enough_evaluations_were_no_better(
    said: str, found: tuple[str, list[Change]]
) -> None:
    assert one(AT_TARGET, *found[1], rules=STALE) == (found[0], said)


def test_the_number_of_evaluations_without_progress_is_the_scenarios() -> None:
    stop = altered("stopping", {"cause": STAYED | {"evaluations": 2}})
    outcome, said = one("the run ended as specified", stop, rules=STALE)
    assert outcome == "fail"
    assert said.endswith("for 2 more evaluations' is not the scenario's stop condition")


def test_a_target_of_another_scenario_is_not_a_cause_to_stop() -> None:
    stop = altered("stopping", {"cause": REACHED | {"target": 60.0}})
    outcome, said = one("the run ended as specified", stop)
    assert outcome == "fail"
    assert said.endswith(
        "reached 60 %, for 2 evaluations in a row' is not the scenario's stop condition"
    )
