"""list plans, policies, topologies, workloads, schemes, faults, scenarios or runs."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from trunkline.harness.commands import terminal

EXTENSIONS = ("topologies", "plans", "policies", "workloads")
LISTS = (*EXTENSIONS, "schemes", "faults", "scenarios", "runs")

EPILOG = """\
examples:
  trunkline list plans            the values of scheme.plan
  trunkline list topologies       the values of topology.builder
  trunkline list runs             every run in ./runs, oldest first: verdict, scenario, overrides
  trunkline list runs --json      the same, one JSON object per line

`trunkline schema --keys` has every option of topologies, plans, policies and workloads.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add what to list."""
    parser.add_argument(
        "what", choices=LISTS, metavar="{" + ",".join(LISTS) + "}", help="what to list"
    )
    terminal.add_runs(parser)
    parser.add_argument("--json", action="store_true", help="print runs as JSON, one per line")


def run(arguments: argparse.Namespace) -> int:
    """Print one line per item."""
    from trunkline.harness.commands import listings
    from trunkline.harness.config.document import make_printable
    from trunkline.harness.config.paths import find_scenario_folder

    what = arguments.what
    if arguments.json and what != "runs":
        raise terminal.UsageError("--json: only with runs")
    if what == "runs":
        found = list(listings.list_runs(Path(arguments.runs)))
        if arguments.json:
            for each in found:
                print(json.dumps(asdict(each)))
            return 0
        lines = [(each.folder, listings.describe_run(each)) for each in found]
    elif what == "scenarios":
        lines = list(listings.list_scenarios(find_scenario_folder()))
    elif what in EXTENSIONS:
        lines = list(listings.list_extensions(what))
    else:
        lines = list(listings.list_schemes() if what == "schemes" else listings.list_faults())
    if not lines:
        where = f" in {arguments.runs}" if what == "runs" else ""
        terminal.print_error(f"there are no {what}{where}")
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        print(make_printable(f"{name:{width}}  {text}".rstrip()))
    return 0
