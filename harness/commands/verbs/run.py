"""run a scenario."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.harness.commands import terminal

if TYPE_CHECKING:
    from trunkline.harness.runs.runner import RunResult
    from trunkline.harness.scenario.settings import Scenario

EPILOG = """\
examples:
  trunkline run scenarios/quickstart.yaml
  trunkline run scenarios/quickstart.yaml --set scheme.p=4 --set stop.time='50 s'
  trunkline run scenarios/quickstart.yaml --set topology.rates='100 Mbit/s' --quiet
  trunkline run scenarios/outage.yaml --watch
  trunkline run scenarios/quickstart.yaml --pcap tokyo-seoul --pcap 'iowa -> tokyo'
  trunkline run scenarios/quickstart.yaml --on ada@gpu.example.org

--watch uses the whole terminal to show sites, current tasks, links by load, faults and both clocks.
It only reads the event log, so it does not change results.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the scenario, where to run it, and what to show."""
    terminal.add_scenario(parser)
    terminal.add_pcap(parser)
    terminal.add_runs(parser)
    terminal.add_quiet(parser)
    parser.add_argument(
        "--watch", action="store_true", help="show sites, tasks, links and faults as they change"
    )
    parser.add_argument(
        "--on",
        metavar="HOST",
        help="run it on another machine, [USER@]HOST[:PORT], over SSH, and fetch the results",
    )
    terminal.add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run a scenario and print its verdict."""
    if arguments.on is not None and arguments.watch:
        raise terminal.UsageError("--watch: not with --on, whose event log is elsewhere")
    remote = arguments.on is not None
    here = ["checks"] if remote else ["checks", "programs"]
    scenario = terminal.load_capturing(arguments, here)
    carry_out = _run_there if remote else _run_watched if arguments.watch else _run_here
    result = carry_out(scenario, Path(arguments.file), Path(arguments.runs), arguments)
    return terminal.show_result(result, arguments.quiet)


@contextlib.contextmanager
def _naming_folder() -> Iterator[Callable[[Path], None]]:
    """Takes the run's folder, and says what is in it if the user interrupts the run."""
    folders: list[Path] = []
    try:
        yield folders.append
    except KeyboardInterrupt:
        for folder in folders:
            terminal.print_error(_describe_interrupted(folder))
        raise


def _describe_interrupted(run_dir: Path) -> str:
    """What an interrupted run has left."""
    from trunkline.harness.record.run_folder import RunFolder

    folder = _name_folder(run_dir)
    if RunFolder(run_dir).has_events():
        return (
            f"the events until then are in {folder}; `trunkline report {folder}` makes tables and "
            "figures of them"
        )
    rest = f"what it printed is in {folder}/log" if run_dir.exists() else "nothing of it is kept"
    return f"the run had no events yet: {rest}"


def _name_folder(folder: Path) -> str:
    """A folder's name from here, if it is below this one."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def _run_here(
    scenario: Scenario, source: Path, runs_dir: Path, arguments: argparse.Namespace
) -> RunResult:
    from trunkline.harness.runs import runner

    with terminal.follow(arguments.quiet) as (show, _), _naming_folder() as note:
        return runner.run(
            scenario, source, runs_dir, lambda now: show(scenario, now), on_folder=note
        )


def _run_watched(
    scenario: Scenario, source: Path, runs_dir: Path, arguments: argparse.Namespace
) -> RunResult:
    from trunkline.harness.live.watch import watch
    from trunkline.harness.runs import runner

    console = terminal.make_console(stderr=True, quiet=arguments.quiet)
    with _naming_folder() as note, watch(console, scenario) as shown:

        def on_folder(folder: Path) -> None:
            note(folder)
            shown.follow(folder)

        return runner.run(scenario, source, runs_dir, shown.show_progress, on_folder=on_folder)


def _run_there(
    scenario: Scenario, source: Path, runs_dir: Path, arguments: argparse.Namespace
) -> RunResult:
    from trunkline.harness.runs.remote import client

    host = terminal.make_host(arguments.on, arguments)
    with terminal.follow(arguments.quiet) as (show, tell):
        return client.run(host, scenario, source, runs_dir, show, tell)
