"""The tables of a run: type and meaning of every column (pure).

`docs/tables.md` is generated from this module (`trunkline schema --tables`). The end of a column's
name is its unit: `_s` is seconds, `_mbps` is Mbit/s.
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
    """One table: its name, the meaning of a row, and name -> (type, meaning) of its columns."""

    name: str
    row: str
    columns: Mapping[str, tuple[str, str]]

    def frame(self, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
        """Make a data frame; order and types of columns are the same even without rows."""
        types = {name: kind for name, (kind, _) in self.columns.items()}
        return pd.DataFrame(list(rows), columns=list(types)).astype(types)


TASKS = Table(
    "tasks",
    "One row per task (one synchronization by a group of sites), in order of start.",
    {
        "task": (INTEGER, "its number in the event log"),
        "plan": (TEXT, "the plan; for a program's own synchronization the operation"),
        "policy": (TEXT, "the policy; for a program's own synchronization `program`"),
        "group": (TEXT, "the members, separated by spaces"),
        "bytes": (INTEGER, "the model's size"),
        "bytes_sent": (
            INTEGER_OR_EMPTY,
            "payload that crossed all links together; empty for programs",
        ),
        "bytes_discarded": (
            INTEGER_OR_EMPTY,
            "the part of it that was sent early and not needed where it arrived",
        ),
        "start_s": (NUMBER, "when the controller started it"),
        "end_s": (NUMBER, "when the last member installed the result, or the task was abandoned"),
        "duration_s": (NUMBER, "from start to end"),
        "estimate_s": (
            NUMBER,
            "fluid time of its plan at the rates that TCP's payload gets, without latency",
        ),
        "latency_s": (
            NUMBER,
            "propagation to add to the estimate, of the message that starts the task too",
        ),
        "bound_s": (NUMBER, "no plan is faster: the time of the overlay's smallest cut"),
        "outcome": (TEXT, "`completed`, `abandoned` or `unfinished`"),
        "warm_up": (YES_OR_NO, "whether it began in the warm-up, so that `run` does not count it"),
    },
)
MEMBERS = Table(
    "members",
    "One row per task and member of its group; none in a run of programs.",
    {
        "task": (INTEGER, "the task's number"),
        "site": (TEXT, "the member"),
        "contributes": (YES_OR_NO, "whether it contributes to the result"),
        "receives": (YES_OR_NO, "whether it is to get the result"),
        "joined_s": (NUMBER, "when it heard of the task; empty if it did not"),
        "contributed_s": (NUMBER, "when it had its contribution ready; empty if it gave none"),
        "finished_s": (NUMBER, "when it installed the result; empty if it did not"),
        "dropped_s": (NUMBER, "when it gave the task up; empty if it did not"),
        "sync_s": (NUMBER, "from its contribution until it installed the result"),
    },
)
WORKERS = Table(
    "workers",
    "One row per site, in order of rank.",
    {
        "site": (TEXT, "its name"),
        "rounds": (INTEGER, "iterations computed and synchronized"),
        "compute_s": (NUMBER, "time spent computing, also while a model arrived"),
        "wait_s": (NUMBER, "time from ready, or from a task to the next one, until it continued"),
        "sync_s": (
            NUMBER,
            "time from its contribution until the task's end or until it continued, without the "
            "time in which it computed branches",
        ),
        "bytes_sent": (
            INTEGER_OR_EMPTY,
            "payload sent, also for tasks of others; empty for programs",
        ),
        "bytes_received": (
            INTEGER_OR_EMPTY,
            "payload received, also for tasks of others; empty for programs",
        ),
        "similarity": (
            NUMBER,
            "mean cosine similarity of its updates with those of the model, from -1 to 1; empty if "
            "the policy does not compare them",
        ),
        "excluded_s": (NUMBER, "when the policy excluded it; empty if it did not"),
        "rounds_alone": (
            INTEGER,
            "rounds that it did without a controller: they synchronize nothing, but count for "
            "`stop.rounds`",
        ),
    },
)
LINKS = Table(
    "links",
    "One row per directed link, in the topology's order.",
    {
        "src": (TEXT, "the site that sends"),
        "dst": (TEXT, "the site that receives"),
        "rate_mbps": (NUMBER, "the rate that was set; if it changed, the mean over the run"),
        "delay_ms": (NUMBER, "the one-way delay that was set; if it changed, the smallest"),
        "bytes": (INTEGER_OR_EMPTY, "payload that crossed it; empty for programs"),
        "interface_bytes": (INTEGER_OR_EMPTY, "bytes that its interface counted, with headers"),
        "drops": (
            INTEGER_OR_EMPTY,
            "packets that it lost: its queue was full, at random, or in a blackhole",
        ),
        "busy_s": (
            NUMBER,
            "time between the first and the last byte of payloads on it; empty for programs",
        ),
        "goodput_mbps": (NUMBER, "payload over busy time; empty if there was no payload"),
        "utilisation_percent": (NUMBER, "goodput over the rate during the busy time"),
        "background_bytes": (
            INTEGER,
            "payload of background traffic that crossed it and arrived; not in `bytes`",
        ),
    },
)
ACCURACY = Table(
    "accuracy",
    "One row per evaluation, in order of time.",
    {
        "t_s": (NUMBER, "when it was"),
        "task": (INTEGER, "the task whose result was evaluated"),
        "site": (TEXT, "the site that evaluated it"),
        "accuracy_percent": (NUMBER, "accuracy on held-out samples"),
        "loss": (NUMBER, "mean loss of these samples"),
        "samples": (INTEGER, "number of these samples"),
    },
)
FAULTS = Table(
    "faults",
    "One row per fault of the timeline, of the shell, or drawn at random.",
    {
        "fault": (INTEGER_OR_EMPTY, "its number, from 0; empty if the run ended before it"),
        "verb": (TEXT, "its kind: `outage`, `kill`, ..."),
        "text": (TEXT, "the whole fault, as a timeline has it"),
        "targets": (
            TEXT,
            "the directed links (`a -> b`) or agents, separated by commas; empty for all links, "
            "and for a fault that never began",
        ),
        "at_s": (
            NUMBER,
            "when it began, or was to begin, since the start of the first task or the programs: "
            "the clock of the timeline and the shell",
        ),
        "start_s": (NUMBER, "when it began; empty if the run ended before"),
        "end_s": (NUMBER, "when it was undone; empty if nothing undid it"),
        "by_hand": (YES_OR_NO, "whether a user asked for it during the run"),
    },
)
RUN = Table(
    "run",
    "One row: the whole run after its warm-up. Means and medians are over the completed tasks.",
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
        "warm_up_s": (NUMBER, "when the warm-up ended and the window began; 0 without a warm-up"),
        "window_s": (NUMBER, "the time from there until the run was told to stop"),
        "rounds": (NUMBER, "rounds that a worker finished in the window, on average"),
        "rounds_least": (INTEGER, "rounds of the slowest worker"),
        "samples_per_s": (
            NUMBER,
            "samples of the rounds that workers finished in the window, over the window; empty if "
            "the workload has no batch",
        ),
        "updates": (
            INTEGER,
            "completed tasks that changed models in the window: all but those that only hand a "
            "server's model to workers",
        ),
        "update_s": (NUMBER, "window over updates: the time per update"),
        "rho": (
            NUMBER,
            "how slowly models mix: the second largest absolute eigenvalue of the mean "
            "synchronization matrix of the completed tasks whose members are all workers and "
            "average their models. It is 0 if every group has all workers, and 1 if some workers "
            "never meet others; empty without such tasks, and if weights of a task sum to 0",
        ),
        "wait_s": (NUMBER, "time that a worker waited per round (`wait_s` of `workers`)"),
        "zero_gaps_percent": (
            NUMBER,
            "gaps between updates at servers that are shorter than a tenth of the mean gap; this "
            "column and the next three are empty without servers",
        ),
        "staleness": (NUMBER, "mean staleness of updates"),
        "staleness_most": (NUMBER, "largest staleness of an update"),
        "push_s": (NUMBER, "mean time of the pushes of updates"),
        "pull_s": (NUMBER, "mean time of the pulls before updates"),
        "server_in_mbps": (
            NUMBER,
            "payload that came to a server in the window, per second (`in_mbps` of `servers`): the "
            "mean over the servers; this column and the next three are empty without servers",
        ),
        "server_in_peak_mbps": (NUMBER, "the largest `in_mbps` of a server"),
        "server_out_mbps": (NUMBER, "payload that left a server in the window, per second"),
        "server_out_peak_mbps": (NUMBER, "the largest `out_mbps` of a server"),
        "stall_s": (
            NUMBER,
            "mean time in which a worker waited for branches of its next iteration. This column "
            "and the next two count iterations that were finished with the branches of one "
            "hand-out, if it began after the warm-up. They do not count what was forgotten "
            "(`kept` of `branches`), and are empty without a workload in layers",
        ),
        "step_s": (
            NUMBER,
            "mean time from the start of a hand-out at a worker to the end of the iteration that "
            "it computes with it, forward and backward",
        ),
        "stall_percent": (
            NUMBER,
            "share of the stalls in these steps: communication that is not hidden",
        ),
        "bytes_sent": (
            INTEGER_OR_EMPTY,
            "payload of all tasks on all links; empty for programs",
        ),
        "accuracy_percent": (NUMBER, "accuracy of the last evaluation; empty if there was none"),
        "ended": (TEXT, "why it ended"),
        "by_hand": (
            TEXT,
            "actions of a user during the run, with their times; ending the run counts. At most "
            "five, and the number of others; empty if there were none",
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
        "auxiliary": (YES_OR_NO, "whether it is an auxiliary path, not an edge of the plan"),
        "tasks": (INTEGER, "tasks that used it"),
        "bytes": (INTEGER, "payload that took it"),
        "chunks": (INTEGER, "chunks that took it"),
        "share_percent": (NUMBER, "its share of all bytes from its first site to its last"),
    },
)
PROBES = Table(
    "probes",
    "One row per measurement of a link by a site, in order of time; only with `scheme.awareness`.",
    {
        "t_s": (NUMBER, "when it was"),
        "src": (TEXT, "the site that sends over the link"),
        "dst": (TEXT, "the site that receives"),
        "rate_mbps": (NUMBER, "the rate that was set then"),
        "estimate_mbps": (NUMBER, "the rate that the site measured"),
        "error_percent": (NUMBER, "(measured / set - 1) x 100"),
        "formula_mbps": (
            NUMBER,
            "the estimator's ideal result: no queue, and TCP fills the link",
        ),
        "chunks": (INTEGER, "number of chunks that were measured"),
        "bytes": (INTEGER, "their total size"),
        "least_delay_ms": (
            NUMBER,
            "the smallest delay of recent frames, including the difference of the clocks",
        ),
    },
)
CLOCKS = Table(
    "clocks",
    "One row per synchronization of a site's clock; only with `scheme.awareness`.",
    {
        "t_s": (NUMBER, "when it was"),
        "site": (TEXT, "the site that asked for the time"),
        "server": (TEXT, "the time server that answered"),
        "ahead_ms": (
            NUMBER,
            "how far the site's clock was ahead of the clock at the acting controller's site",
        ),
        "before_ms": (
            NUMBER,
            "how far ahead it was with its previous correction; empty at first",
        ),
        "error_ms": (NUMBER, "how far ahead it is with its new correction"),
        "delay_ms": (NUMBER, "round-trip time of question and answer"),
    },
)

BACKGROUND = Table(
    "background",
    "One row per flow of background traffic; only with `background:`.",
    {
        "flow": (INTEGER, "its number, from 0"),
        "src": (TEXT, "the site that sends"),
        "dst": (TEXT, "the site that receives"),
        "kind": (TEXT, "`constant`, `on-off` or `tcp`"),
        "mean_mbps": (NUMBER, "the mean rate that the scenario sets, headers included"),
        "bytes_sent": (INTEGER, "payload that the sender gave its kernel"),
        "bytes_received": (INTEGER, "payload that arrived"),
        "goodput_mbps": (NUMBER, "payload that arrived over the time from its start to its end"),
        "lost_percent": (NUMBER, "packets that did not arrive; empty for `tcp`"),
        "files": (INTEGER_OR_EMPTY, "files that arrived completely; empty unless `tcp`"),
        "file_median_s": (NUMBER, "median time of a file from its start to its last byte"),
        "file_p99_s": (NUMBER, "the time that 99 % of the files took at most"),
        "failures": (INTEGER, "connections that broke or could not be opened"),
    },
)

UPDATES = Table(
    "updates",
    "One row per update of a worker that all servers have, in order of time; only with servers.",
    {
        "t_s": (NUMBER, "when the last server had added it to its model"),
        "task": (INTEGER, "the push; updates of one push come at the same time"),
        "site": (TEXT, "the worker"),
        "iteration": (INTEGER, "its iteration, from 0"),
        "staleness": (
            INTEGER,
            "pushes that the servers added between the worker's latest pull and this one",
        ),
        "gap_s": (NUMBER, "time since the update before; 0 within a push, empty for the first"),
        "push_s": (NUMBER, "time from the push's start at the controller to `t_s`"),
        "pull_s": (
            NUMBER,
            "time from the start of that latest pull until the worker had the model; empty before "
            "its first pull",
        ),
    },
)

SERVERS = Table(
    "servers",
    "One row per server and step of 100 ms, in order of time; only with servers. A server's links "
    "are those that begin or end at it: its access link if it has one. Between the first and the "
    "last byte of a transfer, payload is assumed to move at one pace as far as the rate allows, "
    "but not while a link of its way is cut or its sender stopped. What exceeds the rate for "
    "payload in a step counts in the next one. Runs of more than 1000 s have 10 000 longer steps.",
    {
        "t_s": (NUMBER, "when the step began"),
        "server": (TEXT, "the server"),
        "in_mbps": (NUMBER, "payload that came over its links in the step, per second"),
        "in_percent": (NUMBER, "that payload over what the rates of these links let pass"),
        "out_mbps": (NUMBER, "payload that left over its links in the step, per second"),
        "out_percent": (NUMBER, "that payload over what the rates of these links let pass"),
    },
)

BRANCHES = Table(
    "branches",
    "One row per forward computation of a branch, in order of its end; only with a workload in "
    "layers: `layered`, `training_in_layers`, or one of your own.",
    {
        "site": (TEXT, "the worker"),
        "iteration": (INTEGER, "its iteration, from 0"),
        "branch": (INTEGER, "the number of the branch, from 0"),
        "name": (TEXT, "its base, and its name if the base has several branches"),
        "task": (
            INTEGER_OR_EMPTY,
            "the task that brought its parameters; empty if they were here before",
        ),
        "arrived_s": (NUMBER, "when all of its parameters had arrived"),
        "start_s": (NUMBER, "when its computation began"),
        "end_s": (NUMBER, "when its computation had ended"),
        "stall_s": (
            NUMBER,
            "how long the worker waited for it: since the branch before, or for the first one "
            "since it had joined the task",
        ),
        "kept": (
            YES_OR_NO,
            "whether the worker finished the iteration with it; false if it forgot the branch, "
            "because the task was given up or the worker was killed, or if the run ended before",
        ),
    },
)

PROGRAMS = Table(
    "programs",
    "One row per program of a run of programs; all begin at the run's start.",
    {
        "site": (TEXT, "its site"),
        "command": (TEXT, "the command"),
        "end_s": (NUMBER, "when it ended"),
        "exit_code": (INTEGER_OR_EMPTY, "its exit code; empty if a signal ended it"),
        "signal": (INTEGER_OR_EMPTY, "the signal that ended it"),
        "asked": (YES_OR_NO, "whether it was told to end because the run stopped"),
        "bytes_sent": (INTEGER, "what its site's interfaces sent, headers included"),
        "bytes_received": (INTEGER, "what they received"),
    },
)

TRAFFIC = Table(
    "traffic",
    "One row per link and time at which it was counted, in runs of programs: every 0.1 s at first, "
    "and half as often after each 50 counts. Links without change have no row.",
    {
        "t_s": (NUMBER, "when it was counted"),
        "src": (TEXT, "the site or router that sends"),
        "dst": (TEXT, "the site or router that receives"),
        "bytes": (INTEGER, "what the link has carried since the start, headers included"),
    },
)

CALLS = Table(
    "calls",
    "One row per timed call of `torch.distributed` and site, in order of start; only with "
    "`time_calls`, or if programs report calls.",
    {
        "site": (TEXT, "its site"),
        "rank": (INTEGER, "the rank of its process in the default group"),
        "process": (INTEGER, "the id of its process at the site"),
        "thread": (INTEGER, "its thread: the number in the order of their first calls, from 0"),
        "number": (INTEGER, "its number among the calls of its process, from 0"),
        "call": (TEXT, "the function, such as `all_reduce`"),
        "bytes": (
            INTEGER,
            "the tensors that it reads or those that it writes, whichever are more; 0 for a "
            "barrier",
        ),
        "start_s": (NUMBER, "when it began"),
        "duration_s": (NUMBER, "until it was done; empty if it never was"),
        "outcome": (TEXT, "`completed`, `failed` or `unfinished`"),
        "group": (TEXT, "the name of its group of processes"),
        "ranks": (TEXT, "the ranks of the group's members, separated by spaces"),
        "peer": (
            INTEGER_OR_EMPTY,
            "the rank that sends or receives, or the root; empty if there is none or any",
        ),
        "blocks": (YES_OR_NO, "whether its caller waits for its end at once"),
    },
)

TABLES = (
    TASKS, MEMBERS, WORKERS, LINKS, ACCURACY, FAULTS, RUN, PATHS, PROBES, CLOCKS, BACKGROUND,
    UPDATES, SERVERS, BRANCHES, PROGRAMS, TRAFFIC, CALLS,
)  # fmt: skip
"""Every table, in the order of the docs."""

UNITS: Mapping[str, str] = {
    "mbps": "Mbit/s",
    "ms": "ms",
    "s": "s",
    "bytes": "bytes",
    "percent": "%",
}
"""The end of a column's name -> its unit."""


def find_unit(column: str) -> str:
    """The unit of a column; empty for a count or a text."""
    if column.startswith("bytes"):
        return UNITS["bytes"]
    if column.endswith("_per_s"):
        return "per second"
    ends = (dimension.suffix for dimension in DIMENSIONS)
    return next((UNITS[end] for end in ends if f"_{column}".endswith(f"_{end}")), "")


def write_page() -> str:
    """The text of `docs/tables.md`."""
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

Every run folder has `tables/*.csv`, computed from its event log; `trunkline report RUN` writes them
again. One line loads a table:

```python
import pandas as pd

tasks = pd.read_csv("runs/quickstart/latest/tables/tasks.csv")
```

Times are seconds since the run's start on the run's own clock. Unknown values are empty; pandas
reads them as NaN. Numbers have six digits after the point: microseconds, bits per second.
The tables of a comparison are in [compare.md](compare.md#what-comes-out).

`trunkline schema --tables` writes this page.
"""


def _describe_type(kind: str) -> str:
    """The type of a column without a unit, in words."""
    if kind == "bool":
        return "True or False"
    return "text" if kind == "str" else "number" if kind == "float64" else "whole number"
