"""What all falsifications share: their list, and ways to find and change lines of a log."""

from __future__ import annotations

import copy
import marshal
from collections.abc import Callable, Iterable
from typing import Any

Line = dict[str, Any]
Log = list[Line]
Falsify = Callable[[Log], Log]

FALSIFICATIONS: dict[str, Falsify] = {}
"""All falsifications by name."""

MS = 1_000_000


class NotHereError(Exception):
    """The log has no event of the kind that the function falsifies."""


def falsification(function: Falsify) -> Falsify:
    """Register a function."""
    FALSIFICATIONS[function.__name__] = function
    return function


def apply(name: str, log: Log) -> Log:
    """The falsified log in order of time. Raises NotHereError."""
    changed = FALSIFICATIONS[name](marshal.loads(marshal.dumps(log)))
    if changed == log:
        raise NotHereError(name)
    return sorted(changed, key=lambda line: line["t_ns"])


def every(log: Log, *events: str, **match: Any) -> Log:
    """All lines of these events with these values, of which there must be some."""
    found = [
        line
        for line in log
        if line["event"] in events and all(line.get(key) == value for key, value in match.items())
    ]
    if not found:
        raise NotHereError(events)
    return found


def first(log: Log, *events: str, **match: Any) -> Line:
    return every(log, *events, **match)[0]


def last(log: Log, *events: str, **match: Any) -> Line:
    """The last such line that a site answers: its site is ready again afterwards."""
    found = every(log, *events, **match)
    ready_ns = {line["site"]: line["t_ns"] for line in log if line["event"] == "ready"}
    end_ns = max(ready_ns.values(), default=0) - 3000 * MS
    answered = [e for e in found if e["t_ns"] < min(end_ns, ready_ns.get(e["site"], end_ns))]
    return (answered or found)[-1]


def middle(log: Log, *events: str, **match: Any) -> Line:
    found = every(log, *events, **match)
    return found[len(found) // 2]


def without(log: Log, lines: Iterable[Line]) -> Log:
    gone = {id(line) for line in lines}
    return [line for line in log if id(line) not in gone]


def finished_task(log: Log) -> int:
    """A task that was completed with all of its members, in the middle of the log."""
    done = [e["task"] for e in every(log, "task_completed") if not e["without"]]
    if not done:
        raise NotHereError("task_completed")
    return int(done[len(done) // 2])


def of_task(log: Log, task: int, *events: str) -> Log:
    return every(log, *events, task=task)


def copy_of(line: Line, **values: Any) -> Line:
    return {**copy.deepcopy(line), **values}
