"""run a scenario."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from harness import terminal

if TYPE_CHECKING:
    from rich.console import Console

    from harness.runner import RunResult
    from harness.scenario import Scenario

    CarryOut = Callable[..., RunResult]

EPILOG = """\
examples:
  trunkline run scenarios/quickstart.yaml
  trunkline run scenarios/quickstart.yaml --set scheme.p=4 --set stop.time='50 s'
  trunkline run scenarios/quickstart.yaml --set topology.rates='100 Mbit/s' --quiet
  trunkline run scenarios/outage.yaml --watch

--watch shows every site, the tasks that go on, links by load, faults, and both clocks, on the whole
terminal. It only reads the event log, so results are the same with it.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """A scenario, where its run goes, and what to see of it meanwhile."""
    terminal.add_scenario(parser)
    terminal.add_runs(parser)
    terminal.add_quiet(parser)
    parser.add_argument(
        "--watch", action="store_true", help="show sites, tasks, links and faults as they change"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run a scenario and show what came out."""
    from harness import runner
    from harness.scenario import load

    scenario = load(arguments.file, arguments.set, arguments.seed)
    carry_out = functools.partial(runner.run, scenario, Path(arguments.file), Path(arguments.runs))
    screen = terminal.console(stderr=True, quiet=arguments.quiet)
    result = (_watched if arguments.watch else _bare)(scenario, carry_out, screen)
    return terminal.show_result(result, arguments.quiet)


def _watched(scenario: Scenario, carry_out: CarryOut, screen: Console) -> RunResult:
    from harness.watch import watch

    with watch(screen, scenario) as shown:
        return carry_out(shown.progress, on_folder=shown.folder)


def _bare(scenario: Scenario, carry_out: CarryOut, screen: Console) -> RunResult:
    """With one line of progress."""
    from harness import progress

    sites = len(scenario.topology.sites)
    done = 0.0
    with progress.live(screen) as show:

        def on_progress(now: progress.Progress) -> None:
            nonlocal done
            done = max(done, progress.fraction(now, scenario.stop, sites))
            show(done, progress.describe(now, scenario.stop))

        return carry_out(on_progress)
