"""build the embedded kernel, or show where it is."""

from __future__ import annotations

import argparse

from trunkline.harness.commands import terminal

EPILOG = """\
examples:
  trunkline kernel build       once per user, some minutes; does nothing if it is built and whole
  trunkline kernel status
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the action."""
    parser.add_argument("action", choices=("build", "status", "path"))


def run(arguments: argparse.Namespace) -> int:
    """Build the embedded kernel, or print its status or path."""
    from trunkline.harness.kernel import build
    from trunkline.harness.live import progress

    if arguments.action == "path":
        print(build.path())
    elif arguments.action == "build":
        with progress.live(terminal.make_console(stderr=True)) as show:
            path = build.ensure(lambda step: show(step.percent / 100, step.doing))
        print(path)
    else:
        status = build.status()
        missing = "damaged" if status.path.exists() else "not built"
        print(f"{status.version or missing}  {status.path}")
        if status.missing_packages:
            print(f"a build needs: apt-get install {' '.join(status.missing_packages)}")
        return 0 if status.version else 1
    return 0
