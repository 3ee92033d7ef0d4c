"""make a run's page, tables, plots and verdict again, or one page of several runs."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline report quickstart                         the latest run of that scenario
  trunkline report runs/quickstart/20261121-210427
  trunkline report quickstart --width 3.4             its figures for one column of a paper
  trunkline report runs/a/latest runs/b/latest --out a-and-b.html

With one RUN, its folder's report.html, tables, plots and verdict are made again from its event log,
and the exit code is the verdict's. With several, nothing but the page of the comparison is written.
"""

COMPARISON = "comparison.html"


def add(parser: argparse.ArgumentParser) -> None:
    """Which runs."""
    parser.add_argument(
        "run", metavar="RUN", nargs="+", help="a run's folder, or a scenario's name"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help=f"where the page of several runs goes; folders are made (default: {COMPARISON}, here)",
    )
    parser.add_argument(
        "--width",
        type=_parse_inches,
        metavar="INCHES",
        help="how wide the figures of one run are, such as 3.4 for one column of a paper "
        "(default: 7.16, both columns)",
    )
    terminal.add_quiet(parser)
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make a run's page, tables, figures and verdict again from its event log, or compare runs."""
    from trunkline.harness.commands import overview
    from trunkline.harness.report import outputs

    folders = [_find_folder(name, Path(arguments.runs)) for name in arguments.run]
    for folder in filter(overview.is_running, folders):
        raise terminal.UsageError(f"{folder}: this run goes on: allowed is one that has ended")
    if len(folders) > 1:
        if arguments.width:
            raise terminal.UsageError(f"--width {arguments.width:g}: allowed with one run")
        if arguments.out and Path(arguments.out).suffix != ".html":
            raise terminal.UsageError(
                f"--out {arguments.out}: allowed is a name that ends in .html"
            )
        return _compare(folders, Path(arguments.out or COMPARISON), arguments.quiet)
    if arguments.out:
        raise terminal.UsageError(
            f"--out {arguments.out}: allowed with several runs; one run's page is its report.html"
        )
    return terminal.show_verdict(
        folders[0], outputs.build(folders[0], arguments.width), arguments.quiet
    )


def _parse_inches(text: str) -> float:
    """A width that figures can have, as an argument's type."""
    with contextlib.suppress(ValueError):
        if 2 <= (width_in := float(text)) <= 20:
            return width_in
    raise argparse.ArgumentTypeError(f"{text}: allowed is 2 to 20")


def _find_folder(name: str, runs: Path) -> Path:
    """The folder of a run that was asked for."""
    for run_dir in (Path(name), runs / name / "latest"):
        if (run_dir / "events.jsonl").exists():
            return run_dir
    raise terminal.UsageError(
        f"{name}: no such run: allowed is a run's folder, or the name of a scenario "
        f"that has runs in {runs} (see: trunkline list runs)"
    )


def _compare(folders: list[Path], out: Path, quiet: bool) -> int:
    from trunkline.harness.report import outputs

    outputs.compare(folders, out)
    print(out if quiet else f"{len(folders)} runs compared in {out}")
    return 0
