"""run a scenario."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import terminal

EPILOG = """\
examples:
  trunkline run scenarios/quickstart.yaml
  trunkline run scenarios/quickstart.yaml --set scheme.p=4 --set stop.time='50 s'
  trunkline run scenarios/quickstart.yaml --set topology.rates='100 Mbit/s' --quiet
"""


def add(parser: argparse.ArgumentParser) -> None:
    """A scenario, and where its run goes."""
    terminal.add_scenario(parser)
    terminal.add_runs(parser)
    terminal.add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run a scenario and show what came out."""
    from harness import progress, runner
    from harness.scenario import load

    scenario = load(arguments.file, arguments.set, arguments.seed)
    sites = len(scenario.topology.sites)
    done = 0.0
    screen = terminal.console(stderr=True, quiet=arguments.quiet)
    with progress.live(screen) as show:

        def on_progress(now: progress.Progress) -> None:
            nonlocal done
            done = max(done, progress.fraction(now, scenario.stop, sites))
            show(done, progress.describe(now, scenario.stop))

        result = runner.run(scenario, Path(arguments.file), Path(arguments.runs), on_progress)
    return terminal.show_result(result, arguments.quiet)
