"""Packet capture: what arrives over directed links, as files for tcpdump and Wireshark.

A packet socket on the interface at a link's destination gets a copy of each packet that arrives
there, with the time at which it arrived. So a file has what one direction of a link delivers, after
its queue, its losses and its delay. Packets that a blackhole swallows at that interface are in it,
too.

One process reads the sockets of all links, fifty times a second, and writes the files. It never
asks for the time, because that would advance the clock of the embedded kernel.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import xxhash

from trunkline.agents.events.run_events import LinkCapture
from trunkline.agents.planning.plan import Directed
from trunkline.agents.timing.exact_waits import Alarm
from trunkline.harness.processes.fork import Process, fork
from trunkline.harness.processes.lines import write_all

MAGIC, VERSION, ETHERNET = 0xA1B23C4D, (2, 4), 1
"""Of the pcap format with nanoseconds (IETF draft-ietf-opsawg-pcap)."""

FOLDER = "capture"
"""The folder of captures in that of a run."""

PERIOD_NS = 20_000_000
"""The interval at which the process reads what has arrived."""

_NEVER = 0
_TIME_BYTES = 8

_ALL_PROTOCOLS = 3
_PACKET_LEVEL, _STATISTICS, _IGNORE_OUTGOING = 263, 6, 23
_RECEIVE_BUFFER_FORCE, _STAMP_NS = 33, 35
_BUFFER_BYTES = 128 << 20
"""The most memory for packets that arrived at an interface and have not been read."""

_STAMP = struct.Struct("@ll")
_CONTROL_BYTES = socket.CMSG_SPACE(_STAMP.size)
_STATISTICS_COUNTS = struct.Struct("=II")
_SUMMARY = struct.Struct("=QQQ32s")
"""What the process says of a file: its packets, those missed, their bytes, the file's digest."""

_READ_BYTES = 1 << 20
_READ_AT_ONCE = 1000
"""The packets of one link that are read before it is the turn of the next one."""


def file_name(link: Directed) -> str:
    """The name of a link's file; names of sites have no `_`."""
    return "_".join(link) + ".pcap"


def file_header(snap_bytes: int) -> bytes:
    """The head of a pcap file whose times are in nanoseconds and whose packets are Ethernet's."""
    return struct.pack("=IHHiIII", MAGIC, *VERSION, 0, 0, snap_bytes, ETHERNET)


def file_record(t_ns: int, content: bytes, size_bytes: int) -> bytes:
    """One packet of a pcap file: its time, its first bytes, and the size that it had."""
    seconds, rest_ns = divmod(t_ns, 10**9)
    return struct.pack("=IIII", seconds, rest_ns, len(content), size_bytes) + content


def digest_of(path: Path) -> str:
    """XXH3 of a file (16 bytes, hex). Raises OSError."""
    found = xxhash.xxh3_128()
    with path.open("rb") as file:
        while content := file.read(_READ_BYTES):
            found.update(content)
    return found.hexdigest()


def open_tap(device: str) -> socket.socket:
    """A socket for copies of the packets that arrive at an interface of the current namespace."""
    with contextlib.ExitStack() as opened:
        # Without a protocol it gets nothing before it is bound to the interface.
        tap = opened.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        tap.setsockopt(_PACKET_LEVEL, _IGNORE_OUTGOING, 1)
        tap.setsockopt(socket.SOL_SOCKET, _STAMP_NS, 1)
        tap.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER_FORCE, _BUFFER_BYTES)
        tap.setblocking(False)
        tap.bind((device, _ALL_PROTOCOLS))
        opened.pop_all()
        return tap


class Capture:
    """The captures of a run. Leaving the context ends them; every file is then complete."""

    def __init__(
        self, taps: Mapping[Directed, socket.socket], folder: Path, snap_bytes: int
    ) -> None:
        """Start to write what arrives at `taps`, which become this object's, into `folder`.

        Without taps nothing happens. Raises OSError.
        """
        self._links = tuple(taps)
        self._process: Process | None = None
        self._told_fd = self._said_fd = -1
        self._epoch_ns = _NEVER
        if taps:
            folder.mkdir(exist_ok=True)
            self._start(taps, folder, snap_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pids(self) -> frozenset[int]:
        """The ids of the processes that write the files: one, or none without taps."""
        return frozenset() if self._process is None else frozenset({self._process.pid})

    def begin(self, epoch_ns: int) -> None:
        """Take a monotonic time as the zero of all times; a second call does nothing.

        Packets that arrived before that time are left out.
        """
        if self._epoch_ns == _NEVER:
            self._epoch_ns = epoch_ns
            self._tell(epoch_ns)

    def end(self) -> tuple[LinkCapture, ...]:
        """Write what has arrived, and close the files; a second call returns nothing.

        Raises:
            OSError: a file could not be written.
        """
        if self._process is None:
            return ()
        self._tell(_NEVER)
        process, self._process = self._process, None
        os.close(self._told_fd)
        try:
            with os.fdopen(self._said_fd, "rb") as said:
                counts = said.read()
            if code := process.wait():
                raise OSError(f"the packet capture ended with code {code}; see log/session.log")
        finally:
            process.end()
        return tuple(
            LinkCapture(*link, packets, missed, size, digest.decode())
            for link, (packets, missed, size, digest) in zip(
                self._links, _SUMMARY.iter_unpack(counts), strict=True
            )
        )

    def _tell(self, time_ns: int) -> None:
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._told_fd, time_ns.to_bytes(_TIME_BYTES))

    def _start(self, taps: Mapping[Directed, socket.socket], folder: Path, snap_bytes: int) -> None:
        before_ns, wall_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        wall_ahead_ns = wall_ns - (before_ns + after_ns) // 2
        told, self._told_fd = os.pipe()
        self._said_fd, said = os.pipe()

        def act() -> int:
            with contextlib.ExitStack() as opened:
                files = [
                    _File(
                        tap,
                        opened.enter_context((folder / file_name(link)).open("wb", 0)),
                        snap_bytes,
                    )
                    for link, tap in taps.items()
                ]
                _write_until_told(files, told, wall_ahead_ns)
                write_all(said, b"".join(file.summary() for file in files))
            return 0

        self._process = fork(act)
        for fd in (told, said):
            os.close(fd)
        for tap in taps.values():
            tap.close()


class _File:
    """One link's file, and the socket whose packets go into it."""

    def __init__(self, tap: socket.socket, file: io.FileIO, snap_bytes: int) -> None:
        self.tap = tap
        self._file = file
        self._packets = self._bytes = 0
        self._digest = xxhash.xxh3_128()
        self._buffer = bytearray(snap_bytes)
        self._write(file_header(snap_bytes))

    def write(self, zero_ns: int) -> bool:
        """Write the packets that wait, up to a limit; returns whether there may be more."""
        records, more = [], True
        for _ in range(_READ_AT_ONCE):
            try:
                size, said, _, _ = self.tap.recvmsg_into(
                    [self._buffer], _CONTROL_BYTES, socket.MSG_TRUNC
                )
            except BlockingIOError:
                more = False
                break
            except OSError as error:
                if error.errno != errno.ENETDOWN:  # a fault has cut the link's carrier
                    raise
                continue
            seconds, rest_ns = _STAMP.unpack(said[0][2])
            t_ns = seconds * 10**9 + rest_ns - zero_ns
            if t_ns >= 0:
                kept = bytes(self._buffer[: min(size, len(self._buffer))])
                records.append(file_record(t_ns, kept, size))
                self._bytes += size
        self._write(b"".join(records))
        self._packets += len(records)
        return more

    def _write(self, content: bytes) -> None:
        write_all(self._file.fileno(), content)
        self._digest.update(content)

    def summary(self) -> bytes:
        """The file as _SUMMARY; packets are missed if they did not fit into the socket's buffer."""
        counts = _STATISTICS_COUNTS
        said = self.tap.getsockopt(_PACKET_LEVEL, _STATISTICS, counts.size)
        _, missed = counts.unpack(said)
        digest = self._digest.hexdigest().encode()
        return _SUMMARY.pack(self._packets, missed, self._bytes, digest)


def _write_until_told(files: Sequence[_File], told: int, wall_ahead_ns: int) -> None:
    """Write packets from the epoch on, which `told` gives first, until it gives _NEVER."""
    epoch_ns = int.from_bytes(os.read(told, _TIME_BYTES))
    if epoch_ns == _NEVER:
        return
    zero_ns = epoch_ns + wall_ahead_ns
    with contextlib.closing(Alarm()) as alarm:
        events = select.poll()
        events.register(told, select.POLLIN)
        events.register(alarm.fd, select.POLLIN)
        at_ns = epoch_ns
        ended = False
        while not ended:
            at_ns += PERIOD_NS
            alarm.set(at_ns)
            ended = told in {fd for fd, _ in events.poll()}
            while sum(file.write(zero_ns) for file in files):  # each has its turn
                pass
