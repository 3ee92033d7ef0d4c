"""The event loop of an agent that shares its process: it waits in an epoll that all loops share.

In the embedded kernel a system call costs about 30 microseconds, so a turn of a loop makes few.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import select
import selectors
import socket
import weakref
from collections.abc import Mapping
from typing import Any

from trunkline.agents.timing.clock import VirtualLoop

Found = list[tuple[selectors.SelectorKey, int]]


class MemberSelector(selectors.BaseSelector):
    """The descriptors that one loop waits for, in an epoll that is shared.

    Who waits in that epoll puts what is ready into `ready`, as descriptors and their events there,
    and then gives the loop a turn. `owners` tells whose a descriptor of the epoll is.
    """

    def __init__(self, name: str, epoll: select.epoll, owners: dict[int, str]) -> None:
        self.ready: list[tuple[int, int]] = []
        self._name = name
        self._epoll = epoll
        self._owners = owners
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._is_paused = False

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `selectors.BaseSelector`."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if fd in self._keys:
            raise KeyError(f"descriptor {fd} is registered already")
        self._keys[fd] = key = selectors.SelectorKey(fileobj, fd, events, data)
        self._watch(key)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """See `selectors.BaseSelector`."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys.pop(fd)
        self._unwatch(fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `selectors.BaseSelector`."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        old, key = self._keys[fd], selectors.SelectorKey(fileobj, fd, events, data)
        self._keys[fd] = key
        if events != old.events and not self._is_paused:
            self._epoll.modify(fd, _to_mask(events))
        return key

    def select(self, timeout: float | None = None) -> Found:
        """What is ready; it waits only while the loop is closed, which is a wait of its own."""
        found, self.ready = self.ready, []
        if not found and timeout != 0:
            poll = select.poll()
            for fd, key in self._keys.items():
                poll.register(fd, _to_mask(key.events))
            found = poll.poll(None if timeout is None else max(0.0, timeout) * 1e3)
        return [
            (self._keys[fd], _to_events(mask) & self._keys[fd].events)
            for fd, mask in found
            if fd in self._keys
        ]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """See `selectors.BaseSelector`."""
        return self._keys

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        """See `selectors.BaseSelector`."""
        return self._keys[fileobj if isinstance(fileobj, int) else fileobj.fileno()]

    def close(self) -> None:
        """Forget all descriptors."""
        self.pause()
        self._keys.clear()

    def pause(self) -> None:
        """Wait for none of the descriptors until `resume`."""
        if not self._is_paused:
            for fd in self._keys:
                self._unwatch(fd)
            self._is_paused = True
            self.ready.clear()

    def resume(self) -> None:
        """Wait for the descriptors again."""
        if self._is_paused:
            self._is_paused = False
            for key in self._keys.values():
                self._watch(key)

    def _watch(self, key: selectors.SelectorKey) -> None:
        if not self._is_paused:
            self._owners[key.fd] = self._name
            self._epoll.register(key.fd, _to_mask(key.events))

    def _unwatch(self, fd: int) -> None:
        if not self._is_paused:
            self._owners.pop(fd, None)
            with contextlib.suppress(OSError):  # it is closed already, as in `EpollSelector`
                self._epoll.unregister(fd)


class MemberLoop(VirtualLoop):
    """The event loop of one agent. It knows the agent's sockets, which are in its site."""

    def __init__(self, selector: MemberSelector) -> None:
        super().__init__(selector)
        self.selector = selector
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def add_socket(self, sock: socket.socket) -> None:
        """Have `close_sockets` close this socket too, unless it is closed before."""
        self._sockets.add(sock)

    def close_sockets(self) -> None:
        """Close the agent's sockets in the order in which the kernel closes those of a process.

        So their peers hear of the end in the same order in every run.
        """
        for sock in sorted(self._sockets, key=socket.socket.fileno):
            sock.close()

    async def sock_accept(self, sock: socket.socket) -> tuple[socket.socket, Any]:
        """Accept a connection, as asyncio does."""
        connection, address = await super().sock_accept(sock)
        self.add_socket(connection)
        return connection, address

    @property
    def due_s(self) -> float:
        """When it needs a turn even if no descriptor is ready; infinite if never."""
        # asyncio has no public way to ask for its timers and callbacks.
        if self._ready:  # type: ignore[attr-defined]
            return -math.inf
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return timers[0].when() if timers else math.inf

    def take_turn(self) -> None:
        """Do what can be done now, without waiting.

        `stop` and `run_forever` are asyncio's own way to do so, but make more system calls. What a
        turn leaves behind, `leave` ends.
        """
        asyncio.events._set_running_loop(self)
        self._stopping = True
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            self._stopping = False

    @staticmethod
    def leave() -> None:
        """No loop runs now, as other code of asyncio must know."""
        asyncio.events._set_running_loop(None)


def _to_mask(events: int) -> int:
    reads, writes = events & selectors.EVENT_READ, events & selectors.EVENT_WRITE
    return (select.EPOLLIN if reads else 0) | (select.EPOLLOUT if writes else 0)


def _to_events(mask: int) -> int:
    """As `selectors.EpollSelector` does: an error or the end wakes readers and writers."""
    writes = selectors.EVENT_WRITE if mask & ~select.EPOLLIN else 0
    return writes | (selectors.EVENT_READ if mask & ~select.EPOLLOUT else 0)
