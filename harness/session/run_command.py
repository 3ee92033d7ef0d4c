"""Runs a command in the embedded kernel, with temporary folders of its own.

`python -m trunkline.harness.session.run_command COMMAND ARGUMENT...` becomes that command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from trunkline.harness.session import private_files

NOT_FOUND, NOT_ALLOWED = 127, 126


def main(command: list[str]) -> int:
    """Become the command; returns a code, as a shell does, if that is not possible."""
    here = Path.cwd()
    private_files.enter_mounts([here], [here], embedded=True)
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        sys.stderr.write(f"trunkline: {command[0]}: not found\n")
        return NOT_FOUND
    except OSError as error:
        sys.stderr.write(f"trunkline: {command[0]}: {error.strerror}\n")
        return NOT_ALLOWED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
