"""Falsified background traffic."""

from __future__ import annotations

from falsified.falsifying import MS, Log, NotHereError, every, falsification, first, without


@falsification
def a_report_of_background_traffic_is_of_another_time(log: Log) -> Log:
    line = first(log, "background_received")
    line["since_ns"] += 30 * MS
    return log


@falsification
def a_report_of_background_traffic_is_thirty_milliseconds_early(log: Log) -> Log:
    first(log, "background_received")["t_ns"] -= 30 * MS
    return log


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


@falsification
def background_files_are_faster_than_their_links(log: Log) -> Log:
    for line in every(log, "background_file"):
        line["t_ns"] -= (line["t_ns"] - line["start_ns"]) // 4
    return log


def _move_bytes(log: Log, src: int, dst: int, *events: str) -> Log:
    """Have one report of a flow of files count what another one counted."""
    flow = first(log, "background_file")["flow"]
    for event in events:
        reports = every(log, event, flow=flow)
        if len(reports) < 2:
            raise NotHereError(event)
        reports[dst]["bytes"] += reports[src]["bytes"]
        reports[src]["bytes"] = 0
    return log


@falsification
def background_files_were_whole_before_their_bytes_came(log: Log) -> Log:
    return _move_bytes(log, 0, -1, "background_received")


@falsification
def background_files_came_before_they_began(log: Log) -> Log:
    return _move_bytes(log, -1, 0, "background_sent", "background_received")


@falsification
def the_first_background_file_never_arrives(log: Log) -> Log:
    """The last byte of a later one is still on its way when the run stops."""
    gone = first(log, "background_file")
    counted = [e for e in every(log, "background_received", flow=gone["flow"]) if e["bytes"]]
    counted[-1]["bytes"] -= 1
    return without(log, [gone])
