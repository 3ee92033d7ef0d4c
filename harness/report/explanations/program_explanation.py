"""Why a run of programs took its time: the parts of steps, stragglers, and idle faults (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from trunkline.harness.record.calls import list_calls
from trunkline.harness.report.calls.step_tables import (
    PARTS,
    name_processes,
    rank_stragglers,
    sum_steps,
)
from trunkline.harness.report.calls.steps_section import describe_stragglers
from trunkline.harness.report.faults.fault_layout import LETTERS, shorten
from trunkline.harness.report.run_data import RunData


def describe(data: RunData) -> Iterator[str | Table]:
    """Sentences, and a table with a row for each site, or for each of its processes."""
    sums = sum_steps(data.tables["steps"])
    means = sums[list(PARTS)].mean()
    part = str(means.idxmax()).removesuffix("_s")
    words = {"rest": "neither computing nor in a call", "moving": "moving bytes"}.get(part, part)
    total_s = sums["duration_s"].mean()
    share = 100 * means.max() / total_s if total_s else 0.0
    who = "process" if sums["site"].duplicated().any() else "site"
    yield f"A {who} spent {total_s:.3f} s on average, and most of it, {share:.0f} %, {words}."
    yield from describe_stragglers(rank_stragglers(data.history, _sites(data)))
    yield from _describe_idle_faults(data)
    table = Table(box=None)
    for head in ("site", "steps", *(name.removesuffix("_s") for name in ("duration_s", *PARTS))):
        table.add_column(head, justify="left" if head == "site" else "right")
    for name, row in zip(name_processes(sums), sums.to_dict("records"), strict=True):
        times = (f"{row[key]:.3f} s" for key in ("duration_s", *PARTS))
        table.add_row(name, str(row["steps"]), *times)
    yield table


def to_json(data: RunData) -> dict[str, Any]:
    """The same as an object."""
    stragglers = rank_stragglers(data.history, _sites(data))
    sums = sum_steps(data.tables["steps"]).astype({"process": object})
    return {
        "processes": sums.where(sums.notna(), None).to_dict("records"),
        "waited_for": dict(stragglers),
        "idle_faults": [number for number, _ in _find_idle_faults(data)],
    }


def _sites(data: RunData) -> tuple[str, ...]:
    return data.scenario.topology.site_names


def _describe_idle_faults(data: RunData) -> Iterator[str]:
    for number, text in _find_idle_faults(data):
        yield f"Fault {number} ({shorten(text, LETTERS)}) touched no call: none was under way."


def _find_idle_faults(data: RunData) -> Iterator[tuple[int, str]]:
    """The faults during which no call was under way at any site."""
    end_ns = data.history.end_ns
    spans = [
        (call.started.t_ns, end_ns if call.finished is None else call.finished.t_ns)
        for call in list_calls(data.history)
    ]
    for fault in data.history.faults:
        begin_ns = fault.started.t_ns
        until_ns = end_ns if fault.end_ns is None else fault.end_ns
        if not any(start < until_ns and begin_ns < end for start, end in spans):
            yield fault.started.fault, fault.started.text
