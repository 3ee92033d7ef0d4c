"""What faults cost a run, measured: the outcomes of the run without some of them (pure).

The first of these runs has no fault, the next one has the first fault, and so on. With the same
seed each is the next one until the fault that it leaves out. So the difference of two outcomes is
what that fault added to those before it. A fault that another entry undoes is one step with it: the
run with the first alone would be another one, in which it lasts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from trunkline.agents.events.causes import Asked, TimeUp
from trunkline.agents.events.fault_events import CommandTyped, FaultStarted
from trunkline.agents.events.run_events import Stopping
from trunkline.harness.config.units import count_of
from trunkline.harness.faults import fault_syntax
from trunkline.harness.faults.fault_types import Churn, Heal, Mend, Restart, Resume
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.record.history import History, Task
from trunkline.harness.report.calls.calls_in_faults import HARMLESS
from trunkline.harness.report.explanations.costs.site_times import SiteTimes
from trunkline.harness.report.faults.fault_table import find_timeline_start_ns
from trunkline.harness.report.manual_actions import list_typed
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.settings import Scenario

MEASURE = "trunkline explain RUN --measure"
"""What measures what faults cost a run."""

MOST = 8
"""Of more steps, only all of them together are measured."""

SAME_S = 0.001
"""A task is the same one in two runs, with the same members, if it began no later."""

FEWER_ROUNDS = 0.05
"""Runs in which a mean site did fewer rounds by this share did different work."""

SAME_NS = 1_000_000
"""A fault is that of an entry if it began no later after it: a real clock may be late."""

LEAST_S = 0.0005
"""A run that is longer by less is as long."""

UNDOING = (Heal, Mend, Resume, Restart)
"""The faults that end others."""

Step = tuple[Entry, ...]
"""Faults that are left out together, in order of time."""


@dataclass(frozen=True, slots=True)
class TaskRun:
    """How a task went in a run: when it began, how long it took, in seconds, and how it ended.

    Attributes:
        group: its members; the task of the same number may have others in another run.
        turn: of a task with members that need not be ready, such as a server, what it is, and how
            many of this kind its members had before: `push 3`; else None.
    """

    start_s: float
    duration_s: float
    outcome: str
    group: tuple[str, ...]
    turn: str | None = None


def list_runs(tasks: Iterable[Task]) -> dict[int, TaskRun]:
    """How the tasks of a run went that have ended, by their numbers."""
    turns, found = Counter[tuple[frozenset[str], str]](), dict[int, TaskRun]()
    for task in tasks:
        started, kind = task.started, _name_kind(task)
        which = frozenset(started.group), kind
        turn = f"{kind} {turns[which]}" if started.passive else None
        turns[which] += 1
        if task.end_ns is not None:
            times = started.t_ns / 1e9, (task.end_ns - started.t_ns) / 1e9
            found[task.number] = TaskRun(*times, task.outcome, tuple(started.group), turn)
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run with the first `entries` faults went.

    Attributes:
        ended_s: when its last task ended, in seconds since the start of the run.
        completed: how many tasks were completed.
        times: the mean times of a site.
        verdict: of the run.
        tasks: each task by its number.
    """

    entries: int
    ended_s: float
    completed: int
    times: SiteTimes
    verdict: str
    tasks: Mapping[int, TaskRun]

    @classmethod
    def of(cls, entries: int, data: RunData) -> Outcome:
        """The outcome of a run with so many faults. Raises ValueError if no task has ended."""
        tasks = data.history.tasks
        ends_ns = [task.end_ns for task in tasks if task.end_ns is not None]
        times = SiteTimes.of(data.tables["workers"])
        if not ends_ns or times is None:
            raise ValueError("no task of this run has ended")
        return cls(
            entries,
            max(ends_ns) / 1e9,
            sum(task.outcome == "completed" for task in tasks),
            replace(times, slowest=None),
            data.verdict.outcome,
            list_runs(tasks),
        )

    def find(self, number: int, own: TaskRun) -> tuple[int, TaskRun] | None:
        """The task of a number, or of one with a server the one at the same turn; None without."""
        if own.turn is not None:
            members = {*own.group}
            same = (
                (other, task)
                for other, task in self.tasks.items()
                if task.turn == own.turn and {*task.group} == members
            )
            return next(same, None)
        return (number, self.tasks[number]) if number in self.tasks else None


def _name_kind(task: Task) -> str:
    """What members that need not be ready, such as servers, do in a task."""
    passive, gives = {*task.started.passive}, {*task.plan.contributors}
    if passive.isdisjoint(gives):
        return "push"
    return "pull" if gives <= passive else "exchange"


@dataclass(frozen=True, slots=True)
class SiteCost:
    """How much longer a mean site was in tasks, waited for a group, and computed, in seconds.

    `rounds` is how many more rounds it did, and `is_other_work` tells whether that is a good share.
    """

    in_tasks_s: float = 0.0
    waiting_s: float = 0.0
    computing_s: float = 0.0
    rounds: float = 0.0
    is_other_work: bool = False


NOTHING = SiteCost()


@dataclass(frozen=True, slots=True)
class Longer:
    """By how much some faults made a run longer, and how many completed tasks they cost it.

    Attributes:
        faults: their numbers; several were measured together.
        seconds: None for runs that end by their time.
        of_site: how much longer a mean site was in tasks, waited and computed.
    """

    faults: tuple[int, ...]
    seconds: float | None
    tasks: int
    of_site: SiteCost = NOTHING

    @property
    def size(self) -> float:
        """What the worst one has most of: seconds, or tasks."""
        return float(self.tasks) if self.seconds is None else self.seconds


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcomes of a run with more and more of its faults, in words `steps`; the last has all.

    Attributes:
        by_time: whether the runs end by their time.
        real: whether their clock is the machine's, so that they differ beyond the faults.
        own: the tasks of the run itself; the last outcome is another one after faults by hand.
    """

    steps: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    numbers: tuple[tuple[int, ...], ...]
    by_time: bool = False
    real: bool = False
    own: Mapping[int, TaskRun] = field(default_factory=dict)

    @property
    def whole(self) -> Longer:
        """What all faults cost."""
        return self._compare((), self.outcomes[0], self.outcomes[-1])

    @property
    def parts(self) -> tuple[Longer, ...]:
        """What each step cost beyond those before it."""
        pairs = zip(self.numbers, pairwise(self.outcomes), strict=True)
        return tuple(self._compare(faults, *pair) for faults, pair in pairs)

    def _compare(self, faults: tuple[int, ...], before: Outcome, after: Outcome) -> Longer:
        seconds = None if self.by_time else after.ended_s - before.ended_s
        of_site = SiteCost(
            after.times.sync_s - before.times.sync_s,
            after.times.wait_s - before.times.wait_s,
            after.times.compute_s - before.times.compute_s,
            rounds := after.times.rounds - before.times.rounds,
            abs(rounds) > FEWER_ROUNDS * before.times.rounds,
        )
        return Longer(faults, seconds, before.completed - after.completed, of_site)

    def describe_end(self) -> str:
        """By how much faults made the run longer, or how many tasks they cost, in a sentence."""
        whole, first, last = self.whole, self.outcomes[0], self.outcomes[-1]
        tasks = f"{count_of(first.completed, 'task')} were completed instead of {last.completed}"
        if not whole.tasks:
            tasks = f"as many tasks were completed, {last.completed}"
        words = [] if whole.seconds is None else [_describe_earlier(whole.seconds)]
        words += [tasks] if whole.tasks or self.by_time else []
        how = "measured on this machine's clock, by one run each" if self.real else "measured"
        said = f"Without faults, {', and '.join(words)} ({how})."
        if whole.seconds is None or not whole.of_site.is_other_work:
            return said
        rounds = f"{first.times.rounds:.1f} rounds without faults, and {last.times.rounds:.1f} with"
        return f"{said} But a mean site did {rounds}: these times are of different work."

    def find_costs_s(self, number: int) -> dict[int, float]:
        """How much longer each fault made a task, in seconds, by the fault's number.

        That is known of a fault that was left out alone, and did not change when the task began,
        nor its members.
        """
        found: dict[int, float] = {}
        for faults, (before, after) in zip(
            self.numbers, pairwise(self.find_runs(number)), strict=True
        ):
            if len(faults) != 1 or before is None or after is None:
                continue
            one, other = before[1], after[1]
            is_same = abs(one.start_s - other.start_s) < SAME_S and one.group == other.group
            if is_same and one.outcome == other.outcome == "completed":
                found[faults[0]] = other.duration_s - one.duration_s
        return found

    def list_rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each outcome: its cells are those of `TITLES`."""
        costs = ["", *("" if p.seconds is None else f"{p.seconds:+.3f}" for p in self.parts)]
        for which, cost, each in zip(self._list_names(), costs, self.outcomes, strict=True):
            doubt = f" (verdict: {each.verdict})" if each.verdict != "pass" else ""
            times = each.times.sync_s, each.times.compute_s, each.times.wait_s
            ended = f"{each.ended_s:.3f}", cost
            done = str(each.completed), f"{each.times.rounds:.1f}"
            yield f"{which}{doubt}", *ended, *done, *(f"{s:.3f}" for s in times)

    def find_runs(self, number: int) -> list[tuple[int, TaskRun] | None]:
        """How a task of the run went in each outcome, and its number there; None without it."""
        return [each.find(number, self.own[number]) for each in self.outcomes]

    def list_task_rows(self, number: int) -> list[tuple[str, ...]]:
        """A row for each outcome on one task: its cells are those of `TASK_TITLES`.

        Faults at the end that changed nothing of it have no row.
        """
        own, rows = self.own[number], list[tuple[str, ...]]()
        for which, found in zip(self._list_names(), self.find_runs(number), strict=True):
            if found is None:
                rows.append((which, "", "", "", "no such task ended"))
                continue
            other, task = found
            ended_s = task.start_s + task.duration_s
            times = (f"{s:.3f}" for s in (task.start_s, task.duration_s, ended_s))
            how = task.outcome + f" (task {other})" * (other != number)
            if {*task.group} != {*own.group}:
                how = f"a task of {name_group(task.group)}"
            rows.append((which, *times, how))
        while len(rows) > 2 and rows[-1][1:] == rows[-2][1:]:
            rows.pop()
        return rows

    def _list_names(self) -> Iterator[str]:
        """The faults of each outcome, in words."""
        yield "no fault"
        for step in self.steps:
            yield step if step == ALL else f"also {step}"

    def summarize(self) -> dict[str, Any]:
        """What faults cost, as values: of all, of each, and the outcomes of the runs."""
        return {
            "whole": asdict(self.whole),
            "parts": [asdict(each) for each in self.parts],
            "steps": [*self.steps],
            "outcomes": [
                {name: value for name, value in asdict(each).items() if name != "tasks"}
                for each in self.outcomes
            ],
        }

    def to_json(self) -> dict[str, Any]:
        """All of it but the run's own tasks, for `from_json`."""
        return {name: value for name, value in asdict(self).items() if name != "own"}

    @classmethod
    def from_json(cls, found: Mapping[str, Any], tasks: Iterable[Task]) -> Measured:
        """Read what `to_json` wrote of a run with these tasks. Raises KeyError and TypeError."""
        return cls(
            tuple(found["steps"]),
            tuple(
                Outcome(**{**each, "times": SiteTimes(**each["times"]), "tasks": _read(each)})
                for each in found["outcomes"]
            ),
            tuple(tuple(each) for each in found["numbers"]),
            found["by_time"],
            found["real"],
            list_runs(tasks),
        )


NAMED = 6
"""The most members of a task that a table names."""


def name_group(group: Sequence[str]) -> str:
    """The members of a task; of many, the first ones."""
    names = [*group]
    if len(names) > NAMED:
        names[NAMED - 1 :] = [count_of(len(names) - NAMED + 1, "other site")]
    return ", ".join(names)


def _read(outcome: Mapping[str, Any]) -> dict[int, TaskRun]:
    """The tasks of an outcome as `to_json` wrote them."""
    tasks = outcome["tasks"].items()
    return {int(number): TaskRun(**{**t, "group": tuple(t["group"])}) for number, t in tasks}


TITLES = (
    "with",
    "last task ended (s)",
    "longer by (s)",
    "tasks completed",
    "rounds of a site",
    "a site in tasks (s)",
    "computing (s)",
    "waiting (s)",
)
"""The columns of `Measured.list_rows`; the last four are means of the sites."""

TASK_TITLES = "with", "began (s)", "took (s)", "ended (s)", "how"
"""The columns of `Measured.list_task_rows`."""

ALL = "all faults"
"""The step of a run with too many faults to measure each."""


def _describe_earlier(seconds: float) -> str:
    if abs(seconds) < LEAST_S:
        return "the last task ended at the same time"
    return f"the last task ended {abs(seconds):.3f} s {'earlier' if seconds > 0 else 'later'}"


def list_entries(scenario: Scenario, history: History) -> tuple[Entry, ...]:
    """The faults of a run that another run can have: of its timeline, and those that were typed."""
    begin_ns = find_timeline_start_ns(history) or 0
    typed = (
        Entry((event.t_ns - begin_ns) / 1e9, fault_syntax.parse(event.text, scenario.topology))
        for event in list_typed(history)
    )
    return tuple(sorted((*scenario.timeline, *typed), key=lambda entry: entry.at_s))


def list_problems(scenario: Scenario, history: History) -> Iterator[str]:
    """Why the costs of a run's faults cannot be measured."""
    if scenario.runs_programs:
        yield "this is a run of programs: expected one of agents, which have tasks"
        return
    if not scenario.timeline and not list_typed(history):
        yield "it had no faults: expected some that a run can leave out"
    if history.all(CommandTyped):
        yield "commands were typed at its sites, which no other run has at the same times"
    if history.interrupted:
        yield "it was interrupted: expected a run that ended as it should"
    if all(task.end_ns is None for task in history.tasks):
        yield "none of its tasks has ended: expected one"


def list_steps(entries: Sequence[Entry]) -> list[Step]:
    """The faults that are left out together: one each, or those up to one that undoes others."""
    steps: list[Step] = []
    for entry in entries:
        if isinstance(entry.fault, UNDOING):
            is_open = [any(_lasts(each) for each in step) for step in steps]
            first = is_open.index(True) if True in is_open else max(0, len(steps) - 1)
            steps[first:] = [(*(each for step in steps[first:] for each in step), entry)]
        else:
            steps.append((entry,))
    churns = sum(isinstance(entry.fault, Churn) for entry in entries)
    return steps if len(steps) <= MOST and churns < 2 else [tuple(entries)]


def _lasts(entry: Entry) -> bool:
    """Whether a fault lasts until another one undoes it."""
    return not isinstance(entry.fault, UNDOING) and getattr(entry.fault, "for_s", None) is None


def number_steps(steps: Sequence[Step], history: History) -> tuple[tuple[int, ...], ...]:
    """The numbers of the faults of each step in a run; those of a churn are of its step.

    What only undoes others, or makes them, has no costs of its own.
    """
    begin_ns = find_timeline_start_ns(history) or 0
    left = {event.fault: event for event in history.all(FaultStarted) if not event.at_end}
    numbers: list[list[int]] = []
    for step in steps:
        numbers.append([])
        for entry in step:
            at_ns, text = begin_ns + round(entry.at_s * 1e9), write(entry.fault)
            near = (e for e in left.values() if e.text == text and e.t_ns >= at_ns - SAME_NS)
            if (found := min(near, key=lambda e: e.t_ns, default=None)) is not None:
                del left[found.fault]
                numbers[-1] += [found.fault] * (found.verb not in HARMLESS)
    for place, step in enumerate(steps):
        if any(isinstance(entry.fault, Churn) for entry in step):
            numbers[place] += [event.fault for event in left.values() if not event.asked]
    return tuple(tuple(each) for each in numbers)


def describe_step(step: Step) -> str:
    """The faults of a step, in words."""
    return "; ".join(f"{write(entry.fault)} at {round(entry.at_s, 3):g} s" for entry in step)


def ends_by_time(history: History) -> bool:
    """Whether a run ended by its time, or by hand, however much it had done by then."""
    return any(isinstance(event.cause, TimeUp | Asked) for event in history.all(Stopping))
