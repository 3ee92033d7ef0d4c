"""open a prompt on a run in progress, or pick up a run on another machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline attach quickstart
  echo 'outage tokyo seoul for 5 s' | trunkline attach runs/outage/20260301-120000
  trunkline attach ada@gpu.example.org
  trunkline attach ada@gpu.example.org quickstart-20261121-221530

For a run on this machine you get the prompt of `trunkline shell`: each line takes effect at once,
as with `trunkline inject`. `exit` ends the run; Ctrl-D leaves it as it is. A run on another machine
whose connection broke continues as if `run --on` had not been interrupted: Ctrl-C ends it.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the run or its machine, and the folder of runs."""
    parser.add_argument(
        "where",
        metavar="RUN|HOST",
        help="a run's folder, the name of a scenario with one current run, or "
        "[USER@]HOST[:PORT], as for run --on",
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        help="the run's name on HOST; needed if several runs are there",
    )
    terminal.add_runs(parser)
    terminal.add_quiet(parser)
    terminal.add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Open a prompt on a run here; or follow one to its end, fetch it, and print its verdict."""
    from trunkline.harness.commands import current_runs

    runs_dir = Path(arguments.runs)
    if arguments.run is None and current_runs.is_name(arguments.where, runs_dir):
        return _open_prompt(current_runs.find(arguments.where, runs_dir))

    from trunkline.harness.runs.remote import client  # imports all that reports need

    if arguments.run is None and not arguments.quiet:
        print(
            f"{arguments.where}: no run in {runs_dir} has this name: asking a machine",
            file=sys.stderr,
        )
    host = terminal.make_host(arguments.where, arguments)
    with terminal.follow(arguments.quiet) as (show, tell):
        result = client.attach(host, arguments.run, runs_dir, show, tell)
    return terminal.show_result(result, arguments.quiet)


def _open_prompt(run_dir: Path) -> int:
    from trunkline.harness.commands import current_runs
    from trunkline.harness.live.channel import Channel
    from trunkline.harness.live.prompt import AttachedShell
    from trunkline.harness.scenario.loading import load

    with current_runs.connect(run_dir) as sock:
        AttachedShell(load(run_dir / "resolved.yaml"), Channel(sock)).attach(run_dir)
    return 0
