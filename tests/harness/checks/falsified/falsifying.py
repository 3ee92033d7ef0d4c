"""What all falsifications share: their list, and ways to find and change lines of a log."""

from __future__ import annotations

import copy
import marshal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
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
    return Original(log).falsify(name)


@dataclass
class Original:
    """A log that is falsified many times; a line is copied again only after it was changed.

    A falsified log has the unchanged lines of all others, so it holds until the next one is made.
    """

    log: Log
    _lines: Log = field(init=False)
    _numbers: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._lines = copy.deepcopy(self.log)
        self._numbers = {id(line): number for number, line in enumerate(self._lines)}

    def falsify(self, name: str) -> Log:
        """The falsified log in order of time. Raises NotHereError."""
        try:
            changed = FALSIFICATIONS[name]([*self._lines])
            if changed == self.log:
                raise NotHereError(name)
        finally:
            self._replace_changed()
        return sorted(changed, key=lambda line: line["t_ns"])

    def number_of(self, line: Line) -> int | None:
        """The number of an unchanged line of the latest falsified log; None for any other."""
        return self._numbers.get(id(line))

    def is_whole(self) -> bool:
        """Whether no falsification has left anything behind, not even 0.0 in place of 0."""
        return [marshal.dumps(e, 2) for e in self._lines] == [marshal.dumps(e, 2) for e in self.log]

    def _replace_changed(self) -> None:
        for number, (line, right) in enumerate(zip(self._lines, self.log, strict=True)):
            if line != right:
                del self._numbers[id(line)]
                self._lines[number] = again = copy.deepcopy(right)
                self._numbers[id(again)] = number


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
