"""build the embedded kernel, show where it is, or run a command in it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Literal

from trunkline.harness.commands import terminal
from trunkline.harness.commands.verbs import doctor

EPILOG = """\
examples:
  trunkline kernel build       once per user, some minutes; does nothing if it is built and whole,
                               or if the package trunkline-kernel has it
  trunkline kernel status
  trunkline kernel run -- uname -r
  trunkline kernel run -- mn --custom topologies/star.py --topo star,5 --test pingall
  trunkline kernel run --clock real -- mn --custom topologies/star.py --topo star,5

`run` starts a command in the embedded kernel, under its virtual clock or a real one (--clock): as
root, with /tmp, /dev/shm and /run of its own. It may write to the working folder only. It reads our
standard input. If that is /dev/null, its own stays open and silent, because programs such as mn
poll an input at its end forever.
"""
RUN_USAGE = "trunkline kernel run [-h] [--clock {virtual,real}] -- COMMAND [ARGUMENT ...]"


RUN_COMMAND = "trunkline.harness.session.run_command"
"""What runs a command inside."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("build", help="build it, unless it is there and whole")
    status = actions.add_parser("status", help="show its version, or its problem, where and why")
    status.add_argument("--check", action="store_true", help="also boot it, and try what it needs")
    actions.add_parser("path", help="print its path")
    run = actions.add_parser("run", help="run a command in it", usage=RUN_USAGE)
    run.add_argument("command", nargs="+", metavar="COMMAND", help="a program and its arguments")
    run.add_argument(
        "--clock",
        choices=("virtual", "real"),
        default="virtual",
        help="virtual (default) stands still while processes compute; real suits typing",
    )


def run(arguments: argparse.Namespace) -> int:
    """Build the embedded kernel, print its status or path, or run a command in it."""
    from trunkline.harness.kernel import boot, build, probes

    if arguments.action == "run":
        return _run_command(arguments.command, arguments.clock)
    if arguments.action == "path":
        chosen = build.choose()
        print(chosen.path)
        print(chosen.why, file=sys.stderr)
    elif arguments.action == "build":
        from trunkline.harness.live import progress  # imports pandas

        if (chosen := build.choose()).prebuilt:
            print(f"nothing to build: the kernel is {chosen.why}", file=sys.stderr)
        with progress.live(terminal.make_console(stderr=True)) as show:
            path = build.ensure(boot.try_out, lambda step: show(step.percent / 100, step.doing))
        print(path)
    elif arguments.check:
        from trunkline.harness.runs import doctor as machine

        return doctor.show(machine.examine(machine.KERNEL_CHECKS))
    elif (processor := probes.probe_processor()).state == "problem":
        print(processor)
        return 1
    else:
        status = build.status()
        print(f"{status.problem or status.version}  {status.path}")
        print(status.why)
        if status.problem:
            print("remedy: trunkline kernel build")
        if status.missing_packages:
            print(f"a build needs: apt-get install {' '.join(status.missing_packages)}")
        return 1 if status.problem else 0
    return 0


def _run_command(command: list[str], clock: Literal["virtual", "real"]) -> int:
    from trunkline.harness.kernel import boot

    program = [sys.executable, "-m", RUN_COMMAND, *command]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return boot.run(program, clock=clock, env=environment, stdin=_find_input())


def _find_input() -> int | None:
    """Our standard input, unless it is closed or /dev/null."""
    try:
        given, null = os.fstat(0), Path(os.devnull).stat()
    except OSError:
        return None
    return None if os.path.samestat(given, null) else 0
