"""make a run's tables, plots and verdict again."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import terminal


def add(parser: argparse.ArgumentParser) -> None:
    """Which run."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, or a scenario's name")
    terminal.add_quiet(parser)
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make a run's tables, figures and verdict again from its event log."""
    from harness import report

    run_dir = Path(arguments.run)
    if not (run_dir / "events.jsonl").exists():
        run_dir = Path(arguments.runs) / arguments.run / "latest"
    if not (run_dir / "events.jsonl").exists():
        raise terminal.UsageError(
            f"{arguments.run}: no such run: allowed is a run's folder, or the name of a scenario "
            f"that has runs in {arguments.runs} (see: trunkline list runs)"
        )
    return terminal.show_verdict(run_dir, report.build(run_dir), arguments.quiet)
