"""reproduce a figure of a paper: its claim, the fluid model, and a measurement."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.harness.commands import terminal
from trunkline.harness.commands.verbs import compare as comparing
from trunkline.harness.config.paths import SCENARIOS

if TYPE_CHECKING:
    import pandas as pd

    from trunkline.harness.study.comparison_runs import Comparison
    from trunkline.harness.study.papers import Figure

EPILOG = """\
examples:
  trunkline reproduce --list
  trunkline reproduce crew/4 --trials 5 --jobs 2
  trunkline reproduce crew/4 --set topology.sites=16 --set scheme.p=4
  trunkline reproduce crew/5 --fluid --set topology.sites=60 --set scheme.p=5
  trunkline reproduce crew/6 --fluid --set topology.sites=12 --vary scheme.p=4,6
  trunkline reproduce netstorm/19 --trials 1      panels 19a and 19b

It is a comparison like those of `trunkline compare`, in reproductions/. Repeat the same command to
continue an interrupted one. The fluid model predicts the same trials: the same rates, groups and
compute times, on links without propagation and TCP.
"""


PANELS = "abcd"
"""The last letters of the names of panels."""

WORST_LAST = (0, 2, 1, terminal.INTERNAL_ERROR)
"""The exit codes of comparisons: pass, unknown, fail, not carried out."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the figure, changes of it, and the number of trials."""
    parser.add_argument("figure", nargs="?", metavar="FIGURE", help="such as crew/4")
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
        "--trials", type=comparing.parse_count, default=3, metavar="N", help="per cell"
    )
    parser.add_argument(
        "--jobs", type=comparing.parse_count, default=1, metavar="N", help="runs at once"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the folder of the results, which is created (default: reproductions/FIGURE)",
    )
    terminal.add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """List the figures, or reproduce one with all its panels."""
    from trunkline.harness.study import papers

    known = papers.find_figures()
    if arguments.list:
        for name, figure in known.items():
            print(f"{name:8}  {figure.claim}")
        return 0
    wanted = str(arguments.figure)
    panels = [name for name in known if wanted in (name, name.rstrip(PANELS))]
    if not panels:
        allowed = f"allowed is one of {', '.join(known)}, or --list"
        raise terminal.UsageError(f"figure {wanted}: {allowed}")
    planned = {name: _plan(known[name], arguments) for name in panels}
    codes = []
    for name, comparison in planned.items():
        folder = Path("reproductions") / name
        if arguments.out is not None:
            folder = Path(arguments.out) / name.removeprefix(wanted)
        codes.append(_reproduce(known[name], comparison, folder, arguments))
    return max(codes, key=WORST_LAST.index)


def _plan(figure: Figure, arguments: argparse.Namespace) -> Comparison:
    """Plan the figure's comparison with the changes of the command line. Raises UsageError."""
    from trunkline.harness.study import comparison_runs, grid

    file = SCENARIOS / figure.scenario
    try:
        axes = {axis.key: axis for axis in grid.read_axes(figure.vary)}
        axes |= {axis.key: axis for axis in grid.read_axes(arguments.vary)}
        with comparing.show_planning(arguments.quiet) as on_progress:
            return comparison_runs.plan(
                file,
                tuple(axes.values()),
                arguments.trials,
                arguments.set,
                on_progress=on_progress,
            )
    except grid.GridError as error:
        raise terminal.UsageError(str(error)) from None


def _reproduce(
    figure: Figure, spec: Comparison, folder: Path, arguments: argparse.Namespace
) -> int:
    from trunkline.harness.record import run_folder
    from trunkline.harness.report import plots
    from trunkline.harness.study import comparison, reproduction

    code, measured = 0, None
    if not arguments.fluid:
        trials = comparing.carry_out(spec, folder, arguments)
        code = comparing.show(spec, trials, folder, arguments.quiet)
        measured = comparison.summarize(trials, spec.keys)
    model = _predict(spec, arguments)
    cells = comparison.summarize(model, spec.keys)
    output = run_folder.RunFolder(folder)
    output.write_table("fluid", model)
    if measured is not None:
        plots.write(
            output,
            figure.metric,
            reproduction.draw(trials, measured, cells, spec.keys, figure.metric),
        )
    if not arguments.quiet:
        console = terminal.make_console()
        console.print(f"claim  {figure.claim}", markup=False)
        if not reproduction.is_known(cells, figure.metric):
            console.print("fluid  unknown: the model cannot predict this scenario", markup=False)
        console.print(reproduction.draw_table(measured, cells, spec.keys, figure.metric))
    return code


def _predict(spec: Comparison, arguments: argparse.Namespace) -> pd.DataFrame:
    from trunkline.harness.live import progress
    from trunkline.harness.study import reproduction

    total = len(spec.trials)
    with progress.live(terminal.make_console(stderr=True, quiet=arguments.quiet)) as show:

        def on_progress(done: int) -> None:
            show(done / total, f"{done} of {total} trials done in the fluid model")

        return reproduction.predict(spec, arguments.jobs, on_progress)
