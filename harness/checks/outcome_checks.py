"""The checks of how tasks ended, computed from the event log alone (pure).

Each check reads the whole history and relies on no other check, so two checks may report the same
problem. docs/failover.md says what is promised when agents or links are lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from trunkline.agents.events.connection_events import ControllerFound
from trunkline.agents.events.policy_events import PolicyBegan
from trunkline.agents.events.task_events import (
    Contributed,
    ContributionTaken,
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskReplanned,
)
from trunkline.harness.checks.losses import Losses, Span, Term
from trunkline.harness.checks.model_checks import models_before
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Finding, doubt, excused, fail, judged, note, unfinished
from trunkline.harness.record.history import History, Task


def tasks_ended(history: History, rules: Rules) -> Iterator[Finding]:
    """Each task was completed or abandoned once, by the controller that started it.

    If that controller was lost before, another one may have ended the task, or none may be left
    that knows of it. A controller abandons no task whose result a member has that it can reach.
    """
    losses = Losses.of(history, rules)
    for task in history.tasks:
        ends: list[TaskCompleted | TaskAbandoned] = [
            *task.all(TaskCompleted),
            *task.all(TaskAbandoned),
        ]
        ends.sort(key=lambda event: event.t_ns)
        terms = [losses.term_of(event) for event in ends]
        began_in = losses.term_of(task.started)
        for event in ends:
            if isinstance(event, TaskAbandoned):
                yield from _check_abandoned(task, event, losses)
        for term in {term for term in terms if term is not None and terms.count(term) > 1}:
            times = terms.count(term)
            yield fail(f"{task} was ended {times} times by the {term.controller}")
        if None in terms:
            yield fail(f"{task} was ended by a controller that was not in charge")
        for event in ends:
            yield from _check_ending(task, event, losses)
        yield from _check_holders(task)
        if terms == [began_in] and began_in is not None:
            yield judged()
        elif began_in is None or began_in.whole or _heard_of_all(task, began_in, losses):
            if began_in not in terms:
                how = "ended by another controller" if ends else "neither completed nor abandoned"
                text = f"{task} was {how}"
                yield fail(text) if ends else unfinished(history, text)
            yield judged()
        elif not ends and (heir := _find_heir(task, began_in, losses, rules)) is not None:
            what = f"the {heir.controller} heard of it, and did not end it"
            yield unfinished(history, f"{task} was neither completed nor abandoned: {what}")
            yield judged()
        else:
            yield _excuse_ending(task, began_in, len(ends))
    counts = Counter(task.outcome for task in history.tasks)
    if not counts["completed"]:
        yield doubt("no task was completed, so the run shows nothing about its scheme")
    yield note(f"{counts['completed']} completed, {counts['abandoned']} abandoned")


def members_decide_alike(history: History, rules: Rules) -> Iterator[Finding]:
    """All receivers of a task install its result, or all give it up.

    The other members learn the same: their contribution was taken, or the task was dropped. A
    member may differ in three cases: it was killed or had no controller; every member that had the
    result was out of the controller's reach; or the budget was spent.
    """
    losses = Losses.of(history, rules)
    split = 0
    for task in history.tasks:
        split += bool(task.all(TaskFinished) and task.all(TaskDropped))
        members = set(task.started.group)
        ends = (*task.all(TaskFinished), *task.all(TaskDropped), *task.all(ContributionTaken))
        for event in (*ends, *task.all(Contributed)):
            if event.site not in members:
                yield fail(f"{task}: {event.site} took part but is not a member")
        for site in task.started.group:
            yield from _judge_member(task, site, rules, losses)
    yield note(f"{len(history.tasks)} tasks, {split} split where an agent was lost or late")


def giving_up_changes_nothing(history: History, rules: Rules) -> Iterator[Finding]:
    """A member that gave a task up still has the model that it contributed.

    In a task with roles, it has the model that it had before, if that is known: a passive member
    may be in several tasks, and not every member contributes its model.
    """
    known = models_before(history, rules) if history.has_roles else {}
    for task in history.tasks:
        given = {event.site: event.digest for event in task.all(Contributed)}
        if task.started.roles is not None:
            given = {
                event.site: known[id(event)]
                for event in task.all(TaskDropped)
                if id(event) in known
            }
        for event in task.all(TaskDropped):
            if task.started.roles is not None and event.site not in given:
                continue
            yield judged()
            if event.digest != given.get(event.site):
                yield fail(f"{task}: the model of {event.site} changed")


def _check_abandoned(task: Task, event: TaskAbandoned, losses: Losses) -> Iterator[Finding]:
    """No controller abandons a task whose result a member has, unless it is out of reach."""
    for done in task.all(TaskFinished):
        lost = losses.find(
            losses.out_of_reach(event.site, done.site), task.started.t_ns, event.t_ns
        )
        took_over = losses.term_of(task.started) != losses.term_of(event)
        if done.t_ns < event.t_ns and lost is None and not took_over:
            yield fail(f"{task} was abandoned, but {done.site} has the result")


def _heard_of_all(task: Task, term: Term, losses: Losses) -> bool:
    """Whether all receivers had finished early enough that their reports arrived in this term.

    A report is under way for up to a timeout, and a silent connection counts as lost after another.
    """
    late_ns = 2 * losses.timeout_ns
    reported = {
        event.site
        for event in task.all(TaskFinished)
        if event.t_ns + late_ns <= term.end_ns
        and not losses.find(
            losses.out_of_reach(term.controller, event.site), event.t_ns, event.t_ns + late_ns
        )
    }
    return reported >= set(task.started.receivers)


def _find_heir(task: Task, began_in: Term, losses: Losses, rules: Rules) -> Term | None:
    """A later term whose controller heard of the task by a member that has the result.

    A member tells each controller that it follows of tasks whose end it does not know. A controller
    takes them over if it hears of them before it decides anything, and ends them within their
    budgets.
    """
    found = losses.history.all(ControllerFound)
    late_ns = losses.timeout_ns
    least_ns = losses.detection_ns + round(2 * rules.task_s * 1e9) + late_ns
    for term in losses.terms:
        lasts = term.whole or term.end_ns - term.start_ns > least_ns
        if term.start_ns <= began_in.start_ns or not lasts:
            continue
        began = (each.t_ns for each in losses.history.all(PolicyBegan) if term.has(each))
        until_ns = min([term.start_ns + losses.detection_ns - late_ns, *began])
        for done, event in product(task.all(TaskFinished), found):
            in_time = max(done.t_ns, term.start_ns) <= event.t_ns <= until_ns
            if done.site != event.site or event.controller != term.controller or not in_time:
                continue
            # A controller that it found before has told it that the task is over.
            told = any(e.site == done.site and done.t_ns <= e.t_ns < event.t_ns for e in found)
            forgot = told or losses.find(losses.dead(done.site), done.t_ns, event.t_ns + late_ns)
            lost = losses.out_of_reach(term.controller, done.site)
            if not forgot and not losses.find(lost, event.t_ns + 1, event.t_ns + late_ns):
                return term
    return None


def _check_ending(
    task: Task, event: TaskCompleted | TaskAbandoned, losses: Losses
) -> Iterator[Finding]:
    """A completed task has a finisher, and leaves none out; an heir ends tasks of its followers."""
    term = losses.term_of(event)
    if term is None or term != losses.term_of(task.started):
        since_ns = max(task.started.t_ns, term.start_ns if term else 0)
        followed = {
            each.site
            for each in losses.history.all(ControllerFound)
            if each.controller == event.site and since_ns <= each.t_ns <= event.t_ns
        }
        if not followed & set(task.started.group):
            yield fail(f"{task} was ended by the {event.site}, which no member followed")
    if isinstance(event, TaskCompleted):
        if all(
            done.t_ns > event.t_ns or done.site in event.without for done in task.all(TaskFinished)
        ):
            yield fail(f"{task} was completed, and no member that counts had the result")
        for done in task.all(TaskFinished):
            early = done.t_ns + losses.timeout_ns < event.t_ns
            spans = losses.out_of_reach(event.site, done.site)
            if (
                early
                and done.site in event.without
                and not losses.find(spans, task.started.t_ns, event.t_ns)
            ):
                yield fail(f"{task} was completed without {done.site}, which has the result")
        for gone in task.all(TaskDropped):
            if _heard_otherwise(task, event, gone, losses):
                yield fail(f"{task} was completed, but {gone.site} gave it up when it heard that")


def _heard_otherwise(task: Task, event: TaskCompleted, gone: TaskDropped, losses: Losses) -> bool:
    """Whether a member that followed the controller of a completed task gave it up afterwards.

    It is told that the task is completed, unless another controller has abandoned it.
    """
    term = losses.term_of(event)
    if term is None or gone.site in event.without or gone.t_ns < event.t_ns:
        return False
    is_told = losses.leader_of(gone.site, gone.t_ns) == term.controller
    since_ns = task.started.t_ns
    return (
        is_told
        and not any(each.t_ns <= gone.t_ns for each in task.all(TaskAbandoned))
        and losses.are_connected(term, gone.site, since_ns, gone.t_ns)
    )


def _check_holders(task: Task) -> Iterator[Finding]:
    """A task is planned anew around a member's result only if that member has it."""
    finished = {done.site for done in task.all(TaskFinished)}
    for event in task.all(TaskReplanned):
        if event.holder and event.holder not in finished:
            yield fail(f"{task}: {event.holder} gives a result that it does not have")


def _excuse_ending(task: Task, term: Term, times: int) -> Finding:
    how = "ended by no controller" if not times else f"ended {times} times"
    end_s = term.end_ns / 1e9
    text = f"{task}: {how}; the {term.controller} was in charge until {end_s:.3f} s"
    return excused("the controller that started the task was lost", text)


def _judge_member(task: Task, site: str, rules: Rules, losses: Losses) -> Iterator[Finding]:
    """Judge what one member did, or excuse it if it differs from the others for a reason."""
    taken = [event for event in task.all(Contributed) if event.site == site]
    ends: list[TaskFinished | TaskDropped | ContributionTaken] = [
        *(event for event in task.all(TaskFinished) if event.site == site),
        *(event for event in task.all(ContributionTaken) if event.site == site),
        *(event for event in task.all(TaskDropped) if event.site == site),
    ]
    who = f"{task}: {site}"
    since_ns = taken[0].t_ns if taken else task.started.t_ns
    if len(taken) > 1:
        yield fail(f"{who} contributed {len(taken)} times")
    if len(ends) > 1:
        yield fail(f"{who} ended it {len(ends)} times")
        yield judged()
    elif not taken and ends:
        yield fail(f"{who} ended it but did not take part")
        yield judged()
    elif not taken:
        yield from _judge_absence(task, site, losses)
    elif not ends:
        plain = task.started.roles is None
        until_ns = losses.history.end_ns if plain else losses.told_ns(task, site)
        dead = losses.find(losses.dead(site), since_ns, until_ns)
        if dead is None:
            yield fail(f"{who} was not told how it ended")
            yield judged()
        else:
            yield excused("the member was killed", f"{who}: {losses.explain(dead)}")
    elif isinstance(ends[0], ContributionTaken):
        yield judged()
        if not task.all(TaskFinished):
            yield fail(f"{who} counts its contribution as taken, but no member has the result")
        if site in task.started.receivers:
            yield fail(f"{who} is a receiver, and has no result")
    elif isinstance(ends[0], TaskFinished) or not task.all(TaskFinished):
        yield judged()
    else:
        yield from _judge_split(task, site, ends[0], rules, losses, since_ns)


def _judge_absence(task: Task, site: str, losses: Losses) -> Iterator[Finding]:
    """A member that does not contribute was not reached, or the task ended before it was ready."""
    who = f"{task}: {site}"
    if not task.all(TaskFinished):
        yield judged()
        return
    end_ns = task.started.t_ns + losses.detection_ns
    spans = losses.out_of_reach(task.started.site, site)
    lost = losses.find(spans, task.started.t_ns, end_ns)
    if lost is None:
        yield fail(f"{who} did not take part, but others have the result")
        yield judged()
    else:
        yield excused("the member was not reached", f"{who}: {losses.explain(lost)}")


def _judge_split(
    task: Task, site: str, end: TaskDropped, rules: Rules, losses: Losses, since_ns: int
) -> Iterator[Finding]:
    """A member gave up a result that others have: that needs a cause."""
    who = f"{task}: {site}"
    if span := losses.find(losses.without_controller(site), since_ns, end.t_ns):
        text = f"{who} gave up; {losses.explain(span)}"
        yield excused("the member had no controller", text)
        return
    lost: list[Span] = []
    for done in task.all(TaskFinished):
        deciders = {event.site for event in task.all(TaskAbandoned, TaskCompleted)}
        spans = [span for name in deciders for span in losses.out_of_reach(name, done.site)]
        if found := losses.find(spans, task.started.t_ns, end.t_ns):
            lost.append(found)
    if site in task.shards and (part := losses.of_part(task, site)):
        text = f"{who} gave up; {losses.explain(part)}"
        yield excused("a loss kept a server from its part of the result", text)
    elif len(lost) == len(task.all(TaskFinished)):
        text = f"{who} gave up; {'; '.join(map(losses.explain, lost))}"
        yield excused("every member with the result was out of reach", text)
    elif (end.t_ns - task.started.t_ns) / 1e9 > rules.task_s:
        text = f"{who} gave up after {(end.t_ns - task.started.t_ns) / 1e9:.3f} s"
        yield excused("the budget was spent before the result arrived", text)
    else:
        done_by = ", ".join(sorted(event.site for event in task.all(TaskFinished)))
        yield fail(f"{who} gave up what {done_by} finished, and was not lost")
        yield judged()


def find_task_loss(task: Task, losses: Losses, start_ns: int, end_ns: int) -> Span | None:
    """The first time in which a member had no controller, or the controller's term ended."""
    until_ns = end_ns + losses.detection_ns
    for site in task.started.group:
        if span := losses.find(losses.without_controller(site), start_ns, until_ns):
            return span
    term = losses.term_of(task.started)
    if term is not None and not term.whole and term.end_ns <= until_ns:
        return Span(term.end_ns, term.end_ns, f"the {term.controller} was lost")
    return None
