"""What the faults of a run cost it, measured: the run again, without some of them.

The first of these runs has no entry of the timeline, the next one has the first entry, and so on.
With the same seed they are the run itself until the first entry that they leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.table import Table

from trunkline.agents.events.fault_events import FaultStarted
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.record.history import History
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.costs.shorter_run import list_ends
from trunkline.harness.runs import runner
from trunkline.harness.scenario.settings import Scenario

FOLDER = "without_faults"
"""The folder in that of a run which has the runs without some of its faults."""

MOST = 8
"""Of a timeline with more entries, only all of them together are measured."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went: when its last task ended, since the first site was ready, and how many did.

    Attributes:
        entries: how many entries of the timeline the run had.
        tasks: how many tasks were completed.
        verdict: of the run; empty for the one that was there before.
    """

    entries: int
    ended_s: float
    tasks: int
    verdict: str = ""

    @classmethod
    def of(cls, entries: int, history: History, verdict: str = "") -> Outcome:
        """The outcome of a run with so many entries. Raises ValueError if no task has ended."""
        if not (ends_s := list_ends(history)):
            raise ValueError("no task has ended")
        done = sum(task.outcome == "completed" for task in history.tasks)
        return cls(entries, ends_s[-1], done, verdict)


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcomes of a run with more and more of its timeline; the last one is the run's own."""

    timeline: tuple[Entry, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def longer_s(self) -> float:
        """By how much all faults made the run longer, in seconds."""
        return self.outcomes[-1].ended_s - self.outcomes[0].ended_s

    @property
    def parts(self) -> Iterator[tuple[tuple[Entry, ...], Outcome, float]]:
        """The entries that each outcome has beyond the one before, and what they cost in s."""
        for before, after in pairwise(self.outcomes):
            added = self.timeline[before.entries : after.entries]
            yield added, after, after.ended_s - before.ended_s


def list_problems(scenario: Scenario, history: History) -> Iterator[str]:
    """Why nothing can be measured."""
    if scenario.runs_programs:
        yield "this is a run of programs: expected one of agents, which have tasks"
    if not scenario.timeline:
        yield "the scenario has no timeline: expected faults that a run can leave out"
    if any(event.asked for event in history.all(FaultStarted)):
        yield "faults were typed during this run, which no other run has at the same times"


def measure(
    run_dir: Path, scenario: Scenario, history: History, on_run: Callable[[str], None]
) -> Measured:
    """Carry out the run again without its timeline, with its first entry, and so on.

    `on_run` hears what runs next. Raises what `runner.run` raises, and ValueError if a run has no
    task that ended.
    """
    timeline = tuple(sorted(scenario.timeline, key=lambda entry: entry.at_s))
    counts = range(len(timeline)) if len(timeline) <= MOST else (0,)
    plain = replace(scenario, outputs=replace(scenario.outputs, plots=False))
    outcomes = []
    for place, count in enumerate(counts):
        which = describe_entries(timeline[:count]) if count else "no fault"
        on_run(f"run {place + 1} of {len(counts)}: with {which}")
        changed = replace(plain, timeline=timeline[:count])
        done = runner.run(changed, run_dir / "resolved.yaml", run_dir / FOLDER, lambda _: None)
        _, found = outputs.read_history(done.run_dir)
        outcomes.append(Outcome.of(count, found, done.verdict.outcome))
    return Measured(timeline, (*outcomes, Outcome.of(len(timeline), history)))


def describe_entries(entries: Sequence[Entry]) -> str:
    """Some entries of a timeline, in words."""
    return "; ".join(f"{write(entry.fault)} at {entry.at_s:g} s" for entry in entries)


def describe(measured: Measured) -> Iterator[str | Table]:
    """By how much the faults made the run longer, in a sentence and a table."""
    first, last = measured.outcomes[0], measured.outcomes[-1]
    how = f"{abs(measured.longer_s):.3f} s {'earlier' if measured.longer_s >= 0 else 'later'}"
    yield (
        f"Without faults, the last task ended {how}, at {first.ended_s:.3f} instead of "
        f"{last.ended_s:.3f} s after the first site was ready."
    )
    table = Table("with", "last task ended (s)", "longer by (s)", "tasks completed", box=None)
    table.add_row(f"no fault{_doubt(first)}", f"{first.ended_s:.3f}", "", str(first.tasks))
    for added, after, longer_s in measured.parts:
        words = f"also {describe_entries(added)}{_doubt(after)}"
        cells = f"{after.ended_s:.3f}", f"{longer_s:+.3f}", str(after.tasks)
        table.add_row(words, *cells)
    yield table


def _doubt(outcome: Outcome) -> str:
    """The verdict of a run that did not pass, in brackets."""
    return f" (verdict: {outcome.verdict})" if outcome.verdict not in ("", "pass") else ""


def to_json(measured: Measured) -> dict[str, Any]:
    """The same as values."""
    return {
        "longer_s": measured.longer_s,
        "outcomes": [asdict(each) for each in measured.outcomes],
        "entries": [describe_entries((entry,)) for entry in measured.timeline],
    }
