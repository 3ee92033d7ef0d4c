"""Why a run of programs took its time: the parts of steps, stragglers, hangs, faults (pure).

Without timed calls: what is known of the programs, their sites and faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import pandas as pd
from rich.table import Table

from trunkline.harness.checks.expectations.remarks import name_late_entries
from trunkline.harness.config.units import count_of, short_size
from trunkline.harness.record.hangs import describe_hangs, list_long_hangs
from trunkline.harness.record.history import Disturbance
from trunkline.harness.report.calls.busiest_link import describe_busiest, find_busiest
from trunkline.harness.report.calls.calls_in_faults import (
    describe_calls_in_faults,
    find_calls_in_faults,
    name_costliest,
)
from trunkline.harness.report.calls.late_starts import describe_late_start
from trunkline.harness.report.calls.steps.one_step import OneStep, find_main_fault
from trunkline.harness.report.calls.steps.step_tables import (
    PARTS,
    describe_before,
    describe_delay,
    describe_fault_time,
    describe_longest,
    describe_means,
    measure_delay_s,
    rank_stragglers,
    sum_steps,
)
from trunkline.harness.report.calls.steps.steps_section import describe_stragglers
from trunkline.harness.report.faults.fault_layout import LETTERS, shorten
from trunkline.harness.report.faults.fault_table import find_timeline_start_ns
from trunkline.harness.report.pages.programs_section import describe_exit
from trunkline.harness.report.run_data import RunData

LEFT = ("program", "how", "call", "last to begin")
"""The columns of tables that have words."""

MOST_EXPLAINED = 3
"""For so many programs it is said why others waited for them."""

LEAST_EXPLAINED = 0.1
"""They are those for which others waited at least this share of all waits."""


def describe(data: RunData) -> Iterator[str | Table]:
    """Sentences, and a table with a row for each program, or for each of its processes."""
    if not _is_timed(data):
        yield from _describe_untimed(data)
        return
    yield from describe_time(data)
    sums = sum_steps(data.tables["steps"])
    times = ("duration_s", *PARTS)
    table = _make_table("program", "steps", *map(_name_part, times))
    for row in sums.to_dict("records"):
        table.add_row(row["program"], str(row["steps"]), *(f"{row[key]:.3f} s" for key in times))
    yield table


def describe_step(found: OneStep) -> Iterator[str | Table]:
    """Why one step took its time: sentences, a row for each program, and a row for each call."""
    yield from found.describe()
    table = _make_table("program", "from", "duration", *(_name_part(name) for name in PARTS))
    for row in found.to_json()["programs"]:
        times = ("start_s", "duration_s", *PARTS)
        table.add_row(row["program"], *(f"{row[key]:.3f} s" for key in times))
    yield table
    calls, left = found.list_calls()
    table = _make_table("begun", "all begun", "ended", "call", "programs", "last to begin")
    for each in calls:
        ended = "never" if each.ended_s is None else f"{each.ended_s:.3f} s"
        begun = (f"{begun_s:.3f} s" for begun_s in (each.begun_s, each.all_begun_s))
        table.add_row(*begun, ended, each.what, each.who, each.last)
    if calls:
        yield table
    if left:
        yield f"{count_of(left, 'other call')} of this step took less time."


def list_numbers(data: RunData) -> list[int]:
    """The numbers of the steps that programs did; none without timed calls."""
    if not _is_timed(data):
        return []
    return sorted({int(number) for number in data.tables["steps"]["step"].dropna()})


def _name_part(column: str) -> str:
    return column.removesuffix("_s")


def describe_time(data: RunData) -> Iterator[str]:
    """Where the time of programs with timed calls went, in sentences."""
    before, faults, after = divide_time(data)
    yield from (*before, *faults, *after)


def divide_time(data: RunData) -> tuple[list[str], list[str], list[str]]:
    """The same: where it went and what faults cost in all, each fault, and the rest.

    The page has each fault in a list.
    """
    history, programs, steps = data.history, data.scenario.programs, data.tables["steps"]
    sums = sum_steps(steps)
    before = (
        *describe_means(history, programs, sums),
        *describe_hangs(history, programs),
        *describe_fault_time(history, programs, sums),
        *describe_delay(history, programs, sums, data.scenario.stop),
        *name_costliest(history, programs, len(sums)),
    )
    faults = describe_calls_in_faults(history, programs, len(sums))
    late = name_late_entries(history, data.scenario)
    return [*before], [*faults, *late], [*_describe_rest(data, sums)]


def _describe_rest(data: RunData, sums: pd.DataFrame) -> Iterator[str]:
    """The busiest link, the programs for which others waited, and steps."""
    history, programs = data.history, data.scenario.programs
    yield from describe_busiest(history, data.scenario, sums)
    stragglers = rank_stragglers(history, programs)
    yield from describe_stragglers(stragglers, len(sums))
    waited_s = sum(time_s for _, time_s in stragglers)
    for who, time_s in stragglers[:MOST_EXPLAINED]:
        if time_s >= LEAST_EXPLAINED * waited_s:
            yield from describe_late_start(history, programs, who)
    yield from describe_longest(data.tables["steps"], partial(find_main_fault, data))
    yield from describe_before(sums)


def to_json(data: RunData) -> dict[str, Any]:
    """The same as an object."""
    if not _is_timed(data):
        return {
            "timed": False,
            "programs": _list_rows(data.tables["programs"]),
            "sites": _list_rows(data.tables["sites"]),
            "faults": _list_rows(data.tables["faults"]),
        }
    sums, programs = sum_steps(data.tables["steps"]), data.scenario.programs
    faults = find_calls_in_faults(data.history, programs, len(sums))
    busiest = find_busiest(data.history, data.scenario.topology, programs)
    by_exit = data.scenario.stop.exit is not None
    return {
        "timed": True,
        "programs": _list_rows(sums),
        "faults_s": sum(each.cost_s for each in faults),
        "earlier_s": measure_delay_s(data.history, programs, len(sums))[0] if by_exit else None,
        "busiest": None if busiest is None else asdict(busiest),
        "waited_for": dict(rank_stragglers(data.history, data.scenario.programs)),
        "hangs": [each.to_json() for each in list_long_hangs(data.history, data.scenario.programs)],
        "faults": [each.to_json() for each in faults],
        "idle_faults": [each.fault.started.fault for each in faults if not each.calls],
    }


def _is_timed(data: RunData) -> bool:
    return len(data.tables.get("calls", ())) > 0


def _describe_untimed(data: RunData) -> Iterator[str | Table]:
    """What is known of programs without timed calls: their lives, their sites' bytes, faults."""
    if data.scenario.workload.options.get("time_calls"):
        yield "The programs made no call of torch.distributed, so nothing says how they spent time."
    else:
        yield "No call was timed, so nothing says how the programs spent their time."
        yield (
            "For programs that use torch.distributed, workload.time_calls: true times its calls "
            "(docs/programs.md)."
        )
    sites = {row["site"]: row for row in _list_rows(data.tables["sites"])}
    table = _make_table("program", "started", "ended", "how", "processes", "sent", "received")
    for row in _list_rows(data.tables["programs"]):
        site = sites.pop(row["site"], {})  # the first program of a site has the site's bytes
        table.add_row(
            row["program"],
            *("" if row[key] is None else f"{row[key]:.3f} s" for key in ("start_s", "end_s")),
            describe_exit(row),
            str(row["processes"]),
            *(short_size(site[key]) if site else "" for key in ("bytes_sent", "bytes_received")),
        )
    yield table
    yield "Sent and received are the bytes of all programs of a site, headers included."
    begin_ns = find_timeline_start_ns(data.history)
    for fault in data.history.faults:
        text = shorten(fault.started.text, LETTERS)
        yield f"Fault {fault.started.fault} ({text}) {_describe_span(fault, begin_ns)}."
    yield from name_late_entries(data.history, data.scenario)


def _describe_span(fault: Disturbance, begin_ns: int | None) -> str:
    begun = f"{fault.started.t_ns / 1e9:.3f} s"
    if begin_ns and begin_ns <= fault.started.t_ns:  # else there is one clock
        begun += f" of the run ({(fault.started.t_ns - begin_ns) / 1e9:.3f} s of the timeline)"
    if fault.end_ns is None:
        return f"began at {begun}, and nothing ended it"
    ended = f"{fault.end_ns / 1e9:.3f} s"
    is_at_once = ended == f"{fault.started.t_ns / 1e9:.3f} s"
    return f"took effect at {begun}" if is_at_once else f"lasted from {begun} to {ended}"


def _make_table(*heads: str) -> Table:
    """An empty table, whose numbers stand right."""
    table = Table(box=None)
    for head in heads:
        table.add_column(head, justify="left" if head in LEFT else "right")
    return table


def _list_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table; None where a value is not known."""
    found = table.astype(object)
    records = found.where(found.notna(), None).to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in records]
