"""Finds the lines that a scenario expects in the output of its programs, and logs the first one.

Of lines whose number is out of bounds, the nearest one is logged when the program exits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trunkline.agents.events.event import RUNNER
from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.run_events import ExpectedOutput, OutputOutOfBounds
from trunkline.harness.processes.lines import Lines
from trunkline.harness.scenario.sections.expectations import Expectation
from trunkline.workloads.program_roles import is_of

LINE_BYTES = 4096
"""Longer lines are cut."""


@dataclass(slots=True)
class _Nearest:
    """Lines with a number out of bounds: how many, and the nearest one."""

    lines: int
    line: str
    distance: float


@dataclass(slots=True)
class OutputWatch:
    """What is still expected of one stream of the program `who` at a site.

    `left` are the numbers of the expectations in the scenario, and the expectations; `nearest` has
    the lines that an expectation would allow if its bounds were others.
    """

    site: str
    who: str
    left: dict[int, Expectation]
    lines: Lines = field(default_factory=Lines)
    nearest: dict[int, _Nearest] = field(default_factory=dict)

    @classmethod
    def of_streams(
        cls, site: str, who: str, expected: Sequence[Expectation]
    ) -> tuple[OutputWatch, OutputWatch]:
        """Watch a program's output and its errors for what is expected of either."""
        left = {
            number: each
            for number, each in enumerate(expected)
            if each.line is not None
            and (each.sites is None or any(is_of(who, named) for named in each.sites))
        }
        return cls(site, who, left), cls(site, who, left)

    def events(self, data: bytes, t_ns: int) -> Iterator[LoggedEvent]:
        """The events of the expected lines that this data completes.

        A carriage return ends a line, too: programs draw their progress with it.
        """
        for line in self.lines.split(data.replace(b"\r", b"\n")):
            yield from self._take(line, t_ns)
        self.lines.rest = self.lines.rest[:LINE_BYTES]

    def end(self, t_ns: int) -> Iterator[LoggedEvent]:
        """The events of a last line that had no end, and of numbers out of bounds."""
        line, self.lines.rest = self.lines.rest, b""
        if line:
            yield from self._take(line, t_ns)
        nearest, self.nearest = self.nearest, {}
        for number, each in sorted(nearest.items()):
            yield LoggedEvent.of(
                OutputOutOfBounds(t_ns, RUNNER, self.who, number, each.lines, each.line)
            )

    def _take(self, line: bytes, t_ns: int) -> Iterator[LoggedEvent]:
        text = line[:LINE_BYTES].decode(errors="replace")
        for number, each in list(self.left.items()):
            distance = each.distance(text)
            if distance == 0:
                del self.left[number]
                self.nearest.pop(number, None)
                yield LoggedEvent.of(ExpectedOutput(t_ns, RUNNER, self.who, number, text))
            elif distance is not None:
                seen = self.nearest.setdefault(number, _Nearest(0, text, distance))
                seen.lines += 1
                if distance < seen.distance:
                    seen.line, seen.distance = text, distance
