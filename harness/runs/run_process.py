"""One run as a process (`harness.runs.run_pool` starts several).

Standard input has one JSON object: the fields of `harness.runs.run_pool.Job`, and `runs_dir`.
Standard output has one JSON object per line: `{"share": 0.5}` is the progress. The last one is
`{"run_dir": ..., "outcome": ..., "error": ...}`, or `{"refused": text, "unfit": bool}` if there is
no run to judge: `unfit` says that another machine may be able to carry it out. A finished run's
folder has `run.json`.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from trunkline.harness.kernel import KernelError
from trunkline.harness.live import progress
from trunkline.harness.live.live_state import Progress
from trunkline.harness.processes.ending import end_by
from trunkline.harness.processes.lines import print_message
from trunkline.harness.record.run_folder import RunFolder, StoreError
from trunkline.harness.runs import provenance, runner
from trunkline.harness.runs.run_record import RECORD, combine_outcome, hash_log
from trunkline.harness.scenario.loading import CannotRunError, parse
from trunkline.harness.scenario.settings import Outputs, Scenario

SAY_PERIOD_S = 0.5


def main() -> int:
    """Carry out the run on standard input; return 0 if there is a run to judge, else 1."""
    end_by(signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # a Dask worker here blocks it
    try:
        job = json.load(sys.stdin)
        scenario = parse(job["text"], job["file"], job["overrides"], job["seed"])
        if provenance.identify_run(scenario) != job["identity"]:
            said = "Trunkline's code, Python or a package has changed since the start: start again"
            _print_json(refused=said, unfit=True)
            return 1
        _run(scenario, job)
    except (CannotRunError, KernelError, StoreError) as error:
        _print_json(refused=str(error), unfit=isinstance(error, KernelError))
        return 1
    return 0


def make_record(identity: str, log: str, error: str | None) -> dict[str, str | None]:
    """The content of `run.json`; `log` is the result of `hash_log`."""
    return {
        "identity": identity,
        "log": log,
        "judged_by": provenance.hash_code(provenance.REPORT),
        "error": error,
    }


def _run(scenario: Scenario, job: dict[str, Any]) -> None:
    outputs = Outputs(plots=job["plots"])
    named = dataclasses.replace(scenario, name=job["name"], outputs=outputs)
    workers = scenario.parties
    said_s = 0.0

    def on_progress(now: Progress) -> None:
        nonlocal said_s
        if time.monotonic() > said_s + SAY_PERIOD_S:
            said_s = time.monotonic()
            _print_json(share=progress.fraction(now, scenario.whole_stop, workers) or 0.0)

    result = runner.run(named, Path(job["file"]), Path(job["runs_dir"]), on_progress)
    folder = RunFolder(result.run_dir)
    folder.write_json(RECORD, make_record(job["identity"], hash_log(result.run_dir), result.error))
    verdict = combine_outcome(result.verdict.outcome, result.error)
    _print_json(run_dir=str(result.run_dir), outcome=verdict, error=result.error)


def _print_json(**words: Any) -> None:
    print_message(words)


if __name__ == "__main__":
    sys.exit(main())
