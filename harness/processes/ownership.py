"""The owner of everything that a run makes and that could outlive it.

The owner is the process that carries out the run: `trunkline run`, or a program that calls the
library. Everything carries the owner's tag: processes in their environment, folders in their name,
site namespaces as the alias of their loopback interface. The tag alone tells whether the owner
still runs, so no list of owners is kept. See `harness.runs.orphans`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from trunkline.harness.config.bounded_files import read_bytes

VARIABLE = "TRUNKLINE_OWNER"
"""The environment variable with the tag, of all processes that a run starts on the host."""

FOLDER_PREFIX = "trunkline-"
"""The name of a scratch folder is this prefix, the tag, and a random part."""

MOST_BYTES = 10_000_000
"""The size of the largest file `environment.json`."""

_TAG = re.compile(r"([0-9a-f]{8})-([0-9]{7})-([0-9]{12})")


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """A process, distinct from all others, also from a later process with the same id.

    Attributes:
        place: where `pid` is valid: a hash of the machine's boot and of the process id namespace.
        pid: its process id.
        started: the time of its start, in clock ticks since the machine's boot.
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
        """The owner in the first tag of a text; None if the text has no tag."""
        found = _TAG.search(text)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    @classmethod
    def of_run(cls, run_dir: Path) -> Owner | None:
        """The owner of a run, from its `environment.json`; None if that cannot be read."""
        try:
            about = json.loads(read_bytes(run_dir / "environment.json", MOST_BYTES))
            return cls.of_tag(about["owner"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def tag(self) -> str:
        """The owner as text, of the same length for all owners."""
        return f"{self.place}-{self.pid:07}-{self.started:012}"

    @property
    def prefix(self) -> str:
        """The beginning of the names of its scratch folders."""
        return f"{FOLDER_PREFIX}{self.tag}-"

    def alive(self) -> bool | None:
        """Whether the owner still runs.

        None if this process cannot know: the owner is in another container, on another machine or
        from before the last boot.
        """
        if self.place != _place():
            return None
        return _started(self.pid) == self.started


def environment() -> dict[str, str]:
    """The environment of this process plus its tag, for the processes that it starts."""
    return {**os.environ, VARIABLE: Owner.me().tag}


@functools.cache
def _place() -> str:
    identity = Path("/proc/sys/kernel/random/boot_id")
    boot = identity.read_text() if identity.exists() else ""  # gVisor has none
    processes = Path("/proc/self/ns/pid").readlink()
    return hashlib.sha256(f"{boot}{processes}".encode()).hexdigest()[:8]


def _started(pid: int) -> int | None:
    """The start of a process in clock ticks since boot; None if it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat[stat.rindex(")") + 2 :].split()
    return None if state in "ZX" else int(fields[18])
