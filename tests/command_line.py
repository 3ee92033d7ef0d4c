"""The command `trunkline` as a process of its own."""

import subprocess
import sys
from pathlib import Path

TRUNKLINE = (sys.executable, "-m", "trunkline.harness.commands.main")


def command(where: Path, *words: str) -> subprocess.Popen[str]:
    """Starts `trunkline` with these words in a folder, with pipes to and from it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*TRUNKLINE, *words], cwd=where, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
