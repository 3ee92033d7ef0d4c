"""Finished runs on disk: a run's folder is finished when it has `run.json` and its whole log.

Whatever carried a run out, and however that ended, these folders are what a study continues from.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.report import outputs
from trunkline.harness.runs.run_process import RECORD, hash_log, make_record


def find(runs_dir: Path, wanted: Collection[str]) -> dict[str, Path]:
    """Identity -> run folder of the wanted runs that have finished; damaged ones are left out."""
    found = {}
    for run_dir in sorted(runs_dir.glob("*/*")):
        if run_dir.is_symlink():
            continue
        said = _read_record(run_dir)
        if said is not None and said["identity"] in wanted and _is_whole(run_dir, said):
            found[said["identity"]] = run_dir
    return found


def judge_again(run_dir: Path) -> None:
    """Write a run's tables and verdict again if the code of the report has changed."""
    said = _read_record(run_dir)
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
        elif (said := _read_record(path)) is None or not _is_whole(path, said):
            shutil.rmtree(path)


def _read_record(run_dir: Path) -> dict[str, Any] | None:
    """The content of a finished run's `run.json`; None if there is none."""
    try:
        said: dict[str, Any] = json.loads((run_dir / RECORD).read_text(encoding="utf-8"))
        return said if {"identity", "log", "error"} <= said.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _is_whole(run_dir: Path, said: Mapping[str, Any]) -> bool:
    """Whether the log is unchanged since the run ended; this reads the whole log."""
    try:
        return bool(said["log"] == hash_log(run_dir))
    except OSError:
        return False
