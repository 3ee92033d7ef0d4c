"""Carries out a command while standard input is open: `python -m MODULE COMMAND WORD ...`.

SSH starts schedulers and workers by this. Its end of the connection is their standard input, which
closes however the connection ends: so they do not outlive the command that wanted them.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys

GRACE_S = 5.0
"""What the command gets to end after SIGTERM, in seconds."""


def main(words: list[str]) -> int:
    """Carry out the command, and return its exit code."""
    child = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *words], stdin=subprocess.DEVNULL, process_group=0
    )
    ended = os.pidfd_open(child.pid)
    while True:
        ready, _, _ = select.select([sys.stdin.fileno(), ended], [], [])
        if ended in ready:
            return child.wait()
        if not os.read(sys.stdin.fileno(), 1 << 16):
            break
    child.terminate()
    try:
        return child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
