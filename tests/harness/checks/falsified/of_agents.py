"""Falsifications of agents and faults."""

from __future__ import annotations

import json
from dataclasses import replace

from falsified.falsifying import (
    FALSIFICATIONS,
    MS,
    Falsify,
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
from trunkline.agents.planning.plan import Plan
from trunkline.agents.planning.repair import move_block


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


def _forget_losses(*events: str, cause: str) -> Falsify:
    """Remove these events, if a repair is explained by them."""

    def function(log: Log) -> Log:
        repairs = every(log, "task_halted", "task_rearranged")
        if not any(line["cause"]["type"] == cause for line in repairs):
            raise NotHereError(cause)
        return without(log, every(log, *events))

    return function


FALSIFICATIONS["no_link_was_lost_or_found"] = _forget_losses(
    "link_lost", "link_found", cause="link_broke"
)
FALSIFICATIONS["no_loss_was_reported"] = _forget_losses("losses_reported", cause="link_broke")
FALSIFICATIONS["no_worker_was_lost"] = _forget_losses("worker_lost", cause="site_lost")


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
    first(log, "run_finished")["cause"] = {"tasks": 77, "type": "enough"}
    return log


@falsification
def the_run_stopped_for_another_reason(log: Log) -> Log:
    cause = {"tasks": 1, "type": "enough"}
    first(log, "stopping")["cause"] = first(log, "run_finished")["cause"] = cause
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


@falsification
def a_fault_has_another_verb(log: Log) -> Log:
    line = first(log, "fault_started")
    line["verb"] = "pause" if line["verb"] == "kill" else "kill"
    return log


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


def _known_losses(log: Log) -> Log:
    """The reports of losses that the controller has when it starts a task."""
    found = []
    for started in every(log, "task_started"):
        heard = [e for e in log[: log.index(started)] if e["site"] == started["site"]]
        latest = {e["worker"]: e for e in heard if e["event"] == "losses_reported"}
        present = {e["worker"]: e for e in heard if e["event"] in ("worker_lost", "worker_found")}
        for worker, report in latest.items():
            there = present.get(worker, {"event": "worker_found"})["event"] == "worker_found"
            if report["lost"] and there and report not in found:
                found.append(report)
    if not found:
        raise NotHereError("losses_reported")
    return found


@falsification
def a_controller_starts_tasks_without_hearing_of_losses(log: Log) -> Log:
    return without(log, _known_losses(log))


@falsification
def a_worker_reports_a_loss_that_it_did_not_have(log: Log) -> Log:
    started = every(log, "task_started")[-1]
    worker, peer = started["group"][:2]
    new = {"event": "losses_reported", "worker": worker, "lost": [peer]}
    at = log.index(started)
    return [*log[:at], {"t_ns": started["t_ns"], "site": started["site"], **new}, *log[at:]]


@falsification
def a_controller_plans_by_rates_of_another_version(log: Log) -> Log:
    every(log, "task_started")[-1]["version"] += 1
    return log


@falsification
def a_group_waits_that_is_connected(log: Log) -> Log:
    line = every(log, "task_started")[-1]
    cause = {"words": "not connected", "sites": [], "type": "no_plan"}
    new = {"event": "group_postponed", "group": line["group"], "cause": cause}
    return [*log, {"t_ns": line["t_ns"], "site": line["site"], **new}]


@falsification
def a_repaired_task_goes_over_the_lost_link(log: Log) -> Log:
    for line in every(log, "task_rearranged", "task_replanned"):
        started = first(log, "task_started", task=line["task"])
        if line["forest"] != started["forest"]:
            line["forest"] = copy_of(started)["forest"]
            return log
    raise NotHereError("task_rearranged")


@falsification
def blocks_move_to_another_site(log: Log) -> Log:
    for line in every(log, "task_rearranged"):
        plan = Plan.from_json(line["forest"])
        hub = next(site for site in plan.contributors if site != plan.blocks[0].aggregator)
        moved = tuple(move_block(plan, block, hub) for block in plan.blocks)
        line["forest"] = json.loads(json.dumps(replace(plan, blocks=moved).to_json()))
    return log


@falsification
def a_report_forgets_the_losses_before_it(log: Log) -> Log:
    known: dict[tuple[str, str], set[str]] = {}
    for line in every(log, "losses_reported"):
        ends = line["site"], line["worker"]
        new = set(line["lost"]) - known.get(ends, set())
        if new and new != set(line["lost"]) and known.get(ends, set()) <= set(line["lost"]):
            line["lost"] = sorted(new)
            return log
        known[ends] = set(line["lost"])
    raise NotHereError("losses_reported")


@falsification
def halted_sites_answer_the_opposite(log: Log) -> Log:
    for line in every(log, "halt_heard"):
        line["finished"] = not line["finished"]
    return log


@falsification
def a_task_continues_before_a_member_has_answered(log: Log) -> Log:
    for halt in every(log, "task_halted"):
        own = {"task": halt["task"]}
        steps = every(log, "task_replanned", "task_completed", "task_abandoned", **own)
        after = [e for e in steps if e["site"] == halt["site"] and e["t_ns"] > halt["t_ns"]]
        heard = [e for e in log if e["event"] == "halt_heard" and e["task"] == halt["task"]]
        late = [e for e in heard if after and halt["t_ns"] < e["t_ns"] < after[0]["t_ns"]]
        if late and late[-1]["site"] in halt["members"]:
            late[-1]["t_ns"] = after[0]["t_ns"] + 10 * MS
            return log
    raise NotHereError("halt_heard")


@falsification
def a_site_hears_of_blocks_that_were_not_announced(log: Log) -> Log:
    first(log, "blocks_heard")["blocks"] += 1
    return log


@falsification
def no_task_that_finishes_was_planned_anew(log: Log) -> Log:
    done = {line["task"] for line in every(log, "task_finished")}
    answered = {(e["task"], e["site"]) for e in every(log, "halt_heard", finished=False)}
    anew = [
        line
        for line in every(log, "task_replanned")
        if line["task"] in done
        and any(
            (e["task"], e["site"]) in answered and e["t_ns"] > line["t_ns"]
            for e in every(log, "task_finished", task=line["task"])
        )
    ]
    if not anew:
        raise NotHereError("task_replanned")
    tasks = {line["task"] for line in anew}
    heard = [e for e in log if e["event"] == "blocks_heard" and e["task"] in tasks]
    return without(log, [*anew, *heard])


@falsification
def halts_are_heard_at_once(log: Log) -> Log:
    for line in every(log, "halt_heard"):
        said = every(log, "task_halted", task=line["task"])
        line["t_ns"] = max(e["t_ns"] for e in said if e["t_ns"] <= line["t_ns"]) + 1
    return log


@falsification
def new_blocks_are_heard_after_the_result(log: Log) -> Log:
    for line in every(log, "blocks_heard"):
        own = {"task": line["task"], "site": line["site"]}
        halts = [e for e in log if e["event"] == "halt_heard" and own.items() <= e.items()]
        done = [e for e in log if e["event"] == "task_finished" and own.items() <= e.items()]
        if halts and done and halts[-1]["t_ns"] < line["t_ns"] < done[-1]["t_ns"]:
            line["t_ns"] = done[-1]["t_ns"] + 1
            return log
    raise NotHereError("blocks_heard")


def _ended_by_the_stop(log: Log) -> Log:
    """The steps that end faults when the run stops."""
    stop_ns = min(line["t_ns"] for line in every(log, "stopping")) - MS
    steps = every(log, "fault_ended", "link_changed", "agent_changed")
    found = [line for line in steps if stop_ns <= line["t_ns"] <= stop_ns + 20 * MS]
    if not found:
        raise NotHereError("fault_ended")
    return found


@falsification
def faults_end_before_the_stop(log: Log) -> Log:
    steps = _ended_by_the_stop(log)
    before = [each["t_ns"] for each in every(log, "fault_started", "fault_ended", "link_changed")]
    last_ns = max(t_ns for t_ns in before if t_ns < steps[0]["t_ns"])
    for place, line in enumerate(steps):
        line["t_ns"] = (last_ns + steps[0]["t_ns"]) // 2 + 1000 * place
    return log


@falsification
def kills_that_the_stop_ends_have_no_end(log: Log) -> Log:
    steps = _ended_by_the_stop(log)
    kills = [line["fault"] for line in steps if line.get("do") == "restart"]
    return without(log, [e for e in steps if e["event"] == "fault_ended" and e["fault"] in kills])


@falsification
def turns_of_the_backup_are_logged_by_a_worker(log: Log) -> Log:
    for line in every(log, "backup_took_over", "backup_stood_down"):
        line["site"] = first(log, "run_started")["sites"][0]
    return log


@falsification
def turns_of_the_backup_are_logged_by_the_controller(log: Log) -> Log:
    for line in every(log, "backup_took_over", "backup_stood_down"):
        line["site"] = "controller"
    return log


@falsification
def faults_are_logged_by_a_worker(log: Log) -> Log:
    for line in every(log, "fault_started", "fault_ended"):
        line["site"] = first(log, "run_started")["sites"][0]
    return log


@falsification
def a_backup_that_stands_by_stops_the_run_too(log: Log) -> Log:
    turns = every(log, "backup_took_over", "backup_stood_down", "stopping")
    if turns[0]["event"] == "stopping" or "controller" not in turns[-1]["site"]:
        raise NotHereError("backup_stood_down")
    acts = [line["event"] for line in turns if line["event"] != "stopping"][-1]
    if acts != "backup_stood_down":
        raise NotHereError("backup_stood_down")
    return [*log, copy_of(turns[-1], site="backup", t_ns=turns[-1]["t_ns"] + 1000)]


@falsification
def all_parts_of_tasks_are_unchanged_or_not(log: Log) -> Log:
    for line in every(log, "task_joined"):
        line["unchanged"] = not line["unchanged"]
    return log


@falsification
def a_worker_is_lost_twice(log: Log) -> Log:
    """In the first term, in which the policy has begun."""
    began_ns = [line["t_ns"] for line in every(log, "policy_began")]
    until_ns = min(began_ns[1:], default=log[-1]["t_ns"])
    found = every(log, "worker_lost")
    line = next((e for e in found if began_ns[0] < e["t_ns"] < until_ns), None)
    if line is None:
        raise NotHereError("worker_lost")
    return [*log, copy_of(line, t_ns=line["t_ns"] + 1000)]


@falsification
def a_worker_is_found_twice(log: Log) -> Log:
    line = every(log, "worker_found")[-1]
    return [*log, copy_of(line, t_ns=line["t_ns"] + 1000)]


@falsification
def policies_hear_the_opposite_of_what_was_given(log: Log) -> Log:
    for line in every(log, "policy_told", told="ready"):
        line["values"]["given"] = not line["values"].get("given", False)
    return log


@falsification
def a_policy_hears_that_an_earlier_contribution_is_of_this_iteration(log: Log) -> Log:
    for line in every(log, "policy_told", told="ready"):
        if line["values"]["iteration"] > 0:
            line["values"]["given"] = True
            return log
    raise NotHereError("a second iteration")


@falsification
def a_member_joins_twice(log: Log) -> Log:
    line = middle(log, "task_joined")
    return [*log, copy_of(line, t_ns=line["t_ns"] + MS // 1000)]
