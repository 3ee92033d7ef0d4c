"""run a figure of a paper and show claim, fluid model and measurement."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import terminal
from harness.commands import compare as comparing

EPILOG = """\
examples:
  trunkline reproduce --list
  trunkline reproduce crew/4 --trials 5 --jobs 2
  trunkline reproduce crew/4 --set topology.sites=16 --set scheme.p=4

It is a comparison like those of `trunkline compare`, kept in reproductions/, and goes on where it
was interrupted. `fluid` is the ratio of the estimates of the very tasks that were measured.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """A figure, and how often."""
    parser.add_argument("figure", nargs="?", metavar="FIGURE", help="such as crew/4")
    parser.add_argument("--list", action="store_true", help="list the figures and their claims")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY.PATH=VALUE", help="as for run"
    )
    parser.add_argument("--trials", type=comparing.count, default=3, metavar="N", help="per cell")
    parser.add_argument("--jobs", type=comparing.count, default=1, metavar="N", help="runs at once")
    parser.add_argument("--out", metavar="DIR", help="default: reproductions/FIGURE")
    terminal.add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """List the figures, or reproduce one."""
    from harness import compare, comparison, grid, papers

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
    asked = compare.plan(file, grid.axes(figure.vary), arguments.trials, arguments.set)
    folder = Path(arguments.out or Path("reproductions") / arguments.figure)
    trials = comparing.carry_out(asked, folder, arguments)
    code = comparing.show(asked, trials, folder, arguments.quiet)
    if not arguments.quiet:
        console = terminal.console()
        cells = comparison.summary(trials, asked.keys)
        console.print(f"claim  {figure.claim}", markup=False)
        console.print(comparison.against_fluid(cells, asked.keys[0], figure.metric))
    return code
