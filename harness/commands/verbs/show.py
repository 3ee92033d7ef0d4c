"""show a scenario with all its sites and links."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from trunkline.harness.commands import terminal

if TYPE_CHECKING:
    from trunkline.harness.fluid.fluid_counts import Expectation
    from trunkline.harness.scenario.settings import Scenario

EPILOG = """\
examples:
  trunkline show scenarios/quickstart.yaml
  trunkline show scenarios/quickstart.yaml --set topology.rates='50 Mbit/s' --seed 3
  trunkline show scenarios/quickstart.yaml --format yaml > mine.yaml
  trunkline show scenarios/parameter_servers.yaml --fluid

With --format yaml the output is a scenario that gives the same run. With --fluid the columns
are those of tables/run.csv, as the fluid model predicts them with the delays of all paths.
With the plan owl, both tell the number of communication groups that it chooses.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the scenario and what to print."""
    terminal.add_scenario(parser)
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument(
        "--format",
        choices=("tables", "yaml"),
        default="tables",
        help="yaml: a scenario with all defaults and random values filled in",
    )
    printed.add_argument(
        "--fluid",
        action="store_true",
        help="predict the run without running it: rounds, task time, time per update",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a scenario with all defaults and random values filled in, or what to expect of it."""
    from trunkline.harness.scenario.loading import load, resolve

    scenario = load(arguments.file, arguments.set, arguments.seed)
    if arguments.format == "yaml":
        sys.stdout.write(resolve(scenario))
        return 0
    from trunkline.harness.commands import overview

    if arguments.fluid:
        sys.stdout.write(overview.describe_prediction(scenario, _predict(scenario)))
        return 0
    console = terminal.make_console()
    for table in (
        overview.describe_scenario(scenario),
        overview.list_sites(scenario.topology, scenario.scheme.servers),
        overview.list_links(scenario.topology),
        overview.list_origins(scenario.topology),
    ):
        if table is not None:
            console.print(table)
    return 0


def _predict(scenario: Scenario) -> Expectation:
    from trunkline.harness.fluid import fluid_run

    found = fluid_run.predict(scenario, delays=True)
    if found is None:
        allowed = (
            "stop.time, stop.tasks or stop.rounds; no faults but changes of links; no programs"
        )
        reason = "the fluid model cannot predict this scenario"
        raise terminal.UsageError(f"{reason}: expected {allowed} and no custom workload")
    return found
