"""The tables of a run of programs: how each ended, and what links carried over time (pure)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping

from trunkline.agents.events.run_events import AgentExited, LinksCounted, RunFinished
from trunkline.harness.record.history import History
from trunkline.harness.report.tables.row import Row, column
from trunkline.workloads.program import Program


class ProgramRow(Row, table="programs"):
    """One row per program of a run of programs; all begin at the run's start."""

    site: str = column("its site")
    command: str = column("the command")
    end_s: float | None = column("when it ended")
    exit_code: int | None = column("its exit code; empty if a signal ended it")
    signal: int | None = column("the signal that ended it")
    asked: bool = column("whether it was told to end because the run stopped")
    bytes_sent: int = column("what its site's interfaces sent, headers included")
    bytes_received: int = column("what they received")


class TrafficRow(Row, table="traffic"):
    """One row per link and time at which it was counted, in runs of programs: every 0.1 s at first,
    and half as often after each 50 counts. Links without change have no row.
    """  # noqa: D205

    t_s: float = column("when it was counted")
    src: str = column("the site or router that sends")
    dst: str = column("the site or router that receives")
    bytes: int = column("what the link has carried since the start, headers included")


def tabulate_programs(history: History, programs: Mapping[str, Program]) -> Iterator[ProgramRow]:
    """One row per program, in the order of ranks; all begin at the run's start.

    Bytes are those of its site's interfaces, headers included.
    """
    exits = {event.who: event for event in history.all(AgentExited)}
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for link in (link for event in history.all(RunFinished) for link in event.links):
        sent[link.src] += link.bytes
        received[link.dst] += link.bytes
    for site, program in programs.items():
        ended = exits.get(site)
        yield ProgramRow(
            site=site,
            command=shlex.join(program.command),
            end_s=ended.t_ns / 1e9 if ended else None,
            exit_code=ended.code if ended and not ended.signal else None,
            signal=ended.signal or None if ended else None,
            asked=bool(ended and ended.asked),
            bytes_sent=sent[site],
            bytes_received=received[site],
        )


def tabulate_traffic(history: History) -> Iterator[TrafficRow]:
    """One row per count and link that had carried something since the count before."""
    for event in history.all(LinksCounted):
        for link in event.links:
            yield TrafficRow(t_s=event.t_ns / 1e9, src=link.src, dst=link.dst, bytes=link.bytes)
