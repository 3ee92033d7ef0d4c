"""reproduce a figure of a paper or of a library: its claim, a model, and a measurement."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.harness.commands import sweeps, terminal
from trunkline.harness.commands.verbs import compare as comparing
from trunkline.harness.config.paths import SCENARIOS

if TYPE_CHECKING:
    import pandas as pd

    from trunkline.harness.study.comparison_runs import Comparison
    from trunkline.harness.study.model_figures import ModelTrial
    from trunkline.harness.study.papers import Figure, ModelFigure

EPILOG = """\
examples:
  trunkline reproduce
  trunkline reproduce crew/4 --trials 5 --jobs 2
  trunkline reproduce crew/4 --set topology.sites=16 --set scheme.p=4
  trunkline reproduce crew/5 --fluid --set topology.sites=60 --set scheme.p=5
  trunkline reproduce crew/6 --fluid --set topology.sites=12 --vary scheme.p=4,6
  trunkline reproduce netstorm/19 --trials 1      panels 19a and 19b
  trunkline reproduce owl/7 --fluid --vary workload.batch=32,64,128
  trunkline reproduce owl/7 --trials 5
  trunkline reproduce torchft/timeouts --trials 1     on which network does a timeout suffice?
  trunkline reproduce hivemind/timeouts --trials 1    the same of hivemind's timeouts
  trunkline reproduce diloco/utilization --trials 1   how much do sites compute?

It is a comparison like those of `trunkline compare`, in reproductions/. Repeat the same command to
continue an interrupted one. The fluid model predicts the same trials: the same rates, groups and
compute times, on links without propagation and TCP. Figures of OWL have a model of one step with
keys of its own: --fluid shows it at the paper's size, and without it a smaller one is measured.
Figures of libraries need the libraries: pip install 'trunkline[gallery]'.
"""


PANELS = "abcd"
"""The last letters of the names of panels."""

MODELLED = "trials done in the fluid model"

INSTEAD = ("update_s", "rounds")
"""What is shown of a prediction that lacks the figure's own metric."""

WORST_LAST = (0, 2, 1, terminal.INTERNAL_ERROR)
"""The exit codes of comparisons: pass, unknown, fail, not carried out."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the figure, changes of it, and the number of trials."""
    parser.add_argument(
        "figure", nargs="?", metavar="FIGURE", help="such as crew/4; without it, all are listed"
    )
    parser.add_argument("--list", action="store_true", help="list the figures and their claims")
    parser.add_argument("--fluid", action="store_true", help="predict only, without measurements")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY.PATH=VALUE", help="as for run"
    )
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY.PATH=VALUE,VALUE,...",
        help="as for compare; for a key that the figure varies, these values replace its values",
    )
    parser.add_argument(
        "--trials", type=terminal.parse_count, default=3, metavar="N", help="per cell"
    )
    terminal.add_jobs(parser)
    sweeps.add_cluster(parser)
    sweeps.add_shares(parser)
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the folder of the results, which is created (default: reproductions/FIGURE)",
    )
    terminal.add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """List the figures, or reproduce one with all its panels."""
    from trunkline.harness.config.document import list_choices
    from trunkline.harness.study import papers
    from trunkline.harness.study.papers import ModelFigure

    known = papers.find_figures()
    if arguments.list or arguments.figure is None:
        width = max(map(len, known))
        for name, figure in known.items():
            print(f"{name:{width}}  {figure.claim}")
        return 0
    wanted: str = arguments.figure
    panels = [wanted] if wanted in known else [n for n in known if wanted in _list_figures(n)]
    if not panels:
        allowed = list_choices(known, wanted)
        raise terminal.UsageError(f"figure {wanted}: {allowed} (see: trunkline reproduce)")
    sweeps.check_shares(arguments)
    planned = {}
    for name in panels:
        figure = known[name]
        if isinstance(figure, ModelFigure) and not arguments.fluid:
            figure = figure.measured
        planned[name] = _plan(figure, arguments)
    if arguments.sbatch is not None:
        print(sweeps.write_script(arguments))
        return 0
    codes = []
    for name, carry_out in planned.items():
        folder = Path("reproductions") / name
        if arguments.out is not None:
            folder = Path(arguments.out) / name.removeprefix(wanted).removeprefix("-")
        codes.append(carry_out(folder))
    return max(codes, key=WORST_LAST.index)


def _list_figures(name: str) -> tuple[str, str]:
    """The figures of which this one may be a panel."""
    paper, _, own = name.partition("/")
    return name.rstrip(PANELS), f"{paper}/{own.partition('-')[0]}"


def _plan(figure: Figure | ModelFigure, arguments: argparse.Namespace) -> Callable[[Path], int]:
    """Plan the figure's trials with the changes of the command line. Raises UsageError.

    Returns a function that carries them out for a folder, and returns the exit code.
    """
    from trunkline.harness.study import comparison_runs, grid, model_figures
    from trunkline.harness.study.papers import ModelFigure

    try:
        axes = {axis.key: axis for axis in grid.read_axes(figure.vary)}
        axes |= {axis.key: axis for axis in grid.read_axes(arguments.vary)}
        values = tuple(axes.values())
        if isinstance(figure, ModelFigure):
            trials = model_figures.plan(figure, values, arguments.trials, arguments.set)
            return partial(_predict_model, figure, trials, arguments)
        with sweeps.show_count("trials planned", arguments.quiet) as on_progress:
            spec = comparison_runs.plan(
                SCENARIOS / figure.scenario,
                values,
                arguments.trials,
                arguments.set,
                on_progress=on_progress,
            )
    except grid.GridError as error:
        raise terminal.UsageError(str(error)) from None
    start = ["reproduce", arguments.figure]
    spec = replace(spec, command=comparing.describe_command(start, arguments, arguments.trials))
    return partial(_reproduce, figure, spec, arguments)


def _predict_model(
    figure: ModelFigure, trials: Sequence[ModelTrial], arguments: argparse.Namespace, folder: Path
) -> int:
    from trunkline.harness.study import model_figures

    with sweeps.show_count(MODELLED, arguments.quiet) as on_progress:
        model = model_figures.predict(figure, trials, on_progress)
    keys = tuple(key for key, _ in trials[0].cell.values)
    _write_prediction(figure, model, keys, folder, arguments)
    return 0


def _reproduce(
    figure: Figure, spec: Comparison, arguments: argparse.Namespace, folder: Path
) -> int:
    from trunkline.harness.record import run_folder
    from trunkline.harness.report import plots
    from trunkline.harness.study import comparison, earlier_tables, reproduction

    if arguments.share is not None:
        return comparing.run_share(spec, folder, arguments)
    code, measured = 0, None
    if not arguments.fluid:
        there = comparing.tell_earlier(spec, folder)
        trials = comparing.carry_out(spec, folder, arguments, there)
        code = comparing.show(spec, trials, folder, arguments.quiet)
        measured = comparison.summarize(trials, spec.keys)
    if figure.metric == comparison.EXPECTATIONS:
        if not arguments.quiet:
            terminal.make_console().print(f"question  {figure.claim}", markup=False)
        return 0 if measured is not None and comparison.has_only_missed(trials) else code
    with sweeps.show_count(MODELLED, arguments.quiet) as on_progress:
        known = earlier_tables.find_predictions(folder)
        model = reproduction.predict(spec, arguments.jobs, on_progress, figure.predict, known)
    cells = _write_prediction(figure, model, spec.keys, folder, arguments, measured)
    if measured is not None:
        plots.write(
            run_folder.RunFolder(folder),
            figure.metric,
            reproduction.draw(trials, measured, cells, spec.keys, figure.metric),
        )
    return code


def _write_prediction(
    figure: Figure | ModelFigure,
    model: pd.DataFrame,
    keys: Sequence[str],
    folder: Path,
    arguments: argparse.Namespace,
    measured: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Write the table of the predicted trials, print that of the cells, and return the cells."""
    from trunkline.harness.record import run_folder
    from trunkline.harness.study import comparison, papers, reproduction

    cells = comparison.summarize(model, keys)
    run_folder.RunFolder(folder).write_table("fluid", model)
    if not arguments.quiet:
        console = terminal.make_console()
        console.print(f"claim  {figure.claim}", markup=False)
        is_fluid = isinstance(figure, papers.ModelFigure) or figure.predict is None
        model_name = "fluid" if is_fluid else "model"
        shown = figure.metric
        if not reproduction.is_known(cells, figure.metric):
            unknown = "the model cannot predict this scenario"
            if any(reproduction.is_known(cells, metric) for metric in reproduction.METRICS):
                unknown = f"the model does not predict {figure.metric}"
            instead = [each for each in INSTEAD if reproduction.is_known(cells, each)]
            if measured is None and instead:
                shown = instead[0]
                unknown += f"; this is {shown}, and tables/fluid.csv has the rest"
            console.print(f"fluid  unknown: {unknown}", markup=False)
        console.print(reproduction.draw_table(measured, cells, keys, shown, model_name))
    return cells
