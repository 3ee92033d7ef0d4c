"""Rates from the times of chunks, over links whose times are worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.awareness.estimators import (
    ESTIMATORS,
    MEMORY_NS,
    RecentMinimum,
    one_way,
    one_way_min_delay,
    round_trip,
)

MS = 10**6
RATE_MBPS, PROPAGATION_MS = 80.0, 30  # 10 kB take 1 ms
CHUNK = 1_000_000  # takes 100 ms


class Link:
    """First come, first served at the rate, then the wire; the receiver's clock is ahead."""

    def __init__(self, estimator, ahead_ns=0):
        self.estimator, self.ahead_ns, self.free_ns = estimator, ahead_ns, 0

    def carry(self, sent_ms, size):
        sent_ns = round(sent_ms * MS)
        self.free_ns = max(sent_ns, self.free_ns) + size * 8000 // round(RATE_MBPS)
        arrived_ns = self.free_ns + PROPAGATION_MS * MS
        return self.estimator.add(sent_ns, arrived_ns + self.ahead_ns, size)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_so_many_large_chunks_give_a_rate_and_tiny_ones_never(name):
    link = Link(ESTIMATORS[name](10_000, 3))
    found = [link.carry(1000 * turn, size) for turn, size in enumerate([0, 10_000] * 9)]
    assert found == [None] * 18
    found = [link.carry(1000 * turn, 10_001) for turn in range(20, 27)]
    assert [each is not None for each in found] == [False, False, True, False, False, True, False]
    assert found[2].chunks == 3
    assert found[2].bytes == 30_003


def test_one_way_reads_low_by_the_propagation():
    link = Link(one_way(0, 2))
    link.carry(0, CHUNK)
    found = link.carry(1000, CHUNK)
    assert found.rate_mbps == pytest.approx(8 / (0.100 + 0.030))
    assert found.least_delay_ms == pytest.approx(130)


def test_one_way_is_the_mean_of_the_chunks_rates():
    estimator = one_way(0, 2)
    estimator.add(0, 1000 * MS, CHUNK)
    assert estimator.add(0, 100 * MS, CHUNK).rate_mbps == pytest.approx((8 + 80) / 2)


def test_one_way_reads_lower_still_behind_a_queue():
    link = Link(one_way(0, 2))
    link.carry(0, CHUNK)
    assert link.carry(0, CHUNK).rate_mbps == pytest.approx((8 / 0.130 + 8 / 0.230) / 2)


def test_round_trip_reads_low_by_half_of_the_way_back_too():
    estimator = round_trip(0, 1)
    estimator.add(0, 60 * MS, 0)  # a beat, there and back
    found = estimator.add(1000 * MS, (1000 + 100 + 60) * MS, CHUNK)
    assert found.rate_mbps == pytest.approx(8 / (0.130 + 0.030 / 2))


def test_the_smallest_delay_takes_the_propagation_out():
    link = Link(one_way_min_delay(0, 1))
    link.carry(0, 0)
    found = link.carry(1000, CHUNK)
    assert found.rate_mbps == pytest.approx(RATE_MBPS)
    assert found.least_delay_ms == pytest.approx(30)


@given(
    gaps_ms=st.lists(st.floats(0, 300), min_size=4, max_size=20),
    sizes=st.lists(st.integers(1000, 2 * CHUNK), min_size=20, max_size=20),
    ahead_ms=st.integers(-1000, 1000),
)
def test_neither_queues_nor_a_wrong_clock_harm_it(gaps_ms, sizes, ahead_ms):
    link = Link(one_way_min_delay(0, 4), ahead_ms * MS)
    link.carry(0, 0)
    sent_ms, found = 0.0, []
    for gap_ms, size in zip(gaps_ms, sizes, strict=False):
        sent_ms += gap_ms
        found.append(link.carry(sent_ms, size))
    rates = [each.rate_mbps for each in found if each is not None]
    assert len(rates) == len(gaps_ms) // 4
    assert rates == pytest.approx([RATE_MBPS] * len(rates), rel=1e-4)


def test_a_chunk_that_waits_for_a_lost_packet_and_the_one_behind_it_make_up_for_each_other():
    estimator = one_way_min_delay(0, 2)
    estimator.add(-1000 * MS, -970 * MS, 0)
    # The first is whole 60 ms late; of the second 60 ms' worth is there by then.
    assert estimator.add(0, (100 + 60 + 30) * MS, CHUNK) is None
    assert estimator.add(0, (200 + 30) * MS, CHUNK).rate_mbps == pytest.approx(RATE_MBPS)


def test_a_measurement_is_made_again_with_chunks_that_waited_for_its_last_one():
    estimator = one_way_min_delay(0, 2)
    estimator.add(-1000 * MS, -970 * MS, 0)
    estimator.add(0, 130 * MS, CHUNK)
    assert estimator.add(0, 430 * MS, CHUNK).rate_mbps == pytest.approx(RATE_MBPS / 2)
    again = estimator.add(0, 430 * MS, CHUNK)
    assert (again.rate_mbps, again.chunks) == (pytest.approx(RATE_MBPS * 3 / 4), 3)
    assert estimator.add(0, 430 * MS, CHUNK).rate_mbps == pytest.approx(RATE_MBPS)
    assert estimator.add(0, 530 * MS, CHUNK) is None


def test_a_link_that_becomes_as_much_faster_as_netstorms_may_is_known_after_so_many_chunks():
    estimator = one_way_min_delay(0, 2)
    estimator.add(-1000 * MS, -970 * MS, 0)
    times_ms = (30 + 775, 30 + 1550, 30 + 1650, 30 + 1750)
    found = [estimator.add(0, at_ms * MS, CHUNK) for at_ms in times_ms]
    rates_mbps = [each and each.rate_mbps for each in found]
    assert rates_mbps == [None, pytest.approx(RATE_MBPS / 7.75), None, pytest.approx(RATE_MBPS)]


def test_a_link_that_becomes_even_faster_is_measured_anew():
    estimator = one_way_min_delay(0, 2)
    estimator.add(-1000 * MS, -970 * MS, 0)
    found = [estimator.add(0, at_ms * MS, CHUNK) for at_ms in (830, 1630, 1640, 1650, 1660, 1670)]
    assert [each.rate_mbps for each in found if each][-1] == pytest.approx(800)


@pytest.mark.parametrize("name", ["one_way", "one_way_min_delay"])
def test_chunks_that_arrive_before_they_are_sent_are_no_endless_rates(name):
    link = Link(ESTIMATORS[name](0, 1), ahead_ns=-500 * MS)
    link.carry(0, 0)
    found = link.carry(1000, CHUNK)
    if name == "one_way":
        assert found is None
    else:
        assert found.rate_mbps == pytest.approx(RATE_MBPS)


def test_a_wrong_clock_shows_in_one_way():
    assert Link(one_way(0, 1), 50 * MS).carry(0, CHUNK).rate_mbps == pytest.approx(8 / 0.180)
    assert Link(one_way(0, 1), -50 * MS).carry(0, CHUNK).rate_mbps == pytest.approx(8 / 0.080)


def test_the_smallest_delay_is_forgotten_in_time():
    least = RecentMinimum()
    assert [least.add(0, 7), least.add(MS, 5), least.add(2 * MS, 9)] == [7, 5, 5]
    assert least.add(MEMORY_NS, 9) == 5
    assert least.add(2 * MEMORY_NS, 8) == 8
    assert least.add(3 * MEMORY_NS - 1, 20) == 8
