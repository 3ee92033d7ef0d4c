"""A soak of schemes that SIGTERM ends."""

import os
import subprocess
import sys
from pathlib import Path

import soak_schemes

TERMINATED = """
import os, signal, soak_schemes
soak_schemes.soak = lambda *given: os.kill(os.getpid(), signal.SIGTERM)
try:
    soak_schemes.main()
except KeyboardInterrupt:
    print("the pool can clean up")
"""


def test_sigterm_lets_the_pool_end_its_runs() -> None:
    folder = str(Path(soak_schemes.__file__).parent)
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", TERMINATED],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout == "the pool can clean up\n", done.stderr
