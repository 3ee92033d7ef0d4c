"""Results exist no sooner than their bytes, link by link of the plan (pure).

A member has a result when all of its chunks have arrived and have been added. So every chunk of the
in-trees of its blocks arrived before, and every chunk on its way down the out-trees. Sites report
their traffic by link and phase, with the times of the first and the last chunk. If a member needs
all chunks of a report, its result came after the last one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from trunkline.agents.events.task_events import (
    Contributed,
    HaltHeard,
    Received,
    Routed,
    Sent,
    TaskFinished,
    TaskHalted,
    TaskJoined,
    TaskRearranged,
    TaskReplanned,
)
from trunkline.agents.planning.plan import Block, Edge, Plan
from trunkline.harness.checks.control_paths import Paths
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.payload.byte_checks import count_own, find_silent_sites
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS, Tolerances
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged
from trunkline.harness.record.history import History, Task

Key = tuple[str, str, str]
"""Chunks of one phase over one directed link, as one site reports them: source, destination,
phase. Chunks that a site only forwards count as `relay` from there on."""


def results_follow_bytes(history: History, rules: Rules) -> Iterator[Finding]:
    """No member has a result before its chunks arrived, at it and on their ways to it, nor later.

    A task that was halted is judged by its last plan, one whose blocks moved by those that did not,
    and both by how many bytes can have arrived. What one contributor hands out stays when it is
    planned anew, so its last plan does not say which chunks a member lacked.
    """
    losses, paths = Losses.of(history, rules), Paths(history, rules)
    known: dict[str, Needs] = {}
    for task in history.tasks:
        yield from _judge_sums(task)
        finished_ns = {event.site: event.t_ns for event in reversed(task.all(TaskFinished))}
        if not finished_ns:
            continue
        yield judged(len(finished_ns))
        needs, certain = _find_needs(task, known), _list_certain(task)
        arrived_ns: dict[Key, int] = {}
        for into in task.all(Received):
            key = into.src, into.site, into.phase
            arrived_ns[key] = max(into.end_ns, arrived_ns.get(key, 0))
        ends_ns = {key: t_ns for key, t_ns in arrived_ns.items() if key[2] in certain}
        if not (task.all(TaskHalted) or task.changes):
            yield from _judge_members(task, needs, ends_ns, finished_ns, paths)
            yield from _judge_last_chunks(task, needs, ends_ns, finished_ns, paths)
            yield from _judge_last_sums(task, ends_ns, finished_ns)
            yield from _judge_lateness(task, finished_ns, losses)
            continue
        yield from _judge_by_first_plan(task, known, ends_ns, finished_ns, paths)
        later = dict(_find_unfinished(task, losses))
        for site, event in later.items():
            least_ns = event.t_ns + paths.control_ns(event.site, site) - CLOCK_NS
            if site in finished_ns and finished_ns[site] < least_ns:
                yield fail(f"{_name(task, site)} before it was planned anew, after it had not")
        begins_again = len(task.started.weights) > 1
        if task.all(TaskReplanned) and not task.all(TaskRearranged) and begins_again:
            last = task.all(TaskReplanned)[-1]
            by_last = {
                site: finished_ns[site]
                for site, event in later.items()
                if event is last and site in finished_ns
            }
            yield from _judge_members(task, needs, ends_ns, by_last, paths)
        elif not task.all(TaskHalted) and not task.all(TaskReplanned):
            yield from _judge_members(task, needs, ends_ns, finished_ns, paths)
        silent = find_silent_sites(task, losses, rules.topology.site_names)
        yield from _judge_amounts(task, finished_ns, silent)


@dataclass(frozen=True, slots=True)
class Needs:
    """How many chunks each report of a plan counts, and how many of them members need.

    `sums` has those of the in-trees, by the blocks that members receive; `ways` has those of the
    out-trees, by member.
    """

    total: Mapping[Key, int]
    sums: tuple[tuple[tuple[str, ...], Mapping[Key, int]], ...]
    ways: Mapping[str, Mapping[Key, int]]

    @classmethod
    def of(cls, plan: Plan, moved: Iterable[Block] = ()) -> Needs:
        """Count the chunks of a plan; those of `moved` blocks may come in vain."""
        total = Counter[Key]()
        for block in moved:
            total += _count_hops(block, block.in_edges, "in")
            total += _count_hops(block, block.out_edges, "out")
        ways: defaultdict[str, Counter[Key]] = defaultdict(Counter)
        received: defaultdict[str, list[int]] = defaultdict(list)
        for number, block in enumerate(plan.blocks):
            total += _count_hops(block, block.in_edges, "in")
            total += _count_hops(block, block.out_edges, "out")
            above = {edge[-1]: edge for edge in block.out_edges}
            for site in {block.aggregator, *above}.intersection(plan.receivers_of(block)):
                received[site].append(number)
                edges, at = list[Edge](), site
                while at != block.aggregator:
                    edges.append(above[at])
                    at = above[at][0]
                ways[site] += _count_hops(block, edges, "out")
        groups: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
        for site, numbers in received.items():
            groups[tuple(numbers)].append(site)
        sums = []
        for chosen, sites in groups.items():
            count = Counter[Key]()
            for number in chosen:
                count += _count_hops(plan.blocks[number], plan.blocks[number].in_edges, "in")
            sums.append((tuple(sites), dict(count)))
        return cls(dict(total), tuple(sums), {site: dict(count) for site, count in ways.items()})


def _count_hops(block: Block, edges: Collection[Edge], phase: str) -> Counter[Key]:
    """The chunks of a block on all hops of these edges; only the first hop has the edge's phase."""
    count = Counter[Key]()
    for edge in edges:
        for place, (src, dst) in enumerate(pairwise(edge)):
            count[src, dst, "relay" if place else phase] += block.size
    return count


def _find_needs(task: Task, known: dict[str, Needs]) -> Needs:
    """The needs of a task's last whole plan, without blocks that moved later."""
    if task.all(TaskRearranged) and not task.all(TaskReplanned):
        plan = task.plan
        gone = {number for event in task.all(TaskRearranged) for number in event.withdrawn}
        moved = [block for number, block in enumerate(plan.blocks) if number in gone]
        for event in task.all(TaskRearranged):
            moved += task.plan_of(event).blocks
        kept = tuple(block for number, block in enumerate(plan.blocks) if number not in gone)
        return Needs.of(replace(plan, blocks=kept), moved)
    return _count_needs(
        (task.all(TaskReplanned)[-1] if task.all(TaskReplanned) else task.started).forest, known
    )


def _count_needs(forest: Any, known: dict[str, Needs]) -> Needs:
    text = json.dumps(forest)
    if text not in known:
        known[text] = Needs.of(Plan.from_json(json.loads(text)))
    return known[text]


def _list_certain(task: Task) -> set[str]:
    """The phases whose reports count only chunks that are needed, and that the plan knows.

    After offers, a chunk may come a second time, in vain. Chunks on auxiliary paths are not in the
    plan. After a halt, chunks of earlier plans may be forwarded.
    """
    phases = {event.phase for event in task.all(Sent, Received)}
    if "early" in phases:
        return {"out"}
    if task.all(Routed) or "aux" in phases or task.changes:
        return {"in", "out"}
    return {"in", "out", "relay"}


def _judge_members(
    task: Task,
    needs: Needs,
    ends_ns: Mapping[Key, int],
    finished_ns: Mapping[str, int],
    paths: Paths,
) -> Iterator[Finding]:
    """Each member's result came after the last chunk of the reports of which it needs all."""
    for sites, sums in needs.sums:
        latest_ns: dict[str, int] = {}
        for key, end_ns in ends_ns.items():
            if sums.get(key) == needs.total.get(key, 0):
                latest_ns[key[1]] = max(end_ns, latest_ns.get(key[1], 0))
        for site in sites:
            if site not in finished_ns:
                continue
            found = [(t_ns + paths.payload_ns(at, site), at) for at, t_ns in latest_ns.items()]
            for key, count in needs.ways.get(site, {}).items():
                if key in ends_ns and count + sums.get(key, 0) == needs.total[key]:
                    found.append((ends_ns[key] + paths.payload_ns(key[1], site), key[1]))
            least_ns, where = max(found, default=(0, site))
            if finished_ns[site] < least_ns - CLOCK_NS:
                yield fail(f"{_name(task, site)} before all of it had arrived at {where}")


def _judge_by_first_plan(
    task: Task,
    known: dict[str, Needs],
    ends_ns: Mapping[Key, int],
    finished_ns: Mapping[str, int],
    paths: Paths,
) -> Iterator[Finding]:
    """A member that finished before it can have heard of a repair needed the first plan's chunks.

    All of them had arrived then. So if a report has no more chunks, it has no others.
    """
    repairs = (*task.all(TaskHalted), *task.all(TaskRearranged), *task.all(TaskReplanned))
    before = {
        site: t_ns
        for site, t_ns in finished_ns.items()
        if all(t_ns < each.t_ns + paths.control_ns(each.site, site) for each in repairs)
    }
    if not before:
        return
    needs, chunks = _count_needs(task.started.forest, known), Counter[Key]()
    for into in task.all(Received):
        chunks[into.src, into.site, into.phase] += into.chunks
    whole = {key: t_ns for key, t_ns in ends_ns.items() if chunks[key] == needs.total.get(key)}
    yield from _judge_members(task, needs, whole, before, paths)


def _judge_last_chunks(
    task: Task,
    needs: Needs,
    ends_ns: Mapping[Key, int],
    finished_ns: Mapping[str, int],
    paths: Paths,
) -> Iterator[Finding]:
    """The last chunk of every report was still needed by some member."""
    if not finished_ns.keys() >= set(task.started.receivers) or not task.started.receivers:
        return
    for (src, dst, phase), end_ns in ends_ns.items():
        last_ns = max(t_ns - paths.payload_ns(dst, site) for site, t_ns in finished_ns.items())
        if (src, dst, phase) in needs.total and end_ns > last_ns + CLOCK_NS:
            text = f"{task} on {src} -> {dst}: the last chunk arrived after all results"
            yield fail(text)


def _judge_last_sums(
    task: Task, ends_ns: Mapping[Key, int], finished_ns: Mapping[str, int]
) -> Iterator[Finding]:
    """A site sends the sum of the last inputs that arrived after they did."""
    if not finished_ns.keys() >= set(task.started.receivers):
        return
    last_ns: dict[str, int] = {}
    for out in task.all(Sent):
        last_ns[out.site] = max(out.end_ns, last_ns.get(out.site, 0))
    keeping = {block.aggregator for block in task.blocks if not block.out_edges}
    for (src, dst, phase), end_ns in ends_ns.items():
        if phase == "in" and dst not in keeping and last_ns.get(dst, end_ns) < end_ns - CLOCK_NS:
            yield fail(f"{task}: {dst} had sent all before the last input of {src} arrived")


def _judge_lateness(
    task: Task, finished_ns: Mapping[str, int], losses: Losses
) -> Iterator[Finding]:
    """A member has its result at once when the last chunk has arrived, and it has contributed.

    An aggregator adds to its own contribution when all who need that have been sent it.
    """
    last_ns: dict[str, int] = {}
    for each in task.all(Received, Sent):
        if isinstance(each, Received) or each.phase == "in":
            last_ns[each.site] = max(each.end_ns, last_ns.get(each.site, 0))
    for event in task.all(TaskJoined, Contributed):
        if event.site in last_ns:
            last_ns[event.site] = max(event.t_ns, last_ns[event.site])
    follow_ns = Tolerances.of(losses.history).follow_ns
    for site in finished_ns.keys() & last_ns.keys():
        late_ns = finished_ns[site] - last_ns[site]
        stopped_s = losses.paused_s(last_ns[site], finished_ns[site], site) if late_ns > 0 else 0
        if late_ns > follow_ns + stopped_s * 1e9:
            when = format_time(last_ns[site])
            yield fail(f"{_name(task, site)} late: all of it had arrived at {when}")


def _judge_sums(task: Task) -> Iterator[Finding]:
    """A site sends results only after inputs have arrived, unless it is the only contributor."""
    first_ns: dict[str, int] = {}
    for into in task.all(Received):
        first_ns[into.site] = min(into.start_ns, first_ns.get(into.site, into.start_ns))
    alone = {block.aggregator for block in task.blocks if not block.in_edges}
    for out in task.all(Sent):
        early_ns = first_ns.get(out.site, 0) - CLOCK_NS
        if out.phase == "out" and out.site not in alone and out.start_ns < early_ns:
            yield fail(f"{task}: {out.site} sent a result before an input arrived")


def _find_unfinished(task: Task, losses: Losses) -> Iterator[tuple[str, TaskReplanned]]:
    """Members that answered a halt without a result, and the last new plan after their answer.

    A controller plans anew for members that answered, and that it has not lost meanwhile. What a
    member answered is known if it logged that, or if it was within reach.
    """
    for event in task.all(TaskReplanned):
        halts = [each for each in task.all(TaskHalted) if each.t_ns <= event.t_ns]
        if not halts or losses.term_of(halts[-1]) != losses.term_of(event):
            continue
        receivers = set(task.plan_of(event).receivers)
        for site in receivers.intersection(halts[-1].members):
            answered = any(
                each.site == site and not each.finished and halts[-1].t_ns <= each.t_ns
                for each in task.all(HaltHeard)
                if each.t_ns <= event.t_ns
            )
            away = losses.out_of_reach(event.site, site)
            if answered or not losses.find(away, halts[-1].t_ns - losses.timeout_ns, event.t_ns):
                yield site, event


def _judge_amounts(
    task: Task, finished_ns: Mapping[str, int], silent: Collection[str]
) -> Iterator[Finding]:
    """Of a repaired task, as many bytes as the result has can have arrived before it."""
    own = count_own(task)
    held = {site: task.cut.size_of(chunks) for site, chunks in task.shards.items()}
    for site, done_ns in finished_ns.items():
        if site in silent:
            continue
        most = 0
        for into in task.all(Received):
            if into.site != site or into.start_ns > done_ns + CLOCK_NS:
                continue
            is_whole = into.end_ns <= done_ns + CLOCK_NS
            most += into.bytes if is_whole else max(0, into.bytes - 1)
        if most < held.get(site, task.started.bytes) - own[site]:
            yield fail(f"{_name(task, site)}, but only {most} bytes had arrived")


def _name(task: Task, site: str) -> str:
    return f"{task}: {site} had the result"
