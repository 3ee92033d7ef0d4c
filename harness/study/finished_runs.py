"""The folders of finished runs of a comparison: found, judged again, or removed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trunkline.harness.record.run_folder import RunFolder, StoreError
from trunkline.harness.report import outputs
from trunkline.harness.runs.run_process import RECORD, hash_log, make_record


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Lock the folder against other comparisons. Raises StoreError if it is locked."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(
                f"{folder}: another comparison is using it: wait, or choose another --out"
            ) from None
        yield


def judge_again(run_dir: Path) -> None:
    """Write a run's tables and verdict again if the code of the report has changed."""
    said = read_record(run_dir)
    assert said is not None
    new = make_record(said["identity"], said["log"], said["error"])
    if new != said:
        outputs.build(run_dir)
        RunFolder(run_dir).write_json(RECORD, new)


def clear(folder: Path) -> None:
    """Remove unfinished runs of a job, and runs with a damaged log."""
    for path in folder.glob("*"):
        if path.is_symlink():
            path.unlink()
        elif (said := read_record(path)) is None or not is_whole(path, said):
            shutil.rmtree(path)


def read_record(run_dir: Path) -> dict[str, Any] | None:
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
