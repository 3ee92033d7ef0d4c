"""The run folder. No other module writes its files.

    runs/<scenario>/<YYYYmmdd-HHMMSS[-k]>/
        scenario.yaml resolved.yaml environment.json events.jsonl log/
        tables/*.csv plots/*.png plots/*.svg plots/*.pdf verdict.json report.html capture/*.pcap
        charges.txt (of programs whose charges are recorded or replayed)
    runs/<scenario>/latest -> the run that ended last, of those that have events

A file is written under another name and then renamed. So after a full disk or a crash there is the
old file or the new one, but never a part of a file.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from trunkline.harness.config.bounded_files import check_regular, read_bytes
from trunkline.harness.config.paths import ROOT
from trunkline.harness.processes.needs import WRITING_REMEDIES, explain_error
from trunkline.harness.processes.ownership import Owner

PACKAGES = ("matplotlib", "mininet", "numpy", "pandas", "pydantic", "scipy", "torch")
"""Packages whose versions can change a result."""

PLACES = 6
"""The decimals of numbers in tables: they keep microseconds, bytes and bits per second."""

LATEST = "latest"

MOST_BYTES = 100_000_000
"""The size of the largest file of a run, apart from its event log."""

MOST_LOG_BYTES, MOST_LINE = 2_000_000_000, 100_000_000
"""The size of the largest event log, and the characters of its longest line."""


class StoreError(Exception):
    """A file cannot be read or written; the message has its path, the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run; every `write_` method replaces one of its files."""

    path: Path

    @classmethod
    def create(cls, root: Path, scenario: str, now: datetime) -> RunFolder:
        """Make a new folder under `root`, named after the time. Raises StoreError."""
        home = root / scenario
        name = f"{now:%Y%m%d-%H%M%S}"
        with _writing(home):
            home.mkdir(parents=True, exist_ok=True)
        with _writing(home / LATEST):
            if (home / LATEST).is_dir() and not (home / LATEST).is_symlink():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        for number in itertools.count(1):
            path = home / (name if number == 1 else f"{name}-{number}")
            with _writing(path), contextlib.suppress(FileExistsError):
                path.mkdir(parents=True)  # `close_unjudged` of another run may remove `home`
                break
        folder = cls(path)
        try:
            folder.prepare("log", "tables", "plots")
        except StoreError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return folder

    def be_latest(self) -> None:
        """Let `latest` point to this run. Call it when the run is complete. Raises StoreError."""
        _point(self.path.with_name(LATEST), self.path.name)

    def close_unjudged(self) -> None:
        """Keep a run that ended by an error or a signal, as far as it has something to tell.

        With events it can be reported, and is the latest. Without events and logs it is removed.
        Raises OSError and StoreError.
        """
        if self.has_events():
            self.be_latest()
        elif not any(file.stat().st_size for file in self.log.glob("*")):
            self.remove()
            with contextlib.suppress(OSError):  # it has other runs
                self.path.parent.rmdir()

    def has_events(self) -> bool:
        """Whether the event log has a whole line, so that the run can be reported."""
        try:
            with self.events.open("rb") as log:
                return log.readline().endswith(b"\n")
        except OSError:
            return False

    def remove(self) -> None:
        """Delete the run, and `latest` if it points here."""
        latest = self.path.with_name(LATEST)
        if latest.is_symlink() and latest.readlink() == Path(self.path.name):
            latest.unlink()
        shutil.rmtree(self.path)

    def prepare(self, *parts: str) -> None:
        """Make these subfolders, if they do not exist yet. Raises StoreError."""
        for part in parts:
            with _writing(self.path / part):
                (self.path / part).mkdir(parents=True, exist_ok=True)

    def clear_figures(self) -> None:
        """Remove the figures, which show tables of before. Raises StoreError."""
        for path in (self.path / "plots").glob("*.*"):
            if path.suffix in (".pdf", ".png", ".svg"):
                with _writing(path):
                    path.unlink(missing_ok=True)

    @property
    def events(self) -> Path:
        """The event log."""
        return self.path / "events.jsonl"

    @property
    def log(self) -> Path:
        """Where the agents' own output goes."""
        return self.path / "log"

    def read_text(self, name: str, missing: str | None = None) -> str:
        """The content of a file, or `missing` if there is no such file.

        Raises StoreError if the file cannot be read, or does not exist and `missing` is None.
        """
        path = self.path / name
        try:
            return read_bytes(path, MOST_BYTES).decode()
        except FileNotFoundError:
            if missing is not None:
                return missing
            raise StoreError(f"{path}: is missing, so {self.path} is not a complete run") from None
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(_say_unreadable(path, error)) from None

    def read_log(self) -> Iterator[str]:
        """The lines of the event log, one by one. Raises StoreError."""
        path = self.events
        try:
            check_regular(path, MOST_LOG_BYTES)
            with path.open(encoding="utf-8") as file:
                for number in itertools.count(1):
                    line = file.readline(MOST_LINE + 1)
                    if len(line) > MOST_LINE:
                        what = f"line {number}: expected {MOST_LINE} characters or fewer"
                        raise OSError(errno.EFBIG, what)
                    if not line:
                        return
                    yield line
        except FileNotFoundError:
            raise StoreError(f"{path}: is missing, so {self.path} is not a complete run") from None
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(_say_unreadable(path, error)) from None

    def read_json(self, name: str, missing: dict[str, Any]) -> dict[str, Any]:
        """The JSON object in a file, or `missing` if there is no such file.

        Raises StoreError if the file is no JSON object.
        """
        if not (self.path / name).exists():
            return missing
        try:
            value = json.loads(self.read_text(name))
        except ValueError as error:
            raise StoreError(f"{self.path / name}: is no JSON: {error}") from None
        if not isinstance(value, dict):
            raise StoreError(f"{self.path / name}: expected a JSON object")
        return value

    def write_text(self, name: str, text: str) -> None:
        """Write a text file; characters that UTF-8 cannot encode become `?`. Raises StoreError."""
        self.write_bytes(name, text.encode(errors="replace"))

    def write_json(self, name: str, value: Any) -> None:
        """Write a value as readable JSON."""
        self.write_text(name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        """Write `tables/<name>.csv`, with `PLACES` decimals."""
        self.write_text(
            f"tables/{name}.csv", table.to_csv(index=False, float_format=f"%.{PLACES}f")
        )

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file completely or not at all. Raises StoreError."""
        path = self.path / name
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with _writing(path):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                draft.write_bytes(content)
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)


def describe_version() -> dict[str, str | None]:
    """The version and the commit of this Trunkline, as `environment.json` has them."""
    return {"version": version("trunkline"), "commit": _commit(ROOT)}


def environment(*, backend: str, clock: str, seed: int, guest_kernel: str | None) -> dict[str, Any]:
    """The content of `environment.json`: everything besides the scenario that may affect a result.

    `owner` is the process that carries out the run (see `ownership`). `guest_kernel` is the release
    of the embedded kernel, or None if the network ran in the host's. `commit` is None outside a git
    checkout; it ends in `-dirty` if files were changed.
    """
    return {
        **describe_version(),
        "backend": backend,
        "clock": clock,
        "seed": seed,
        "kernel": guest_kernel or platform.release(),
        "host": {
            "system": platform.system(),
            "kernel": platform.release(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "name": platform.node(),
            "processor": _read_processor(),
        },
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "owner": Owner.me().tag,
    }


@functools.cache
def _read_processor() -> str:
    """The processor's name, as the kernel tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2] for line in text.splitlines() if line.startswith("model name"))
    return " ".join(next(names, platform.machine()).split())


def _say_unreadable(path: Path, error: OSError | UnicodeDecodeError) -> str:
    reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return f"{path}: cannot be read: {reason}"


def _point(link: Path, target: str) -> None:
    """Replace a symbolic link's target atomically."""
    draft = link.with_name(f".{link.name}.{os.getpid()}")
    with _writing(link):
        draft.unlink(missing_ok=True)
        draft.symlink_to(target)
        try:
            draft.replace(link)
        finally:
            draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = WRITING_REMEDIES.get(error.errno or 0, "choose another folder")
        if short := explain_error(error):
            remedy = short[1]
        raise StoreError(f"{path}: cannot be written: {reason}; {remedy}") from error


@functools.cache
def version(package: str) -> str | None:
    """The version of an installed package; None if it is not."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit(root: Path) -> str | None:
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        found = subprocess.run(
            [*command, "--exclude=*"], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
