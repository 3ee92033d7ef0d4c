"""run a scenario many times with random faults, and shrink the first failure."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.harness.commands import sweeps, terminal

if TYPE_CHECKING:
    from trunkline.harness.scenario.settings import Scenario
    from trunkline.harness.study.soak_runs import Soak

EPILOG = """\
examples:
  trunkline soak scenarios/soak/mesh.yaml --runs 20
  trunkline soak scenarios/soak/internet2.yaml --runs 200 --jobs 2 --set scheme.plan=ring
  trunkline soak scenarios/quickstart.yaml --churn 'churn outages=8s kills=30s lasting=1..6s'

Run n has the scenario's seed plus n, which also determines its random faults. Without --churn, the
faults are those of the scenario's timeline; a scenario without a timeline gets outages, pauses,
kills and losses of the controller. The soak ends with the first run that fails. Its faults are then
left out one after the other while it still fails; the rest is the scenario DIR/failing.yaml. Every
run has a row in DIR/tables/runs.csv. With --keep, the folders of runs that passed stay in DIR/runs,
too: `trunkline report` judges them again, `trunkline explain` explains them.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the scenario, the number of runs, and the faults."""
    terminal.add_scenario(parser)
    parser.add_argument(
        "--runs", type=terminal.parse_count, default=20, metavar="N", help="how many runs (20)"
    )
    terminal.add_jobs(parser)
    sweeps.add_cluster(parser)
    parser.add_argument("--churn", metavar="TEXT", help="random faults as in a timeline")
    parser.add_argument(
        "--tries",
        type=terminal.parse_count,
        default=40,
        metavar="N",
        help="most runs for shrinking (40)",
    )
    parser.add_argument(
        "--keep",
        type=parse_kept,
        default=0,
        metavar="WHICH",
        help="the folders to keep: failed (those of runs that did not pass), all, or also those of"
        " the last N that passed (failed)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the folder of the results, which is created (default: soaks/SCENARIO)",
    )
    terminal.add_quiet(parser)


def parse_kept(text: str) -> int | None:
    """How many runs that passed are kept; None if all are."""
    if text in ("all", "failed"):
        return None if text == "all" else 0
    try:
        return terminal.parse_count(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected all, failed, or a number") from None


def run(arguments: argparse.Namespace) -> int:
    """Run the scenario many times, print totals, and shrink the first failure."""
    from trunkline.harness.live import sweep_view
    from trunkline.harness.study import soak_runs

    spec = soak_runs.plan(
        arguments.file, arguments.runs, arguments.set, arguments.seed, arguments.churn
    )
    if spec.scenario.clock == "real":
        sweeps.refuse_real_time(arguments)
    folder = Path(arguments.out or Path("soaks") / spec.scenario.name)
    if arguments.on_cluster is None:
        terminal.tell_jobs(arguments.runs, arguments.jobs, arguments.quiet)
    screen = terminal.make_console(stderr=True, quiet=arguments.quiet)

    def tell(text: str) -> None:
        screen.print(text, markup=False, highlight=False, soft_wrap=True)

    cluster = sweeps.find_cluster(arguments, folder, tell) or contextlib.nullcontext()
    with cluster as pool, sweep_view.show(screen) as show:
        rows, failed = soak_runs.run(spec, folder, arguments.jobs, show, arguments.keep, pool)
    for name, value in soak_runs.sum_up(rows).items():
        print(f"{name:>18}  {value}")
    if failed is None:
        passed = bool((rows["outcome"] == "pass").all())
        return terminal.EXIT_CODES["pass" if passed else "unknown"]
    print(f"seed {failed.job.seed} failed: {failed.run_dir or failed.error}")
    if failed.run_dir is not None:
        _shrink(spec, failed.job.seed, failed.run_dir, folder, arguments.tries)
    return terminal.EXIT_CODES["fail"]


def _shrink(spec: Soak, seed: int, run_dir: Path, folder: Path, tries: int) -> None:
    from trunkline.harness.scenario.loading import resolve
    from trunkline.harness.study import soak_runs

    entries = soak_runs.expand_faults(run_dir, spec.scenario.topology)
    path = folder / "failing.yaml"

    def keep(failing: Scenario) -> None:
        path.write_text(resolve(failing), encoding="utf-8")
        count = len(failing.timeline)
        print(f"{count} of its {len(entries)} faults are enough: {path}", flush=True)

    print(f"it had {len(entries)} faults; looking for those that make it fail", flush=True)
    if soak_runs.minimize(spec, seed, entries, folder, tries, keep) is None:
        print(f"it passes if its {len(entries)} faults are single entries of a timeline")
