"""The folder of each run that was sent here from another machine, until it is fetched.

    ~/.local/state/trunkline/remote/<scenario>-<YYYYmmdd-HHMMSS>[-k]/
        request.json    what to run
        source.yaml     the scenario's file as it was
        files/OPTION/   the folder that an option of its workload names
        owner           the process that carries it out (see `ownership`)
        said.jsonl      what that says (see `carrier`)
        carrier.log     what it printed otherwise
        runs/           where its run folder is

While it is being sent, it is a scratch folder. Nothing of it stays behind: it goes when the run was
fetched or ended, and what a broken connection left half sent goes with the next one that comes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from trunkline.harness.config.paths import ROOT
from trunkline.harness.processes.lines import Lines
from trunkline.harness.processes.ownership import FOLDER_PREFIX, Owner
from trunkline.harness.runs.remote import RemoteError

GRACE_S = 20.0
"""What a run gets to end cleanly, in seconds: more than the embedded kernel takes at most."""

SOURCE, FILES, SAID, LOG, RUNS = "source.yaml", "files", "said.jsonl", "carrier.log", "runs"
LAST_LETTERS = 2000


@dataclass(frozen=True, slots=True)
class Request:
    """What to run: the scenario with everything that it depends on spelled out.

    Attributes:
        name: of the scenario; its runs are filed under it.
        resolved: its text as `scenario.resolve` writes it.
        file: what the file was called where it came from.
        folders: options of the workload whose folders came along, in `files/`.
    """

    name: str
    resolved: str
    file: str
    folders: tuple[str, ...]

    @classmethod
    def of_json(cls, data: Any) -> Request:
        """The inverse of `to_json`. Raises RemoteError."""
        try:
            return cls(data["name"], data["resolved"], data["file"], tuple(data["folders"]))
        except (KeyError, TypeError) as error:
            raise RemoteError(f"this is no request: {error!r} is missing or wrong") from None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class Job:
    """One run that was sent here."""

    path: Path

    @property
    def name(self) -> str:
        """How it is called to people."""
        return self.path.name

    def request(self) -> Request:
        """What to run. Raises RemoteError."""
        try:
            return Request.of_json(json.loads((self.path / "request.json").read_bytes()))
        except (OSError, ValueError) as error:
            raise RemoteError(f"the run {self.name} is damaged: {error}") from None

    def owner(self) -> Owner | None:
        """The process that carries it out."""
        try:
            return Owner.of_tag((self.path / "owner").read_text())
        except OSError:
            return None

    def alive(self) -> bool:
        """Whether it is being carried out."""
        owner = self.owner()
        return owner is not None and owner.alive() is True

    def claim(self) -> None:
        """From now on this process carries it out. Raises OSError."""
        draft = self.path / ".owner"
        draft.write_text(Owner.me().tag)
        draft.rename(self.path / "owner")

    def start(self) -> None:
        """Have it carried out by a process that outlives this one. Raises RemoteError."""
        process = subprocess.Popen(
            [sys.executable, "-m", "trunkline.harness.runs.remote.carrier", str(self.path)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        with process.stdout as output:
            words = output.read().decode(errors="replace")  # until it prints to its own log
        if self.owner() == Owner.me():
            raise RemoteError(f"the run's process did not start: {words[-LAST_LETTERS:].strip()}")

    def end(self) -> None:
        """End its process, politely at first; returns when it is gone."""
        owner = self.owner()
        if owner is None:
            return
        try:
            handle = os.pidfd_open(owner.pid)
        except ProcessLookupError:
            return
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if owner.alive():  # so the process id is still its
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handle, number)
                    select.select([handle], [], [], GRACE_S)
        finally:
            os.close(handle)

    def remove(self) -> None:
        """Delete all of it, and the folders around it that are empty then. Raises OSError."""
        shutil.rmtree(self.path)
        with contextlib.suppress(OSError):  # others are still there
            for folder in (home(), home().parent):
                folder.rmdir()

    def read_log_end(self) -> str:
        """The end of what its process printed."""
        try:
            text = (self.path / LOG).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return text[-LAST_LETTERS:].strip()


@dataclass(slots=True)
class Tail:
    """Reads on in what a job says, from where it was."""

    path: Path
    at: int = 0
    lines: Lines = field(default_factory=Lines)

    def read(self) -> list[dict[str, Any]]:
        """The whole lines that have been added. Raises OSError."""
        with self.path.open("rb") as file:
            file.seek(self.at)
            data = file.read()
        self.at += len(data)
        return [json.loads(line) for line in self.lines.split(data)]


def home() -> Path:
    """Where all jobs of this user are."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "trunkline" / "remote"


def create_draft() -> Job:
    """A job that is yet to be sent: a scratch folder of this process. Raises OSError."""
    while True:
        home().mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # the last job went, and `home` with it
            job = Job(
                Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{Owner.me().tag}-", dir=home()))
            )
            job.claim()
            return job


def finish_draft(job: Job, request: Request, now: datetime) -> Job:
    """Give a draft that was sent in full its name; returns where it is then. Raises OSError."""
    (job.path / "request.json").write_text(json.dumps(request.to_json()))
    (job.path / SAID).touch()
    stem = f"{request.name}-{now:%Y%m%d-%H%M%S}"
    for number in itertools.count(1):
        path = home() / (stem if number == 1 else f"{stem}-{number}")
        try:
            job.path.rename(path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        else:
            return Job(path)
    raise AssertionError("there is always another number")


def find(name: str) -> Job:
    """The job that is called so. Raises RemoteError."""
    found = {job.name: job for job in list_jobs()}
    if name not in found:
        there = f"there are {', '.join(found)}" if found else "there is none at all"
        raise RemoteError(f"there is no run {name}: {there}")
    return found[name]


def list_jobs() -> list[Job]:
    """All jobs that were sent in full, in the order of their names."""
    return [Job(path) for path in _list_folders() if not path.name.startswith(FOLDER_PREFIX)]


def remove_stale_drafts() -> None:
    """Remove what broken connections left half sent."""
    for path in _list_folders():
        owner = Owner.of_tag(path.name) if path.name.startswith(FOLDER_PREFIX) else None
        if owner is not None and not owner.alive():
            with contextlib.suppress(OSError):
                Job(path).remove()


def _list_folders() -> list[Path]:
    return sorted(home().iterdir()) if home().is_dir() else []
