"""What TCP could carry on a connection: literal losses and delays in, literal rates out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trunkline.harness.record.link_history import Conditions, Spell
from trunkline.harness.record.transfers import Transfer
from trunkline.harness.report.explanations.tcp_limits import TcpLimits, Trouble
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

S = 10**9
ENDS = ("a", "b")
THERE, BACK = Link("a", "b", 50.0, 20.0), Link("b", "a", 50.0, 20.0)
TOPOLOGY = Topology("t", (Site("a"), Site("b")), (THERE, BACK))
OWN = (10, {})


def limit(*spells, size=5_000_000, end_s=20):
    """A link with these values from these seconds on, and one transfer from 0 s on."""
    there = [Spell(0, THERE), *(Spell(at_s * S, replace(THERE, **new)) for at_s, new in spells)]
    conditions = Conditions({ENDS: tuple(there), ("b", "a"): (Spell(0, BACK),)}, TOPOLOGY)
    return TcpLimits.of([Transfer(0, *ENDS, "in", size, 0, end_s * S)], conditions, 1500)


def limits(found, at_s, length_s=0.001):
    return found.find_troubles(ENDS, (round(at_s * S), round((at_s + length_s) * S)))


def test_losses_limit_tcp_until_its_window_has_grown_again():
    found = limit((5, {"loss_percent": 5.0}), OWN)
    lossy = Trouble("loss", ENDS, 5 * S, 10 * S, 5.0)
    for at_s in (6, 9.9, 10.1, 15):
        assert limits(found, at_s) == [(lossy, pytest.approx(0.001))]
    for at_s in (1, 4.9, 19):
        assert limits(found, at_s) == []


def test_losses_that_hit_no_packet_change_nothing_afterwards():
    found = limit((5, {"loss_percent": 5.0}), OWN, size=10_000_000, end_s=4)
    assert limits(found, 6) != []
    assert limits(found, 10.1) == []


def test_few_losses_do_not_limit_tcp():
    assert limits(limit((5, {"loss_percent": 0.0001}), OWN), 6) == []


def test_late_packets_count_as_lost_if_they_are_later_than_the_timer():
    found = limit((5, {"delay_ms": 800.0}), OWN)
    late = Trouble("delay", ENDS, 5 * S, 10 * S, 800.0)
    for at_s in (5.5, 10.1, 13):
        assert [trouble for trouble, _ in limits(found, at_s)] == [late]
    assert limits(found, 19) == []
    assert limits(limit((5, {"delay_ms": 120.0}), OWN), 10.1) == []


def test_a_window_that_fills_link_and_queue_fills_twice_the_delay_as_well():
    assert limits(limit((5, {"delay_ms": 60.0}), OWN), 5.01) == []
    assert limits(limit((5, {"delay_ms": 70.0}), OWN), 5.01) != []


@pytest.mark.parametrize(("size", "was_full"), [(1_000_000, True), (100_000, False)])
def test_a_lossy_link_is_busy_at_what_tcp_can_carry(size, was_full):
    found = limit((0, {"loss_percent": 5.0}), size=size, end_s=5)  # TCP carries 1.6 Mbit/s
    assert found.was_full(ENDS, (0, 5 * S)) is was_full


def test_a_link_without_trouble_is_not_busy_for_tcp():
    assert not limit(size=40_000_000, end_s=5).was_full(ENDS, (0, 5 * S))


def test_a_connection_is_full_only_if_it_was_before_the_trouble_as_well():
    found = limit((4, {"loss_percent": 5.0}), size=1_000_000, end_s=5)
    assert not found.was_full(ENDS, (0, 5 * S))
