"""The tables of a run of programs: how each ended, and what links carried over time (pure)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trunkline.agents.events.event import Event
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.run_events import (
    AgentExited,
    LinksCounted,
    ProgramReady,
    ProgramStarted,
    RunFinished,
)
from trunkline.harness.checks.programs.lifecycle_checks import list_failures, list_given_up
from trunkline.harness.record.history import History
from trunkline.harness.report.tables.row import Row, column
from trunkline.workloads.program_roles import Program


class ProgramRow(Row, table="programs"):
    """One row per program of a run of programs; exits are those of its last process.

    A program that never started has no exit. `tables/sites.csv` has the bytes of its site.
    """

    site: str = column("its site")
    program: str = column("its name: its site, with roles `n1.trainer`")
    role: str = column("its role; empty without roles")
    command: str = column("the command")
    start_s: float | None = column("when its first process began; empty if none did")
    ready_s: float | None = column(
        "when it was ready for the first time; empty if it never was, or `ready` is not given"
    )
    processes: int = column(
        "how often it was started: 0 if it never was, 1, and one more for each restart"
    )
    faults: int = column("how often a fault killed it, or had it leave")
    end_s: float | None = column("when it ended")
    exit_code: int | None = column("its exit code; empty if a signal ended it")
    signal: int | None = column("the signal that ended it")
    asked: bool = column("whether it was told to end, by a fault or because the run stopped")
    failed: bool = column("whether it ended as the scenario does not allow")
    given_up: bool = column("whether it was not started again because of `restart.at_most`")


class SiteRow(Row, table="sites"):
    """One row per site of a run of programs: nothing tells the bytes of its programs apart."""

    site: str = column("the site")
    programs: int = column("how many programs it has")
    bytes_sent: int = column(
        "the bytes that its interfaces sent, headers included, also for other sites"
    )
    bytes_received: int = column("the bytes that they received")


class TrafficRow(Row, table="traffic"):
    """One row per link and time at which it was counted, in runs of programs: every 0.1 s at first,
    and half as often after each 50 counts. Links without change have no row.
    """  # noqa: D205

    t_s: float = column("when it was counted")
    src: str = column("the site or router that sends")
    dst: str = column("the site or router that receives")
    bytes: int = column("the bytes on the link since the start, headers included")


def tabulate_programs(history: History, programs: Mapping[str, Program]) -> Iterator[ProgramRow]:
    """One row per program, in the order of roles and ranks."""
    failed = {event.who for event in list_failures(history, programs)}
    given_up = list_given_up(history, programs)
    for name, program in programs.items():
        moments = history.programs.of_program(name)
        events = [moment.event for moment in moments]
        starts = sum(isinstance(event, ProgramStarted) for event in events)
        ended = history.programs.last_exit(name) if starts else None
        runs = ended is not None and bool(moments) and moments[-1].step.after is Doing.RUNNING
        yield ProgramRow(
            site=program.site,
            program=name,
            role=program.role,
            command=shlex.join(program.command),
            start_s=_first_s(events, ProgramStarted),
            ready_s=_first_s(events, ProgramReady),
            processes=starts,
            faults=sum(isinstance(e, AgentExited) and e.fault is not None for e in events),
            end_s=ended.t_ns / 1e9 if ended and not runs else None,
            exit_code=ended.code if ended and not ended.signal else None,
            signal=ended.signal or None if ended else None,
            asked=bool(ended and ended.asked),
            failed=name in failed,
            given_up=name in given_up,
        )


def tabulate_sites(
    history: History, sites: Sequence[str], programs: Mapping[str, Program]
) -> Iterator[SiteRow]:
    """One row per site, in the order of the network's sites."""
    placed = Counter(program.site for program in programs.values())
    sent, received = Counter[str](), Counter[str]()
    for link in (link for event in history.all(RunFinished) for link in event.links):
        sent[link.src] += link.bytes
        received[link.dst] += link.bytes
    for site in sites:
        yield SiteRow(
            site=site,
            programs=placed[site],
            bytes_sent=sent[site],
            bytes_received=received[site],
        )


def _first_s(events: Sequence[Event], kind: type[Event]) -> float | None:
    return next((event.t_ns / 1e9 for event in events if isinstance(event, kind)), None)


def tabulate_traffic(history: History) -> Iterator[TrafficRow]:
    """One row per count and link that had carried something since the count before."""
    for event in history.all(LinksCounted):
        for link in event.links:
            yield TrafficRow(t_s=event.t_ns / 1e9, src=link.src, dst=link.dst, bytes=link.bytes)
