"""list plans, policies, topologies, workloads, schemes, faults, scenarios or runs."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from trunkline.harness.commands import terminal

EXTENSIONS = ("topologies", "plans", "policies", "workloads")
FILES = ("scenarios", "runs")
LISTS = (*EXTENSIONS, "schemes", "faults", *FILES)

EPILOG = """\
examples:
  trunkline list                  the names of all, a line each
  trunkline list plans            the values of scheme.plan
  trunkline list topologies       the values of topology.builder
  trunkline list runs             every run in ./runs, oldest first: verdict, scenario, overrides
  trunkline list runs --json      the same, one JSON object per line

`trunkline schema --keys` has every option of topologies, plans, policies and workloads.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add what to list."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=LISTS,
        metavar="{" + ",".join(LISTS) + "}",
        help="what to list (default: the names of all)",
    )
    terminal.add_runs(parser)
    parser.add_argument("--json", action="store_true", help="print runs as JSON, one per line")


def run(arguments: argparse.Namespace) -> int:
    """Print one line per item, or per kind of items."""
    from trunkline.harness.commands import listings
    from trunkline.harness.config.document import make_printable

    what, runs = arguments.what, Path(arguments.runs)
    if arguments.json and what != "runs":
        raise terminal.UsageError("--json: only with runs")
    if arguments.json:
        for each in listings.list_runs(runs):
            print(json.dumps(asdict(each)))
        return 0
    if what is None:
        lines = [(kind, _list_names(kind, runs)) for kind in LISTS]
    else:
        lines = _list(what, runs)
    if not lines:
        where = f" in {arguments.runs}" if what == "runs" else ""
        terminal.print_error(f"there are no {what}{where}")
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        print(make_printable(f"{name:{width}}  {text}".rstrip()))
    return 0


def _list_names(what: str, runs: Path) -> str:
    """The names of a kind, or their number if they are paths."""
    names = [name for name, _ in _list(what, runs)]
    return f"{len(names)}: trunkline list {what}" if what in FILES else ", ".join(names)


def _list(what: str, runs: Path) -> list[tuple[str, str]]:
    """The items of a kind, each with its description."""
    from trunkline.harness.commands import listings
    from trunkline.harness.config.paths import find_scenario_folder

    if what == "runs":
        return [(each.folder, listings.describe_run(each)) for each in listings.list_runs(runs)]
    if what == "scenarios":
        return list(listings.list_scenarios(find_scenario_folder()))
    if what in EXTENSIONS:
        return list(listings.list_extensions(what))
    return list(listings.list_schemes() if what == "schemes" else listings.list_faults())
