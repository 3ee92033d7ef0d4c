"""run a grid of variants of a scenario, several trials each, and compare them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.harness.commands import sweeps, terminal
from trunkline.harness.config.paths import SCENARIOS

if TYPE_CHECKING:
    import pandas as pd

    from trunkline.harness.study.comparison_runs import Comparison

EPILOG = """\
examples:
  trunkline compare scenarios/partial_reduce.yaml --vary scheme.plan=crew,opr,ring --trials 10
  trunkline compare scenarios/partial_reduce.yaml --vary scheme.plan=crew,ring \\
      --vary scheme.p=3,5 --vary topology.rates='[50 Mbit/s, 80 Mbit/s],n2' --trials 5 --jobs 2
  trunkline compare scenarios/partial_reduce.yaml \\
      --vary 'scheme={plan: crew, split: even},{plan: opr}'
  trunkline compare scenarios/allreduce.yaml --vary scheme.plan=crew,ring \\
      --beside scenarios/gloo_allreduce.yaml
  trunkline compare scenarios/partial_reduce.yaml --vary scheme.plan=crew,ring --beside-prediction
  trunkline compare scenarios/partial_reduce.yaml --vary scheme.plan=crew,a2a \\
      --label CREW --label 'all to all'

The values of --vary are YAML, separated by commas outside of brackets, braces and quotes. A mapping
sets only the keys that it names, so several keys can vary together. Trial t of every cell has the
seed plus t, so all cells are compared on the same networks.

--beside FILE compares with another scenario, for example one that runs other programs. It runs with
the same seeds. Of --set and --vary, it only uses keys of backend, clock, topology, network and
limits.

Repeat the same command to continue an interrupted comparison. Intervals are 95 % confidence
intervals by Student's t. A ratio is the geometric mean of the ratios, paired by seed, to the cell
with the first value of the first key that varies. Only trials that passed are averaged. The exit
code is that of the worst trial.
"""

IDENTICAL = (
    "More trials of the same tell nothing new. Random rates, compute times and losses depend on "
    "the seed (docs/compare.md, What depends on the seed)."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the scenario, what to vary, and the number of trials."""
    terminal.add_scenario(parser)
    add_vary(parser)
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="FILE",
        help="another scenario to compare with; may be given more than once",
    )
    parser.add_argument(
        "--trials", type=terminal.parse_count, default=3, metavar="N", help="runs per cell (3)"
    )
    terminal.add_jobs(parser)
    sweeps.add_cluster(parser)
    sweeps.add_shares(parser)
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the folder of the results, which is created (default: comparisons/SCENARIO)",
    )
    parser.add_argument(
        "--beside-prediction",
        action="store_true",
        help="predict all trials by the fluid model, too, and show both and their ratio",
    )
    terminal.add_labels(parser, "variant, in the order of --dry-run")
    terminal.add_width(
        parser, "of the comparison's figures", "3.4, 7.16 or more, as their names need"
    )
    parser.add_argument("--plots", action="store_true", help="draw the figures of every run, too")
    parser.add_argument("--dry-run", action="store_true", help="only list the trials")
    terminal.add_quiet(parser)


def add_vary(parser: argparse.ArgumentParser) -> None:
    """Add `--vary`."""
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY.PATH=VALUE,VALUE,...",
        help="values to compare; given more than once, all combinations are compared",
    )


def make_plan(
    arguments: argparse.Namespace, trials: int, beside: Sequence[str] = (), **kind: Any
) -> Comparison:
    """Plan the trials of a comparison; `kind` says what they are. Raises UsageError."""
    from trunkline.harness.study import comparison_runs, grid

    try:
        with sweeps.show_count("trials planned", arguments.quiet) as on_progress:
            return comparison_runs.plan(
                arguments.file,
                grid.read_axes(arguments.vary),
                trials,
                arguments.set,
                arguments.seed,
                arguments.plots,
                beside,
                on_progress,
                **kind,
            )
    except grid.GridError as error:
        raise terminal.UsageError(str(error)) from None


def describe_command(start: Sequence[str], arguments: argparse.Namespace, trials: int) -> str:
    """The command that carries out these trials, without options that change no result.

    `start` is the command, and what it is about. A scenario of the installation has its name.
    """
    verb, what = start
    words = ["trunkline", verb, Path(what).stem if Path(what).parent == SCENARIOS else what]
    for option in ("set", "vary", "beside", "label"):
        for value in getattr(arguments, option, ()):
            words += [f"--{option}", value]
    seed = getattr(arguments, "seed", None)
    words += ["--seed", str(seed)] if seed is not None else []
    words += ["--trials", str(trials)]
    words += ["--beside-prediction"] if getattr(arguments, "beside_prediction", False) else []
    width_in = getattr(arguments, "width", None)
    words += ["--width", f"{width_in:g}"] if width_in else []
    words += ["--out", arguments.out] if arguments.out else []
    return shlex.join(words)


def run(arguments: argparse.Namespace) -> int:
    """Run the missing trials and compare the cells."""
    sweeps.check_shares(arguments)
    spec = make_plan(arguments, arguments.trials, arguments.beside)
    if spec.real_time:
        sweeps.refuse_real_time(arguments)
    cells = len({trial.cell for trial in spec.trials})
    terminal.check_labels(arguments.label, cells, "variant")
    command = describe_command(["compare", arguments.file], arguments, arguments.trials)
    labels = tuple(arguments.label)
    spec = replace(spec, labels=labels, command=command, width_in=arguments.width)
    folder = Path(arguments.out or Path("comparisons") / spec.name)
    if arguments.dry_run:
        return _list(spec, folder, tell_earlier(spec, folder, is_dry_run=True))
    if arguments.sbatch is not None:
        _tell_outdated(spec, folder)
        print(sweeps.write_script(arguments))
        return 0
    if arguments.share is not None:
        return run_share(spec, folder, arguments)
    there = tell_earlier(spec, folder)
    if arguments.beside_prediction:
        spec = replace(spec, predicted=_predict(spec, arguments))
    return show(spec, carry_out(spec, folder, arguments, there), folder, arguments.quiet)


def tell_earlier(spec: Comparison, folder: Path, is_dry_run: bool = False) -> Collection[str]:
    """The identities of the trials whose runs are used.

    It says which runs are not used, and whether tables of other trials are replaced.
    """
    from trunkline.harness.runs import finished_runs
    from trunkline.harness.study import earlier_tables

    there = _tell_outdated(spec, folder)
    if earlier_tables.is_of_others(spec, folder):
        if not is_dry_run:
            with finished_runs.lock(folder):
                pass
        are = "would be" if is_dry_run else "are"
        terminal.print_error(
            f"{folder}: its tables and figures are those of other variants, trials or settings and "
            f"{are} replaced, their runs stay; --out DIR keeps them"
        )
    return there


def _tell_outdated(spec: Comparison, folder: Path) -> Collection[str]:
    """The identities of the trials whose runs are used; it says which runs are not, and why."""
    from trunkline.harness.study import comparison_runs, earlier_tables

    there = comparison_runs.find_finished(spec, folder)
    if outdated := earlier_tables.explain_outdated(spec, folder, there):
        terminal.print_error(outdated)
    return there


def show(spec: Comparison, trials: pd.DataFrame, folder: Path, quiet: bool) -> int:
    """Print the results of a comparison; return the exit code of its worst trial."""
    from trunkline.harness.study import (
        comparison,
        comparison_runs,
        comparison_tables,
        expectation_maps,
        mixed_machines,
    )

    cells = comparison.summarize(trials, spec.keys)
    trials, cells, keys = spec.name_variants(trials, cells)
    verdict = comparison.find_worst(trials)
    if quiet:
        print(f"{verdict}  {folder}")
    else:
        console = terminal.make_console()
        console.print(comparison_tables.draw_table(cells, keys))
        for shown in expectation_maps.list_maps(cells, keys):
            console.print(expectation_maps.draw_table(shown))
        for text in comparison.list_notes(trials):
            console.print(text, markup=False)
        for text in comparison.list_lacks(cells, comparison.name_cells(cells, keys)):
            console.print(text, markup=False)
        for name in spec.elsewhere:
            console.print(f"{name} has another network than the first scenario", markup=False)
        for text in comparison.list_problems(trials, keys, str(folder)):
            console.print(text, markup=False)
        for text in comparison.list_identical(trials, keys):
            console.print(text, markup=False)
        for text in mixed_machines.list_mixed(trials, keys):
            console.print(text, markup=False)
        console.print(f"results  {folder}", markup=False)
        if (folder / comparison_runs.PAGE).exists():
            console.print(f"report   {folder / comparison_runs.PAGE}", markup=False)
        if figures := sorted(file.stem for file in folder.glob("plots/*.pdf")):
            names = ", ".join(figures)
            console.print(f"figures  {folder / 'plots'} (PDF, PNG, SVG of {names})", markup=False)
    return {**terminal.EXIT_CODES, "error": terminal.INTERNAL_ERROR}[verdict]


def _predict(spec: Comparison, arguments: argparse.Namespace) -> Mapping[str, Mapping[str, float]]:
    """The numbers that the model predicts of each trial. Raises UsageError if there are none."""
    from trunkline.harness.study.prediction import predictions

    with sweeps.show_count("trials predicted", arguments.quiet) as on_progress:
        found = predictions.predict_beside(spec, arguments.jobs, on_progress)
    if not found:
        raise terminal.UsageError(
            "--beside-prediction: the fluid model can predict none of the trials; "
            "`trunkline predict` says why"
        )
    if left := len(spec.trials) - len(found):
        terminal.print_error(
            f"--beside-prediction: {left} of {len(spec.trials)} trials have no prediction"
        )
    return found


def carry_out(
    spec: Comparison, folder: Path, arguments: argparse.Namespace, there: Collection[str]
) -> pd.DataFrame:
    """Run the trials that are not `there`, `--jobs` at once, and show progress unless `--quiet`."""
    from trunkline.harness.live import sweep_view
    from trunkline.harness.study import comparison_runs

    total = len(spec.trials)
    if arguments.on_cluster is None:
        terminal.tell_jobs(total - len(there), arguments.jobs, arguments.quiet)
    console = terminal.make_console(stderr=True, quiet=arguments.quiet)

    def tell(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    cluster = sweeps.find_cluster(arguments, folder, tell)
    try:
        with sweep_view.show(console) as show:
            return comparison_runs.run(
                spec,
                folder,
                arguments.jobs,
                show,
                lambda same: tell("\n".join([*same, IDENTICAL])),
                cluster,
            )
    except KeyboardInterrupt:
        kept = len(comparison_runs.find_finished(spec, folder))
        tell(_describe_kept(kept, total, folder))
        raise


def _describe_kept(kept: int, total: int, folder: Path) -> str:
    """What there is after Ctrl-C."""
    if not kept:
        return f"none of the {total} trials has finished yet; the same command starts them again"
    means = f"{kept} of {total} trials are kept in {folder}; its page and tables show these trials"
    return f"{means}; the same command continues"


def run_share(spec: Comparison, folder: Path, arguments: argparse.Namespace) -> int:
    """Run the missing trials of `--share`; the exit code says whether all were carried out."""
    from trunkline.harness.live import sweep_view
    from trunkline.harness.study import comparison_shares

    _tell_outdated(spec, folder)
    number, count = arguments.share
    console = terminal.make_console(stderr=True, quiet=arguments.quiet)
    with sweep_view.show(console, f"share {number}/{count}: ") as show:
        total, lost = comparison_shares.run_share(
            spec, folder, arguments.share, arguments.jobs, show
        )
    print(f"{total - lost} of {total} trials of share {number}/{count} are done, in {folder}")
    return terminal.INTERNAL_ERROR if lost else 0


def _list(spec: Comparison, folder: Path, there: Collection[str]) -> int:
    cells = list(dict.fromkeys(trial.cell for trial in spec.trials))
    names = dict(zip(cells, spec.labels or map(str, cells), strict=True))
    for trial in spec.trials:
        state = "done" if trial.job.identity in there else "to do"
        print(f"{state:5}  {names[trial.cell]}  seed {trial.job.seed}")
    done = sum(trial.job.identity in there for trial in spec.trials)
    print(f"{len(spec.trials)} trials, {done} of them done, in {folder}")
    return 0
