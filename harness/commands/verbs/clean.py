"""remove leftovers of killed runs; running ones are not touched."""

from __future__ import annotations

import argparse
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
A run cleans up after itself, even after an error or a signal. Only after SIGKILL, programs that
you started at its sites may continue, and a temporary folder may stay. Everything that a run
creates has a tag that names its process; this command looks for tags of dead processes. It touches
only processes and files of your user.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add what to remove."""
    parser.add_argument("--dry-run", action="store_true", help="only list the leftovers")
    parser.add_argument(
        "--unfinished",
        action="store_true",
        help="also remove the folders of runs that ended without a verdict",
    )
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Find, list and remove leftovers."""
    from trunkline.harness.kernel import probes
    from trunkline.harness.network.interface import NetworkError
    from trunkline.harness.runs import orphans

    found = orphans.find(probes.MEMORY_FOLDERS)
    if arguments.unfinished:
        found += orphans.find_unfinished(Path(arguments.runs))
    code = 0
    for left in found:
        if arguments.dry_run:
            print(f"would remove {left}")
            continue
        try:
            left.remove()
            print(f"removed {left}")
        except (OSError, NetworkError) as error:
            terminal.print_error(f"{left} could not be removed: {error}")
            code = terminal.INTERNAL_ERROR
    if not found:
        print("there are no leftovers")
    return code
