"""Finished runs on disk: a run's folder is finished when it has `run.json` and its whole log.

Whatever carried a run out, and however that ended, these folders are what a study continues from.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trunkline.harness.record.run_folder import RunFolder, StoreError
from trunkline.harness.report import outputs
from trunkline.harness.runs.run_pool import Finished
from trunkline.harness.runs.run_process import RECORD, hash_log, make_record

TRIES = "tries.json"
"""How often runs were started, in the folder of a study: identity -> number, if that is not 1."""


@contextlib.contextmanager
def lock(folder: Path, share: str = "") -> Iterator[None]:
    """Lock a study's folder against other commands, or for one share of it beside other shares.

    Raises StoreError if it is locked.
    """
    with contextlib.ExitStack() as stack:
        for name, kind in (
            (".lock", fcntl.LOCK_SH if share else fcntl.LOCK_EX),
            *([(f".lock-{share}", fcntl.LOCK_EX)] if share else []),
        ):
            file = stack.enter_context((folder / name).open("a+"))  # NFS wants both
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
            except OSError:
                raise StoreError(
                    f"{folder}: another comparison is using it: wait, or choose another --out"
                ) from None
        yield


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


def note_tries(folder: Path, result: Finished) -> None:
    """Note that a run was started more than once."""
    output = RunFolder(folder)
    known = output.read_json(TRIES, missing={})
    output.write_json(TRIES, {**known, result.job.identity: result.tries})
    clear(folder / "runs" / result.job.name)


def read_tries(folder: Path, identities: Sequence[str]) -> list[int]:
    """How often each run was started; nothing if each was started once."""
    known = RunFolder(folder).read_json(TRIES, missing={})
    tries = [int(known.get(each, 1)) for each in identities]
    return tries if {*tries} - {1} else []


def describe_machine(run_dir: Path) -> dict[str, str]:
    """Columns of a trial: its host, processor, versions, and why its result depends on them."""
    found = RunFolder(run_dir).read_json("environment.json", missing={})
    host = found.get("host", {})
    if "name" not in host:
        return {}
    packages = found["packages"]
    versions = [f"trunkline {found['version']}", f"Python {found['python']}"]
    versions += [f"{name} {packages[name]}" for name in ("numpy", "torch") if packages.get(name)]
    matters = {"processor_matters": "; ".join(found.get("processor_matters", ()))}
    return {
        "host": host["name"],
        "processor": host["processor"],
        "versions": ", ".join(versions),
        **({} if not matters["processor_matters"] else matters),
    }


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
