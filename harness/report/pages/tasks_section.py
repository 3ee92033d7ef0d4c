"""The section on task times: measured, estimated by the fluid model, lower bound (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trunkline.agents.wire.agent_settings import TASKS_PER_CONTROLLER
from trunkline.harness.config.units import count_of
from trunkline.harness.record.history import Disturbance
from trunkline.harness.record.warm_up import select_counted
from trunkline.harness.report.faults.fault_layout import find_rows_during
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import NARROW_LETTER, WIDTH, Frame, Scale
from trunkline.harness.report.pages.fault_strip import Numbers
from trunkline.harness.report.pages.markup import Child, Html, make_table, tag

SINGLE = 300
"""Up to this number of tasks, each has its own marks; more are drawn in groups of neighbours."""

ROWS = 200
"""The number of tasks that the table shows; the file has all."""

TOLERANCE = 0.15
"""The relative difference between measured and expected time that needs no explanation."""

LABELLED = 12
"""Up to this number of tasks without a result, the picture has their numbers."""

ORDER = "number of the task, in order of start"

ABOVE = "; its number above, as in the table of faults"
"""What the legend says of bands with the numbers of faults."""

HEADROOM = 1.12
"""The least of the axis over the times of tasks whose numbers stand above their marks."""


def draw_times(tasks: pd.DataFrame, took: str, faults: Sequence[Disturbance] = ()) -> Html:
    """Draw times, estimates and bounds by task, and below times over expected ones.

    `took` says where the times come from: `measured` or `predicted`. Tasks that ran during a fault
    have a band, and tasks of the warm-up another background.
    """
    expected = tasks["estimate_s"] + tasks["latency_s"]
    completed = (tasks["outcome"] == "completed").to_numpy()
    known = pd.concat([tasks["duration_s"], expected, tasks["bound_s"]])
    x = Scale(-0.5, max(len(tasks) - 0.5, 0.5), 64, WIDTH - 8)
    numbers = Numbers.of(faults, tasks, x)
    above = numbers.height
    named_s = tasks["duration_s"].where(~completed).dropna() * HEADROOM
    upper = Frame(x, charts.fit_scale([*known.dropna(), *named_s], 250 + above, 24 + above))
    many = len(tasks) > SINGLE
    draw = _draw_grouped if many else _draw_single
    ratio = (tasks["duration_s"] / expected).where(completed)
    ratios = ratio.notna().any()
    names = tasks["task"].map(str).tolist()
    rows = sorted({row for fault in faults for row in find_rows_during(fault, tasks)})
    x_label = "" if ratios else ORDER
    failed = list(_name_failed(tasks, expected, completed, upper))
    cold = np.flatnonzero(tasks["warm_up"]).tolist()
    parts = [
        _draw_bands(rows, upper),
        _draw_bands(cold, upper, "fill-warm-up") if cold else None,
        upper.draw_axes(x_label, "task time (s)", whole_x=True, x_names=names, above=above),
        numbers.draw(24 + above),
        draw(tasks, expected, completed, upper),
        failed,
        _draw_ratios(ratio, x, 300 + above, many, took, names, (cold, rows)) if ratios else None,
    ]
    words = summarize(tasks, took)
    label = (
        f"{took.capitalize()}, estimated and least possible times of {len(tasks)} tasks. {words}"
    )
    if many:
        size = -(-len(tasks) // SINGLE)
        words += f" Lines are medians of {size} consecutive tasks, areas their range."
    words += numbers.describe()
    if (tasks["task"] >= TASKS_PER_CONTROLLER).any():
        words += f" Numbers from {TASKS_PER_CONTROLLER} are those of the backup controller's tasks."
    picture = charts.draw_picture((462 if ratios else 296) + above, label, *parts, fits=True)
    bands = "during a fault" * bool(rows) + ABOVE * bool(numbers.shown)
    lost = "abandoned or unfinished" * (not completed.all())
    lost += ", with the task's number" * bool(failed)
    legend = _write_legend(took, many, bool(expected.notna().any()), lost, bands, bool(cold))
    return charts.make_figure(picture, words, legend)


def _write_legend(
    took: str, many: bool, estimated: bool, lost: str, bands: str, warm_up: bool
) -> Html:
    """What marks mean; `lost` are words on tasks without a result, `bands` on those of faults."""
    entries = [("stroke-blue", took)]
    entries += [("stroke-orange", "expected")] * estimated
    entries += [("stroke-grey", "lower bound: no plan could be faster")]
    entries += [("stroke-fault", lost)] * bool(lost)
    entries += [("fill-band", bands)] * bool(bands)
    entries += [("fill-warm-up", charts.WARM_UP)] * warm_up
    lines = {"stroke-orange", "stroke-grey", *(["stroke-blue"] if many else [])}
    return charts.make_legend(entries, "dot", lines, bars={"fill-band", "fill-warm-up"})


def summarize(tasks: pd.DataFrame, took: str) -> str:
    """Compare times with expected ones in words, without the tasks of the warm-up."""
    counted, done = select_counted(tasks), select_counted(tasks, "completed")
    first = len(tasks) - len(counted)
    if first and not len(counted):
        return f"No task counts: the run ended in its warm-up, in which {first} began."
    left_out = f" The numbers leave out {_count_first(first)}." if first else ""
    ratio = (done["duration_s"] / (done["estimate_s"] + done["latency_s"])).dropna()
    if not len(ratio):
        return f"{len(done)} of {len(counted)} tasks were completed.{left_out}"
    inside = int(((ratio - 1).abs() <= TOLERANCE).sum())
    return (
        f"{took.capitalize()} over expected (estimate plus latency): median {ratio.median():.3f}; "
        f"{inside} of {len(ratio)} completed tasks within "
        f"±{TOLERANCE * 100:.0f}\N{NO-BREAK SPACE}%.{left_out}"
    )


def _count_first(tasks: int) -> str:
    return f"the {count_of(tasks, 'task')} of the warm-up" if tasks > 1 else "the warm-up's task"


def list_tasks(tasks: pd.DataFrame) -> list[Child]:
    """A table of the first tasks, and a note if there are more; those of a warm-up are marked."""
    heads = ["task", "group", "from (s)", "took (s)", "estimate (s)", "latency (s)", "bound (s)",
             "sent (MB)", "outcome"]  # fmt: skip
    has_warm_up = bool(tasks["warm_up"].any())
    heads += ["warm-up"] * has_warm_up
    columns = ("start_s", "duration_s", "estimate_s", "latency_s", "bound_s")
    rows = [
        (
            str(row["task"]),
            charts.truncate(str(row["group"]), 260),
            *(charts.format_known(row[column], ".3f") for column in columns),
            "" if pd.isna(row["bytes_sent"]) else f"{row['bytes_sent'] / 1e6:.2f}",
            str(row["outcome"]),
            *(["yes" if row["warm_up"] else ""] * has_warm_up),
        )
        for row in tasks[:ROWS].to_dict("records")
    ]
    made: list[Child] = [make_table(heads, rows, "tasks", (0, 2, 3, 4, 5, 6, 7))]
    if len(tasks) > ROWS:
        made.append(tag("p", f"The first {ROWS} of {len(tasks)}; tables/tasks.csv has all."))
    return made


def _draw_bands(rows: Sequence[int], frame: Frame, class_: str = "fill-band") -> Html:
    """Draw a band behind these tasks, by default that of faults."""
    spans = charts.merge(((frame.x(row - 0.5), frame.x(row + 0.5)) for row in rows), 0.01, 0.0)
    return charts.draw_bands(spans, frame.y.end, frame.y.start, class_)


def _name_failed(
    tasks: pd.DataFrame, expected: pd.Series[float], completed: NDArray[np.bool_], frame: Frame
) -> Iterator[Html]:
    """Write the numbers of tasks without a result above or below their dots; of many nothing."""
    durations_s = tasks["duration_s"].to_numpy()
    failed = np.flatnonzero(~completed & np.isfinite(durations_s)).tolist()
    others = [*_place(expected, frame), *_place(tasks["duration_s"], frame)]
    for row in failed if len(failed) <= LABELLED else ():
        text, x, y = str(tasks["task"].iloc[row]), frame.x(row), frame.y(durations_s[row])
        near = [at - y for left, at in others if abs(left - x) < NARROW_LETTER * len(text) / 2 + 6]
        above, below = (sum(12 < sign * each < 36 for each in near) for sign in (-1, 1))
        under = below < above and y + 36 < frame.y.start
        class_ = "tick over under" if under else "tick over"
        yield tag("text", text, x=x, y=y + (16 if under else -8), class_=class_)


def _draw_single(
    tasks: pd.DataFrame, expected: pd.Series[float], completed: NDArray[np.bool_], frame: Frame
) -> list[Html]:
    """Draw a mark per task and value, and a line from the bound to the measured time."""
    stems = "".join(
        f"M{frame.x(row):.2f} {frame.y(low):.2f}V{frame.y(high):.2f}"
        for row, (low, high) in enumerate(zip(tasks["bound_s"], tasks["duration_s"], strict=True))
        if np.isfinite(low) and np.isfinite(high)
    )
    half = min(5.0, (frame.x(1) - frame.x(0)) * 0.4)

    def dashes(values: pd.Series[float], class_: str) -> Html:
        places = _place(values, frame)
        path = "".join(f"M{x - half:.2f} {y:.2f}h{2 * half:.2f}" for x, y in places)
        return tag("path", d=path, class_=class_)

    measured = tasks["duration_s"]
    size = charts.choose_size(frame.x(1) - frame.x(0))
    return [
        tag("path", d=stems, class_="stem"),
        dashes(tasks["bound_s"], "dash stroke-grey"),
        dashes(expected, "dash stroke-orange"),
        charts.draw_dots(_place(measured.where(completed), frame), "stroke-blue", size),
        charts.draw_dots(_place(measured.where(~completed), frame), "stroke-fault", size),
    ]


def _draw_grouped(
    tasks: pd.DataFrame, expected: pd.Series[float], completed: NDArray[np.bool_], frame: Frame
) -> list[Html]:
    """Draw lines of medians, and the range of measured times as an area."""
    size = -(-len(tasks) // SINGLE)
    groups = np.arange(len(tasks)) // size
    measured = tasks["duration_s"].where(completed)

    def medians(values: pd.Series[float], class_: str) -> Html:
        found = values.groupby(groups).median()
        return charts.draw_line(_place(found, frame, size), class_)

    width = frame.x(size) - frame.x(0)
    lows = measured.groupby(groups).min()
    highs = measured.groupby(groups).max()
    areas = (
        (x - width / 2, top, width, max(0.5, bottom - top))
        for (x, top), (_, bottom) in zip(
            _place(highs, frame, size), _place(lows, frame, size), strict=True
        )
    )
    late = tasks["duration_s"].where(~completed)
    return [
        charts.draw_bars(areas, "fill-range"),
        medians(tasks["bound_s"], "line stroke-grey"),
        medians(expected, "line stroke-orange"),
        medians(measured, "line stroke-blue"),
        charts.draw_dots(_place(late, frame), "small stroke-fault"),
    ]


def _draw_ratios(
    ratio: pd.Series[float],
    x: Scale,
    top: float,
    many: bool,
    took: str,
    names: Sequence[str],
    behind: tuple[Sequence[int], Sequence[int]],
) -> Html:
    """Draw times over expected ones, and the band of small differences.

    `behind` are the rows of the warm-up, and of faults.
    """
    known = ratio.dropna()
    low, high = float(known.min()), float(known.max())
    log = high > 3 * low
    y = Scale(
        min(low, 1 - TOLERANCE) * 0.95,
        max(high, 1 + TOLERANCE) * (1.1 if log else 1.03),
        top + 120,
        top,
        log,
    )
    frame = Frame(x, y)
    band = (x.start, y(1 + TOLERANCE), x.end - x.start, y(1 - TOLERANCE) - y(1 + TOLERANCE))
    return tag(
        "g",
        _draw_bands(behind[1], frame),
        _draw_bands(behind[0], frame, "fill-warm-up") if behind[0] else None,
        charts.draw_bars([band], "fill-wait"),
        frame.draw_axes(ORDER, f"{took} / expected", whole_x=True, x_names=names),
        tag("path", d=f"M{x.start:.2f} {y(1):.2f}H{x.end:.2f}", class_="line stroke-grey"),
        charts.draw_dots(_place(ratio, frame), "stroke-blue", charts.choose_size(x(1) - x(0))),
    )


def _place(values: pd.Series[float], frame: Frame, of: int = 1) -> Iterator[tuple[float, float]]:
    """The coordinates of known values; each value stands for `of` consecutive tasks."""
    for number, value in enumerate(values):
        if np.isfinite(value):
            yield frame.x((number + 0.5) * of - 0.5), frame.y(value)
