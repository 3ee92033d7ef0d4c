"""Folders of studies: what of them is locked, judged again, removed, and told of the machines."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from trunkline.harness.live.sweep_progress import Running
from trunkline.harness.record.run_folder import RunFolder, StoreError
from trunkline.harness.report import outputs
from trunkline.harness.runs import run_record
from trunkline.harness.runs.run_pool import Finished
from trunkline.harness.runs.run_process import make_record
from trunkline.harness.runs.run_record import RECORD

TRIES = "tries.json"
"""How often runs were started: identity -> number."""

MARK = 8
"""So many characters of what identifies a run end the name of its folder."""


@contextlib.contextmanager
def lock(folder: Path, share: str = "") -> Iterator[None]:
    """Lock a study's folder against other commands, or for one share of it beside other shares.

    A share is written as "1-of-3". Beside it there are only others of 3: others have other runs,
    some of them the same. Raises StoreError if it is locked.
    """
    with contextlib.ExitStack() as stack:

        def take(path: Path, kind: int) -> None:
            _take(stack.enter_context(path.open("a+")), kind, folder)  # NFS wants both

        take(folder / ".lock", fcntl.LOCK_SH if share else fcntl.LOCK_EX)
        if share:
            own = folder / f".lock-{share}"
            take(own, fcntl.LOCK_EX)
            ending = own.name[own.name.rindex("-of-") :]
            for path in folder.glob(".lock-*"):
                if not path.name.endswith(ending):
                    take(path, fcntl.LOCK_SH)
        yield


def _take(file: IO[str], kind: int, folder: Path) -> None:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        raise StoreError(
            f"{folder}: another comparison is using it: wait, or choose another --out"
        ) from None


def judge_again(run_dir: Path) -> str:
    """Write a run's tables and verdict again if the report's code has changed; its outcome."""
    said = run_record.read(run_dir)
    assert said is not None
    new = make_record(said["identity"], said["log"], said["error"])
    if new != said:
        outputs.build(run_dir)
        RunFolder(run_dir).write_json(RECORD, new)
    return run_record.read_outcome(run_dir)


def clear(folder: Path) -> None:
    """Remove unfinished runs of a job, and runs with a damaged log."""
    for path in folder.glob("*"):
        if path.is_symlink():
            path.unlink()
        elif (said := run_record.read(path)) is None or not run_record.is_whole(path, said):
            shutil.rmtree(path)


def find_outdated(runs: Path, names: Iterable[str]) -> dict[str, Path]:
    """Of these missing jobs, a finished run of other code or settings, the latest, by name.

    A name ends with `MARK` characters of what identifies the run.
    """
    found = {}
    for name in names:
        like = sorted(runs.glob(f"{name[:-MARK]}{'?' * MARK}/*"), key=lambda path: path.name)
        if done := [path for path in like if run_record.read(path) is not None]:
            found[name] = done[-1]
    return found


@dataclass(slots=True)
class Tries:
    """How often runs were started, in the folder of a study, by this command and those before.

    A file has the number of each run that is in progress, and of each that was started more than
    once: so the start that was lost with a killed command, or with the machine, is counted. A share
    such as "1-of-3" has a file of its own, which others only read.
    """

    folder: RunFolder
    share: str = ""
    _before: dict[str, int] = field(init=False)
    _known: dict[str, int] = field(init=False)
    _running: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known = self.folder.read_json(self._file, missing={})
        self._before = {}
        for path in self.folder.path.glob("tries*.json"):
            for run, tries in self.folder.read_json(path.name, missing={}).items():
                self._before[run] = max(tries, self._before.get(run, 0))

    def note_running(self, running: Sequence[Running]) -> None:
        """These runs, and no others, are in progress now."""
        now = {each.run: each.starts for each in running}
        if now != self._running:
            self._running = now
            self._write({run: self._before.get(run, 0) + starts for run, starts in now.items()})

    def note_finished(self, result: Finished) -> None:
        """A run has ended; of its other starts, no folders stay."""
        run = result.job.identity
        self._running.pop(run, None)
        tries = self._before.get(run, 0) + result.tries
        self._write({run: tries if tries > 1 else 0})
        if tries > 1:
            clear(self.folder.path / "runs" / result.job.name)

    def forget_running(self) -> None:
        """The user ends the runs in progress, which is no loss."""
        lost = {run: starts - 1 for run, starts in self._running.items()}
        self._write({run: self._before.get(run, 0) + starts for run, starts in lost.items()})
        self._running = {}

    def list_all(self, identities: Sequence[str]) -> list[int]:
        """How often each run was started; nothing if each was started once."""
        tries = [max(self._known.get(each, 1), self._before.get(each, 1)) for each in identities]
        return tries if {*tries} - {1} else []

    @property
    def _file(self) -> str:
        return f"tries-{self.share}.json" if self.share else TRIES

    def _write(self, changes: Mapping[str, int]) -> None:
        """Change numbers; 0 removes one."""
        new = {run: number for run, number in {**self._known, **changes}.items() if number}
        if new != self._known:
            self._known = new
            self.folder.write_json(self._file, new)


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
