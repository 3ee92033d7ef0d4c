"""remove what killed runs left behind; nothing of a running one."""

from __future__ import annotations

import argparse
from pathlib import Path

from trunkline.harness.commands import terminal

EPILOG = """\
A run takes along what it made, however it ends. Only when it is killed with SIGKILL, programs that
you started at its sites may live on, or a temporary folder. All that a run makes is tagged with the
process that it belongs to; this command looks for tags whose process is dead. Only what belongs to
your user is touched.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """What to remove."""
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    parser.add_argument(
        "--unfinished",
        action="store_true",
        help="also remove the run folders whose run was ended before it came to a verdict",
    )
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Find, say and remove."""
    from trunkline.harness.kernel import boot
    from trunkline.harness.network.interface import NetworkError
    from trunkline.harness.runs import orphans

    found = orphans.find(boot.MEMORY_FOLDERS)
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
        print("nothing is left over")
    return code
