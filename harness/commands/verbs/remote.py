"""serve `trunkline run --on` of another machine, which starts this over SSH."""

from __future__ import annotations

import argparse
import os
import select
import sys

from trunkline.harness.commands import terminal

EPILOG = """\
Trunkline on another machine starts this and uses its standard input and output. Runs that it sends
are in ~/.local/state/trunkline/remote until it has fetched them.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add nothing: this verb has no arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Answer requests until the input ends."""
    from trunkline.harness.runs.remote import server
    from trunkline.harness.runs.remote.protocol import Wire

    if sys.stdin.isatty():
        raise terminal.UsageError("only `trunkline run --on` of another machine can use this")
    ours, theirs = sys.stdin.fileno(), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not break the protocol

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(theirs, data) :]

    def has_input(timeout_s: float) -> bool:
        return bool(select.select([ours], [], [], timeout_s)[0])

    server.serve(Wire(lambda: os.read(ours, 1 << 16), write), has_input)
    return 0
