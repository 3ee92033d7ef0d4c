"""Checks of the network: rates and delays of links against the scenario (pure).

A link is checked against the rate that it had at that time, including changes by the timeline.
A link that was faster than its rate or delay
makes it `unknown`: the emulation was wrong, so the run proves nothing about the agents.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.run_events import (
    AgentExited,
    Late,
    LinksCounted,
    LinkTotals,
    RunFinished,
    TimersLate,
)
from trunkline.agents.events.task_events import Received, Sent
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.network.altered_links import altered_rule
from trunkline.harness.checks.network.background_checks import count_payload
from trunkline.harness.checks.network.capture_checks import PACKET_BYTES, fits_packets
from trunkline.harness.checks.network.slow_links import find_slow_links
from trunkline.harness.checks.payload.byte_checks import (
    count_received,
    count_sent,
    find_disturbance,
    find_silent_sites,
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
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.transfers import Transfer, transfers

RATE_TOLERANCE = 0.02
"""Allowed relative error of a shaper."""

EXACT_BYTES, EXACT_S = 1514, 0.0001
"""The embedded kernel's shaper lets nothing pass early: one packet and a timer's error are more
than was ever seen."""

BURST_BYTES, BURST_S = 64 * 1024, 0.004
"""A token bucket of the host lets one super-packet (64 KiB) and 4 ms of its rate pass at once."""

DELAY_TOLERANCE, DELAY_TOLERANCE_S = 0.01, 0.0001
"""Allowed errors of a delay, relative and in seconds: timers are accurate to about 0.1 ms."""

LATE_TOLERANCE = 0.01
"""Allowed lateness as a share of all computing time; above it the host was too busy."""

TIMER_TOLERANCE = 0.1
"""Allowed lateness of an agent's timers as a share of the time they were watched."""

WATCHED_S = 0.1
"""An agent's timers may have been watched, and on time, this much longer than the agent ran."""

UNCOUNTED_BYTES, UNCOUNTED_NS = 1_000_000, 1_000_000_000
"""In a run of programs, links are counted if they carry more, and the run takes longer."""

PERIOD_NS = 100_000_000
"""Links are counted once in a number of these periods."""

TOO_SLOW = (
    "this machine was too slow or too busy for the real clock: use the virtual clock, fewer sites "
    "or longer compute times"
)


def rates_kept(history: History, rules: Rules) -> Iterator[Finding]:
    """No payload, and no group of overlapping payloads, was faster than its link.

    If a task may have lost bytes, a site did not report, or the log breaks off, only bytes that
    arrived count: those that were handed to a broken link never crossed it, and a socket takes
    bytes before its link does.
    """
    losses = Losses.of(history, rules)
    conditions = Conditions.to_judge(history, rules.topology)
    least_ms = conditions.least_delays_ms
    by_link: defaultdict[Directed, list[Transfer]] = defaultdict(list)
    for task in history.tasks:
        is_whole = find_disturbance(task, losses) is None and not history.broke_off
        if is_whole and not find_silent_sites(task, losses, rules.topology.site_names):
            found: Iterable[Transfer] = transfers([task], least_ms)
        else:
            found = _list_arrivals(task, least_ms, losses)
        for transfer in conditions.on_links(found):
            by_link[transfer.src, transfer.dst].append(transfer)
    for ends, moved in sorted(by_link.items()):
        if ends not in conditions.spells:
            yield fail(f"{' -> '.join(ends)}: bytes sent on a link that does not exist")
            continue
        if ends in conditions.altered:
            for each in moved:
                text = f"task {each.task} on {' -> '.join(ends)}: {each.bytes} bytes"
                yield excused(altered_rule(rules), text)
            continue
        merged = list(_merge_overlaps(moved))
        burst_bytes = _burst_bytes(history, conditions, ends)
        long = [(start_ns, end_ns) for size, start_ns, end_ns in merged if size > burst_bytes]
        for each in moved:
            place = bisect_right(long, (each.start_ns, math.inf)) - 1
            if place >= 0 and each.start_ns <= long[place][1]:
                yield judged()
            else:
                text = f"task {each.task} on {' -> '.join(ends)}: {each.bytes} bytes"
                yield excused("the host's shaper lets so few bytes pass at once", text)
        spans = [(t.bytes, t.start_ns, t.end_ns) for t in moved]
        spans += [*merged, _find_fastest(conditions, ends, merged)]
        fast = [span for span in spans if _is_too_fast(history, rules, conditions, ends, *span)]
        if fast:
            size, start_ns, end_ns = max(fast)
            mean_mbps = _mean_mbps(conditions, ends, start_ns, max(end_ns, start_ns + 1))
            yield doubt(
                f"{' -> '.join(ends)}: {size} bytes from {start_ns / 1e9:.3f} s to"
                f" {end_ns / 1e9:.3f} s are more than {mean_mbps:g} Mbit/s"
            )
    yield note(f"{len(by_link)} links in use, none faster than set")


def delays_kept(history: History, rules: Rules) -> Iterator[Finding]:
    """No payload's first byte arrived before its link's delay had passed, nor all much later.

    A site that was killed does not report when it began to send.
    """
    losses = Losses.of(history, rules)
    quickest_s: dict[Directed, float] = {}
    for task in history.tasks:
        starts: dict[tuple[str, str, str], int] = {}
        for sent in reversed(task.all(Sent)):
            starts[sent.site, sent.dst, sent.phase] = sent.start_ns
        for got in task.all(Received):
            start_ns = starts.get((got.src, got.site, got.phase))
            ends = got.src, got.site
            dead = losses.before_report(task, got.src)
            if start_ns is not None and dead is None:
                took_s = (got.start_ns - start_ns) / 1e9
                quickest_s[ends] = min(took_s, quickest_s.get(ends, math.inf))
                yield judged()
            else:
                why = losses.explain(dead) if dead else f"{got.src} did not report"
                text = f"{task} on {' -> '.join(ends)}: {why}"
                yield excused("the sender was lost before it reported, or forgot an offer", text)
    conditions = Conditions.to_judge(history, rules.topology)
    spells = conditions.spells
    for link in rules.topology.overlay.links:
        took_s = quickest_s.get((link.src, link.dst), math.inf)
        delay_ms = least_ms = 0.0
        for hop in pairwise(rules.topology.path(link.src, link.dst)):
            had = (spell.link for spell in spells[hop])
            quickest = min(had, key=lambda each: each.least_delay_ms)
            delay_ms += quickest.delay_ms
            least_ms += quickest.least_delay_ms
        if took_s < least_ms * (1 - DELAY_TOLERANCE) / 1e3 - DELAY_TOLERANCE_S:
            yield doubt(
                f"{link.src} -> {link.dst}: a first byte took {took_s * 1e3:.3f} ms,"
                f" less than the set delay of {delay_ms:g} ms"
            )
    yield note(f"{len(quickest_s)} links in use, none with less delay than set")
    yield from find_slow_links(history, rules, losses, conditions)


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
        if _is_too_fast(history, rules, conditions, ends, size, 0, history.end_ns):
            mean_mbps = _mean_mbps(conditions, ends, 0, history.end_ns)
            yield doubt(
                f"{arrow}: {size} bytes in {history.end_ns / 1e9:.3f} s are more than"
                f" {mean_mbps:g} Mbit/s"
            )
    if rules.programs is None:
        yield note(f"{payload.total()} bytes of payload on {len(counted)} interfaces")
    else:  # which do not log their payload
        total = sum(totals.bytes for totals in counted.values())
        yield note(f"{total} bytes, headers included, on {len(counted)} interfaces")


def host_kept_up(history: History, rules: Rules) -> Iterator[Finding]:
    """TCP had enough memory; on a real clock, nothing was late."""
    late_s = sum(event.seconds for event in history.all(Late))
    spent_s = sum(
        (phase.end_ns - phase.start_ns) / 1e9
        for done in history.phases.values()
        for phase in done
        if phase.doing is Doing.COMPUTING
    )
    slow = []
    if late_s > LATE_TOLERANCE * spent_s:
        slow.append(f"computing took {spent_s:.3f} s, {late_s:.3f} s longer than modelled")
    for event in history.all(TimersLate):
        if not 0 <= event.seconds <= event.of_s < math.inf:  # or not a number
            lateness = f"{event.seconds} s late of {event.of_s} s"
            yield fail(f"{event.site}: its timers cannot have been {lateness}")
        elif event.seconds > TIMER_TOLERANCE * event.of_s:
            share = event.seconds / event.of_s
            slow.append(f"{event.site}: timers were late for {share:.0%} of {event.of_s:.3f} s")
    yield from _check_watching(history, rules)
    if slow:
        yield doubt(TOO_SLOW)
        yield from map(doubt, slow)
    for run in history.all(RunFinished):
        yield judged()
        if run.short_of_memory:
            sites = ", ".join(run.short_of_memory)
            yield doubt(f"TCP reached its memory limit at {sites}: raise net.ipv4.tcp_mem")
    yield note(f"{spent_s:.3f} s of computing, {late_s:.3f} s late")


def _check_watching(history: History, rules: Rules) -> Iterator[Finding]:
    """On a real clock, each agent that exited cleanly said how late its timers were.

    Before the clock starts, an agent waits, which counts as late. So what was on time is no longer
    than the agent's time.
    """
    if rules.programs is not None or history.run is None or history.run.clock != "real":
        return
    told = Counter(event.site for event in history.all(TimersLate))
    clean = Counter(
        event.who
        for event in history.all(AgentExited)
        if not event.code and not event.signal and event.fault is None
    )
    for who in sorted(clean):
        if told[who] < clean[who]:
            yield doubt(f"{who}: it is not known whether its timers were late")
    for event in history.all(TimersLate):
        if event.of_s - event.seconds > event.t_ns / 1e9 + WATCHED_S:
            text = f"timers were watched for {event.of_s} s until {format_time(event.t_ns)}"
            yield fail(f"{event.site}: {text}")


def _check_growth(
    history: History, rules: Rules, totals: Mapping[Directed, LinkTotals]
) -> Iterator[Finding]:
    """What a link has carried grows from count to count, as fast as it can, up to its total.

    On a virtual clock, links are counted when a period of the counts ends.
    """
    conditions = Conditions.to_judge(history, rules.topology)
    counts: defaultdict[Directed, list[tuple[int, int]]] = defaultdict(lambda: [(0, 0)])
    for event in history.all(LinksCounted):
        if history.run and history.run.clock == "virtual" and event.t_ns % PERIOD_NS > COUNTED_NS:
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
            shaped_ns = conditions.shaped_span(ends, start_ns, end_ns)
            if _is_too_fast(history, rules, conditions, ends, after - before, *shaped_ns):
                span = f"from {format_time(start_ns)} to {format_time(end_ns)}"
                yield doubt(f"{' -> '.join(ends)}: {after - before} bytes {span} are too many")


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


def _list_arrivals(
    task: Task, least_ms: Mapping[Directed, float], losses: Losses
) -> Iterator[Transfer]:
    """What arrived, from the time at which its sender began; without its report it is left out."""
    starts: dict[tuple[str, str, str], int] = {}
    for out in task.all(Sent):
        key = out.site, out.dst, out.phase
        starts[key] = min(out.start_ns, starts.get(key, out.start_ns))
    for into in task.all(Received):
        start_ns = starts.get((into.src, into.site, into.phase))
        if start_ns is not None and not losses.before_report(task, into.src):
            end_ns = into.end_ns - round(least_ms.get((into.src, into.site), 0.0) * 1e6)
            yield Transfer(
                task.number, into.src, into.site, into.phase, into.bytes, start_ns, end_ns
            )


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


def _find_fastest(
    conditions: Conditions, ends: Directed, moved: list[tuple[int, int, int]]
) -> tuple[int, int, int]:
    """The window of intervals in a row whose bytes exceed the link's capacity most, as one of them.

    A bucket is full again only after a rest, so many short payloads in a row share one burst.
    """
    best, window = (-math.inf, moved[0]), (0, moved[0][1], moved[0][1])
    for size, start_ns, end_ns in moved:
        most = conditions.capacity_bytes(ends, [(window[1], start_ns)])
        if window[0] <= most:
            window = 0, start_ns, start_ns
        window = window[0] + size, window[1], end_ns
        excess = window[0] - conditions.capacity_bytes(ends, [(window[1], end_ns)])
        best = max(best, (excess, window))
    return best[1]


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
    # Duplicates are counted, and take none of the rate.
    packets = math.ceil(size / rules.frame_bytes)
    size -= conditions.most_copies(ends, packets) * rules.frame_bytes
    spells = conditions.spells[ends]
    # Jitter and overtaking move arrivals: bytes may have started before they were seen.
    links = [spell.link for spell in spells]
    late_ns = round(max(link.most_deviation_ms for link in links) * 1e6)
    allowed = conditions.capacity_bytes(ends, [(start_ns, end_ns + late_ns)])
    # When a rate falls, the shaper ends a frame that it began at the old rate.
    old_rate_bytes = rules.frame_bytes
    if history.run is not None and history.run.backend == "host":
        # The host's kernel still sends its queue at the old rate.
        old_rate_bytes = rules.topology.queue_bytes(rules.topology.link(*ends))
    allowed += old_rate_bytes * conditions.slowdowns(ends, start_ns, end_ns)
    rate = max(spell.link.rate_mbps for spell in spells) * 1e6 / 8
    early_bytes = EXACT_BYTES + rate * EXACT_S
    burst_bytes = max(early_bytes, _burst_bytes(history, conditions, ends))
    return size > allowed * (1 + RATE_TOLERANCE) + burst_bytes


def _burst_bytes(history: History, conditions: Conditions, ends: Directed) -> float:
    """What a link's shaper lets pass at once; the embedded kernel's lets nothing."""
    if history.run is not None and history.run.backend == "embedded":
        return 0
    rate = max(spell.link.rate_mbps for spell in conditions.spells[ends]) * 1e6 / 8
    return BURST_BYTES + rate * BURST_S


def _mean_mbps(conditions: Conditions, ends: Directed, start_ns: int, end_ns: int) -> float:
    taken_s = (end_ns - start_ns) / 1e9
    return conditions.capacity_bytes(ends, [(start_ns, end_ns)]) * 8e-6 / taken_s if taken_s else 0
