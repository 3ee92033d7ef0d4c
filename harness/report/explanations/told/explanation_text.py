"""An explanation in words and tables, for the terminal (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from rich.table import Table

from trunkline.harness.config.units import count_of, join_words, short_size
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.abandonment import Failure, Missing
from trunkline.harness.report.explanations.costs.measured_costs import (
    TASK_TITLES,
    Measured,
    name_group,
)
from trunkline.harness.report.explanations.critical_path import PathStep
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.time_parts import Part
from trunkline.harness.report.explanations.told.fault_names import name_fault, name_subject
from trunkline.harness.report.explanations.told.wait_text import describe_wait

SHOWN_SHARE = 0.005
"""A part that is a smaller share of a task's time is not shown."""

TEXTS = {
    "rate": "{where} carried {size} of this task at its rate, {text}",
    "propagation": "propagation over {where}{text}",
    "slowdown": "{where} was slower than in the scenario: {text}",
    "outage": "{where} was cut{text}",
    "stop": "{where} was stopped",
    "other tasks": "{where} carried {size} of task {text}",
    "background traffic": "{where} carried {size} of background traffic",
    "loss": "{where} {text}",
    "delay": "the delay of {where} was {text}",
    "cold start": "the connection {where}{text} was cold: TCP had not found the link's rate yet",
    "queueing": "queues, and TCP's control of its rate, on {where}",
    "unexplained": "the rest on {where}: {text}",
    "repair": "the task {text}",
    "longer plan": "the plan {text} takes longer, over {where}",
    "begun anew": "the task ran before {text} began, and its repair took this time again",
    "contribution": "{where} took this long to contribute",
    "installation": "{where} installed the result",
    "before the fault": "the task ran before {text} began",
    "end": "{text}",
    "abandonment": "from the halt until the controller gave the task up{text}",
}
"""The causes in words."""

BACKGROUND_EFFECT = "background traffic {text}"
"""Background traffic that did something else than to carry bytes."""

CAUSES = {
    "slowdown": "Slower links",
    "outage": "Cuts of links",
    "stop": "Stops of agents",
    "other tasks": "Other tasks on the same links",
    "background traffic": "Background traffic",
    "loss": "Lost packets",
    "delay": "Longer delays",
    "cold start": "Cold connections, on which TCP had not found the link's rate yet,",
    "queueing": "Queues, and TCP's control of its rate,",
    "unexplained": "A rest that the log does not explain",
    "repair": "A repair",
    "longer plan": "A longer plan",
    "begun anew": "Bytes sent again after a repair",
    "contribution": "Contributions",
    "installation": "The installation of the result",
}
"""Causes without a fault, as subjects."""

WHERE_ONLY = ("cold start", "queueing", "unexplained", "contribution", "installation")
"""Of these causes nothing but the place is to be told."""

TOLD = 3
"""The most causes, parts of one of them, or shared links, that a summary tells."""

TOLD_SHARE = 0.1
"""A cause is told if it took this share of the time by which the task was late, or more."""

LEAST_S = 0.0005
"""A shorter time is none."""


def describe_part(part: Part, history: History) -> str:
    """One part of a task's time in words, with the fault behind it."""
    return _describe(part) + name_fault(part.fault, history)


def _describe(part: Part) -> str:
    size = short_size(part.bytes) if part.beside is None else "bytes"
    has_effect = part.cause == "background traffic" and part.text
    pattern = BACKGROUND_EFFECT if has_effect else TEXTS[part.cause]
    said = pattern.format(where=part.where, size=size, text=part.text)
    if part.beside is None:
        return said
    return f"needed anyway, beside fault {part.beside}: {said}"


def _name_where(part: Part) -> str:
    """The place of a part; of a rest, also what acted meanwhile."""
    beside = f", needed anyway beside fault {part.beside}"
    acting = f" ({part.text})" * (part.cause == "unexplained")
    return part.where + acting + beside * (part.beside is not None)


def summarize(found: Explanation, history: History) -> str:
    """The time of a task, its expected time, and the causes of the difference, in sentences."""
    return " ".join(_summarize(found, history))


def _summarize(found: Explanation, history: History) -> Iterator[str]:
    name, begin = f"Task {found.task.number}", _begin(found)
    took, failures = f"{begin} took {found.duration_s:.3f} s", list(found.failures)
    is_known = not math.isnan(found.expected_s)
    if found.main is None:
        due = f"; {found.expected_s:.3f} s were expected" if is_known else ""
        ran = f"{begin} ran for {found.duration_s:.3f} s, and all of it was lost"
        yield f"{ran if found.is_abandoned else took}{due}."
        if not failures:
            yield f"{name} did not end."
    elif not is_known:
        yield f"{took}. Its longest part took {found.main.seconds:.3f} s: "
        yield f"{describe_part(found.main, history)}."
    else:
        more = "longer" if found.late_s >= 0 else "less"
        due = f"({found.expected_s:.3f} s{_name_detour(found)})"
        yield f"{took}, {abs(found.late_s):.3f} s {more} than expected {due}."
        yield from _describe_late(found, history)
    for failure in failures:
        yield _describe_failure(failure, name, history)
        if found.is_abandoned:
            for part in found.parts:
                if part.fault not in (None, failure.fault) and part.seconds >= LEAST_S:
                    why = describe_part(part, history)
                    verb = "passed" if part.cause == "abandonment" else "were lost before, as"
                    yield f"Of its time, {part.seconds:.3f} s {verb} {why}."


def _name_detour(found: Explanation) -> str:
    """The estimate of the task's own plan, if that is not the expected time."""
    if found.detour is None or found.planned_s - found.expected_s < LEAST_S:
        return ""
    without = f"{found.detour.without}{found.detour.until}"
    plan = f"its plan {without} was to take {found.planned_s:.3f} s"
    return f" with all sites and links; {plan}"


def _begin(found: Explanation) -> str:
    """The task's number, its members, and when it ran."""
    started = found.task.started
    start_s = started.t_ns / 1e9
    times = f"{start_s:.3f} to {start_s + found.duration_s:.3f} s"
    return f"Task {found.task.number} ({name_group(started.group)}; {times})"


def _describe_late(found: Explanation, history: History) -> Iterator[str]:
    """Why a task was late, the longest first. The numbers add up to the time it was late."""
    groups = found.groups
    least_s = max(LEAST_S, TOLD_SHARE * abs(found.late_s))
    if (
        not found.is_slow
        and not found.is_disturbed
        and found.late_s < TOLD_SHARE * found.duration_s
    ):
        longest = found.parts[0]
        yield f"Its longest part took {longest.seconds:.3f} s: {describe_part(longest, history)}."
        return
    told = [group for group in groups if _sum_s(group) >= least_s][:TOLD]
    for group in told:
        yield _describe_group(group, history)
    untold = [group for group in groups if group not in told]
    if abs(found.own_s) >= LEAST_S:
        yield _describe_own(found, least_s)
    for group in untold:
        if group[0].fault is not None and _sum_s(group) >= LEAST_S:
            yield f"{name_subject(group[0].fault, history)} took {_sum_s(group):.3f} s."
    other_s = sum(_sum_s(group) for group in untold if group[0].fault is None)
    if other_s >= LEAST_S:
        yield f"Other causes took {other_s:.3f} s."


def _describe_own(found: Explanation, least_s: float) -> str:
    """By how much the task's own bytes took longer or less, and what the log shows of it."""
    took = "Its own bytes, with propagation, took"
    if found.own_s < 0:
        is_much = -found.own_s >= min(least_s, TOLD_SHARE * found.expected_s)
        why = f": {found.spared}" if found.spared and is_much else ""
        return f"{took} {-found.own_s:.3f} s less than expected{why}."
    text = f"{took} {found.own_s:.3f} s longer than expected"
    steps = [e for e in found.steps if e.kind == "transfer" and e.duration_s >= LEAST_S]
    if found.own_s < least_s or not steps:
        return f"{text}."
    told = sorted(sorted(steps, key=lambda step: -step.duration_s)[:TOLD], key=steps.index)
    if len(steps) > 1:
        names = [f"{step.src} -> {step.site} for {step.duration_s:.3f} s" for step in told]
        text += ", because transfers followed each other that overlap in the estimate: "
        text += ", ".join(names)
    if shared := [each for each in found.shared if each.seconds >= least_s][:1]:
        first = shared[0]
        sizes = short_size(first.contributed), short_size(first.results)
        text += (
            f". On {first.where}, {sizes[0]} of contributions and {sizes[1]} of results shared the "
            f"link, which needs {first.seconds:.3f} s for the smaller part"
        )
    return f"{text}."


def _describe_group(group: tuple[Part, ...], history: History) -> str:
    """The time of one fault or cause, and its longest parts."""
    took_s = _sum_s(group)
    group = tuple(part for part in group if part.seconds >= LEAST_S) or group
    first = group[0]
    name = CAUSES[first.cause] if first.fault is None else name_subject(first.fault, history)
    texts = [
        _name_where(part) if first.fault is None and part.cause in WHERE_ONLY else _describe(part)
        for part in group
    ]
    took = f"{name} took {took_s:.3f} s"
    if len(group) == 1:
        is_where = first.fault is None and first.cause in WHERE_ONLY
        return f"{took}{' on ' if is_where else ': '}{texts[0]}."
    parts = [f"{p.seconds:.3f} s, as {text}" for text, p in zip(texts, group, strict=True)]
    if first.fault is None and first.cause in WHERE_ONLY:
        parts = [f"{p.seconds:.3f} s on {text}" for text, p in zip(texts, group, strict=True)]
    if left := group[TOLD:]:
        parts[TOLD:] = [f"{_sum_s(left):.3f} s in {count_of(len(left), 'other part')}"]
    return f"{took}: {'; '.join(parts)}."


def _sum_s(parts: Iterable[Part]) -> float:
    return sum(part.seconds for part in parts)


def _describe_failure(failure: Failure, name: str, history: History) -> str:
    fault = name_fault(failure.fault, history)
    if not failure.members:
        text = f"{name} was abandoned: {failure.reason}{fault}."
        lacks = failure.missing
        return text if lacks is None else f"{text} {_describe_missing(lacks, name, history)}"
    text = f"{', '.join(failure.members)} gave up {name.lower()}: {failure.reason}{fault}."
    late_s = failure.late.seconds
    shares = [(seconds, f"because of fault {n}") for n, seconds in failure.late.took_s]
    left_s = late_s - failure.late.faults_s
    shares += [(left_s, "for other causes")] * (left_s >= LEAST_S)
    lost = f": {', '.join(f'{seconds:.3f} s {why}' for seconds, why in shares)}"
    if len(shares) == 1:  # which is all of it
        lost = f", {shares[0][1]}"
    more = f" That was {late_s:.3f} s after the end for the others{lost}."
    return text + more * (late_s >= LEAST_S)


def _describe_missing(missing: Missing, name: str, history: History) -> str:
    sizes = f"{short_size(missing.arrived)} of {short_size(missing.planned)}"
    rates = f"{missing.mbps:.4g} of {missing.usual_mbps:.4g} Mbit/s on average"
    slow = f", at {rates}" if missing.mbps < missing.usual_mbps else ""
    fault = name_fault(missing.fault, history)
    return f"By then {missing.where} had carried {sizes} of {name.lower()}{slow}{fault}."


def describe(
    found: Explanation, history: History, path: bool, measured: Measured | None = None
) -> Iterator[str | Table]:
    """The summary, what came before, and the parts of the time; the critical path if wanted.

    If it was `measured`, how the task went without some of the run's faults.
    """
    yield from list_paragraphs(found, history)
    if found.parts:
        yield _make_table(("took (s)", "share", "cause"), list_parts(found, history))
    if measured is not None:
        if said := describe_measured(found, measured):
            yield said
        yield _make_table(TASK_TITLES, measured.list_task_rows(found.task.number))
    if path and found.steps:
        yield _list_steps(found)


def describe_measured(found: Explanation, measured: Measured) -> str:
    """How much longer faults made a task, as measured; what the log tells may be another number.

    An empty text if that is not known of any fault that the task or the log has something of.
    """
    costs_s = {
        fault: seconds
        for fault, seconds in measured.find_costs_s(found.task.number).items()
        if abs(seconds) >= LEAST_S or found.taken_s.get(fault, 0.0) >= LEAST_S
    }
    words = [
        f"fault {fault} made it {abs(s):.3f} s {'longer' if s >= 0 else 'shorter'}"
        + (f" ({found.taken_s.get(fault, 0.0):.3f} s by its log)")
        for fault, s in costs_s.items()
    ]
    return f"Measured, for the same members and start: {join_words(words)}." if words else ""


def _make_table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    table = Table(*titles, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    return table


def list_paragraphs(found: Explanation, history: History) -> Iterator[str]:
    """The summary, and what came before; that is first if more was lost before the task."""
    if found.wait is None:
        yield summarize(found, history)
        return
    said = [summarize(found, history), describe_wait(found.task.number, found.wait, history)]
    is_first = found.wait.lost_s >= LEAST_S and found.wait.lost_s > found.lost_s / 2
    yield from reversed(said) if is_first else said


def list_parts(found: Explanation, history: History) -> Iterator[tuple[str, str, str]]:
    """Seconds, share and cause of every part that is not negligible."""
    for part in found.parts:
        share = part.seconds / found.duration_s if found.duration_s else 0.0
        if share >= SHOWN_SHARE:
            yield f"{part.seconds:.3f}", f"{100 * share:.0f} %", describe_part(part, history)


def _list_steps(found: Explanation) -> Table:
    rows = (
        (*(f"{s:.3f}" for s in (step.start_ns / 1e9, step.end_ns / 1e9, step.duration_s)), text)
        for step in found.steps
        for text in (_describe_step(step),)
    )
    return _make_table(("from (s)", "to (s)", "took (s)", "critical path"), rows)


def _describe_step(step: PathStep) -> str:
    match step.kind:
        case "repair":
            return "until the task was planned for the last time"
        case "contribution":
            return f"{step.site} contributes"
        case "installation":
            return f"{step.site} installs the result"
    return f"{step.src} -> {step.site}: {short_size(step.bytes)}"
