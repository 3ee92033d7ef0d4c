"""write a run for other tools: a trace for Perfetto, curves for TensorBoard, tables as Parquet."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline export quickstart --perfetto trace.json    open it at ui.perfetto.dev
  trunkline export quickstart --perfetto trace.json.gz
  trunkline export quickstart --tensorboard curves/a && tensorboard --logdir curves
  trunkline export runs/quickstart/20261121-210427 --parquet tables

Times are those of the run's clock. Nothing that exists is overwritten. docs/export.md tells what is
where, and how to open a run in Python.
"""

FORMATS = {
    "perfetto": ("FILE", "a trace as JSON, compressed if the name ends in .gz: what tasks, sites, "
    "links and faults did at which time"),
    "tensorboard": ("DIR", "accuracy, loss, rates and times over virtual time; needs "
    "trunkline[tensorboard]"),
    "parquet": ("DIR", "a file per table; needs trunkline[parquet]"),
}  # fmt: skip
"""Option -> its value and its help."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the run and what to write."""
    parser.add_argument(
        "run", metavar="RUN", help="a run's folder, or the name of a scenario: its latest run"
    )
    for name, (value, words) in FORMATS.items():
        parser.add_argument(f"--{name}", type=Path, metavar=value, help=words)
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write a run in each format that is asked for."""
    from trunkline.harness.commands import listings

    wanted = {name: path for name in FORMATS if (path := getattr(arguments, name)) is not None}
    if not wanted:
        raise terminal.UsageError("export: expected --perfetto, --tensorboard or --parquet")
    folder = terminal.find_run(arguments.run, Path(arguments.runs))
    if listings.is_running(folder):
        raise terminal.UsageError(f"{folder}: this run is running: expected one that has ended")
    for name, path in wanted.items():
        _check_target(name, path)

    from trunkline.harness.export import exported_files
    from trunkline.harness.export.run_files import RunFiles
    from trunkline.harness.record.run_folder import RunFolder

    if not RunFolder(folder).has_events():
        raise terminal.UsageError(f"{folder}: this run has no events: expected one that began")
    for name in wanted:
        package = exported_files.PACKAGES.get(name)
        if package is not None and find_spec(package) is None:
            install = f"pip install 'trunkline[{name}]'"
            text = f"--{name}: needs the package {package}; nothing was written; remedy: {install}"
            raise terminal.UsageError(text)
    files = RunFiles(folder)
    for name, path in wanted.items():
        exported_files.WRITERS[name](files, path)
        print(path)
    return 0


def _check_target(name: str, path: Path) -> None:
    """Raises UsageError if something would be overwritten, or a file has no folder."""
    if FORMATS[name][0] == "DIR":
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise terminal.UsageError(f"--{name} {path}: expected an empty folder, or a new one")
    elif path.exists():
        raise terminal.UsageError(f"--{name} {path}: expected a name that no file has yet")
    elif not path.parent.is_dir():
        raise terminal.UsageError(f"--{name} {path}: there is no folder {path.parent}")
