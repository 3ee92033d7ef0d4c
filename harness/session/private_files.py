"""The files of a private run: temporary folders of its own, and user files that it cannot change.

A session calls `enter` before it starts anything, so every process of the run sees the same. The
mounts are in a namespace of the session and end with its last process. On the host's kernel a run
has its own temporary folders, but may change the user's files.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.harness.config.paths import OWN_FOLDERS, ROOT

if TYPE_CHECKING:  # `run_command` imports this file, and starts at once
    from trunkline.harness.scenario.settings import Scenario

TEMPORARY = ("/tmp", "/dev/shm")
"""The folders that `enter` replaces; the embedded kernel has its own /run and /dev anyway."""

_FOLDER_OPTIONS = ("data", "folder")
_SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH")

_NEW_MOUNTS = 0x20000
_READ_ONLY, _REMOUNT, _BIND, _PRIVATE_BELOW = 0x1, 0x20, 0x1000, 0x44000
_libc = ctypes.CDLL(None, use_errno=True)


def list_folders(scenario: Scenario, run_dir: Path) -> list[Path]:
    """The folders that a run needs besides its code: its own one, and those the scenario names."""
    named = (scenario.workload.options.get(option) for option in _FOLDER_OPTIONS)
    found = [Path(name) for name in named if isinstance(name, str) and Path(name).is_dir()]
    return [run_dir, *map(Path, scenario.files.writable), *found]


def enter(scenario: Scenario, run_dir: Path) -> None:
    """Move this process into the files of a private run; does nothing for any other run.

    Raises OSError.
    """
    if not scenario.files.private:
        return
    writable = [run_dir, *map(Path, scenario.files.writable)]
    needed = [*list_folders(scenario, run_dir), *_list_files(scenario)]
    enter_mounts(writable, needed, embedded=scenario.backend == "embedded")


def enter_mounts(writable: Sequence[Path], needed: Sequence[Path], *, embedded: bool) -> None:
    """Move this process to mounts of its own, with empty temporary folders.

    In the embedded kernel, all other folders are read-only but the `writable` ones; Trunkline's
    code and the files in `needed` stay visible in temporary folders. Raises OSError.
    """
    hidden = OWN_FOLDERS if embedded else TEMPORARY
    places = choose_places([*needed, *_list_code()], writable, hidden)
    here = Path.cwd()
    _call("make its mounts", _libc.unshare, _NEW_MOUNTS)
    _mount("none", "/", flags=_PRIVATE_BELOW)
    # A handle still leads to a folder that a mount hides, so it can be bound there afterwards.
    handles = {place: os.open(place, os.O_PATH | os.O_CLOEXEC) for place in places}
    if embedded:
        _mount("none", "/", flags=_REMOUNT | _BIND | _READ_ONLY)
    for folder in TEMPORARY:
        _mount("none", folder, kind="tmpfs", options="mode=1777")
    for place, handle in handles.items():
        _make_place(place, handle)
        _mount(f"/proc/self/fd/{handle}", str(place), flags=_BIND)
        if embedded:
            access = 0 if places[place] else _READ_ONLY
            _mount("none", str(place), flags=_REMOUNT | _BIND | access)
        os.close(handle)
    os.chdir(here)  # the same path, in the mounts that are there now


def choose_places(
    needed: Iterable[Path], writable: Sequence[Path], hidden: Sequence[str]
) -> dict[Path, bool]:
    """Where to bind what a run needs, outer places first -> whether the run may write there.

    These are the writable folders, and everything in a hidden folder. A symbolic link in a hidden
    folder needs a place of its own, beside the one to which it leads.
    """

    def is_hidden(path: Path) -> bool:
        return any(path.is_relative_to(each) and path != Path(each) for each in hidden)

    may_write = {folder.resolve() for folder in writable}
    links = {path.absolute() for path in (*needed, *writable)}
    targets = may_write | {path.resolve() for path in needed}
    wanted = {path for path in links | targets if is_hidden(path)} | may_write
    places: dict[Path, bool] = {}
    for path in sorted(wanted, key=lambda path: (len(path.parts), path)):
        target = path.resolve()
        allowed = any(target.is_relative_to(folder) for folder in may_write)
        around = [places[outer] for outer in path.parents if outer in places]
        if not around or (allowed and not around[0]):
            places[path] = allowed
    return places


def _list_code() -> list[Path]:
    """The folders with this Python, Trunkline, and all entries of the search paths."""
    names = [name for path in _SEARCH_PATHS for name in os.environ.get(path, "").split(os.pathsep)]
    found = (ROOT, *map(Path, (sys.prefix, sys.base_prefix, *filter(None, [*sys.path, *names]))))
    return [path for path in found if path.exists()]


def _list_files(scenario: Scenario) -> list[Path]:
    """The files that the workload's options name."""
    files = getattr(scenario.workload.module, "files", None)
    return list(files(**scenario.workload.options)) if files else []


def _make_place(place: Path, handle: int) -> None:
    """Make a folder, or a file, to which another one can be bound."""
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def _mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode(), flags, options.encode())
    _call(f"mount {target}", _libc.mount, *arguments)


def _call(what: str, function: Any, *arguments: Any) -> None:
    if function(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot {what}: {os.strerror(error)}")
