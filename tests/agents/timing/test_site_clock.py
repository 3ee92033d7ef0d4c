"""Clocks that are wrong, set right by others' answers over links that are worked out by hand."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.awareness.clock_sync import SynchronizedClock, choose_servers
from trunkline.agents.events.event import CONTROLLER
from trunkline.agents.timing.site_clock import MEMORY_NS, Correction, Exchange, SiteClock
from trunkline.agents.wire.messages import TimeReply

MS, S = 10**6, 10**9
RIGHT = SiteClock()


def exchange(clock, at_ns, there_ms=30.0, back_ms=30.0, server=RIGHT):
    """A question that sets out then, and is answered at once."""
    there_ns, back_ns = round(there_ms * MS), round(back_ms * MS)
    answered = server.read_ns(at_ns + there_ns)
    heard = clock.read_ns(at_ns + there_ns + back_ns)
    return Exchange(clock.read_ns(at_ns), answered, answered, heard)


def error_ms(correction, clock, at_ns, server=RIGHT):
    own_ns = clock.read_ns(at_ns)
    return (own_ns + correction.at_ns(own_ns) - server.read_ns(at_ns)) / MS


def test_a_clock_is_ahead_by_its_offset_and_ever_more_by_its_drift():
    clock = SiteClock(offset_ms=20.0, drift_ppm=50.0)
    assert clock.read_ns(0) == 20 * MS
    assert clock.read_ns(100 * S) == 100 * S + 25 * MS


@given(there_ms=st.floats(0, 500), back_ms=st.floats(0, 500), offset_ms=st.floats(0, 1e6))
def test_an_exchange_is_wrong_by_half_of_the_difference_of_its_ways(there_ms, back_ms, offset_ms):
    found = exchange(SiteClock(offset_ms), 0, there_ms, back_ms)
    assert found.delay_ns == pytest.approx((there_ms + back_ms) * MS, abs=3)
    wrong_ms = found.offset_ns / MS + offset_ms
    assert wrong_ms == pytest.approx((there_ms - back_ms) / 2, abs=1e-5)


def test_the_first_exchange_sets_a_clock_right():
    clock, correction = SiteClock(70.0), Correction()
    correction.add(exchange(clock, S))
    assert error_ms(correction, clock, S) == pytest.approx(0, abs=1e-6)


def test_exchanges_that_waited_in_queues_do_not_count():
    clock, correction = SiteClock(70.0), Correction()
    correction.add(exchange(clock, 0))
    correction.add(exchange(clock, S, there_ms=230))
    correction.add(exchange(clock, 2 * S, back_ms=90))
    assert error_ms(correction, clock, 3 * S) == pytest.approx(0, abs=1e-6)


def test_a_line_through_the_exchanges_follows_the_drift_while_nobody_answers():
    clock, correction = SiteClock(5.0, 200.0), Correction()
    for second in range(10):
        correction.add(exchange(clock, second * S))
    assert error_ms(correction, clock, 60 * S) == pytest.approx(0, abs=0.02)
    once = Correction()
    once.add(exchange(clock, 9 * S))
    assert error_ms(once, clock, 60 * S) == pytest.approx(51 * 0.2, abs=0.1)


def test_an_exchange_without_queues_is_believed_for_minutes_of_queues_of_seconds():
    clock, correction = SiteClock(5.0, 100.0), Correction()
    for second in range(8):
        correction.add(exchange(clock, second * S))
    rng = random.Random(1)
    for second in range(8, 200):
        correction.add(exchange(clock, second * S, 30 + rng.uniform(10, 5000), 30))
    assert error_ms(correction, clock, 200 * S) == pytest.approx(0, abs=0.1)


def test_a_longer_way_is_believed_once_the_shorter_is_long_ago():
    correction = Correction()
    correction.add(exchange(RIGHT, 0, 10, 10))
    correction.add(exchange(RIGHT, S, 50, 10))
    assert error_ms(correction, RIGHT, S) == 0
    correction.add(exchange(RIGHT, MEMORY_NS, 50, 10))
    assert error_ms(correction, RIGHT, MEMORY_NS) == 20


def test_whoever_was_told_the_time_behind_queues_is_believed_less():
    correction = Correction()
    correction.add(exchange(RIGHT, 0, 30, 40))
    late = exchange(RIGHT, S, server=SiteClock(700.0))
    correction.add(Exchange(late.asked_ns, *[late.received_ns] * 2, late.heard_ns, 1400 * MS))
    assert error_ms(correction, RIGHT, S) == -5
    assert correction.distance_ns == 70 * MS


def test_the_time_of_another_controller_begins_anew_whoever_tells_it():
    logged = []
    clock = SynchronizedClock(
        RIGHT, 1.0, lambda: S, lambda *_: None, lambda *_, **fields: logged.append(fields), "a"
    )
    for controller, ahead_ms, distance_ms in ((0, 7, 0), (1, 80, 500), (1, 90, 600)):
        time_ns = S + ahead_ms * MS
        clock.on_reply("a", TimeReply(S, time_ns, time_ns, controller, distance_ms * MS))
    assert [fields["correction_ns"] for fields in logged] == [7 * MS, 80 * MS, 80 * MS]


def test_errors_do_not_add_up_much_down_a_chain_of_busy_links():
    rng = random.Random(1)
    clocks = [RIGHT, *(SiteClock(rng.uniform(0, 100), rng.uniform(0, 100)) for _ in range(4))]
    corrections = [Correction() for _ in clocks]
    for second in range(60):
        for site in range(1, len(clocks)):
            queues = [rng.choice((0, 0, rng.uniform(0, 60))) for _ in range(2)]
            at_ns = second * S
            found = exchange(clocks[site], at_ns, *(30 + queue for queue in queues))
            told_ns = at_ns + round((30 + queues[0]) * MS)
            upper = clocks[site - 1].read_ns(told_ns)
            upper += corrections[site - 1].at_ns(upper) if site > 1 else 0
            answered = Exchange(found.asked_ns, upper, upper, found.heard_ns)
            corrections[site].add(answered)
    for site in range(1, len(clocks)):
        assert abs(error_ms(corrections[site], clocks[site], 60 * S)) < 0.5


RATES = {("a", "b"): 10.0, ("b", "c"): 10.0, ("c", "d"): 10.0}
LINE = {link: rate for (x, y), rate in RATES.items() for link in ((x, y), (y, x))}


def test_roots_ask_the_controller_and_the_others_whoever_is_nearer_to_a_root():
    assert choose_servers(LINE, 1) == {"b": CONTROLLER, "a": "b", "c": "b", "d": "c"}
    assert choose_servers(LINE, 2) == {"b": CONTROLLER, "c": CONTROLLER, "a": "b", "d": "c"}
    assert set(choose_servers(LINE, 9).values()) == {CONTROLLER}
