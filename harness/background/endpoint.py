"""What senders and receivers of background traffic share: a loop over sockets, alarms, reports."""

from __future__ import annotations

import os
import selectors
import struct
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from trunkline.agents.events.background_events import BackgroundSent
from trunkline.agents.events.event import RUNNER, Kind, P
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.timing.exact_waits import Alarm
from trunkline.harness.background.flows import HEADER_BYTES
from trunkline.harness.processes.lines import write_all

PORT = 9
"""The port of the discard service (RFC 863), for UDP and TCP."""

PACKET_HEADER = struct.Struct("!4sI")
"""The start of every packet: MAGIC, and the number of its flow."""

FILE_HEADER = struct.Struct("!4sIQQ")
"""The start of every TCP connection: MAGIC, flow, size in bytes, start in ns of the run's clock."""

MAGIC = b"TLbg"
assert PACKET_HEADER.size == HEADER_BYTES

EPOCH_BYTES, STOP = 8, b"s"
"""The commands to an endpoint: the epoch in nanoseconds, then STOP."""

LISTENING = b"listening"
"""The line among an endpoint's events which says that it has opened its sockets."""

REPORT_NS = 1_000_000_000
CHUNK = memoryview(bytes(1 << 16))


class Endpoint:
    """One process of background traffic: sockets, alarms and counts in one loop.

    It reports the packets and bytes of each flow once per second of the run's clock.
    """

    counted: Kind[Any] = BackgroundSent

    def __init__(self, events_fd: int, commands_fd: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._events_fd, self._commands_fd = events_fd, commands_fd
        self._reports = Alarm()
        self._epoch_ns = self._reported_ns = 0
        self._packets: defaultdict[int, int] = defaultdict(int)
        self._bytes: defaultdict[int, int] = defaultdict(int)
        self._stopped = False
        self.watch(commands_fd, self._obey)
        self.watch(self._reports.fd, self._report)

    def run(self) -> int:
        """Serve until told to stop, and report the rest; returns the exit code."""
        write_all(self._events_fd, LISTENING + b"\n")
        while not self._stopped:
            for key, _ in self._selector.select():
                key.data()
        self._report()
        return 0

    def begin(self) -> None:
        """The run's clock has started; `now_ns` can be used from now on."""

    def watch(self, readable: Any, function: Callable[[], None], events: int = 1) -> None:
        """Call a function whenever a socket or descriptor is ready."""
        self._selector.register(readable, events, function)

    def unwatch(self, readable: Any) -> None:
        self._selector.unregister(readable)

    def now_ns(self) -> int:
        """The run's time."""
        return time.monotonic_ns() - self._epoch_ns

    def count(self, flow: int, size: int, packets: int = 0) -> None:
        """Count bytes of payload and packets of a flow for the next report."""
        self._bytes[flow] += size
        self._packets[flow] += packets

    def log(self, kind: Kind[P], *values: P.args, **fields: P.kwargs) -> None:
        """Log an event, stamped now."""
        write_all(self._events_fd, to_line(kind(self.now_ns(), RUNNER, *values, **fields)))

    def _obey(self) -> None:
        command = os.read(self._commands_fd, EPOCH_BYTES)
        if self._epoch_ns or not command or command == STOP:
            self._stopped = True
            return
        self._epoch_ns = int.from_bytes(command)
        self._reports.set(self._epoch_ns + REPORT_NS)
        self.begin()

    def _report(self) -> None:
        if not self._epoch_ns:
            return
        for flow in sorted(self._bytes):
            since_ns, size, packets = self._reported_ns, self._bytes[flow], self._packets[flow]
            self.log(self.counted, flow=flow, bytes=size, packets=packets, since_ns=since_ns)
        self._bytes.clear()
        self._packets.clear()
        self._reported_ns = self.now_ns()
        steps = self._reported_ns // REPORT_NS + 1
        self._reports.set(self._epoch_ns + steps * REPORT_NS)
