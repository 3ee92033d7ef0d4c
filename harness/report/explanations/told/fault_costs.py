"""What each fault did to the tasks of a run, in sentences (pure)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from trunkline.agents.events.connection_events import BackupTookOver, ControllerLost
from trunkline.agents.events.event import BACKUP, CONTROLLER
from trunkline.agents.events.round_events import ComputeStarted, RoundAlone
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import TaskHalted
from trunkline.harness.config.units import count_of, join_words
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.report.calls.calls_in_faults import HARMLESS, MOST_FAULTS
from trunkline.harness.report.explanations.costs.lost_sites import (
    Absence,
    find_absences,
)
from trunkline.harness.report.explanations.costs.measured_costs import Longer, Measured
from trunkline.harness.report.explanations.costs.task_losses import TOLD_S
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.fault_search import FaultSearch
from trunkline.harness.report.faults.fault_layout import LETTERS, describe_span, shorten
from trunkline.harness.report.faults.fault_table import find_timeline_start_ns

LEAST_S = 0.005
"""A task of which a fault took less is not named."""

DEADLY = ("kill", "leave", "restart")
"""The faults that end agents."""

FEWER_ROUNDS = 0.5
"""A site that began so many rounds fewer than the others did is named."""

LEAST_ABSENCE_S = 0.1
"""A shorter absence in which a site missed no task is not told."""

NAMED = 6
"""The most tasks that a sentence names."""

NO_LONGER = "made the run no longer"
"""What is said of a fault that cost the run nothing."""

NO_TASK = "It delayed no task, as far as the log tells."
"""What is said of a fault that was behind nothing."""


def describe_fault_costs(
    found: Sequence[Explanation],
    history: History,
    longer: Sequence[Longer] = (),
    search: FaultSearch | None = None,
    measured: Measured | None = None,
) -> Iterator[str]:
    """What each fault did, the worst first; of many, what the first ones did.

    `found` are the tasks that lost most time; others have their expected times, or nearly so.
    `longer` says by how much faults made the run longer, if that was measured. Then the worst fault
    is the one that made it longest, else the one that was behind most of what tasks lost. `search`
    finds the faults behind losses. What was `measured` of a task comes before what its log tells.
    """
    of_fault = {fault: each for each in longer for fault in each.faults}
    lost_s = sum_lost(found)

    def rank(fault: Disturbance) -> tuple[float, float]:
        number = fault.started.fault
        own = of_fault.get(number)
        return -(0.0 if own is None else own.size), -lost_s.get(number, 0.0)

    faults = sorted(list_faults(history), key=rank)
    ordered = sorted(found, key=lambda each: each.task.started.t_ns)
    begin_ns = find_timeline_start_ns(history)
    told: set[Longer] = set()
    absences = {} if search is None else find_absences(history, search)
    for fault in faults[:MOST_FAULTS]:
        number = fault.started.fault
        acted = [f"{name_faults((number,), history)} acted {describe_span(fault, begin_ns)}"]
        if (own := of_fault.get(number)) is not None:
            acted += _describe_measured(own, number, own in told)
            told.add(own)
        sentences = (
            f"{join_words(acted)}.",
            _describe_taken(ordered, number, measured),
            _describe_abandoned(ordered, number),
            _describe_late(ordered, number),
            _name_members(ordered, number),
            *_describe_stays(fault, ordered),
            _describe_takeover(fault, history),
            _describe_rounds(fault, history),
            _describe_rest(
                *_list_absences(absences.get(number, ())), *_list_alone(fault, history, search)
            ),
            _describe_undone(fault, history),
        )
        yield " ".join(filter(None, sentences))
    if left := faults[MOST_FAULTS:]:
        left_s = sum(lost_s.get(each.started.fault, 0.0) for each in left)
        were = "were" if len(left) > 1 else "was"
        yield f"{count_of(len(left), 'other fault')} {were} behind {left_s:.3f} s of tasks in all."


def list_faults(history: History) -> list[Disturbance]:
    """The faults of a run that may cost something: others undo them, or make them."""
    return [each for each in history.faults if each.started.verb not in HARMLESS]


def sum_taken(found: Iterable[Explanation]) -> dict[int, float]:
    """How much of the critical paths of these tasks each fault took, in seconds, by its number."""
    total_s: Counter[int] = Counter()
    for each in found:
        total_s.update(each.taken_s)
    return dict(total_s)


def sum_lost(found: Iterable[Explanation]) -> dict[int, float]:
    """The same with the waits before these tasks that the fault was behind."""
    found = [*found]
    total_s = Counter(sum_taken(found))
    for each in found:
        total_s.update(each.before_s)
    return dict(total_s)


def list_numbers(numbers: Sequence[int]) -> str:
    """Numbers within a sentence; of many, the first ones."""
    words = [*map(str, numbers)]
    if len(words) > NAMED:
        words[NAMED - 1 :] = [f"{len(words) - NAMED + 1} others"]
    return join_words(words)


def lower(text: str) -> str:
    """A text that goes on within a sentence."""
    return text[0].lower() + text[1:]


def _number_faults(numbers: Sequence[int]) -> str:
    """The numbers of faults, within a sentence."""
    if len(numbers) > 1:
        return f"faults {list_numbers(numbers)} together"
    return f"fault {numbers[0]}"


def name_faults(numbers: Sequence[int], history: History) -> str:
    """A fault with its text, or the numbers of several."""
    if len(numbers) > 1:
        return _number_faults(numbers).capitalize()
    text = next(each.started.text for each in history.faults if each.started.fault == numbers[0])
    return f"Fault {numbers[0]} ({shorten(text, LETTERS)})"


def _describe_taken(found: Sequence[Explanation], fault: int, measured: Measured | None) -> str:
    """A sentence on what a fault took of tasks that it did not end; of many, on the first ones."""
    cost_s = (
        {}
        if measured is None
        else {each: measured.find_costs_s(each.task.number).get(fault) for each in found}
    )
    by_log_s = {
        each: each.taken_s.get(fault, 0.0)
        for each in found
        if not (each.is_abandoned and _has_failed(each, fault))
        and not (each.taken_s.get(fault) and _is_given_up(each, fault))
    }
    known_s = ((each, cost_s.get(each)) for each in by_log_s)
    taken_s = {each: by_log_s[each] if cost is None else cost for each, cost in known_s}
    taken_s = {each: seconds for each, seconds in taken_s.items() if seconds >= LEAST_S}
    ordered = sorted(taken_s, key=lambda each: -taken_s[each])
    words = [
        f"{taken_s[each]:.3f} s of task {each.task.number}"
        f"{_describe_how(each, fault, cost_s.get(each) is not None)}"
        for each in ordered
    ]
    if left := ordered[NAMED - 1 :] if len(ordered) > NAMED else []:
        left_s = sum(taken_s[each] for each in left)
        words[NAMED - 1 :] = [f"{left_s:.3f} s of {count_of(len(left), 'other task')}"]
    if not words and not any(fault in each.faults for each in found):
        return NO_TASK
    return f"It took {join_words(words)}." if words else ""


def _describe_how(found: Explanation, fault: int, is_measured: bool) -> str:
    """What the fault did to a task beside delaying it, and whether its time was measured."""
    words = ["measured"] * is_measured
    if any(part.cause == "repair" for part in found.parts if part.fault == fault):
        words.append("halted and repaired" if found.task.all(TaskHalted) else "rearranged")
    return f" ({'; '.join(words)})" if words else ""


def _describe_rounds(fault: Disturbance, history: History) -> str:
    """How many rounds the sites began that a fault stopped, if the others began more."""
    rounds = Counter(event.site for event in history.all(ComputeStarted))
    if fault.started.verb not in (*DEADLY, "pause"):
        return ""
    stopped = [site for site in fault.started.targets if site in rounds]
    others = [number for site, number in rounds.items() if site not in stopped]
    if not stopped or not others:
        return ""
    usual = sum(others) / len(others)
    fewer = [site for site in stopped if rounds[site] <= usual - FEWER_ROUNDS]
    words = [f"{site} began {count_of(rounds[site], 'round')}" for site in fewer[:NAMED]]
    if not words:
        return ""
    return f"In this run, {join_words(words)}, and the other sites {usual:.1f} on average."


def _describe_abandoned(found: Iterable[Explanation], fault: int) -> str:
    """A sentence on the tasks that were abandoned because of a fault; of many, on the first."""
    lost = [each for each in found if each.is_abandoned and _has_failed(each, fault)]
    if len(lost) == 1:
        return f"Task {lost[0].task.number} was abandoned after {lost[0].duration_s:.3f} s."
    words = [f"{each.task.number} (after {each.duration_s:.3f} s)" for each in lost]
    return f"Tasks {_shorten(words)} were abandoned." if words else ""


def _describe_late(found: Iterable[Explanation], fault: int) -> str:
    """A sentence on the tasks that began late because of a fault; of many, on the first."""
    late = [each for each in found if each.began_late(fault)]
    words = [
        f"{each.task.number}{f' ({s:.3f} s)' if (s := each.before_s.get(fault, 0.0)) else ''}"
        for each in late
    ]
    return f"Task{'s' * (len(late) > 1)} {_shorten(words)} began later." if late else ""


def _describe_undone(fault: Disturbance, history: History) -> str:
    """That the run's end undid a fault."""
    stopped = history.all(Stopping)
    is_undone = fault.end_ns is not None and stopped and fault.end_ns >= history.stop_ns
    return "The run ended while it lasted." if is_undone else ""


def _describe_measured(longer: Longer, fault: int, is_told: bool) -> list[str]:
    """What a fault cost the run, perhaps with others, unless that is told of those."""
    others = [each for each in longer.faults if each != fault]
    which = f"fault{'s' * (len(others) > 1)} {list_numbers(others)}"
    if is_told:
        return [f"was measured together with {which} (see there)"]
    first, *rest = _list_measured(longer)
    return [f"together with {which} {first}" if others else first, *rest]


def _list_measured(longer: Longer) -> Iterator[str]:
    """The measured costs of faults for a run."""
    if longer.seconds is not None:
        how = f"{abs(longer.seconds):.3f} s {'longer' if longer.seconds > 0 else 'shorter'}"
        is_longer = abs(longer.seconds) >= TOLD_S
        if longer.of_site.is_other_work:
            how = f"{abs(longer.seconds):.3f} s {'later' if longer.seconds > 0 else 'earlier'}"
            yield f"changed the work of the run, which ended {how}{_describe_site(longer)}"
        else:
            yield f"made the run {how}{_describe_site(longer)}" if is_longer else NO_LONGER
    run = "the run" if longer.seconds is None else "it"
    if longer.tasks > 0:
        yield f"cost {run} {count_of(longer.tasks, 'completed task')}"
    elif longer.tasks < 0:
        yield f"let {run} complete {count_of(-longer.tasks, 'more task')}"
    elif longer.seconds is None:
        yield f"cost {run} no completed task"


def _describe_site(longer: Longer) -> str:
    """By how much longer a mean site was in tasks, waited and computed, in brackets."""
    parts = {
        "in tasks": longer.of_site.in_tasks_s,
        "in waits": longer.of_site.waiting_s,
        "in computing": longer.of_site.computing_s,
    }
    words = [f"{s:+.3f} s {what}" for what, s in parts.items() if abs(s) >= TOLD_S]
    words += [f"{longer.of_site.rounds:+.1f} rounds"] * longer.of_site.is_other_work
    return f" (a mean site: {', '.join(words)})" if words else ""


def _has_failed(found: Explanation, fault: int) -> bool:
    return any(failure.fault == fault for failure in found.failures)


def _is_given_up(found: Explanation, fault: int) -> bool:
    """Whether the fault took nothing of a task but the time until members gave it up."""
    return all(part.fault != fault for part in found.parts)


def _name_members(found: Iterable[Explanation], fault: int) -> str:
    """A sentence on the members that gave up tasks because of the fault; of many, on the first."""
    words: dict[str, list[str]] = defaultdict(list)
    for each in found:
        for failure in each.failures:
            late_s = dict(failure.late.took_s).get(fault, 0.0)
            if failure.fault == fault and failure.members:
                after = f" ({late_s:.3f} s after its end for the others)" * (late_s >= LEAST_S)
                for member in failure.members:
                    words[member].append(f"task {each.task.number}{after}")
    told = [f"{who} gave up {_shorten(tasks)}" for who, tasks in [*words.items()][:NAMED]]
    if (left := len(words) - NAMED) > 0:
        told.append(f"{count_of(left, 'other site')} gave up tasks")
    return f"{join_words(told)}." if told else ""


def _shorten(words: Sequence[str]) -> str:
    """Words as a list; of many, the first ones."""
    return join_words([*words[: NAMED - 1], "others"] if len(words) > NAMED else words)


def _describe_stays(fault: Disturbance, found: Sequence[Explanation]) -> Iterator[str]:
    """A sentence on each site that the fault kept in an abandoned task; of many on the longest."""
    stays = [
        (stay, each.task.number)
        for each in found
        for stay in each.stays
        if stay.fault == fault.started.fault
    ]
    stays.sort(key=lambda told: -told[0].seconds)
    for stay, task in stays[:NAMED]:
        yield (
            f"{stay.site} was held in task {task} for {stay.seconds:.3f} s, {stay.beyond_s:.3f} s "
            "of it after the task had been abandoned."
        )


def _describe_takeover(fault: Disturbance, history: History) -> str:
    """When the backup took over from the controller that the fault stopped."""
    since_ns, until_ns = fault.started.t_ns, fault.end_ns
    took = next((e.t_ns for e in history.all(BackupTookOver) if e.t_ns >= since_ns), None)
    ended = took is None or (until_ns is not None and until_ns < took)
    if CONTROLLER not in fault.started.targets or took is None or ended:
        return ""
    said = f"The backup took over {(took - since_ns) / 1e9:.3f} s after the fault began"
    starts = (task.started for task in history.tasks if task.started.site == BACKUP)
    first = next((started for started in starts if started.t_ns >= took), None)
    if first is None:
        return f"{said}."
    after_s = (first.t_ns - since_ns) / 1e9
    return f"{said}, and started its first task, {first.task}, {after_s:.3f} s after it."


def _describe_rest(*clauses: str) -> str:
    """A sentence on what else came of a fault."""
    return f"Because of it, {'; '.join(clauses)}." if clauses else ""


def _list_absences(absences: Sequence[Absence]) -> Iterator[str]:
    """The sites that counted as lost because of a fault, and how many tasks they missed."""
    told = [each for each in absences if each.missed or each.seconds >= LEAST_ABSENCE_S]
    for each in told[:NAMED]:
        until = "on" if each.until_ns is None else f"to {each.until_ns / 1e9:.3f} s"
        tasks = f", and missed {count_of(each.missed, 'task')}" * (each.missed > 0)
        yield f"{each.site} counted as lost from {each.since_ns / 1e9:.3f} s {until}{tasks}"
    if len(told) > NAMED:
        yield f"so did {count_of(len(told) - NAMED, 'other site')}"


def _list_alone(fault: Disturbance, history: History, search: FaultSearch | None) -> Iterator[str]:
    """The rounds that sites did alone because of a fault."""
    alone = history.all(RoundAlone)
    rounds = Counter(event.site for event in alone if _is_behind(fault, event, history, search))
    of_run = Counter(event.site for event in alone)
    by_count: defaultdict[str, list[str]] = defaultdict(list)
    for site, n in rounds.most_common(NAMED):
        more = f" (of {of_run[site]} in all)" * (of_run[site] > n)
        by_count[f"{count_of(n, 'round')} alone{more}"].append(site)
    for what, some in by_count.items():
        yield f"{join_words(some)} {'each ' * (len(some) > 1)}did {what}"
    if (left := len(rounds) - NAMED) > 0:
        yield f"{count_of(left, 'other site')} likewise"


def _is_behind(
    fault: Disturbance, alone: RoundAlone, history: History, search: FaultSearch | None
) -> bool:
    """Whether a site did a round alone because of a fault: it had lost the controller by it.

    That may have been over, as long as the site had not found the controller again.
    """
    found = history.all(ControllerLost)
    lost_ns = (e.t_ns for e in found if e.site == alone.site and e.t_ns <= alone.t_ns)
    last_ns = max(lost_ns, default=None)
    if search is None or last_ns is None:
        return _find_alone(fault, alone, history)
    return fault.started.fault == search.find_behind_silence(alone.site, last_ns)


def _find_alone(fault: Disturbance, alone: RoundAlone, history: History) -> bool:
    """Whether a fault acted when a site did a round alone: the fault was then, or in the round.

    A site that was stopped or cut off ends its round when the fault has ended. A round that ended
    in a later fault is that one's.
    """
    acting = [each for each in history.faults if _touches(each, alone.site)]
    if fault not in acting or alone.t_ns < fault.started.t_ns:
        return False
    if fault.end_ns is None or alone.t_ns <= fault.end_ns:
        return True
    begun = [e.t_ns for e in history.all(ComputeStarted) if e.site == alone.site]
    begun_ns = max((t_ns for t_ns in begun if t_ns < alone.t_ns), default=alone.t_ns)
    later = (e for e in acting if fault.end_ns < (e.end_ns or alone.t_ns))
    return begun_ns <= fault.end_ns and all(alone.t_ns < e.started.t_ns for e in later)


def _touches(fault: Disturbance, site: str) -> bool:
    touched = {end for target in fault.started.targets for end in target.split(" -> ")}
    return site in touched or CONTROLLER in touched
