"""Builds the embedded kernel with the standard library alone, while pip installs the rest.

    PYTHONPATH=src python3 distribution/build_kernel.py

`trunkline kernel build` does the same with a bar that shows the progress.
"""

from __future__ import annotations

import sys

from trunkline.harness.kernel import KernelError, boot, build

STEP_PERCENT = 10


def main() -> int:
    """Build it, unless it is there and whole; return 1 if that fails."""
    shown = -STEP_PERCENT

    def show(step: build.Progress) -> None:
        nonlocal shown
        if step.percent >= shown + STEP_PERCENT:
            shown = step.percent - step.percent % STEP_PERCENT
            print(f"embedded kernel: {step.percent} %, {step.doing}", flush=True)

    try:
        build.ensure(boot.try_out, show)
    except KernelError as error:
        print(f"build_kernel.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
