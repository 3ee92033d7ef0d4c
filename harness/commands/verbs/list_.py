"""what there is to choose from, one line each."""

from __future__ import annotations

import argparse
from pathlib import Path

from trunkline.harness.commands import terminal
from trunkline.harness.config.paths import SCENARIOS

EXTENSIONS = ("topologies", "plans", "policies", "workloads")
LISTS = (*EXTENSIONS, "schemes", "faults", "scenarios", "runs")

EPILOG = """\
examples:
  trunkline list plans            what scheme.plan may be
  trunkline list topologies       what topology.builder may be
  trunkline list runs             every run in ./runs, oldest first, with its verdict

The lines come from the first lines of the files: topologies/, agents/plans/, agents/policies/,
workloads/. `trunkline schema` has every option of each.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """What to list."""
    parser.add_argument("what", choices=LISTS, help="of which kind")
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each thing of a kind."""
    from trunkline.harness.commands import overview

    what = arguments.what
    if what == "runs":
        lines = list(overview.list_runs(Path(arguments.runs)))
    elif what == "scenarios":
        lines = list(overview.list_scenarios(_find_scenario_folder()))
    elif what in EXTENSIONS:
        lines = list(overview.list_extensions(what))
    else:
        lines = list(overview.list_schemes() if what == "schemes" else overview.list_faults())
    if not lines:
        where = f" in {arguments.runs}" if what == "runs" else ""
        terminal.print_error(f"there are no {what}{where}")
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        print(f"{name:{width}}  {text}".rstrip())
    return 0


def _find_scenario_folder() -> Path:
    """The folder `scenarios` here, else the one that belongs to this installation."""
    here = Path("scenarios")
    return here if here.is_dir() else SCENARIOS
