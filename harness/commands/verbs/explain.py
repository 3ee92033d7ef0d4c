"""explain why tasks of a run took as long as they did."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.harness.commands import terminal
from trunkline.harness.config.units import join_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from trunkline.harness.report.calls.steps.one_step import OneStep
    from trunkline.harness.report.explanations.costs.measured_costs import Measured
    from trunkline.harness.report.explanations.explanation import Explanation
    from trunkline.harness.report.run_data import RunData

EPILOG = """\
examples:
  trunkline explain quickstart              the tasks that lost most time
  trunkline explain quickstart --task 7     one task, with its critical path; or `all`
  trunkline explain gloo_ddp --step 4       one step of programs with timed calls
  trunkline explain runs/quickstart/latest --json
  trunkline explain two_faults --measure    runs it without its faults, and with more and more

The parts of a task's time are those of its critical path: the chain of transfers that decided when
it ended. docs/explain.md explains each cause.
"""

SHOWN = 3
"""The most tasks that are explained if none is named."""

RANGES = 6
"""The most ranges of numbers that a message lists."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the run and the task."""
    parser.add_argument(
        "run", metavar="RUN", help="a run's folder, or the name of a scenario: its latest run"
    )
    parser.add_argument(
        "--task",
        type=_parse_task,
        metavar="N",
        help="the number of a task, or `all` (default: up to three that lost most time, compared "
        "with their plans)",
    )
    parser.add_argument(
        "--step",
        type=terminal.parse_whole,
        metavar="N",
        help="the number of a step of programs with timed calls: its calls in order",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object per task; without --task each has totals of the run, too",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure what the faults cost the run: carry it out without them, with the first one, "
        "and so on",
    )
    terminal.add_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print explanations."""
    folder = terminal.find_run(arguments.run, Path(arguments.runs))  # before the long imports

    from trunkline.harness.checks.expectations.remarks import name_late_entries
    from trunkline.harness.commands import listings
    from trunkline.harness.report import manual_actions, outputs
    from trunkline.harness.report.explanations.costs import run_summary
    from trunkline.harness.report.explanations.costs.task_losses import Losses
    from trunkline.harness.report.explanations.told import advice, explanation_text
    from trunkline.harness.report.explanations.told.choice import Chosen, choose

    data = outputs.read(folder)
    if data.history.is_predicted:
        raise terminal.UsageError(
            f"{folder}: this is a prediction: expected a run, whose times have causes to find"
        )
    if arguments.measure:
        data = _measure(folder, data, arguments)
    if data.scenario.runs_programs:
        return _explain_programs(data, arguments)
    if arguments.step is not None:
        raise terminal.UsageError("--step: expected a run of programs; agents have tasks: --task")
    found = _choose(data, arguments.task)
    is_whole = arguments.task is None
    chosen = choose(found, SHOWN) if is_whole else [Chosen(each) for each in found]
    if arguments.json:
        totals = {"run": run_summary.to_json(found, data)} if is_whole else {}
        for each in chosen:
            print(json.dumps(_to_json(each.explained, data.measured) | totals))
        return 0
    console = terminal.make_console()
    if listings.is_running(folder):
        console.print(f"This run is running: it was read at {data.history.end_ns / 1e9:.3f} s.")
    elif data.history.interrupted:
        console.print(f"This run is not whole: {manual_actions.describe_end(data.history)}.")
    if is_whole:
        run, faults = run_summary.describe_run(found, data)
        for said in (*run, *faults, *name_late_entries(data.history, data.scenario)):
            _print(console, said)
        if data.measured is not None:
            _print(console, _make_table(data.measured))
    for number, each in enumerate(chosen):
        if number or is_whole:
            console.print()
        told = each.explained, data.history, not is_whole, data.measured
        for printed in explanation_text.describe(*told):
            _print(console, printed)
        if alike := each.describe_alike():
            _print(console, alike)
    losses = Losses.of(found)
    cold, lost = (losses.find_share(c) if is_whole else 0.0 for c in ("cold start", "loss"))
    warms_up = data.scenario.warm_up.unit is not None
    for said in advice.advise((each.explained for each in chosen), cold, warms_up, lost):
        _print(console, f"\n{said}")
    return 0


def _measure(folder: Path, data: RunData, arguments: argparse.Namespace) -> RunData:
    """Measure what the faults of a run cost it, and write its page again; return its data."""
    from trunkline.harness.commands import listings
    from trunkline.harness.report import outputs
    from trunkline.harness.report.explanations.costs.measured_costs import list_problems
    from trunkline.harness.runs import measured_faults

    if arguments.task is not None or arguments.step is not None:
        raise terminal.UsageError("--measure: expected without --task and --step")
    if listings.is_running(folder):
        raise terminal.UsageError(
            f"--measure: {folder}: this run is running: expected one that has ended"
        )
    if problem := next(list_problems(data.scenario, data.history), None):
        raise terminal.UsageError(f"--measure: {folder}: {problem}")
    tell = terminal.make_console(stderr=True).print
    if data.measured is not None:
        tell(f"measured before: remove {folder / outputs.MEASURED} to measure again")
        return data
    try:
        measured_faults.measure(folder.resolve(), data, tell)
    except ValueError as error:
        raise terminal.UsageError(f"--measure: {folder}: {error}") from None
    return outputs.write_page_again(folder)


def _make_table(measured: Measured) -> Table:
    """The measured outcomes as a table."""
    from rich.table import Table

    from trunkline.harness.report.explanations.costs.measured_costs import TITLES

    table = Table(*TITLES, box=None)
    for row in measured.list_rows():
        table.add_row(*row)
    return table


def _print(console: Console, printed: str | Table) -> None:
    """Print a sentence in lines as wide as the terminal, or in one line elsewhere; or a table."""
    is_line = isinstance(printed, str) and not console.is_terminal
    console.print(printed, markup=False, soft_wrap=is_line)


def _explain_programs(data: RunData, arguments: argparse.Namespace) -> int:
    """Print where the time of programs went, or of one step, as far as it is known."""
    from trunkline.harness.report.calls import program_explanation

    if arguments.task is not None:
        raise terminal.UsageError(
            "--task: expected a run of agents; programs log no transfers, but have steps: --step"
        )
    step = None if arguments.step is None else _find_step(data, arguments.step)
    if arguments.json:
        print(json.dumps(program_explanation.to_json(data) if step is None else step.to_json()))
        return 0
    explained = program_explanation.describe(data)
    if step is not None:
        explained = program_explanation.describe_step(step)
    console = terminal.make_console()
    for printed in explained:
        _print(console, printed)
    return 0


def _find_step(data: RunData, number: int) -> OneStep:
    """The step of this number."""
    from trunkline.harness.report.calls.program_explanation import list_numbers
    from trunkline.harness.report.calls.steps.one_step import OneStep

    if (found := OneStep.of(data, number)) is None:
        known = list_numbers(data)
        expected = _list_ranges(known) if known else "timed calls, and programs that report steps"
        raise terminal.UsageError(f"--step {number}: expected {expected}")
    return found


def _parse_task(text: str) -> int | str:
    """Parse the number of a task, or `all`; for argparse."""
    try:
        return text if text == "all" else terminal.parse_whole(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or all") from None


def _choose(data: RunData, number: int | str | None) -> list[Explanation]:
    """The named task, or all in order of start, or those that lost most time, the worst first."""
    from trunkline.harness.report.explanations.explained_tasks import explain_latest, explain_tasks

    tasks = data.tables["tasks"]
    ended = [task.number for task in data.history.tasks if task.duration_s is not None]
    if not ended:
        raise terminal.UsageError("explain: no task of this run has ended")
    if number is None:
        return explain_latest(data.scenario, data.history, tasks)
    if isinstance(number, str):
        return explain_tasks(data.scenario, data.history, tasks, ended)
    if number not in ended:
        known = {task.number for task in data.history.tasks}
        why = "this task has not ended: " if number in known else ""
        raise terminal.UsageError(f"--task {number}: {why}expected {_list_ranges(ended)}")
    return explain_tasks(data.scenario, data.history, tasks, [number])


def _list_ranges(numbers: list[int]) -> str:
    """Numbers in words: `0 to 16, 18 or 1000017`. A long list is shortened."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    words = [" to ".join(map(str, ends)) for ends in ranges]
    if len(words) > RANGES:
        words[RANGES - 2 : -1] = ["..."]
    return join_words(words, "or")


def _list_measured(number: int, measured: Measured | None) -> list[dict[str, Any] | None] | None:
    """The task of a number in the run without faults, with the first one, and so on."""
    if measured is None:
        return None
    found = measured.find_runs(number)
    return [None if each is None else {"task": each[0], **asdict(each[1])} for each in found]


def _to_json(found: Explanation, measured: Measured | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "task": found.task.number,
        "outcome": found.task.outcome,
        "duration_s": found.duration_s,
        "expected_s": found.expected_s,
        "lost_s": found.lost_s,
        "own_s": found.own_s,
        "shared": [asdict(each) for each in found.shared],
        "main": None if found.main is None else asdict(found.main),
        "main_s": found.main_s,
        "parts": [asdict(part) | {"text": part.text.strip(" ,")} for part in found.parts],
        "path": [asdict(step) for step in found.steps],
        "wait": None if found.wait is None else asdict(found.wait),
        "failures": [asdict(each) for each in found.failures],
        "faults_s": found.taken_s,
        "faults_before_s": found.before_s,
        "measured": _list_measured(found.task.number, measured),
    }
    return {key: None if _is_unknown(value) else value for key, value in values.items()}


def _is_unknown(value: Any) -> bool:
    """Whether it is no number: JSON has none such."""
    return isinstance(value, float) and math.isnan(value)
