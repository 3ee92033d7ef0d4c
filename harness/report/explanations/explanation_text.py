"""An explanation in words and tables, for the terminal (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from rich.table import Table

from trunkline.harness.config.units import short_size
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.critical_path import PathStep
from trunkline.harness.report.explanations.explanation import Explanation, Failure
from trunkline.harness.report.explanations.missing import Missing
from trunkline.harness.report.explanations.task_time import Part
from trunkline.harness.report.explanations.waits import Held, Wait
from trunkline.harness.report.faults.fault_layout import LETTERS, shorten

SHOWN_SHARE = 0.005
"""A part that is a smaller share of a task's time is not shown."""

TEXTS = {
    "rate": "{where} carried {size} of this task at its rate, {text}",
    "propagation": "propagation over {where}",
    "slowdown": "{where} was slower than in the scenario: {text}",
    "outage": "{where} was cut{text}",
    "stop": "{where} was stopped",
    "other tasks": "{where} carried {size} of other tasks (number {text})",
    "background traffic": "{where} carried {size} of background traffic",
    "loss": "{where} {text}, and lost packets delayed TCP",
    "delay": "the delay of {where} was {text}",
    "cold start": "the connection {where}{text} was cold: TCP had not found the link's rate yet",
    "queueing": "queues, and TCP's control of its rate, on {where}",
    "unexplained": "the rest on {where}, perhaps queues, or a wait that the log does not show: "
    "no fault explains it",
    "repair": "the task {text}",
    "longer plan": "the plan after the repair takes longer: {where} carried {size} more",
    "contribution": "{where} took this long to contribute",
    "installation": "{where} installed the result",
    "before the fault": "the task ran before {text} began",
    "end": "{text}",
    "abandonment": "from the halt until the controller gave the task up",
}
"""The causes in words."""


def describe_part(part: Part, history: History) -> str:
    """One part of a task's time in words, with the fault behind it."""
    size = short_size(part.bytes)
    text = TEXTS[part.cause].format(where=part.where, size=size, text=part.text)
    return text + _name_fault(part.fault, history)


def _name_fault(number: int | None, history: History) -> str:
    """A fault in brackets; an empty text without one."""
    found = (each.started for each in history.faults if each.started.fault == number)
    fault = next(found, None)
    return "" if fault is None else f" (fault {fault.fault}: {shorten(fault.text, LETTERS)})"


def summarize(found: Explanation, history: History) -> str:
    """What a task took, what was expected, and the main cause, in one or two sentences."""
    task = found.task
    name = f"Task {task.number}"
    took = f"{name} took {found.duration_s:.3f} s"
    failed = " ".join(_describe_failure(failure, name, history) for failure in found.failures)
    if found.main is None:
        due = "" if math.isnan(found.expected_s) else f"; {found.expected_s:.3f} s were expected"
        return f"{took}{due}. {failed or f'{name} did not end.'}"
    why = describe_part(found.main, history)
    head = "longest part"
    if found.is_slow or found.main.fault is not None:
        head = "main cause" if found.is_slow else "main delay"
    count = len(found.main_parts)
    longest = f" in {count} parts, the longest of {found.main.seconds:.3f} s" if count > 1 else ""
    summary = (
        f"{took}; {found.expected_s:.3f} s were expected. "
        f"The {head} took {found.main_s:.3f} s{longest}: {why}."
    )
    return f"{summary} {failed}".rstrip()


def _describe_failure(failure: Failure, name: str, history: History) -> str:
    fault = _name_fault(failure.fault, history)
    if not failure.members:
        text = f"{name} was abandoned: {failure.reason}{fault}."
        lacks = failure.missing
        return text if lacks is None else f"{text} {_describe_missing(lacks, name, history)}"
    return f"{', '.join(failure.members)} gave up {name.lower()}: {failure.reason}{fault}."


def _describe_missing(missing: Missing, name: str, history: History) -> str:
    sizes = f"{short_size(missing.arrived)} of {short_size(missing.planned)}"
    rates = f"{missing.mbps:.4g} of {missing.usual_mbps:.4g} Mbit/s on average"
    slow = f", at {rates}" if missing.mbps < missing.usual_mbps else ""
    fault = _name_fault(missing.fault, history)
    return f"By then {missing.where} had carried {sizes} of {name.lower()}{slow}{fault}."


def list_lost(found: Iterable[Explanation]) -> str:
    """The time that each of these tasks lost, in a line: it is their order."""
    words = (f"task {each.task.number} ({max(0.0, each.lost_s):.3f} s)" for each in found)
    what = "That is time beyond what was expected, and what complete groups waited."
    return f"Lost time: {', '.join(words)}. {what}"


def advise(found: Iterable[Explanation]) -> Iterator[str]:
    """What to do about the main cause of some of these tasks, if there is something."""
    if any(each.main is not None and each.main.cause == "cold start" for each in found):
        yield (
            "A new connection is slow until TCP has found the link's rate (docs/accuracy.md, Cold "
            "paths). With `warm_up: {tasks: N}`, all means leave out the first N tasks."
        )


def describe(found: Explanation, history: History, path: bool) -> Iterator[str | Table]:
    """The summary, the parts of the time, what came before, and the critical path if wanted."""
    yield summarize(found, history)
    if found.wait is not None:
        yield describe_wait(found.task.number, found.wait, history)
    if found.parts:
        table = Table("took (s)", "share", "cause", box=None, padding=(0, 2, 0, 0))
        for row in list_parts(found, history):
            table.add_row(*row)
        yield table
    if path and found.steps:
        yield _list_steps(found)


def describe_wait(number: int, wait: Wait, history: History) -> str:
    """How the group of this task came together."""
    return " ".join(_list_sentences(number, wait, history))


def _list_sentences(number: int, wait: Wait, history: History) -> Iterator[str]:
    yield f"Task {number} waited up to {wait.wait_s:.3f} s for {wait.last}."
    earlier = [] if wait.after is None else [f"was in task {wait.after}"]
    if wait.compute_s is not None:
        earlier.append(f"{'then ' if earlier else ''}computed for {wait.compute_s:.3f} s")
    if earlier:
        yield f"{wait.last} {' and '.join(earlier)}."
    if wait.held is not None:
        yield _describe_stop(wait.last, wait.held, history)
    took = f"{wait.decide_s:.3f}"
    started = "started the task at once" if took == "0.000" else f"took {took} s to start the task"
    yield f"When {wait.last} was ready, the controller {started}."
    if wait.reason:
        yield f"{wait.reason}{_name_fault(wait.fault, history)}."


def _describe_stop(site: str, held: Held, history: History) -> str:
    """How long the last member had been stopped, in words."""
    done = {"pause": "paused", "kill": "dead"}[held.stop.do]
    when = "of that time" if held.computing else "before"
    return (
        f"{site} was {done} for {held.seconds:.3f} s {when}{_name_fault(held.stop.fault, history)}."
    )


def list_parts(found: Explanation, history: History) -> Iterator[tuple[str, str, str]]:
    """Seconds, share and cause of every part that is not negligible."""
    for part in found.parts:
        share = part.seconds / found.duration_s if found.duration_s else 0.0
        if share >= SHOWN_SHARE:
            yield f"{part.seconds:.3f}", f"{100 * share:.0f} %", describe_part(part, history)


def _list_steps(found: Explanation) -> Table:
    table = Table("from (s)", "to (s)", "took (s)", "critical path", box=None, padding=(0, 2, 0, 0))
    for step in found.steps:
        times = f"{step.start_ns / 1e9:.3f}", f"{step.end_ns / 1e9:.3f}", f"{step.duration_s:.3f}"
        table.add_row(*times, _describe_step(step))
    return table


def _describe_step(step: PathStep) -> str:
    match step.kind:
        case "repair":
            return "until the task was planned for the last time"
        case "contribution":
            return f"{step.site} contributes"
        case "installation":
            return f"{step.site} installs the result"
    return f"{step.src} -> {step.site}: {short_size(step.bytes)}"
