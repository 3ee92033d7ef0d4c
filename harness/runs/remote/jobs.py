"""Runs that another machine sent to this one: each has a folder until it is fetched.

    ~/.local/state/trunkline/remote/<scenario>-<YYYYmmdd-HHMMSS>[-k]/
        request.json    what to run
        source.yaml     the scenario's file as it was
        files/OPTION/   the folder that an option of its workload names
        owner           the process that carries it out (see `ownership`)
        said.jsonl      its progress and result (see `carrier`)
        carrier.log     its other output
        runs/           its run folder

While it is being sent, it is a scratch folder (a draft). The folder is removed when the run was
fetched or ended. Drafts that a broken connection left are removed by the next server.
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
"""Seconds that a run has to end cleanly before SIGKILL; the embedded kernel needs less."""

SOURCE, FILES, SAID, LOG, RUNS = "source.yaml", "files", "said.jsonl", "carrier.log", "runs"
LAST_LETTERS = 2000


@dataclass(frozen=True, slots=True)
class Request:
    """What to run.

    Attributes:
        name: the scenario's name, under which its runs are filed.
        resolved: its text with every value filled in, as `scenario.resolve` writes it.
        file: the scenario's path on the client.
        folders: options of the workload whose folders are sent too, to `files/`.
    """

    name: str
    resolved: str
    file: str
    folders: tuple[str, ...]

    @classmethod
    def of_json(cls, data: Any) -> Request:
        """Read what `to_json` gave. Raises RemoteError."""
        try:
            return cls(data["name"], data["resolved"], data["file"], tuple(data["folders"]))
        except (KeyError, TypeError) as error:
            raise RemoteError(f"the request is invalid: {error!r} is missing or wrong") from None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class Job:
    """One run that was sent to this machine."""

    path: Path

    @property
    def name(self) -> str:
        """The name for users."""
        return self.path.name

    def request(self) -> Request:
        """Read the request. Raises RemoteError."""
        try:
            return Request.of_json(json.loads((self.path / "request.json").read_bytes()))
        except (OSError, ValueError) as error:
            raise RemoteError(f"the run {self.name} is damaged: {error}") from None

    def owner(self) -> Owner | None:
        """The process that carries it out; None if there was none yet."""
        try:
            return Owner.of_tag((self.path / "owner").read_text())
        except OSError:
            return None

    def alive(self) -> bool:
        """Whether its process is running."""
        owner = self.owner()
        return owner is not None and owner.alive() is True

    def claim(self) -> None:
        """Make this process the owner. Raises OSError."""
        draft = self.path / ".owner"
        draft.write_text(Owner.me().tag)
        draft.rename(self.path / "owner")

    def start(self) -> None:
        """Start its process, which outlives this one. Raises RemoteError."""
        process = subprocess.Popen(
            [sys.executable, "-m", "trunkline.harness.runs.remote.carrier", str(self.path)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # the end of the SSH session must not end the run
        )
        assert process.stdout is not None
        with process.stdout as output:
            words = output.read().decode(errors="replace")  # ends when it prints to its log
        if self.owner() == Owner.me():
            raise RemoteError(f"the run's process did not start: {words[-LAST_LETTERS:].strip()}")

    def end(self) -> None:
        """End its process with SIGTERM, then with SIGKILL; return when it has ended."""
        owner = self.owner()
        if owner is None:
            return
        try:
            handle = os.pidfd_open(owner.pid)
        except ProcessLookupError:
            return
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if owner.alive():  # else its process id may be another process's
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handle, number)
                    select.select([handle], [], [], GRACE_S)
        finally:
            os.close(handle)

    def remove(self) -> None:
        """Delete its folder, and parent folders that are empty then. Raises OSError."""
        shutil.rmtree(self.path)
        with contextlib.suppress(OSError):  # others are still there
            for folder in (home(), home().parent):
                folder.rmdir()

    def read_log_end(self) -> str:
        """The end of its process's log."""
        try:
            text = (self.path / LOG).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return text[-LAST_LETTERS:].strip()


@dataclass(slots=True)
class Tail:
    """Reads the lines that were added to a file since the last call."""

    path: Path
    at: int = 0
    lines: Lines = field(default_factory=Lines)

    def read(self) -> list[dict[str, Any]]:
        """The complete lines that were added, as JSON objects. Raises OSError."""
        with self.path.open("rb") as file:
            file.seek(self.at)
            data = file.read()
        self.at += len(data)
        return [json.loads(line) for line in self.lines.split(data)]


def home() -> Path:
    """The folder of all jobs of this user."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "trunkline" / "remote"


def create_draft() -> Job:
    """Create the scratch folder of a job that is about to be sent. Raises OSError."""
    while True:
        home().mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # another server removed `home`
            job = Job(Path(tempfile.mkdtemp(prefix=Owner.me().prefix, dir=home())))
            job.claim()
            return job


def finish_draft(job: Job, request: Request, now: datetime) -> Job:
    """Give a completely sent draft its name, and return the job. Raises OSError."""
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
    """The job of this name. Raises RemoteError."""
    found = {job.name: job for job in list_jobs()}
    if name not in found:
        there = f"there are {', '.join(found)}" if found else "there are no runs"
        raise RemoteError(f"there is no run {name}: {there}")
    return found[name]


def list_jobs() -> list[Job]:
    """All completely sent jobs in the order of their names."""
    return [Job(path) for path in _list_folders() if not path.name.startswith(FOLDER_PREFIX)]


def remove_stale_drafts() -> None:
    """Remove the drafts of broken connections."""
    for path in _list_folders():
        owner = Owner.of_tag(path.name) if path.name.startswith(FOLDER_PREFIX) else None
        if owner is not None and not owner.alive():
            with contextlib.suppress(OSError):
                Job(path).remove()


def _list_folders() -> list[Path]:
    return sorted(home().iterdir()) if home().is_dir() else []
