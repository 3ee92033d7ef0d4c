"""Falsified calls of torch.distributed."""

from __future__ import annotations

from typing import Any

from falsified.falsifying import (
    MS,
    Line,
    Log,
    copy_of,
    every,
    falsification,
    first,
    middle,
    without,
)


def _end_of(log: Log, call: Line) -> Line:
    """The line that says that this call ended."""
    return every(log, "call_finished", **_key(call))[0]


def _key(call: Line) -> dict[str, Any]:
    return {key: call[key] for key in ("site", "process", "call")}


@falsification
def the_first_call_never_began(log: Log) -> Log:
    return without(log, [first(log, "call_started")])


@falsification
def the_first_call_never_ended(log: Log) -> Log:
    return without(log, [first(log, "call_finished")])


@falsification
def all_calls_have_only_ends(log: Log) -> Log:
    return without(log, every(log, "call_started"))


@falsification
def all_calls_but_the_last_of_a_site_are_missing(log: Log) -> Log:
    of_site = every(log, "call_started", "call_finished", site="n2")
    last = max(line["call"] for line in of_site)
    return without(log, [line for line in of_site if line["call"] < last])


@falsification
def a_call_is_missing_at_one_site(log: Log) -> Log:
    call = middle(log, "call_started")
    return without(log, [call, _end_of(log, call)])


@falsification
def a_call_ends_when_it_begins(log: Log) -> Log:
    """The barrier ends before the others can have begun it."""
    call = first(log, "call_started", name="barrier")
    _end_of(log, call)["t_ns"] = call["t_ns"]
    return log


@falsification
def a_call_ends_before_it_begins(log: Log) -> Log:
    call = middle(log, "call_started")
    _end_of(log, call)["t_ns"] = call["t_ns"] - 1
    return log


@falsification
def a_call_ends_after_the_next_one_began(log: Log) -> Log:
    call = first(log, "call_started", blocks=True)
    following = first(log, "call_started", **{**_key(call), "call": call["call"] + 1})
    _end_of(log, call)["t_ns"] = following["t_ns"] + 1
    return log


@falsification
def a_call_is_another_one_at_one_site(log: Log) -> Log:
    call = middle(log, "call_started", name="all_reduce")
    call["name"] = "broadcast"
    return log


@falsification
def two_calls_have_one_number(log: Log) -> Log:
    call = middle(log, "call_started")
    return [*log, copy_of(call, t_ns=call["t_ns"] + 1)]


@falsification
def a_call_begins_after_its_program_exited(log: Log) -> Log:
    call = middle(log, "call_started")
    exited = first(log, "agent_exited", who=call["site"])
    return [*log, copy_of(call, call=999, t_ns=exited["t_ns"] + MS)]


@falsification
def no_call_was_timed(log: Log) -> Log:
    return without(log, every(log, "call_started", "call_finished"))


@falsification
def no_call_of_a_site_was_timed(log: Log) -> Log:
    return without(log, every(log, "call_started", "call_finished", site="n2"))


@falsification
def a_call_goes_on_after_its_synchronization(log: Log) -> Log:
    call = middle(log, "call_started", name="all_reduce", blocks=True)
    following = first(log, "call_started", **{**_key(call), "call": call["call"] + 1})
    _end_of(log, call)["t_ns"] = following["t_ns"] - 1
    return log


@falsification
def a_synchronization_ends_during_its_last_call(log: Log) -> Log:
    call = every(log, "call_started", name="all_reduce", blocks=True)[-1]
    every(log, "sync_finished", site=call["site"])[-1]["t_ns"] = _end_of(log, call)["t_ns"] - 1
    return log


@falsification
def a_site_is_alone_in_the_group_of_a_call(log: Log) -> Log:
    call = middle(log, "call_started")
    call["ranks"] = [call["rank"]]
    return log


@falsification
def a_site_is_alone_in_the_groups_of_all_its_calls(log: Log) -> Log:
    for call in every(log, "call_started", site="n2"):
        call["ranks"] = [call["rank"]]
    return log


@falsification
def an_all_reduce_has_other_bytes_at_one_site(log: Log) -> Log:
    middle(log, "call_started", name="all_reduce")["bytes"] += 4
    return log


@falsification
def a_barrier_has_another_name_at_one_site(log: Log) -> Log:
    middle(log, "call_started", name="barrier")["name"] = "all_reduce"
    return log


@falsification
def an_expected_line_is_another(log: Log) -> Log:
    first(log, "expected_output")["line"] = "nothing"
    return log


@falsification
def an_expected_line_is_missing(log: Log) -> Log:
    return without(log, [first(log, "expected_output")])


@falsification
def an_expected_line_is_of_another_site(log: Log) -> Log:
    line = first(log, "expected_output")
    line["site"] = line["who"] = "n3"
    return log


@falsification
def an_expected_line_is_there_twice(log: Log) -> Log:
    line = first(log, "expected_output")
    return [*log, copy_of(line, t_ns=line["t_ns"] + MS)]


@falsification
def an_expected_line_is_of_no_program(log: Log) -> Log:
    first(log, "expected_output")["who"] += "x"
    return log


@falsification
def a_process_has_another_rank_in_its_last_call(log: Log) -> Log:
    line = every(log, "call_started", site="n1")[-1]
    line["rank"] = (line["rank"] + 1) % len(line["ranks"])
    return log
