"""Send and receive many UDP packets per system call, with the kernel's arrival times.

A measurement must not disturb the network. So a whole burst is sent by one system call, and the
receiver sleeps while packets arrive: the kernel stamps each of them. The functions `sendmmsg` and
`recvmmsg` are not in Python's standard library, hence ctypes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = struct.Struct("=IIq")
"""The payload's first bytes: train, number within the train, sending time in ns."""

BATCH = 512
"""Packets per system call."""

_RECEIVE_BUFFER_BYTES = 1 << 28
_SEND_BUFFER_BYTES = 1 << 28
_SO_RCVBUFFORCE, _SO_SNDBUFFORCE, _SO_TIMESTAMPNS = 33, 32, 35
_HEADER_FIELDS = np.dtype([("train", "=u4"), ("number", "=u4"), ("sent_ns", "=i8")])
_ANCILLARY_BYTES = 32  # struct cmsghdr and struct timespec

_libc = ctypes.CDLL(None, use_errno=True)


class _Vector(ctypes.Structure):
    """The kernel's struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """The kernel's struct mmsghdr."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_uint),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_long),
        ("size", ctypes.c_uint),
    )


class Sender:
    """Sends numbered packets of one train to an address through one interface."""

    def __init__(self, address: tuple[str, int], device: str, train: int, size: int) -> None:
        """Open the socket; `size` is a packet's payload in bytes, at least that of `HEADER`."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BUFFER_BYTES)
        self._socket.connect(address)
        self._packets = np.zeros((BATCH, size), np.uint8)
        self._headers = self._packets[:, : HEADER.size].view(_HEADER_FIELDS)[:, 0]
        self._headers["train"] = train
        self._messages = _make_messages(self._packets)

    def send(self, first: int, count: int) -> int:
        """Send packets `first` to `first + count - 1`; return the last sending time in ns.

        Packets of one system call have the same sending time. Raises OSError.
        """
        now_ns = 0
        for start in range(first, first + count, BATCH):
            size = min(BATCH, first + count - start)
            self._headers["number"][:size] = np.arange(start, start + size)
            now_ns = time.time_ns()
            self._headers["sent_ns"][:size] = now_ns
            taken = 0
            while taken < size:
                rest = ctypes.byref(self._messages, taken * ctypes.sizeof(_Message))
                taken += _call("sendmmsg", self._socket.fileno(), rest, size - taken)
        return now_ns

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class Receiver:
    """Collects packets that arrive at an address, with arrival times of the kernel's clock."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)
        self._socket.bind(address)
        self._packets = np.zeros((BATCH, HEADER.size), np.uint8)
        self._ancillary = np.zeros((BATCH, _ANCILLARY_BYTES), np.uint8)
        self._unused = _make_messages(self._packets, self._ancillary)

    def drain(self) -> NDArray[np.int64]:
        """Take all packets that have arrived, in order of arrival.

        Returns:
            A row per packet: train, number, sending time (ns), arrival time (ns).
        """
        found = list(self._read_batches())
        return np.concatenate(found) if found else np.zeros((0, 4), np.int64)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _read_batches(self) -> Iterator[NDArray[np.int64]]:
        while True:
            messages = (_Message * BATCH).from_buffer_copy(self._unused)
            count = _call("recvmmsg", self._socket.fileno(), messages, BATCH)
            if not count:
                return
            headers = self._packets[:count].view(_HEADER_FIELDS)[:, 0]
            stamps = self._ancillary[:count, 16:].copy().view(np.int64)  # behind struct cmsghdr
            arrived_ns = stamps[:, 0] * 1_000_000_000 + stamps[:, 1]
            columns = (headers["train"], headers["number"], headers["sent_ns"], arrived_ns)
            yield np.stack([column.astype(np.int64) for column in columns], axis=1)


def _make_messages(packets: NDArray[np.uint8], ancillary: NDArray[np.uint8] | None = None) -> Any:
    """Make a struct mmsghdr for each row of `packets` (and of `ancillary`)."""
    messages = (_Message * len(packets))()
    vectors = (_Vector * len(packets))()
    for row, (message, vector) in enumerate(zip(messages, vectors, strict=True)):
        vector.base, vector.size = packets[row].ctypes.data, packets.shape[1]
        message.vectors, message.vector_count = ctypes.pointer(vector), 1
        if ancillary is not None:
            message.control = ancillary[row].ctypes.data
            message.control_size = ancillary.shape[1]
    return messages


def _call(name: str, handle: int, messages: Any, count: int) -> int:
    """Call `sendmmsg` or `recvmmsg`; return the number of messages, 0 if it would block."""
    extra = (None,) if name == "recvmmsg" else ()
    done = getattr(_libc, name)(handle, messages, count, 0, *extra)
    if done >= 0:
        return int(done)
    error = ctypes.get_errno()
    if error == errno.EAGAIN:
        return 0
    raise OSError(error, os.strerror(error))
