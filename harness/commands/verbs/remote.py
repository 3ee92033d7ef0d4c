"""the far side of `run --on`, which starts it over SSH."""

from __future__ import annotations

import argparse
import os
import select
import sys

from trunkline.harness.commands import terminal

EPILOG = """\
Trunkline on another machine calls this and talks to it on its standard input and output. Runs that
came this way are in ~/.local/state/trunkline/remote until they are fetched.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Nothing."""


def run(arguments: argparse.Namespace) -> int:
    """Answer until the input ends."""
    from trunkline.harness.runs.remote import server
    from trunkline.harness.runs.remote.protocol import Wire

    if sys.stdin.isatty():
        raise terminal.UsageError("this is for Trunkline on another machine: trunkline run --on")
    ours, theirs = sys.stdin.fileno(), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may speak in between

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(theirs, data) :]

    def waits(timeout_s: float) -> bool:
        return bool(select.select([ours], [], [], timeout_s)[0])

    server.serve(Wire(lambda: os.read(ours, 1 << 16), write), waits)
    return 0
