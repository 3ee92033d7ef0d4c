"""The display of a run on a terminal: one line while it runs, one table when it is over."""

from __future__ import annotations

import contextlib
import csv
import errno
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Column, Table

from trunkline.harness.checks.verdict import Verdict
from trunkline.harness.config import units
from trunkline.harness.config.units import SIZE_BYTES, TIME_S, count_of, short
from trunkline.harness.live.live_state import Progress
from trunkline.harness.network.capture import FOLDER as CAPTURES
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.report.calls.calls_in_faults import HARMLESS
from trunkline.harness.report.calls.pace import tell_pace
from trunkline.harness.report.faults.fault_layout import LETTERS, shorten
from trunkline.harness.scenario.settings import Stop

Show = Callable[[float | None, str], None]
"""Shows how much is done (0 to 1, None if it is unknown) and what is going on, in a few words."""

PLAIN_PERIOD_S, PLAIN_PERIOD_SHARE = 3.0, 0.05
"""Least real time between two lines where there is no terminal: so much, and such a share of the
time so far, for a log that hours do not fill."""

SHOWN_FAULTS = 3
"""The faults that are listed."""

SHOWN_SITES = 8
"""The sites that are listed."""

SHOWN_CALLS = 4
"""The kinds of calls of programs that are listed."""

SLOW = 1.5
"""From which median of measured over expected on the summary names `trunkline explain`."""

MUCH_ABOVE = 100
"""From which median of task times over the bound without delays on the ratio says nothing."""

STYLES = {"pass": "green", "unknown": "yellow", "fail": "red", "prediction": "cyan"}


def fraction(progress: Progress, stop: Stop, workers: int) -> float | None:
    """How much of the run is done, 0 to 1: the share of the stop condition that is nearest.

    `workers` is the number of sites that do rounds, or of programs that the run waits for. None: it
    waits only for programs, and none of them has ended; nothing says when they will.
    """
    if stop.exit is not None and stop.time_s is None and not progress.ended:
        return None
    shares = [0.0]
    if stop.rounds is not None:
        shares.append(progress.rounds / (stop.rounds * workers))
    if stop.tasks is not None:
        shares.append((progress.tasks + progress.abandoned) / stop.tasks)
    if stop.time_s is not None:
        shares.append(progress.virtual_s / stop.time_s)
    if stop.exit is not None and progress.ended is not None:
        shares.append(progress.ended / workers)
    if stop.accuracy_percent is not None and progress.accuracy_percent is not None:
        shares.append(progress.accuracy_percent / stop.accuracy_percent)
    if stop.without_progress is not None:
        shares.append(progress.without / stop.without_progress)
    return min(1.0, max(shares))


def describe(progress: Progress, stop: Stop, workers: int) -> str:
    """Progress in words, each number with the stop condition that it runs towards."""
    if progress.message:
        return progress.message
    time_of = f" of {short(stop.time_s, TIME_S)}" if stop.time_s is not None else ""
    rounds_of = f" of {stop.rounds * workers} ({workers} sites)" if stop.rounds is not None else ""
    tasks_of = f" of {stop.tasks}" if stop.tasks is not None else ""
    parts = [f"{progress.virtual_s:.1f} s{time_of}"]
    if progress.ended is not None:  # programs may report rounds, tasks, or nothing
        ended_of = f" of {workers}" if stop.exit is not None else ""
        parts.append(f"programs ended {progress.ended}{ended_of}{_name_awaited(stop)}")
        parts.append(f"{short(progress.bytes_moved, SIZE_BYTES)} on the links")
    if progress.ended is None or progress.rounds:
        parts.append(f"rounds {progress.rounds}{rounds_of}")
    if progress.ended is None or progress.tasks:
        lost = f" ({progress.abandoned} abandoned)" if progress.abandoned else ""
        parts.append(f"tasks {progress.tasks + progress.abandoned}{tasks_of}{lost}")
    if progress.ended is None:
        parts.append(short(progress.bytes_moved, SIZE_BYTES))
    if progress.accuracy_percent is not None:
        goal = stop.accuracy_percent
        goal_of = f" of {short(goal, units.SHARE_PERCENT)}" if goal is not None else ""
        parts.append(f"accuracy {progress.accuracy_percent:.1f} %{goal_of}")
    if stop.without_progress is not None:
        parts.append(f"{progress.without} of {stop.without_progress} evaluations without progress")
    return ", ".join(parts)


def _name_awaited(stop: Stop) -> str:
    """The programs that the run waits for, unless it waits for all."""
    if not isinstance(stop.exit, tuple):
        return ""
    left = len(stop.exit) - SHOWN_SITES
    return f" ({', '.join(stop.exit[:SHOWN_SITES])}{f' and {left} more' if left > 0 else ''})"


def show_percent(share: float | None) -> str:
    """A share as four characters of text; dots if it is unknown."""
    return " ..." if share is None else f"{share:4.0%}"


@contextlib.contextmanager
def live(console: Console, clock: Callable[[], float] = time.monotonic) -> Iterator[Show]:
    """A bar that moves on a terminal; elsewhere a line now and then."""
    if not console.is_interactive:  # no terminal, or one that cannot move its cursor
        lines = _Lines(console, clock)
        yield lines.show
        lines.finish()
        return
    one_line = Column(no_wrap=True, overflow="ellipsis")
    text = TextColumn("{task.description}", table_column=one_line)
    columns = (BarColumn(bar_width=16), text)
    bars = Bars(*columns, console=console, transient=True)
    task = bars.add_task("", total=None)  # a bar that only moves, until the share is known

    def show(share: float | None, text: str) -> None:
        bars.start()  # not before: until then a program may ask something at the terminal
        total = None if share is None else 1.0
        percent = "..." if share is None else f"{100 * share:3.0f} %"
        bars.update(task, total=total, completed=share or 0.0, description=f"{percent} {text}")

    try:
        yield show
    finally:
        bars.stop()


def summary(run_dir: Path, verdict: Verdict) -> Table:
    """The results of a run, from its tables and its verdict."""
    rows = list(_summary(run_dir, verdict.took))
    rows.append(("verdict", f"[bold {STYLES[verdict.outcome]}]{verdict.outcome}[/]"))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, text)
    for problem in verdict.problems:
        table.add_row("", _escaped(problem))
    table.add_row("checks", _escaped(verdict.counts))
    for excuse in verdict.excuses:
        table.add_row("", _escaped(excuse))
    environment = RunFolder(run_dir).read_json("environment.json", missing={})
    for number, remark in enumerate((*verdict.remarks, *environment.get("remarks", ()))):
        table.add_row("" if number else "remarks", _escaped(remark))
    table.add_row("results", _escaped(str(run_dir)))
    if captured := len(list((run_dir / CAPTURES).glob("*.pcap"))):
        table.add_row("captures", _escaped(f"{run_dir / CAPTURES} ({count_of(captured, 'link')})"))
    if (run_dir / "report.html").exists():
        table.add_row("report", _escaped(str(run_dir / "report.html")))
    return table


def print_line(console: Console, text: str) -> None:
    """Print a line as it is. A full disk behind it is no reason to end a run."""
    try:
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


@dataclass(slots=True)
class _Lines:
    """A line now and then, and in any case the last one."""

    console: Console
    clock: Callable[[], float]
    begun_s: float = math.inf
    last_s: float = -math.inf
    last: str = ""
    last_text: str = ""
    shown: str = ""
    shown_text: str = ""

    def show(self, share: float | None, text: str) -> None:
        now_s = self.clock()
        self.begun_s = min(self.begun_s, now_s)
        self.last = f"{show_percent(share)} {text}"
        period_s = max(PLAIN_PERIOD_S, PLAIN_PERIOD_SHARE * (now_s - self.begun_s))
        self.last_text = text
        if now_s - self.last_s >= period_s and text != self.shown_text:
            self.last_s = now_s
            self._print()

    def finish(self) -> None:
        if self.last != self.shown:
            self._print()

    def _print(self) -> None:
        self.shown, self.shown_text = self.last, self.last_text
        print_line(self.console, self.last)


def _summary(run_dir: Path, took: str) -> Iterator[tuple[str, str]]:
    begun = _rows(run_dir / "tables" / "tasks.csv")
    tasks = [row for row in begun if row.get("warm_up") != "True"]
    done = [row for row in tasks if row["outcome"] == "completed"]
    others, first = len(tasks) - len(done), len(begun) - len(tasks)
    words = [f"{len(done)} completed"]
    words += [f"{others} not"] if others else []
    words += [f"after {first} of the warm-up"] if first else []
    programs = _rows(run_dir / "tables" / "programs.csv")
    if programs:
        exits = Counter(_describe_exit(row) for row in programs)
        words = [f"{count} {how}" for how, count in exits.items()]
        yield "programs", ", ".join([*words, *_describe_restarts(programs)])
    if calls := _rows(run_dir / "tables" / "calls.csv"):
        yield "calls", _describe_calls(calls)
    if steps := _rows(run_dir / "tables" / "steps.csv"):
        faults = _rows(run_dir / "tables" / "faults.csv")
        yield "time", _describe_steps(steps, _has_unlike(calls, faults))
        yield from tell_pace(steps, calls, programs)
    if begun or not programs:
        yield "tasks", ", ".join(words)
    if done:
        took_s = _numbers(done, "duration_s")
        spread = f"{short(min(took_s), TIME_S)} to {short(max(took_s), TIME_S)}"
        yield "task time", f"{short(fmean(took_s), TIME_S)} on average ({spread})"
        yield from _against(done, took, "estimate", "latency_s" in done[0])
        yield from _against(done, took, "bound", False)
    for run in _rows(run_dir / "tables" / "run.csv"):
        if run["by_hand"]:
            yield "by hand", _escaped(run["by_hand"])
    faults = _rows(run_dir / "tables" / "faults.csv")
    if begun_faults := [row for row in faults if row["start_s"] and row["by_hand"] != "True"]:
        yield "faults", _escaped(_describe_faults(begun_faults))
    workers = _rows(run_dir / "tables" / "workers.csv")
    if workers and not programs:
        yield "time", _describe_workers(workers) + ", the warm-up included" * bool(first)
    if alone := [row for row in workers if row.get("rounds_alone", "0") not in ("", "0")]:
        sites = ", ".join(f"{row['site']} {row['rounds_alone']}" for row in alone[:SHOWN_SITES])
        left = f" and {len(alone) - SHOWN_SITES} more sites" if len(alone) > SHOWN_SITES else ""
        yield "alone", f"rounds without a controller: {sites}{left}"
    accuracy = _rows(run_dir / "tables" / "accuracy.csv")
    if accuracy:
        last, runs = accuracy[-1], _rows(run_dir / "tables" / "run.csv")
        target_s = runs[0]["target_s"] if runs else ""
        after = short(float(last["t_s"]), TIME_S)
        held = f"; the target held from {short(float(target_s), TIME_S)} on" if target_s else ""
        yield "accuracy", f"{float(last['accuracy_percent']):.1f} % after {after}{held}"


def _has_unlike(calls: Sequence[Mapping[str, str]], faults: Sequence[Mapping[str, str]]) -> bool:
    """Whether a fault touched calls that none can be compared with: completed, alike, untouched."""
    spans = [
        (float(row["start_s"]), float(row["end_s"] or math.inf))
        for row in faults
        if row["start_s"] and row["verb"] not in HARMLESS
    ]
    touched, usual = set[tuple[str, str]](), set[tuple[str, str]]()
    for row in calls:
        start_s, like = float(row["start_s"]), (row["call"], row["bytes"])
        end_s = start_s + float(row["duration_s"]) if row["duration_s"] else math.inf
        if any(start_s < until_s and from_s < end_s for from_s, until_s in spans):
            touched.add(like)
        elif row["outcome"] == "completed":
            usual.add(like)
    return not touched <= usual


def _describe_steps(rows: Sequence[Mapping[str, str]], is_unknown: bool) -> str:
    """What a program with timed calls did on average.

    Faults may have held up some calls that cannot be compared with others (`is_unknown`).
    """
    sites = len({row["site"] for row in rows})
    programs = {row["program"] for row in rows}
    names = {"computing_s": "computing", "waiting_s": "waiting for the last",
             "moving_s": "moving bytes or perhaps held up" if is_unknown else "moving bytes",
             "held_s": "surely held up by faults" if is_unknown else "held up by faults",
             "stopped_s": "stopped", "rest_s": "the rest"}  # fmt: skip
    means_s = {column: sum(_numbers(rows, column)) / len(programs) for column in names}
    parts = (
        f"{short(mean_s, TIME_S)} {names[column]}"
        for column, mean_s in means_s.items()
        if mean_s or column not in ("held_s", "stopped_s")
    )
    whose = count_of(sites, "site")
    if len(programs) > sites:
        several = any("(process " in name for name in programs)
        whose = f"{len(programs)} {'processes' if several else 'programs'} at {whose}"
    return f"{', '.join(parts)}, on average of {whose}"


def _describe_workers(rows: Sequence[Mapping[str, str]]) -> str:
    """What a worker did on average; a server does none of this."""
    names = {"compute_s": "computing", "wait_s": "waiting for a group", "sync_s": "in tasks"}
    at_work = [row for row in rows if any(float(row[column] or 0) for column in names)]
    rows = at_work or rows
    parts = (
        f"{short(fmean(_numbers(rows, column)), TIME_S)} {name}" for column, name in names.items()
    )
    return f"{', '.join(parts)}, on average of {count_of(len(rows), 'site')}"


def _describe_faults(faults: Sequence[Mapping[str, str]]) -> str:
    """Faults from their rows of the table of faults, with their times by both clocks."""
    words = [
        f"{shorten(row['text'], LETTERS)} {_describe_time(row)}" for row in faults[:SHOWN_FAULTS]
    ]
    left = len(faults) - len(words)
    return "; ".join(words + [f"{left} more"] * bool(left))


def _describe_time(row: Mapping[str, str]) -> str:
    """When a fault began, or was to begin, by the timeline's clock and by that of the run."""
    at, start = (short(float(row[of]), TIME_S) if row[of] else "" for of in ("at_s", "start_s"))
    both = at and start and at != start
    return f"at {at} ({start} of the run)" if both else f"at {at or start}"


def _describe_exit(row: Mapping[str, str]) -> str:
    """How a program ended, from its row of the table of programs."""
    if row["processes"] == "0":
        return "never started"
    if not row["end_s"]:
        return "did not end"
    if row["asked"] == "True":
        return "told to end"
    return (
        f"ended by signal {row['signal']}"
        if row["signal"]
        else f"with exit code {row['exit_code']}"
    )


def _describe_restarts(programs: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Which programs had several processes, and how many."""
    again = [row for row in programs if int(row["processes"]) > 1]
    named = [f"{row['program']} ({row['processes']} processes)" for row in again[:SHOWN_FAULTS]]
    if again:
        left = len(again) - len(named)
        yield "started again: " + ", ".join(named + [f"{left} more"] * bool(left))
    if given_up := [row["program"] for row in programs if row.get("given_up") == "True"]:
        left = len(given_up) - SHOWN_FAULTS
        named = given_up[:SHOWN_FAULTS] + [f"{left} more"] * (left > 0)
        yield f"given up after all restarts: {', '.join(named)}"


def _describe_calls(calls: Sequence[Mapping[str, str]]) -> str:
    """How many calls of each kind programs made, and how long they took on average."""
    shown = Counter(row["call"] for row in calls).most_common(SHOWN_CALLS)
    words = []
    for kind, count in shown:
        took_s = [
            float(row["duration_s"]) for row in calls if row["call"] == kind and row["duration_s"]
        ]
        mean = f" ({short(fmean(took_s), TIME_S)} on average)" if took_s else ""
        words.append(f"{count} {kind}{mean}")
    left = len(calls) - sum(count for _, count in shown)
    return ", ".join(words + [f"{left} others"] * bool(left))


def _against(
    done: Sequence[Mapping[str, str]], took: str, what: str, with_latency: bool
) -> Iterator[tuple[str, str]]:
    """How the task times, which were `measured` or not, compare with a forecast, task by task."""
    done = [row for row in done if row[f"{what}_s"]]  # programs may have none
    if not done:
        return
    forecast_s = _numbers(done, f"{what}_s")
    note = "" if what == "estimate" else ", without delays"
    if with_latency:
        latency_s = _numbers(done, "latency_s")
        forecast_s = [a + b for a, b in zip(forecast_s, latency_s, strict=True)]
        note = f", {short(fmean(latency_s), TIME_S)} of it latency"
        what = "expected"
    times_s = _numbers(done, "duration_s")
    ratios = [time_s / told for time_s, told in zip(times_s, forecast_s, strict=True) if told > 0]
    text = f"{short(fmean(forecast_s), TIME_S)} on average{note}"
    if what == "bound" and ratios and median(ratios) > MUCH_ABOVE:
        text += f"; tasks took over {MUCH_ABOVE} times as long"
    elif ratios:
        text += f"; {took} / {what}: median {median(ratios):.2f}, mean {fmean(ratios):.2f}"
        if with_latency and median(ratios) >= SLOW and took == "measured":
            text += "; see: trunkline explain"
    yield what, text


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():  # the log was not readable, and the verdict says so
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _numbers(rows: Sequence[Mapping[str, str]], column: str) -> list[float]:
    return [float(row[column]) for row in rows]


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
