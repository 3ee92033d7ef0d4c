"""Checks of what interfaces counted, during the run and at its end (pure)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from trunkline.agents.events.background_events import BackgroundReceived
from trunkline.agents.events.run_events import LinksCounted, LinkTotals, RunFinished
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.network.altered_links import altered_rule
from trunkline.harness.checks.network.background_checks import count_payload
from trunkline.harness.checks.network.capture_checks import PACKET_BYTES, fits_packets
from trunkline.harness.checks.network.rate_limits import is_too_fast, mean_mbps
from trunkline.harness.checks.payload.byte_checks import (
    count_received,
    count_sent,
    find_disturbance,
)
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import COUNTED_NS
from trunkline.harness.checks.verdict import (
    Finding,
    doubt,
    excused,
    fail,
    format_time,
    judged,
    note,
)
from trunkline.harness.network.count_times import list_times
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions

UNCOUNTED_BYTES, UNCOUNTED_NS = 1_000_000, 1_000_000_000
"""In a run of programs, links are counted if they carry more, and the run takes longer."""


def interfaces_agree(history: History, rules: Rules) -> Iterator[Finding]:
    """Interfaces counted at least the payload of completed tasks, and no more than their rates.

    The payload of background traffic counts, too, and without offloads the headers that TCP needs.

    Of disturbed tasks only arrived bytes count: lost bytes may not have reached the interface.
    """
    losses = Losses.of(history, rules)
    counted = {(c.src, c.dst): c for run in history.all(RunFinished) for c in run.links}
    payload = count_payload(history, rules.topology, rules.flows)
    headers = Counter[Directed]()
    share = 1 / payload_share(rules.scenario.network.mtu) - 1
    for task in history.completed:
        is_whole = find_disturbance(task, losses) is None
        carried = count_sent(task) if is_whole else count_received(task)
        for (src, dst), size in carried.items():
            for hop in pairwise(rules.topology.path(src, dst)):
                payload[hop] += size
                headers[hop] += 0 if rules.scenario.network.offloads else int(size * share)
    for run in history.all(RunFinished):
        rows = Counter((totals.src, totals.dst) for totals in run.links)
        for (src, dst), times in sorted(rows.items()):
            if times > 1:
                yield fail(f"{src} -> {dst}: counted {times} times")
    least, most = PACKET_BYTES, rules.frame_bytes
    for (src, dst), totals in sorted(counted.items()):
        if (totals.bytes > 0) != (totals.packets > 0):
            yield fail(f"{src} -> {dst}: {totals.bytes} bytes in {totals.packets} packets")
        elif not fits_packets(totals.bytes, totals.packets, rules):
            text = f"{totals.bytes} bytes in {totals.packets} packets of {least} to {most} bytes"
            yield fail(f"{src} -> {dst}: {text}")
    yield from _check_reported(history, counted)
    yield from _check_growth(history, rules, counted)
    if not history.all(RunFinished):
        yield doubt("the run did not end, so its interfaces were not counted")
        return
    conditions = Conditions.to_judge(history, rules.topology)
    for src, dst in sorted(counted.keys() - conditions.spells.keys()):
        yield fail(f"{src} -> {dst}: counters of a link that does not exist")
    for ends in conditions.spells:
        arrow = " -> ".join(ends)
        if ends in conditions.altered:
            yield excused(altered_rule(rules), arrow)
            continue
        yield judged()
        if ends not in counted:
            yield fail(f"{arrow}: no interface counters")
            continue
        size = counted[ends].bytes
        if size < payload[ends] + headers[ends]:
            heads = f" and {headers[ends]} of headers" * bool(headers[ends])
            sent = f"{payload[ends]} bytes{heads} sent"
            yield fail(f"{arrow}: {sent}, the interface saw {size}")
        if is_too_fast(history, rules, conditions, ends, size, 0, history.end_ns):
            rate_mbps = mean_mbps(conditions, ends, 0, history.end_ns)
            yield doubt(
                f"{arrow}: {size} bytes in {history.end_ns / 1e9:.3f} s are more than"
                f" {rate_mbps:g} Mbit/s"
            )
    if rules.programs is None:
        yield note(f"{payload.total():,} bytes of payload on {len(counted)} interfaces")
    else:  # which do not log their payload
        total = sum(totals.bytes for totals in counted.values())
        yield note(f"{total} bytes, headers included, on {len(counted)} interfaces")


def _check_growth(
    history: History, rules: Rules, totals: Mapping[Directed, LinkTotals]
) -> Iterator[Finding]:
    """What a link has carried grows from count to count, as fast as it can, up to its total.

    On a virtual clock, links are counted when a period of the counts ends.
    """
    conditions = Conditions.to_judge(history, rules.topology)
    is_exact = history.run is not None and history.run.clock == "virtual"
    times_ns = list_times(history.end_ns) if is_exact else []
    counts: defaultdict[Directed, list[tuple[int, int]]] = defaultdict(lambda: [(0, 0)])
    for event in history.all(LinksCounted):
        due_ns = _latest(times_ns, event.t_ns)
        if is_exact and (not due_ns or event.t_ns - due_ns > COUNTED_NS):
            yield fail(f"links were counted at {format_time(event.t_ns)}, when no period ended")
        for link in event.links:
            ends, when = (link.src, link.dst), format_time(event.t_ns)
            if link.bytes <= counts[ends][-1][1] and ends not in conditions.altered:
                yield fail(f"{link.src} -> {link.dst}: its bytes did not grow at {when}")
            counts[ends].append((event.t_ns, link.bytes))
    if not counts:
        size = sum(total.bytes for total in totals.values())
        is_counted = size > UNCOUNTED_BYTES and history.end_ns > UNCOUNTED_NS
        if rules.programs is not None and is_counted:
            yield doubt(f"no count of links, which carried {size} bytes")
        return
    yield from _check_background(history, rules, times_ns, counts)
    for ends, total in totals.items():
        size = counts[ends][-1][1]
        if size > total.bytes and ends not in conditions.altered:
            text = f"{size} bytes during the run, {total.bytes} at its end"
            yield fail(f"{' -> '.join(ends)}: {text}")
        counts[ends].append((history.end_ns, total.bytes))
    for ends, steps in sorted(counts.items()):
        if ends not in conditions.spells or ends in conditions.altered:
            continue
        for (start_ns, before), (end_ns, after) in pairwise(steps):
            # A link that was not named when links were counted had carried nothing since the last.
            counted_ns = _latest(times_ns, min(end_ns, history.stop_ns) - COUNTED_NS - 1)
            since_ns = max(start_ns, counted_ns)
            shaped_ns = conditions.shaped_span(ends, since_ns, end_ns)
            if is_too_fast(history, rules, conditions, ends, after - before, *shaped_ns):
                span = f"from {format_time(since_ns)} to {format_time(end_ns)}"
                yield doubt(f"{' -> '.join(ends)}: {after - before} bytes {span} are too many")


def _latest(times_ns: Sequence[int], t_ns: int) -> int:
    """The latest of these times until then; 0 if there is none."""
    place = bisect_right(times_ns, t_ns)
    return times_ns[place - 1] if place else 0


def _check_background(
    history: History,
    rules: Rules,
    times_ns: Sequence[int],
    counts: Mapping[Directed, Sequence[tuple[int, int]]],
) -> Iterator[Finding]:
    """Background traffic that had arrived when links were counted is in the counts."""
    altered = Conditions.to_judge(history, rules.topology).altered
    ways = {
        flow.number: tuple(pairwise(rules.topology.path(flow.src, flow.dst)))
        for flow in rules.flows
    }
    arrived = Counter[Directed]()
    for event in history.all(BackgroundReceived):
        next_ns = times_ns[bisect_left(times_ns, event.t_ns) :][:1]
        for hop in ways.get(event.flow, ()):
            arrived[hop] += event.bytes
            if not next_ns or next_ns[0] + COUNTED_NS > history.stop_ns or hop in altered:
                continue
            steps = counts.get(hop, ((0, 0),))
            _, size = steps[bisect_right(steps, (next_ns[0] + COUNTED_NS, math.inf)) - 1]
            if size < arrived[hop]:
                yield fail(
                    f"{' -> '.join(hop)}: {size} bytes counted until {format_time(next_ns[0])},"
                    f" {arrived[hop]} had arrived"
                )
                return


def _check_reported(history: History, counted: Mapping[Directed, LinkTotals]) -> Iterator[Finding]:
    """Each site of a program's all-reduce sends and receives something.

    How much is not known: a program may compress its data.
    """
    sites = {
        site
        for sync in history.syncs
        if sync.operation == "allreduce" and sync.end_ns is not None and len(sync.begun_ns) > 1
        for site in sync.begun_ns
    }
    for site in sorted(sites):
        sent = sum(totals.bytes for (src, _), totals in counted.items() if src == site)
        received = sum(totals.bytes for (_, dst), totals in counted.items() if dst == site)
        if not sent or not received:
            text = f"its interfaces sent {sent} and received {received} bytes"
            yield fail(f"{site} took part in an all-reduce, but {text}")
