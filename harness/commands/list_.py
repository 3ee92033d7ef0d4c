"""what there is to choose from, one line each."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import terminal

LISTS = ("topologies", "plans", "policies", "workloads", "scenarios", "runs")


def add(parser: argparse.ArgumentParser) -> None:
    """What to list."""
    parser.add_argument("what", choices=LISTS)
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each thing of a kind."""
    from harness import overview

    what = arguments.what
    if what == "runs":
        lines = list(overview.runs(Path(arguments.runs)))
    elif what == "scenarios":
        lines = list(overview.scenarios(_scenario_folder()))
    else:
        lines = list(overview.extensions(what))
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        print(f"{name:{width}}  {text}".rstrip())
    return 0


def _scenario_folder() -> Path:
    """The folder `scenarios` here, else the one that belongs to this installation."""
    here = Path("scenarios")
    return here if here.is_dir() else Path(__file__).resolve().parents[2] / "scenarios"
