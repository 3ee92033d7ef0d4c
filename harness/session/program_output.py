"""What comes out of a scenario's own programs: output, copied to a limit, and reports as events."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from trunkline.harness.record import event_reading

OUTPUT_LIMIT_BYTES = 64 << 20
REPORTS_LIMIT = 1_000_000
REPORT_LIMIT_BYTES = 1 << 16

REPORTED = (
    "compute_started",
    "compute_finished",
    "sync_started",
    "sync_finished",
    "round_finished",
    "evaluated",
)
"""The events that a program may report."""

Event = dict[str, Any]


def report(line: bytes, site: str, epoch_ns: int, now_ns: int) -> Event:
    """A program's report as an event of its site; times are of the monotonic clock.

    A report may say when it happened, in `monotonic_ns`; otherwise it is now.
    Raises ValueError, saying what is wrong with it.
    """
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise ValueError(f"{line[:80]!r}: allowed is a JSON object in one line")
    if said.get("event") not in REPORTED:
        raise ValueError(f"event: {said.get('event')!r}: allowed are {', '.join(REPORTED)}")
    at_ns = said.pop("monotonic_ns", now_ns)
    if type(at_ns) is not int or not epoch_ns <= at_ns <= now_ns:
        allowed = "a time of the monotonic clock since the run's start, in ns"
        raise ValueError(f"monotonic_ns: {at_ns!r}: allowed is {allowed}")
    event = {**said, "t_ns": at_ns - epoch_ns, "site": site}
    event_reading.parse(json.dumps(event))
    return event


@dataclass(slots=True)
class Output:
    """One stream of a program, copied to a file up to a limit."""

    file: int
    left_bytes: int

    def copy(self, data: bytes) -> None:
        """Write it, or as much as there is room for. Raises OSError."""
        if self.left_bytes <= 0:
            return
        self.left_bytes -= len(data)
        if self.left_bytes < 0:
            data = data[: self.left_bytes] + b"\n[trunkline: too much; the rest is dropped]\n"
        while data:
            data = data[os.write(self.file, data) :]


@dataclass(slots=True)
class Lines:
    """Bytes as they come, line by line."""

    rest: bytes = b""

    def of(self, data: bytes) -> list[bytes]:
        """The lines that are whole now."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        return lines
