"""A site's network namespace: how to make and enter it, and how to set its parameters.

Only a file handle keeps it; it needs no process. The kernel removes it, with everything inside,
when its last handle is closed and its last process has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from trunkline.harness.network.interface import NetworkError
from trunkline.harness.network.netlink import Channel

_CLONE_NEWNET = 0x40000000
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
_SETTINGS = Path("/proc/sys/net")
_STATISTICS = Path("/proc/thread-self/net")
_MOST_BYTES = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A new network namespace for a site, with a netlink channel into it."""

    def __init__(self, site: str) -> None:
        self.site = site
        self._handles = contextlib.ExitStack()
        with contextlib.ExitStack() as made, _restoring_namespace():
            try:
                _call(_libc.unshare, _CLONE_NEWNET)
                self.handle = _open_current()
                made.callback(os.close, self.handle)
                self.channel = Channel()
                made.callback(self.channel.close)
            except OSError as error:
                what = f"cannot make a network namespace: {error.strerror}"
                raise NetworkError(what, f"site {site}") from error
            self._handles = made.pop_all()

    def close(self) -> None:
        """Closes the handle of the namespace; it ends with the last process inside."""
        self._handles.close()

    def enter(self) -> None:
        """Moves the calling thread into the namespace permanently."""
        _call(_libc.setns, self.handle, _CLONE_NEWNET)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Moves the calling thread into the namespace until the context ends."""
        with _restoring_namespace():
            self.enter()
            yield

    def write_settings(self, settings: Mapping[str, str]) -> None:
        """Sets kernel parameters by their path below `net` (`ipv4/ip_forward`).

        Raises:
            NetworkError: the kernel has no such parameter or refuses the value.
        """
        with self.inside():
            for name, value in settings.items():
                try:
                    (_SETTINGS / name).write_text(value)
                except OSError as error:
                    what = f"net/{name} = {value}: {error.strerror}"
                    raise NetworkError(what, f"site {self.site}") from error

    def statistic(self, name: str) -> int:
        """A counter of the namespace, by its name in /proc/net/netstat or snmp. Raises KeyError."""
        return _find_statistic(name, self._read_statistics)

    def _read_statistics(self, file: str) -> str:
        with self.inside():
            return (_STATISTICS / file).read_text()


class Statistics:
    """The counters of a namespace. Files stay open, so that a reading takes no virtual time."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._files: dict[str, int] = {}

    def close(self) -> None:
        """Closes the files."""
        for opened in self._files.values():
            os.close(opened)
        self._files.clear()

    def read(self, name: str) -> int:
        """A counter, by its name in /proc/net/netstat or snmp. Raises KeyError."""
        return _find_statistic(name, self._read_again)

    def _read_again(self, file: str) -> str:
        if file not in self._files:
            with self._namespace.inside():
                self._files[file] = os.open(_STATISTICS / file, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._files[file], _MOST_BYTES, 0).decode()


def _find_statistic(name: str, read: Callable[[str], str]) -> int:
    for file in ("netstat", "snmp"):
        lines = read(file).splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            found = dict(zip(names.split(), values.split(), strict=True))
            if name in found:
                return int(found[name])
    raise KeyError(name)


def check_rights() -> None:
    """Raises NetworkError if this process lacks the rights to build networks."""
    status = Path("/proc/self/status").read_text()
    held = int(status.partition("CapEff:")[2].split(maxsplit=1)[0], 16)
    lacking = [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]
    if lacking:
        what = f"building a network needs {' and '.join(lacking)}; this process (user id "
        raise NetworkError(
            f"{what}{os.geteuid()}) has not", "this machine", "backend: embedded, or run as root"
        )


@contextlib.contextmanager
def inside_of(pid: int) -> Iterator[None]:
    """Moves the calling thread into the network namespace of a process until the context ends.

    Raises:
        OSError: there is no such process, or this one lacks the right.
    """
    handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with _restoring_namespace():
            _call(_libc.setns, handle, _CLONE_NEWNET)
            yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _restoring_namespace() -> Iterator[None]:
    """Returns the calling thread to its present namespace when the context ends."""
    outside = _open_current()
    try:
        yield
    finally:
        _call(_libc.setns, outside, _CLONE_NEWNET)
        os.close(outside)


def _open_current() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _call(function: Callable[..., int], *arguments: int) -> None:
    if function(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
