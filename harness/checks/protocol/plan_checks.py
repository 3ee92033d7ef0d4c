"""Checks of the plans in a log (pure).

A plan follows from the group, the usable links, the known rates, the seed and the task's number.
What a controller knows of links and rates is in its log, so its planner is replayed.

Other checks, tables and figures rely on these plans. So they use only the part of a log in which
all plans are valid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

from trunkline.agents.control.plan_replay import PlanReplay
from trunkline.agents.events.event import Event
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.task_events import (
    GroupPostponed,
    TaskRearranged,
    TaskReplanned,
    TaskStarted,
)
from trunkline.agents.planning.plan import Block, Chunks, Directed, Plan, PlanError, check
from trunkline.agents.planning.repair import replace_blocks
from trunkline.agents.planning.two_sided import share_model
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged
from trunkline.harness.record.history import History, Task

_Planning = TaskStarted | TaskReplanned | TaskRearranged | GroupPostponed
_PLANNING = get_args(_Planning)

_NO_PLAN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What values that are not plans raise."""


def plans_are_valid(history: History, rules: Rules) -> Iterator[Finding]:
    """Each plan moves every chunk of its task's contributors to its receivers once."""
    checked = _Checked(rules)
    for task in history.tasks:
        for event, reason in checked.find_problems(task):
            when = format_time(event.t_ns)
            yield fail(f"{task}: its plan at {when} is not valid: {reason}")
        yield judged(1 + len(task.all(TaskRearranged)) + len(task.all(TaskReplanned)))


def plans_are_the_scenarios(history: History, rules: Rules) -> Iterator[Finding]:
    """Each plan is the one that the scenario gives, by what its controller knew of the overlay.

    Blocks move to the sites that CREW's equation (3) gives, and a group waits only if the usable
    links do not connect it.
    """
    for task in history.tasks:
        if len(set(task.started.group)) != len(task.started.group):
            yield fail(f"{task}: its group has a member twice")
    if rules.planner is None:
        return
    tasks = {task.number: task.started for task in history.tasks}
    for term in Losses.of(history, rules).terms:
        replay = PlanReplay(rules.planner())
        for event in history.events:
            if not term.has(event):
                continue
            replay.take(event)
            if isinstance(event, _PLANNING):
                yield judged()
                if problem := _compare(replay, event, tasks):
                    yield fail(f"{_name(event)}: {problem}")
            replay.note(event)


def cut_at_wrong_plan(history: History, rules: Rules) -> History:
    """The part of a history before its first plan that is not valid; all of it if there is none."""
    checked = _Checked(rules)
    wrong = {id(event) for task in history.tasks for event, _ in checked.find_problems(task)}
    if not wrong:
        return history
    first = next(n for n, event in enumerate(history.events) if id(event) in wrong)
    return History.of(history.events[:first])


class _Checked:
    """Checks the plans of tasks; remembers its findings, because most tasks share few plans."""

    def __init__(self, rules: Rules) -> None:
        self._links = rules.topology.overlay.rates_mbps().keys()
        self._servers = rules.servers
        self._known: dict[str, str | None] = {}

    def find_problems(self, task: Task) -> Iterator[tuple[Event, str]]:
        """The first event of a task whose plan is not valid, and why; nothing if all are."""
        started = task.started
        sides = sorted(started.weights), sorted(started.receivers), started.group
        sizes = started.bytes, started.chunk_bytes, started.tensor_bytes
        key = json.dumps([started.forest, sides, sizes])
        if key not in self._known:
            self._known[key] = _explain(partial(self._check_start, task))
        if (reason := self._known[key]) is not None:
            yield started, reason
            return
        progress = _Progress(_parse(started.forest), self._links)
        for event in task.changes:
            if (reason := _explain(partial(progress.change, event))) is not None:
                yield event, reason
                return

    def _check_start(self, task: Task) -> None:
        started, plan = task.started, _parse(task.started.forest)
        cut = task.cut
        _expect("contributors", sorted(plan.contributors), sorted(started.weights))
        _expect("receivers", sorted(plan.receivers), sorted(started.receivers))
        _expect("chunk_count", plan.chunk_count, cut.count)
        held: Mapping[str, Chunks] = share_model(self._servers, cut)
        members = {site: chunks for site, chunks in held.items() if site in started.group}
        _expect("shards", dict(plan.shards), members)
        check(plan, self._links)


@dataclass(slots=True)
class _Progress:
    """The plan of a task as it changes, and its blocks by number."""

    plan: Plan
    links: Collection[Directed]
    blocks: dict[int, Block] = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = dict(enumerate(self.plan.blocks))

    def change(self, event: TaskRearranged | TaskReplanned) -> None:
        """Take over the blocks of an event. Raises PlanError if no valid plan comes of it."""
        added = _parse(event.forest)
        _expect("chunk_count", added.chunk_count, self.plan.chunk_count)
        withdrawn: Collection[int] = self.blocks
        if isinstance(event, TaskRearranged):
            rest, before = (replace(each, blocks=()) for each in (added, self.plan))
            _expect("all but the blocks", rest, before)
            withdrawn = event.withdrawn
        blocks = replace_blocks(self.blocks, withdrawn, added.blocks, event.first)
        check(replace(added, blocks=tuple(blocks.values())), self.links)
        self.plan, self.blocks = added, blocks


def _parse(forest: Mapping[str, Any]) -> Plan:
    plan = Plan.from_json(forest)
    _expect("the plan", forest, plan.to_json())
    return plan


def _expect(what: str, given: object, right: object) -> None:
    if given != right:
        raise PlanError(f"{what} = {given!r:.60}: expected {right!r:.60}")


def _explain(checked: Callable[[], None]) -> str | None:
    """Why a plan is not valid; None if it is."""
    try:
        checked()
    except PlanError as error:
        return str(error)
    except _NO_PLAN as error:
        return f"it is not a plan ({type(error).__name__}: {error})"
    return None


def _compare(replay: PlanReplay, event: _Planning, tasks: Mapping[int, TaskStarted]) -> str | None:
    """What is wrong with a plan; None if it is the one that the scenario gives."""
    match event:
        case GroupPostponed():
            return replay.explain_postponed(event)
        case TaskRearranged():
            return replay.explain_blocks(event)
    return replay.explain(event, tasks[event.task])


def _name(event: _Planning) -> str:
    match event:
        case TaskStarted(task=task):
            return f"task {task}"
        case GroupPostponed(group=group):
            what = f"the group {', '.join(group)}"
        case _:
            what = f"task {event.task}: its {event_name(type(event))}"
    return f"{what} at {format_time(event.t_ns)}"
