"""Carries out runs one after the other, inside the emulated machine of `against_kernel.py`.

    python guest_runs.py RESULTS NAME NAME ...

Each run has a folder in RESULTS with its `resolved.yaml`. It takes place in a folder in memory,
and its log is copied to RESULTS when it has ended. The file COPIED is then beside it. Runs are
forked from this process, which has imported all that they need.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import traceback
from pathlib import Path

from trunkline.harness.session import run_session

MEMORY = Path("/dev/shm/runs")
COPIED = "copied"
"""A file of a run whose whole log is in RESULTS: the machine may be ended at any time."""


def carry_out(results: Path, name: str) -> int:
    """Carry out one run; returns its exit code."""
    here = MEMORY / name
    shutil.copytree(results / name, here)
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setpgid(0, 0)
            output = os.open(here / "log/session.log", os.O_WRONLY | os.O_CREAT)
            for stream in (1, 2):
                os.dup2(output, stream)
            code = run_session.main(here)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    shutil.copytree(here, results / name, dirs_exist_ok=True)
    (results / name / COPIED).touch()
    shutil.rmtree(here)
    return code


def main() -> None:
    """Carry out the named runs."""
    results = Path(sys.argv[1])
    for name in sys.argv[2:]:
        began = time.monotonic()
        code = carry_out(results, name)
        took = time.monotonic() - began
        sys.stdout.write(f"{name}: code {code}, {took:.1f} s, CPU {time.process_time():.1f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
