"""Falsified bytes, and results that do not wait for them."""

from __future__ import annotations

from falsified.falsifying import (
    MS,
    Line,
    Log,
    NotHereError,
    every,
    falsification,
    finished_task,
    first,
    middle,
    of_task,
    without,
)


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
def counts_of_links_are_halved(log: Log) -> Log:
    for line in every(log, "links_counted"):
        for link in line["links"]:
            link["bytes"] //= 2
    return log


@falsification
def counts_of_links_are_a_second_early(log: Log) -> Log:
    """Those of the first second are left out."""
    early = every(log, "links_counted")
    for line in early:
        line["t_ns"] -= 1000 * MS
    return without(log, [line for line in early if line["t_ns"] < 0])


@falsification
def counts_of_links_end_amid_the_run(log: Log) -> Log:
    counted = every(log, "links_counted")
    return without(log, counted[len(counted) // 2 :])


@falsification
def a_count_of_links_is_thirty_milliseconds_late(log: Log) -> Log:
    middle(log, "links_counted")["t_ns"] += 30 * MS
    return log


@falsification
def a_count_shows_twice_the_bytes(log: Log) -> Log:
    counted = every(log, "links_counted")
    for link in counted[len(counted) // 2]["links"]:
        link["bytes"] *= 2
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
def the_counters_of_two_directions_are_exchanged(log: Log) -> Log:
    """Of the link whose directions carried most, if one of them carried a tenth more."""
    sizes: dict[tuple[str, str], int] = {}
    done = {line["task"] for line in every(log, "task_completed") if not line["without"]}
    for line in every(log, "received"):
        if line["task"] in done:
            ends = line["src"], line["site"]
            sizes[ends] = sizes.get(ends, 0) + line["bytes"]
    links = {(e["src"], e["dst"]): e for e in first(log, "run_finished")["links"]}
    for a, b in sorted(sizes, key=lambda ends: -sizes[ends]):
        if (a, b) in links and sizes[a, b] > 1.1 * sizes.get((b, a), 0):
            there, back = links[a, b], links[b, a]
            for key in ("bytes", "packets", "drops"):
                there[key], back[key] = back[key], there[key]
            return log
    raise NotHereError("received")


@falsification
def an_interface_was_not_counted(log: Log) -> Log:
    first(log, "run_finished")["links"].pop()
    return log


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
def a_result_exists_300_ms_early_and_a_halt_follows(log: Log) -> Log:
    """Long after the result; its last chunk arrives at the time of the result."""
    halts_ns = {line["task"]: line["t_ns"] for line in reversed(every(log, "task_halted"))}
    said_ns = {line["site"]: 0 for line in log}
    for line in log:
        early_ns = line["t_ns"] - 300 * MS
        if line["event"] == "task_finished" and said_ns[line["site"]] < early_ns:
            late = any(
                into["task"] == line["task"] and into["end_ns"] > early_ns + 20 * MS
                for into in every(log, "received", site=line["site"])
            )
            if late and line["t_ns"] + 100 * MS < halts_ns.get(line["task"], 0):
                line["t_ns"] = early_ns
                return log
        said_ns[line["site"]] = line["t_ns"]
    raise NotHereError("task_halted")


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
def inputs_and_results_of_repaired_tasks_are_swapped(log: Log) -> Log:
    """At both ends of all links."""
    repaired = {line["task"] for line in every(log, "task_halted", "task_rearranged")}
    for line in every(log, "sent", "received"):
        if line["task"] in repaired:
            line["phase"] = {"in": "out", "out": "in"}.get(line["phase"], line["phase"])
    return log


@falsification
def contributions_were_sent_early_and_one_twice(log: Log) -> Log:
    """In a task without losses, whose discarded bytes add up."""
    task = finished_task(log)
    lines = [line for line in of_task(log, task, "sent", "received") if line["phase"] == "in"]
    if not lines:
        raise NotHereError("in")
    for line in lines:
        line["phase"] = "early"
    sent = next(line for line in lines if line["event"] == "sent")
    ends = {"event": "received", "src": sent["site"], "site": sent["dst"]}
    into = next((line for line in lines if ends.items() <= line.items()), None)
    if into is None:
        raise NotHereError("received")
    values = {key: sent[key] for key in ("bytes", "chunks")}
    for key, value in values.items():
        sent[key], into[key] = 2 * value, 2 * value
    new = {"t_ns": into["t_ns"] + 1, "event": "discarded", "task": task, **values}
    return [*log, {**new, "site": into["site"], "src": into["src"]}]


@falsification
def nothing_arrives_in_halted_tasks(log: Log) -> Log:
    return without(log, _halted(log, "received"))


@falsification
def half_arrives_in_halted_tasks(log: Log) -> Log:
    for line in _halted(log, "received"):
        line["bytes"] = line["bytes"] // 8 * 4
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
def discarded_bytes_have_twice_as_many_chunks(log: Log) -> Log:
    middle(log, "discarded")["chunks"] *= 2
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


def _change_captures(log: Log, **changes: int) -> Log:
    for end in every(log, "capture_ended"):
        for link in end["links"]:
            for key, by in changes.items():
                link[key] += by
    return log


@falsification
def captures_lack_a_tenth(log: Log) -> Log:
    for end in every(log, "capture_ended"):
        for link in end["links"]:
            link["packets"], link["bytes"] = link["packets"] * 9 // 10, link["bytes"] * 9 // 10
    return log


@falsification
def captures_have_one_packet_more_than_the_links(log: Log) -> Log:
    return _change_captures(log, packets=1, bytes=60)


@falsification
def captures_have_smaller_packets(log: Log) -> Log:
    return _change_captures(log, bytes=-100_000)


@falsification
def captures_missed_a_packet(log: Log) -> Log:
    return _change_captures(log, missed=1)


@falsification
def a_capture_is_missing(log: Log) -> Log:
    end = first(log, "capture_ended")
    del end["links"][0]
    return log


@falsification
def captures_have_five_packets_less_and_all_bytes(log: Log) -> Log:
    return _change_captures(log, packets=-5)


@falsification
def captures_ended_amid_the_run(log: Log) -> Log:
    end = first(log, "capture_ended")
    end["t_ns"] //= 2
    for link in end["links"]:
        link["packets"], link["bytes"] = link["packets"] // 2, link["bytes"] // 2
    return log


@falsification
def captures_ended_twice(log: Log) -> Log:
    return [*log, first(log, "capture_ended")]


@falsification
def a_link_was_captured_twice(log: Log) -> Log:
    links = first(log, "capture_ended")["links"]
    links.insert(0, links[0] | {"packets": 1, "bytes": 60})
    return log


@falsification
def all_is_sent_before_the_last_input_arrives(log: Log) -> Log:
    task = finished_task(log)
    into = max(every(log, "received", task=task, phase="in"), key=lambda line: line["end_ns"])
    for out in every(log, "sent", task=task, site=into["site"]):
        if out["start_ns"] > into["end_ns"] - MS:
            raise NotHereError("sent")
        out["end_ns"] = min(out["end_ns"], into["end_ns"] - MS)
    return log
