"""The cost of each fault for the tasks of a run, in sentences (pure)."""

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
    forms_groups,
)
from trunkline.harness.report.explanations.costs.measured_costs import Longer
from trunkline.harness.report.explanations.costs.task_losses import TOLD_S
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.fault_search import FaultSearch
from trunkline.harness.report.faults.fault_layout import LETTERS, describe_span, shorten
from trunkline.harness.report.faults.fault_table import find_timeline_start_ns

LEAST_S = 0.005
"""A task that lost less to a fault is not named."""

LEAST_LONGER_S = 0.05
"""A run that is longer by less is no longer."""

NO_LONGER = "made the run no longer"
"""What is said of a fault that cost the run nothing."""

GROUPS = ", but it may have changed which sites were in which task"
"""What a fault may do beside the tasks' times where groups of sites form as they come."""

TOLD_SHARE = 0.1
"""Where a site lost time is told if it was this share of what the run is longer by."""

LEAST_ABSENCE_S = 0.1
"""A shorter absence in which a site missed no task is not told."""

NAMED = 6
"""The most tasks that a sentence names."""


def describe_fault_costs(
    found: Sequence[Explanation],
    history: History,
    longer: Sequence[Longer] = (),
    search: FaultSearch | None = None,
) -> Iterator[str]:
    """A sentence on each fault, the worst first; of many, on the first ones.

    `found` are the tasks that lost most time; others have their expected times, or nearly so.
    `longer` says by how much faults made the run longer, if that was measured. Then the worst fault
    is the one that made it longest, else the one that cost tasks most. `search` finds the faults
    behind losses.
    """
    of_fault = {fault: each for each in longer for fault in each.faults}
    cost_s = sum_costs(found)

    def rank(fault: Disturbance) -> tuple[float, float]:
        number = fault.started.fault
        own = of_fault.get(number)
        return -(0.0 if own is None else own.size), -cost_s.get(number, 0.0)

    faults = sorted(list_faults(history), key=rank)
    ordered = sorted(found, key=lambda each: each.task.started.t_ns)
    begin_ns = find_timeline_start_ns(history)
    told: set[Longer] = set()
    absences = {} if search is None else find_absences(history, search)
    varies = not longer and forms_groups(history)
    for fault in faults[:MOST_FAULTS]:
        run = ""
        if (own := of_fault.get(fault.started.fault)) is not None:
            run = _describe_measured(own, fault.started.fault, own in told)
            told.add(own)
        yield "".join(
            (
                _describe(fault, ordered, begin_ns, run, varies),
                _describe_stays(fault, ordered),
                _describe_takeover(fault, history),
                _describe_rest(
                    *_list_absences(absences.get(fault.started.fault, ())),
                    *_list_alone(fault, history, search),
                ),
                _describe_undone(fault, history),
            )
        )
    if left := {each.started.fault for each in faults[MOST_FAULTS:]}:
        left_s = sum(cost_s.get(number, 0.0) for number in left)
        yield f"{count_of(len(left), 'other fault')} cost tasks {left_s:.3f} s in all."


def list_faults(history: History) -> list[Disturbance]:
    """The faults of a run that may cost something: others undo them, or make them."""
    return [each for each in history.faults if each.started.verb not in HARMLESS]


def sum_costs(found: Iterable[Explanation]) -> dict[int, float]:
    """The cost of each fault for these tasks, in seconds, by the number of the fault."""
    total_s: Counter[int] = Counter()
    for each in found:
        total_s.update(each.costs_s)
    return dict(total_s)


def name_worst(
    found: Iterable[Explanation],
    history: History,
    longer: Sequence[Longer] = (),
) -> Iterator[str]:
    """The fault that made the run longest, if that was measured; else that of the costliest."""
    worst = max(longer, key=lambda each: each.size, default=None)
    if worst is not None and worst.faults and len(longer) > 1 and worst.size >= LEAST_LONGER_S:
        which = _name_faults(worst.faults, history)
        how = f"cost the run most: {count_of(worst.tasks, 'completed task')}"
        if worst.seconds is not None:
            how = f"delayed the run most, by {worst.seconds:.3f} s"
        yield f"{which} {how}."
        costs_s = {n: s for n, s in sum_costs(found).items() if n in worst.faults and s >= TOLD_S}
        if len(costs_s) > 1:
            yield f"Of these, fault {max(costs_s, key=lambda n: costs_s[n])} cost tasks most."
        return
    cost_s = {number: s for number, s in sum_costs(found).items() if s >= TOLD_S}
    if len(cost_s) > 1:
        most = max(cost_s, key=lambda number: cost_s[number])
        share = f"{100 * cost_s[most] / sum(cost_s.values()):.0f} % of the cost of all faults"
        yield f"{_name_faults((most,), history)} cost tasks most: {share}."
    elif cost_s and (number := len(list_faults(history))) > 1:
        only = _name_faults([*cost_s], history).replace("Fault", "fault", 1)
        yield f"Of {number} faults, only {only} cost tasks time."


def _list_numbers(numbers: Sequence[int]) -> str:
    """Numbers within a sentence; of many, the first ones."""
    words = [*map(str, numbers)]
    if len(words) > NAMED:
        words[NAMED - 1 :] = [f"{len(words) - NAMED + 1} others"]
    return join_words(words)


def _number_faults(numbers: Sequence[int]) -> str:
    """The numbers of faults, within a sentence."""
    if len(numbers) > 1:
        return f"faults {_list_numbers(numbers)} together"
    return f"fault {numbers[0]}"


def _name_faults(numbers: Sequence[int], history: History) -> str:
    """A fault with its text, or the numbers of several."""
    if len(numbers) > 1:
        return _number_faults(numbers).capitalize()
    text = next(each.started.text for each in history.faults if each.started.fault == numbers[0])
    return f"Fault {numbers[0]} ({shorten(text, LETTERS)})"


def _describe(
    fault: Disturbance,
    found: Sequence[Explanation],
    begin_ns: int | None,
    run: str,
    varies: bool,
) -> str:
    number, span = fault.started.fault, describe_span(fault, begin_ns)
    name = f"Fault {number} ({shorten(fault.started.text, LETTERS)})"
    costs_s = {each: each.costs_s[number] for each in found if number in each.costs_s}
    told = [each for each in costs_s if costs_s[each] >= LEAST_S or _has_failed(each, number)]
    left = _name_members(found, number)
    if not told:
        nothing = f"made no task longer or later, as far as the log tells{GROUPS * varies}"
        lead = f"{run}, {'and' if run == NO_LONGER else 'but'} " if run else ""
        return f"{name}, {span}, {lead}{nothing}.{left}"
    if len(told) == 1:  # its cost is the sum
        words = [f"task {told[0].task.number}{_describe_effects(told[0], number, True)}"]
    else:
        words = [*_list_effects_of(told, number)]
    cost = f"cost tasks {sum(costs_s.values()):.3f} s"
    return f"{name}, {span}, {f'{run}, and ' * bool(run)}{cost}: {'; '.join(words)}.{left}"


def _describe_undone(fault: Disturbance, history: History) -> str:
    """That the run's end undid a fault."""
    stopped = history.all(Stopping)
    is_undone = fault.end_ns is not None and stopped and fault.end_ns >= history.stop_ns
    return " The run ended while it lasted." if is_undone else ""


def _describe_measured(longer: Longer, fault: int, is_told: bool) -> str:
    """By how much a fault made the run longer, or with which others, unless those have told it."""
    others = [each for each in longer.faults if each != fault]
    which = f"fault{'s' * (len(others) > 1)} {_list_numbers(others)}"
    if is_told:
        return f"was measured together with {which} (see there)"
    together = f"together with {which}, " if others else ""
    return together + " and ".join(_list_measured(longer))


def _list_measured(longer: Longer) -> Iterator[str]:
    """The measured costs of faults for a run."""
    if longer.seconds is not None:
        how = f"{abs(longer.seconds):.3f} s {'longer' if longer.seconds > 0 else 'shorter'}"
        is_longer = abs(longer.seconds) >= TOLD_S
        yield f"made the run {how}{_describe_site(longer)}" if is_longer else NO_LONGER
    run = "the run" if longer.seconds is None else "it"
    if longer.tasks > 0:
        yield f"cost {run} {count_of(longer.tasks, 'completed task')}"
    elif longer.tasks < 0:
        yield f"let {run} complete {count_of(-longer.tasks, 'more task')}"
    elif longer.seconds is None:
        yield f"cost {run} no completed task"


def _describe_site(longer: Longer) -> str:
    """Where a mean site lost what the run is longer by, in brackets; small parts are left out."""
    parts = {
        "in tasks": longer.of_site.in_tasks_s,
        "in waits": longer.of_site.waiting_s,
        "in computing": longer.of_site.computing_s,
    }
    least_s = max(TOLD_S, TOLD_SHARE * abs(longer.seconds or 0.0))
    words = [f"{s:+.3f} s {what}" for what, s in parts.items() if abs(s) >= least_s]
    return f" (a site {join_words(words)})" if words else ""


def _list_effects_of(found: Sequence[Explanation], fault: int) -> Iterator[str]:
    """The effects of a fault on tasks, the costliest first; a few with several one by one."""
    by_how: defaultdict[str, list[Explanation]] = defaultdict(list)
    for each in found:
        by_how[_describe_effects(each, fault, False)].append(each)
    groups: list[tuple[str, list[Explanation]]] = []
    for how, some in by_how.items():
        timed = [(_describe_effects(each, fault, True), [each]) for each in some]
        groups += timed if len(some) <= NAMED and timed[0][0] != how else [(how, some)]
    groups.sort(key=lambda group: -max(each.costs_s[fault] for each in group[1]))
    for how, some in groups:
        yield f"{_name(some, fault)}{how.replace(' was ', ' were ') if len(some) > 1 else how}"


def _has_failed(found: Explanation, fault: int) -> bool:
    return any(failure.fault == fault for failure in found.failures)


def _name_members(found: Iterable[Explanation], fault: int) -> str:
    """A sentence on the members that gave up tasks because of the fault; of many, on the first."""
    tasks: defaultdict[str, list[int]] = defaultdict(list)
    for each in found:
        for failure in each.failures:
            if failure.fault == fault:
                for member in failure.members:
                    tasks[member].append(each.task.number)
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for member, numbers in [*tasks.items()][:NAMED]:
        alike[_list_tasks(numbers)].append(member)
    words = [f"{join_words(members)} gave up {what}" for what, members in alike.items()]
    if (left := len(tasks) - NAMED) > 0:
        words.append(f"{count_of(left, 'other site')} gave up tasks")
    return f" {', '.join(words)}." if words else ""


def _list_tasks(numbers: Sequence[int]) -> str:
    return f"task{'s' * (len(numbers) > 1)} {_list_numbers(numbers)}"


def _describe_effects(found: Explanation, fault: int, with_times: bool) -> str:
    """The effects of a fault on a task, to follow its name; each of several may have its time."""
    if found.is_abandoned:
        ended = _has_failed(found, fault)
        delayed = f", which another fault ended, {_describe_delay(found, fault)}"
        return " was abandoned" if ended else delayed
    told = _list_effects(found, fault)
    words = [how + f" ({took_s:.3f} s)" * (with_times and len(told) > 1) for how, took_s in told]
    return f" {join_words(words)}"


def _list_effects(found: Explanation, fault: int) -> list[tuple[str, float]]:
    """How a fault delayed a task, by how many seconds; what took no time is told only if alone."""
    cost = found.costs[fault]
    longer = "took longer"
    if any(part.cause == "repair" for part in found.parts if part.fault == fault):
        longer = "was halted and repaired" if found.task.all(TaskHalted) else "was rearranged"
    effects = [
        ("began later", cost.later_s),
        (longer, cost.longer_s),
        ("ended later where it was given up", cost.given_up_s),
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


def _describe_rest(*clauses: str) -> str:
    """A sentence on what else came of a fault."""
    return f" Because of it, {'; '.join(clauses)}." if clauses else ""


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


def _name(tasks: Sequence[Explanation], fault: int) -> str:
    """The tasks with what the fault cost each, the costliest first; of many the others together."""
    ordered = sorted(tasks, key=lambda each: -each.costs_s[fault])
    costs = [(str(each.task.number), each.costs_s[fault]) for each in ordered]
    if left := costs[NAMED - 1 :] if len(costs) > NAMED else []:
        costs[NAMED - 1 :] = [(f"{len(left)} others", sum(cost_s for _, cost_s in left))]
    words = [f"{which} ({cost_s:.3f} s)" for which, cost_s in costs]
    head = "task" if len(words) == 1 else "tasks"
    return f"{head} {join_words(words)}"


def _describe_delay(found: Explanation, fault: int) -> str:
    """How a fault delayed an abandoned task that another one ended."""
    kept = {part.cause == "abandonment" for part in found.parts if part.fault == fault}
    words = ["began later"] * (found.costs[fault].later_s >= TOLD_S)
    words += ["ran more slowly until then"] * (False in kept)
    words += ["was given up later"] * (True in kept)
    return join_words(words)
