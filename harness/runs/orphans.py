"""Find and remove leftovers of dead runs by their tags (see `ownership`).

A run removes its processes, interfaces and files when it ends, even by an error or a signal. After
SIGKILL the kernel removes most of them. What may stay are programs that a user started at a site,
the site's links that such a program keeps alive, and scratch folders. Only things of the calling
user are looked at.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trunkline.harness.network import namespace, wiring
from trunkline.harness.network.interface import NetworkError
from trunkline.harness.network.netlink import Channel, RefusedError
from trunkline.harness.processes.ownership import FOLDER_PREFIX, VARIABLE, Owner

_VARIABLE = f"{VARIABLE}=".encode()
_COMMAND_LETTERS = 60


class Leftover(Protocol):
    """Something that a dead run left; `str` describes it."""

    @property
    def owner(self) -> Owner:
        """The owner that the tag names."""

    def remove(self) -> None:
        """Remove it if it still exists. Raises OSError or NetworkError."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process with the tag in its environment."""

    owner: Owner
    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})"

    def remove(self) -> None:
        """See `Leftover`. Another process that has the same id by now is left alone."""
        # The handle refers to one process even if its id is reused: check the tag, then kill.
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if _read_owner(self.pid) == self.owner:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class Folder:
    """A scratch folder with the tag in its name."""

    owner: Owner
    path: Path

    def __str__(self) -> str:
        return f"folder {self.path}"

    def remove(self) -> None:
        """See `Leftover`."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path)


@dataclass(frozen=True, slots=True)
class Site:
    """The links and the tag of a site whose network namespace the processes `pids` keep alive."""

    owner: Owner
    pids: tuple[int, ...]

    def __str__(self) -> str:
        return f"links of the site in which process {self.pids[-1]} runs"

    def remove(self) -> None:
        """See `Leftover`. Each process is tried: one may have ended, such as the site's shell."""
        for pid in self.pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                self._remove_through(pid)

    def _remove_through(self, pid: int) -> None:
        with _open_channel(pid) as channel:
            if Owner.of_tag(wiring.read_tag(channel)) != self.owner:
                return
            try:
                channel.perform([wiring.remove_links(), wiring.remove_tag()])
            except RefusedError as refused:
                if refused.code != errno.ENODEV:  # the other ends are gone already
                    raise


def find(folders: Iterable[Path]) -> list[Leftover]:
    """All leftovers on this machine; scratch folders are searched for in `folders`."""
    found: list[Leftover] = [*_find_processes(), *_find_folders(folders)]
    going = {left.pid for left in found if isinstance(left, Process)}
    return [*found, *_find_sites(going)]


def find_unfinished(runs_dir: Path) -> Iterator[Leftover]:
    """The folders of runs that ended before they had a verdict."""
    for path in sorted(runs_dir.glob("*/*")):
        owner = Owner.of_run(path)
        if owner and not (path / "verdict.json").exists() and not path.is_symlink():
            yield from _check_folder(path, owner)


def _find_processes() -> Iterator[Process]:
    for pid in _list_my_processes():
        owner = _read_owner(pid)
        if owner and owner.alive() is False and pid != os.getpid():
            words = (_read(pid, "cmdline") or b"").replace(b"\0", b" ").strip()
            yield Process(owner, pid, words.decode(errors="replace")[:_COMMAND_LETTERS])


def _find_folders(folders: Iterable[Path]) -> Iterator[Folder]:
    for folder in dict.fromkeys(folders):
        for path in sorted(folder.glob(f"{FOLDER_PREFIX}*")):
            if owner := Owner.of_tag(path.name):
                yield from _check_folder(path, owner)


def _check_folder(path: Path, owner: Owner) -> Iterator[Folder]:
    """The folder if it is this user's and its owner is dead."""
    with contextlib.suppress(FileNotFoundError):
        about = path.lstat()
        mine = about.st_uid == os.geteuid() and stat.S_ISDIR(about.st_mode)
        if mine and owner.alive() is False:
            yield Folder(owner, path)


def _find_sites(going: set[int]) -> Iterator[Site]:
    """Sites whose namespace is kept by processes other than `going`; one per namespace."""
    keepers: dict[str, list[int]] = {}
    mine = _read_namespace(os.getpid())
    for pid in _list_my_processes():
        where = _read_namespace(pid)
        if where and where != mine and pid not in going:
            keepers.setdefault(where, []).append(pid)
    for pids in keepers.values():
        for pid in pids:
            with contextlib.suppress(OSError, NetworkError), _open_channel(pid) as channel:
                owner = Owner.of_tag(wiring.read_tag(channel))
                if owner and owner.alive() is False:
                    yield Site(owner, tuple(pids))
                break


def _list_my_processes() -> Iterator[int]:
    for process in Path("/proc").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if process.name.isdigit() and process.stat().st_uid == os.geteuid():
                yield int(process.name)


def _read_owner(pid: int) -> Owner | None:
    for variable in (_read(pid, "environ") or b"").split(b"\0"):
        if variable.startswith(_VARIABLE):
            return Owner.of_tag(variable.decode(errors="replace"))
    return None


def _read(pid: int, what: str) -> bytes | None:
    """A file of the process in /proc; None if it cannot be read."""
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return None


def _read_namespace(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return None


@contextlib.contextmanager
def _open_channel(pid: int) -> Iterator[Channel]:
    with namespace.inside_of(pid):
        channel = Channel()
    try:
        yield channel
    finally:
        channel.close()
