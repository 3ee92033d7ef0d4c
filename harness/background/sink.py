"""The receiver of a site's background traffic: it counts what arrives, and throws it away."""

from __future__ import annotations

import contextlib
import socket

from trunkline.agents.events.background_events import BackgroundFile, BackgroundReceived
from trunkline.harness.background.endpoint import FILE_HEADER, MAGIC, PACKET_HEADER, PORT, Endpoint

RECEIVE_BYTES = 1 << 16
BACKLOG = 1024
BUFFER_BYTES = 1 << 22
_SO_RCVBUFFORCE = 33


class Sink(Endpoint):
    """Counts the packets and files of the flows to a site; everything else is ignored."""

    counted = BackgroundReceived

    def __init__(
        self, flows: frozenset[int], address: str, events_fd: int, commands_fd: int
    ) -> None:
        super().__init__(events_fd, commands_fd)
        self.flows = flows
        self._packets_in = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._packets_in.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
        self._packets_in.bind((address, PORT))
        self.watch(self._packets_in, self._receive_packets)
        self._listener = socket.create_server((address, PORT), backlog=BACKLOG)
        self._listener.setblocking(False)
        self.watch(self._listener, self._accept)

    def _receive_packets(self) -> None:
        with contextlib.suppress(OSError):  # none are left
            while True:
                packet = self._packets_in.recv(RECEIVE_BYTES)
                if len(packet) >= PACKET_HEADER.size:
                    magic, flow = PACKET_HEADER.unpack_from(packet)
                    if magic == MAGIC and flow in self.flows:
                        self.count(flow, len(packet), packets=1)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setblocking(False)
                Arriving(self, connection)


class Arriving:
    """A file that arrives. Its connection is closed at its end, or if it is of no flow."""

    def __init__(self, sink: Sink, connection: socket.socket) -> None:
        self._sink, self._connection = sink, connection
        self._head, self._got = b"", 0
        self._flow = self._size = self._start_ns = 0
        sink.watch(connection, self._read)

    def _read(self) -> None:
        try:
            if not self._size:
                self._read_head()
            while self._size > 0 and self._got < self._size:
                data = self._connection.recv(RECEIVE_BYTES)
                self._sink.count(self._flow, len(data))
                self._got += len(data)
                if not data:
                    raise ConnectionError
        except BlockingIOError:
            return
        except OSError:
            self._close()
            return
        fields = {"flow": self._flow, "bytes": self._size, "start_ns": self._start_ns}
        self._sink.log(BackgroundFile, **fields)
        self._close()

    def _read_head(self) -> None:
        while len(self._head) < FILE_HEADER.size:
            data = self._connection.recv(FILE_HEADER.size - len(self._head))
            self._head += data
            if not data:
                raise ConnectionError
        magic, self._flow, self._size, self._start_ns = FILE_HEADER.unpack(self._head)
        if magic != MAGIC or self._flow not in self._sink.flows or not self._size:
            raise ConnectionError

    def _close(self) -> None:
        self._sink.unwatch(self._connection)
        self._connection.close()
