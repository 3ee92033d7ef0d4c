"""A strict validator of the trace-event format, written after its published description.

"Trace Event Format" (Duca and Sinclair, Google): the JSON object format, and of its events those
that Trunkline writes: complete (X), instant (i), counter (C), flow (s, t, f) and metadata (M).
Perfetto's importer adds two rules: slices of one thread nest, or one of them is lost, and numbers
of threads are different in the whole trace.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

REQUIRED = {"ph": str, "pid": int, "tid": int, "ts": (int, float), "name": str}
FURTHER: dict[str, dict[str, Any]] = {
    "X": {"dur": (int, float), "cat": str},
    "i": {"s": str},
    "C": {"args": dict},
    "s": {"id": int, "cat": str},
    "t": {"id": int, "cat": str},
    "f": {"id": int, "cat": str, "bp": str},
    "M": {"args": dict},
}
METADATA = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_sort_index": ("sort_index", int),
}
OBJECT = {"traceEvents": list, "displayTimeUnit": str, "otherData": dict}


def find_errors(trace: dict[str, Any]) -> list[str]:
    """All errors of a trace as read from JSON."""
    errors = [f"{key}: no {kind}" for key, kind in OBJECT.items() if not _is(trace.get(key), kind)]
    errors += [f"unknown key {key}" for key in trace.keys() - OBJECT.keys()]
    if trace.get("displayTimeUnit") not in ("ms", "ns"):
        errors.append("displayTimeUnit: expected ms or ns")
    events = trace.get("traceEvents", [])
    wrong = [f"{event}: {error}" for event in events for error in _check_event(event)]
    if wrong:
        return errors + wrong
    return [*errors, *_check_names(events), *_check_nesting(events), *_check_flows(events)]


def _is(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _check_event(event: dict[str, Any]) -> list[str]:
    phase = event.get("ph")
    if phase not in FURTHER:
        return ["unknown phase"]
    keys = REQUIRED | FURTHER[phase]
    errors = [
        f"{key}: wrong or missing" for key, kind in keys.items() if not _is(event.get(key), kind)
    ]
    errors += [f"unknown key {key}" for key in event.keys() - keys.keys() - {"args", "cat"}]
    if errors:
        return errors
    for key in ("ts", "dur"):
        if not (math.isfinite(event.get(key, 0)) and event.get(key, 0) >= 0):
            errors.append(f"{key}: expected 0 or more")
    if phase == "i" and event["s"] not in "gpt":
        errors.append("s: expected g, p or t")
    if phase == "f" and event["bp"] != "e":
        errors.append("bp: expected e")
    if phase == "C" and not all(_is(value, (int, float)) for value in event["args"].values()):
        errors.append("args: expected numbers")
    if phase == "M":
        key, kind = METADATA.get(event["name"], ("", object))
        if event["args"].keys() != {key} or not _is(event["args"].get(key), kind):
            errors.append("args: wrong for this metadata")
    return errors


def _check_names(events: list[dict[str, Any]]) -> list[str]:
    """Every process and thread with slices has one name, and no two threads have the same."""
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for event in events:
        if event["ph"] == "M":
            where = (event["pid"], event["tid"] if event["name"].startswith("thread") else 0)
            found[event["name"]].append(where)
    errors = [f"{name}: twice" for name, places in found.items() if len({*places}) < len(places)]
    for event in events:
        if event["ph"] in "Xi" and (event["pid"], event["tid"]) not in found["thread_name"]:
            errors.append(f"{event}: on a thread without a name")
        if (event["pid"], 0) not in found["process_name"]:
            errors.append(f"{event}: in a process without a name")
    tids = [tid for _, tid in found["thread_name"]]
    if len({*tids}) < len(tids) or {*tids} & {pid for pid, _ in found["process_name"]}:
        errors.append("numbers of threads: expected different ones, and none of a process")
    named = [
        (event["pid"], event["args"]["name"]) for event in events if event["name"] == "thread_name"
    ]
    return errors + ([] if len({*named}) == len(named) else ["threads with the same name"])


def _list_slices(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """By thread, the slices in order of time, in nanoseconds."""
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start_ns = round(event["ts"] * 1e3)
            end_ns = start_ns + round(event["dur"] * 1e3)
            slices[event["pid"], event["tid"]].append((start_ns, end_ns))
    return {thread: sorted(spans, key=lambda s: (s[0], -s[1])) for thread, spans in slices.items()}


def _check_nesting(events: list[dict[str, Any]]) -> list[str]:
    errors = []
    for thread, spans in _list_slices(events).items():
        open_ns: list[int] = []
        for start_ns, end_ns in spans:
            while open_ns and open_ns[-1] <= start_ns:
                open_ns.pop()
            if open_ns and end_ns > open_ns[-1]:
                errors.append(f"thread {thread}: the slice at {start_ns} ns overlaps another")
            open_ns.append(end_ns)
    return errors


def _check_flows(events: list[dict[str, Any]]) -> list[str]:
    """A flow has one start, then steps, then one end, in order of time, each within a slice."""
    slices = _list_slices(events)
    flows = defaultdict(list)
    errors = []
    for event in events:
        if event["ph"] in "stf":
            flows[event["cat"], event["name"], event["id"]].append(event)
            t_ns = round(event["ts"] * 1e3)
            spans = slices.get((event["pid"], event["tid"]), [])
            if not any(start_ns <= t_ns < end_ns for start_ns, end_ns in spans):
                errors.append(f"{event}: in no slice")
    for key, points in flows.items():
        if "".join(point["ph"] for point in points) != f"s{'t' * (len(points) - 2)}f":
            errors.append(f"flow {key}: wrong phases")
        if [point["ts"] for point in points] != sorted(point["ts"] for point in points):
            errors.append(f"flow {key}: not in order of time")
    return errors
