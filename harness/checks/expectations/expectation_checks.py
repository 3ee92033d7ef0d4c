"""What the user expects of a run: `expect:` in its scenario, a check for each entry (pure)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise

from trunkline.agents.events.evaluation_events import ModelEvaluated
from trunkline.agents.events.round_events import RoundFinished
from trunkline.agents.events.run_events import (
    AgentExited,
    ExpectedOutput,
    LinksCounted,
    OutputOutOfBounds,
    RunFinished,
)
from trunkline.agents.events.task_events import Evaluated, TaskCompleted
from trunkline.harness.checks.expectations.user_check import UserCheck
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import (
    EXPECTED,
    Checker,
    Finding,
    doubt,
    excused,
    fail,
    format_time,
    judged,
    note,
    unfinished,
)
from trunkline.harness.config.document import shorten
from trunkline.harness.record.history import History
from trunkline.harness.scenario.sections.capture_section import find_links
from trunkline.harness.scenario.sections.expectations import Expectation
from trunkline.workloads.program_roles import is_of

SHOWN_LETTERS = 120
"""Longer lines of output are cut where they are shown."""

Judge = Callable[[History, Rules, int, Expectation], Iterable[Finding]]


def list_checks(
    rules: Rules, carried_out: Mapping[int, UserCheck]
) -> Iterator[tuple[str, str, Checker]]:
    """The name of each expectation's check, what it counts, and its function.

    `carried_out` are the user's own checks, by their place in `expect:`.
    """
    for entry, expected in enumerate(rules.scenario.expect):
        name = f"{EXPECTED}{expected}"
        if expected.kind == "check":
            yield name, "programs", partial(_judge_check, carried_out.get(entry))
        else:
            objects, judge = JUDGES[expected.kind]
            yield name, objects, partial(_judge, judge, entry, expected)


def _judge(
    judge: Judge, entry: int, expected: Expectation, history: History, rules: Rules
) -> Iterable[Finding]:
    return judge(history, rules, entry, expected)


def _judge_tasks(
    history: History, rules: Rules, _: int, expected: Expectation
) -> Iterator[Finding]:
    ends_ns = [task.all(TaskCompleted)[0].t_ns for task in history.completed]
    ends_ns += [
        max(sync.ended_ns.values())
        for sync in history.syncs
        if sync.ended_ns and sync.ended_ns.keys() == sync.begun_ns.keys()
    ]
    done = sum(t_ns <= _until_ns(expected) for t_ns in ends_ns)
    yield judged(max(done, 1))
    yield note(f"{done} completed")
    if done < (expected.tasks or 0):
        yield _missed(history, expected, f"{done} were completed")


def _judge_rounds(
    history: History, rules: Rules, _: int, expected: Expectation
) -> Iterator[Finding]:
    until_ns = _until_ns(expected)
    rounds = Counter(each.site for each in history.all(RoundFinished) if each.t_ns <= until_ns)
    is_silent = rules.programs is not None and not history.all(RoundFinished)
    hint = ": programs have to report rounds (docs/programs.md, Reports)" if is_silent else ""
    for site in expected.sites or rules.scenario.workers:
        yield judged()
        if rounds[site] < (expected.rounds or 0):
            yield _missed(history, expected, f"{site} finished {rounds[site]}{hint}")


def _judge_accuracy(
    history: History, rules: Rules, _: int, expected: Expectation
) -> Iterator[Finding]:
    found = history.all(Evaluated, ModelEvaluated)
    in_time = [event for event in found if event.t_ns <= _until_ns(expected)]
    best = max((event.accuracy_percent for event in in_time), default=0.0)
    yield judged(max(len(in_time), 1))
    yield note(f"the best was {best:.2f} %")
    if best < (expected.accuracy_percent or 0):
        text = f"the best of {len(in_time)} evaluations was {best:.2f} %"
        yield _missed(history, expected, text if in_time else "nothing was evaluated")


def _judge_carried(
    history: History, rules: Rules, _: int, expected: Expectation
) -> Iterator[Finding]:
    """A link of the overlay on routers carried what each link of its way did."""
    carried: dict[tuple[str, str], int] = {}
    if expected.by_s is None:
        carried = {(c.src, c.dst): c.bytes for run in history.all(RunFinished) for c in run.links}
    for event in history.all(LinksCounted):
        if event.t_ns <= _until_ns(expected):
            for count in event.links:
                ends = count.src, count.dst
                carried[ends] = max(carried.get(ends, 0), count.bytes)
    for ends in find_links(expected.link or "", rules.topology):
        size = min(carried.get(hop, 0) for hop in pairwise(rules.topology.path(*ends)))
        yield judged()
        yield note(f"{' -> '.join(ends)} carried {size} bytes")
        if size < (expected.carried_bytes or 0):
            yield _missed(history, expected, f"{' -> '.join(ends)} carried {size} bytes")


def _judge_output(
    history: History, rules: Rules, entry: int, expected: Expectation
) -> Iterator[Finding]:
    """Lines are found while the run goes on; the log has the first one of each program."""
    found = [event for event in history.all(ExpectedOutput) if event.entry == entry]
    near = [event for event in history.all(OutputOutOfBounds) if event.entry == entry]
    for event in found:
        if not expected.find(event.line):
            yield fail(f"{event.who} wrote {_show(event.line)}, which is another line")
    for out in near:
        if not expected.distance(out.line):
            yield fail(f"{out.who} wrote {_show(out.line)}, which is not out of bounds")
    for site in expected.sites or (None,):
        yield judged()
        own = [each for each in found if site is None or is_of(each.who, site)]
        first = min(own, key=lambda each: each.t_ns, default=None)
        if first is None:
            there = [each for each in near if site is None or is_of(each.who, site)]
            yield _missed(history, expected, _describe_missing(expected, site, there))
        elif first.t_ns > _until_ns(expected):
            yield fail(f"{first.who} wrote it at {format_time(first.t_ns)}")
        else:
            yield note(f"{first.who} wrote {_show(first.line)} at {format_time(first.t_ns)}")


def _describe_missing(
    expected: Expectation, site: str | None, near: list[OutputOutOfBounds]
) -> str:
    """What the programs wrote instead of an expected line."""
    whose = "no program" if site is None else f"no program at {site}"
    best = min(near, key=lambda each: expected.distance(each.line) or 0.0, default=None)
    if best is None:
        return f"{whose} wrote such a line"
    lines = sum(each.lines for each in near)
    return (
        f"{whose} wrote such a number: {lines} {'line has' if lines == 1 else 'lines have'} the"
        f" pattern, the nearest is {_show(best.line)} of {best.who}"
    )


def _judge_never(
    history: History, rules: Rules, entry: int, expected: Expectation
) -> Iterator[Finding]:
    """Such lines are sought while the run goes on; the log has the first one of each program."""
    found = [event for event in history.all(ExpectedOutput) if event.entry == entry]
    for who in rules.programs or ():
        if not any(is_of(who, site) for site in expected.sites or (who,)):
            continue
        yield judged()
        for event in found:
            if event.who == who and expected.find(event.line) and event.t_ns <= _until_ns(expected):
                yield fail(f"{who} wrote {_show(event.line)} at {format_time(event.t_ns)}")


def _judge_exit(history: History, rules: Rules, _: int, expected: Expectation) -> Iterator[Finding]:
    """The last exit of each program counts, but for those that the run has told to end."""
    exits = {e.who: e for e in history.all(AgentExited) if e.t_ns <= _until_ns(expected)}
    for site in expected.sites or rules.programs or ():
        every = [event for who, event in exits.items() if is_of(who, site)]
        own = [event for event in every if not event.asked]
        if every and not own and expected.sites is None:
            yield excused("the run told the program to end", site)
            continue
        yield judged()
        if not own:
            yield _missed(history, expected, f"no program at {site} had exited by itself")
        for event in own:
            if (event.code, event.signal or 0) != (expected.exit, 0):
                how = f"by signal {event.signal}" if event.signal else f"with code {event.code}"
                yield fail(f"{event.who} exited {how}")


def _judge_check(found: UserCheck | None, *_: object) -> Iterator[Finding]:
    if found is None:
        yield doubt("it was not carried out: trunkline report RUN does so")
        return
    yield judged()
    said = f": {found.line}" if found.line else ""
    if found.code is None:
        yield doubt(f"it {found.problem}{said}")
    elif found.code:
        yield fail(f"it exited with code {found.code}{said}")
    else:
        yield note(found.line)


def _missed(history: History, expected: Expectation, text: str) -> Finding:
    """What had to be true was not: a failure, unless the run broke off before it was due."""
    return fail(text) if _until_ns(expected) <= history.end_ns else unfinished(history, text)


def _show(line: str) -> str:
    return repr(shorten(line, SHOWN_LETTERS))


def _until_ns(expected: Expectation) -> float:
    return math.inf if expected.by_s is None else expected.by_s * 1e9


JUDGES: Mapping[str, tuple[str, Judge]] = {
    "tasks": ("tasks", _judge_tasks),
    "rounds": ("sites", _judge_rounds),
    "accuracy_percent": ("evaluations", _judge_accuracy),
    "carried_bytes": ("links", _judge_carried),
    "output": ("lines", _judge_output),
    "never": ("programs", _judge_never),
    "exit": ("sites", _judge_exit),
}
"""What the check of each kind counts, and its function."""
