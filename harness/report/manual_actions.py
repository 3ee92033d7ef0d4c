"""How a run ended, and what a user did to it while it ran, in words (pure).

A comparison must show both: a run that was cut short, or that had an outage beyond its scenario, is
not comparable.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from trunkline.agents.events.causes import Asked, Broken
from trunkline.agents.events.fault_events import CommandTyped, FaultStarted
from trunkline.agents.events.run_events import RunFinished, Stopping
from trunkline.harness.record.history import History
from trunkline.harness.report.faults.fault_table import find_timeline_start_ns

LETTERS = 200
"""The longest text of one action or reason."""

SHOWN = 5
"""The most actions that are described; the rest are counted."""


def describe_end(history: History) -> str:
    """Why the run ended, as its log says."""
    finished = history.all(RunFinished)
    if not finished:
        return f"the log breaks off at {_format_s(history.end_ns)}"
    end = finished[-1]
    match end.cause:
        case None:
            return "no reason is given"
        case Broken(failures=(), interrupted=True):
            return f"interrupted at {_format_s(end.t_ns)}"
    return textwrap.shorten(str(end.cause), LETTERS, placeholder="…")


def list_actions(history: History) -> tuple[str, ...]:
    """What a user did to the run, in order of time; ending it is the last.

    Times are those of the prompt and of the timeline, if their clock has begun.
    """
    begin_ns = find_timeline_start_ns(history) or 0
    deeds, end_ns = [*_list_deeds(history)], find_end_ns(history)
    deeds += [] if end_ns is None else [(end_ns, "run ended")]
    return tuple(f"{text} at {_format_s(t_ns - begin_ns)}" for t_ns, text in deeds)


def describe_actions(history: History) -> str:
    """`list_actions` in one line of bounded length; empty if there were none."""
    every = list(list_actions(history))
    if len(every) > SHOWN:
        every[SHOWN - 1 : -1] = [f"{len(every) - SHOWN} more"]
    begin_ns = find_timeline_start_ns(history)
    later = f" ({_format_s(begin_ns)} later in tables)" if every and begin_ns else ""
    return "; ".join(every) + later


def describe_run(history: History) -> str:
    """How the run ended and what a user did to it, in one line; empty for an empty log."""
    hand = f"; by hand: {describe_actions(history)}" if list_actions(history) else ""
    return f"{describe_end(history)}{hand}" if history.events else ""


def list_typed(history: History) -> list[FaultStarted]:
    """The faults that a user has typed, without the heal before an end by hand."""
    return [fault for fault in history.all(FaultStarted) if fault.asked and not fault.at_end]


def _list_deeds(history: History) -> Iterator[tuple[int, str]]:
    """Every action but the end."""
    deeds = [(fault.t_ns, fault.text) for fault in list_typed(history)]
    deeds += [(command.t_ns, command.line) for command in history.all(CommandTyped)]
    for t_ns, text in sorted(deeds):
        yield t_ns, textwrap.shorten(text, LETTERS, placeholder="…")


def find_end_ns(history: History) -> int | None:
    """When a user ended the run; None if no user did."""
    asked = (event.t_ns for event in history.all(Stopping) if event.cause == Asked())
    finished = history.all(RunFinished)
    cut = (event.t_ns for event in finished if history.interrupted)
    return min((*asked, *cut), default=None)


def _format_s(time_ns: int) -> str:
    return f"{time_ns / 1e9:.3f} s"
