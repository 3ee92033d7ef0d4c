"""run a scenario with a prompt, to change and break its network."""

from __future__ import annotations

import argparse
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline shell scenarios/quickstart.yaml
  trunkline shell scenarios/outage.yaml --set clock=real
  trunkline shell scenarios/quickstart.yaml --pcap tokyo-seoul
  echo 'outage n1 n2 for 5 s' | trunkline shell scenarios/outage.yaml

A virtual clock stands still at the prompt, and `step 10 s` lets it run. `help` lists all commands.
`exit` or Ctrl-D ends the run, which is then judged like any other.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the scenario and the folder of runs."""
    terminal.add_scenario(parser)
    terminal.add_pcap(parser)
    terminal.add_runs(parser)
    terminal.add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run a scenario with a prompt, and print its verdict."""
    from trunkline.harness.live import prompt
    from trunkline.harness.live.live_state import Progress

    scenario = terminal.load_capturing(arguments, ("programs", "checks"))
    screen = terminal.make_console(stderr=True, quiet=arguments.quiet)

    shown = None

    def on_progress(now: Progress) -> None:
        nonlocal shown
        if now.message and now.message != shown:
            screen.print(now.message)
        shown = now.message

    with prompt.front_end(scenario) as front:
        from trunkline.harness.runs import runner

        result = runner.run(
            scenario, Path(arguments.file), Path(arguments.runs), on_progress, front
        )
    return terminal.show_result(result, arguments.quiet)
