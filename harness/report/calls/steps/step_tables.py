"""The table of the steps of programs, and a sentence on where the time of a run went (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pandas as pd

from trunkline.harness.config.units import join_words
from trunkline.harness.record.history import History
from trunkline.harness.record.step_times import list_step_times
from trunkline.harness.report.calls.calls_in_faults import LEAST_S, find_fault_times
from trunkline.harness.report.calls.made_up import measure_made_up_s
from trunkline.harness.report.tables.row import Row, column
from trunkline.harness.scenario.settings import Stop


class StepRow(Row, table="steps"):
    """One row per program and step: from one start of computing to the next.

    The time from a start of a program until its first step is a row without a number; a program
    that reports no computing has one such row, for its whole run. Processes of a program that
    compute or call at once have rows of their own. Only with timed calls.
    """

    site: str = column("the site")
    program: str = column(
        "the program, such as `n1.trainer`; `n1 (process 17)` if several of its processes compute "
        "or call at once"
    )
    process: int | None = column("the id of the process, as in tables/calls.csv; empty if unknown")
    step: int | None = column("the iteration; empty before the first one, or for a whole run")
    start_s: float = column("when it began")
    duration_s: float = column(
        "until the next row of the program began, or its last call ended; until the program ended "
        "if it never began a call in which others waited"
    )
    computing_s: float = column("computing")
    waiting_s: float = column(
        "in collective calls that another program had not begun yet, or never began"
    )
    moving_s: float = column(
        "in calls that all whose data they need had begun, without the time in held_s"
    )
    held_s: float = column(
        "in such calls that a fault made late, from when they took longer than the program's own "
        "calls of the same name and size that no fault touched (their median)"
    )
    stopped_s: float = column("paused by a fault, or ended and not started again yet")
    rest_s: float = column("everything else")
    waited_for: str = column(
        "the program that began last, or those that never began, for most of the waiting, such as "
        "`n2`, or another process of the same program, such as `n1 (process 17)`; empty for none"
    )


def tabulate_steps(history: History, programs: Iterable[str]) -> Iterator[StepRow]:
    """One row per program and step, by site."""
    programs = tuple(programs)
    late_ns = find_fault_times(history, programs).since_ns
    for step in list_step_times(history, programs, late_ns):
        most = max(step.waited_for, key=step.waited_for.__getitem__, default="")
        yield StepRow(
            site=step.site,
            program=step.who,
            process=step.process,
            step=step.number,
            start_s=step.start_ns / 1e9,
            duration_s=(step.end_ns - step.start_ns) / 1e9,
            computing_s=step.computing_ns / 1e9,
            waiting_s=step.waiting_ns / 1e9,
            moving_s=step.moving_ns / 1e9,
            held_s=step.held_ns / 1e9,
            stopped_s=step.stopped_ns / 1e9,
            rest_s=step.rest_ns / 1e9,
            waited_for=most,
        )


PARTS = ("computing_s", "waiting_s", "moving_s", "held_s", "stopped_s", "rest_s")
"""The columns that add up to a step's time."""


def sum_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """The sums of all rows by program, in the order of the table.

    `steps` is the number of steps, and `before_s` the time before the first one of each process; 0
    for a program that has no steps.
    """
    programs = steps.groupby("program", sort=False)
    sums = programs[["duration_s", *PARTS]].sum()
    sums.insert(0, "steps", programs["step"].count())
    before = steps[steps["step"].isna()].groupby("program")["duration_s"].sum()
    sums["before_s"] = before.reindex(sums.index, fill_value=0.0).where(sums["steps"] > 0, 0.0)
    return sums.reset_index()


NAMES = {
    "computing_s": "computing",
    "waiting_s": "waiting for others to begin a call",
    "moving_s": "moving bytes",
    "held_s": "held up by faults in calls",
    "stopped_s": "stopped",
    "rest_s": "neither computing nor in a call",
}
"""The parts in words."""

ENDING = ("kill", "leave", "restart")
"""The faults that end programs."""

LEAST_PERCENT = 0.5
"""A part that is a smaller share is not named."""


LONGER = 1.1
"""A step that takes so many times the median is longer than most."""

NAMED = 3
"""The most long steps that are named."""

LEAST_MADE_UP_S = 0.05
"""Less is not named."""

ERROR = " (in four measured runs this was wrong by 0.2 s on average, and by 0.4 s at most)"
"""How well it is known how much earlier a run would have ended: docs/programs.md has the runs."""

UNKNOWN = "moving bytes, or held up in calls that cannot be compared with others"
"""The name of this time if some calls during faults cannot be compared with others."""


def rank_parts(
    history: History, programs: Iterable[str], sums: pd.DataFrame
) -> list[tuple[float, float, str]]:
    """The parts of a program's mean time, the longest first: share in %, seconds, and in words.

    Parts that are a small share are left out.
    """
    names = dict(NAMES)
    if find_fault_times(history, programs).unknown:
        names |= {"moving_s": UNKNOWN, "held_s": "surely held up by faults in calls"}
    total_s, means = sums["duration_s"].mean(), sums[list(PARTS)].mean()
    if not total_s > 0:
        return []
    shares = [(100 * means[part] / total_s, part) for part in PARTS]
    return [
        (share, means[part], names[part])
        for share, part in sorted(shares, reverse=True)
        if share >= LEAST_PERCENT
    ]


def describe_means(history: History, programs: Iterable[str], sums: pd.DataFrame) -> Iterator[str]:
    """A sentence on where the time of a program went on average, the longest part first."""
    if parts := rank_parts(history, programs, sums):
        named = [f"{mean_s:.3f} s ({share:.0f} %) {name}" for share, mean_s, name in parts]
        total_s = sums["duration_s"].mean()
        calls_s = sums[["waiting_s", "moving_s", "held_s"]].sum(axis=1).mean()
        shares = [100 * part_s / total_s for part_s in (calls_s, sums["computing_s"].mean())]
        yield (
            f"A program ran for {total_s:.3f} s on average: {', '.join(named)}. So calls took "
            f"{shares[0]:.0f} % of its time, and computing {shares[1]:.0f} %."
        )


def describe_fault_time(
    history: History, programs: Iterable[str], sums: pd.DataFrame
) -> Iterator[str]:
    """A sentence on what all faults cost a program on average; none if they cost nothing."""
    times = find_fault_times(history, programs)
    lost_s, least = times.measure_s(len(sums)), "at least " if times.unknown else ""
    if lost_s > LEAST_PERCENT / 100 * sums["duration_s"].mean():
        held_s = sums["held_s"].mean()
        rest_s = lost_s - held_s
        rest = f" {held_s:.3f} s of this it was held up in calls, {rest_s:.3f} s it waited or was "
        yield (
            f"Faults cost a program {least}{lost_s:.3f} s on average: its calls took so much "
            "longer than others of the same name and size without a fault."
            f"{f'{rest}stopped.' if rest_s >= LEAST_S else ''}"
        )


def measure_delay_s(history: History, programs: Iterable[str], rows: int) -> tuple[float, float]:
    """How much longer faults made a run of so many programs, which wait for each other, in s.

    The second number is what programs made up for, which is not in it.
    """
    times = find_fault_times(history, programs)
    made_up_s = measure_made_up_s(history, times, rows)
    return max(0.0, times.measure_s(rows) - made_up_s), made_up_s


def describe_delay(
    history: History, programs: Iterable[str], sums: pd.DataFrame, stop: Stop
) -> Iterator[str]:
    """A sentence on how much longer faults made the run; none if they cost nothing."""
    times, rows = find_fault_times(history, programs), len(sums)
    if times.measure_s(rows) <= LEAST_PERCENT / 100 * sums["duration_s"].mean():
        return
    if stop.exit is None:
        yield "The run ended by its time, so faults did not make it longer."
        return
    least, error = ("at least", "") if times.unknown else ("about", ERROR)
    earlier_s, made_up_s = measure_delay_s(history, programs, rows)
    less = (
        f"; {_round(made_up_s)} of the cost of faults were made up for in calls that others had "
        "begun meanwhile"
    )
    killed = any(fault.started.verb in ENDING for fault in history.faults)
    more = " The time that a killed program was away, and its computing again, come on top."
    yield (
        f"Without faults the run would have ended {least} {_round(earlier_s)} earlier{error}, as "
        f"programs wait for each other in calls{less * (made_up_s >= LEAST_MADE_UP_S)}."
        f"{more * killed}"
    )


def _round(seconds: float) -> str:
    """A time that is not known exactly."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"


FindFault = Callable[[int, str], str]
"""The fault that held a program up most in the step of this number, in words; may be empty."""


def describe_longest(steps: pd.DataFrame, find_fault: FindFault | None = None) -> Iterator[str]:
    """A sentence on the steps that took longer than most, and what of it; none if none did.

    Each number is named once, where it took longest, with the part that is longest beyond the
    median of the program's steps, and the fault behind it.
    """
    numbered = steps.dropna(subset=["step"])
    least_s = LONGER * numbered["duration_s"].median()
    longest = numbered.nlargest(len(numbered), "duration_s").drop_duplicates("step").head(NAMED)
    told = []
    for row in longest[longest["duration_s"] > least_s].to_dict("records"):
        own = numbered[numbered["program"] == row["program"]]
        part = max(PARTS, key=lambda part: row[part] - own[part].median())
        why = ""
        if part == "held_s" and find_fault is not None:
            why = find_fault(int(row["step"]), row["program"])
        told.append(
            f"step {row['step']:.0f} of {row['program']} ({row['duration_s']:.3f} s, "
            f"{row[part]:.3f} s of it {NAMES[part]}{why})"
        )
    if told:
        yield f"Longest steps: {join_words(told)}."


def describe_before(sums: pd.DataFrame) -> Iterator[str]:
    """A sentence on the time before the first steps; none if there was none."""
    with_steps = sums[sums["steps"] > 0]
    if (with_steps["before_s"] > 0).any():
        mean_s = with_steps["before_s"].mean()
        yield f"{mean_s:.3f} s of a program's time, on average, passed before its first step."


def rank_stragglers(history: History, programs: Iterable[str]) -> list[tuple[str, float]]:
    """The programs and processes for which others waited, and how long together, longest first."""
    waited = Counter[str]()
    for step in list_step_times(history, programs):
        waited.update(step.waited_for)
    return [(who, time_ns / 1e9) for who, time_ns in waited.most_common() if who]
