"""report all problems of scenarios."""

from __future__ import annotations

import argparse

from trunkline.harness.commands import terminal
from trunkline.harness.config.late_imports import load_at_first_use

EPILOG = """\
examples:
  trunkline validate mine.yaml
  trunkline validate scenarios/*.yaml && echo all fine
  trunkline validate quickstart --set scheme.p=4

Every problem is one line, FILE:LINE: KEY: VALUE: expected values. The exit code is 64 if there are
problems. A note is not a problem: it says how a file of the network was read, or that a plan of
yours would fail if a site were lost.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the scenarios, and options that change them."""
    parser.add_argument(
        "file",
        nargs="+",
        type=terminal.find_scenario,
        metavar="FILE",
        help="a scenario: a file, or the name of one in scenarios/",
    )
    terminal.add_changes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print all problems of each file."""
    load_at_first_use("numpy")
    with terminal.without_collection():
        return _validate(arguments)


def _validate(arguments: argparse.Namespace) -> int:
    from trunkline.harness.config.document import ScenarioErrors
    from trunkline.harness.scenario import plan_dry_run
    from trunkline.harness.scenario.loading import load

    code = 0
    for file in arguments.file:
        try:
            scenario = load(file, arguments.set, arguments.seed, here=("programs", "checks"))
        except ScenarioErrors as errors:
            print(errors)
            code = terminal.BAD_USAGE
        else:
            print(f"{file}: ok")
            for note in plan_dry_run.list_notes(scenario):
                print(f"{file}: note: {note}")
    return code
