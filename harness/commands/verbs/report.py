"""write a run's page, tables, plots and verdict again, or compare runs on one page."""

from __future__ import annotations

import argparse
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline report quickstart                         the latest run of that scenario
  trunkline report runs/quickstart/20261121-210427
  trunkline report quickstart --width 3.4             its figures for one column of a paper
  trunkline report quickstart --gif                   its map as an animated picture, for talks
  trunkline report runs/a/latest runs/b/latest --out a-and-b.html --label before --label after

With one RUN, its report.html, tables, plots and verdict are written again from its event log, and
the exit code is that of the verdict. With --gif, only plots/map.gif is written. With several, only
the page of the comparison is written.
"""

COMPARISON = "comparison.html"
MAP = "plots/map.gif"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the runs and what to write."""
    parser.add_argument(
        "run", metavar="RUN", nargs="+", help="a run's folder, or a scenario's name"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help=f"the page of several runs; its folder is created (default: {COMPARISON})",
    )
    terminal.add_width(parser, "of the figures of one run, in its plots/", "7.16, both columns")
    parser.add_argument(
        "--gif",
        action="store_true",
        help="write the map of one run as an animated picture: loads, what sites do, faults",
    )
    terminal.add_labels(parser, "of several runs")
    terminal.add_quiet(parser)
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write a run's page, tables, figures and verdict again, or compare runs."""
    from trunkline.harness.commands import listings
    from trunkline.harness.runs.user_checks import judge_run

    folders = [terminal.find_run(name, Path(arguments.runs)) for name in arguments.run]
    for folder in filter(listings.is_running, folders):
        raise terminal.UsageError(f"{folder}: this run is running: expected one that has ended")
    if len(folders) > 1:
        if arguments.gif:
            raise terminal.UsageError("--gif: only with one run")
        if arguments.width:
            raise terminal.UsageError(f"--width {arguments.width:g}: only with one run")
        if arguments.out and Path(arguments.out).suffix != ".html":
            raise terminal.UsageError(f"--out {arguments.out}: expected a name that ends in .html")
        terminal.check_labels(arguments.label, len(folders), "run")
        return _compare(folders, Path(arguments.out or COMPARISON), arguments)
    if arguments.label:
        raise terminal.UsageError(f"--label {arguments.label[0]}: only with several runs")
    if arguments.out:
        raise terminal.UsageError(
            f"--out {arguments.out}: only with several runs; one run's page is its report.html"
        )
    if arguments.gif:
        return _write_gif(folders[0])
    verdict = judge_run(folders[0], arguments.width)
    code = terminal.show_verdict(folders[0], verdict, arguments.quiet)
    if arguments.width and not arguments.quiet:
        print(f"figures    {folders[0] / 'plots'} (PDF, PNG, SVG), {arguments.width:g} inches wide")
    return code


def _write_gif(folder: Path) -> int:
    from trunkline.harness.record.run_folder import RunFolder
    from trunkline.harness.report import outputs
    from trunkline.harness.report.overlay import map_animation

    try:
        shown = map_animation.render(*outputs.read_history(folder))
    except ValueError as error:
        raise terminal.UsageError(f"--gif: {folder}: {error}") from None
    RunFolder(folder).write_bytes(MAP, shown)
    print(folder / MAP)
    return 0


def _compare(folders: list[Path], out: Path, arguments: argparse.Namespace) -> int:
    from trunkline.harness.record.run_folder import StoreError
    from trunkline.harness.report import outputs

    try:
        outputs.compare(folders, out, labels=arguments.label)
    except StoreError as error:
        raise StoreError(f"--out {out}: {error}") from None
    print(out if arguments.quiet else f"{len(folders)} runs compared in {out}")
    return 0
