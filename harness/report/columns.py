"""What every column of a run's tables means: the one place where it is said (pure).

`docs/tables.md` is made from it (`trunkline schema --tables`), and a test holds both to the tables.
A column's unit is the end of its name: `_s` are seconds, `_mbps` Mbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.config.units import DIMENSIONS
from trunkline.harness.report import awareness_tables, tables

TYPES: Mapping[str, Mapping[str, str]] = {
    "tasks": tables.TASKS,
    "workers": tables.WORKERS,
    "links": tables.LINKS,
    "accuracy": tables.ACCURACY,
    "faults": tables.FAULTS,
    "run": tables.RUN,
    "paths": tables.PATHS,
    "probes": awareness_tables.PROBES,
    "clocks": awareness_tables.CLOCKS,
}
"""Every table's columns, in their order, with their types."""

ROWS: Mapping[str, str] = {
    "tasks": "One row per task (one synchronization by a group of sites), in order of start.",
    "workers": "One row per site, in order of rank.",
    "links": "One row per directed link, in the topology's order.",
    "accuracy": "One row per evaluation, in order of time.",
    "faults": "One row per fault of the timeline, of the shell, or drawn at random.",
    "run": "One row: the whole run. Means and medians are over the completed tasks.",
    "paths": "One row per path that sites chose; only with auxiliary paths (`scheme.auxiliary`).",
    "probes": "One row per measurement of a link by a site, in order of time; only with "
    "`scheme.awareness`.",
    "clocks": "One row whenever a site was told the time; only with `scheme.awareness`.",
}

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "tasks": {
        "task": "its number, as events have it",
        "plan": "the plan; of a program's own synchronization, the operation",
        "policy": "the policy; `program` for a program's own synchronization",
        "group": "the members, separated by spaces",
        "bytes": "the model's size",
        "bytes_sent": "payload that crossed all links together; empty for programs",
        "bytes_discarded": "of it, what was sent early and not needed where it arrived",
        "start_s": "when the controller started it",
        "end_s": "when the last member had installed the result, or it was abandoned",
        "duration_s": "from start to end",
        "estimate_s": "fluid time of its plan at the rates that TCP's payload gets; no latency",
        "latency_s": "what propagation adds to the estimate, and the message that starts the task",
        "bound_s": "what no plan could beat: the smallest cut of the overlay",
        "outcome": "`completed`, `abandoned` or `unfinished`",
    },
    "workers": {
        "site": "its name",
        "rounds": "iterations computed and synchronized",
        "compute_s": "time spent computing",
        "wait_s": "time spent ready, until it contributed or went on",
        "sync_s": "time from its contributions until it had results or gave them up",
        "bytes_sent": "payload, for others' tasks too",
        "bytes_received": "payload, for others' tasks too",
    },
    "links": {
        "src": "the site that sends",
        "dst": "the site that receives",
        "rate_mbps": "the rate that was set; of one that changed, the mean over the run",
        "delay_ms": "the one-way delay that was set; of one that changed, the smallest",
        "bytes": "payload that crossed it",
        "interface_bytes": "what its interface counted, headers included",
        "drops": "packets that its queue dropped",
        "busy_s": "time between the first and the last byte of payloads on it",
        "goodput_mbps": "payload over busy time; empty if there was none",
        "utilisation_percent": "goodput over the rate that it had then",
    },
    "accuracy": {
        "t_s": "when",
        "task": "the task whose result was evaluated",
        "site": "the site that evaluated it",
        "accuracy_percent": "on held-out samples",
        "loss": "the mean over them",
        "samples": "how many",
    },
    "faults": {
        "fault": "its number, from 0",
        "verb": "what kind: `outage`, `kill`, ...",
        "text": "all of it, in the words of a timeline",
        "targets": "the directed links (`a -> b`) or agents, separated by commas; empty: all links",
        "start_s": "when it began",
        "end_s": "when it was undone; empty if nothing undid it",
        "by_hand": "whether somebody asked for it while the run went on",
    },
    "run": {
        "tasks": "completed tasks",
        "abandoned": "abandoned tasks",
        "task_s": "mean duration",
        "task_median_s": "median duration",
        "task_warm_s": "mean duration of the later half, when TCP's connections are warm",
        "estimate_s": "mean estimate",
        "latency_s": "mean latency",
        "expected_warm_s": "mean estimate plus latency of the later half",
        "bound_s": "mean bound",
        "window_s": "when the run was told to stop",
        "rounds": "finished in the window, the mean over the sites",
        "rounds_least": "the same of the slowest site",
        "bytes_sent": "payload of all tasks on all links",
        "accuracy_percent": "the last evaluation's; empty if there is none",
        "ended": "why it ended",
        "by_hand": "what somebody did to it and when, the end included: at most five things, "
        "and how many more; empty if nobody did",
    },
    "paths": {
        "src": "its first site",
        "dst": "its last site",
        "path": "all its sites",
        "auxiliary": "whether it is no edge of its task's plan",
        "tasks": "tasks that used it",
        "bytes": "payload that took it",
        "chunks": "chunks that took it",
        "share_percent": "of all bytes from its first site to its last",
    },
    "probes": {
        "t_s": "when",
        "src": "the site that sends over the link",
        "dst": "the site that receives",
        "rate_mbps": "what the link was set to then",
        "estimate_mbps": "what the site measured",
        "error_percent": "measured over set, less one",
        "formula_mbps": "what the estimator gives without queues, where TCP fills the link",
        "chunks": "chunks that the measurement is of",
        "bytes": "their size together",
        "least_delay_ms": "the smallest delay of any frame of late, with the clocks' difference",
    },
    "clocks": {
        "t_s": "when",
        "site": "the site that was told the time",
        "server": "who told it",
        "ahead_ms": "how far its own clock was ahead of that of the site of the acting controller",
        "before_ms": "how far ahead it was with its correction until then; empty at first",
        "error_ms": "how far ahead it is with its correction since then",
        "delay_ms": "how long question and answer were on their way together",
    },
}
"""Every column by table and name, in the order of the tables."""

UNITS: Mapping[str, str] = {
    "mbps": "Mbit/s",
    "ms": "ms",
    "s": "s",
    "bytes": "bytes",
    "percent": "%",
}
"""The end of a name -> the unit."""


def unit(column: str) -> str:
    """The unit of a column by its name, empty for a count or a text."""
    if column.startswith("bytes"):
        return UNITS["bytes"]
    ends = (dimension.suffix for dimension in DIMENSIONS)
    return next((UNITS[end] for end in ends if f"_{column}".endswith(f"_{end}")), "")


def document() -> str:
    """`docs/tables.md`."""
    parts = [_HEAD]
    for name, columns in TYPES.items():
        parts.append(f"## tables/{name}.csv\n\n{ROWS[name]}\n")
        rows = [
            f"| `{column}` | {unit(column) or _kind(kind)} | {MEANINGS[name][column]} |"
            for column, kind in columns.items()
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


def _kind(kind: str) -> str:
    """What a column without a unit holds."""
    if kind == "bool":
        return "True or False"
    return "text" if kind == "str" else "number" if kind == "float64" else "whole number"
