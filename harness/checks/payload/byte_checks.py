"""Whether the bytes of every task add up, link by link (pure).

A task without losses moves exactly the bytes that its plans say. A task that was halted, or lost an
agent or a link, is judged within bounds: nothing arrives that was not sent, no link carries more
than the plans say, no member has a result without enough bytes for it, and nothing vanishes on a
link without a fault.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

from trunkline.agents.events.task_events import (
    Discarded,
    Received,
    Routed,
    Sent,
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskHalted,
    TaskJoined,
    TaskRearranged,
    TaskReplanned,
)
from trunkline.agents.planning.chunks import Chunking
from trunkline.agents.planning.plan import Block, Directed, Edge
from trunkline.harness.checks.losses import Losses, Span
from trunkline.harness.checks.payload.lost_bytes import judge_lost_bytes
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Finding, excused, fail, judged, note
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.link_history import Conditions

Key = tuple[str, str, str]
"""Chunks of one phase over one directed link: source, destination, phase."""


def bytes_arrived(history: History, rules: Rules) -> Iterator[Finding]:
    """In each task every link carried exactly the bytes that the plan says, or it is excused.

    An excused link is judged within bounds. Bytes of sites that sent early, before they knew their
    task, may arrive beyond the plan; they are discarded.
    """
    losses = Losses.of(history, rules)
    conditions = Conditions.to_judge(history, rules.topology)
    reports: list[Sent | Received] = [*history.all(Sent, Received)]
    phases = {event.phase for event in reports}
    early = "early" in phases
    if early and not rules.scenario.scheme.sends_early:
        yield fail("payload was sent early, but the scenario's scatter is blocking")
    if "aux" in phases and not rules.scenario.scheme.has_paths:
        yield fail("payload took auxiliary paths, which the scenario does not have")
    total = 0
    for task in history.tasks:
        yield from _check_discarded(task, early)
        if task.all(Routed) and not rules.scenario.scheme.has_paths:
            yield fail(f"{task} took auxiliary paths, which the scenario does not have")
        silent = find_silent_sites(task, losses, rules.topology.site_names)
        why = find_disturbance(task, losses)
        links = count_planned(task).keys() | count_sent(task).keys() | count_received(task).keys()
        if why is None and task.all(Routed) and silent:
            lost = next(iter(silent.values()))
            why = "a site was lost before it reported its paths", losses.explain(lost)
        if why is not None:
            yield from _judge_within_bounds(task, set(silent))
            yield from judge_lost_bytes(task, losses, rules, conditions, silent)
            rule, case = f"{why[0]}, so only bounds are known", why[1]
            for src, dst in sorted(links):
                yield excused(rule, f"{_name(task, src, dst)}: {case}")
            continue
        yield from _judge_exactly(task, links, silent)
        if not silent and not early:
            yield from _check_joins(task)
        total += count_planned(task).total()
    yield note(f"{total:,} bytes planned, sent and received")


def find_disturbance(task: Task, losses: Losses) -> tuple[str, str] | None:
    """Why bytes of the task may have been lost, as a rule and its case; None if none were.

    A task whose members all finish by its first plan has lost nothing that counts: every byte of
    the plan is needed.
    """
    halted, moved, anew = (task.all(TaskHalted), task.all(TaskRearranged), task.all(TaskReplanned))
    if halted or anew:
        return "the task was halted", "; ".join(str(event.cause) for event in halted)
    if moved:
        return "blocks moved", "; ".join(str(event.cause) for event in moved)
    start_ns, end_ns = task.started.t_ns, task.end_ns or task.started.t_ns
    if task.all(TaskDropped) or not task.all(TaskCompleted):
        ends = task.all(TaskAbandoned, TaskDropped)
        words = dict.fromkeys(str(event.cause or "") for event in ends)
        return "the task was given up", "; ".join(words)
    plan = task.plan
    sites = {*plan.participants(), *(event.site for event in task.all(Sent, TaskJoined))}
    early = bool(task.early)
    for site in sorted(sites):
        # An offer that is made before a loss is dropped, and may be made again.
        spans = losses.standalone(site) if early else losses.dead(site)
        before_ns = losses.detection_ns if early else 0
        if span := losses.find(spans, start_ns - before_ns, end_ns):
            return "a site was lost", losses.explain(span)
    if early or task.all(Routed):
        links = frozenset(frozenset((out.site, out.dst)) for out in task.all(Sent))
        if span := losses.find(losses.broken(links), start_ns - losses.detection_ns, end_ns):
            return "a link broke", losses.explain(span)
    return None


def count_planned(task: Task) -> Counter[Directed]:
    """The bytes that the plan puts on each link: a block's size on every hop of both its trees.

    With auxiliary paths the sites choose the paths, so their reports are counted instead.
    """
    if routed := task.all(Routed):
        return _count_ways((event.path, event.bytes) for event in routed)
    return count_in_trees(task)


def count_in_trees(task: Task) -> Counter[Directed]:
    """The bytes that the trees of the plan put on each link, also if sites chose other paths."""
    return _count_ways(_list_edges(task))


def _count_ways(ways: Iterable[tuple[Edge, int]]) -> Counter[Directed]:
    """The bytes on each link of these paths."""
    counted = Counter[Directed]()
    for way, size in ways:
        for link in pairwise(way):
            counted[link] += size
    return counted


def count_sent(task: Task) -> Counter[Directed]:
    """The bytes that sites report to have sent, by link."""
    sent = Counter[Directed]()
    for out in task.all(Sent):
        sent[out.site, out.dst] += out.bytes
    return sent


def count_received(task: Task) -> Counter[Directed]:
    """The bytes that sites report to have received, by link."""
    received = Counter[Directed]()
    for into in task.all(Received):
        received[into.src, into.site] += into.bytes
    return received


def _judge_exactly(
    task: Task, links: Iterable[Directed], silent: Mapping[str, Span]
) -> Iterator[Finding]:
    planned, sent, received = count_planned(task), count_sent(task), count_received(task)
    chunks = _count_missing_chunks(task)
    early = bool(task.early)
    for src, dst in sorted(links):
        if lost := silent.get(src) or silent.get(dst):
            text = f"{_name(task, src, dst)}: {lost.what}"
            yield excused("a site was lost before it reported its bytes", text)
            continue
        yield judged()
        counts = planned[src, dst], sent[src, dst], received[src, dst]
        right = counts[0] <= counts[2] <= counts[1] if early else len(set(counts)) == 1
        if not right:
            text = f"{counts[0]} bytes planned, {counts[1]} sent, {counts[2]} received"
            yield fail(f"{_name(task, src, dst)}: {text}")
        elif chunks[src, dst] and not early:
            yield fail(f"{_name(task, src, dst)}: {chunks[src, dst]} chunks are missing")
    if early or task.all(Routed):
        yield from _judge_phases(task)
    if silent:
        return
    if task.all(Routed):
        yield from _check_paths(task)
    elif not early:
        yield from _check_phases(task)
    extra = received.total() - planned.total()
    discarded = sum(event.bytes for event in task.all(Discarded))
    if early and not _has_relays(task) and extra != discarded:
        yield fail(f"{task}: {extra} bytes too many, {discarded} discarded")


def _check_discarded(task: Task, early: bool) -> Iterator[Finding]:
    """Only what arrived can be discarded, in whole chunks, and only what was sent early."""
    for event in task.all(Discarded):
        arrived = sum(into.bytes for into in task.all(Received) if into.site == event.site)
        if not early or event.bytes > arrived:
            yield fail(f"{task}: {event.site} discarded {event.bytes} of {arrived} bytes")
        if not _fits_chunks(task.cut, event.bytes, event.chunks):
            text = f"{event.site} discarded {event.bytes} bytes in {event.chunks} chunks"
            yield fail(f"{task}: {text}")


def _fits_chunks(cut: Chunking, size: int, chunks: int) -> bool:
    """Whether so many chunks, which may be some of them several times, can have this size."""
    sizes = cut.sizes or (cut.size(0), cut.size(cut.count - 1))
    largest, smallest = max(sizes), min(sizes)
    lacking = largest * chunks - size
    if cut.sizes is None and smallest < largest:  # only the last one is smaller
        return lacking % (largest - smallest) == 0 and 0 <= lacking <= (largest - smallest) * chunks
    return smallest * chunks <= size <= largest * chunks


def _check_joins(task: Task) -> Iterator[Finding]:
    """Each participant joins once; others only if they may forward chunks on other paths."""
    planned = task.plan.participants()
    for site, times in Counter(event.site for event in task.all(TaskJoined)).items():
        if times > 1:
            yield fail(f"{task}: {site} joined {times} times")
        if site not in planned and not (task.all(Routed) or _has_relays(task)):
            yield fail(f"{task}: {site} joined, but has no part in the plan")


def _check_phases(task: Task) -> Iterator[Finding]:
    """Each link carries the plan's chunks towards aggregators, and those away from them."""
    blocks = task.plan.blocks
    planned, sent = _count_by_phase(blocks, lambda block: block.size), Counter[Key]()
    for out in task.all(Sent):
        sent[out.site, out.dst, out.phase] += out.chunks
    if planned != sent:
        links = sorted({key[:2] for key in (planned - sent) + (sent - planned)})
        where = ", ".join(" -> ".join(ends) for ends in links)
        yield fail(f"{task}: other chunks than planned on {where}")
    if task.all(Discarded):
        yield fail(f"{task}: bytes were discarded, but none were sent early")


def _count_by_phase(blocks: Iterable[Block], count: Callable[[Block], int]) -> Counter[Key]:
    """What blocks put on each link, by phase: the first hop of an edge has its phase."""
    planned = Counter[Key]()
    for block in blocks:
        for phase, edges in (("in", block.in_edges), ("out", block.out_edges)):
            for place, (src, dst) in (hop for edge in edges for hop in enumerate(pairwise(edge))):
                planned[src, dst, "relay" if place else phase] += count(block)
    return planned


def _count_missing_chunks(task: Task) -> Counter[Directed]:
    """The chunks that were sent on each link and did not arrive."""
    missing = Counter[Directed]()
    for out in task.all(Sent):
        missing[out.site, out.dst] += out.chunks
    for into in task.all(Received):
        missing[into.src, into.site] -= into.chunks
    return missing


def _judge_within_bounds(task: Task, silent: set[str]) -> Iterator[Finding]:
    sent, received = count_sent(task), count_received(task)
    name = f"{task}"
    for ends in sorted(sent.keys() | received.keys()):
        link = _name(task, *ends)
        # One chunk may be in flight when its sender forgets the task.
        if ends[0] not in silent and received[ends] > sent[ends] + task.started.chunk_bytes:
            yield fail(f"{link}: {sent[ends]} bytes sent, {received[ends]} received")
    yield from _judge_phases(task)
    if not task.all(TaskFinished):
        return
    own = count_own(task)
    size = task.started.bytes
    held = {site: task.cut.size_of(chunks) for site, chunks in task.shards.items()}
    asked = Counter(dict.fromkeys(task.started.weights, size))
    if task.started.roles is not None:
        asked = _count_asked(task)
    for done in task.all(TaskFinished):
        arrived = sum(into.bytes for into in task.all(Received) if into.site == done.site)
        if done.site not in silent and arrived < held.get(done.site, size) - own[done.site]:
            yield fail(f"{name}: {done.site} has the result, but received only {arrived} bytes")
    for given in task.inputs:
        left = sum(out.bytes for out in task.all(Sent) if out.site == given.site)
        if given.site not in silent and left < asked[given.site] - own[given.site]:
            yield fail(f"{name}: {given.site} is in the result, but sent only {left} bytes")


def _judge_phases(task: Task) -> Iterator[Finding]:
    """No link carries more of a phase than all plans that the task ever had.

    Offers and chunks on auxiliary paths are not in plans, and forwarded ones count as relayed.
    """
    most = _count_by_phase(task.blocks, lambda block: task.cut.size_of(block.chunks))
    sent, received = Counter[Key](), Counter[Key]()
    for out in task.all(Sent):
        sent[out.site, out.dst, out.phase] += out.bytes
    for into in task.all(Received):
        received[into.src, into.site, into.phase] += into.bytes
    free = {"early", "aux"}.intersection(key[2] for key in sent.keys() | received.keys())
    counted = {"in", "out"} if task.all(Routed) or free else {"in", "out", "relay"}
    for key in sorted(sent.keys() | received.keys()):
        carried = max(sent[key], received[key])
        if key[2] in counted and carried > most[key]:
            text = f"{carried} bytes of phase {key[2]}, at most {most[key]} planned"
            yield fail(f"{_name(task, *key[:2])}: {text}")


def count_own(task: Task) -> Counter[str]:
    """The bytes that each site aggregates itself in any plan, which it need not send or receive."""
    own: defaultdict[str, set[int]] = defaultdict(set)
    for block in task.blocks:
        own[block.aggregator].update(block.indexes())
    return Counter({site: sum(map(task.cut.size, chunks)) for site, chunks in own.items()})


def _count_asked(task: Task) -> Counter[str]:
    """The bytes that each contributor must send: of blocks that a receiver has got."""
    asked, finished = Counter[str](), {event.site for event in task.all(TaskFinished)}
    plan = task.plan
    for block in plan.blocks:
        if not finished.intersection(plan.receivers_of(block)):
            continue
        for edge in block.in_edges:
            asked[edge[0]] += task.cut.size_of(block.chunks)
    return asked


def _list_edges(task: Task) -> Iterator[tuple[Edge, int]]:
    """Every edge of the task's plan with its bytes."""
    for block in task.plan.blocks:
        moved = task.cut.size_of(block.chunks)
        for edge in (*block.in_edges, *block.out_edges):
            yield edge, moved


def _check_paths(task: Task) -> Iterator[Finding]:
    """Report edges of the plan whose bytes differ from those on all paths between their ends."""
    wanted, taken = Counter[Directed](), Counter[Directed]()
    for edge, size in _list_edges(task):
        wanted[edge[0], edge[-1]] += size
    for event in task.all(Routed):
        taken[event.path[0], event.path[-1]] += event.bytes
    for src, dst in sorted(wanted.keys() | taken.keys()):
        sizes = wanted[src, dst], taken[src, dst]
        if len(set(sizes)) > 1:
            text = f"{sizes[0]} bytes planned, {sizes[1]} on all paths"
            yield fail(f"{task} from {src} to {dst}: {text}")


def find_silent_sites(task: Task, losses: Losses, sites: tuple[str, ...]) -> dict[str, Span]:
    """Sites whose reports of sent and received bytes may be missing, each with the reason.

    These are sites that were killed before their report, sites that sent early and were lost before
    they learned of the task, and sites that joined after a member had finished (they may have
    forgotten early bytes).
    """
    silent: dict[str, Span] = {}
    for site in losses.may_be_silent(task, sites):
        if killed := losses.before_report(task, site):
            silent[site] = killed
    for into in task.all(Received):
        lost = losses.lost_before_joining(task, into.src) if into.phase == "early" else None
        if lost is not None:
            silent[into.src] = lost
    done_ns = min((event.t_ns for event in task.all(TaskFinished)), default=math.inf)
    for event in task.all(TaskJoined):
        if event.t_ns > done_ns and task.started.roles is None:
            silent[event.site] = Span(event.t_ns, event.t_ns, f"{event.site} joined late")
    return silent


def _name(task: Task, src: str, dst: str) -> str:
    return f"{task} on {src} -> {dst}"


def _has_relays(task: Task) -> bool:
    return any(out.phase == "relay" for out in task.all(Sent))
