"""The output of a scenario's own programs, copied up to a limit, and their reports as events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from trunkline.agents.events import event_reading
from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.run_events import AgentFailed
from trunkline.harness.processes.lines import Lines, decode, write_all

OUTPUT_LIMIT_BYTES = 64 << 20
"""So much of a stream is kept."""

FLOOD_LINES, FLOOD_BYTES, FLOOD_NS = 500_000, 1 << 30, 1_000_000_000
"""A program that writes more to a stream within this time of a virtual clock writes without a
pause, so that the clock hardly moves."""

REPORTS_LIMIT = 1_000_000
REPORT_LIMIT_BYTES = 1 << 16

REPORTED = (
    "compute_started",
    "compute_finished",
    "sync_started",
    "sync_finished",
    "round_finished",
    "evaluated",
    "call_started",
    "call_finished",
    "timing_stopped",
)
"""The events that a program may report."""


NOTE = "[trunkline: "
"""How a line in the output of a program begins that it did not write."""


def report(
    line: bytes, site: str, epoch_ns: int, now_ns: int, first_process: int = 0
) -> LoggedEvent:
    """A program's report as an event of its site; times are of the monotonic clock.

    The site's processes of this program are numbered from `first_process` on.

    A report may say when it happened, in `monotonic_ns`; otherwise it is now.
    Raises ValueError, saying what is wrong with it.
    """
    said = decode(line)
    if said is None:
        raise ValueError(f"{line[:80]!r}: expected a JSON object in one line")
    if said.get("event") not in REPORTED:
        raise ValueError(f"event: {said.get('event')!r}: expected one of {', '.join(REPORTED)}")
    at_ns = said.pop("monotonic_ns", now_ns)
    if type(at_ns) is not int or not epoch_ns <= at_ns <= now_ns:
        allowed = "a time of the monotonic clock since the run's start, in ns"
        raise ValueError(f"monotonic_ns: {at_ns!r}: expected {allowed}")
    if type(said.get("process")) is int:
        said["process"] += first_process
    text = json.dumps({**said, "t_ns": at_ns - epoch_ns, "site": site}) + "\n"
    return LoggedEvent(event_reading.parse(text), text.encode())


def failure(site: str, t_ns: int, reason: str) -> LoggedEvent:
    """The event that says why a site's program failed."""
    return LoggedEvent.of(AgentFailed(t_ns, site, reason))


@dataclass(slots=True)
class Reports:
    """The reports of one program, up to the first wrong one and up to a limit."""

    site: str
    first_process: int = 0
    left: int = REPORTS_LIMIT
    lines: Lines = field(default_factory=Lines)

    def events(self, data: bytes, epoch_ns: int, now_ns: int) -> Iterator[LoggedEvent]:
        """The events of the reports that this data completes; after a wrong one, its failure."""
        for line in self.lines.split(data):
            if self.left:
                self.left -= 1
                try:
                    if not self.left:
                        raise ValueError(f"expected at most {REPORTS_LIMIT - 1} reports")
                    yield report(line, self.site, epoch_ns, now_ns, self.first_process)
                except ValueError as error:
                    self.left = 0
                    yield failure(self.site, now_ns - epoch_ns, f"a wrong report: {error}")
        self.lines.rest = self.lines.rest[:REPORT_LIMIT_BYTES]


@dataclass(slots=True)
class Output:
    """One stream of a program, copied to a file up to a limit."""

    file: int
    left_bytes: int
    within_line: bool = False
    since_ns: int = 0
    lines: int = 0
    size_bytes: int = 0

    def note(self, text: str) -> None:
        """Write a line of our own. Raises OSError."""
        start = "\n" if self.within_line else ""
        write_all(self.file, f"{start}{NOTE}{text}]\n".encode())

    def copy(self, data: bytes) -> None:
        """Write the data up to the limit. Raises OSError."""
        if self.left_bytes <= 0:
            return
        self.left_bytes -= len(data)
        if self.left_bytes < 0:
            data = data[: self.left_bytes] + f"\n{NOTE}too much; the rest is dropped]\n".encode()
        self.within_line = not data.endswith(b"\n")
        write_all(self.file, data)

    def find_flood(self, data: bytes, now_ns: Callable[[], int]) -> str:
        """What the program wrote without a pause, in words; empty if it is not too much.

        `now_ns` reads the run's clock, which takes virtual time: only once in so much output.
        """
        self.lines += data.count(b"\n")
        self.size_bytes += len(data)
        many_lines = self.lines > FLOOD_LINES
        if not many_lines and self.size_bytes <= FLOOD_BYTES:
            return ""
        since_ns, self.since_ns = self.since_ns, now_ns()
        self.lines = self.size_bytes = 0
        what = f"{FLOOD_LINES} lines" if many_lines else f"{FLOOD_BYTES >> 30} GiB"
        within = f"within {FLOOD_NS / 1e9:g} s of the run's time"
        return f"more than {what} {within}" if self.since_ns - since_ns < FLOOD_NS else ""
