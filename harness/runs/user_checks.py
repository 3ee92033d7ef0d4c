"""Carries out the programs of the user that judge a run, and judges it (`expect:` with `check`)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from trunkline.harness.checks.expectations.user_check import UserCheck
from trunkline.harness.checks.verdict import Verdict
from trunkline.harness.processes.lines import read_tail
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.report import outputs
from trunkline.harness.scenario.loading import load
from trunkline.harness.scenario.sections.expectations import Expectation
from trunkline.workloads.program import search_path

LIMIT_S = 600.0
"""A check that takes longer is killed."""

LAST_BYTES = 4096
"""The end of a check's output in which its last line is sought."""


def judge_run(
    run_dir: Path,
    width_in: float | None = None,
    on_step: Callable[[str], None] = outputs.say_nothing,
) -> Verdict:
    """Write a run's tables, carry out its user's checks, and judge it; see `outputs.build`."""
    expected = load(run_dir / "resolved.yaml").expect
    checks = [(number, each) for number, each in enumerate(expected) if each.kind == "check"]
    if checks:
        outputs.write_tables(run_dir)
        done = [_carry_out(run_dir, number, each).to_json() for number, each in checks]
        RunFolder(run_dir).write_json(outputs.USER_CHECKS, {"checks": done})
    return outputs.build(run_dir, width_in, on_step)


def _carry_out(run_dir: Path, number: int, expected: Expectation) -> UserCheck:
    """Carry out one check, with its output in the run's log; none of its processes is left."""
    command = [*map(str, expected.check or ()), str(run_dir.resolve())]
    path = run_dir / "log" / f"check-{number}.out"
    with path.open("wb") as file:
        try:
            process = subprocess.Popen(
                command,
                cwd=expected.folder,
                env={**os.environ, "PATH": search_path()},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return UserCheck(number, None, f"could not be started: {error}")
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return UserCheck(number, None, f"took longer than {LIMIT_S:g} s", _last_line(path))
        finally:
            _kill_group(process)
    if code < 0:
        return UserCheck(number, None, f"was ended by signal {-code}", _last_line(path))
    return UserCheck(number, code, "", _last_line(path))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End what the check has started and left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(path: Path) -> str:
    lines = read_tail(path, LAST_BYTES).decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
