"""The tables of a run of programs: how each ended, and what links carried over time (pure)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from trunkline.agents.events.run_events import AgentExited, LinksCounted, RunFinished
from trunkline.harness.record.history import History
from trunkline.harness.report import columns
from trunkline.workloads.program import Program


def tabulate_programs(history: History, programs: Mapping[str, Program]) -> pd.DataFrame:
    """One row per program, in the order of ranks; all begin at the run's start.

    Bytes are those of its site's interfaces, headers included.
    """
    exits = {event.who: event for event in history.all(AgentExited)}
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for link in (link for event in history.all(RunFinished) for link in event.links):
        sent[link.src] += link.bytes
        received[link.dst] += link.bytes
    rows = []
    for site, program in programs.items():
        ended = exits.get(site)
        rows.append(
            {
                "site": site,
                "command": shlex.join(program.command),
                "end_s": ended.t_ns / 1e9 if ended else None,
                "exit_code": ended.code if ended and not ended.signal else None,
                "signal": ended.signal or None if ended else None,
                "asked": bool(ended and ended.asked),
                "bytes_sent": sent[site],
                "bytes_received": received[site],
            }
        )
    return columns.PROGRAMS.frame(rows)


def leave_out_payload(made: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Tables by name, with payload empty that nothing has measured: programs do not log theirs."""
    unknown = {
        "links": ("bytes", "busy_s"),
        "workers": ("bytes_sent", "bytes_received"),
        "run": ("bytes_sent",),
    }
    return {
        name: table.assign(**{each: _empty(table[each]) for each in unknown.get(name, ())})
        for name, table in made.items()
    }


def _empty(column: pd.Series[Any]) -> pd.Series[Any]:
    return pd.Series([None] * len(column), column.index, column.dtype)


def tabulate_traffic(history: History) -> pd.DataFrame:
    """One row per count and link that had carried something since the count before."""
    return columns.TRAFFIC.frame(
        {"t_s": event.t_ns / 1e9, "src": link.src, "dst": link.dst, "bytes": link.bytes}
        for event in history.all(LinksCounted)
        for link in event.links
    )
