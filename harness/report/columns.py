"""The tables of a run: their columns, with type and meaning, in the one place that says it (pure).

`docs/tables.md` is made from it (`trunkline schema --tables`). A column's unit is the end of its
name: `_s` are seconds, `_mbps` Mbit/s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from trunkline.harness.config.units import DIMENSIONS

TEXT, NUMBER, YES_OR_NO = "str", "float64", "bool"
INTEGER, INTEGER_OR_EMPTY = "int64", "Int64"


@dataclass(frozen=True, slots=True)
class Table:
    """One of a run's tables: what a row is, and name -> type and meaning of every column."""

    name: str
    row: str
    columns: Mapping[str, tuple[str, str]]

    def frame(self, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
        """Columns have the same order and type whether or not there are rows."""
        types = {name: kind for name, (kind, _) in self.columns.items()}
        return pd.DataFrame(list(rows), columns=list(types)).astype(types)


TASKS = Table(
    "tasks",
    "One row per task (one synchronization by a group of sites), in order of start.",
    {
        "task": (INTEGER, "its number, as events have it"),
        "plan": (TEXT, "the plan; of a program's own synchronization, the operation"),
        "policy": (TEXT, "the policy; `program` for a program's own synchronization"),
        "group": (TEXT, "the members, separated by spaces"),
        "bytes": (INTEGER, "the model's size"),
        "bytes_sent": (
            INTEGER_OR_EMPTY,
            "payload that crossed all links together; empty for programs",
        ),
        "bytes_discarded": (
            INTEGER_OR_EMPTY,
            "of it, what was sent early and not needed where it arrived",
        ),
        "start_s": (NUMBER, "when the controller started it"),
        "end_s": (NUMBER, "when the last member had installed the result, or it was abandoned"),
        "duration_s": (NUMBER, "from start to end"),
        "estimate_s": (
            NUMBER,
            "fluid time of its plan at the rates that TCP's payload gets; no latency",
        ),
        "latency_s": (
            NUMBER,
            "what propagation adds to the estimate, and the message that starts the task",
        ),
        "bound_s": (NUMBER, "the time that no plan can beat: by the smallest cut of the overlay"),
        "outcome": (TEXT, "`completed`, `abandoned` or `unfinished`"),
    },
)
WORKERS = Table(
    "workers",
    "One row per site, in order of rank.",
    {
        "site": (TEXT, "its name"),
        "rounds": (INTEGER, "iterations computed and synchronized"),
        "compute_s": (NUMBER, "time spent computing"),
        "wait_s": (NUMBER, "time spent ready, until it contributed or went on"),
        "sync_s": (NUMBER, "time from its contributions until it had results or gave them up"),
        "bytes_sent": (INTEGER, "payload, for others' tasks too"),
        "bytes_received": (INTEGER, "payload, for others' tasks too"),
    },
)
LINKS = Table(
    "links",
    "One row per directed link, in the topology's order.",
    {
        "src": (TEXT, "the site that sends"),
        "dst": (TEXT, "the site that receives"),
        "rate_mbps": (NUMBER, "the rate that was set; of one that changed, the mean over the run"),
        "delay_ms": (NUMBER, "the one-way delay that was set; of one that changed, the smallest"),
        "bytes": (INTEGER, "payload that crossed it"),
        "interface_bytes": (INTEGER_OR_EMPTY, "what its interface counted, headers included"),
        "drops": (INTEGER_OR_EMPTY, "packets that its queue dropped"),
        "busy_s": (NUMBER, "time between the first and the last byte of payloads on it"),
        "goodput_mbps": (NUMBER, "payload over busy time; empty if there was none"),
        "utilisation_percent": (NUMBER, "goodput over the rate that it had then"),
    },
)
ACCURACY = Table(
    "accuracy",
    "One row per evaluation, in order of time.",
    {
        "t_s": (NUMBER, "when it was"),
        "task": (INTEGER, "the task whose result was evaluated"),
        "site": (TEXT, "the site that evaluated it"),
        "accuracy_percent": (NUMBER, "on held-out samples"),
        "loss": (NUMBER, "the mean over them"),
        "samples": (INTEGER, "how many"),
    },
)
FAULTS = Table(
    "faults",
    "One row per fault of the timeline, of the shell, or drawn at random.",
    {
        "fault": (INTEGER, "its number, from 0"),
        "verb": (TEXT, "what kind: `outage`, `kill`, ..."),
        "text": (TEXT, "all of it, in the words of a timeline"),
        "targets": (
            TEXT,
            "the directed links (`a -> b`) or agents, separated by commas; empty: all links",
        ),
        "start_s": (NUMBER, "when it began"),
        "end_s": (NUMBER, "when it was undone; empty if nothing undid it"),
        "by_hand": (YES_OR_NO, "whether a person asked for it during the run"),
    },
)
RUN = Table(
    "run",
    "One row: the whole run. Means and medians are over the completed tasks.",
    {
        "tasks": (INTEGER, "completed tasks"),
        "abandoned": (INTEGER, "abandoned tasks"),
        "task_s": (NUMBER, "mean duration"),
        "task_median_s": (NUMBER, "median duration"),
        "task_warm_s": (NUMBER, "mean duration of the later half, when TCP's connections are warm"),
        "estimate_s": (NUMBER, "mean estimate"),
        "latency_s": (NUMBER, "mean latency"),
        "expected_warm_s": (NUMBER, "mean estimate plus latency of the later half"),
        "bound_s": (NUMBER, "mean bound"),
        "window_s": (NUMBER, "when the run was told to stop"),
        "rounds": (NUMBER, "finished in the window, the mean over the sites"),
        "rounds_least": (INTEGER, "the same of the slowest site"),
        "bytes_sent": (INTEGER, "payload of all tasks on all links"),
        "accuracy_percent": (NUMBER, "the last evaluation's; empty if there is none"),
        "ended": (TEXT, "why it ended"),
        "by_hand": (
            TEXT,
            "what a person did to the run and when, its end included: at most five things, and "
            "the number of others; empty if there was none",
        ),
    },
)
PATHS = Table(
    "paths",
    "One row per path that sites chose; only with auxiliary paths (`scheme.auxiliary`).",
    {
        "src": (TEXT, "its first site"),
        "dst": (TEXT, "its last site"),
        "path": (TEXT, "all its sites"),
        "auxiliary": (YES_OR_NO, "whether it is no edge of its task's plan"),
        "tasks": (INTEGER, "tasks that used it"),
        "bytes": (INTEGER, "payload that took it"),
        "chunks": (INTEGER, "chunks that took it"),
        "share_percent": (NUMBER, "of all bytes from its first site to its last"),
    },
)
PROBES = Table(
    "probes",
    "One row per measurement of a link by a site, in order of time; only with `scheme.awareness`.",
    {
        "t_s": (NUMBER, "when it was"),
        "src": (TEXT, "the site that sends over the link"),
        "dst": (TEXT, "the site that receives"),
        "rate_mbps": (NUMBER, "what the link was set to then"),
        "estimate_mbps": (NUMBER, "what the site measured"),
        "error_percent": (NUMBER, "measured over set, less one"),
        "formula_mbps": (
            NUMBER,
            "what the estimator gives without queues, where TCP fills the link",
        ),
        "chunks": (INTEGER, "chunks that the measurement is of"),
        "bytes": (INTEGER, "their size together"),
        "least_delay_ms": (
            NUMBER,
            "the smallest delay of any frame of late, with the clocks' difference",
        ),
    },
)
CLOCKS = Table(
    "clocks",
    "One row whenever a site was told the time; only with `scheme.awareness`.",
    {
        "t_s": (NUMBER, "when it was"),
        "site": (TEXT, "the site that was told the time"),
        "server": (TEXT, "the server that told it"),
        "ahead_ms": (
            NUMBER,
            "how far its own clock was ahead of that of the site of the acting controller",
        ),
        "before_ms": (
            NUMBER,
            "how far ahead it was with its correction until then; empty at first",
        ),
        "error_ms": (NUMBER, "how far ahead it is with its correction since then"),
        "delay_ms": (NUMBER, "how long question and answer were on their way together"),
    },
)

TABLES = (TASKS, WORKERS, LINKS, ACCURACY, FAULTS, RUN, PATHS, PROBES, CLOCKS)
"""Every table, in the order of the docs."""

UNITS: Mapping[str, str] = {
    "mbps": "Mbit/s",
    "ms": "ms",
    "s": "s",
    "bytes": "bytes",
    "percent": "%",
}
"""The end of a name -> the unit."""


def find_unit(column: str) -> str:
    """The unit of a column by its name, empty for a count or a text."""
    if column.startswith("bytes"):
        return UNITS["bytes"]
    ends = (dimension.suffix for dimension in DIMENSIONS)
    return next((UNITS[end] for end in ends if f"_{column}".endswith(f"_{end}")), "")


def write_page() -> str:
    """`docs/tables.md`."""
    parts = [_HEAD]
    for table in TABLES:
        parts.append(f"## tables/{table.name}.csv\n\n{table.row}\n")
        rows = [
            f"| `{column}` | {find_unit(column) or _describe_type(kind)} | {meaning} |"
            for column, (kind, meaning) in table.columns.items()
        ]
        parts.append("\n".join(["| column | unit | meaning |", "| --- | --- | --- |", *rows, ""]))
    return "\n".join(parts)


_HEAD = """\
# Tables of a run

Every run folder has `tables/*.csv`, made from its event log; `trunkline report RUN` makes them
again. One line loads a table:

```python
import pandas as pd

tasks = pd.read_csv("runs/quickstart/latest/tables/tasks.csv")
```

Times are seconds since the run's start on the run's own clock. What is unknown is empty, which
pandas reads as NaN. Numbers have six digits after the point: microseconds, bits per second.

This page is made by `trunkline schema --tables`.
"""


def _describe_type(kind: str) -> str:
    """What a column without a unit holds."""
    if kind == "bool":
        return "True or False"
    return "text" if kind == "str" else "number" if kind == "float64" else "whole number"
