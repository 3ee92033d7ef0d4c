"""The kernel of the package `trunkline-kernel`, which spares users the compilation.

The package is a folder `trunkline_kernel` with the kernel, its checksum in the format of
`sha256sum`, and the key of its recipe (see `build.key`). Its other files are what the kernel's
licence asks for. `distribution/kernel_wheel.py` makes it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "trunkline-kernel"
MODULE = "trunkline_kernel"
KEY_FILE = "key"


@dataclass(frozen=True, slots=True)
class Prebuilt:
    """An installed package: the path of its kernel, its key, and the package's version."""

    kernel: Path
    key: str
    version: str


def find() -> Prebuilt | None:
    """The installed package; None if there is none. Raises OSError if it cannot be read."""
    found = importlib.util.find_spec(MODULE)
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        version = "without a version"
    return Prebuilt(folder / "linux", (folder / KEY_FILE).read_text().strip(), version)
