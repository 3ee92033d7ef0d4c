"""Checks of the network: bytes, rates and delays of links against the scenario (pure).

A link is checked against the rate that it had at that time, including changes by the timeline.
Bytes that do not add up make the verdict `fail`. A link that was faster than its rate or delay
makes it `unknown`: the emulation was wrong, so the run proves nothing about the agents.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from trunkline.agents.events.run_events import Late, RunFinished, TimersLate
from trunkline.agents.planning.plan import Directed, Edge, Plan
from trunkline.harness.checks.task_outcomes import TaskOutcomes
from trunkline.harness.checks.verdict import Finding, Rules, doubt, fail, note
from trunkline.harness.record.history import History, Task, Transfer, phases, transfers
from trunkline.harness.record.link_history import Conditions

RATE_TOLERANCE = 0.02
"""Allowed relative error of a shaper."""

BURST_BYTES, BURST_S = 64 * 1024, 0.004
"""A token bucket lets one super-packet (64 KiB) and 4 ms of its rate pass at once."""

DELAY_TOLERANCE, DELAY_TOLERANCE_S = 0.01, 0.0001
"""Allowed errors of a delay, relative and in seconds: timers are accurate to about 0.1 ms."""

LATE_TOLERANCE = 0.01
"""Allowed lateness as a share of all computing time; above it the host was too busy."""

TIMER_TOLERANCE = 0.1
"""Allowed lateness of an agent's timers as a share of the time they were watched."""

TOO_SLOW = (
    "this machine was too slow or too busy for the real clock: use the virtual clock, fewer sites "
    "or longer compute times"
)


def bytes_arrived(history: History, rules: Rules) -> Iterator[Finding]:
    """In a completed task every link carried exactly the bytes that the plan says.

    There are three exceptions:

    - An agent was lost, or blocks were withdrawn. Then bytes may be lost, so at most as many may
      arrive as were sent, and one chunk that was in flight when its sender forgot the task.
    - A site did not report its bytes: it was killed, or learned of the task too late.
    - A site sent early, before it knew its task. Bytes that arrive beyond the plan are discarded.
    """
    total = 0
    outcomes = TaskOutcomes(history, rules.detection_s)
    for task in history.completed:
        planned, sent, received = (
            _count_planned_bytes(task),
            Counter[Directed](),
            _count_arrived_bytes(task),
        )
        for out in task.sent:
            sent[out.site, out.dst] += out.bytes
        early = any(out.phase == "early" for out in task.sent)
        silent = _find_silent_sites(task, outcomes, rules.topology.site_names)
        disturbed = outcomes.is_disturbed(task)
        for src, dst in sorted(planned.keys() | sent.keys() | received.keys()):
            counts = planned[src, dst], sent[src, dst], received[src, dst]
            unknown = {src, dst} & silent
            if unknown or disturbed:
                wrong = not unknown and counts[2] > counts[1] + task.started.chunk_bytes
            elif early:
                wrong = not counts[0] <= counts[2] <= counts[1]
            else:
                wrong = len(set(counts)) > 1
            if wrong:
                yield fail(
                    f"task {task.number} on {src} -> {dst}: {counts[0]} bytes planned,"
                    f" {counts[1]} sent, {counts[2]} received"
                )
        if task.routed and not (disturbed or silent):
            yield from _check_paths(task)
        extra = received.total() - planned.total()
        discarded = sum(event.bytes for event in task.discarded)
        counted = early and not (disturbed or silent or _has_relays(task))
        if counted and extra != discarded:
            yield fail(f"task {task.number}: {extra} bytes too many, {discarded} discarded")
        total += planned.total()
    yield note(f"{total} bytes planned, sent and received")


def rates_kept(history: History, rules: Rules) -> Iterator[Finding]:
    """No payload, and no group of overlapping payloads, was faster than its link.

    Disturbed tasks are left out: lost bytes were handed to the link but never crossed it.
    """
    outcomes = TaskOutcomes(history, rules.detection_s)
    whole = [task for task in history.tasks if not outcomes.is_disturbed(task)]
    conditions = Conditions.of(history, rules.topology)
    by_link: defaultdict[Directed, list[Transfer]] = defaultdict(list)
    for transfer in transfers(whole, conditions.least_delays_ms()):
        by_link[transfer.src, transfer.dst].append(transfer)
    for ends, moved in sorted(by_link.items()):
        if ends not in conditions.spells:
            yield fail(f"{' -> '.join(ends)}: bytes sent on a link that does not exist")
            continue
        spans = [(t.bytes, t.start_ns, t.end_ns) for t in moved]
        spans += _merge_overlaps(moved)
        fast = [span for span in spans if _is_too_fast(history, rules, conditions, ends, *span)]
        if fast:
            size, start_ns, end_ns = max(fast)
            mean_mbps = _mean_mbps(conditions, ends, start_ns, end_ns)
            yield doubt(
                f"{' -> '.join(ends)}: {size} bytes from {start_ns / 1e9:.3f} s to"
                f" {end_ns / 1e9:.3f} s are more than {mean_mbps:g} Mbit/s"
            )
    yield note(f"{len(by_link)} links in use, none faster than set")


def delays_kept(history: History, rules: Rules) -> Iterator[Finding]:
    """No payload's first byte arrived before its link's delay had passed.

    Disturbed tasks are left out: a killed site does not report when it began to send.
    """
    outcomes = TaskOutcomes(history, rules.detection_s)
    quickest_s: dict[Directed, float] = {}
    for task in history.tasks:
        if outcomes.is_disturbed(task):
            continue
        starts = {(sent.site, sent.dst, sent.phase): sent.start_ns for sent in task.sent}
        for got in task.received:
            start_ns = starts.get((got.src, got.site, got.phase))
            if start_ns is not None:
                ends, took_s = (got.src, got.site), (got.start_ns - start_ns) / 1e9
                quickest_s[ends] = min(took_s, quickest_s.get(ends, math.inf))
    for (src, dst), spells in Conditions.of(history, rules.topology).spells.items():
        took_s = quickest_s.get((src, dst), math.inf)
        quickest = min((s.link for s in spells), key=lambda link: link.delay_ms - link.jitter_ms)
        least_s = (quickest.delay_ms - quickest.jitter_ms) * (1 - DELAY_TOLERANCE) / 1e3
        if took_s < least_s - DELAY_TOLERANCE_S:
            yield doubt(
                f"{src} -> {dst}: a first byte took {took_s * 1e3:.3f} ms,"
                f" less than the set delay of {quickest.delay_ms:g} ms"
            )
    yield note(f"{len(quickest_s)} links in use, none with less delay than set")


def interfaces_agree(history: History, rules: Rules) -> Iterator[Finding]:
    """Interfaces counted at least the payload of completed tasks, and no more than their rates.

    Of disturbed tasks only arrived bytes count: lost bytes may not have reached the interface.
    """
    outcomes = TaskOutcomes(history, rules.detection_s)
    counted = {(c.src, c.dst): c for run in history.all(RunFinished) for c in run.links}
    payload = Counter[Directed]()
    for task in history.completed:
        if outcomes.is_disturbed(task):
            payload.update(_count_arrived_bytes(task))
            continue
        for sent in task.sent:
            payload[sent.site, sent.dst] += sent.bytes
    conditions = Conditions.of(history, rules.topology)
    for ends in conditions.spells:
        arrow = " -> ".join(ends)
        if ends not in counted:
            yield fail(f"{arrow}: no interface counters")
            continue
        size = counted[ends].bytes
        if size < payload[ends]:
            yield fail(f"{arrow}: {payload[ends]} bytes sent, the interface saw {size}")
        if _is_too_fast(history, rules, conditions, ends, size, 0, history.end_ns):
            mean_mbps = _mean_mbps(conditions, ends, 0, history.end_ns)
            yield doubt(
                f"{arrow}: {size} bytes in {history.end_ns / 1e9:.3f} s are more than"
                f" {mean_mbps:g} Mbit/s"
            )
    yield note(f"{payload.total()} bytes of payload on {len(counted)} interfaces")


def host_kept_up(history: History, rules: Rules) -> Iterator[Finding]:
    """TCP had enough memory; on a real clock, work took its modelled time, timers were on time."""
    late_s = sum(event.seconds for event in history.all(Late))
    spent_s = sum(
        (phase.end_ns - phase.start_ns) / 1e9
        for done in phases(history).values()
        for phase in done
        if phase.doing == "compute"
    )
    slow = []
    if late_s > LATE_TOLERANCE * spent_s:
        slow.append(f"computing took {spent_s:.3f} s, {late_s:.3f} s longer than modelled")
    for event in history.all(TimersLate):
        if event.seconds > TIMER_TOLERANCE * event.of_s:
            share = event.seconds / event.of_s
            slow.append(f"{event.site}: timers were late for {share:.0%} of {event.of_s:.3f} s")
    if slow:
        yield doubt(TOO_SLOW)
        yield from map(doubt, slow)
    for run in history.all(RunFinished):
        if run.short_of_memory:
            sites = ", ".join(run.short_of_memory)
            yield doubt(f"TCP reached its memory limit at {sites}: raise net.ipv4.tcp_mem")
    yield note(f"{spent_s:.3f} s of computing, {late_s:.3f} s late")


def _count_planned_bytes(task: Task) -> Counter[Directed]:
    """The bytes that the plan puts on each link: a block's size on every hop of both its trees.

    With auxiliary paths the sites choose the paths, so their reports are counted instead.
    """
    ways = _list_edges(task)
    if task.routed:
        ways = ((event.path, event.bytes) for event in task.routed)
    planned = Counter[Directed]()
    for way, size in ways:
        for hop in pairwise(way):
            planned[hop] += size
    return planned


def _list_edges(task: Task) -> Iterator[tuple[Edge, int]]:
    """Every edge of the task's plan with its bytes."""
    for block in Plan.from_json(task.started.forest).blocks:
        moved = task.cut.size_of(block.chunks)
        for edge in (*block.in_edges, *block.out_edges):
            yield edge, moved


def _check_paths(task: Task) -> Iterator[Finding]:
    """Report edges of the plan whose bytes differ from those on all paths between their ends."""
    wanted, taken = Counter[Directed](), Counter[Directed]()
    for edge, size in _list_edges(task):
        wanted[edge[0], edge[-1]] += size
    for event in task.routed:
        taken[event.path[0], event.path[-1]] += event.bytes
    for src, dst in sorted(wanted.keys() | taken.keys()):
        sizes = wanted[src, dst], taken[src, dst]
        if len(set(sizes)) > 1:
            text = f"{sizes[0]} bytes planned, {sizes[1]} on all paths"
            yield fail(f"task {task.number} from {src} to {dst}: {text}")


def _find_silent_sites(task: Task, outcomes: TaskOutcomes, sites: tuple[str, ...]) -> set[str]:
    """Sites whose reports of sent and received bytes may be missing.

    These are killed sites, sites without a controller when the task ended (none asked them), and
    sites that joined after a member had finished (they may have forgotten early bytes).
    """
    said = {event.site for event in (*task.sent, *task.received)}
    start_ns = task.started.t_ns
    end_ns = (task.end_ns or start_ns) + round(outcomes.detection_s * 1e9)
    lost = {
        site
        for site in sites
        if outcomes.was_killed(site, start_ns) or outcomes.was_lost(site, start_ns, end_ns)
    }
    done_ns = min((event.t_ns for event in task.finished), default=math.inf)
    return lost - said | {event.site for event in task.joined if event.t_ns > done_ns}


def _has_relays(task: Task) -> bool:
    return any(out.phase == "relay" for out in task.sent)


def _count_arrived_bytes(task: Task) -> Counter[Directed]:
    arrived = Counter[Directed]()
    for into in task.received:
        arrived[into.src, into.site] += into.bytes
    return arrived


def _merge_overlaps(moved: list[Transfer]) -> Iterator[tuple[int, int, int]]:
    """(bytes, start_ns, end_ns) of every maximal interval in which transfers overlap."""
    ordered = sorted(moved, key=lambda transfer: transfer.start_ns)
    size, start_ns, end_ns = 0, 0, -1
    for transfer in ordered:
        if transfer.start_ns > end_ns:
            if size:
                yield size, start_ns, end_ns
            size, start_ns, end_ns = 0, transfer.start_ns, transfer.end_ns
        size, end_ns = size + transfer.bytes, max(end_ns, transfer.end_ns)
    if size:
        yield size, start_ns, end_ns


def _is_too_fast(
    history: History,
    rules: Rules,
    conditions: Conditions,
    ends: Directed,
    size: int,
    start_ns: int,
    end_ns: int,
) -> bool:
    """Whether `size` bytes are more than the link's rates allow from `start_ns` to `end_ns`."""
    spells = conditions.spells[ends]
    # Jitter moves arrivals: bytes may have started before the interval in which they were seen.
    late_ns = round(max(spell.link.jitter_ms for spell in spells) * 1e6)
    rate = max(spell.link.rate_mbps for spell in spells) * 1e6 / 8
    allowed = conditions.capacity_bytes(ends, [(start_ns, end_ns + late_ns)])
    if history.run is not None and history.run.backend == "host":
        # When a rate falls, the host's kernel still sends its queue at the old rate.
        queue_bytes = rules.topology.queue_bytes(rules.topology.link(*ends))
        allowed += queue_bytes * conditions.slowdowns(ends, start_ns, end_ns)
    return size > allowed * (1 + RATE_TOLERANCE) + BURST_BYTES + rate * BURST_S


def _mean_mbps(conditions: Conditions, ends: Directed, start_ns: int, end_ns: int) -> float:
    taken_s = (end_ns - start_ns) / 1e9
    return conditions.capacity_bytes(ends, [(start_ns, end_ns)]) * 8e-6 / taken_s if taken_s else 0
