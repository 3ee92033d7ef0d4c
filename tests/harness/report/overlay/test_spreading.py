"""When the bytes of a transfer were on the link: times and bytes in, pieces out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from trunkline.agents.events.causes import SiteLost
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged, LinkChanged
from trunkline.agents.events.task_events import (
    BlocksHeard,
    HaltHeard,
    Received,
    Sent,
    TaskCompleted,
    TaskFinished,
    TaskHalted,
    TaskRearranged,
    TaskReplanned,
    TaskStarted,
)
from trunkline.agents.planning.plan import Block, Plan
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.overlay.link_load import compute_loads
from trunkline.harness.report.overlay.spreading import spread
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

MS = 1_000_000
SITES = "a", "b", "c"
LINKS = tuple(Link(src, dst, 8.0, 10.0) for src in SITES for dst in SITES if src != dst)
TOPOLOGY = Topology("three", tuple(map(Site, SITES)), LINKS)
"""Links carry 1 kB in a millisecond."""

Pieces = list[tuple[int, int, int]]
"""The bytes of each piece, and when it starts and ends in ms."""


def make_plan(*blocks: Block) -> dict[str, Any]:
    return Plan(("a", "b"), ("a", "b"), 4, blocks).to_json()


def carry(*edges: Sequence[str]) -> Block:
    """A block of all four chunks, 1 MB in all, that is multicast along these edges."""
    return Block(((0, 4),), "a", (), tuple(map(tuple, edges)))


def multicast(size: int, *events: Event) -> History:
    """A multicast of so many bytes from a to b, from 0 to 4 s."""
    weights = {"a": 1.0, "b": 1.0}
    plan = make_plan(carry(("a", "b")))
    log = (
        TaskStarted(0, "controller", 0, "", "", ("a", "b"), weights, 0.5, 10**6, 250_000, (), plan),
        Sent(4020 * MS, "a", 0, "b", "out", size, 1, 0, 4000 * MS),
        Received(4020 * MS, "b", 0, "a", "out", size, 1, 10 * MS, 4010 * MS),
        TaskFinished(4020 * MS, "b", 0, "", ()),
        TaskCompleted(4030 * MS, "controller", 0),
        *events,
    )
    return History.of(sorted(log, key=lambda event: event.t_ns))


def list_pieces(size: int, *events: Event, topology: Topology = TOPOLOGY) -> Pieces:
    """The pieces of a multicast of so many bytes from a to b, from 0 to 4 s."""
    history = multicast(size, *events)
    found = spread(history, Conditions.of(history, topology))
    assert {(each.task, each.src, each.dst, each.phase) for each in found} == {(0, "a", "b", "out")}
    assert sum(each.bytes for each in found) == size
    return sorted((each.bytes, each.start_ns // MS, each.end_ns // MS) for each in found)


def change(t_ms: int, src: str, dst: str, rate_mbps: float = 8.0, *cuts: str) -> LinkChanged:
    return LinkChanged(t_ms * MS, "runner", src, dst, rate_mbps, 10.0, 0.0, 0.0, cuts)


def repair(t_ms: int, *blocks: Block) -> tuple[Event, ...]:
    """A halt 100 ms before a new plan, of which the sender hears 10 ms later, as of the halt."""
    return (
        TaskHalted((t_ms - 100) * MS, "controller", 0, "c is lost", ("a", "b")),
        HaltHeard((t_ms - 90) * MS, "a", 0, finished=False),
        TaskReplanned(t_ms * MS, "controller", 0, 1, None, make_plan(*blocks), "c is lost"),
        BlocksHeard((t_ms + 10) * MS, "a", 0, 2),
    )


def test_an_undisturbed_transfer_is_one_piece() -> None:
    assert list_pieces(1000) == [(1000, 0, 4000)]
    assert list_pieces(1000, change(1000, "a", "c", 8.0, "blackhole")) == [(1000, 0, 4000)]


def test_nothing_is_sent_while_the_link_is_cut() -> None:
    cut, mended = change(1000, "a", "b", 8.0, "blackhole"), change(3500, "a", "b")
    assert list_pieces(3000, cut, mended) == [(1000, 3500, 4000), (2000, 0, 1000)]


def test_nothing_is_sent_while_a_later_link_of_the_way_is_cut() -> None:
    ends = ("a", "r"), ("r", "a"), ("r", "b"), ("b", "r")
    links = tuple(Link(*each, 8.0, 10.0) for each in ends)
    routed = Topology("routed", (Site("a"), Site("b")), links, routers=("r",))
    cut, mended = change(1010, "r", "b", 8.0, "blackhole"), change(3510, "r", "b")
    assert list_pieces(3000, cut, mended, topology=routed) == [(1000, 3500, 4000), (2000, 0, 1000)]


@pytest.mark.parametrize("who", ["a", "b"])
def test_nothing_is_sent_while_the_sender_is_paused(who: str) -> None:
    pause = AgentChanged(1000 * MS, "runner", who, "pause", 0)
    resume = AgentChanged(3000 * MS, "runner", who, "resume", 0)
    expected = [(1000, 0, 1000), (1000, 3000, 4000)] if who == "a" else [(2000, 0, 4000)]
    assert list_pieces(2000, pause, resume) == expected


def test_no_more_is_sent_in_a_slow_time_than_the_rate_allows() -> None:
    slow = change(2000, "a", "b", 0.008)
    assert list_pieces(1_002_000, slow) == [(2000, 2000, 4000), (1_000_000, 0, 2000)]


def test_a_transfer_that_was_always_cut_is_left_whole() -> None:
    assert list_pieces(3000, change(0, "a", "b", 8.0, "blackhole")) == [(3000, 0, 4000)]


def test_what_a_repair_planned_comes_after_the_repair() -> None:
    new = carry(("a", "b"))
    assert list_pieces(1_200_000, *repair(2000, new)) == [
        (200_000, 0, 1910),
        (1_000_000, 2010, 4000),
    ]


def test_a_sender_that_had_finished_sends_no_more_until_a_repair() -> None:
    events = *repair(2000, carry(("a", "b"))), TaskFinished(500 * MS, "a", 0, "", ())
    assert list_pieces(1_200_000, *events) == [(200_000, 0, 500), (1_000_000, 2010, 4000)]


def test_a_link_that_was_slowed_carries_what_a_sender_had_handed_to_it_until_a_repair() -> None:
    done = TaskFinished(50 * MS, "a", 0, "", ())
    events = *repair(2000, carry(("a", "b"))), done, change(100, "a", "b", 0.8)
    assert list_pieces(1_200_000, *events) == [
        (100_000, 0, 100),
        (100_000, 100, 1100),
        (1_000_000, 2010, 4000),
    ]


def test_only_the_blocks_that_no_later_repair_withdrew_are_known() -> None:
    whole = carry(("a", "b"))
    events = *repair(1000, whole), *repair(2000, whole)
    assert list_pieces(1_200_000, *events) == [(200_000, 0, 1910), (1_000_000, 2010, 4000)]
    half = Block(((0, 2),), "a", (), (("a", "b"),))
    moved = TaskRearranged(1000 * MS, "controller", 0, (0,), 1, make_plan(half), SiteLost("c"))
    assert list_pieces(800_000, moved) == [(300_000, 0, 4000), (500_000, 1000, 4000)]


def test_what_a_repair_planned_on_another_link_or_way_does_not_matter() -> None:
    other = repair(2000, carry(("a", "c", "b")))
    assert list_pieces(1000, *other) == [(1000, 0, 1910)]


def test_loads_of_links_are_of_the_pieces() -> None:
    history = multicast(1_200_000, *repair(2000, carry(("a", "b"))))
    run = Run(history, TOPOLOGY, 1500, "a")
    assert run.loads.count(("a", "b"), (0, 2000 * MS)) == pytest.approx(200_000)
    later_s = run.loads.use(("a", "b"), (2010 * MS, 4000 * MS)) * 1.99
    assert later_s == pytest.approx(run.loads.carry_s(1_000_000, 8.0))


def test_links_over_time_show_the_pieces() -> None:
    cut, mended = change(1000, "a", "b", 8.0, "blackhole"), change(3000, "a", "b")
    found = compute_loads(multicast(1_000_000, cut, mended), TOPOLOGY, 403)
    used = found.share[:, found.links.index(("a", "b"))]
    assert used[:100] == pytest.approx(0.5)
    assert used[300:400] == pytest.approx(0.5)
    assert not used[100:300].any()
    repaired = compute_loads(multicast(1_200_000, *repair(2000, carry(("a", "b")))), TOPOLOGY, 403)
    used = repaired.share[:, repaired.links.index(("a", "b"))]
    assert not used[191:201].any()
    assert used[201:400] == pytest.approx(1000 / 1990)
