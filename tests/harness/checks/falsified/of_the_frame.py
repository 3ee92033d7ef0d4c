"""Falsifications of the frame of a log: events left out or repeated, the header, the end."""

from __future__ import annotations

from collections.abc import Callable
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
    without,
)


def _leave_out(event: str, which: Callable[..., Line]) -> None:
    def function(log: Log) -> Log:
        return without(log, [which(log, event)])

    function.__name__ = f"{which.__name__}_{event}_is_missing"
    falsification(function)


for _event in ("run_started", "network_ready", "programs_started", "run_finished"):
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
    "program_started",
    "program_ready",
    "fault_started",
    "fault_ended",
    "link_changed",
    "sync_started",
    "sync_finished",
    "task_replanned",
    "task_halted",
    "task_rearranged",
    "halt_heard",
    "blocks_heard",
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
    "program_started",
    "program_ready",
    "compute_started",
    "compute_finished",
    "sync_started",
    "sync_finished",
    "call_started",
    "call_finished",
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
def the_network_is_ready_at_the_end(log: Log) -> Log:
    first(log, "network_ready")["t_ns"] = log[-1]["t_ns"] - 1
    return log


@falsification
def an_unknown_agent_speaks(log: Log) -> Log:
    line = every(log, "compute_finished")[0]
    return [*log, copy_of(line, site="n77")]


@falsification
def only_the_last_controller_stops_the_run(log: Log) -> Log:
    stops = every(log, "stopping")
    if len(stops) < 2:
        raise NotHereError("stopping")
    return without(log, stops[:-1])


@falsification
def the_run_stops_10_s_late(log: Log) -> Log:
    """The time is over 10 s late, and all that follows is later, too."""
    if first(log, "stopping")["cause"]["type"] != "time_up":
        raise NotHereError("time_up")
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


def _unused(log: Log) -> Log:
    """Iterations that are in no task: the last ones, and those that were computed alone."""
    used = {(line["site"], line["iteration"]) for line in every(log, "contributed")}
    lines = every(log, "compute_started", "compute_finished", "ready")
    return [line for line in lines if (line["site"], line["iteration"]) not in used]


@falsification
def the_last_iterations_are_missing(log: Log) -> Log:
    ready = {line["site"] for line in _unused(log) if line["event"] == "ready"}
    return without(log, [line for line in _unused(log) if line["site"] in ready])


@falsification
def the_sites_are_in_another_order(log: Log) -> Log:
    first(log, "run_started")["sites"].reverse()
    return log


@falsification
def a_model_predicted_the_run(log: Log) -> Log:
    return [*log, {"t_ns": 0, "site": "runner", "event": "predicted", "model": "fluid model"}]
