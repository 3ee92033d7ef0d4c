"""What each fault cost the tasks of a run, in sentences (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trunkline.harness.config.units import count_of
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.report.explanations.calls_in_faults import HARMLESS, MOST_FAULTS
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.faults.fault_layout import LETTERS, describe_span, shorten

LEAST_S = 0.005
"""A task that lost less to a fault is not named."""

NAMED = 6
"""The most tasks that a sentence names."""


def describe_fault_costs(found: Sequence[Explanation], history: History) -> Iterator[str]:
    """A sentence on each fault; of many, on the first ones.

    `found` are the tasks that lost most time; others have their expected times, or nearly so.
    """
    faults = [each for each in history.faults if each.started.verb not in HARMLESS]
    ordered = sorted(found, key=lambda each: each.task.started.t_ns)
    for fault in faults[:MOST_FAULTS]:
        yield _describe(fault, ordered)
    if left := {each.started.fault for each in faults[MOST_FAULTS:]}:
        cost_s = sum(each.costs_s.get(number, 0.0) for each in ordered for number in left)
        yield f"{count_of(len(left), 'other fault')} cost tasks {cost_s:.3f} s in all."


def _describe(fault: Disturbance, found: Sequence[Explanation]) -> str:
    number, span = fault.started.fault, describe_span(fault)
    name = f"Fault {number} ({shorten(fault.started.text, LETTERS)})"
    costs_s = {each: each.costs_s[number] for each in found if number in each.costs_s}
    failed = [each for each in costs_s if any(f.fault == number for f in each.failures)]
    late = [each for each in costs_s if each not in failed and costs_s[each] >= LEAST_S]
    words = []
    if abandoned := [each for each in failed if each.is_abandoned]:
        words.append(f"{_name(abandoned)} {_were(abandoned)} abandoned")
    if given_up := [each for each in failed if not each.is_abandoned]:
        words.append(f"{_name(given_up)} {_were(given_up)} given up by some of its members")
    if late:
        words.append(f"{_name(late)} took longer or began later")
    if not words:
        return f"{name}, {span}, cost no task any time that the log shows."
    cost_s = sum(costs_s.values())
    return f"{name}, {span}, cost tasks {cost_s:.3f} s: {', and '.join(words)}."


def _name(tasks: Sequence[Explanation]) -> str:
    numbers = [str(each.task.number) for each in tasks]
    if len(numbers) == 1:
        return f"task {numbers[0]}"
    if len(numbers) > NAMED:
        return f"tasks {', '.join(numbers[: NAMED - 1])} and {len(numbers) - NAMED + 1} others"
    return f"tasks {', '.join(numbers[:-1])} and {numbers[-1]}"


def _were(tasks: Sequence[Explanation]) -> str:
    return "was" if len(tasks) == 1 else "were"
