"""build the embedded kernel, show where it is, or run a command in it."""

from __future__ import annotations

import argparse
import os
import sys

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline kernel build       once per user, some minutes; does nothing if it is built and whole
  trunkline kernel status
  trunkline kernel run -- uname -r
  trunkline kernel run -- mn --custom topologies/star.py --topo star,5 --test pingall

`run` starts a command in the embedded kernel, under its virtual clock: as root, with /tmp, /dev/shm
and /run of its own. It may write to the working folder only.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the action."""
    parser.add_argument("action", choices=("build", "status", "path", "run"))
    parser.add_argument("command", nargs="*", help="after run -- : a program and its arguments")


def run(arguments: argparse.Namespace) -> int:
    """Build the embedded kernel, print its status or path, or run a command in it."""
    from trunkline.harness.kernel import build
    from trunkline.harness.live import progress

    if (arguments.action == "run") != bool(arguments.command):
        terminal.print_error("kernel: expected run -- COMMAND, or build, status or path alone")
        return terminal.BAD_USAGE
    if arguments.action == "run":
        return _run_command(arguments.command)
    if arguments.action == "path":
        print(build.path())
    elif arguments.action == "build":
        with progress.live(terminal.make_console(stderr=True)) as show:
            path = build.ensure(lambda step: show(step.percent / 100, step.doing))
        print(path)
    else:
        status = build.status()
        print(f"{status.problem or status.version}  {status.path}")
        if status.problem:
            print("remedy: trunkline kernel build")
        if status.missing_packages:
            print(f"a build needs: apt-get install {' '.join(status.missing_packages)}")
        return 1 if status.problem else 0
    return 0


def _run_command(command: list[str]) -> int:
    from trunkline.harness.kernel import boot
    from trunkline.harness.session import run_command

    program = [sys.executable, "-m", run_command.__name__, *command]
    return boot.run(program, env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
