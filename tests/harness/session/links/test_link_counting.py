"""Sites that move no data for a second or more are logged, whatever packets they send."""

import time

import pytest

from trunkline.agents.events.run_events import SiteQuiet
from trunkline.harness.network.interface import InMemoryNetwork, LinkCounters
from trunkline.harness.session.links.link_counting import LinkCounting
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

PAIR = Topology("pair", (Site("a"), Site("b")), (Link("a", "b", 50.0), Link("b", "a", 50.0)))
S = 1_000_000_000
EMPTY, FULL = 66, 1514


@pytest.fixture
def run(monkeypatch):
    """A function that counts at a time (s), after packets were on links and sites sent data.

    It returns the quiet sites, each with the span of its silence.
    """
    network = InMemoryNetwork(PAIR)
    counting = LinkCounting(network)
    counting.start(0)

    def quiet(logged):
        events = [each.event for each in logged]
        return [(e.who, e.since_ns / S, e.t_ns / S) for e in events if isinstance(e, SiteQuiet)]

    def count(at_s, size, *ends, data=(), swallowed=0):
        before = network.carried.get(ends, LinkCounters())
        network.carried[ends] = LinkCounters(
            before.bytes + 10 * size, before.packets + 10, swallowed=before.swallowed + swallowed
        )
        network.sent_data.update({site: network.sent_data.get(site, 0) + 1 for site in data})
        monkeypatch.setattr(time, "monotonic_ns", lambda: at_s * S)
        return quiet(counting.count())

    yield count, lambda at_s: quiet(counting.finish(at_s * S))
    counting.close()


def test_packets_without_data_are_no_activity(run):
    count, finish = run
    assert [count(at_s, EMPTY, "a", "b") for at_s in range(1, 5)] == [[]] * 4
    assert finish(5) == [("a", 0, 5), ("b", 0, 5)]


def test_a_site_that_sends_data_or_receives_it_is_active(run):
    count, finish = run
    assert count(2, FULL, "a", "b", data=["a"]) == [("a", 0, 2), ("b", 0, 2)]
    assert count(4, EMPTY, "b", "a", data=["b"]) == [("b", 2, 4)]
    assert finish(4) == [("a", 2, 4)]


def test_data_counts_when_a_link_has_carried_it(run):
    """The site sends before its link counts the packet, and counts itself what it sends alone."""
    count, finish = run
    assert count(2, EMPTY, "b", "a", data=["a"]) == []
    assert count(3, EMPTY, "a", "b") == [("a", 0, 3)]
    assert finish(3) == [("b", 0, 3)]


def test_data_that_a_blackhole_swallows_is_not_received(run):
    count, finish = run
    assert count(2, FULL, "a", "b", data=["a"], swallowed=10) == [("a", 0, 2)]
    assert finish(2) == [("b", 0, 2)]
