"""The files of a run's exports."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from trunkline.harness.export import curves
from trunkline.harness.export.run_files import RunFiles
from trunkline.harness.export.trace import make_trace
from trunkline.harness.record.run_folder import RunFolder


def write_perfetto(run: RunFiles, file: Path) -> None:
    """Write the trace, compressed if the name ends in .gz. Raises StoreError."""
    text = json.dumps(make_trace(run), separators=(",", ":"), allow_nan=False)
    content = text.encode()
    if file.suffix == ".gz":
        content = gzip.compress(content, mtime=0)  # the same run gives the same bytes
    RunFolder(file.parent).write_bytes(file.name, content)


def write_tensorboard(run: RunFiles, folder: Path) -> None:
    """Write curves over virtual time for TensorBoard. Raises StoreError."""
    RunFolder(folder).write_bytes(curves.FILE, curves.make_curves(run))


def write_parquet(run: RunFiles, folder: Path) -> None:
    """Write each table as a file of Parquet. Raises StoreError."""
    for name, table in run.tables.items():
        content = table.to_parquet(engine="pyarrow", index=False)
        RunFolder(folder).write_bytes(f"{name}.parquet", content)


WRITERS: Mapping[str, Callable[[RunFiles, Path], None]] = {
    "perfetto": write_perfetto,
    "tensorboard": write_tensorboard,
    "parquet": write_parquet,
}
"""What writes each format."""

PACKAGES = {"tensorboard": "tensorboard", "parquet": "pyarrow"}
"""The package that a format needs besides; the extra that installs it has the format's name."""
