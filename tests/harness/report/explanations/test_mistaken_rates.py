"""Links that plans took for slower than they were after a fault, from made-up logs."""

from __future__ import annotations

import math

import pytest

from trunkline.agents.events.awareness_events import LinkRate, PlansUpdated
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted, LinkChanged
from trunkline.agents.events.task_events import TaskCompleted, TaskStarted
from trunkline.agents.planning.plan import Plan
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.links.mistaken_rates import (
    Mistaken,
    describe_mistaken,
    find_mistaken,
)
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

S = 10**9
SITES = "a", "b", "c"
LINKS = tuple(Link(x, y, 40.0, 10.0) for x in SITES for y in SITES if x != y)
MESH = Topology("mesh", tuple(map(Site, SITES)), LINKS)


def update(t_s: float, mbps: float) -> Event:
    """Plans know this rate of the link from a to b; that of the other link is right."""
    rates = LinkRate("a", "b", mbps), LinkRate("b", "c", 39.0)
    return PlansUpdated(round(t_s * S), "controller", 1, rates)


def change(t_s: float, rate_mbps: float) -> Event:
    return LinkChanged(round(t_s * S), "runner", "a", "b", rate_mbps, 10.0, 0.0, 0.0, ())


FAULT = [
    FaultStarted(5 * S, "runner", 0, "setlink", "setlink a b rate=4Mbit/s", ("a -> b",)),
    change(5, 4.0),
    change(8, 40.0),
    FaultEnded(8 * S, "runner", 0),
]


def make(*events: Event) -> History:
    return History.of(sorted([*events, update(20, 39.0)], key=lambda event: event.t_ns))


def find(*events: Event) -> list[tuple[float, float, float]]:
    history = make(*FAULT, *events)
    found = find_mistaken(history, MESH)
    assert all((each.link, each.fault, each.rate_mbps) == (("a", "b"), 0, 40.0) for each in found)
    return [(each.believed_mbps, each.since_ns / S, each.until_ns / S) for each in found]


def test_a_link_is_mistaken_from_the_end_of_the_fault_until_plans_know_better() -> None:
    assert find(update(2, 39.0), update(6, 4.0), update(9, 4.0), update(12, 4.0)) == [(4.0, 9, 20)]
    assert find(update(2, 39.0), update(6, 4.0), update(9, 4.0), update(12, 30.0)) == [(4.0, 9, 12)]
    lower = update(2, 39.0), update(6, 4.0), update(9, 4.0), update(12, 3.0), update(14, 15.0)
    assert find(*lower) == [(3.0, 9, 20)]  # the lowest counts


@pytest.mark.parametrize(
    "events",
    [
        (update(2, 39.0), update(6, 4.0), update(9, 39.0)),  # known at once
        (update(2, 39.0), update(9, 25.0)),  # more than half
        (update(2, 39.0), update(6, 4.0), update(9, 39.0), update(11, 4.0)),  # known meanwhile
        (update(2, 4.0), update(9, 4.0)),  # never known, so no fault's
        (update(2, 39.0), update(6, 4.0), update(9, 4.0), update(9.5, 39.0)),  # too short
    ],
)
def test_a_link_is_not_mistaken(events: tuple[Event, ...]) -> None:
    assert find(*events) == []


def test_plans_are_compared_with_those_before_the_fault() -> None:
    def task(number: int, t_s: int, *group: str) -> list[Event]:
        plan = Plan(group, group, 0, ()).to_json()
        weights = dict.fromkeys(group, 1.0)
        names = "", "", group, weights, 1.0
        started = TaskStarted(t_s * S, "controller", number, *names, 0, 0, plan)  # type: ignore[arg-type]
        return [started, TaskCompleted((t_s + 1) * S, "controller", number)]

    tasks = [e for n, t_s in enumerate((1, 3, 10, 12)) for e in task(n, t_s, *SITES)]
    history = make(*FAULT, *tasks, *task(4, 14, "a", "b"))
    found = [Mistaken(("a", "b"), 0, 4.0, 40.0, 9 * S, history.end_ns)]
    first, second = describe_mistaken(found, history, [0.5, 0.5, 0.8, 0.8, math.nan])
    assert first == (
        "When fault 0 was over, plans still followed rates measured during it or just after it: "
        "they took a -> b for as little as 4 of its 40 Mbit/s, and for less than half until the "
        "run ended."
    )
    assert second == (
        "Tasks that began from 9.000 to 20.000 s were expected to take 0.800 s (the median), and "
        "those before fault 0 0.500 s. This is in no fault's cost for tasks."
    )
    assert len([*describe_mistaken(found, history, [0.8, 0.8, 0.8, 0.8, 0.1])]) == 1
