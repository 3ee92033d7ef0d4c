"""How long steps of programs took, and how long programs took to begin (pure).

A step's time is from the end of the step before to its own end. A step ends with the last call that
the program ended in it; `tables/steps.csv` tells which steps there are. Programs without steps have
the times between the ends of their calls. The first one has none before it, so it does not count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from trunkline.harness.config.units import TIME_S, count_of, short
from trunkline.harness.record.run_folder import PLACES
from trunkline.workloads.program_roles import site_of

Rows = Sequence[Mapping[Any, Any]]

TINY_S = 2e-6
"""The sums of two rounded starts and durations that end together differ by less."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long steps took, or what passed between the ends of calls, in seconds."""

    times_s: tuple[float, ...]
    of_steps: bool

    @property
    def mean(self) -> str:
        """The mean time, with its unit."""
        return short(fmean(self.times_s), TIME_S)

    @property
    def spread(self) -> str:
        """The 95th percentile, the shortest time that 95 % do not exceed, and the longest."""
        most_s = float(np.percentile(self.times_s, 95, method="inverted_cdf"))
        longest_s = max(self.times_s)
        most = f"95th percentile {short(most_s, TIME_S)}"
        return most if longest_s <= most_s else f"{most}, longest {short(longest_s, TIME_S)}"


def find_pace(steps: Rows, calls: Rows) -> Pace | None:
    """The times of steps, or between calls if there are no steps; None without any."""
    of_steps, of_calls = tuple(_list_steps(steps, calls)), tuple(_list_calls(calls))
    return Pace(of_steps or of_calls, bool(of_steps)) if of_steps or of_calls else None


def describe_pace(steps: Rows, calls: Rows) -> Iterator[str]:
    """The mean and the 95th percentile of the times of steps, or between calls; none without."""
    if pace := find_pace(steps, calls):
        yield (
            f"{pace.mean} on average, {pace.spread} "
            f"({len(pace.times_s)} of {count_of(_count_steps(steps), 'step')}, each from the end "
            "of the one before to its own; first steps and those without calls do not count)"
            if pace.of_steps
            else f"{pace.mean} on average between the ends of two calls, {pace.spread}"
        )


def describe_start(calls: Rows, programs: Rows) -> Iterator[str]:
    """How long it took from the start of programs to their sites' first calls; none without."""
    started = defaultdict[str, list[float]](list)
    for row in programs:
        if _is_known(row["start_s"]):
            started[site_of(str(row["program"]))].append(_read(row, "start_s"))
    first = dict[str, float]()
    for row in calls:
        site = str(row["site"])
        first[site] = min(_read(row, "start_s"), first.get(site, float("inf")))
    took_s = [first[site] - min(started[site]) for site in first if started[site]]
    if took_s:
        yield (
            f"{short(fmean(took_s), TIME_S)} from the start of a program to its first call, on "
            f"average of {count_of(len(took_s), 'site')}"
        )


def _list_steps(steps: Rows, calls: Rows) -> Iterator[float]:
    """The times of steps in seconds."""
    ends = _list_ends(calls)
    rows = defaultdict[str, list[Mapping[Any, Any]]](list)
    for row in steps:
        if _is_known(row["step"]):
            rows[str(row["program"])].append(row)
    for own in rows.values():
        done = [end for row in own if (end := _find_end(row, ends)) is not None]
        yield from (after - before for before, after in pairwise(done))


def _count_steps(steps: Rows) -> int:
    """How many steps were reported."""
    return sum(_is_known(row["step"]) for row in steps)


def _find_end(row: Mapping[Any, Any], ends: Mapping[Any, Sequence[float]]) -> float | None:
    """When the last call ended in a step; None if none did."""
    start_s = _read(row, "start_s")
    process = int(float(row["process"])) if _is_known(row["process"]) else None
    times = ends.get((row["site"], process), ())
    place = bisect_left(times, start_s + _read(row, "duration_s") + TINY_S) - 1
    return times[place] if place >= 0 and times[place] > start_s else None


def _list_calls(calls: Rows) -> Iterator[float]:
    """The times between the ends of the calls of each process, in seconds."""
    for (_, process), times in _list_ends(calls).items():
        if process is not None:
            yield from (after - before for before, after in pairwise(times))


def _list_ends(calls: Rows) -> Mapping[tuple[str, int | None], Sequence[float]]:
    """When the calls of each process ended, in order; those of a site together for None."""
    ends = defaultdict[tuple[str, int | None], list[float]](list)
    for row in calls:
        if _is_known(row["duration_s"]):
            end_s = _read(row, "start_s") + _read(row, "duration_s")
            for process in (int(float(row["process"])), None):
                ends[str(row["site"]), process].append(end_s)
    return {key: sorted(times) for key, times in ends.items()}


def _read(row: Mapping[Any, Any], column: str) -> float:
    """A time in seconds, rounded as in the CSV: the terminal reads these, and the page no file."""
    return round(float(row[column]), PLACES)


def _is_known(value: Any) -> bool:
    return value not in ("", None) and value == value


def tell_pace(steps: Rows, calls: Rows, programs: Rows) -> Iterable[tuple[str, str]]:
    """The rows of a summary: a name and a text each."""
    yield from (("step time", text) for text in describe_pace(steps, calls))
    yield from (("start-up", text) for text in describe_start(calls, programs))
