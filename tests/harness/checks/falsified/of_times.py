"""Falsified times."""

from __future__ import annotations

import itertools

from falsified.falsifying import (
    MS,
    Log,
    NotHereError,
    every,
    falsification,
    finished_task,
    first,
    last,
    middle,
    of_task,
    without,
)


def _scale_times(log: Log, factor: float) -> Log:
    for line in log:
        for key in ("t_ns", "start_ns", "end_ns"):
            if key in line:
                line[key] = int(line[key] * factor)
    return log


@falsification
def all_times_are_halved(log: Log) -> Log:
    return _scale_times(log, 0.5)


@falsification
def all_times_are_doubled(log: Log) -> Log:
    return _scale_times(log, 2)


@falsification
def computing_takes_one_nanosecond(log: Log) -> Log:
    begun: dict[str, int] = {}
    for line in every(log, "compute_started", "compute_finished"):
        if line["event"] == "compute_started":
            begun[line["site"]] = line["t_ns"]
        elif line["site"] in begun:
            line["t_ns"] = begun[line["site"]] + 1
    return log


@falsification
def one_iteration_takes_half_its_time(log: Log) -> Log:
    end = last(log, "compute_finished")
    begin = last(
        log[: log.index(end)], "compute_started", site=end["site"], iteration=end["iteration"]
    )
    end["t_ns"] = (begin["t_ns"] + end["t_ns"]) // 2
    return log


@falsification
def payloads_take_a_quarter_of_their_time(log: Log) -> Log:
    for line in every(log, "sent", "received"):
        line["end_ns"] = line["start_ns"] + (line["end_ns"] - line["start_ns"]) // 4
    return log


def _delay(log: Log, event: str, by_ns: int) -> Log:
    line = middle(log, event)
    line["t_ns"] += by_ns
    return log


@falsification
def a_site_is_ready_a_millisecond_late(log: Log) -> Log:
    return _delay(log, "ready", MS)


@falsification
def a_model_is_merged_a_millisecond_late(log: Log) -> Log:
    return _delay(log, "model_merged", MS)


@falsification
def contributions_are_ten_milliseconds_late(log: Log) -> Log:
    """The payload follows, if it was not sent early."""
    for line in every(log, "contributed"):
        line["t_ns"] += 10 * MS
    for line in every(log, "sent"):
        if line["phase"] == "in" and line["end_ns"] - line["start_ns"] > 20 * MS:
            line["start_ns"] += 10 * MS
    return log


@falsification
def a_contribution_is_taken_thirty_milliseconds_late(log: Log) -> Log:
    return _delay(log, "contribution_taken", 30 * MS)


@falsification
def members_finish_when_they_contribute(log: Log) -> Log:
    task = finished_task(log)
    given = {e["site"]: e["t_ns"] for e in of_task(log, task, "contributed")}
    for line in of_task(log, task, "task_finished"):
        line["t_ns"] = given[line["site"]] + 1
    return log


@falsification
def a_member_finishes_before_it_contributes(log: Log) -> Log:
    task = finished_task(log)
    line = of_task(log, task, "task_finished")[0]
    line["t_ns"] = of_task(log, task, "task_started")[0]["t_ns"] - 1
    return log


@falsification
def a_task_is_completed_before_its_members_finish(log: Log) -> Log:
    task = finished_task(log)
    done = of_task(log, task, "task_finished")[0]
    of_task(log, task, "task_completed")[0]["t_ns"] = done["t_ns"] - MS
    return log


@falsification
def a_member_contributes_after_its_bytes_left(log: Log) -> Log:
    for out in every(log, "sent", phase="in"):
        match = {"task": out["task"], "site": out["site"]}
        given = [e for e in log if e["event"] == "contributed" and match.items() <= e.items()]
        sends = every(log, "sent", phase="in", **match)
        done = [e for e in log if e["event"] == "task_finished" and match.items() <= e.items()]
        after_ns = min(e["start_ns"] for e in sends) + 5 * MS
        blocks = first(log, "task_started", task=out["task"])["forest"]["blocks"]
        if any(len(edge) > 2 for block in blocks for edge in block["in"]):
            continue  # it may forward what others sent
        if given and done and given[0]["t_ns"] < after_ns < done[0]["t_ns"]:
            given[0]["t_ns"] = after_ns
            return log
    raise NotHereError("contributed")


@falsification
def a_member_joins_before_the_task_starts(log: Log) -> Log:
    task = finished_task(log)
    begun = of_task(log, task, "task_started")[0]["t_ns"]
    for line in of_task(log, task, "task_joined"):
        line["t_ns"] = begun - MS
    return log


@falsification
def a_task_starts_late(log: Log) -> Log:
    task = finished_task(log)
    line = of_task(log, task, "task_started")[0]
    line["t_ns"] = of_task(log, task, "task_finished")[0]["t_ns"]
    return log


@falsification
def payload_arrives_before_it_is_sent(log: Log) -> Log:
    line = of_task(log, finished_task(log), "received")[0]
    sent = [e for e in of_task(log, line["task"], "sent") if e["dst"] == line["site"]]
    line["start_ns"] = min(e["start_ns"] for e in sent if e["site"] == line["src"]) - 1
    return log


@falsification
def payload_arrives_at_once(log: Log) -> Log:
    task = finished_task(log)
    sent = {(e["site"], e["dst"], e["phase"]): e for e in of_task(log, task, "sent")}
    for line in of_task(log, task, "received"):
        out = sent.get((line["src"], line["site"], line["phase"]))
        if out is not None:
            line["start_ns"] = line["end_ns"] = out["start_ns"] + 1
    return log


@falsification
def payload_is_sent_before_the_task(log: Log) -> Log:
    line = of_task(log, finished_task(log), "sent")[0]
    line["start_ns"] = 1
    return log


@falsification
def payload_is_reported_before_it_ends(log: Log) -> Log:
    line = of_task(log, finished_task(log), "received")[-1]
    line["end_ns"] = line["t_ns"] + 1000 * MS
    return log


@falsification
def the_run_stops_early(log: Log) -> Log:
    first(log, "stopping")["t_ns"] = log[len(log) // 2]["t_ns"]
    return log


@falsification
def a_fault_begins_late(log: Log) -> Log:
    faults = every(log, "fault_started", "fault_ended")
    faults[len(faults) // 2]["t_ns"] += 900 * MS
    return log


@falsification
def all_faults_begin_early(log: Log) -> Log:
    for line in every(log, "fault_started"):
        line["t_ns"] = max(0, line["t_ns"] - 300 * MS)
    return log


@falsification
def a_link_changes_late(log: Log) -> Log:
    last(log, "link_changed")["t_ns"] += 900 * MS
    return log


@falsification
def no_link_was_counted_before_the_end(log: Log) -> Log:
    return without(log, every(log, "links_counted"))


def _one_is_early(event: str, name: str, early_ms: int) -> None:
    def function(log: Log) -> Log:
        lines = every(log, event)
        lines[len(lines) // 2]["t_ns"] -= early_ms * MS
        return log

    function.__name__ = name
    falsification(function)


_one_is_early("backup_took_over", "the_backup_takes_over_2_s_early", 2000)
_one_is_early("link_lost", "a_link_is_lost_2_s_early", 2000)


@falsification
def a_halt_is_1_s_early(log: Log) -> Log:
    """One that names a loss, of the controller's own task."""
    by = {line["task"]: line["site"] for line in every(log, "task_started")}
    losses = ("site_lost", "link_broke")
    halts = [e for e in every(log, "task_halted") if e["cause"]["type"] in losses]
    own = [line for line in halts if by.get(line["task"]) == line["site"]]
    if not own:
        raise NotHereError("task_halted")
    own[len(own) // 2]["t_ns"] -= 1000 * MS
    return log


@falsification
def a_policy_begins_before_a_worker_has_reported(log: Log) -> Log:
    """That of a later term, at the moment in which its backup takes over."""
    turns = every(log, "backup_took_over", "policy_began")
    for turn, began in itertools.pairwise(turns):
        if (turn["event"], began["event"]) == ("backup_took_over", "policy_began"):
            began["t_ns"] = turn["t_ns"] + 1000
            return log
    raise NotHereError("policy_began")


@falsification
def a_part_of_a_report_is_200_ms_late(log: Log) -> Log:
    reports = of_task(log, finished_task(log), "sent", "received")
    sites = [line["site"] for line in reports]
    several = [line for line in reports if sites.count(line["site"]) > 1]
    if not several:
        raise NotHereError("received")
    several[-1]["t_ns"] += 200 * MS
    return log


@falsification
def a_site_reports_its_traffic_when_it_is_in_another_task(log: Log) -> Log:
    """Half a second late, or later."""
    task = finished_task(log)
    end_ns = of_task(log, task, "task_completed")[0]["t_ns"]
    later = {e["task"] for e in every(log, "task_started") if e["t_ns"] > end_ns}
    for site in sorted({line["site"] for line in of_task(log, task, "received")}):
        lines = every(log, "sent", "received", task=task, site=site)
        joined = [e["t_ns"] for e in every(log, "task_joined", site=site) if e["task"] in later]
        if joined and joined[0] < lines[0]["t_ns"] + 500 * MS:
            for line in lines:
                line["t_ns"] += 500 * MS
            return log
    raise NotHereError("task_joined")


@falsification
def the_first_iteration_takes_two_milliseconds_more(log: Log) -> Log:
    first(log, "compute_started")["t_ns"] -= 2 * MS
    return log


@falsification
def a_step_of_the_timeline_is_five_milliseconds_late(log: Log) -> Log:
    """The last change of a link while the run goes on."""
    stop_ns = first(log, "stopping")["t_ns"]
    changes = [e for e in every(log, "link_changed") if e["t_ns"] < stop_ns - 10 * MS]
    if not changes:
        raise NotHereError("link_changed")
    changes[-1]["t_ns"] += 5 * MS
    return log


@falsification
def a_killed_agent_exits_ten_milliseconds_late(log: Log) -> Log:
    exits = [line for line in every(log, "agent_exited") if line.get("fault") is not None]
    if not exits:
        raise NotHereError("agent_exited")
    exits[0]["t_ns"] += 10 * MS
    return log


@falsification
def the_run_ends_100_milliseconds_late(log: Log) -> Log:
    first(log, "run_finished")["t_ns"] += 100 * MS
    return log


@falsification
def the_run_stops_200_milliseconds_after_its_time(log: Log) -> Log:
    """A controller says it; agents and the runner follow it within a second."""
    stop = first(log, "stopping")
    if stop["cause"]["type"] != "time_up":
        raise NotHereError("time_up")
    for line in log:
        if line["t_ns"] >= stop["t_ns"]:
            line["t_ns"] += 200 * MS
    return log
