"""Falsifications of servers, passive members and updates."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from falsified.falsifying import (
    MS,
    Line,
    Log,
    NotHereError,
    copy_of,
    every,
    falsification,
    first,
    last,
    middle,
    without,
)


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
    line |= {"event": "task_dropped", "cause": None, "digest": "0" * 32}
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


@falsification
def a_server_has_a_result_a_millisecond_late(log: Log) -> Log:
    disturbed = {e["task"] for e in log if e["event"] in ("task_halted", "task_replanned")}
    merges = [e for e in every(log, "model_merged") if e["task"] not in disturbed]
    merge = merges[len(merges) // 2]
    done = first(log, "task_finished", task=merge["task"], site=merge["site"])
    for line in (done, merge):
        line["t_ns"] += MS
    return log


@falsification
def a_server_contributes_thirty_milliseconds_late(log: Log) -> Log:
    """To a push, in which it sends nothing."""
    servers = {e["site"] for e in every(log, "server_began")}
    senders = {(e["task"], e["site"]) for e in every(log, "sent")}
    given = [e for e in every(log, "contributed") if e["site"] in servers]
    given = [e for e in given if (e["task"], e["site"]) not in senders]
    if not given:
        raise NotHereError("sent")
    given[len(given) // 2]["t_ns"] += 30 * MS
    return log


def _tell_late(log: Log, told: str) -> Log:
    """The policy gets an event 30 ms late, about which it decides nothing until then."""
    own = [line for line in log if line["site"] in ("controller", "backup")]
    for line, after in pairwise(own):
        quiet = after["t_ns"] > line["t_ns"] + 40 * MS
        if line["event"] == "policy_told" and line["told"] == told and quiet:
            line["t_ns"] += 30 * MS
            line["values"]["at_s"] += 0.03
            return log
    raise NotHereError(told)


@falsification
def a_policy_wakes_thirty_milliseconds_late(log: Log) -> Log:
    return _tell_late(log, "tick")


@falsification
def a_policy_hears_of_an_end_thirty_milliseconds_late(log: Log) -> Log:
    return _tell_late(log, "ended")


@falsification
def the_policy_was_told_that_tasks_took_half_their_time(log: Log) -> Log:
    for line in every(log, "policy_told", told="ended"):
        line["values"]["report"]["duration_s"] /= 2
    return log


@falsification
def a_policy_that_decides_nothing_then_does_not_wake(log: Log) -> Log:
    ticks = every(log, "policy_told", told="tick")
    own = [line for line in log if line["site"] in ("controller", "backup")]
    idle = [a for a, b in pairwise(own) if a in ticks and b["event"] == "policy_told"]
    if not idle:
        raise NotHereError("tick")
    return without(log, idle[:1])


@falsification
def the_policy_was_told_of_the_first_iteration_again(log: Log) -> Log:
    """Soon after a loss, of a site that had a later one long before any loss."""
    losses_ns = [e["t_ns"] for e in log if e["event"] in ("controller_lost", "agent_changed")]
    later_ns: dict[str, int] = {}
    for ready in every(log, "ready"):
        if ready["iteration"] > 0:
            later_ns.setdefault(ready["site"], ready["t_ns"])
    told = [
        line
        for line in every(log, "policy_told", told="ready")
        if line["values"]["iteration"] > 0
        and min(losses_ns, default=math.inf) > later_ns[line["values"]["site"]]
    ]
    if not told:
        raise NotHereError("ready")

    def since_loss_ns(line: dict[str, Any]) -> float:
        before_ns = (line["t_ns"] - t_ns for t_ns in losses_ns if t_ns < line["t_ns"])
        return min(before_ns, default=math.inf)

    min(told, key=since_loss_ns)["values"]["iteration"] = 0
    return log


@falsification
def the_last_policy_began_with_the_term_before(log: Log) -> Log:
    began = [e for e in every(log, "policy_began") if e["term"] not in (0, 1_000_000)]
    if not began:
        raise NotHereError("term")
    began[-1]["term"] -= 1
    return log
