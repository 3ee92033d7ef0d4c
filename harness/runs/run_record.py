"""What makes a run's folder a finished run: `run.json`, beside the whole log that it was made of.

Whatever carried a run out, and however that ended, studies continue from such folders.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

RECORD = "run.json"
"""The last file of a run's folder: it marks the run as complete.

It has the run's identity, the hash of its log, the hash of the code of its report (`judged_by`),
and why the session failed, if it did (`error`).
"""


def find(runs_dir: Path, wanted: Collection[str], name: str = "*") -> dict[str, Path]:
    """Identity -> folder of the wanted runs that have finished; damaged ones are left out.

    `name` is the name that the runs are filed under, if it is known.
    """
    found = {}
    for run_dir in sorted(runs_dir.glob(f"{name}/*")):
        if run_dir.is_symlink():
            continue
        said = read(run_dir)
        if said is not None and said["identity"] in wanted and is_whole(run_dir, said):
            found[said["identity"]] = run_dir
    return found


def read(run_dir: Path) -> dict[str, Any] | None:
    """The content of a finished run's `run.json`; None if there is none."""
    try:
        said: dict[str, Any] = json.loads((run_dir / RECORD).read_text(encoding="utf-8"))
        return said if {"identity", "log", "error"} <= said.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def is_whole(run_dir: Path, said: Mapping[str, Any]) -> bool:
    """Whether the log is unchanged since the run ended; this reads the whole log."""
    try:
        return bool(said["log"] == hash_log(run_dir))
    except OSError:
        return False


def read_outcome(run_dir: Path) -> str:
    """The outcome of a finished run. Raises OSError and ValueError."""
    said = json.loads((run_dir / RECORD).read_text(encoding="utf-8"))
    judged = json.loads((run_dir / "verdict.json").read_text(encoding="utf-8"))
    return combine_outcome(judged["verdict"], said["error"])


def hash_log(run_dir: Path) -> str:
    """A hash of a run's log, to notice later changes. Raises OSError."""
    with (run_dir / "events.jsonl").open("rb") as log:
        return hashlib.file_digest(log, "sha256").hexdigest()


def combine_outcome(verdict: str, error: str | None) -> str:
    """The outcome of a run: a session that failed cannot `pass`."""
    return "fail" if error and verdict == "pass" else verdict
