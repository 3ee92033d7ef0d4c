"""Finds the lines that a scenario expects in the output of its programs, and logs the first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.run_events import ExpectedOutput
from trunkline.harness.processes.lines import Lines
from trunkline.harness.scenario.sections.expectations import Expectation
from trunkline.workloads.program_roles import is_of

LINE_BYTES = 4096
"""Longer lines are cut."""


@dataclass(slots=True)
class OutputWatch:
    """What is still expected of one stream of the program `who` at a site.

    `left` are the numbers of the expectations in the scenario, and the expectations.
    """

    site: str
    who: str
    left: dict[int, Expectation]
    lines: Lines = field(default_factory=Lines)

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
        """The events of a last line that had no end."""
        line, self.lines.rest = self.lines.rest, b""
        yield from self._take(line, t_ns)

    def _take(self, line: bytes, t_ns: int) -> Iterator[LoggedEvent]:
        text = line[:LINE_BYTES].decode(errors="replace")
        for number in [number for number, each in self.left.items() if each.find(text)]:
            del self.left[number]
            yield LoggedEvent.of(ExpectedOutput(t_ns, self.site, self.who, number, text))
