"""Writes a wheel whose bytes depend on its content alone.

Entries are sorted, their times are those of `SOURCE_DATE_EPOCH` or 1 January 2025, and their modes
are 755 for programs and 644 for other files, whatever the umask of the checkout was.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_EPOCH_S = 1_735_689_600  # 2025-01-01


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a wheel: its bytes, and whether it is a program."""

    content: bytes
    executable: bool = False


def write(wheel: Path, entries: Mapping[str, Entry]) -> None:
    """Write the wheel with these files, by name, and its RECORD. Raises OSError."""
    (info,) = {name.split("/")[0] for name in entries if name.endswith(".dist-info/WHEEL")}
    record = f"{info}/RECORD"
    others = {name: entry for name, entry in sorted(entries.items()) if name != record}
    lines = [
        f"{name},{_hash(entry.content)},{len(entry.content)}" for name, entry in others.items()
    ]
    whole = {
        **others,
        record: Entry("".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()),
    }
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, entry in whole.items():
            about = zipfile.ZipInfo(name, _find_time())
            mode = 0o755 if entry.executable else 0o644
            about.external_attr = (stat.S_IFREG | mode) << 16
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, entry.content)


def read(wheel: Path) -> dict[str, Entry]:
    """The files of a wheel by name, without its folders. Raises OSError or BadZipFile."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            about.filename: Entry(archive.read(about), bool(about.external_attr >> 16 & 0o111))
            for about in archive.infolist()
            if not about.is_dir()
        }


def _find_time() -> tuple[int, int, int, int, int, int]:
    epoch_s = int(os.environ.get("SOURCE_DATE_EPOCH", DEFAULT_EPOCH_S))
    return time.gmtime(epoch_s)[:6]


def _hash(content: bytes) -> str:
    digest = hashlib.sha256(content).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
