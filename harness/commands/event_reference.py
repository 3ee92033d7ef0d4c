"""The page of the docs on the lines of an event log: `docs/reference/events.md` (pure)."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from trunkline.agents.events import causes
from trunkline.agents.events.event import By, Count
from trunkline.agents.events.event_reading import KINDS

EXAMPLES = Path(__file__).with_name("event_examples.jsonl")
"""A line of each type of event: of runs, and of a few rare events written by hand."""

WRITERS: Mapping[By, str] = {
    By.RUNNER: "the runner",
    By.CONTROLLER: "a controller",
    By.STOPPER: "a controller; in a run of programs the runner",
    By.BACKUP: "the backup controller",
    By.SITE: "a site",
    By.ANY: "any process of the run",
}

MEANINGS: Mapping[str, str] = {
    "accuracy_percent": "the share of test samples that the model classifies right",
    "asked": "whether a user asked for it during the run",
    "at_end": "whether the run added it, before an end that a user asked for",
    "attempt": "how many processes the program had before",
    "backend": "`embedded` or `host`",
    "base": "digest of the model before",
    "base_fingerprint": "fingerprint of the model before",
    "batch": "the batch's size; left out if the policy sets none",
    "before_ns": "the correction until now; null if this is the first",
    "blocks": "how many blocks the task's plan has now",
    "branch": "the branch's number, from 0",
    "burst": "mean number of packets in a row that are lost",
    "bytes": "the size",
    "call": "the call's number in its process, from 0",
    "cause": "why, as a value for code (see Causes)",
    "chunk_bytes": "the size of a chunk",
    "chunks": "the number of chunks",
    "clock": "`virtual` or `real`",
    "code": "the exit code; null if it was killed from outside",
    "controller": "the controller's name",
    "clock_synchronized.controller": "the rank of the controller whose time it is: 1 is the backup",
    "correction_ns": "what is added to the site's clock from now on",
    "correlation_percent": "how much a packet's jitter depends on that of the one before",
    "corrupt_percent": "the share of packets with a wrong bit",
    "count": "how many callers it has refused so far",
    "cuts": "how the link is cut: `blackhole`, `reject` or `down`; empty if it works",
    "datagrams": "what the UDP of each site did, in a run of programs",
    "delay_ms": "the one-way delay",
    "clock_synchronized.delay_ms": "how long question and answer travelled together",
    "digest": "XXH3 of the float32 values, 16 bytes in hex",
    "LinkCapture.digest": "XXH3 of the file",
    "distribution": "the jitter's distribution, or its measured quantiles",
    "do": "`kill`, `leave`, `restart`, `pause` or `resume`",
    "drops": "packets that the interface's queue dropped",
    "dst": "the receiving end of the link",
    "duplicate_percent": "the share of packets that arrive twice",
    "end_ns": "when it ended; of payload, when its last chunk was handed to TCP or had arrived",
    "entry": "the number of the entry of `expect:`, from 0",
    "expected": "what the run has set, in words",
    "failed": "whether the call raised an error",
    "fault": "the fault's number in this run",
    "fingerprint": "16 sums over parts of the values, which add up as the models do",
    "finished": "whether it still has the result of this task",
    "first": "the number of the first new block",
    "flow": "the number of the flow in `background:`, from 0",
    "forest": "the plan: contributors, receivers, and blocks with their aggregators and edges",
    "found": "what the kernel has now, in words",
    "group": "the members",
    "call_started.group": "the name of the group of processes",
    "holder": "the member that has the result already; null if there is none",
    "iteration": "the number of the iteration, from 0",
    "jitter_ms": "how far the delay varies to both sides",
    "keep": "a receiver's new model is this share of what it `kept`, and its step",
    "kept": "what `keep` is a share of: its model, or the one with which it began",
    "least_delay_ms": "the smallest delay of any frame in the last two minutes or more",
    "line": "the line that was written or typed",
    "lines": "how many lines had the pattern",
    "links": "a list with a part for each directed link",
    "loss": "the loss function on the test samples",
    "loss_percent": "the share of packets that are lost",
    "lost": "the neighbours to which it has no connection",
    "members": "the members that are asked",
    "missed": "packets that are missing in the file",
    "momentum": "a receiver's step is this share of its last step, and the result",
    "model": "what made the prediction",
    "model_bytes": "the model's size",
    "models": "the models of the sites, by digest and fingerprint",
    "name": "the function of `torch.distributed`",
    "node": "the site, gateway or router",
    "number": "the evaluation's number, from 1",
    "of": "`average`, `server` or `member`",
    "of_s": "how long the timers were watched",
    "operation": "`allreduce`, or what the program calls it",
    "packets": "the number of packets; 0 with TCP",
    "LinkCapture.packets": "the number of packets",
    "LinkTotals.packets": "the number of packets",
    "passive": "the members that take part without being ready, such as servers",
    "path": "the sites on the way, from the sender to the last",
    "peer": "the other site",
    "call_started.peer": "the rank of the other end or the root; null without one",
    "phase": "`in`: towards the aggregator; `out`: from it; `relay`: only passed on; `aux`: the "
    "first hop of an auxiliary path; `early`: before the task was known",
    "plan": "the plan's name",
    "policy": "the policy's name",
    "process": "the process's id at its site",
    "rank": "the process's own rank",
    "ranks": "the ranks of the group's members",
    "rate_mbps": "the rate",
    "reason": "why, in words",
    "receivers": "the members that get the result",
    "received": "datagrams that its processes got",
    "refused": "datagrams that found no socket",
    "reorder_percent": "the share of packets that overtake others",
    "reported": "`false` if the controller never heard of this worker; left out otherwise",
    "resent": "how many packets TCP has sent again on that connection since it was made, for "
    "whatever task; left out if it is lost by now",
    "roles": "which members receive, take part passively, and what they do afterwards; left out if "
    "every member contributes and receives",
    "rounds": "rounds done so far",
    "samples": "the number of test samples",
    "samples_ns": "what the same loop took on the host, before and after the run",
    "scale": "the factor of the weighted sum",
    "scenario": "the scenario's name",
    "seconds": "how much later than modelled",
    "seed": "the scenario's seed",
    "sent": "datagrams that it sent",
    "server": "the site that was asked for the time",
    "servers": "each site -> the one that it asks",
    "short_of_memory": "the sites where TCP met the kernel's limit of its memory",
    "site": "the site",
    "signal": "the signal that ended it, 0 or null if none",
    "similarity": "cosine, from -1 to 1",
    "since_ns": "the start of the span that this line is about",
    "sites": "the sites, in order of rank",
    "time_charged.sites": "a list with a part for each site",
    "programs_exited.sites": "the programs",
    "src": "the sending end of the link",
    "start_ns": "when it began; of payload, when its first chunk was handed to TCP or had arrived",
    "step": "fingerprint of what was added",
    "targets": "the links (`a -> b`) or the agent; empty: all links",
    "task": "the task's number; the backup's tasks begin at 1000000",
    "tensor_bytes": "the sizes of the tensors; empty for one array",
    "term": "counts the controllers that were in charge",
    "text": "the line of the timeline, or the typed one",
    "then": "whether members that are not passive go on, or wait for another task",
    "thread": "the number of the thread, in the order of their first calls",
    "told": "the type of the policy's event",
    "unchanged": "whether its parts are those of the task before",
    "values": "the fields of the policy's event",
    "verb": "the first word of the fault",
    "version": "the version of the rates by which it was planned",
    "model_merged.version": "the number of the site's new model",
    "weight": "the weight of this contribution",
    "weights": "the weight of each contribution, by site",
    "what": "a route, an address, or a neighbour's hardware address",
    "who": "the agent, the site or the program",
    "with_data": "the sites that sent data over TCP, in a run of programs",
    "withdrawn": "the numbers of the blocks that end",
    "without": "the members that did not get the result",
    "worker": "the worker's site",
}
"""What a key means, in all events that have it or in one (`event.key`)."""

UNITS: Mapping[str, str] = {
    "_ns": "ns",
    "_ms": "ms",
    "_s": "s",
    "_mbps": "Mbit/s",
    "_percent": "%",
    "bytes": "bytes",
    "seconds": "s",
}
"""How a key of a number ends -> its unit."""

MOST_ITEMS = 3
"""An example shows so many values of a list or an object."""


def write_page() -> str:
    """The text of `docs/reference/events.md`."""
    examples = {line["event"]: line for line in read_examples()}
    parts = [_HEAD]
    module = ""
    for name, kind in KINDS.items():
        if kind.__module__ != module:
            module = kind.__module__
            first, _, _ = str(sys.modules[module].__doc__).partition("\n")
            parts.append(f"## {first.removesuffix(' (pure).')}\n")
        parts.append(f"### `{name}`\n\n{_describe(kind)} Logged by {WRITERS[kind.by]}.\n")
        parts += _write_table(name, kind, ("t_ns", "site"))
        parts.append(f"```text\n{shorten(examples[name])}\n```\n")
    parts.append(_PARTS)
    for record in find_records():
        parts.append(f"### {record.__name__}\n\n{_describe(record)}\n")
        parts += _write_table(record.__name__, record)
    parts.append(_CAUSES)
    rows = [
        f"| `{name}` | {', '.join(f'`{each}`' for each in list_keys(kind))} | {_describe(kind)} |"
        for name, kind in find_causes().items()
    ]
    parts.append("\n".join(["| type | keys | meaning |", "| --- | --- | --- |", *rows, ""]))
    return "\n".join(parts)


def read_examples() -> Iterator[dict[str, Any]]:
    """A line of each type of event."""
    with EXAMPLES.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def find_causes() -> dict[str, type]:
    """The types of causes, as JSON has them -> their classes."""
    kinds = [kind for kind in vars(causes).values() if isinstance(kind, type)]
    hints = {kind: get_type_hints(kind).get("type") for kind in kinds}
    return {get_args(hint)[0]: kind for kind, hint in hints.items() if hint is not None}


def list_keys(kind: type) -> list[str]:
    """The keys of an event, of a part of one, or of a cause."""
    if not dataclasses.is_dataclass(kind):
        return list(kind._fields)  # type: ignore[attr-defined]  # a NamedTuple
    return [field.name for field in dataclasses.fields(kind) if field.name != "type"]


def explain_key(event: str, kind: type, key: str) -> str:
    """What a key of an event, or of a part of one, means; KeyError if nothing says so."""
    _, _, attributes = str(inspect.getdoc(kind)).partition("\nAttributes:\n")
    for line in attributes.splitlines():
        name, _, meaning = line.strip().partition(": ")
        if key in name.split(", "):
            return meaning.rstrip(".")
    return MEANINGS.get(f"{event}.{key}") or MEANINGS[key]


def _describe(kind: type) -> str:
    text, _, _ = str(inspect.getdoc(kind)).partition("\nAttributes:\n")
    return " ".join(text.split()).replace("|", "\\|")


def _write_table(event: str, kind: type, without: Iterable[str] = ()) -> Iterator[str]:
    hints = get_type_hints(kind, include_extras=True)
    names = [name for name in list_keys(kind) if name not in without]
    if not names:
        return
    rows = [
        f"| `{name}` | {name_type(name, hints[name])} | {explain_key(event, kind, name)} |"
        for name in names
    ]
    yield "\n".join(["| key | value | meaning |", "| --- | --- | --- |", *rows, ""])


def name_type(key: str, hint: Any) -> str:
    """The type of a value in JSON, with its unit."""
    unit = next((unit for end, unit in UNITS.items() if key.endswith(end)), "")
    words = _name_json(hint)
    return f"{words}, {unit}" if unit and "number" in words else words


def _name_json(hint: Any) -> str:
    if hint == Count:
        return "whole number, 0 or more"
    origin, inner = get_origin(hint), get_args(hint)
    if hasattr(hint, "__metadata__"):
        return "cause" if hint.__metadata__ == (causes.BY_TYPE,) else _name_json(inner[0])
    if origin in (Union, types.UnionType):
        words = [_name_json(each) for each in inner if each is not types.NoneType]
        null = " or null" if types.NoneType in inner else ""
        return " or ".join(dict.fromkeys(words)) + null
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in inner)
    if origin is tuple:
        return f"list: {_name_json(inner[0])}"
    if origin is not None and issubclass(origin, Mapping):
        return f"object: {_name_json(inner[0])} -> {_name_json(inner[1])}"
    if isinstance(hint, type) and issubclass(hint, causes.Cause):
        return "cause"
    return _JSON.get(hint) or hint.__name__


_JSON = {int: "whole number", float: "number", str: "text", bool: "true or false", Any: "any value"}


def find_records() -> Iterator[type]:
    """The classes of values that have parts of their own, besides causes."""
    hints = [hint for kind in KINDS.values() for hint in get_type_hints(kind).values()]
    for each in dict.fromkeys(part for hint in hints for part in _take_apart(hint)):
        has_parts = hasattr(each, "_fields") or dataclasses.is_dataclass(each)
        if has_parts and not issubclass(each, causes.Cause):
            yield each


def _take_apart(hint: Any) -> Iterator[Any]:
    """A type, and those that it is made of."""
    yield hint
    for part in get_args(hint):
        yield from _take_apart(part)


def shorten(value: Any) -> str:
    """A value as JSON on one line, with at most MOST_ITEMS values of a list of values."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {shorten(each)}' for key, each in value.items()) + "}"
    if isinstance(value, list):
        more = [f"... {len(value)} in all"] if len(value) > MOST_ITEMS else []
        return "[" + ", ".join([*map(shorten, value[:MOST_ITEMS]), *more]) + "]"
    return json.dumps(value)


_HEAD = """\
# Events

`events.jsonl` in a run's folder is the complete record of the run: one JSON object per line, in
order of time. Verdict, tables, figures and page follow from it and from `resolved.yaml`. Every
line has

| key | value | meaning |
| --- | --- | --- |
| `t_ns` | whole number, 0 or more, ns | the time since the run's start, on the run's one clock |
| `site` | text | who logged it: a site, `controller`, `backup` or `runner` |
| `event` | text | what happened: one of the names below |

Keys that are not listed here are ignored, so programs may report more. Keys that end in `_ns` are
times on the same clock. pandas reads a log, and a line of Python chooses one type of event:

```python
import pandas as pd

events = pd.read_json("runs/quickstart/latest/events.jsonl", lines=True)
sent = events[events["event"] == "sent"].dropna(axis="columns", how="all")
megabytes = sent.groupby(["site", "dst"])["bytes"].sum() / 1e6
```

These times are those at which agents hand chunks to TCP, and get them from it, so they give no
rates: a payload of one chunk has no length. `trunkline.open_run(RUN).link_rates()` has the rate of
each link over time.

The [tables](../tables.md) have most of this in a handier form. In the examples, `... 16 in all`
stands for further values.

`trunkline schema --events` writes this page.
"""

_PARTS = """\
## Parts

What the lists above consist of. A `LinkRate` is a list with the values in this order; the others
are objects.
"""

_CAUSES = """\
## Causes

A cause is an object whose `type` says what it is. The words beside it (`reason`) are for people;
no code reads them.
"""
