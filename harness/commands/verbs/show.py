"""show a scenario with all its sites and links."""

from __future__ import annotations

import argparse
import sys

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline show scenarios/quickstart.yaml
  trunkline show scenarios/quickstart.yaml --set topology.rates='50 Mbit/s' --seed 3
  trunkline show scenarios/quickstart.yaml --format yaml > mine.yaml

With --format yaml the output is a scenario that gives the same run.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the scenario and the format."""
    terminal.add_scenario(parser)
    parser.add_argument(
        "--format",
        choices=("tables", "yaml"),
        default="tables",
        help="yaml: a scenario with all defaults and random values filled in",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a scenario with all defaults and random values filled in."""
    from trunkline.harness.scenario.loading import load, resolve

    scenario = load(arguments.file, arguments.set, arguments.seed)
    if arguments.format == "yaml":
        sys.stdout.write(resolve(scenario))
        return 0
    from trunkline.harness.commands import overview

    console = terminal.make_console()
    for table in (
        overview.describe_scenario(scenario),
        overview.list_sites(scenario.topology),
        overview.list_links(scenario.topology),
    ):
        console.print(table)
    return 0
