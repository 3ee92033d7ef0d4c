"""start, use and stop a virtual Debian machine with Trunkline, by Vagrant."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline vm up
  trunkline vm run scenarios/quickstart.yaml
  trunkline vm run scenarios/outage.yaml --set backend=host --set clock=real
  trunkline vm down
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    up = actions.add_parser("up", help="create or start it, and install what is missing")
    up.add_argument("--provider", metavar="NAME", help="virtualbox, libvirt or qemu")
    run = actions.add_parser("run", help="run a scenario on it, as `trunkline run` does here")
    terminal.add_scenario(run)
    terminal.add_runs(run)
    terminal.add_quiet(run)
    shell = actions.add_parser("shell", help="run a scenario on it, as `trunkline shell` does here")
    shell.add_argument("file", metavar="FILE", help="a scenario in the checkout")
    actions.add_parser("ssh", help="log in to it")
    down = actions.add_parser("down", help="stop it")
    down.add_argument("--destroy", action="store_true", help="also delete it")


def run(arguments: argparse.Namespace) -> int:
    """Carry out one of the actions."""
    from trunkline.harness.runs import virtual_machine

    action = arguments.action
    if action == "up":
        provider = [f"--provider={arguments.provider}"] if arguments.provider else []
        # `vagrant up` alone copies and installs only the first time: do both every time.
        virtual_machine.run_vagrant("up", "--no-provision", *provider)
        virtual_machine.run_vagrant("rsync")
        virtual_machine.run_vagrant("provision")
    elif action == "down":
        virtual_machine.run_vagrant(*(["destroy", "--force"] if arguments.destroy else ["halt"]))
    elif action == "ssh":
        return virtual_machine.open_terminal([])
    elif action == "shell":
        return _shell(Path(arguments.file))
    else:
        return _run(arguments)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from trunkline.harness.runs import virtual_machine
    from trunkline.harness.runs.remote import client
    from trunkline.harness.scenario.loading import load

    scenario = load(arguments.file, arguments.set, arguments.seed)
    host = virtual_machine.find_host(scenario)
    with terminal.follow(arguments.quiet) as (show, tell):
        result = client.run(host, scenario, Path(arguments.file), Path(arguments.runs), show, tell)
    return terminal.show_result(result, arguments.quiet)


def _shell(file: Path) -> int:
    """Run `trunkline shell` there. The file must be in the checkout, which is copied there."""
    from trunkline.harness.runs import virtual_machine
    from trunkline.harness.scenario.loading import load

    scenario = load(file)
    checkout = virtual_machine.FOLDER.parent
    if not file.resolve().is_relative_to(checkout):
        raise terminal.UsageError(f"{file}: expected a scenario in {checkout}")
    there = file.resolve().relative_to(checkout)
    as_root = "sudo " if scenario.backend == "host" else ""
    return virtual_machine.open_terminal(
        [f"cd trunkline && {as_root}trunkline shell {shlex.quote(str(there))}"]
    )
