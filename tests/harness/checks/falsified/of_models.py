"""Falsified models, results and evaluations."""

from __future__ import annotations

from typing import Any

from falsified.falsifying import (
    Line,
    Log,
    NotHereError,
    every,
    falsification,
    finished_task,
    first,
    middle,
    of_task,
    without,
)


@falsification
def one_member_has_another_result(log: Log) -> Log:
    of_task(log, finished_task(log), "task_finished")[0]["digest"] = "0" * 32
    return log


@falsification
def all_members_have_the_same_wrong_result(log: Log) -> Log:
    for line in of_task(log, finished_task(log), "task_finished"):
        line["digest"] = "0" * 32
    return log


@falsification
def all_fingerprints_are_empty(log: Log) -> Log:
    for line in every(log, "contributed", "task_finished"):
        line["fingerprint"] = []
    return log


@falsification
def all_fingerprints_are_zero(log: Log) -> Log:
    for line in every(log, "task_finished"):
        line["fingerprint"] = [0.0] * 16
    return log


@falsification
def a_fingerprint_is_a_little_off(log: Log) -> Log:
    line = of_task(log, finished_task(log), "task_finished")[0]
    line["fingerprint"][3] *= 1.01
    return log


@falsification
def a_contribution_has_another_fingerprint(log: Log) -> Log:
    line = of_task(log, finished_task(log), "contributed")[0]
    line["fingerprint"][0] = line["fingerprint"][0] * 1.5 + 1
    return log


@falsification
def a_contribution_has_another_weight(log: Log) -> Log:
    of_task(log, finished_task(log), "contributed")[0]["weight"] += 1
    return log


@falsification
def a_task_weighs_a_site_twice(log: Log) -> Log:
    line = first(log, "task_started", task=finished_task(log))
    line["weights"][next(iter(line["weights"]))] *= 2
    return log


@falsification
def a_task_has_another_scale(log: Log) -> Log:
    first(log, "task_started", task=finished_task(log))["scale"] *= 2
    return log


@falsification
def a_contribution_is_of_another_iteration(log: Log) -> Log:
    of_task(log, finished_task(log), "contributed")[0]["iteration"] += 1
    return log


@falsification
def an_iteration_is_contributed_twice(log: Log) -> Log:
    given = every(log, "contributed")
    before: dict[str, int] = {}
    for line in given:
        if line["site"] in before and before[line["site"]] != line["iteration"]:
            line["iteration"] = before[line["site"]]
            return log
        before[line["site"]] = line["iteration"]
    raise NotHereError("contributed")


def _evaluated(line: Line, **values: Any) -> Line:
    new = {"event": "evaluated", "task": line["task"], "loss": 0.0, "samples": 1}
    return {"t_ns": line["t_ns"] + 1, "site": line["site"], "accuracy_percent": 9.0, **new} | values


def _evaluations(log: Log) -> Log:
    return every(log, "model_evaluated")


@falsification
def an_evaluation_is_missing(log: Log) -> Log:
    return without(log, [middle(log, "model_evaluated")])


@falsification
def an_evaluation_is_late(log: Log) -> Log:
    middle(log, "model_evaluated")["t_ns"] += 1_000
    return log


@falsification
def an_evaluation_leaves_a_site_out(log: Log) -> Log:
    for line in _evaluations(log):
        if len(line["models"]) > 1:
            line["models"].pop()
            count = len(line["models"])
            columns = zip(*(each["fingerprint"] for each in line["models"]), strict=True)
            line["fingerprint"] = [sum(column) / count for column in columns]
            return log
    raise NotHereError("model_evaluated")


@falsification
def an_evaluation_is_of_the_models_before(log: Log) -> Log:
    before, line, *_ = _evaluations(log)
    line |= {key: before[key] for key in ("models", "digest", "fingerprint")}
    return log


@falsification
def an_evaluation_is_of_another_average(log: Log) -> Log:
    middle(log, "model_evaluated")["fingerprint"][2] += 1.0
    return log


@falsification
def an_evaluation_is_of_one_member(log: Log) -> Log:
    for line in _evaluations(log):
        line["models"] = line["models"][:1]
        line |= {"of": "member"} | {k: line["models"][0][k] for k in ("digest", "fingerprint")}
    return log


@falsification
def a_target_is_reached_with_another_value(log: Log) -> Log:
    stop = _cause(log, "target_reached")
    stop["value"] += 0.5
    return log


@falsification
def progress_ends_with_another_value(log: Log) -> Log:
    _cause(log, "no_progress")["best_percent"] += 0.5
    return log


@falsification
def progress_ends_after_another_number_of_evaluations(log: Log) -> Log:
    for line in every(log, "stopping", "run_finished"):
        if line["cause"]["type"] != "no_progress":
            raise NotHereError("no_progress")
        line["cause"]["evaluations"] += 1
    return log


@falsification
def the_last_evaluation_is_the_best(log: Log) -> Log:
    """So the run stopped although there was progress."""
    best = _cause(log, "no_progress")["best_percent"]
    _evaluations(log)[-1]["accuracy_percent"] = best + 0.01
    return log


@falsification
def the_evaluation_before_the_row_is_no_better(log: Log) -> Log:
    """So the run stopped too late."""
    row = _cause(log, "no_progress")["evaluations"]
    *before, best = _evaluations(log)[:-row]
    if not before:
        raise NotHereError("an evaluation before the best one")
    best["accuracy_percent"] = max(line["accuracy_percent"] for line in before)
    return log


@falsification
def the_last_evaluation_misses_the_target(log: Log) -> Log:
    """So the run stopped too early."""
    _cause(log, "target_reached")
    _evaluations(log)[-1]["accuracy_percent"] = 1.0
    return log


@falsification
def the_evaluation_before_the_row_reaches_the_target(log: Log) -> Log:
    """So the run stopped too late."""
    cause = _cause(log, "target_reached")
    _evaluations(log)[-1 - cause["in_a_row"]]["accuracy_percent"] = cause["target"]
    return log


@falsification
def a_run_goes_on_after_its_last_evaluation(log: Log) -> Log:
    for line in every(log, "stopping"):
        if line["cause"]["type"] not in ("target_reached", "no_progress"):
            raise NotHereError("target_reached or no_progress")
        line["t_ns"] += 20_000_000
    return log


@falsification
def a_result_without_accuracy_is_evaluated(log: Log) -> Log:
    return [*log, _evaluated(of_task(log, finished_task(log), "task_finished")[0])]


def _cause(log: Log, kind: str) -> Line:
    """The cause of the stop, if it is of this kind."""
    cause: Line = first(log, "stopping")["cause"]
    if cause["type"] != kind:
        raise NotHereError(kind)
    return cause
