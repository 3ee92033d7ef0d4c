"""The checks of calls of `torch.distributed`, as the timing of a program logged them (pure)."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from trunkline.agents.events.call_events import CallFinished, CallStarted, TimingStopped
from trunkline.agents.events.run_events import AgentExited, RunFinished
from trunkline.harness.checks.control_paths import Paths
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS
from trunkline.harness.checks.verdict import (
    Finding,
    doubt,
    excused,
    fail,
    format_time,
    judged,
    note,
)
from trunkline.harness.record.calls import (
    PAIRS,
    Call,
    Group,
    list_calls,
    list_groups,
    list_needed,
    list_same,
    may_be_new,
)
from trunkline.harness.record.history import History
from trunkline.workloads.program_roles import site_of

STOPPED = "the timing of its process stopped"
ENDED = "its program ended first"
CUT = "the run ended first"
ANEW = "its group may have been made anew, and no call of another rank overlaps with it"

EQUAL = ("all_reduce", "barrier", "broadcast")
"""All members make these calls with the same number of bytes."""


def calls_follow_each_other(history: History, rules: Rules) -> Iterator[Finding]:
    """Calls are numbered, and end once, after they began; those of a waiting thread in turn."""
    stopped = {(each.site, each.process) for each in history.all(TimingStopped)}
    for each in history.all(TimingStopped):
        yield excused(STOPPED, f"{each.site}, process {each.process}: {each.reason}")
    yield from _judge_pairs(history)
    yield from _judge_syncs(history)
    if rules.times_calls and not history.all(CallStarted):
        carried = sum(link.bytes for run in history.all(RunFinished) for link in run.links)
        if history.syncs or carried:
            yield doubt("no call was timed")
    ended = {site_of(each.who) for each in history.all(AgentExited) if not each.asked}
    processes: defaultdict[tuple[str, int], list[Call]] = defaultdict(list)
    for call in list_calls(history):
        processes[call.started.site, call.started.process].append(call)
    for process, calls in processes.items():
        calls.sort(key=lambda call: call.started.call)
        where = f"process {process[1]} of {process[0]}"
        if [call.started.call for call in calls] != list(range(len(calls))):
            yield fail(f"the numbers of the calls of {where} have a gap")
        by_thread: defaultdict[int, list[Call]] = defaultdict(list)
        for call in calls:
            by_thread[call.started.thread].append(call)
            if call.finished is not None:
                yield judged()
            else:
                rule = STOPPED if process in stopped else ENDED if process[0] in ended else CUT
                yield excused(rule, _name(call))
        for of_thread in by_thread.values():
            yield from _judge_thread(of_thread)
    yield note(f"{sum(map(len, processes.values()))} calls")


def collectives_take_time(history: History, rules: Rules) -> Iterator[Finding]:
    """The members of a group make the same calls; none is done before the others' data can come.

    `calls.list_same` says which calls of the members are one.
    """
    paths = Paths(history, rules)
    groups = list_groups(history)
    yield from _judge_ranks(history, groups)
    for (name, _), members in groups.items():
        is_anew = may_be_new(name, members)
        for same in list_same(members, is_anew):
            yield from _judge_collective(same, members, history, paths, is_anew)


def _judge_pairs(history: History) -> Iterator[Finding]:
    """Every end belongs to one start, which was before it."""
    begun: set[tuple[str, int, int]] = set()
    over: set[tuple[str, int, int]] = set()
    for event in history.events:
        if not isinstance(event, CallStarted | CallFinished):
            continue
        key = event.site, event.process, event.call
        name = f"call {event.call} of process {event.process} of {event.site}"
        if isinstance(event, CallStarted):
            if key in begun:
                yield fail(f"{name} began twice")
            begun.add(key)
        else:
            if key in over:
                yield fail(f"{name} ended twice")
            if key not in begun:
                yield fail(f"{name} ended at {format_time(event.t_ns)}, but had not begun")
            over.add(key)


def _judge_syncs(history: History) -> Iterator[Finding]:
    """No synchronization of a site ends while a call that blocks, begun within it, still runs.

    Sites with several threads that make calls are not judged: they may do both at once.
    """
    threads: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for start in history.all(CallStarted):
        threads[start.site].add((start.process, start.thread))
    single = {site for site, found in threads.items() if len(found) == 1}
    single -= {each.site for each in history.all(TimingStopped)}
    syncs: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for sync in history.syncs:
        for site, ended_ns in sync.ended_ns.items():
            if site in single and site in sync.begun_ns:
                syncs[site].append((sync.begun_ns[site], ended_ns, sync.number))
    for spans in syncs.values():
        spans.sort()
    for call in list_calls(history):
        started, finished = call.started, call.finished
        spans = syncs[started.site]
        place = bisect.bisect_right(spans, started.t_ns, key=lambda span: span[0]) - 1
        if place < 0 or not started.blocks or started.name in PAIRS:
            continue
        _, ended_ns, number = spans[place]
        if started.t_ns < ended_ns and (finished is None or finished.t_ns > ended_ns):
            yield doubt(f"task {number} ended at {started.site} during {_name(call)}")


def _judge_ranks(
    history: History, groups: Mapping[Group, Mapping[int, list[Call]]]
) -> Iterator[Finding]:
    """The members of a group agree on its ranks, and each made calls.

    A program may leave its groups and make others of the same names, with other ranks. Then their
    members agree as well, and no process goes back to the ranks that it had before. It may do so in
    groups without names.
    """
    if history.all(TimingStopped):
        return
    seen = {(name, rank) for (name, _), members in groups.items() for rank in members}
    for (name, ranks), members in groups.items():
        what = f"group {name} of ranks {', '.join(map(str, ranks))}"
        for rank in sorted(members.keys() - {*ranks}):
            yield fail(f"{what}: rank {rank} calls it, but is not in it")
        done = [call for calls in members.values() for call in calls if _needs_all(call)]
        for rank in ranks if done else ():
            if rank not in members and (name, rank) in seen:
                yield fail(f"{what}: rank {rank} says that it has other ranks")
            elif rank not in members:
                yield doubt(f"{what}: no call of rank {rank} was timed")
    own: dict[tuple[str, int, str, tuple[int, ...]], int] = {}
    latest: dict[tuple[str, int, str], tuple[int, ...]] = {}
    left: set[tuple[tuple[str, int, str], tuple[int, ...]]] = set()
    for started in history.all(CallStarted):
        if started.name in PAIRS or not started.group:
            continue
        group = started.site, started.process, started.group
        rank = own.setdefault((*group, started.ranks), started.rank)
        if rank != started.rank:
            yield fail(
                f"{started.site} is rank {rank} of group {started.group}, not {started.rank}"
            )
        before = latest.setdefault(group, started.ranks)
        if before != started.ranks:
            left.add((group, before))
            latest[group] = started.ranks
            if (group, started.ranks) in left:
                yield doubt(f"group {started.group} has its former ranks again at {started.site}")


def _needs_all(call: Call) -> bool:
    return call.outcome == "completed" and len(list_needed(call, call.started.rank)) > 1


def _judge_thread(calls: list[Call]) -> Iterator[Finding]:
    """A thread that waits for a call begins no other one before its end."""
    for call, following in pairwise(calls):
        if following.started.t_ns < call.started.t_ns:
            yield fail(f"{_name(following)} began before the one before it")
        elif call.started.blocks and (
            call.finished is None or call.finished.t_ns > following.started.t_ns
        ):
            yield fail(f"{_name(following)} began before {_name(call)} had ended")


def _judge_collective(
    same: Mapping[int, Call],
    members: Mapping[int, list[Call]],
    history: History,
    paths: Paths,
    is_anew: bool,
) -> Iterator[Finding]:
    """One call of a group, by the ranks of the members that made it."""
    names = {call.started.name for call in same.values()}
    if len(names) > 1:
        each = ", ".join(_name(call) for call in same.values())
        yield fail(f"members of a group make different calls: {each}")
        return
    sizes = {call.started.bytes for call in same.values()}
    if len(sizes) > 1 and names <= {*EQUAL}:
        each = ", ".join(f"{_name(call)} of {call.started.bytes:,} bytes" for call in same.values())
        yield fail(f"members of a group make a call with different bytes: {each}")
    for rank, call in same.items():
        if call.outcome != "completed" or call.finished is None:
            continue
        needed = list_needed(call, rank)
        if missing := [each for each in needed if each in members and each not in same]:
            if is_anew:
                yield excused(ANEW, _name(call))
            elif not history.all(TimingStopped):
                ranks = ", ".join(map(str, missing))
                yield fail(f"{_name(call)} was done, but ranks {ranks} never began it")
            continue
        for other in (same[each] for each in needed if each in same):
            least_ns = other.started.t_ns + paths.payload_ns(other.started.site, call.started.site)
            early_ns = least_ns - CLOCK_NS - call.finished.t_ns
            if early_ns > 0:
                what = f"{_name(call)} was done {early_ns / 1e6:.3f} ms before data of"
                yield fail(f"{what} {other.started.site} could arrive")
        yield judged()


def _name(call: Call) -> str:
    started = call.started
    return f"{started.name} (call {started.call} of process {started.process} of {started.site})"
