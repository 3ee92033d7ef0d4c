"""The links that a fault affects, and a check of its values for them (pure)."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trunkline.agents.planning.plan import Directed
from trunkline.harness.faults.fault_parts import ALL, Direction, FaultError
from trunkline.harness.faults.fault_problems import FaultProblems
from trunkline.harness.faults.fault_types import Fault, Partition, Redraw, SetLink
from trunkline.harness.faults.recorded.recorded_faults import Trace
from trunkline.topologies.links import TopologyError, check_values, fit
from trunkline.topologies.model import Topology


def directed_links(a: str, b: str, direction: Direction) -> tuple[Directed, ...]:
    """The directed links that a fault between two sites affects."""
    return ((a, b), (b, a)) if direction == "both" else ((a, b),)


def links_of(fault: SetLink, links: Iterable[Directed]) -> tuple[Directed, ...]:
    """The directed links whose values a fault sets; one-way, a site's links are those from it."""
    if fault.b != ALL:
        return directed_links(fault.a, fault.b, fault.direction)
    both = fault.direction == "both"
    return tuple(ends for ends in links if ends[0] == fault.a or (both and ends[1] == fault.a))


def links_between(groups: Sequence[Sequence[str]], links: Iterable[Directed]) -> list[Directed]:
    """The links between the groups of a partition; a single group is cut off from all others."""
    sides = {site: number for number, group in enumerate(groups) for site in group}
    others = -1 if len(groups) == 1 else None
    pairs = {(a, b): (sides.get(a, others), sides.get(b, others)) for a, b in links}
    return [ends for ends, (a, b) in pairs.items() if a != b and None not in (a, b)]


def check(fault: Fault, topology: Topology) -> None:
    """Check that a partition cuts links, and the values of a fault on every link that it changes.

    If only the delay changes, a longer jitter shrinks with it, as in `harness.faults.timeline`.

    Raises:
        FaultError: no link is cut, or a link cannot have values; the message is then that of a
            topology with these values.
    """
    changes: Sequence[Mapping[str, Any]]
    match fault:
        case Partition(groups=groups):
            if not links_between(groups, topology.rates_mbps()):
                raise FaultError(
                    "this cuts no link: expected groups with links between them, or one group "
                    "with links to other sites"
                )
            return
        case SetLink():
            pairs, changes = links_of(fault, topology.rates_mbps()), [fault.values()]
        case Trace(a=a, b=b, direction=direction):
            pairs, changes = directed_links(a, b, direction), _list_extremes(fault)
        case Redraw():
            pairs = tuple(topology.rates_mbps())
            changes = [{k: each[i] for k, each in fault.ranges().items()} for i in (0, 1)]
        case _:
            return
    problems: dict[str, str] = {}
    for src, dst in pairs:
        where = f"link {src} -> {dst}"
        link = topology.link(src, dst)
        link = replace(link, queue_bytes=topology.queue_bytes(link))
        for values in changes:
            try:
                check_values(where, fit(replace(link, **values), values))
            except TopologyError as error:
                for text in error.problems:
                    problems.setdefault(text.removeprefix(where), text)
    found = FaultProblems()
    found.note(problems.values())
    found.refuse()


def _list_extremes(trace: Trace) -> list[Mapping[str, float]]:
    """The least and the largest of each value, and the largest jitter with its delay."""
    found: list[Mapping[str, float]] = []
    for name in ("rate_mbps", "delay_ms", "loss_percent"):
        column = [values[name] for step in trace.steps if name in (values := step.values())]
        found += [{name: pick(column)} for pick in (min, max) if column]
    states = itertools.accumulate((step.values() for step in trace.steps), operator.or_)
    jitters = [state for step, state in zip(trace.steps, states, strict=True)
               if step.jitter_ms is not None]  # fmt: skip
    largest: dict[str, float] = max(jitters, key=lambda state: state["jitter_ms"], default={})
    found.append({name: largest[name] for name in ("jitter_ms", "delay_ms") if name in largest})
    return found
