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
    of_task,
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


@falsification
def a_result_without_accuracy_is_evaluated(log: Log) -> Log:
    return [*log, _evaluated(of_task(log, finished_task(log), "task_finished")[0])]
