"""What a user expects of a run, beyond the promises of Trunkline (pure)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from trunkline.harness.config import units
from trunkline.harness.config.document import make_printable
from trunkline.harness.scenario.scheme_settings import Count, Duration

WHAT = ("tasks", "rounds", "accuracy_percent", "carried_bytes", "output", "never", "exit", "check")
"""The options of which an expectation has exactly one."""

WITH = {
    "sites": ("rounds", "output", "never", "exit"),
    "link": ("carried_bytes",),
    "at_least": ("output",),
    "at_most": ("output",),
    "folder": ("check",),
}
"""The other options, and the kinds of expectations that they are for."""

LETTERS = 60
"""The name of a check has this much of its command."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One thing that must be true of a run, or its verdict is `fail`; see docs/expect.md.

    Options:
        tasks: at least this number of tasks were completed; of programs, that many reported
            synchronizations ended at all of their sites.
        rounds: each of `sites`, by default all, finished at least this number of rounds together
            with others.
        accuracy_percent: an evaluation had at least this accuracy.
        carried_bytes: `link` carried at least this much, headers included.
        output: a program wrote a line in which this regular expression is found, to its output or
            its errors; with `sites`, the programs at each of them did.
        never: no program, or none at `sites`, wrote a line in which this regular expression is
            found.
        exit: the programs at each of `sites`, by default all, exited with this code.
        check: a program with its arguments, which is started with the run's folder as its last
            argument when the run is over; it exits with 0 if the run is as it should be.
        by_s: the time at which it must be true, from the run's start; by default the run's end.
        sites: the sites that are meant, for `rounds`, `output`, `never` and `exit`; or programs,
            `n1.role`.
        link: the link that is meant by `carried`: `a -> b`, or `a-b` for each direction.
        at_least: the number in the first group of `output` is this or more.
        at_most: the number in the first group of `output` is this or less.
        folder: the working folder of `check`, relative to the scenario's file.
    """

    tasks: Count | None = None
    rounds: Count | None = None
    accuracy_percent: Annotated[float, Field(gt=0, le=100)] | None = None
    carried_bytes: Annotated[int, Field(ge=1)] | None = None
    output: str | None = None
    never: str | None = None
    exit: Annotated[int, Field(ge=0, le=255)] | None = None
    check: tuple[str | int | float, ...] | None = None
    by_s: Duration | None = None
    sites: tuple[str, ...] | None = None
    link: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    folder: str = "."

    def __post_init__(self) -> None:
        kinds = [name for name in WHAT if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise ValueError(f"expected exactly one of {', '.join(map(_key, WHAT))}")
        for name, allowed in WITH.items():
            default = type(self).__dataclass_fields__[name].default
            if kinds[0] not in allowed and getattr(self, name) != default:
                raise ValueError(f"{_key(name)}: only with {' or '.join(map(_key, allowed))}")
        if self.carried_bytes is not None and self.link is None:
            raise ValueError("link: expected the link that carries so much")
        if self.sites == ():
            raise ValueError("sites: expected at least one site")
        if self.sites and len({*self.sites}) < len(self.sites):
            raise ValueError("sites: expected each site once")
        if None not in (self.at_least, self.at_most) and self.at_least > self.at_most:  # type: ignore[operator]
            raise ValueError("at_least: expected at_most or less")
        if self.check is not None and (self.by_s is not None or not self.check):
            raise ValueError("check: expected a program and its arguments, without by")
        if self.line is not None:
            self._check_line(self.line)

    def _check_line(self, line: str) -> None:
        try:
            pattern = re.compile(line)
        except re.error as error:
            raise ValueError(f"{self.kind}: expected a regular expression: {error}") from None
        if pattern.search("") and pattern.search("\uffff"):
            raise ValueError(f"{self.kind}: expected a pattern that is not in every line")
        if (self.at_least, self.at_most) != (None, None) and not pattern.groups:
            raise ValueError("output: expected a group around the number, such as loss=([0-9.]+)")

    @property
    def kind(self) -> str:
        """The option that says what is expected."""
        return next(name for name in WHAT if getattr(self, name) is not None)

    @property
    def line(self) -> str | None:
        """The regular expression of lines that programs are to write, or never to write."""
        return self.output if self.never is None else self.never

    def __str__(self) -> str:
        return " ".join(self._words())

    def _words(self) -> Iterator[str]:
        match self.kind:
            case "tasks":
                yield f"{self.tasks} tasks"
            case "rounds":
                yield f"{self.rounds} rounds"
            case "accuracy_percent":
                yield f"accuracy {self.accuracy_percent:g} %"
            case "carried_bytes":
                yield f"{units.render(self.carried_bytes or 0, units.SIZE_BYTES)} on {self.link}"
            case "output":
                yield f"output '{make_printable(self.output or '')}'"
            case "never":
                yield f"never output '{make_printable(self.never or '')}'"
            case "exit":
                yield f"exit code {self.exit}"
            case "check":
                words = " ".join(map(str, self.check or ()))
                yield f"check {words if len(words) <= LETTERS else words[:LETTERS] + '...'}"
        if self.at_least is not None:
            yield f"of at least {self.at_least:g}"
        if self.at_most is not None:
            yield f"of at most {self.at_most:g}"
        if self.sites is not None:
            yield f"at {', '.join(self.sites)}"
        if self.by_s is not None:
            yield f"by {self.by_s:g} s"

    def find(self, line: str) -> bool:
        """Whether a line of output is the expected one, or one that is never to be written."""
        return self.distance(line) == 0

    def distance(self, line: str) -> float | None:
        """How far the number in a line is out of bounds; None if the pattern is not in the line.

        It is infinite if there is no number where one is expected.
        """
        found = re.search(self.line or "", line)
        if found is None:
            return None
        if self.at_least is None and self.at_most is None:
            return 0.0
        try:
            number = float(found[1])
        except (TypeError, ValueError):
            return math.inf
        lowest = -math.inf if self.at_least is None else self.at_least
        highest = math.inf if self.at_most is None else self.at_most
        if lowest <= number <= highest:
            return 0.0
        return math.inf if math.isnan(number) else max(lowest - number, number - highest)


def _key(name: str) -> str:
    return units.split_name(name)[0]
