"""The runs in progress on this machine, as commands name them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from trunkline.harness.commands.terminal import UsageError
from trunkline.harness.live import control_socket


def is_name(name: str, runs_dir: Path) -> bool:
    """Whether this is a run's folder, or the name of a scenario that has runs here."""
    return _is_run(Path(name)) or any(runs_dir.glob(f"{name}/*/resolved.yaml"))


def find(name: str, runs_dir: Path) -> Path:
    """The folder of a run, which may have ended. Raises UsageError."""
    if _is_run(Path(name)):
        return Path(name)
    going = sorted(link.parent for link in runs_dir.glob(f"{name}/*/{control_socket.LINK}"))
    if len(going) == 1:
        return going[0]
    which = f"these are running: {', '.join(map(str, going))}" if going else "none is running"
    raise UsageError(
        f"{name}: expected a run's folder, or the name of a scenario with exactly one current "
        f"run in {runs_dir}; {which}"
    )


@contextlib.contextmanager
def connect(run_dir: Path) -> Iterator[socket.socket]:
    """A connection to a run's control socket. Raises UsageError if there is none."""
    try:
        sock = control_socket.connect(run_dir)
    except PermissionError:
        raise UsageError(f"{run_dir}: allowed only for the user who started it") from None
    except OSError:
        raise UsageError(f"{run_dir}: this run has ended") from None
    with sock:
        yield sock


def _is_run(path: Path) -> bool:
    return (path / "resolved.yaml").exists()
