"""run a figure of a paper and show claim, fluid model and measurement."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness import terminal
from harness.commands import compare as comparing

if TYPE_CHECKING:
    import pandas as pd

    from harness.compare import Comparison

EPILOG = """\
examples:
  trunkline reproduce --list
  trunkline reproduce crew/4 --trials 5 --jobs 2
  trunkline reproduce crew/4 --set topology.sites=16 --set scheme.p=4
  trunkline reproduce crew/5 --fluid --set topology.sites=60 --set scheme.p=5
  trunkline reproduce crew/6 --fluid --set topology.sites=12 --vary scheme.p=4,6

It is a comparison like those of `trunkline compare`, kept in reproductions/, and goes on where it
was interrupted. The fluid model runs the same trials: the same rates, groups and compute times, on
links without propagation and TCP.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """A figure, and how often."""
    parser.add_argument("figure", nargs="?", metavar="FIGURE", help="such as crew/4")
    parser.add_argument("--list", action="store_true", help="list the figures and their claims")
    parser.add_argument("--fluid", action="store_true", help="only the fluid model, no measurement")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY.PATH=VALUE", help="as for run"
    )
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY.PATH=VALUE,VALUE,...",
        help="as for compare, instead of what the figure varies of this key, or as well",
    )
    parser.add_argument("--trials", type=comparing.count, default=3, metavar="N", help="per cell")
    parser.add_argument("--jobs", type=comparing.count, default=1, metavar="N", help="runs at once")
    parser.add_argument("--out", metavar="DIR", help="default: reproductions/FIGURE")
    terminal.add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """List the figures, or reproduce one."""
    from harness import compare, comparison, grid, papers, reproduction, store

    known = papers.figures()
    if arguments.list:
        for name, figure in known.items():
            print(f"{name:8}  {figure.claim}")
        return 0
    if arguments.figure not in known:
        raise terminal.UsageError(
            f"figure {arguments.figure}: allowed is one of {', '.join(known)}, or --list"
        )
    figure = known[arguments.figure]
    file = Path(__file__).resolve().parents[2] / "scenarios" / figure.scenario
    try:
        axes = {axis.key: axis for axis in grid.axes(figure.vary)}
        axes |= {axis.key: axis for axis in grid.axes(arguments.vary)}
        asked = compare.plan(file, tuple(axes.values()), arguments.trials, arguments.set)
    except grid.GridError as error:
        raise terminal.UsageError(str(error)) from None
    folder = Path(arguments.out or Path("reproductions") / arguments.figure)
    code, measured = 0, None
    if not arguments.fluid:
        trials = comparing.carry_out(asked, folder, arguments)
        code = comparing.show(asked, trials, folder, arguments.quiet)
        measured = comparison.summary(trials, asked.keys)
    model = _fluid(asked, arguments)
    cells = comparison.summary(model, asked.keys)
    output = store.RunFolder(folder)
    output.write_table("fluid", model)
    if measured is not None:
        output.write_figure(
            figure.metric, reproduction.draw(trials, measured, cells, asked.keys, figure.metric)
        )
    if not arguments.quiet:
        console = terminal.console()
        console.print(f"claim  {figure.claim}", markup=False)
        if not reproduction.is_known(cells, figure.metric):
            console.print("fluid  not known: the model has no faults", markup=False)
        console.print(reproduction.table(measured, cells, asked.keys, figure.metric))
    return code


def _fluid(asked: Comparison, arguments: argparse.Namespace) -> pd.DataFrame:
    from harness import progress, reproduction

    total = len(asked.trials)
    with progress.live(terminal.console(stderr=True, quiet=arguments.quiet)) as show:

        def on_progress(done: int) -> None:
            show(done / total, f"{done} of {total} trials done in the fluid model")

        return reproduction.fluid(asked, arguments.jobs, on_progress)
