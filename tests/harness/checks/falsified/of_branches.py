"""Falsifications of branches, which only models in layers have."""

from __future__ import annotations

from falsified.falsifying import MS, Log, copy_of, every, falsification, first, last


def overlapping(log: Log) -> Log:
    """The branches that the last finished iteration of a site computed as they arrived."""
    end = last(log, "compute_finished")
    return [
        line
        for line in every(log, "branch_computed", site=end["site"], iteration=end["iteration"])
        if "task" in line
    ] or every(log, "no such event")


@falsification
def a_branch_is_computed_before_it_arrived(log: Log) -> Log:
    line = overlapping(log)[0]
    where = {key: line[key] for key in ("site", "task", "branch")}
    first(log, "branch_arrived", **where)["t_ns"] = line["end_ns"]
    return log


@falsification
def branches_that_waited_for_others_arrive_when_the_site_contributes(log: Log) -> Log:
    given = {(e["site"], e["task"]): e["t_ns"] for e in every(log, "contributed")}
    begun = {
        (e["site"], e["task"], e["branch"]): e["start_ns"]
        for e in every(log, "branch_computed")
        if "task" in e
    }
    for line in every(log, "branch_arrived"):
        place = line["site"], line["task"]
        if line["t_ns"] < begun.get((*place, line["branch"]), 0):
            line["t_ns"] = given[place]
    return log


@falsification
def the_last_branch_arrives_before_the_last_byte(log: Log) -> Log:
    line = max(overlapping(log), key=lambda each: each["start_ns"])
    where = {key: line[key] for key in ("site", "task")}
    last = max(every(log, "branch_arrived", **where), key=lambda each: each["t_ns"])
    last["t_ns"] -= 1_000_000
    return log


@falsification
def a_branch_arrives_twice(log: Log) -> Log:
    return [*log, copy_of(first(log, "branch_arrived"))]


@falsification
def a_branch_arrives_for_a_task_that_the_site_is_not_in(log: Log) -> Log:
    line = first(log, "branch_arrived")
    line["task"] = 1 + max(e["task"] for e in every(log, "task_started"))
    return log


@falsification
def a_branch_is_computed_twice(log: Log) -> Log:
    line = overlapping(log)[0]
    return [*log, copy_of(line, t_ns=line["t_ns"] + 1)]


@falsification
def a_branch_takes_half_its_time(log: Log) -> Log:
    line = max(overlapping(log), key=lambda line: line["end_ns"] - line["start_ns"])
    line["end_ns"] = (line["start_ns"] + line["end_ns"]) // 2
    return log


@falsification
def a_branch_is_reported_at_half_its_time(log: Log) -> Log:
    line = max(overlapping(log), key=lambda line: line["end_ns"] - line["start_ns"])
    line["t_ns"] = (line["start_ns"] + line["end_ns"]) // 2
    return log


@falsification
def a_branch_begins_later_than_it_could(log: Log) -> Log:
    line = overlapping(log)[-1]
    line["start_ns"] += MS
    line["end_ns"] += MS
    return log


@falsification
def two_branches_are_computed_at_once(log: Log) -> Log:
    before, line = overlapping(log)[-2:]
    shift_ns = line["start_ns"] - before["start_ns"]
    line["start_ns"] -= shift_ns
    line["end_ns"] -= shift_ns
    return log


@falsification
def branches_of_two_bases_are_exchanged(log: Log) -> Log:
    one, other = overlapping(log)[0], overlapping(log)[-1]
    one["branch"], other["branch"] = other["branch"], one["branch"]
    return log


@falsification
def a_branch_is_of_the_iteration_after(log: Log) -> Log:
    overlapping(log)[-1]["iteration"] += 1
    return log


@falsification
def a_branch_is_none_of_the_model(log: Log) -> Log:
    overlapping(log)[-1]["branch"] = 10_000
    return log


@falsification
def a_server_computes_a_branch(log: Log) -> Log:
    server = first(log, "server_began")["site"]
    return [*log, copy_of(overlapping(log)[0], site=server)]


@falsification
def parameters_were_here_that_a_task_brought(log: Log) -> Log:
    del overlapping(log)[-1]["task"]
    return log
