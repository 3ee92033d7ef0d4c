"""What each fault cost the tasks of a run, in sentences (pure)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import pandas as pd

from trunkline.agents.events.causes import Enough, RoundsDone
from trunkline.agents.events.connection_events import BackupTookOver
from trunkline.agents.events.event import BACKUP, CONTROLLER
from trunkline.agents.events.round_events import RoundAlone
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.wire.agent_settings import TASKS_PER_CONTROLLER
from trunkline.harness.config.units import count_of, join_words
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.report.calls.calls_in_faults import HARMLESS, MOST_FAULTS
from trunkline.harness.report.explanations.costs.shorter_run import Shorter, predict_shorter
from trunkline.harness.report.explanations.explanation import EXPECTED, Explanation
from trunkline.harness.report.faults.fault_layout import LETTERS, describe_span, shorten
from trunkline.harness.report.faults.fault_table import find_timeline_start_ns
from trunkline.harness.report.run_data import RunData

LEAST_S = 0.005
"""A task that lost less to a fault is not named."""

TOLD_S = 0.0005
"""A cause that took less from all tasks is none."""

LEAST_EARLIER_S = 0.05
"""A run that ends earlier by less does not end earlier."""

NAMED = 6
"""The most tasks that a sentence names."""


CAUSES = {
    "other tasks": "other tasks on the same links",
    "cold start": "cold connections",
    "queueing": "queues and TCP's control of its rate",
    "background traffic": "background traffic",
    "loss": "lost packets",
    "unexplained": "waits that the log does not explain",
}
"""The causes without a fault that are told by themselves."""

FAULTS, OTHERS = "faults", "other causes"
STARTS = "messages from the last member to the controller"
TASKS = "waits of complete groups until another task had ended"
WAITS = "waits of complete groups for something else"
OWN = "their own bytes, which took longer than expected"
ABANDONED = "abandoned tasks without a fault behind it"

MEANING = (
    "A task loses what it took beyond its expected time, and what its complete group waited before "
    "it. Tasks overlap, so the run is not longer by this sum."
)


def describe_sites(workers: pd.DataFrame) -> Iterator[str]:
    """A sentence on what a site did on average."""
    if len(workers):
        means = (workers[column].mean() for column in ("compute_s", "wait_s", "sync_s"))
        computed, waited, inside = (f"{0.0 if math.isnan(s) else s:.3f} s" for s in means)
        yield (
            f"On average, a site computed for {computed}, waited for a group for {waited}, and was "
            f"in tasks for {inside}."
        )


def describe_losses(found: Sequence[Explanation], history: History) -> Iterator[str]:
    """What the tasks lost in all, and to what, in numbers that add up."""
    ended = sum(task.end_ns is not None for task in history.tasks)
    which = f"The {count_of(ended, 'task')} of this run"
    if ended > len(found):
        which = f"The {len(found)} tasks of {ended} that lost most time"
    late = [each for each in found if each.lost_s > 0]
    if (total_s := sum(each.lost_s for each in late)) < TOLD_S:
        yield f"{which} lost no time: none took longer than expected."
        return
    by_cause: defaultdict[str, float] = defaultdict(float)
    for each in late:
        for cause, seconds in _divide_losses(each):
            by_cause[cause] += seconds
    own_s = total_s - sum(by_cause.values())
    by_cause[OWN] = max(0.0, own_s)
    told = [(s, cause) for cause, s in by_cause.items() if cause != OTHERS and s >= TOLD_S]
    words = [f"{seconds:.3f} s to {cause}" for seconds, cause in sorted(told, reverse=True)]
    other_s = sum(by_cause.values()) - sum(seconds for seconds, _ in told)
    if other_s >= TOLD_S:
        words.append(f"{other_s:.3f} s to {OTHERS}")
    own = ""
    if own_s <= -TOLD_S:
        own = f"; but their own bytes took {-own_s:.3f} s less than expected"
    yield f"{which} lost {total_s:.3f} s in all: {', '.join(words)}{own}. {MEANING}"
    if any(each.task.number >= TASKS_PER_CONTROLLER for each in found):
        yield f"Tasks from {TASKS_PER_CONTROLLER} on are those that a backup controller started."


def _divide_losses(found: Explanation) -> Iterator[tuple[str, float]]:
    """What one task lost, by cause; without what its own bytes took beyond what was expected."""
    faults_s = sum(found.costs_s.values())
    yield FAULTS, faults_s
    if found.is_abandoned and found.failures[0].fault is None:
        yield ABANDONED, found.duration_s - faults_s
    for part in () if found.is_abandoned else found.parts:
        if part.fault is None and part.cause not in EXPECTED:
            yield CAUSES.get(part.cause, OTHERS), part.seconds
    yield OTHERS, sum(each.late.seconds - each.late.faults_s for each in found.failures)
    if found.wait is not None and found.wait.fault is None:
        reason = found.wait.reason
        kind = TASKS if " until task " in reason else WAITS if reason else STARTS
        yield kind, found.wait.decide_s


def describe_delay(found: Sequence[Explanation], data: RunData) -> Iterator[str]:
    """What faults cost a site, and by how much they made the run longer; none if nothing.

    A task takes the time of its members alone.
    """
    sites = max(data.scenario.parties, 1)
    lost_s = sum(sum(each.costs_s.values()) * len(each.task.started.group) for each in found)
    if lost_s / sites < TOLD_S:
        return
    yield (
        f"In tasks and before them, faults cost a site {lost_s / sites:.3f} s on average: a member "
        f"of a task loses what faults cost the task, and this is the mean of "
        f"{count_of(sites, 'site')}. It leaves out waits for members of delayed tasks, and rounds "
        "that a lost site did not do."
    )
    ends = data.history.all(Stopping)
    if ends and isinstance(ends[-1].cause, Enough | RoundsDone):
        lost = sum(task.outcome == "abandoned" for task in data.history.tasks)
        yield _describe_shorter(predict_shorter(data, found), lost)


def _describe_shorter(shorter: Shorter | None, lost: int) -> str:
    """By how much faults made a run longer that ended by its tasks, of which it `lost` some."""
    if shorter is None:
        return (
            "The fluid model cannot say how much earlier the last task would have ended without "
            "faults: a run without them tells (`--set timeline=[]`)."
        )
    earlier = shorter.earlier_s >= LEAST_EARLIER_S
    when = f"about {shorter.earlier_s:.1f} s earlier" if earlier else "no earlier"
    whole = f", and {count_of(lost, 'more task')} would have been completed" if lost else ""
    return (
        f"Without faults, the last task would have ended {when}{whole}, as the fluid model "
        f"predicts: from the first fault on, links carry {100 * shorter.share:.0f} % of their "
        "rates in it."
    )


def describe_fault_costs(found: Sequence[Explanation], history: History) -> Iterator[str]:
    """A sentence on each fault; of many, on the first ones.

    `found` are the tasks that lost most time; others have their expected times, or nearly so.
    """
    faults = [each for each in history.faults if each.started.verb not in HARMLESS]
    ordered = sorted(found, key=lambda each: each.task.started.t_ns)
    begin_ns = find_timeline_start_ns(history)
    for fault in faults[:MOST_FAULTS]:
        yield "".join(
            (
                _describe(fault, ordered, begin_ns),
                _describe_stays(fault, ordered),
                _describe_takeover(fault, history),
                _describe_alone(fault, history),
            )
        )
    if left := {each.started.fault for each in faults[MOST_FAULTS:]}:
        cost_s = sum(each.costs_s.get(number, 0.0) for each in ordered for number in left)
        yield f"{count_of(len(left), 'other fault')} cost tasks {cost_s:.3f} s in all."


def _describe(fault: Disturbance, found: Sequence[Explanation], begin_ns: int | None) -> str:
    number, span = fault.started.fault, describe_span(fault, begin_ns)
    name = f"Fault {number} ({shorten(fault.started.text, LETTERS)})"
    costs_s = {each: each.costs_s[number] for each in found if number in each.costs_s}
    failed = [each for each in costs_s if any(f.fault == number for f in each.failures)]
    others = [each for each in costs_s if each not in failed and costs_s[each] >= LEAST_S]
    words = []
    if abandoned := [each for each in failed if each.is_abandoned]:
        words.append(f"{_name(abandoned, number)} {_were(abandoned)} abandoned")
    if given_up := [each for each in failed if not each.is_abandoned]:
        words.append(f"{_name(given_up, number)} {_were(given_up)} given up by some members")
    ended: defaultdict[str, list[Explanation]] = defaultdict(list)
    for each in others:
        if each.is_abandoned:
            ended[_describe_delay(each, number)].append(each)
    for how, some in ended.items():
        words.append(f"{_name(some, number)}, which another fault ended, {how.format(_were(some))}")
    words += _list_delayed([each for each in others if not each.is_abandoned], number)
    if not words:
        return f"{name}, {span}, cost no task any time that the log shows."
    cost_s = sum(costs_s.values())
    return f"{name}, {span}, cost tasks {cost_s:.3f} s: {'; '.join(words)}."


def _list_delayed(found: Sequence[Explanation], fault: int) -> Iterator[str]:
    """What a fault did to tasks that it did not end; tasks with several effects one by one."""
    by_how: defaultdict[tuple[str, ...], list[Explanation]] = defaultdict(list)
    for each in found:
        by_how[tuple(how for how, _ in _list_effects(each, fault))].append(each)
    for hows, some in by_how.items():
        if len(hows) == 1 or len(some) > NAMED:
            yield f"{_name(some, fault)} {join_words([how.format('') for how in hows])}"
            continue
        for each in some:
            told = [how.format(f" {took_s:.3f} s") for how, took_s in _list_effects(each, fault)]
            yield f"{_name([each], fault)} {join_words(told)}"


def _list_effects(found: Explanation, fault: int) -> list[tuple[str, float]]:
    """How a fault delayed a task, by how many seconds: what took a while, else what took longest.

    The words have room for a time.
    """
    cost = found.costs[fault]
    effects = [
        ("began{} later", cost.later_s),
        ("took{} longer", cost.longer_s),
        ("was given up{} later by some members", cost.given_up_s),
    ]
    told = [effect for effect in effects if effect[1] >= TOLD_S]
    return told or [max(effects, key=lambda effect: effect[1])]


def _describe_stays(fault: Disturbance, found: Sequence[Explanation]) -> str:
    """A sentence on each site that the fault kept in an abandoned task; of many on the longest."""
    stays = [
        (stay, each.task.number)
        for each in found
        for stay in each.stays
        if stay.fault == fault.started.fault
    ]
    stays.sort(key=lambda told: -told[0].seconds)
    return "".join(
        f" {stay.site} was held in task {task} for {stay.seconds:.3f} s, "
        f"{stay.beyond_s:.3f} s of it after the task had been abandoned."
        for stay, task in stays[:NAMED]
    )


def _describe_takeover(fault: Disturbance, history: History) -> str:
    """When the backup took over from the controller that the fault stopped."""
    since_ns, until_ns = fault.started.t_ns, fault.end_ns
    took = next((e.t_ns for e in history.all(BackupTookOver) if e.t_ns >= since_ns), None)
    ended = took is None or (until_ns is not None and until_ns < took)
    if CONTROLLER not in fault.started.targets or took is None or ended:
        return ""
    said = f" The backup took over {(took - since_ns) / 1e9:.3f} s after the fault began"
    starts = (task.started for task in history.tasks if task.started.site == BACKUP)
    first = next((started for started in starts if started.t_ns >= took), None)
    if first is None:
        return f"{said}."
    after_s = (first.t_ns - since_ns) / 1e9
    return f"{said}, and started its first task, {first.task}, {after_s:.3f} s after it."


def _describe_alone(fault: Disturbance, history: History) -> str:
    """A sentence on the rounds that sites which a fault touched did alone meanwhile."""
    targets = fault.started.targets
    touched = {end for target in targets for end in target.split(" -> ")}
    start_ns, end_ns = fault.started.t_ns, fault.end_ns
    alone = history.all(RoundAlone)
    rounds = Counter(
        event.site
        for event in alone
        if start_ns <= event.t_ns and (end_ns is None or event.t_ns <= end_ns)
        if CONTROLLER in touched or event.site in touched
    )
    if not rounds:
        return ""
    of_run = Counter(event.site for event in alone)
    sites = [
        f"{site} did {count_of(n, 'round')} alone"
        + f" (of {of_run[site]} in all)" * (of_run[site] > n)
        for site, n in rounds.most_common(NAMED)
    ]
    left = [f"{count_of(len(rounds) - NAMED, 'other site')} likewise"] * (len(rounds) > NAMED)
    return f" Meanwhile {', '.join([*sites, *left])}."


def _name(tasks: Sequence[Explanation], fault: int) -> str:
    """The tasks, with what the fault cost each; of many the first ones, and the others together."""
    costs = [(str(each.task.number), each.costs_s[fault]) for each in tasks]
    if left := costs[NAMED - 1 :] if len(costs) > NAMED else []:
        costs[NAMED - 1 :] = [(f"{len(left)} others", sum(cost_s for _, cost_s in left))]
    words = [f"{which} ({cost_s:.3f} s)" for which, cost_s in costs]
    head = "task" if len(words) == 1 else "tasks"
    return f"{head} {join_words(words)}"


def _describe_delay(found: Explanation, fault: int) -> str:
    """How a fault delayed an abandoned task that another one ended; with room for "was"."""
    kept = {part.cause == "abandonment" for part in found.parts if part.fault == fault}
    words = ["began later"] * (found.costs[fault].later_s >= TOLD_S)
    words += ["ran more slowly until then"] * (False in kept)
    words += ["{} given up later"] * (True in kept)
    return join_words(words)


def _were(tasks: Sequence[Explanation]) -> str:
    return "was" if len(tasks) == 1 else "were"
