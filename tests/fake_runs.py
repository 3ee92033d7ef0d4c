"""Trunkline with runs that only pretend: `python fake_runs.py compare ...`.

Loaded by a Dask worker (`--preload`), it makes that worker's runs pretend, too. A run's numbers
depend on its seed and its overrides alone. Variables:

- `FAKE_S`: how long a run takes.
- `FAKE_LOG`: a file that gets a line for each start and each end.
- `FAKE_JUDGED_BY`: what the record of a run has.
- `FAKE_UNSHARED`: a worker sees no folder of the machine that asks.
- `FAKE_UNFIT`: why this machine cannot carry out runs.
"""

import hashlib
import json
import os
import platform
import sys
import time
import zlib
from pathlib import Path
from typing import Any

JUDGED_BY = "FAKE_JUDGED_BY"


def say(**words: object) -> None:
    """Tell what a run's process tells."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def note(*words: object) -> None:
    """Write a line of the log."""
    with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as log:  # noqa: PTH123
        log.write(" ".join(map(str, words)) + "\n")


def pretend(job: dict[str, Any]) -> None:
    """Leave the folder of a run, and say so as a run's process does."""
    if "FAKE_UNFIT" in os.environ:
        say(refused=os.environ["FAKE_UNFIT"], unfit=True)
        return
    note("start", job["name"], os.getpid())
    end_s = time.monotonic() + float(os.environ.get("FAKE_S", "0.2"))
    while (left_s := end_s - time.monotonic()) > 0:
        say(share=0.5)
        time.sleep(min(0.5, left_s))
    number = zlib.crc32(repr((job["seed"], job["overrides"])).encode()) % 1000
    verdict = "fail" if number % 10 == 0 else "pass"
    folder = Path(job["runs_dir"], job["name"], "20260101-000000")
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    (folder / "tables" / "run.csv").write_text(f"task_s,rounds\n{number / 100},{number}\n")
    (folder / "verdict.json").write_text(json.dumps({"verdict": verdict}))
    host = {"name": platform.node(), "processor": "pretended"}
    environment = {"host": host, "version": "0", "python": "3", "packages": {}}
    (folder / "environment.json").write_text(json.dumps(environment))
    (folder / "events.jsonl").write_text("{}\n")
    log = hashlib.sha256(b"{}\n").hexdigest()
    record = {"identity": job["identity"], "log": log, "error": None}
    record["judged_by"] = os.environ[JUDGED_BY]
    (folder / "run.json").write_text(json.dumps(record))
    say(run_dir=str(folder), outcome=verdict, error=None)
    note("end", job["name"], os.getpid())


def replace_runs() -> None:
    """Let the runs of this process pretend."""
    from trunkline.harness.runs import run_pool

    run_pool.PROGRAM = (sys.executable, __file__, "one")
    if "FAKE_UNSHARED" in os.environ:
        from trunkline.harness.runs.cluster import cluster_task

        cluster_task._is_there = lambda path, content: False


def command() -> int:
    """Carry out a command of Trunkline, which draws nothing."""
    from trunkline.harness.commands import main
    from trunkline.harness.runs import provenance, runner
    from trunkline.harness.study import comparison_runs

    runner.check_machine = lambda scenario: None
    comparison_runs._write_page = lambda *_: None  # which reads whole runs
    comparison_runs._write_figures = lambda *_: None
    if JUDGED_BY not in os.environ:
        os.environ[JUDGED_BY] = provenance.hash_code(provenance.REPORT)
    return main.main()


if sys.argv[1:] == ["one"]:
    pretend(json.load(sys.stdin))
else:
    replace_runs()
    if __name__ == "__main__":
        sys.exit(command())
