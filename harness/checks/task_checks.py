"""The checks of a run and its agents, computed from the event log alone (pure).

`harness.checks.network_checks` has those of the network. Each check reads the whole history and
relies on no other check, so two checks may report the same problem.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from trunkline.agents.events.event import BACKUP, CONTROLLER, Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import (
    ComputeFinished,
    Ready,
    RoundAlone,
    RoundFinished,
    SyncFinished,
    SyncStarted,
    WorkerFinished,
)
from trunkline.agents.events.run_events import AgentExited, AgentFailed, RunFinished
from trunkline.agents.events.task_events import Contributed, Evaluated, TaskDropped, TaskFinished
from trunkline.harness.checks import network_checks
from trunkline.harness.checks.task_outcomes import TaskOutcomes, group_endings
from trunkline.harness.checks.verdict import (
    Check,
    Checker,
    Finding,
    Rules,
    Verdict,
    doubt,
    fail,
    note,
)
from trunkline.harness.record.history import History, Task

SUM_TOLERANCE = 256 * 2.0**-24
"""Allowed error of a result's fingerprint per term, relative to the sizes of its terms.

Float32 rounds each addition by at most 2**-24 of the element. A fingerprint sums elements of either
sign, so it is smaller than the elements and its relative error larger: hence the factor 256. Only
one pair of contributions in 100 000 needs more. A chunk that is lost or summed twice is off by
hundreds of times more.
"""

BUDGET_GRACE, BUDGET_GRACE_S = 0.01, 1.0
"""Allowed excess of a task's budget, relative and in seconds: giving up takes a few messages."""


def judge(history: History, rules: Rules) -> Verdict:
    """Run every check on one run."""
    checks = CHECKS if rules.programs is None else PROGRAM_CHECKS
    return Verdict.of(Check.of(name, check(history, rules)) for name, check in checks.items())


def log_is_whole(history: History, rules: Rules) -> Iterator[Finding]:
    """The run started as the scenario says, ended, and completed at least one task."""
    if history.run is None:
        yield fail("the log has no run_started event")
    elif set(history.run.sites) != set(rules.topology.site_names):
        yield fail(f"the run's sites are {', '.join(history.run.sites)}, not the scenario's")
    if not history.all(RunFinished):
        yield fail("the log has no run_finished event")
    for event in history.strays:
        where = f"{event.site} at {_format_time(event.t_ns)}"
        yield fail(f"{where}: {event} belongs to no task or starts one again")
    if not history.completed and rules.programs is None:
        yield doubt("no task was completed, so nothing is shown to work")
    tasks = len(history.tasks) + len(history.syncs)
    yield note(f"{len(history.events)} events, {tasks} tasks")


def agents_exited(history: History, rules: Rules) -> Iterator[Finding]:
    """The controller and every worker ended with exit code 0, unless a fault killed it.

    Each restart by a fault adds one exit.
    """
    agents = (CONTROLLER, *([BACKUP] if rules.has_backup else []), *rules.topology.site_names)
    exits = Counter(event.who for event in history.all(AgentExited))
    starts = Counter(event.who for event in history.all(AgentChanged) if event.do == "restart")
    for failure in history.all(AgentFailed):
        yield fail(f"{failure.site} gave up: {failure.reason}")
    for who in agents:
        if not exits[who]:
            yield fail(f"{who} did not exit before the run ended")
        elif exits[who] != 1 + starts[who]:
            yield fail(f"{who} exited {exits[who]} times")
    for event in history.all(AgentExited):
        if event.fault is not None:
            continue
        if event.signal:
            yield fail(f"{event.who} was ended by signal {event.signal}")
        elif event.code != 0:
            yield fail(f"{event.who} exited with code {event.code}")
    yield note(f"{len(agents)} agents, each with code 0")


def programs_exited(history: History, rules: Rules) -> Iterator[Finding]:
    """Every program exited once, with code 0 unless it was told to end."""
    programs = rules.programs or ()
    exits = Counter(event.who for event in history.all(AgentExited))
    for site in programs:
        if exits[site] != 1:
            yield fail(f"the program of {site} exited {exits[site]} times")
    for event in history.all(AgentExited):
        if event.signal and not event.asked:
            yield fail(f"the program of {event.who} was ended by signal {event.signal}")
        elif event.code and not event.asked:
            yield fail(f"the program of {event.who} exited with code {event.code}")
    for failure in history.all(AgentFailed):
        yield fail(f"{failure.site}: {failure.reason}")
    asked = sum(bool(event.asked) for event in history.all(AgentExited))
    yield note(f"{len(programs) - asked} programs with code 0, {asked} ended on request")


def syncs_ended(history: History, rules: Rules) -> Iterator[Finding]:
    """Each site that began a synchronization ended it; all agree on its size and operation."""
    asked = {event.who for event in history.all(AgentExited) if event.asked}
    meant: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
    begun, ended = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for start in history.all(SyncStarted):
        meant[start.task].add((start.bytes, start.operation))
        begun[start.task, start.site] += 1
    for end in history.all(SyncFinished):
        ended[end.task, end.site] += 1
    for task, site in sorted(begun.keys() | ended.keys()):
        counts = begun[task, site], ended[task, site]
        if counts != (1, 1) and not (counts == (1, 0) and site in asked):
            yield fail(f"task {task}: {site} began it {counts[0]} times, ended it {counts[1]}")
    for task, meanings in meant.items():
        if len(meanings) > 1:
            yield fail(f"task {task}: sites disagree about it: {sorted(meanings)}")
    yield note(f"{len(meant)} tasks reported")


def tasks_ended(history: History, rules: Rules) -> Iterator[Finding]:
    """Each task was completed or abandoned once.

    If a member or a controller was lost, another controller may have ended the task again, or none
    may be left that knows of it.
    """
    outcomes = TaskOutcomes(history, rules.detection_s)
    again = 0
    for task in history.tasks:
        completed, abandoned = len(task.completed), len(task.abandoned)
        if completed + abandoned == 1:
            continue
        if outcomes.is_excused(task):
            again += 1
        elif completed + abandoned == 0:
            yield fail(f"{_name(task)} was neither completed nor abandoned")
        else:
            yield fail(f"{_name(task)} was completed {completed} and abandoned {abandoned} times")
    counts = Counter(task.outcome for task in history.tasks)
    more = f", {again} ended by no controller or by several" if again else ""
    yield note(f"{counts['completed']} completed, {counts['abandoned']} abandoned{more}")


def members_decide_alike(history: History, rules: Rules) -> Iterator[Finding]:
    """All members of a task install its result, or all give it up.

    A split is allowed in two cases: a member or a controller was lost, or the budget was spent
    before the members that had the result reached the others.
    """
    outcomes = TaskOutcomes(history, rules.detection_s)
    split = 0
    for task in history.tasks:
        ended = group_endings(task)
        for site in sorted(ended.keys() - set(task.started.group)):
            yield fail(f"{_name(task)}: {site} ended it but is not a member")
        for site in task.started.group:
            yield from _check_member(outcomes, task, site, len(ended.get(site, ())))
        late = (task.duration_s or 0.0) > rules.task_s
        if outcomes.is_split(task) and (late or outcomes.is_excused(task)):
            split += 1
        elif outcomes.is_split(task):
            done, gave_up = _join_sites(task.finished), _join_sites(task.dropped)
            yield fail(f"{_name(task)}: finished by {done}, given up by {gave_up}")
        elif task.outcome == "completed" and not task.finished:
            yield fail(f"{_name(task)} is completed, but no member has its result")
    yield note(f"{len(history.tasks)} tasks, {split} split where an agent was lost or late")


def _check_member(outcomes: TaskOutcomes, task: Task, site: str, times: int) -> Iterator[Finding]:
    """A member that contributed finishes or gives up once, unless it is killed."""
    taken = any(event.site == site for event in task.contributed)
    start_ns = task.started.t_ns
    if times > 1:
        yield fail(f"{_name(task)}: {site} ended it {times} times")
    elif times and not taken:
        yield fail(f"{_name(task)}: {site} ended it but did not take part")
    elif taken and not times and not outcomes.was_killed(site, start_ns):
        yield fail(f"{_name(task)}: {site} was not told how it ended")


def results_are_one(history: History, rules: Rules) -> Iterator[Finding]:
    """All members that installed a task's result hold the same bytes."""
    results = [task for task in history.tasks if task.finished]
    for task in results:
        digests = {event.digest for event in task.finished}
        if len(digests) > 1:
            yield fail(f"{_name(task)}: members hold {len(digests)} different results")
    yield note(f"{len(results)} results, byte-identical at all members")


def results_are_sums(history: History, rules: Rules) -> Iterator[Finding]:
    """Every installed result is the weighted sum of exactly the contributors' inputs."""
    results = [task for task in history.tasks if task.finished]
    for task in results:
        if Counter(event.site for event in task.inputs) != Counter(list(task.started.weights)):
            yield fail(f"{_name(task)}: the sum cannot be recomputed from its contributions")
            continue
        yield from _check_sum(task)
        if rules.expected_digest is not None:
            expected = rules.expected_digest(task)
            if expected and any(event.digest != expected for event in task.finished):
                yield fail(f"{_name(task)}: the result is not the exact sum, {expected}")
    how = "by fingerprint" if rules.expected_digest is None else "to the byte"
    yield note(f"{len(results)} results recomputed {how}")


def giving_up_changes_nothing(history: History, rules: Rules) -> Iterator[Finding]:
    """A member that gave a task up still has the model that it contributed."""
    dropped = 0
    for task in history.tasks:
        given = {event.site: event.digest for event in task.contributed}
        for event in task.dropped:
            dropped += 1
            if event.digest != given.get(event.site):
                yield fail(f"{_name(task)}: the model of {event.site} changed")
    yield note(f"{dropped} times a member gave up")


def contributions_count_once(history: History, rules: Rules) -> Iterator[Finding]:
    """Each contributor is in its task once with its weight, and no iteration is in two results.

    One exception: a site that gave up a task that others finished may contribute again.
    """
    computed = {(event.site, event.iteration) for event in history.all(ComputeFinished)}
    uses: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for task in history.tasks:
        if not task.finished:
            continue
        weights = task.started.weights
        gave_up = {event.site for event in task.dropped}
        sites = Counter(event.site for event in task.inputs)
        yield from _check_once_each(task, "contributed", sites, Counter(list(weights)))
        for event in task.inputs:
            if event.site not in gave_up:
                uses[event.site, event.iteration].append(task.number)
            asked = weights.get(event.site, event.weight)
            if event.weight != asked:
                text = f"{event.site} has weight {event.weight}, not {asked}"
                yield fail(f"{_name(task)}: {text}")
            if (event.site, event.iteration) not in computed:
                what = f"{event.site} contributed iteration {event.iteration}"
                yield fail(f"{what}, which it did not compute")
    for (site, iteration), tasks in uses.items():
        if len(tasks) > 1:
            where = ", ".join(map(str, tasks))
            yield fail(f"iteration {iteration} of {site} is in tasks {where}")
    yield note(f"{sum(map(len, uses.values()))} contributions in results")


def nobody_waits(history: History, rules: Rules) -> Iterator[Finding]:
    """Each ready worker joins a task or goes on; each contributor is told how its task ended."""
    waiting: dict[str, Ready | Contributed] = {}
    for event in history.events:
        match event:
            case Ready() | Contributed():
                before = waiting.get(event.site)
                joined = isinstance(before, Ready) and isinstance(event, Contributed)
                if before is not None and not joined:
                    yield fail(f"{_describe_wait(before)} and got no answer before it asked again")
                waiting[event.site] = event
            case TaskFinished() | TaskDropped() | RoundFinished() | WorkerFinished() | RoundAlone():
                waiting.pop(event.site, None)
            case AgentChanged(who=who, do="kill"):
                waiting.pop(who, None)
    for left in waiting.values():
        yield fail(f"{_describe_wait(left)} and waited to the end of the log")
    yield note(f"{len(history.all(Ready))} times ready, each answered")


def budgets_kept(history: History, rules: Rules) -> Iterator[Finding]:
    """No task took longer than its budget.

    A task that one member has finished may take a second budget to reach the others. Time in which
    any agent was stopped or dead does not count, nor does the time until a loss is noticed.
    """
    outcomes = TaskOutcomes(history, rules.detection_s)
    for task in history.tasks:
        ends = [event.t_ns for event in (*task.finished, *task.dropped)]
        end_ns = max([*ends, *(event.t_ns for event in task.abandoned)], default=None)
        if end_ns is None and not outcomes.is_excused(task):
            end_ns = history.end_ns
        start_ns = task.started.t_ns
        took_s = ((end_ns or start_ns) - start_ns) / 1e9
        allowed_s = rules.task_s * (1 + BUDGET_GRACE) + BUDGET_GRACE_S
        if took_s > allowed_s:
            took_s -= outcomes.paused_s(start_ns, end_ns or start_ns)
            allowed_s += rules.detection_s * outcomes.is_excused(task)
            allowed_s += rules.task_s * bool(task.halted and task.finished)
        if took_s > allowed_s:
            yield fail(f"{_name(task)} took {took_s:.3f} s of {rules.task_s:g} s")
    yield note(f"{len(history.tasks)} tasks, each within {rules.task_s:g} s")


def accuracy_reached(history: History, rules: Rules) -> Iterator[Finding]:
    """An evaluation reached the accuracy at which the scenario stops."""
    target = rules.accuracy_percent
    best = max((event.accuracy_percent for event in history.all(Evaluated)), default=None)
    if target is None:
        yield note("no target")
    elif best is None:
        yield fail(f"target {target:g} %, but nothing was evaluated")
    else:
        report = fail if best < target else note
        yield report(f"target {target:g} %, best {best:.2f} %")


CHECKS: Mapping[str, Checker] = {
    "the log is complete": log_is_whole,
    "every agent exited cleanly": agents_exited,
    "every task ended once": tasks_ended,
    "all members agreed on the outcome": members_decide_alike,
    "all members hold the same result": results_are_one,
    "every result is the weighted sum": results_are_sums,
    "abandoned tasks changed no model": giving_up_changes_nothing,
    "every contribution counts once": contributions_count_once,
    "no worker waited forever": nobody_waits,
    "every task stayed within its budget": budgets_kept,
    "every byte arrived": network_checks.bytes_arrived,
    "links kept their rates": network_checks.rates_kept,
    "links kept their delays": network_checks.delays_kept,
    "interfaces saw the bytes": network_checks.interfaces_agree,
    "the host kept up": network_checks.host_kept_up,
    "the accuracy was reached": accuracy_reached,
}
"""The checks of a run of agents. A name says what is true if the check passes."""


PROGRAM_CHECKS: Mapping[str, Checker] = {
    "the log is complete": log_is_whole,
    "every program exited cleanly": programs_exited,
    "every reported task ended": syncs_ended,
    "links kept their rates": network_checks.interfaces_agree,
    "the host kept up": network_checks.host_kept_up,
}
"""The checks of a run of programs: only what they report is known."""


def _check_sum(task: Task) -> Iterator[Finding]:
    """Compare fingerprints. They are linear: a sum's fingerprint is the sum of fingerprints."""
    started = task.started
    terms = [
        [started.scale * started.weights[event.site] * value for value in event.fingerprint]
        for event in task.inputs
    ]
    expected = [math.fsum(bucket) for bucket in zip(*terms, strict=False)]
    sizes = [math.fsum(map(abs, bucket)) for bucket in zip(*terms, strict=False)]
    if not all(map(math.isfinite, sizes)):
        yield doubt(f"{_name(task)}: the contributions are not finite numbers")
        return
    allowed = SUM_TOLERANCE * (len(terms) + 1) * max(sizes, default=0.0)
    for event in task.finished:
        if len(event.fingerprint) != len(expected):
            yield fail(f"{_name(task)}: fingerprints differ in length")
            continue
        errors = [abs(got - right) for got, right in zip(event.fingerprint, expected, strict=True)]
        if not all(error <= allowed for error in errors):
            yield fail(
                f"{_name(task)}: the fingerprint at {event.site} is off by {max(errors):.3g},"
                f" rounding explains {allowed:.3g}"
            )


def _check_once_each(
    task: Task, what: str, sites: Counter[str], wanted: Counter[str]
) -> Iterator[Finding]:
    for site in sorted((sites | wanted).keys()):
        if sites[site] != wanted[site]:
            yield fail(f"{_name(task)}: {site} {what} {sites[site]} times, not {wanted[site]}")


def _join_sites(events: Iterable[Event]) -> str:
    return ", ".join(sorted({event.site for event in events}))


def _describe_wait(event: Ready | Contributed) -> str:
    what = "ready with" if isinstance(event, Ready) else f"in task {event.task} with"
    return f"{event.site} was {what} iteration {event.iteration} at {_format_time(event.t_ns)}"


def _name(task: Task) -> str:
    return f"task {task.number}"


def _format_time(t_ns: int) -> str:
    return f"{t_ns / 1e9:.3f} s"
