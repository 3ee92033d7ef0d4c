"""A script for SLURM: a job array that carries out a comparison in shares, without Dask.

Each task of the array repeats the command with `--share N/COUNT`. So it continues what is missing,
however often it is submitted, and the command without a share writes the tables.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from trunkline.harness.runs.cluster.cluster_file import Slurm


def write_script(spec: Slurm, command: Sequence[str], here: Path, script: Path) -> str:
    """The text of the script.

    Args:
        spec: the jobs: their number, and what each of them gets.
        command: the command that carries out all, in words.
        here: the folder to carry it out in.
        script: the script's own file, beside which the output is written.
    """
    options = [
        f"--array=1-{spec.jobs}",
        shlex.quote(f"--output={escape(script)}-%A-%a.log"),
        *_list_options(spec, spec.runs),
        *spec.directives,
    ]
    share = f"--jobs {spec.runs} --share $SLURM_ARRAY_TASK_ID/{spec.jobs}"
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in options),
        "set -e",  # without -u: what loads modules and environments may use unset variables
        *spec.before,
        f"cd {shlex.quote(str(here))}",
        f"exec {shlex.join(command)} {share}",
    ]
    return "\n".join(lines) + "\n"


def describe_submission(spec: Slurm, script: Path, command: Sequence[str], here: Path) -> str:
    """The lines that submit it, and then the command that writes the tables."""
    whole = " && ".join([*spec.before, f"cd {shlex.quote(str(here))}", shlex.join(command)])
    given = [word for line in spec.directives for word in shlex.split(line)]
    output = f"--output={escape(script)}-%j.log"
    words = [*_list_options(spec, 1), *given, output, "--wrap", whole]
    return (
        f"array=$(sbatch --parsable {shlex.quote(str(script))})\n"
        f"sbatch --dependency=afterany:$array {shlex.join(words)}"
    )


def render_walltime(walltime_s: float) -> str:
    """A time limit as SLURM reads it: hours, minutes and seconds."""
    minutes, seconds = divmod(round(walltime_s), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


def escape(path: Path) -> str:
    """A file as SLURM reads it, which replaces what a percent sign begins."""
    return str(path).replace("%", "%%")


def _list_options(spec: Slurm, runs: int) -> Iterator[str]:
    yield "--job-name=trunkline"
    yield f"--cpus-per-task={runs}"
    yield f"--mem={-(-runs * spec.memory_bytes // 10**6)}M"
    yield f"--time={render_walltime(spec.walltime_s)}"
    if spec.queue:
        yield f"--partition={spec.queue}"
    if spec.account:
        yield f"--account={spec.account}"
