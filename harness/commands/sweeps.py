"""Options by which commands carry out many runs on other machines (`harness.runs.cluster`)."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.harness.commands import terminal

if TYPE_CHECKING:
    from trunkline.harness.runs.cluster.cluster_file import Cluster
    from trunkline.harness.runs.run_pool import Pool

NEEDS_DASK = (
    "--on-cluster: dask.distributed is not installed here: pip install 'trunkline[cluster]'"
)
OWN = ("--sbatch", "--on-cluster", "--jobs")
"""The options that a script does not repeat: a job has as many processors as the file says."""


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add `--on-cluster`."""
    parser.add_argument(
        "--on-cluster",
        type=_read_cluster,
        metavar="WHERE",
        help="carry out the runs on a cluster, by Dask: local, the address of a scheduler, or a"
        " file (docs/cluster.md)",
    )


def add_shares(parser: argparse.ArgumentParser) -> None:
    """Add `--sbatch` and `--share`."""
    parser.add_argument(
        "--sbatch",
        type=Path,
        metavar="FILE",
        help="only write a script for SLURM, a job array that needs no Dask, for the jobs that the"
        " file of --on-cluster describes",
    )
    parser.add_argument(
        "--share",
        type=_parse_share,
        metavar="N/COUNT",
        help="only carry out the missing runs of this share, without tables; shares may go on at"
        " the same time",
    )


def check_shares(arguments: argparse.Namespace) -> None:
    """Raises UsageError if `--sbatch` or `--share` stands beside what makes no sense with it."""
    from trunkline.harness.runs.cluster.cluster_file import Slurm

    if arguments.sbatch is not None:
        given = f"--sbatch {shlex.quote(str(arguments.sbatch))}"
        if not isinstance(arguments.on_cluster, Slurm):
            raise terminal.UsageError(
                f"{given}: expected --on-cluster FILE of kind slurm with it, which says what a job "
                "gets"
            )
        _refuse_beside(given, arguments, ("share", "fluid"))
    if arguments.share is not None:
        given = "--share {}/{}".format(*arguments.share)
        _refuse_beside(given, arguments, ("on_cluster", "fluid"))


def _refuse_beside(given: str, arguments: argparse.Namespace, names: Sequence[str]) -> None:
    for name in names:
        if getattr(arguments, name, None):
            option = f"--{name.replace('_', '-')}"
            raise terminal.UsageError(f"{given}: expected without {option}")


def refuse_real_time(arguments: argparse.Namespace) -> None:
    """Raises UsageError if several runs of a real clock would go on at once on one machine."""
    if arguments.on_cluster is not None and getattr(arguments.on_cluster, "runs", None) != 1:
        raise terminal.UsageError(
            "--on-cluster: expected a file with runs: 1, one run at a time on each machine, with "
            "the real clock: simultaneous runs would disturb each other"
        )
    if arguments.on_cluster is None and arguments.jobs > 1:
        raise terminal.UsageError(
            f"--jobs {arguments.jobs}: expected 1 with the real clock: simultaneous runs would "
            "disturb each other"
        )


def find_cluster(
    arguments: argparse.Namespace, folder: Path, tell: Callable[[str], None]
) -> contextlib.AbstractContextManager[Pool] | None:
    """The cluster of `--on-cluster`, which starts when it is entered, or None for this machine.

    Raises UsageError; when it is entered, ClusterError.
    """
    if arguments.on_cluster is None:
        return None
    try:
        from trunkline.harness.runs.cluster import dask_clusters
    except ModuleNotFoundError:
        raise terminal.UsageError(NEEDS_DASK) from None
    return dask_clusters.connect(arguments.on_cluster, folder, arguments.jobs, tell)


@contextlib.contextmanager
def show_count(what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many of how many are done, such as "trials planned", unless `quiet`."""
    from trunkline.harness.live import progress

    with progress.live(terminal.make_console(stderr=True, quiet=quiet)) as show:
        yield lambda done, total: show(done / total, f"{done} of {total} {what}")


def write_script(arguments: argparse.Namespace) -> str:
    """Write the script of `--sbatch`; return the lines that submit it. Raises StoreError."""
    from trunkline.harness.record.run_folder import RunFolder
    from trunkline.harness.runs.cluster import job_array

    script, here = arguments.sbatch.absolute(), Path.cwd()
    command = _repeat_command(sys.argv)
    RunFolder(script.parent).write_text(
        script.name, job_array.write_script(arguments.on_cluster, command, here, script)
    )
    return job_array.describe_submission(arguments.on_cluster, script, command, here)


def _repeat_command(argv: Sequence[str]) -> list[str]:
    """The words of this command without those of OWN."""
    program = Path(argv[0]).absolute()
    is_module = program.name == "main.py" and program.parent.name == "commands"
    start = ["-m", "trunkline.harness.commands.main"] if is_module else [str(program)]
    kept, words = [sys.executable, *start], iter(argv[1:])
    for word in words:
        if word in OWN:
            next(words)
        elif word.partition("=")[0] not in OWN:
            kept.append(word)
    return kept


def _read_cluster(text: str) -> Cluster:
    from trunkline.harness.runs.cluster import cluster_file

    return cluster_file.read(text)


def _parse_share(text: str) -> tuple[int, int]:
    number, slash, count = text.partition("/")
    if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise argparse.ArgumentTypeError(f"{shlex.quote(text)}: expected N/COUNT, such as 1/10")
