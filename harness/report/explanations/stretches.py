"""What the controller waited for before it started a task whose members were ready (pure).

A policy may let pushes to a server follow each other in turns. A wait for a turn is divided: the
pushes that ran meanwhile, and the time between them, by what the controller waited for before each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise, zip_longest

from trunkline.agents.events.task_events import (
    TaskDropped,
    TaskFinished,
    TaskHalted,
    TaskReplanned,
)
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.lives import Interval
from trunkline.harness.report.explanations.fault_search import NOTICED_TIMEOUTS, FaultSearch
from trunkline.harness.report.explanations.wait_reasons import TICKED
from trunkline.harness.report.explanations.waits import LATE, Stretch, Wait

LEAST_NS = 500_000
"""A shorter stretch is a part of the next one."""

TakenOf = Callable[[int], Mapping[int, float]]
"""How much of a task's time faults took, in seconds, by their numbers."""


@dataclass(frozen=True)
class Turns:
    """The pushes of a run that follow each other, and what the controller waited for before each.

    `waits` have the faults behind their reasons. `taken_of` tells what faults took of a task.
    """

    history: History
    faults: FaultSearch
    waits: Mapping[int, Wait]
    taken_of: TakenOf

    @cached_property
    def pushes(self) -> tuple[Task, ...]:
        """The tasks that only bring something to members which need not be ready: servers.

        Also the pulls of sites that have pushed nothing, such as one that was killed and comes
        back: they take a turn, too.
        """
        return tuple(task for task in self.history.tasks if self._is_turn(task))

    def _is_turn(self, task: Task) -> bool:
        """Whether a task is one of them."""
        return _is_push(task) or self._is_lone_pull(task)

    @cached_property
    def _in_order(self) -> Sequence[Task]:
        """These tasks in the order of their starts."""
        return sorted(self.pushes, key=lambda task: task.started.t_ns)

    def _is_lone_pull(self, task: Task) -> bool:
        """Whether members pull that have pushed nothing before."""
        wait = self.waits.get(task.number)
        return bool(task.started.passive) and wait is not None and wait.push is None

    @cached_property
    def _begun(self) -> Mapping[int, Task]:
        """The push that began at a time."""
        return {task.started.t_ns: task for task in self.pushes}

    @cached_property
    def _tasks(self) -> Mapping[int, Task]:
        return {task.number: task for task in self.history.tasks}

    def _find_awaited(self, wait: Wait) -> Task | None:
        """The task whose end the controller waited for last, if it did."""
        return None if wait.awaited is None else self._tasks.get(wait.awaited)

    @cached_property
    def _most(self) -> int:
        """How many of them ran at once, at most."""
        spans = [self._find_span(task) for task in self.pushes]
        turns = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
        return max(accumulate(change for _, change in turns), default=0)

    def divide(self, task: Task, wait: Wait) -> tuple[Stretch, ...]:
        """The stretches of the wait before a task; they add up to `decide_s`."""
        is_turn = bool(wait.reason) and wait.cause is None and self._is_turn(task)
        found = [*self._list_turns(task, wait)] if is_turn else []
        since_ns = wait.span[0] + round(sum(each.seconds for each in found) * 1e9)
        left = since_ns, wait.span[1]
        if is_turn and wait.reason == TICKED:
            # the time that the policy had set began with the turn before
            turn = self._find_turn_before(task)
            if turn is not None and turn.started.t_ns - left[0] >= LEAST_NS:
                before = left[0], turn.started.t_ns
                found += reversed([*self._list_until(turn, before)])
                left = before[1], left[1]
        awaited = self._find_awaited(wait)
        if left[1] > left[0] and wait.fault is None and awaited is not None:
            found += reversed([*self._list_before(awaited, left)])
        elif left[1] > left[0] and len(wait.postponed) > 1:
            found += self._list_postponed(wait, left)
        elif left[1] > left[0]:
            found.append(_describe_reason(wait, left))
        return tuple(found)

    def _list_postponed(self, wait: Wait, span: Interval) -> Iterator[Stretch]:
        """The parts of a wait for each time at which members were postponed.

        After `failover.timeout` the controller tried the group again; what came until then belongs
        to the next time.
        """
        timeout_ns = self.faults.detection_ns // NOTICED_TIMEOUTS
        since_ns = span[0]
        for each, after in zip_longest(wait.postponed, wait.postponed[1:]):
            until_ns = span[1] if after is None else min(each.t_ns + timeout_ns, after.t_ns)
            until_ns = min(max(until_ns, since_ns), span[1])
            if until_ns > since_ns:
                when = each.t_ns, each.t_ns
                fault = self.faults.find_behind(each.cause, each.cause.names, when)
                yield Stretch((until_ns - since_ns) / 1e9, each.reason, None, fault)
            since_ns = until_ns

    def _list_before(self, awaited: Task | None, span: Interval) -> Iterator[Stretch]:
        """The task that the controller waited for, and what came before; the last part first."""
        while awaited is not None and span[1] > span[0]:
            begin_ns = min(span[1], max(span[0], awaited.started.t_ns))
            if begin_ns < span[0] + LEAST_NS:
                begin_ns = span[0]
            if span[1] > begin_ns:
                yield self._describe_task(awaited, (begin_ns, span[1]))
            span = span[0], begin_ns
            awaited, span = yield from self._list_earlier(awaited, span)

    def _list_earlier(
        self, task: Task, span: Interval
    ) -> Generator[Stretch, None, tuple[Task | None, Interval]]:
        """What the controller waited for before a task could begin, the last part first.

        It waited for a time that began with the turn before, for something else, or until the last
        member was ready. Returns the task that it waited for before that, or in which this member
        was before it computed, if there is one, and the time that is left.
        """
        since_ns, end_ns = span
        while end_ns > since_ns:
            if (before := self.waits.get(task.number)) is None:
                yield _describe_late_member(task, None, (since_ns, end_ns))
                break
            awaited = self._find_awaited(before)
            if awaited is not None and awaited.started.t_ns < end_ns:
                return awaited, (since_ns, end_ns)
            begin_ns = before.span[0]
            turn = self._find_turn_before(task) if before.reason == TICKED else None
            if turn is not None:
                begin_ns = max(begin_ns, turn.started.t_ns)
            begin_ns = min(end_ns, max(since_ns, begin_ns))
            if before.reason and end_ns - begin_ns >= LEAST_NS:
                yield _describe_reason(before, (begin_ns, end_ns))
                end_ns = begin_ns
            if turn is not None and turn.started.t_ns > before.span[0]:
                task = turn
                continue
            earlier, left_ns = self.find_left(before)
            if earlier is not None and earlier.started.t_ns >= end_ns:
                earlier = None
            left_ns = since_ns if earlier is None else min(end_ns, max(since_ns, left_ns))
            if left_ns < since_ns + LEAST_NS:
                left_ns = since_ns
            if end_ns - left_ns >= LEAST_NS or left_ns == since_ns < end_ns:
                yield _describe_late_member(task, before, (left_ns, end_ns))
                end_ns = left_ns
            return earlier, (since_ns, end_ns)
        return None, span

    def _list_until(self, task: Task, span: Interval) -> Iterator[Stretch]:
        """What the controller waited for until a task began, the last part first."""
        awaited, left = yield from self._list_earlier(task, span)
        yield from self._list_before(awaited, left)

    def find_left(self, wait: Wait) -> tuple[Task | None, int]:
        """The task that the last member of a group was in before it was ready, and its end there.

        After a push, the member computed nothing: it was in the push until it began to wait.
        """
        if wait.push is not None:
            return self._tasks.get(wait.push), wait.span[0]
        left = self._left_by_site.get(wait.last, ())
        place = bisect_right(left, wait.span[0], key=lambda event: event.t_ns)
        if not place:
            return None, 0
        return self._tasks.get(left[place - 1].task), left[place - 1].t_ns

    @cached_property
    def _left_by_site(self) -> Mapping[str, Sequence[TaskFinished | TaskDropped]]:
        """When each site left its tasks."""
        found: dict[str, list[TaskFinished | TaskDropped]] = {}
        for event in self.history.all(TaskFinished, TaskDropped):
            found.setdefault(event.site, []).append(event)
        return found

    def _list_turns(self, task: Task, wait: Wait) -> Iterator[Stretch]:
        """The pushes that ran while it waited, and what came before each of them."""
        now_ns = wait.span[0]
        for other, (start_ns, end_ns) in self._list_others(task, wait.span):
            end_ns = min(end_ns, wait.span[1])
            if end_ns - now_ns < LEAST_NS:
                continue
            if start_ns - now_ns >= LEAST_NS:
                # a server that takes several pushes was full when the last of them began
                begun = self._begun.get(start_ns, other)
                yield from reversed([*self._list_until(begun, (now_ns, start_ns))])
                now_ns = start_ns
            yield self._describe_task(other, (now_ns, end_ns))
            now_ns = end_ns

    def _describe_task(self, other: Task, span: Interval) -> Stretch:
        """A stretch in which another task ran, with the fault that took a good part of it."""
        why = f"The controller waited until task {other.number} had ended"
        stretch = Stretch((span[1] - span[0]) / 1e9, why, other.number)
        if (lost := self._find_loss(other, span)) is not None:
            return replace(stretch, fault=lost)
        taken_s = self.taken_of(other.number)
        fault = max(taken_s, key=lambda number: taken_s[number], default=None)
        if fault is None or taken_s[fault] < LATE * (other.duration_s or stretch.seconds):
            return stretch
        return replace(stretch, fault=fault)

    def _find_loss(self, other: Task, span: Interval) -> int | None:
        """The fault by which a member counted as lost that had done its part in a task.

        Until then the controller did not know that. None if there was no such member.
        """
        halts = [e for e in other.all(TaskHalted) if span[0] < e.t_ns <= span[1]]
        done_ns = max((e.t_ns for e in other.all(TaskFinished)), default=None)
        if not halts or done_ns is None or other.all(TaskReplanned):
            return None
        fault = self.faults.find_behind(halts[-1].cause, (), (halts[-1].t_ns, halts[-1].t_ns))
        if fault is None or done_ns >= halts[-1].t_ns:
            return None
        since_ns = max(done_ns, self.faults.find_begin_ns(fault, span), span[0])
        is_much = span[1] - since_ns > LATE * (span[1] - span[0])
        return fault if is_much else None

    def _find_turn_before(self, task: Task) -> Task | None:
        """The latest push to the same servers that began before this one."""
        servers, turns = {*task.started.passive}, self._in_order
        place = bisect_left(turns, task.started.t_ns, key=lambda each: each.started.t_ns)
        before = (turns[n] for n in range(place - 1, -1, -1))
        return next((t for t in before if servers.intersection(t.started.passive)), None)

    @property
    def gaps(self) -> Sequence[tuple[int, int]]:
        """When turns began for which the policy had set a time, and how long after those before.

        In ns, and in order of time.
        """
        return [
            (after.started.t_ns, after.started.t_ns - before.started.t_ns)
            for before, after in pairwise(self._in_order)
            if (wait := self.waits.get(after.number)) is not None and wait.reason == TICKED
        ]

    def _list_others(self, task: Task, span: Interval) -> Sequence[tuple[Task, Interval]]:
        """The pushes to the same servers that ran in a span of time, while no more could run."""
        servers = {*task.started.passive}
        others = [
            (other, own)
            for other in self.pushes
            if other.number != task.number and servers.intersection(other.started.passive)
            if (own := self._find_span(other))[0] < span[1] and own[1] > span[0]
        ]
        if self._most < 2:
            return sorted(others, key=lambda each: each[1])
        edges = sorted({span[0], span[1], *(t for _, own in others for t in own)})
        full: list[tuple[Task, Interval]] = []
        for since_ns, until_ns in pairwise(edges):
            there = [each for each in others if each[1][0] <= since_ns and each[1][1] >= until_ns]
            if len(there) >= self._most:
                first = min(there, key=lambda each: each[1][1])[0]
                full.append((first, (since_ns, until_ns)))
        return full

    def _find_span(self, task: Task) -> Interval:
        end_ns = self.history.end_ns if task.end_ns is None else task.end_ns
        return task.started.t_ns, end_ns


def _describe_reason(wait: Wait, span: Interval) -> Stretch:
    """A stretch in which the controller waited for the reason of the wait before a task."""
    return Stretch((span[1] - span[0]) / 1e9, wait.reason, None, wait.fault)


def _describe_late_member(task: Task, wait: Wait | None, span: Interval) -> Stretch:
    """A stretch until the last member of a task was ready, and what had stopped it."""
    who = task.started.group[0] if wait is None else wait.last
    why = f"The controller waited until {who} was ready for task {task.number}"
    stretch = Stretch((span[1] - span[0]) / 1e9, why)
    if wait is None or wait.held is None:
        return stretch
    return replace(stretch, fault=wait.held.stop.fault)


def _is_push(task: Task) -> bool:
    """Whether members that need not be ready only take what others contribute."""
    passive = {*task.started.passive}
    return bool(passive) and not passive.intersection(task.plan.contributors)
