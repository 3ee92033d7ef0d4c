"""Whose a thing is: everything that a run makes and that could outlive it names its owner.

The owner is the process that carries out the run: `trunkline run`, or whatever called the library.
Its tag says which process that is, so nothing has to be kept anywhere else, and whoever finds the
tag can tell whether the owner is still there. Processes carry it in their environment, folders in
their name, site namespaces as the alias of their loopback interface. See `runs.orphans`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "TRUNKLINE_OWNER"
"""The environment variable of processes that a run starts, unless they are the guest's own."""

FOLDER_PREFIX = "trunkline-"
"""A scratch folder's name is this, the tag, and something random."""

_TAG = re.compile(r"([0-9a-f]{8})-([0-9]{7})-([0-9]{12})")


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """A process, told from all others, also from a later one with the same id.

    Attributes:
        place: where `pid` counts: a hash of the machine's boot and the process id namespace.
        pid: its process id.
        started: when it started, in clock ticks since the machine's boot.
    """

    place: str
    pid: int
    started: int

    @classmethod
    def me(cls) -> Owner:
        """This process."""
        pid = os.getpid()
        return cls(_place(), pid, _started(pid) or 0)

    @classmethod
    def of_tag(cls, text: str) -> Owner | None:
        """The owner that a tag names; None where the text has no tag."""
        found = _TAG.search(text)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    @classmethod
    def of_run(cls, run_dir: Path) -> Owner | None:
        """The owner of a run, as its `environment.json` says; None if that is not known."""
        try:
            about = json.loads((run_dir / "environment.json").read_text(encoding="utf-8"))
            return cls.of_tag(about["owner"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def tag(self) -> str:
        """Its text form, equally long for all owners."""
        return f"{self.place}-{self.pid:07}-{self.started:012}"

    def alive(self) -> bool | None:
        """Whether the owner still runs; None if that cannot be known here.

        It cannot for one in another container, on another machine or before the last boot.
        """
        if self.place != _place():
            return None
        return _started(self.pid) == self.started


def environment() -> dict[str, str]:
    """This process's environment with its tag, for the processes that it starts."""
    return {**os.environ, VARIABLE: Owner.me().tag}


@functools.cache
def _place() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    processes = Path("/proc/self/ns/pid").readlink()
    return hashlib.sha256(f"{boot}{processes}".encode()).hexdigest()[:8]


def _started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is none or it is dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat[stat.rindex(")") + 2 :].split()
    return None if state in "ZX" else int(fields[18])
