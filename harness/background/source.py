"""The sender of a site's background traffic: UDP packets and files over TCP, each at its time."""

from __future__ import annotations

import contextlib
import errno
import heapq
import os
import selectors
import socket
from collections.abc import Callable, Iterable, Iterator

from trunkline.agents.events.background_events import BackgroundFailed, BackgroundSent
from trunkline.agents.timing.exact_waits import Alarm
from trunkline.harness.background.endpoint import (
    CHUNK,
    FILE_HEADER,
    MAGIC,
    PACKET_HEADER,
    PORT,
    Endpoint,
)
from trunkline.harness.background.flows import Flow

_IN_PROGRESS = (0, errno.EINPROGRESS)


class Source(Endpoint):
    """Sends what the schedules of a site's flows say."""

    counted = BackgroundSent

    def __init__(
        self,
        flows: Iterable[Flow],
        schedule: Callable[[Flow], Iterator[tuple[int, int]]],
        address: Callable[[str], str],
        events_fd: int,
        commands_fd: int,
    ) -> None:
        super().__init__(events_fd, commands_fd)
        self._address = address
        self._alarm = Alarm()
        self._packets_out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._schedules = {flow: schedule(flow) for flow in flows}
        self._due: list[tuple[int, int, int, Flow]] = []
        for flow in self._schedules:
            self._plan_next(flow)
        self.watch(self._alarm.fd, self._send_due)

    def begin(self) -> None:
        self._set_alarm()

    def _plan_next(self, flow: Flow) -> None:
        if (entry := next(self._schedules[flow], None)) is not None:
            heapq.heappush(self._due, (entry[0], flow.number, entry[1], flow))

    def _set_alarm(self) -> None:
        self._alarm.set(self._epoch_ns + self._due[0][0] if self._due else None)

    def _send_due(self) -> None:
        now_ns = self.now_ns()
        while self._due and self._due[0][0] <= now_ns:
            _, _, size, flow = heapq.heappop(self._due)
            if flow.entry.kind == "tcp":
                File(self, flow, self._address(flow.dst), size)
            else:
                self._send_packet(flow, size)
            self._plan_next(flow)
        self._set_alarm()

    def _send_packet(self, flow: Flow, size: int) -> None:
        packet = PACKET_HEADER.pack(MAGIC, flow.number) + bytes(size - PACKET_HEADER.size)
        # A queue that is full, or a link that is down, loses the packet, as any sender's.
        with contextlib.suppress(OSError):
            self._packets_out.sendto(packet, (self._address(flow.dst), PORT))
        self.count(flow.number, size, packets=1)


class File:
    """One transfer over a connection of its own, which the receiver closes when it has all."""

    def __init__(self, source: Source, flow: Flow, address: str, size: int) -> None:
        self._source, self._flow, self._left = source, flow, size
        self._head = FILE_HEADER.pack(MAGIC, flow.number, size, source.now_ns())
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        code = self._socket.connect_ex((address, PORT))
        if code in _IN_PROGRESS:
            source.watch(self._socket, self._write, selectors.EVENT_WRITE)
        else:
            self._fail(OSError(code, os.strerror(code)), watched=False)

    def _write(self) -> None:
        try:
            while self._head:
                self._head = self._head[self._socket.send(self._head) :]
            while self._left:
                sent = self._socket.send(CHUNK[: self._left])
                self._source.count(self._flow.number, sent)
                self._left -= sent
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error)
            return
        self._source.unwatch(self._socket)
        self._source.watch(self._socket, self._read_end)

    def _read_end(self) -> None:
        try:
            self._socket.recv(1)
        except OSError as error:
            self._fail(error)
            return
        self._source.unwatch(self._socket)
        self._socket.close()

    def _fail(self, error: OSError, watched: bool = True) -> None:
        if watched:
            self._source.unwatch(self._socket)
        self._socket.close()
        reason = error.strerror or str(error)
        self._source.log(BackgroundFailed, flow=self._flow.number, reason=reason)
