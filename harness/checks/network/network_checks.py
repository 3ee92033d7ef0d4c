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
    RunFinished,
    TimersLate,
)
from trunkline.agents.events.task_events import Received, Sent
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.network.altered_links import altered_rule
from trunkline.harness.checks.network.rate_limits import burst_bytes, is_too_fast, mean_mbps
from trunkline.harness.checks.network.slow_links import find_slow_links
from trunkline.harness.checks.payload.byte_checks import (
    find_disturbance,
    find_silent_sites,
)
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import (
    Finding,
    doubt,
    excused,
    fail,
    format_time,
    judged,
    note,
)
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.transfers import Transfer, transfers

DELAY_TOLERANCE, DELAY_TOLERANCE_S = 0.01, 0.0001
"""Allowed errors of a delay, relative and in seconds: timers are accurate to about 0.1 ms."""

LATE_TOLERANCE = 0.01
"""Allowed lateness as a share of all computing time; above it the host was too busy."""

TIMER_TOLERANCE = 0.1
"""Allowed lateness of an agent's timers as a share of the time they were watched."""

WATCHED_S = 0.1
"""An agent's timers may have been watched, and on time, this much longer than the agent ran."""

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
        at_once_bytes = burst_bytes(history, conditions, ends)
        long = [(start_ns, end_ns) for size, start_ns, end_ns in merged if size > at_once_bytes]
        for each in moved:
            place = bisect_right(long, (each.start_ns, math.inf)) - 1
            if place >= 0 and each.start_ns <= long[place][1]:
                yield judged()
            else:
                text = f"task {each.task} on {' -> '.join(ends)}: {each.bytes} bytes"
                yield excused("the host's shaper lets so few bytes pass at once", text)
        spans = [(t.bytes, t.start_ns, t.end_ns) for t in moved]
        spans += [*merged, _find_fastest(conditions, ends, merged)]
        fast = [span for span in spans if is_too_fast(history, rules, conditions, ends, *span)]
        if fast:
            size, start_ns, end_ns = max(fast)
            rate_mbps = mean_mbps(conditions, ends, start_ns, max(end_ns, start_ns + 1))
            yield doubt(
                f"{' -> '.join(ends)}: {size} bytes from {start_ns / 1e9:.3f} s to"
                f" {end_ns / 1e9:.3f} s are more than {rate_mbps:g} Mbit/s"
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
