"""A run as curves over virtual time, for TensorBoard.

A curve is named after the table and the column from which it is, and after the site, link or call:
`accuracy/loss`, `links/mbps/n1 -> n2`. The wall time of each point is the run's clock in seconds
and its step the same in microseconds, so that TensorBoard shows virtual time on both axes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from trunkline.harness.export.rates_over_time import find_edges_ns, tabulate_link_rates
from trunkline.harness.export.run_files import RunFiles
from trunkline.harness.report.calls.steps.step_tables import PARTS

MAX_LINKS = 40
"""The number of links, those that carried most, that have a curve."""

FILE = "events.out.tfevents.0.trunkline"
"""The name of the file of curves: TensorBoard reads files whose names have `tfevents`."""


class Point(NamedTuple):
    """A value of a curve at a time in seconds."""

    t_s: float
    curve: str
    value: float


def list_points(run: RunFiles) -> list[Point]:
    """The points of all curves, in order of time."""
    tables = run.tables
    accuracy, tasks = tables["accuracy"], tables["tasks"]
    found: list[Point] = []
    for column in ("accuracy_percent", "loss"):
        found += _draw("accuracy", column, accuracy["t_s"], accuracy[column])
    for column in ("duration_s", "estimate_s"):
        found += _draw("tasks", column, tasks["end_s"], tasks[column])
    for column in ("duration_s", *PARTS) if "steps" in tables else ():
        steps = tables["steps"]
        found += _draw("steps", column, steps["start_s"], steps[column], steps["program"])
    if "calls" in tables:
        calls = tables["calls"]
        by = calls["call"] + "/" + calls["site"]
        found += _draw("calls", "duration_s", calls["start_s"], calls["duration_s"], by)
    found += _list_rates(run)
    return sorted(found, key=lambda point: point.t_s)


def make_curves(run: RunFiles) -> bytes:
    """All points as a file of TensorBoard's records; needs tensorboard."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    file = io.BytesIO()
    records = RecordWriter(file)
    records.write(Event(wall_time=0, file_version="brain.Event:2").SerializeToString())
    for t_s, curve, value in list_points(run):
        summary = Summary(value=[Summary.Value(tag=curve, simple_value=value)])
        event = Event(wall_time=t_s, step=round(t_s * 1e6), summary=summary)
        records.write(event.SerializeToString())
    return file.getvalue()


def _list_rates(run: RunFiles) -> Iterator[Point]:
    """What each site sent and received, and what the busiest links carried, in Mbit/s."""
    rates = tabulate_link_rates(run, find_edges_ns(run))
    for site in run.scenario.topology.site_names:
        for end, column in (("src", "out_mbps"), ("dst", "in_mbps")):
            own = rates.loc[:, rates.columns.get_level_values(end) == site]
            total = own.sum(axis="columns")
            yield from _draw("sites", f"{column}/{site}", total.index, total)
    carried = rates.sum().sort_values(ascending=False, kind="stable")
    for src, dst in carried[carried > 0].index[:MAX_LINKS]:
        curve = rates[src, dst]
        yield from _draw("links", f"mbps/{src} -> {dst}", curve.index, curve)


def _draw(
    table: str,
    column: str,
    times_s: pd.Series[float] | pd.Index[float],
    values: pd.Series[float],
    by: pd.Series[str] | None = None,
) -> Iterator[Point]:
    """The known values of a column, in a curve for each value of `by`."""
    ends = [""] * len(values) if by is None else "/" + by
    for t_s, value, end in zip(times_s, values, ends, strict=True):
        if not (pd.isna(t_s) or pd.isna(value)):
            yield Point(float(t_s), f"{table}/{column}{end}", float(value))
