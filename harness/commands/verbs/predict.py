"""predict a scenario by the fluid model, without a run."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from trunkline.harness.commands import terminal
from trunkline.harness.commands.verbs import compare

EPILOG = """\
examples:
  trunkline predict scenarios/quickstart.yaml
  trunkline predict scenarios/quickstart.yaml --set scheme.plan=ring --seed 2
  trunkline predict scenarios/partial_reduce.yaml --vary scheme.plan=crew,opr,ring --trials 10

It takes seconds and writes the tables, figures and page of a run, as far as the model has them. It
is no run: there are no packets, no TCP and no programs, and nothing is judged. The verdict is
`prediction`, and the exit code 0. The same seed gives the same prediction.

With --vary or --trials, predictions are compared as `trunkline compare` compares runs.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the scenario, what to vary, and where to write."""
    terminal.add_scenario(parser)
    compare.add_vary(parser)
    parser.add_argument(
        "--trials",
        type=terminal.parse_count,
        metavar="N",
        help="predictions per cell (3 with --vary)",
    )
    terminal.add_jobs(parser)
    parser.set_defaults(on_cluster=None)  # a prediction takes seconds
    parser.add_argument(
        "--runs",
        default="predictions",
        metavar="DIR",
        help="the folder of a prediction without --vary (default: predictions)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the folder of the results with --vary (default: comparisons/SCENARIO-predicted)",
    )
    parser.add_argument(
        "--plots", action="store_true", help="with --vary, draw the figures of every prediction"
    )
    terminal.add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """Predict a scenario, or compare predictions."""
    from trunkline.harness.study.prediction import predictions

    if arguments.vary or arguments.trials:
        return _compare(arguments)
    if arguments.out:
        raise terminal.UsageError(f"--out {arguments.out}: only with --vary; see --runs")
    from trunkline.harness.scenario.loading import load

    scenario = load(arguments.file, arguments.set, arguments.seed)
    if obstacles := list(predictions.list_obstacles(scenario)):
        what = "the fluid model cannot predict this scenario"
        raise terminal.UsageError("\n".join([what, *obstacles]))
    result = predictions.predict(scenario, Path(arguments.file), Path(arguments.runs))
    return terminal.show_result(result, arguments.quiet)


def _compare(arguments: argparse.Namespace) -> int:
    from trunkline.harness.study.prediction import predictions

    trials = arguments.trials or 3
    spec = compare.make_plan(arguments, trials, kind=predictions.PREDICTIONS)
    command = compare.describe_command(["predict", arguments.file], arguments, trials)
    spec = replace(spec, command=command)
    folder = Path(arguments.out or Path("comparisons") / f"{spec.name}-predicted")
    there = compare.tell_earlier(spec, folder)
    trials = compare.carry_out(spec, folder, arguments, there)
    return compare.show(spec, trials, folder, arguments.quiet)
