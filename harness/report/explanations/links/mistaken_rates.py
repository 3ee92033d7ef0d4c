"""Links that plans took for much slower than they were, after faults (pure).

With measured rates, a plan avoids a link that a fault made slow. What no task uses is not measured
again, so plans may go on to avoid it long after the fault.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from trunkline.agents.events.awareness_events import PlansUpdated
from trunkline.agents.planning.plan import Directed
from trunkline.harness.config.units import count_of
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.record.link_history import Conditions
from trunkline.topologies.model import Topology

MUCH = 0.5
"""A link was mistaken if plans knew less than this share of its rate."""

LEAST_NS = 10**9
"""A shorter time is none."""

MOST = 3
"""So many links of a fault are named."""

LONGER, LEAST_TASKS = 1.1, 2
"""Plans took longer if the median of their expected times grew by this factor, of so many tasks."""


@dataclass(frozen=True, slots=True)
class Mistaken:
    """After a fault, plans knew so much less than the rate of a link.

    Attributes:
        believed_mbps: the lowest rate that plans took it for meanwhile.
        since_ns: from when plans knew the lower rate although nothing was wrong with the link.
        until_ns: until they knew better, or until the run ended.
    """

    link: Directed
    fault: int
    believed_mbps: float
    rate_mbps: float
    since_ns: int
    until_ns: int


def find_mistaken(history: History, topology: Topology) -> list[Mistaken]:
    """The links that plans took for much slower than they were, by fault and since when."""
    if not history.all(PlansUpdated):
        return []
    rates_mbps, conditions = topology.overlay.rates_mbps(), Conditions.of(history, topology)
    known_ns: dict[Directed, int] = {}
    found: dict[Directed, Mistaken] = {}
    done: list[Mistaken] = []
    for update in history.all(PlansUpdated):
        for src, dst, believed_mbps in update.links:
            link = src, dst
            rate_mbps = rates_mbps[link]
            if believed_mbps >= MUCH * rate_mbps:
                known_ns[link] = update.t_ns
                if link in found:
                    done.append(replace(found.pop(link), until_ns=update.t_ns))
            elif link in found:
                least_mbps = min(believed_mbps, found[link].believed_mbps)
                found[link] = replace(found[link], believed_mbps=least_mbps)
            elif link in known_ns and not _is_disturbed(conditions, link, update.t_ns):
                fault = _find_fault(history, link, known_ns[link], update.t_ns)
                if fault is not None:
                    number, times = fault.started.fault, (update.t_ns, history.end_ns)
                    found[link] = Mistaken(link, number, believed_mbps, rate_mbps, *times)
    every = [*done, *found.values()]
    return sorted(
        (each for each in every if each.until_ns - each.since_ns >= LEAST_NS),
        key=lambda each: (each.fault, each.since_ns, each.link),
    )


def describe_mistaken(
    found: Sequence[Mistaken], history: History, expected_s: Sequence[float]
) -> Iterator[str]:
    """A sentence on the links of each fault, and one on how long plans were to take.

    `expected_s` is what each task's plan was to take.
    """
    for number in dict.fromkeys(each.fault for each in found):
        own = [each for each in found if each.fault == number]
        own.sort(key=lambda each: each.believed_mbps / each.rate_mbps)
        names = [_describe_link(each, history) for each in own[:MOST]]
        if own[MOST:]:
            names.append(
                f"{count_of(len(own[MOST:]), 'other link')} for less than half of its rate"
            )
        yield (
            f"When fault {number} was over, plans still followed rates measured during it or just "
            f"after it: they took {'; '.join(names)}."
        )
    if found:
        yield from _compare_plans(found, history, expected_s)


def _describe_link(mistaken: Mistaken, history: History) -> str:
    """A link with both rates, and until when plans took it for so slow."""
    until_ns = mistaken.until_ns
    end = "the run ended" if until_ns == history.end_ns else f"{until_ns / 1e9:.3f} s"
    return (
        f"{' -> '.join(mistaken.link)} for as little as {mistaken.believed_mbps:.3g} of its "
        f"{mistaken.rate_mbps:.3g} Mbit/s, and for less than half until {end}"
    )


def _compare_plans(
    found: Sequence[Mistaken], history: History, expected_s: Sequence[float]
) -> Iterator[str]:
    """By how much such plans take longer than those before, of groups of the usual size."""
    first, last = min(each.fault for each in found), max(each.fault for each in found)
    begun_ns = next(e.started.t_ns for e in history.faults if e.started.fault == first)
    since_ns = min(each.since_ns for each in found if each.fault == last)
    until_ns = max(each.until_ns for each in found)
    usual, _ = Counter(len(task.started.group) for task in history.tasks).most_common(1)[0]
    timed = [
        (task.started.t_ns, seconds)
        for task, seconds in zip(history.tasks, expected_s, strict=True)
        if len(task.started.group) == usual and not math.isnan(seconds)
    ]
    before = [seconds for t_ns, seconds in timed if t_ns < begun_ns]
    after = [seconds for t_ns, seconds in timed if since_ns <= t_ns < until_ns]
    if min(len(before), len(after)) < LEAST_TASKS or median(after) < LONGER * median(before):
        return
    yield (
        f"Tasks that began from {since_ns / 1e9:.3f} to {until_ns / 1e9:.3f} s were expected to "
        f"take {median(after):.3f} s (the median), and those before fault {first} "
        f"{median(before):.3f} s. This is in no fault's cost for tasks."
    )


def _is_disturbed(conditions: Conditions, link: Directed, t_ns: int) -> bool:
    """Whether something is wrong with one of the links below, or of the way back, at a time."""
    topology = conditions.topology
    hops = (hop for ends in (link, link[::-1]) for hop in pairwise(topology.path(*ends)))
    spells = ((hop, conditions.spell(hop, t_ns)) for hop in hops)
    return any(spell.is_cut or spell.link != topology.link(*hop) for hop, spell in spells)


def _find_fault(history: History, link: Directed, known_ns: int, t_ns: int) -> Disturbance | None:
    """The latest fault on a link, its way back, or one of its sites, before a time.

    It acted after plans had known the link's rate: one that was over then is behind nothing.
    """
    names = {*link, " -> ".join(link), " -> ".join(link[::-1])}
    before = [
        each
        for each in history.faults
        if each.started.t_ns < t_ns
        and (each.end_ns is None or each.end_ns > known_ns)
        and names.intersection(each.started.targets)
    ]
    return max(before, key=lambda each: each.started.t_ns, default=None)
