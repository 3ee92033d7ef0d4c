"""Ways to falsify the log of a run. A verdict must notice every one that changes its meaning.

Each function takes the log's lines as dictionaries, in order, and returns the falsified log. It
raises `NotHereError` if the log has nothing of its kind to falsify.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

Line = dict[str, Any]
Log = list[Line]
Falsify = Callable[[Log], Log]

FALSIFICATIONS: dict[str, Falsify] = {}
"""All falsifications by name."""

MS = 1_000_000


class NotHereError(Exception):
    """The log has no event of the kind that the function falsifies."""


def falsification(function: Falsify) -> Falsify:
    """Register a function."""
    FALSIFICATIONS[function.__name__] = function
    return function


def apply(name: str, log: Log) -> Log:
    """The falsified log in order of time. Raises NotHereError."""
    changed = FALSIFICATIONS[name](copy.deepcopy(log))
    if changed == log:
        raise NotHereError(name)
    return sorted(changed, key=lambda line: line["t_ns"])


def every(log: Log, *events: str, **match: Any) -> Log:
    """All lines of these events with these values, of which there must be some."""
    found = [
        line
        for line in log
        if line["event"] in events and all(line.get(key) == value for key, value in match.items())
    ]
    if not found:
        raise NotHereError(events)
    return found


def first(log: Log, *events: str, **match: Any) -> Line:
    return every(log, *events, **match)[0]


def last(log: Log, *events: str, **match: Any) -> Line:
    """The last such line that a site answers: its site is ready again afterwards."""
    found = every(log, *events, **match)
    ready_ns = {line["site"]: line["t_ns"] for line in log if line["event"] == "ready"}
    end_ns = max(ready_ns.values(), default=0) - 3000 * MS
    answered = [e for e in found if e["t_ns"] < min(end_ns, ready_ns.get(e["site"], end_ns))]
    return (answered or found)[-1]


def without(log: Log, lines: Iterable[Line]) -> Log:
    gone = {id(line) for line in lines}
    return [line for line in log if id(line) not in gone]


def finished_task(log: Log) -> int:
    """A task that was completed with all of its members, in the middle of the log."""
    done = [e["task"] for e in every(log, "task_completed") if not e["without"]]
    if not done:
        raise NotHereError("task_completed")
    return int(done[len(done) // 2])


def of_task(log: Log, task: int, *events: str) -> Log:
    return every(log, *events, task=task)


def copy_of(line: Line, **values: Any) -> Line:
    return {**copy.deepcopy(line), **values}


# -- the frame of the log ------------------------------------------------------------------------


def _leave_out(event: str, which: Callable[..., Line]) -> None:
    def function(log: Log) -> Log:
        return without(log, [which(log, event)])

    function.__name__ = f"{which.__name__}_{event}_is_missing"
    falsification(function)


for _event in (
    "run_started",
    "network_ready",
    "programs_started",
    "run_finished",
):
    _leave_out(_event, first)

for _event in (
    "compute_started",
    "compute_finished",
    "ready",
    "task_joined",
    "contributed",
    "task_started",
    "task_finished",
    "task_completed",
    "task_abandoned",
    "task_dropped",
    "round_finished",
    "worker_finished",
    "round_alone",
    "sent",
    "received",
    "agent_exited",
    "agent_changed",
    "fault_started",
    "fault_ended",
    "link_changed",
    "sync_started",
    "sync_finished",
    "task_replanned",
    "controller_found",
    "backup_took_over",
    "contribution_taken",
    "model_merged",
    "server_began",
    "branch_arrived",
    "branch_computed",
):
    _leave_out(_event, first)
    _leave_out(_event, last)


def _leave_out_all(event: str) -> None:
    def function(log: Log) -> Log:
        return without(log, every(log, event))

    function.__name__ = f"all_{event}_are_missing"
    falsification(function)


for _event in (
    "stopping",
    "sent",
    "received",
    "link_changed",
    "agent_changed",
    "fault_started",
    "fault_ended",
    "ready",
    "round_finished",
    "worker_finished",
    "contributed",
    "task_finished",
    "task_completed",
    "agent_exited",
    "compute_started",
    "compute_finished",
    "sync_started",
    "sync_finished",
    "contribution_taken",
    "model_merged",
    "server_began",
):
    _leave_out_all(_event)


def _repeat(event: str) -> None:
    def function(log: Log) -> Log:
        line = every(log, event)
        middle = line[len(line) // 2]
        return [*log, copy_of(middle, t_ns=middle["t_ns"] + 1)]

    function.__name__ = f"{event}_is_there_twice"
    falsification(function)


for _event in (
    "run_started",
    "ready",
    "contributed",
    "task_started",
    "task_finished",
    "task_completed",
    "task_abandoned",
    "task_dropped",
    "round_finished",
    "worker_finished",
    "sent",
    "received",
    "agent_exited",
    "fault_started",
    "fault_ended",
    "agent_changed",
    "compute_started",
    "compute_finished",
    "sync_started",
    "sync_finished",
    "stopping",
    "contribution_taken",
    "model_merged",
    "server_began",
    "task_rearranged",
    "task_replanned",
):
    _repeat(_event)


def _change_header(key: str, value: Any) -> None:
    def function(log: Log) -> Log:
        first(log, "run_started")[key] = value
        return log

    function.__name__ = f"the_header_has_another_{key}"
    falsification(function)


for _key, _value in {
    "scenario": "another",
    "seed": 99,
    "clock": "real",
    "backend": "host",
    "model_bytes": 4,
    "chunk_bytes": 4,
    "plan": "bkt",
    "policy": "bsp",
    "sites": ["n1", "n2"],
}.items():
    _change_header(_key, _value)


@falsification
def the_log_is_cut_in_the_middle(log: Log) -> Log:
    return log[: len(log) // 2]


@falsification
def the_first_half_is_missing(log: Log) -> Log:
    return [log[0], *log[len(log) // 2 :]]


@falsification
def an_unknown_agent_speaks(log: Log) -> Log:
    line = every(log, "compute_finished")[0]
    return [*log, copy_of(line, site="n77")]


# -- times -----------------------------------------------------------------------------------------


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
    line["start_ns"] = of_task(log, line["task"], "task_started")[0]["t_ns"] - 1
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


# -- tasks -----------------------------------------------------------------------------------------


@falsification
def a_whole_task_is_missing(log: Log) -> Log:
    task = finished_task(log)
    return [line for line in log if line.get("task") != task]


@falsification
def the_last_task_is_missing(log: Log) -> Log:
    task = max(line["task"] for line in every(log, "task_started", "sync_started"))
    return [line for line in log if line.get("task") != task]


@falsification
def a_task_is_missing_with_its_rounds(log: Log) -> Log:
    task = finished_task(log)
    left = [line for line in log if line.get("task") != task]
    for done in of_task(log, task, "task_finished"):
        site, after = done["site"], log.index(done)
        left = without(left, [first(log[after:], "round_finished", site=site)])
        left = without(left, [last(log[:after], "ready", site=site)])
    return left


@falsification
def no_task_was_halted_before_it_was_planned_anew(log: Log) -> Log:
    anew = {line["task"] for line in every(log, "task_replanned", "task_abandoned")}
    return without(log, [line for line in every(log, "task_halted") if line["task"] in anew])


@falsification
def the_last_task_of_all_is_completed_by_the_other_controller(log: Log) -> Log:
    line = every(log, "task_completed")[-1]
    line["site"] = "backup" if line["site"] == "controller" else "controller"
    return log


@falsification
def the_first_tasks_end_is_unknown(log: Log) -> Log:
    return without(log, every(log, "task_completed")[:3])


@falsification
def a_finished_task_is_abandoned(log: Log) -> Log:
    line = first(log, "task_completed", task=finished_task(log))
    del line["without"]
    line |= {"event": "task_abandoned", "reason": "because"}
    return log


@falsification
def every_finished_task_is_abandoned(log: Log) -> Log:
    for line in every(log, "task_completed"):
        del line["without"]
        line |= {"event": "task_abandoned", "reason": "because"}
    return log


@falsification
def an_abandoned_task_is_completed(log: Log) -> Log:
    line = first(log, "task_abandoned")
    del line["reason"]
    line |= {"event": "task_completed", "without": []}
    return log


@falsification
def a_task_is_completed_without_a_member_that_finished(log: Log) -> Log:
    task = finished_task(log)
    line = first(log, "task_completed", task=task)
    site = of_task(log, task, "task_finished")[-1]["site"]
    line["without"] = [site]
    return without(log, every(log, "task_finished", task=task, site=site))


@falsification
def a_member_more_never_joined(log: Log) -> Log:
    task = finished_task(log)
    line = first(log, "task_started", task=task)
    others = [s for s in first(log, "run_started")["sites"] if s not in line["group"]]
    line["group"].append(others[0] if others else "n77")
    return log


@falsification
def a_member_less_is_in_the_group(log: Log) -> Log:
    first(log, "task_started", task=finished_task(log))["group"].pop()
    return log


@falsification
def all_tasks_belong_to_another_controller(log: Log) -> Log:
    for line in every(log, "task_started", "task_completed", "task_abandoned"):
        line["site"] = "backup" if line["site"] == "controller" else "controller"
    return log


@falsification
def a_task_has_another_number(log: Log) -> Log:
    task = finished_task(log)
    for line in log:
        if line.get("task") == task:
            line["task"] = 4242
    return log


@falsification
def a_task_has_another_plan(log: Log) -> Log:
    first(log, "task_started", task=finished_task(log))["plan"] = "other"
    return log


@falsification
def a_task_moves_another_model(log: Log) -> Log:
    first(log, "task_started", task=finished_task(log))["bytes"] += 4
    return log


@falsification
def a_task_has_no_plan(log: Log) -> Log:
    of_task(log, finished_task(log), "task_started")[0]["forest"] = {}
    return log


@falsification
def a_plan_lacks_its_contributors(log: Log) -> Log:
    of_task(log, finished_task(log), "task_started")[0]["forest"]["contributors"] = []
    return log


@falsification
def a_plan_lacks_a_receiver(log: Log) -> Log:
    of_task(log, finished_task(log), "task_started")[0]["forest"]["receivers"].pop()
    return log


@falsification
def a_plan_has_a_chunk_more(log: Log) -> Log:
    of_task(log, finished_task(log), "task_started")[0]["forest"]["chunk_count"] += 1
    return log


@falsification
def plans_do_not_share_the_model_among_servers(log: Log) -> Log:
    for line in every(log, "task_started"):
        line["forest"].pop("shards", None)
    return log


@falsification
def a_task_follows_another_forest(log: Log) -> Log:
    line = first(log, "task_started", task=finished_task(log))
    line["forest"]["blocks"] = line["forest"]["blocks"][:-1]
    return log


@falsification
def one_site_aggregates_all_blocks(log: Log) -> Log:
    for line in every(log, "task_started"):
        for block in line["forest"]["blocks"]:
            block["aggregator"] = line["group"][0]
    return log


@falsification
def groups_have_members_twice(log: Log) -> Log:
    for line in every(log, "task_started"):
        line["group"] += line["group"][:2]
    return log


@falsification
def a_member_drops_what_others_finish(log: Log) -> Log:
    task = finished_task(log)
    line = of_task(log, task, "task_finished")[0]
    given = first(log, "contributed", task=task, site=line["site"])
    del line["fingerprint"]
    line |= {"event": "task_dropped", "reason": "because", "digest": given["digest"]}
    return log


@falsification
def all_members_drop_a_completed_task(log: Log) -> Log:
    task = finished_task(log)
    given = {e["site"]: e["digest"] for e in of_task(log, task, "contributed")}
    for line in of_task(log, task, "task_finished"):
        del line["fingerprint"]
        line |= {"event": "task_dropped", "reason": "x", "digest": given[line["site"]]}
    return log


@falsification
def a_dropped_model_has_changed(log: Log) -> Log:
    first(log, "task_dropped")["digest"] = "0" * 32
    return log


@falsification
def a_stranger_finishes_a_task(log: Log) -> Log:
    task = finished_task(log)
    group = first(log, "task_started", task=task)["group"]
    others = [s for s in first(log, "run_started")["sites"] if s not in group]
    if not others:
        raise NotHereError("all sites are members")
    return [*log, copy_of(of_task(log, task, "task_finished")[0], site=others[0])]


# -- models ----------------------------------------------------------------------------------------


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


# -- servers, passive members and updates ----------------------------------------------------------


def middle(log: Log, *events: str, **match: Any) -> Line:
    found = every(log, *events, **match)
    return found[len(found) // 2]


def merge_and_finish(log: Log) -> tuple[Line, Line]:
    """A merge in the middle of the log, and the result that it merges."""
    merge = middle(log, "model_merged")
    return merge, first(log, "task_finished", task=merge["task"], site=merge["site"])


def started_with_roles(log: Log, **match: Any) -> Line:
    found = [e for e in every(log, "task_started") if e.get("roles")]
    found = [e for e in found if all(e["roles"][key] == value for key, value in match.items())]
    if not found:
        raise NotHereError(match)
    return found[len(found) // 2]


@falsification
def the_policy_was_told_nothing(log: Log) -> Log:
    return without(log, every(log, "policy_told"))


@falsification
def no_policy_began(log: Log) -> Log:
    return without(log, every(log, "policy_began"))


@falsification
def the_policy_was_not_told_of_the_end_of_a_task(log: Log) -> Log:
    return without(log, [middle(log, "policy_told", told="ended")])


@falsification
def the_policy_was_told_twice(log: Log) -> Log:
    number = next(n for n, line in enumerate(log) if line is middle(log, "policy_told"))
    return [*log[: number + 1], copy_of(log[number]), *log[number + 1 :]]


@falsification
def the_policy_knew_no_time(log: Log) -> Log:
    for line in every(log, "policy_told"):
        line["values"]["at_s"] = 0.0
    return log


@falsification
def the_policy_was_told_that_tasks_ended_otherwise(log: Log) -> Log:
    for line in every(log, "policy_told", told="ended"):
        line["values"]["completed"] = not line["values"]["completed"]
    return log


@falsification
def the_policy_was_told_of_another_iteration(log: Log) -> Log:
    middle(log, "policy_told", told="ready")["values"]["iteration"] += 100
    return log


@falsification
def the_policy_was_told_of_another_task(log: Log) -> Log:
    middle(log, "policy_told", told="ended")["values"]["task"] += 1
    return log


@falsification
def the_policy_was_told_what_does_not_exist(log: Log) -> Log:
    middle(log, "policy_told")["told"] = "dreamt"
    return log


@falsification
def the_policy_began_with_another_term(log: Log) -> Log:
    first(log, "policy_began")["term"] += 1
    return log


@falsification
def sites_compute_with_a_batch_that_was_not_decided(log: Log) -> Log:
    every(log, "policy_told")
    for line in every(log, "compute_started"):
        line["batch"] = 7
    return log


@falsification
def a_server_skips_a_version(log: Log) -> Log:
    merge = middle(log, "model_merged")
    for line in every(log, "model_merged", site=merge["site"]):
        line["version"] += line["t_ns"] >= merge["t_ns"]
    return log


@falsification
def a_merge_has_another_base(log: Log) -> Log:
    middle(log, "model_merged")["base"] = "0" * 32
    return log


@falsification
def a_merge_has_another_result(log: Log) -> Log:
    middle(log, "model_merged")["digest"] = "0" * 32
    return log


@falsification
def the_last_merge_has_another_result(log: Log) -> Log:
    last(log, "model_merged")["digest"] = "0" * 32
    return log


@falsification
def a_base_has_another_fingerprint(log: Log) -> Log:
    line = middle(log, "model_merged")
    line["base_fingerprint"][0] = line["base_fingerprint"][0] * 1.5 + 1
    return log


@falsification
def a_merge_is_a_little_off(log: Log) -> Log:
    line = middle(log, "model_merged")
    line["fingerprint"] = [1.01 * value for value in line["fingerprint"]]
    return log


@falsification
def a_step_is_halved(log: Log) -> Log:
    line = middle(log, "model_merged")
    line["step"] = [value / 2 for value in line["step"]]
    return log


@falsification
def all_fingerprints_of_merges_are_empty(log: Log) -> Log:
    for line in every(log, "model_merged"):
        line["fingerprint"] = line["base_fingerprint"] = line["step"] = []
    return log


@falsification
def a_push_is_lost_at_a_server(log: Log) -> Log:
    return without(log, merge_and_finish(log))


@falsification
def a_push_is_lost_and_later_versions_are_renumbered(log: Log) -> Log:
    merge, finish = merge_and_finish(log)
    for line in every(log, "model_merged", site=merge["site"]):
        line["version"] -= line["version"] > merge["version"]
    return without(log, [merge, finish])


@falsification
def a_push_is_applied_twice(log: Log) -> Log:
    merge, finish = merge_and_finish(log)
    again = [copy_of(line, t_ns=line["t_ns"] + 1) for line in (finish, merge)]
    return [*log, *again]


@falsification
def a_merge_is_of_another_task(log: Log) -> Log:
    merge = middle(log, "model_merged")
    merge["task"] = next(e["task"] for e in every(log, "model_merged") if e != merge)
    return log


@falsification
def a_server_gives_an_older_version(log: Log) -> Log:
    began = first(log, "server_began")
    line = last(log, "contributed", site=began["site"])
    line.update(digest=began["digest"], fingerprint=began["fingerprint"])
    return log


@falsification
def a_server_gives_another_number_of_its_version(log: Log) -> Log:
    middle(log, "contributed", site=first(log, "server_began")["site"])["iteration"] += 1
    return log


@falsification
def a_server_begins_with_another_model(log: Log) -> Log:
    line = first(log, "server_began")
    line["digest"], line["fingerprint"] = "0" * 32, [1.0] * 16
    return log


@falsification
def a_server_begins_again_without_a_kill(log: Log) -> Log:
    line = first(log, "server_began")
    return [*log, copy_of(line, t_ns=middle(log, "model_merged")["t_ns"] + 1)]


@falsification
def a_server_computes(log: Log) -> Log:
    site = first(log, "server_began")["site"]
    return [*log, copy_of(middle(log, "compute_started"), site=site)]


@falsification
def a_worker_begins_as_a_server(log: Log) -> Log:
    site = first(log, "compute_started")["site"]
    return [*log, copy_of(first(log, "server_began"), site=site)]


@falsification
def a_contribution_is_taken_before_the_task_is_completed(log: Log) -> Log:
    line = middle(log, "contribution_taken")
    line["t_ns"] = first(log, "task_completed", task=line["task"])["t_ns"] - MS
    return log


@falsification
def a_contribution_is_taken_as_soon_as_the_task_is_completed(log: Log) -> Log:
    for line in every(log, "contribution_taken"):
        line["t_ns"] = first(log, "task_completed", task=line["task"])["t_ns"]
    return log


@falsification
def a_taken_contribution_is_dropped(log: Log) -> Log:
    line = middle(log, "contribution_taken")
    line |= {"event": "task_dropped", "reason": "because", "digest": "0" * 32}
    return log


@falsification
def a_contributor_finishes_what_it_does_not_receive(log: Log) -> Log:
    line = middle(log, "contribution_taken")
    done = first(log, "task_finished", task=line["task"])
    line |= {"event": "task_finished"}
    line |= {key: done[key] for key in ("digest", "fingerprint")}
    return log


@falsification
def a_waiting_worker_gets_no_other_task(log: Log) -> Log:
    line = last(log, "contribution_taken")
    after = [e for e in log if e["t_ns"] > line["t_ns"] and e["site"] == line["site"]]
    given = first(after, "contributed")
    kinds = ("contributed", "task_finished", "round_finished")
    gone = [first(after, kind) for kind in kinds]
    gone += every(log, "task_joined", task=given["task"], site=line["site"])
    return without(log, gone)


@falsification
def a_waiting_worker_is_ready_again(log: Log) -> Log:
    line = middle(log, "contribution_taken")
    asked = last([e for e in log if e["t_ns"] <= line["t_ns"]], "ready", site=line["site"])
    return [*log, copy_of(asked, t_ns=line["t_ns"] + 1)]


@falsification
def a_pull_starts_before_its_push_has_ended(log: Log) -> Log:
    pushes = {e["task"] for e in every(log, "contribution_taken")}
    line = middle(log, "task_started", task=max(pushes) - 1 if len(pushes) > 1 else None)
    line["t_ns"] -= 100 * MS
    return log


@falsification
def no_member_is_passive(log: Log) -> Log:
    line = started_with_roles(log)
    if not line["roles"]["passive"]:
        raise NotHereError("passive")
    line["roles"]["passive"] = []
    return log


@falsification
def a_task_loses_its_roles(log: Log) -> Log:
    del started_with_roles(log)["roles"]
    return log


@falsification
def a_task_keeps_nothing(log: Log) -> Log:
    started_with_roles(log, keep=1.0)["roles"]["keep"] = 0.0
    return log


@falsification
def a_task_has_momentum(log: Log) -> Log:
    for line in every(log, "task_started"):
        if line.get("roles"):
            line["roles"]["momentum"] += 0.5
    return log


@falsification
def members_that_wait_should_proceed(log: Log) -> Log:
    started_with_roles(log, then="wait")["roles"]["then"] = "proceed"
    return log


@falsification
def members_that_proceed_should_wait(log: Log) -> Log:
    started_with_roles(log, then="proceed")["roles"]["then"] = "wait"
    return log


@falsification
def a_receiver_is_no_receiver(log: Log) -> Log:
    started_with_roles(log)["roles"]["receivers"].pop()
    return log


@falsification
def a_passive_member_gives_what_it_never_had(log: Log) -> Log:
    line = started_with_roles(log)
    passive = line["roles"]["passive"]
    if not passive:
        raise NotHereError("passive")
    given = first(log, "contributed", task=line["task"], site=passive[0])
    given["digest"] = "0" * 32
    return log


@falsification
def a_passive_contribution_is_of_another_iteration(log: Log) -> Log:
    line = started_with_roles(log)
    passive = line["roles"]["passive"]
    if not passive:
        raise NotHereError("passive")
    first(log, "contributed", task=line["task"], site=passive[0])["iteration"] += 1
    return log


# -- bytes -----------------------------------------------------------------------------------------


@falsification
def a_byte_less_arrives(log: Log) -> Log:
    of_task(log, finished_task(log), "received")[0]["bytes"] -= 1
    return log


@falsification
def a_byte_more_is_sent(log: Log) -> Log:
    of_task(log, finished_task(log), "sent")[0]["bytes"] += 1
    return log


@falsification
def all_payload_is_halved(log: Log) -> Log:
    for line in every(log, "sent", "received"):
        line["bytes"] //= 2
    return log


@falsification
def a_chunk_less_arrives(log: Log) -> Log:
    of_task(log, finished_task(log), "received")[0]["chunks"] -= 1
    return log


@falsification
def payload_takes_another_link(log: Log) -> Log:
    line = of_task(log, finished_task(log), "sent")[0]
    sites = first(log, "run_started")["sites"]
    line["dst"] = next((s for s in sites if s not in (line["site"], line["dst"])), "n77")
    return log


@falsification
def a_task_has_no_payload(log: Log) -> Log:
    return without(log, of_task(log, finished_task(log), "sent", "received"))


@falsification
def the_interfaces_saw_nothing(log: Log) -> Log:
    for link in first(log, "run_finished")["links"]:
        link["bytes"] = 0
    return log


@falsification
def the_interfaces_saw_too_much(log: Log) -> Log:
    for link in first(log, "run_finished")["links"]:
        link["bytes"] *= 100
    return log


@falsification
def an_interface_was_not_counted(log: Log) -> Log:
    first(log, "run_finished")["links"].pop()
    return log


# -- agents and faults -----------------------------------------------------------------------------


@falsification
def an_agent_dies_of_signal_11(log: Log) -> Log:
    first(log, "agent_exited")["signal"] = 11
    return log


@falsification
def signal_11_is_blamed_on_a_fault(log: Log) -> Log:
    last(log, "agent_exited").update(signal=11, fault=999, asked=None)
    return log


@falsification
def an_agent_exits_with_an_error(log: Log) -> Log:
    first(log, "agent_exited")["code"] = 1
    return log


@falsification
def an_agent_failed(log: Log) -> Log:
    line = every(log, "compute_finished")[-1]
    new = {"t_ns": line["t_ns"], "site": line["site"], "event": "agent_failed", "reason": "bug"}
    return [*log, new]


@falsification
def a_link_breaks_without_a_fault(log: Log) -> Log:
    line = every(log, "task_joined")[0]
    peer = next(s for s in first(log, "run_started")["sites"] if s != line["site"])
    new = {"site": line["site"], "event": "link_lost", "peer": peer, "reason": "because"}
    return [*log, {"t_ns": line["t_ns"], **new}]


@falsification
def a_fault_that_the_scenario_does_not_have(log: Log) -> Log:
    line = first(log, "task_joined", "sync_started")
    new = {
        "event": "fault_started",
        "fault": 77,
        "verb": "isolate",
        "text": "isolate n1 blackhole",
        "targets": [],
    }
    return [*log, {"t_ns": line["t_ns"] + MS, "site": "runner", **new}]


@falsification
def a_fault_is_another_one(log: Log) -> Log:
    line = last(log, "fault_started")
    line["text"] = f"{line['text']} for 9 s"
    return log


@falsification
def a_link_has_another_rate(log: Log) -> Log:
    first(log, "link_changed")["rate_mbps"] *= 1.5
    return log


@falsification
def a_cut_link_is_not_cut(log: Log) -> Log:
    next_cut = next((e for e in every(log, "link_changed") if e["cuts"]), None)
    if next_cut is None:
        raise NotHereError("cuts")
    next_cut["cuts"] = []
    return log


@falsification
def another_agent_is_killed(log: Log) -> Log:
    line = first(log, "agent_changed", do="kill")
    line["who"] = next(s for s in first(log, "run_started")["sites"] if s != line["who"])
    return log


@falsification
def a_killed_agent_speaks(log: Log) -> Log:
    kill = first(log, "agent_changed", do="kill")
    again = first(log[log.index(kill) :], "agent_changed", do="restart", who=kill["who"])
    t_ns = (kill["t_ns"] + again["t_ns"]) // 2
    new = {"event": "controller_lost", "reason": "x", "t_ns": t_ns, "site": kill["who"]}
    return [*log, new]


@falsification
def a_paused_agent_speaks(log: Log) -> Log:
    pause = first(log, "agent_changed", do="pause")
    end = first(log[log.index(pause) :], "agent_changed", do="resume", who=pause["who"])
    new = {"event": "controller_lost", "reason": "x", "site": pause["who"]}
    return [*log, {"t_ns": (pause["t_ns"] + end["t_ns"]) // 2, **new}]


@falsification
def a_dead_site_is_found(log: Log) -> Log:
    for kill in every(log, "agent_changed", do="kill"):
        later = log[log.index(kill) :]
        for line in later:
            if line["event"] == "link_lost" and line["peer"] == kill["who"]:
                t_ns = line["t_ns"] + 1000 * MS
                changes = [e for e in later[1:] if e["event"] == "agent_changed"]
                ends = kill["who"], line["site"]
                changed = any(e["who"] in ends for e in changes if e["t_ns"] <= t_ns)
                if not changed and t_ns < log[-1]["t_ns"]:
                    found = {"t_ns": t_ns, "site": line["site"], "event": "link_found"}
                    lost = copy_of(line, t_ns=t_ns + MS)
                    return [*log, {**found, "peer": kill["who"]}, lost]
    raise NotHereError("link_lost")


@falsification
def a_worker_is_found_before_it_is_lost(log: Log) -> Log:
    line = first(log, "worker_found")
    before = every(log, "worker_lost", site=line["site"], worker=line["worker"])[0]
    line["t_ns"] = max(0, before["t_ns"] - MS)
    return log


@falsification
def all_found_the_other_controller(log: Log) -> Log:
    for line in every(log, "controller_found"):
        line["controller"] = "backup" if line["controller"] == "controller" else "controller"
    return log


def _forget_losses(*events: str, reason: str) -> Falsify:
    """Remove these events, if a repair is explained by them."""

    def function(log: Log) -> Log:
        repairs = every(log, "task_halted", "task_rearranged")
        if not any(reason in line["reason"] for line in repairs):
            raise NotHereError(reason)
        return without(log, every(log, *events))

    return function


FALSIFICATIONS["no_link_was_lost_or_found"] = _forget_losses(
    "link_lost", "link_found", reason="lost each other"
)
FALSIFICATIONS["no_worker_was_lost"] = _forget_losses("worker_lost", reason=" is lost")


@falsification
def a_replanned_task_has_another_holder(log: Log) -> Log:
    for line in every(log, "task_replanned"):
        group = first(log, "task_started", task=line["task"])["group"]
        line["holder"] = None if line["holder"] else group[0]
    return log


@falsification
def a_halt_that_asks_members_is_there_twice(log: Log) -> Log:
    asking = [line for line in every(log, "task_halted") if line["members"]]
    if not asking:
        raise NotHereError("members")
    return [*log, copy_of(asking[-1], t_ns=asking[-1]["t_ns"] + 1)]


@falsification
def nothing_is_withdrawn(log: Log) -> Log:
    for line in every(log, "task_rearranged"):
        line["withdrawn"] = []
    return log


@falsification
def halts_of_followed_controllers_ask_nobody(log: Log) -> Log:
    """Only halts in which a member counts that neither lost nor was lost by its controller."""
    found = False
    for line in every(log, "task_halted"):
        started = first(log, "task_started", task=line["task"])
        lost = set()
        for event in log[log.index(started) : log.index(line) + 1]:
            if event["event"] in ("worker_lost", "controller_lost", "agent_changed"):
                lost.add(event.get("worker", event.get("who", event["site"])))
        ours = started["site"] == line["site"] and line["site"] not in lost
        before = {e["worker"] for e in log[: log.index(started)] if e["event"] == "worker_lost"}
        if ours and set(line["members"]) - lost - before:
            line["members"], found = [], True
    if not found:
        raise NotHereError("members")
    return log


@falsification
def a_fault_without_a_number_restarts_an_agent(log: Log) -> Log:
    first(log, "agent_changed")["fault"] = 555
    return log


@falsification
def rounds_are_counted_twice(log: Log) -> Log:
    for line in every(log, "round_finished"):
        line["rounds"] *= 2
    return log


@falsification
def iterations_are_skipped(log: Log) -> Log:
    site = first(log, "compute_started")["site"]
    for line in every(log, "compute_started", "compute_finished", "ready", site=site)[6:]:
        line["iteration"] += 1
    return log


@falsification
def a_site_is_idle(log: Log) -> Log:
    site = first(log, "compute_started")["site"]
    kinds = ("compute_started", "compute_finished", "ready", "round_finished", "round_alone")
    return without(log, every(log, *kinds, site=site)[4:])


@falsification
def the_run_ended_for_another_reason(log: Log) -> Log:
    first(log, "run_finished")["reason"] = "because"
    return log


@falsification
def the_run_stopped_for_another_reason(log: Log) -> Log:
    first(log, "stopping")["reason"] = first(log, "run_finished")["reason"] = "1 tasks are started"
    return log


@falsification
def the_wrong_size_is_synchronized(log: Log) -> Log:
    first(log, "sync_started")["bytes"] += 4
    return log


@falsification
def a_site_never_begins_a_synchronization(log: Log) -> Log:
    line = every(log, "sync_started", operation="allreduce")[-1]
    mine = {"task": line["task"], "site": line["site"]}
    return without(log, every(log, "sync_started", "sync_finished", **mine))


@falsification
def a_site_never_synchronizes(log: Log) -> Log:
    site = first(log, "sync_started", operation="allreduce")["site"]
    return without(log, every(log, "sync_started", "sync_finished", site=site))


@falsification
def the_sites_do_different_things(log: Log) -> Log:
    first(log, "sync_started")["operation"] = "broadcast"
    return log


@falsification
def a_sync_ends_before_it_begins(log: Log) -> Log:
    line = every(log, "sync_finished")[2]
    line["t_ns"] = first(log, "sync_started", task=line["task"], site=line["site"])["t_ns"] - 1
    return log


@falsification
def a_sync_ends_at_once(log: Log) -> Log:
    for line in every(log, "sync_finished"):
        begun = first(log, "sync_started", task=line["task"], site=line["site"])
        line["t_ns"] = begun["t_ns"] + 1
    return log


@falsification
def a_program_reports_after_its_exit(log: Log) -> Log:
    line = first(log, "sync_finished")
    gone = first(log, "agent_exited", who=line["site"])
    line["t_ns"] = gone["t_ns"] + 1
    return log


# -- branches ------------------------------------------------------------------------------------


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


# -- results and their bytes ---------------------------------------------------------------------


@falsification
def results_exist_before_their_bytes(log: Log) -> Log:
    task = finished_task(log)
    for line in of_task(log, task, "task_finished"):
        ends = [e["end_ns"] for e in log if _arrives_at(e, task, line["site"])]
        if ends:
            line["t_ns"] = min(line["t_ns"], max(ends) - 15 * MS)
    return log


def _arrives_at(line: Line, task: int, site: str) -> bool:
    return line["event"] == "received" and (line["task"], line["site"]) == (task, site)


@falsification
def one_result_exists_100_ms_early(log: Log) -> Log:
    of_task(log, finished_task(log), "task_finished")[-1]["t_ns"] -= 100 * MS
    return log


@falsification
def payload_arrives_after_the_results(log: Log) -> Log:
    task = finished_task(log)
    finished = {e["site"]: e["t_ns"] for e in of_task(log, task, "task_finished")}
    for line in of_task(log, task, "received"):
        if line["site"] in finished:
            line["end_ns"] = finished[line["site"]] + 200 * MS
            line["t_ns"] = max(line["t_ns"], line["end_ns"] + 1)
    return log


@falsification
def forwarded_payload_arrives_when_it_is_reported(log: Log) -> Log:
    for line in every(log, "received", phase="relay"):
        line["end_ns"] = line["t_ns"]
    return log


def _halted(log: Log, *events: str) -> Log:
    """Lines of tasks that were halted."""
    halted = {line["task"] for line in every(log, "task_halted")}
    lines = [line for line in every(log, *events) if line["task"] in halted]
    if not lines:
        raise NotHereError("task_halted")
    return lines


@falsification
def halted_tasks_finish_as_soon_as_all_have_contributed(log: Log) -> Log:
    given_ns: dict[int, int] = {}
    for line in every(log, "contributed"):
        given_ns[line["task"]] = max(line["t_ns"], given_ns.get(line["task"], 0))
    for line in _halted(log, "task_finished"):
        line["t_ns"] = min(line["t_ns"], given_ns[line["task"]] + 11 * MS)
    return log


@falsification
def payload_of_halted_tasks_has_an_unknown_phase(log: Log) -> Log:
    for line in _halted(log, "sent", "received"):
        line["phase"] = "other"
    return log


@falsification
def nothing_arrives_in_halted_tasks(log: Log) -> Log:
    return without(log, _halted(log, "received"))


@falsification
def half_arrives_in_halted_tasks(log: Log) -> Log:
    for line in _halted(log, "received"):
        line["bytes"] = line["bytes"] // 8 * 4
    return log


# -- the end of the run ---------------------------------------------------------------------------


@falsification
def the_run_stops_10_s_late(log: Log) -> Log:
    """The time is over 10 s late, and all that follows is later, too."""
    if "are over" not in first(log, "stopping")["reason"]:
        raise NotHereError("are over")
    stop_ns = first(log, "stopping")["t_ns"]
    for line in log:
        for key in ("t_ns", "start_ns", "end_ns", "since_ns"):
            if line.get(key, 0) >= stop_ns:
                line[key] += 10_000 * MS
    return log


@falsification
def the_run_finishes_long_after_its_last_process(log: Log) -> Log:
    first(log, "run_finished")["t_ns"] += 9_900 * MS
    return log


# -- background traffic ---------------------------------------------------------------------------


@falsification
def no_background_packet_arrives(log: Log) -> Log:
    for line in every(log, "background_received"):
        line["packets"] = line["bytes"] = 0
    return log


@falsification
def no_background_traffic_arrives(log: Log) -> Log:
    return without(log, every(log, "background_received", "background_file"))


@falsification
def background_traffic_arrives_early(log: Log) -> Log:
    for line in every(log, "background_received"):
        line["t_ns"] -= 200 * MS
        line["since_ns"] = max(0, line["since_ns"] - 200 * MS)
    return log


@falsification
def background_files_arrive_at_once(log: Log) -> Log:
    for line in every(log, "background_file"):
        line["t_ns"] = line["start_ns"] + 1
    return log


@falsification
def a_background_connection_fails_without_a_fault(log: Log) -> Log:
    flow = first(log, "background_file")["flow"]
    new = {"event": "background_failed", "flow": flow, "reason": "broken"}
    t_ns = every(log, "background_file")[0]["t_ns"]
    return [*log, {"t_ns": t_ns, "site": "runner", **new}]


# -- smaller ones ---------------------------------------------------------------------------------


@falsification
def a_fault_has_another_verb(log: Log) -> Log:
    line = first(log, "fault_started")
    line["verb"] = "pause" if line["verb"] == "kill" else "kill"
    return log


def _evaluated(line: Line, **values: Any) -> Line:
    new = {"event": "evaluated", "task": line["task"], "loss": 0.0, "samples": 1}
    return {"t_ns": line["t_ns"] + 1, "site": line["site"], "accuracy_percent": 9.0, **new} | values


@falsification
def a_result_without_accuracy_is_evaluated(log: Log) -> Log:
    return [*log, _evaluated(of_task(log, finished_task(log), "task_finished")[0])]


@falsification
def a_killed_agent_exits_before_its_kill(log: Log) -> Log:
    for line in every(log, "agent_exited"):
        if line.get("fault") is not None:
            line["t_ns"] -= 200 * MS
    return log


@falsification
def a_killed_agent_exits_after_its_restart(log: Log) -> Log:
    for line in every(log, "agent_exited"):
        if line.get("fault") is not None:
            line["t_ns"] = log[-1]["t_ns"] - 1
    return log


@falsification
def agents_exit_without_a_code(log: Log) -> Log:
    for line in every(log, "agent_exited"):
        line["code"] = None
    return log


@falsification
def interfaces_counted_one_packet(log: Log) -> Log:
    for link in first(log, "run_finished")["links"]:
        link["packets"] = min(link["packets"], 1)
    return log


@falsification
def interfaces_counted_a_packet_per_byte(log: Log) -> Log:
    for link in first(log, "run_finished")["links"]:
        link["packets"] = link["bytes"]
    return log


@falsification
def more_is_discarded_than_arrived(log: Log) -> Log:
    line = of_task(log, finished_task(log), "received")[0]
    new = {"event": "discarded", "src": line["src"], "bytes": 10**9, "chunks": 1}
    return [*log, {key: line[key] for key in ("t_ns", "site", "task")} | new]


@falsification
def a_chunk_more_is_sent_and_arrives(log: Log) -> Log:
    out = of_task(log, finished_task(log), "sent")[0]
    ends = {"site": out["dst"], "src": out["site"], "phase": out["phase"]}
    first(log, "received", task=out["task"], **ends)["chunks"] += 1
    out["chunks"] += 1
    return log


def _unused(log: Log) -> Log:
    """Iterations that are in no task: the last ones, and those that were computed alone."""
    used = {(line["site"], line["iteration"]) for line in every(log, "contributed")}
    lines = every(log, "compute_started", "compute_finished", "ready")
    return [line for line in lines if (line["site"], line["iteration"]) not in used]


@falsification
def the_last_iterations_are_missing(log: Log) -> Log:
    ready = {line["site"] for line in _unused(log) if line["event"] == "ready"}
    return without(log, [line for line in _unused(log) if line["site"] in ready])
