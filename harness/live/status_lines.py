"""The state of a run in progress as the lines of the shell's `status` and `links` (pure)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from trunkline.agents.planning.plan import Directed
from trunkline.harness.config.units import (
    RATE_MBPS,
    SHARE_PERCENT,
    TIME_MS,
    Dimension,
    count_of,
    render,
    short,
)
from trunkline.harness.faults.fault_types import Fault
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.live.live_state import RunState
from trunkline.harness.network.interface import Cut, LinkCounters
from trunkline.topologies.links import Link, describe_impairments
from trunkline.topologies.model import Topology

MOST_RATES = 8
"""How many links `status` lists with their rates: the busiest ones."""

MOST_PAST = 5
"""How many faults that are over `status` lists: the last ones."""

SHOWN_S = 0.05
"""Rates of a shorter time are not told."""

_VALUES: tuple[tuple[str, Dimension], ...] = (
    ("rate_mbps", RATE_MBPS),
    ("delay_ms", TIME_MS),
    ("jitter_ms", TIME_MS),
    ("loss_percent", SHARE_PERCENT),
)

Line = tuple[str, str]
"""The subject of a line of `status`, and its text."""


def describe(
    state: RunState,
    now_ns: int,
    going: Iterable[tuple[int, Fault]],
    changed: Iterable[tuple[Link, Link, frozenset[Cut]]],
    rates_mbps: Mapping[Directed, float],
    of_s: float,
) -> list[Line]:
    """The lines of `status`; `going` and `changed` are the timeline's, the rates are of `of_s`."""
    lines = [("done", _describe_done(state))]
    lines += _describe_tasks(state, now_ns)
    lines += _describe_sites(state, now_ns)
    active = dict(going)
    lines += _describe_past(state, active)
    for number, fault in active.items():
        begun = state.faults.get(number)
        lasts_s = (now_ns - (begun.t_ns if begun else now_ns)) / 1e9
        typed = ", typed" if begun and begun.asked else ""
        lines.append((f"fault {number}", f"{write(fault)}{typed}, active for {lasts_s:.1f} s"))
    sites = state.topology.site_names
    lines += [(who, how) for who, how in state.stopped.items() if who not in sites]
    lines += [
        (f"{link.src} -> {link.dst}", ", ".join(_describe_changes(given, link, cuts)))
        for given, link, cuts in changed
    ]
    return [*lines, _describe_rates(rates_mbps, of_s)]


def _describe_past(state: RunState, active: Collection[int]) -> Iterator[Line]:
    """The last faults that are not active any more, in the run's time; the others are counted."""
    spans = {number: (begun, None) for number, begun in state.faults.items()} | state.over
    past = sorted(number for number in spans if number not in active)
    if (left := len(past) - MOST_PAST) > 0:
        yield "faults", f"{count_of(left, 'earlier fault')}, in the log"
    for number in past[-MOST_PAST:]:
        begun, end_ns = spans[number]
        from_s = (begun.t_ns - (state.start_ns or 0)) / 1e9
        when = f"at {from_s:.1f} s"
        if end_ns is not None and end_ns > begun.t_ns:
            when = f"over, from {from_s:.1f} s to {(end_ns - (state.start_ns or 0)) / 1e9:.1f} s"
        yield f"fault {number}", f"{begun.text}{', typed' if begun.asked else ''}, {when}"


def _describe_done(state: RunState) -> str:
    """What is done: programs that have ended and what they reported, or tasks and rounds."""
    if state.ended is not None:
        ended = f"{state.ended} of {count_of(len(state.awaited or state.programs), 'program')}"
        syncs = f", {count_of(state.completed, 'synchronization')}" if state.completed else ""
        return f"{ended} ended{syncs}"
    abandoned = f", {state.abandoned} abandoned" if state.abandoned else ""
    tasks, rounds = count_of(state.completed, "task"), count_of(state.rounds, "round")
    alone = f" and {state.rounds_alone} alone" if state.rounds_alone else ""
    return f"{tasks}{abandoned}, {rounds}{alone}"


def compare_faults(before: Mapping[int, Fault], after: Mapping[int, Fault]) -> str:
    """The faults that ended or began between two times, a line for each, by those active then."""
    ended = [f"fault {n} ended: {write(before[n])}\n" for n in before if n not in after]
    begun = [f"fault {n} began: {write(after[n])}\n" for n in after if n not in before]
    return "".join(ended + begun)


def describe_links(
    topology: Topology, changed: Iterable[tuple[Link, Link, frozenset[Cut]]]
) -> list[Line]:
    """The lines of `links`: the values of every directed link now, and what is not as built."""
    differing = {(each[0].src, each[0].dst): each for each in changed}
    lines = []
    for built in topology.links:
        given, link, cuts = differing.get((built.src, built.dst), (built, built, frozenset()))
        values = [
            f"{name.rpartition('_')[0]} {short(getattr(link, name), dimension)}"
            for name, dimension in _VALUES
            if getattr(link, name) or name == "rate_mbps"
        ]
        values += [rare] if (rare := describe_impairments(link)) else []
        former = (f"as built: {key} {before}" for key, _, before in _list_changes(given, link))
        changes = [*sorted(cuts), *former]
        state = f" ({', '.join(changes)})" if changes else ""
        lines.append((f"{link.src} -> {link.dst}", ", ".join(values) + state))
    return lines


def compute_rates_mbps(
    before: Mapping[Directed, LinkCounters], after: Mapping[Directed, LinkCounters], of_s: float
) -> dict[Directed, float]:
    """What arrived over every link between two readings of its counters, headers included.

    A blackhole counts the packets that it swallows, not their bytes: they count as average ones.
    """
    if of_s <= 0:
        return {}
    return {ends: _count_arrived(before[ends], now) * 8e-6 / of_s for ends, now in after.items()}


def _count_arrived(before: LinkCounters, after: LinkCounters) -> float:
    """The bytes that crossed a link between two readings and were not swallowed."""
    packets = after.packets - before.packets
    arrived = max(0, packets - (after.swallowed - before.swallowed))
    return (after.bytes - before.bytes) * arrived / packets if packets else 0.0


def _describe_tasks(state: RunState, now_ns: int) -> Iterator[Line]:
    for number, task in state.tasks.items():
        if missing := [site for site in task.group if site in task.unfinished]:
            lasts = f"for {(now_ns - task.start_ns) / 1e9:.1f} s"
            yield (
                f"task {number}",
                f"{' '.join(task.group)}, {lasts}; waits for {' '.join(missing)}",
            )


def _describe_sites(state: RunState, now_ns: int) -> Iterator[Line]:
    together: defaultdict[str, list[str]] = defaultdict(list)
    for site in state.topology.site_names:
        activity, since_ns = state.activity_of(site)
        lasts = f" ({(now_ns - since_ns) / 1e9:.1f} s)" if activity.startswith("waiting") else ""
        together[activity].append(site + lasts)
    for activity, sites in together.items():
        yield "sites", f"{activity}: {', '.join(sites)}"


def show_rate(mbps: float) -> str:
    """A rate with three digits: 1.23, 12.3, 123, 1230."""
    return f"{mbps:.{max(0, 2 - math.floor(math.log10(mbps)))}f}" if mbps >= 0.01 else "0"


def _describe_rates(rates_mbps: Mapping[Directed, float], of_s: float) -> Line:
    if of_s < SHOWN_S:
        return "Mbit/s", "not known yet: no time has passed"
    order = sorted(rates_mbps, key=lambda ends: (-float(show_rate(rates_mbps[ends])), ends))
    busiest = order[:MOST_RATES]
    carried = [
        f"{a} -> {b} {show_rate(rates_mbps[a, b])}" for a, b in busiest if rates_mbps[a, b] >= 0.05
    ]
    return "Mbit/s", f"{', '.join(carried) or 'nothing'} (over the last {of_s:.1f} s)"


def _describe_changes(given: Link, link: Link, cuts: frozenset[Cut]) -> Iterator[str]:
    yield from sorted(cuts)
    for key, value, before in _list_changes(given, link):
        yield f"{key} {value} (as built {before})"


def _list_changes(given: Link, link: Link) -> Iterator[tuple[str, str, str]]:
    """The key, the value and the former value of what differs from the link as built."""
    for name, dimension in _VALUES:
        value, before = getattr(link, name), getattr(given, name)
        if value != before:
            key = name.rpartition("_")[0]
            yield key, render(value, dimension), render(before, dimension)
    rare, before = (describe_impairments(each) or "none" for each in (link, given))
    if rare != before:
        yield "impairments", rare, before
