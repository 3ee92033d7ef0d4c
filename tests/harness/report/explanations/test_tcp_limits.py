"""What TCP could carry on a connection: literal losses and delays in, literal rates out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from trunkline.agents.events.connection_events import LinkFound
from trunkline.harness.record.link_history import Conditions, Spell
from trunkline.harness.record.transfers import Transfer
from trunkline.harness.report.explanations.links.resent_packets import ResentPackets
from trunkline.harness.report.explanations.links.tcp_limits import TcpLimits
from trunkline.harness.report.explanations.links.troubles import Trouble
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

S = 10**9
ENDS = ("a", "b")
THERE, BACK = Link("a", "b", 50.0, 20.0), Link("b", "a", 50.0, 20.0)
TOPOLOGY = Topology("t", (Site("a"), Site("b")), (THERE, BACK))
OWN = (10, {})
CUT = {"is_cut": True}


def list_spells(link, spells):
    """The spells of a link that has these values from these seconds on."""
    yield Spell(0, link)
    for at_s, new in spells:
        values = {name: value for name, value in new.items() if name != "is_cut"}
        yield Spell(round(at_s * S), replace(link, **values), "is_cut" in new)


def limit(*spells, back=(), size=5_000_000, start_s=0, end_s=20, made=()):
    """A link with these values from these seconds on, and one transfer, from 0 s on at first."""
    there, returning = list_spells(THERE, spells), list_spells(BACK, back)
    conditions = Conditions({ENDS: tuple(there), ENDS[::-1]: tuple(returning)}, TOPOLOGY)
    sent = Transfer(0, *ENDS, "in", size, start_s * S, end_s * S)
    return TcpLimits.of([sent], conditions, 1500, made)


def limits(found, at_s, length_s=0.001):
    """What limits TCP from a time on, each with the seconds."""
    span = round(at_s * S), round((at_s + length_s) * S)
    return [(each.trouble, each.seconds) for each in found.find_troubles(ENDS, span)]


def test_losses_limit_tcp_until_its_window_has_grown_again():
    found = limit((5, {"loss_percent": 5.0}), OWN)
    lossy = Trouble("loss", ENDS, 5 * S, 10 * S, 5.0)
    for at_s in (6, 9.9, 10.1, 15):
        assert limits(found, at_s, 0.1) == [(lossy, pytest.approx(0.1))]
    for at_s in (1, 4.9, 19):
        assert limits(found, at_s, 0.1) == []


def test_losses_that_hit_no_packet_change_nothing():
    found = limit((5, {"loss_percent": 5.0}), OWN, size=10_000_000, end_s=4)
    assert limits(found, 6, 1) == []
    assert limits(found, 10.1, 1) == []


@pytest.mark.parametrize(("size", "is_likely"), [(60_000, False), (80_000, True)])
def test_half_a_packet_or_more_is_lost_meanwhile(size, is_likely):
    """1 % of 41 or 55 packets, on a way on which 1 % leaves TCP 3.4 of 50 Mbit/s."""
    found = limit((0, {"loss_percent": 1.0}), size=size, end_s=1)
    assert bool(limits(found, 0, 1)) is is_likely


def test_losses_take_at_most_what_bytes_need_longer_because_of_them():
    """In 2 s the link carries 1 Mbit, at 0.917 Mbit/s because of losses, in place of 50."""
    found = limit((0, {"loss_percent": 5.0}), size=1_250_000)
    (limitation,) = found.find_troubles(ENDS, (5 * S, 7 * S))
    assert limitation.seconds == pytest.approx(2)
    assert limitation.due_s == pytest.approx(1 / 0.917 - 1 / 50, rel=1e-3)


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
    found = limit((0, {"loss_percent": 5.0}), size=size, end_s=5)  # TCP carries 0.9 Mbit/s
    assert found.was_full(ENDS, (0, 5 * S)) is was_full


def test_a_link_without_trouble_is_not_busy_for_tcp():
    assert not limit(size=40_000_000, end_s=5).was_full(ENDS, (0, 5 * S))


def test_a_connection_is_full_only_if_it_was_before_the_trouble_as_well():
    found = limit((4, {"loss_percent": 5.0}), size=1_000_000, end_s=5)
    assert not found.was_full(ENDS, (0, 5 * S))


def test_other_values_that_change_do_not_end_a_loss_or_a_delay():
    slower = {"rate_mbps": 40.0}
    lossy = {"loss_percent": 5.0}
    found = limit((5, lossy), (7, lossy | slower), (9, lossy), OWN)
    for at_s in (6, 8, 9.5, 12):
        assert [trouble for trouble, _ in limits(found, at_s, 0.1)] == [
            Trouble("loss", ENDS, 5 * S, 10 * S, 5.0)
        ]
    late = {"delay_ms": 800.0}
    found = limit((5, late), (7, late | slower), OWN)
    assert [trouble for trouble, _ in limits(found, 8)] == [
        Trouble("delay", ENDS, 5 * S, 10 * S, 800.0)
    ]


@pytest.mark.parametrize("hop", [ENDS, ENDS[::-1]])
def test_a_cut_leaves_a_small_window_also_on_the_way_back(hop):
    spells = (5, CUT), (6, CUT | {"rate_mbps": 40.0}), (7, {})
    faulty = {"back": spells} if hop != ENDS else {}
    found = limit(*(spells if hop == ENDS else ()), **faulty, start_s=15, size=50_000)
    cut = Trouble("outage", hop, 5 * S, 7 * S, 100.0)
    for at_s in (7.1, 15.1):
        assert [trouble for trouble, _ in limits(found, at_s)] == [cut]
    assert limits(found, 4.9) == []


def test_a_cut_of_the_way_back_stops_tcp_however_short_it_is():
    found = limit(back=((5, CUT), (5.1, {})))
    assert limits(found, 5.05) == [
        (Trouble("outage", ENDS[::-1], 5 * S, 5_100_000_000, 100.0), pytest.approx(0.001))
    ]
    assert limits(found, 5.2) == []


def test_the_latest_of_several_troubles_is_the_one_that_limits_tcp():
    found = limit((1, {"loss_percent": 10.0}), (4, {}), (6, CUT), (7, {}))
    assert limits(found, 5)[0][0].cause == "loss"
    assert limits(found, 7.5)[0][0] == Trouble("outage", ENDS, 6 * S, 7 * S, 100.0)
    flapping = limit((1, CUT), (2, {}), (3, CUT), (4, {}), start_s=9, size=50_000)
    assert limits(flapping, 9)[0][0] == Trouble("outage", ENDS, 3 * S, 4 * S, 100.0)


def test_what_was_carried_tells_that_the_window_had_grown_since_a_cut():
    spells = (1, CUT), (2, {})
    assert limits(limit(*spells, start_s=10, size=1_000_000, end_s=11), 10, 1) == []
    assert limits(limit(*spells, start_s=10, size=100_000, end_s=11), 10, 1) != []


def test_a_connection_that_was_made_again_has_no_window_of_an_earlier_cut():
    spells = (1, CUT), (3, {})
    assert limits(limit(*spells, made=[LinkFound(4 * S, "b", "a")]), 4.5) == []
    assert limits(limit(*spells, made=[LinkFound(5 * S, "b", "a")]), 4.5) != []


def test_a_much_slower_link_leaves_a_small_window_if_it_carried_bytes_meanwhile():
    """A window of 0.25 MB takes a second at 2 Mbit/s, so TCP takes its packets for lost."""
    slow = (5, {"rate_mbps": 2.0}), (8, {"rate_mbps": 50.0})
    slower = Trouble("slowdown", ENDS, 5 * S, 8 * S, 2.0)
    assert limits(limit(*slow, size=1_000_000), 6) == []  # what the rate takes is counted apart
    assert limits(limit(*slow, size=1_000_000), 8.1) == [(slower, pytest.approx(0.001))]
    (found,) = limit(*slow, size=1_000_000).find_troubles(ENDS, (round(8.1 * S), round(8.2 * S)))
    assert found.due_s == 0.0  # a cold connection comes first
    assert limits(limit(*slow, size=1_000_000), 19) == []
    assert limits(limit(*slow, size=1_000_000, start_s=9), 9.1) == []  # it carried nothing
    assert (
        limits(limit((5, {"rate_mbps": 30.0}), (8, {"rate_mbps": 50.0}), size=1_000_000), 8.1) == []
    )


def test_a_delay_that_acts_counts_before_losses_that_were_over_before():
    """The losses may have left a small window, but that is an estimate."""
    lossy, late = (0, {"loss_percent": 5.0}), (4, {"delay_ms": 150.0})
    both = limit(lossy, (3, {}), late, size=5_000_000)
    delayed = Trouble("delay", ENDS, 4 * S, math.inf, 150.0)
    assert limits(both, 4.1) == [(delayed, pytest.approx(0.001))]
    span = round(2.9 * S), 5 * S
    assert [each.trouble.cause for each in both.find_troubles(ENDS, span)] == ["loss"]


@pytest.mark.parametrize(
    ("length_s", "end_s", "is_small"),
    [
        (0.03, 20, False),  # shorter than the round trip: some of the window arrived
        (0.05, 20, True),
        (0.05, 4, False),  # nothing was under way
        (0.25, 4, True),  # heartbeats were
    ],
)
def test_a_cut_that_takes_a_whole_window_leaves_a_small_one(length_s, end_s, is_small):
    found = limit((5, CUT), (5 + length_s, {}), end_s=end_s)
    assert bool(limits(found, 5.6)) is is_small


def told(count):
    """What the sender told: it had sent so many packets again by 20 s, and none by 4 s."""
    return ResentPackets({ENDS: [(4 * S, 0), (20 * S, count)]})


@pytest.mark.parametrize(
    ("new", "cause"),
    [
        (CUT, "outage"),
        ({"loss_percent": 5.0}, "loss"),
        ({"delay_ms": 800.0}, "delay"),
        ({"rate_mbps": 1.0}, "slowdown"),
        ({"delay_ms": 120.0}, None),
        ({"rate_mbps": 40.0}, None),
    ],
)
def test_the_last_trouble_that_made_tcp_send_packets_again_has_after_effects(new, cause):
    found = replace(limit((5, new), (10, {})), resent=told(30))
    for span in ((12 * S, 13 * S), (39 * S, 40 * S)):
        trouble = found.find_after_effect(ENDS, span)
        assert (trouble and trouble.cause) == cause
    for span in ((41 * S, 42 * S), (9 * S, 11 * S), (1 * S, 2 * S)):
        assert found.find_after_effect(ENDS, span) is None
    none = replace(found, resent=told(0))
    assert none.find_after_effect(ENDS, (12 * S, 13 * S)) is None


def test_the_last_of_two_troubles_has_after_effects():
    found = limit((5, CUT), (6, {}), (8, CUT), (9, {}))
    trouble = found.find_after_effect(ENDS, (12 * S, 13 * S))
    assert trouble == Trouble("outage", ENDS, 8 * S, 9 * S, 100.0)


def test_a_cut_and_a_longer_delay_act_as_long_as_they_last_also_on_the_way_back():
    found = limit((5, CUT), (6, {}), back=((7, {"delay_ms": 60.0}), (9, {"delay_ms": 20.0})))
    causes = [found.find_acting(ENDS, (at_s * S, (at_s + 1) * S)) for at_s in (4, 5, 6, 7, 8, 9)]
    assert [each and each.cause for each in causes] == [
        None, "outage", None, "delay", "delay", None,
    ]  # fmt: skip
    assert found.find_acting(ENDS, (4 * S, 12 * S)) == Trouble(
        "delay", ENDS[::-1], 7 * S, 9 * S, 60.0
    )
