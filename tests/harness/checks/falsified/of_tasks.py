"""Falsified tasks: their groups, outcomes and steps."""

from __future__ import annotations

from falsified.falsifying import (
    Line,
    Log,
    NotHereError,
    copy_of,
    every,
    falsification,
    finished_task,
    first,
    last,
    middle,
    of_task,
    without,
)


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
def weights_are_doubled_and_scales_halved(log: Log) -> Log:
    """So every result stays the same."""
    for line in every(log, "task_started"):
        line["weights"] = {site: 2 * weight for site, weight in line["weights"].items()}
        line["scale"] /= 2
    for line in every(log, "contributed"):
        line["weight"] *= 2
    return log


@falsification
def no_group_was_postponed(log: Log) -> Log:
    return without(log, every(log, "group_postponed"))


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
    line |= {"event": "task_abandoned", "cause": {"type": "taken_over"}}
    return log


@falsification
def every_finished_task_is_abandoned(log: Log) -> Log:
    for line in every(log, "task_completed"):
        del line["without"]
        line |= {"event": "task_abandoned", "cause": {"type": "taken_over"}}
    return log


@falsification
def an_abandoned_task_is_completed_without_any_member(log: Log) -> Log:
    """Of those that nobody has finished."""
    finished = {line["task"] for line in log if line["event"] == "task_finished"}
    left = [each for each in every(log, "task_abandoned") if each["task"] not in finished]
    if not left:
        raise NotHereError("task_abandoned")
    group = first(log, "task_started", task=left[0]["task"])["group"]
    del left[0]["cause"]
    left[0] |= {"event": "task_completed", "without": group}
    return log


@falsification
def an_abandoned_task_is_completed(log: Log) -> Log:
    line = first(log, "task_abandoned")
    del line["cause"]
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
    line |= {"event": "task_dropped", "cause": None, "digest": given["digest"]}
    return log


@falsification
def all_members_drop_a_completed_task(log: Log) -> Log:
    task = finished_task(log)
    given = {e["site"]: e["digest"] for e in of_task(log, task, "contributed")}
    for line in of_task(log, task, "task_finished"):
        del line["fingerprint"]
        line |= {"event": "task_dropped", "cause": None, "digest": given[line["site"]]}
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


def _falsify_causes(log: Log, old: str, new: Line) -> Log:
    lines = [
        line
        for line in every(log, "task_halted", "task_rearranged", "task_abandoned", "task_dropped")
        if line["cause"] is not None and line["cause"]["type"] == old
    ]
    if not lines:
        raise NotHereError(old)
    for line in lines:
        line["cause"] = new
    return log


@falsification
def lost_sites_are_said_to_have_withdrawn(log: Log) -> Log:
    return _falsify_causes(log, "site_lost", {"type": "site_withdrew", "site": "moon"})


@falsification
def lost_sites_are_said_to_have_spent_a_budget(log: Log) -> Log:
    return _falsify_causes(log, "site_lost", {"type": "budget_spent", "budget_s": 99.0})


@falsification
def broken_links_are_said_to_have_been_taken_over(log: Log) -> Log:
    return _falsify_causes(log, "link_broke", {"type": "taken_over"})


@falsification
def a_group_is_postponed_because_of_another_site(log: Log) -> Log:
    for line in every(log, "group_postponed"):
        line["cause"]["sites"] = line["group"][:1] if not line["cause"]["sites"] else []
    return log


@falsification
def a_report_of_losses_comes_twice(log: Log) -> Log:
    return [*log, copy_of(middle(log, "losses_reported"))]


@falsification
def a_halt_asks_a_member_twice(log: Log) -> Log:
    for line in every(log, "task_halted"):
        if line["members"]:
            line["members"].append(line["members"][0])
            return log
    raise NotHereError("members")


@falsification
def two_tensors_of_a_task_are_exchanged(log: Log) -> Log:
    """Two of different sizes."""
    for line in every(log, "task_started"):
        sizes = line.get("tensor_bytes") or []
        for place, size in enumerate(sizes):
            if size != sizes[0]:
                sizes[0], sizes[place] = size, sizes[0]
                return log
    raise NotHereError("tensor_bytes")
