"""pick up a run on another machine whose connection broke."""

from __future__ import annotations

import argparse
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline attach ada@gpu.example.org
  trunkline attach ada@gpu.example.org quickstart-20261121-221530

It continues as if `trunkline run --on` had not been interrupted: Ctrl-C ends the run.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the machine, the run, and the folder of runs."""
    parser.add_argument("host", metavar="HOST", help="[USER@]HOST[:PORT], as for run --on")
    parser.add_argument(
        "run", metavar="RUN", nargs="?", help="the run's name; needed if several runs are there"
    )
    terminal.add_runs(parser)
    terminal.add_quiet(parser)
    terminal.add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Follow the run to its end, fetch it, and print its verdict."""
    from trunkline.harness.runs.remote import client

    if (Path(arguments.host) / "resolved.yaml").exists() or any(
        Path(arguments.runs, arguments.host).glob("*/resolved.yaml")
    ):
        raise terminal.UsageError(
            f"{arguments.host}: this run is on this machine, expected another one: "
            f"`trunkline inject {arguments.host} status` asks it, or changes it"
        )
    host = terminal.make_host(arguments.host, arguments)
    with terminal.follow(arguments.quiet) as (show, tell):
        result = client.attach(host, arguments.run, Path(arguments.runs), show, tell)
    return terminal.show_result(result, arguments.quiet)
