"""The busiest link of a run of programs, and whether rates were the limit (pure).

Interfaces are counted a few times a second. What a link carried between two counts is taken to
belong to calls that moved bytes meanwhile, but for what it carries while no call is under way.
If links carry bytes in turn, none of them is busy for long. So the busiest link of each moment
tells, for each kind of call, whether rates were the limit: in the times between two counts in which
calls of this kind moved bytes all the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trunkline.agents.events.run_events import LinksCounted
from trunkline.agents.planning.plan import Directed
from trunkline.harness.config.units import short_size
from trunkline.harness.network.count_times import list_times
from trunkline.harness.record.calls import Call, list_calls
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.step_times import list_moving
from trunkline.harness.record.transfers import union
from trunkline.harness.report.calls.calls_in_faults import find_fault_times
from trunkline.harness.report.calls.silent_links import find_counts
from trunkline.harness.report.calls.steps.step_tables import PARTS
from trunkline.harness.report.overlay.link_load import count_counted_bytes
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.model import Topology

LIMIT_SHARE = 0.8
"""Links that carried such a share of their rates while calls moved bytes were the limit."""

LITTLE_SHARE = 0.5
"""Links that carried less were not."""

COUNTS_IN_CALL = 2
"""Rates are not said to be no limit unless so many counts are in a usual call of the kind."""

ALL = 0.95
"""Calls moved bytes all the time between two counts if they did so for this share of it."""

LEAST_COUNTS = 3
"""So many such times tell something of a kind of call."""

LEAST_SHARE = 0.1
"""A kind of call that moved bytes for a smaller share of the time is not told of."""

NEW_SHARE = 0.5
"""Nor is another size of the same calls, which is a kind if so much of its time is its own."""

CUT_SHARE = 0.1
"""Cuts of links are why rates were not the limit if they lasted for this share of the time."""

MOST_KINDS = 3
"""The most kinds of calls that are told of."""


@dataclass(frozen=True, slots=True)
class KindLoad:
    """The load of links while calls of one name and size moved bytes.

    Attributes:
        seconds: how long such calls moved bytes.
        share: the share of its rate that the busiest link of each moment carried, on average; None
            if counts were too far apart to tell.
        is_fine: whether counts were so close that links that carry bytes in turn are told apart.
        cut_s: in how much of this time a link was cut.
    """

    name: str
    bytes: int
    seconds: float
    share: float | None
    is_fine: bool
    cut_s: float = 0.0

    def describe(self) -> str:
        """A sentence on whether rates were the limit."""
        what = f"{self.name} ({short_size(self.bytes)})" if self.bytes else self.name
        if self.share is None:
            return f"Calls of {what} are too short for the counts of links to tell their limit."
        said = (
            f"While {what} moved bytes, one link or another carried {100 * self.share:.0f} % of "
            "its rate"
        )
        if self.share >= LIMIT_SHARE:
            return f"{said}: rates were the limit."
        if not self.is_fine:
            return f"{said}, or more, as calls are short for the counts of links."
        if self.share >= LITTLE_SHARE:
            return f"{said}: rates and delays shared that time."
        why = (
            "Delays, and TCP on new or idle connections, took more time than the bytes at these "
            "rates."
        )
        if self.cut_s >= CUT_SHARE * self.seconds:
            why = f"Links were cut for {self.cut_s:.3f} s of these {self.seconds:.3f} s."
        return f"{said}: rates were not the limit. {why}"


@dataclass(frozen=True, slots=True)
class Busiest:
    """The link that carried most of what its rate allows.

    Attributes:
        mbps: its load on average over the run, headers included.
        rate_mbps: its rate, on average over the run.
        moving_share: the share of its rate that it carried while a call moved bytes.
        range_mbps: the lowest and the highest rate that it had in the run.
        kinds: what links carried during each kind of call, the kind that took most time first.
    """

    ends: Directed
    mbps: float
    rate_mbps: float
    moving_share: float
    range_mbps: tuple[float, float] = (0.0, 0.0)
    kinds: tuple[KindLoad, ...] = ()

    def describe(self, is_most: bool) -> str:
        """In sentences; `is_most` says that moving bytes was the largest part of the time."""
        src, dst = self.ends
        low, high = (f"{mbps:.4g}" for mbps in self.range_mbps)
        changed = f" (its rate changed between {low} and {high} Mbit/s)" * (low != high)
        said = (
            f"The busiest link, {src} -> {dst}, carried {self.mbps:.3g} of its "
            f"{self.rate_mbps:.4g} Mbit/s on average{changed}, and {100 * self.moving_share:.0f} % "
            "of its rate while calls moved bytes"
        )
        if self.moving_share >= LIMIT_SHARE:
            return f"{said}: its rate was the limit."
        kinds = [each for each in self.kinds if is_most or (each.share or 0.0) >= LIMIT_SHARE]
        return " ".join([f"{said}.", *(each.describe() for each in kinds)])


def describe_busiest(history: History, scenario: Scenario, sums: pd.DataFrame) -> Iterator[str]:
    """A sentence on the busiest link, and whether rates were the limit; none if none moved bytes.

    `sums` are the parts of the time of programs.
    """
    busiest = find_busiest(history, scenario.topology, scenario.programs)
    if busiest is not None:
        yield busiest.describe(sums[list(PARTS)].mean().idxmax() == "moving_s")


def find_busiest(history: History, topology: Topology, programs: Iterable[str]) -> Busiest | None:
    """The busiest link while calls moved bytes; None if none did, or if no bytes were counted."""
    programs = tuple(programs)
    late_ns = find_fault_times(history, programs).since_ns
    moving = tuple(list_moving(history, programs, late_ns))
    spans = tuple(union(span for _, span in moving))
    if not spans or not history.end_ns or not history.all(LinksCounted):
        return None
    conditions, counted = Conditions.of(history, topology), _Counted(history)
    carried = counted.find_carried(spans)
    shares = {
        ends: sum(own.values()) / room
        for ends, own in carried.items()
        if (room := conditions.capacity_bytes(ends, spans))
    }
    busiest = max(shares, key=lambda ends: shares[ends], default=None)
    if busiest is None or not shares[busiest]:
        return None
    (sent,) = count_counted_bytes(history, (busiest,), np.array([0.0, history.end_ns]))
    rates = [spell.link.rate_mbps for spell, _, _ in conditions.within(busiest, 0, history.end_ns)]
    return Busiest(
        busiest,
        8e3 * float(sent[0]) / history.end_ns,
        conditions.mean_rate_mbps(busiest, history.end_ns),
        min(1.0, shares[busiest]),
        (min(rates), max(rates)),
        tuple(_list_kinds(moving, counted, conditions)),
    )


class _Counted:
    """The bytes that links carried between the counts of a run.

    Attributes:
        edges_ns: when links were counted, from the start on.
        places: of each count but the last one, in their order.
        calls: when a call was under way.
    """

    def __init__(self, history: History) -> None:
        self.counts = find_counts(history)
        self.edges_ns = [0, *list_times(history.end_ns)]
        self.places = {t_ns: place for place, t_ns in enumerate(self.edges_ns[:-1])}
        self.calls = tuple(
            union(
                (call.started.t_ns, history.end_ns if call.finished is None else call.finished.t_ns)
                for call in list_calls(history)
            )
        )

    def measure_ns(self, spans: Sequence[Interval]) -> NDArray[np.float64]:
        """How much of these spans, which do not overlap, is between each count and the next."""
        edges_ns = [t_ns for span in spans for t_ns in span]
        past_ns = np.cumsum(np.diff(edges_ns, prepend=edges_ns[0]) * (np.arange(len(edges_ns)) % 2))
        return np.diff(np.interp(self.edges_ns, edges_ns, past_ns))

    def find_carried(self, spans: Sequence[Interval]) -> Mapping[Directed, Mapping[int, float]]:
        """The bytes of each link in these spans, by the place of the count before.

        It carries as much beside calls as while no call is under way.
        """
        lengths_ns, within_ns = np.diff(self.edges_ns), self.measure_ns(spans)
        idle = self.measure_ns(self.calls) == 0
        idle_ns = float(lengths_ns[idle].sum())
        found = defaultdict[Directed, dict[int, float]](dict)
        for ends, counts in self.counts.items():
            known = {
                self.places[since_ns]: carried
                for since_ns, _, carried in counts
                if since_ns in self.places
            }
            beside = sum(carried for place, carried in known.items() if idle[place])
            per_ns = beside / idle_ns if idle_ns else 0.0
            for place, carried in known.items():
                if within_ns[place]:
                    rest_ns = float(lengths_ns[place] - within_ns[place])
                    found[ends][place] = max(0.0, carried - per_ns * rest_ns)
        return found


def _list_kinds(
    moving: Sequence[tuple[Call, Interval]], counted: _Counted, conditions: Conditions
) -> Iterator[KindLoad]:
    """The load of links during each kind of call, that with most bytes first.

    Kinds that took little time, or have few of the bytes, are left out. So is the other size of the
    same calls: the root of a gather has more bytes than the others.
    """
    by_kind = defaultdict[tuple[str, int], list[Interval]](list)
    for call, span in moving:
        by_kind[call.started.name, call.started.bytes].append(span)
    sizes = {(name, size): size * len(spans) for (name, size), spans in by_kind.items()}
    least_ns = LEAST_SHARE * _measure(union(span for _, span in moving))
    least_bytes = LEAST_SHARE * max(sizes.values())
    told: dict[str, tuple[Interval, ...]] = {}
    for kind in sorted(sizes, key=lambda kind: (-sizes[kind], kind)):
        name, spans = kind[0], union(by_kind[kind])
        both_ns = _measure(union([*spans, *told.get(name, ())]))
        new_ns = both_ns - _measure(told.get(name, ()))
        is_short = new_ns < max(least_ns, NEW_SHARE * _measure(spans))
        if not is_short and sizes[kind] >= least_bytes and len(told) < MOST_KINDS:
            told[name] = union([*told.get(name, ()), *spans])
            yield _load_kind(kind, by_kind[kind], counted, conditions)


def _load_kind(
    kind: tuple[str, int],
    moving: Sequence[Interval],
    counted: _Counted,
    conditions: Conditions,
) -> KindLoad:
    """The load of links in these times, in which single calls moved bytes."""
    spans, lengths_ns = union(moving), np.diff(counted.edges_ns)
    inside = np.flatnonzero(counted.measure_ns(spans) >= ALL * lengths_ns).tolist()
    seconds = _measure(spans) / 1e9
    if len(inside) < LEAST_COUNTS:
        return KindLoad(*kind, seconds, None, is_fine=False)
    cut_s = _measure(_list_cuts(spans, conditions)) / 1e9
    most = dict.fromkeys(inside, 0.0)
    for ends, counts in counted.counts.items():
        for since_ns, t_ns, carried in counts:
            place = counted.places.get(since_ns, -1)
            if place in most and (room := conditions.capacity_bytes(ends, [(since_ns, t_ns)])):
                most[place] = max(most[place], min(1.0, carried / room))
    weights = lengths_ns[inside]
    share = float(np.average([most[place] for place in inside], weights=weights))
    usual_ns = float(np.average(weights, weights=weights))
    is_fine = COUNTS_IN_CALL * usual_ns <= _find_usual_ns(moving)
    return KindLoad(*kind, seconds, round(share, 2), is_fine, cut_s)


def _list_cuts(spans: Iterable[Interval], conditions: Conditions) -> tuple[Interval, ...]:
    """The times within these in which a link was cut."""
    return union(
        (start_ns, end_ns)
        for span in spans
        for ends in conditions.spells
        for spell, start_ns, end_ns in conditions.within(ends, *span)
        if spell.is_cut
    )


def _measure(spans: Iterable[Interval]) -> int:
    """The sum of times that do not overlap, in ns."""
    return sum(end - start for start, end in spans)


def _find_usual_ns(moving: Sequence[Interval]) -> float:
    """How long a call moved bytes: half of all time that calls did was in longer ones."""
    lengths = np.sort([end - start for start, end in moving])
    return float(lengths[np.searchsorted(lengths.cumsum(), lengths.sum() / 2)])
