"""The counts of a link agree with its rates, also while its rate, delay or jitter changes."""

import random
from bisect import bisect_right
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trunkline.agents.events.causes import ProgramsExited
from trunkline.agents.events.fault_events import LinkChanged
from trunkline.agents.events.run_events import LinkBytes, LinksCounted, LinkTotals, RunFinished
from trunkline.harness.checks.network.counter_checks import interfaces_agree
from trunkline.harness.checks.rules import Rules
from trunkline.harness.network.count_times import list_times
from trunkline.harness.record.history import History
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.loading import parse

MS = 1_000_000
END_MS = 1500
FRAME = 1514
SCENARIO = """
name: counts
topology: {{builder: full_mesh, sites: [a, b], rates: {rate} Mbit/s, delays: {delay} ms}}
workload: {{kind: program, command: ["true"]}}
stop: {{exit: all}}
"""

values = st.tuples(st.sampled_from([1, 5, 20, 50]), st.sampled_from([1, 10, 40, 150]))
"""A rate in Mbit/s, and a delay in ms."""

changes = st.lists(st.tuples(st.integers(100, END_MS), values, st.sampled_from([0, 5])), max_size=4)
"""When the link a -> b changes, its new rate and delay, and its jitter."""


def simulate(first, later, seed):
    """When each frame of a busy sender leaves the link, by a shaper and a delay after it."""
    draw = random.Random(seed)
    steps = [(0, first, 0), *sorted(later)]
    times = [step[0] * MS for step in steps]
    t_ns, left_ns = 0.0, []
    while t_ns < END_MS * MS:
        _, (rate, delay), jitter = steps[bisect_right(times, t_ns) - 1]
        t_ns += FRAME * 8e3 / rate
        left_ns.append(t_ns + (delay + draw.uniform(-min(jitter, delay), jitter)) * MS)
    return sorted(left_ns)


@cache
def make_scenario(rate, delay):
    """Two sites with links of this rate in Mbit/s and this delay in ms."""
    return parse(SCENARIO.format(rate=rate, delay=delay), "x.yaml")


def judge(first, later, left_ns, extra=0, at=None, missing=(), **values):
    """What the check doubts, if these frames were counted, and `extra` ones in one interval.

    The counts of the intervals `missing` are not in the log. `values` are those of the link a -> b
    beside its rate and its delay, from the start on.
    """
    scenario = make_scenario(*first)
    log = [make_header(scenario)]
    if values:
        every = (float(first[0]), float(first[1]), 0.0, 0.0, ())
        log.append(LinkChanged(1, "runner", "a", "b", *every, **values))
    for t_ms, (rate, delay), jitter in sorted(later):
        log.append(
            LinkChanged(t_ms * MS, "runner", "a", "b", float(rate), float(delay), jitter, 0.0, ())
        )
    bounds = list(range(0, END_MS + 1, 100))
    total = 0
    for number, (start, end) in enumerate(pairwise(bounds)):
        frames = bisect_right(left_ns, end * MS) - bisect_right(left_ns, start * MS)
        frames += extra if number == at else 0
        total += frames
        if frames and number not in missing:
            counts = (LinkBytes("a", "b", total * FRAME),)
            log.append(LinksCounted(end * MS, "runner", counts))
    totals = (LinkTotals("a", "b", total * FRAME, total, 0), LinkTotals("b", "a", 0, 0, 0))
    end_ns = END_MS * MS + 1
    ended = ProgramsExited(("a", "b"), all=True)
    log.append(RunFinished(end_ns, "runner", ended, totals))
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    findings = interfaces_agree(history, Rules.of(scenario))
    return [each.text for each in findings if each.outcome != "pass"]


@given(first=values, later=changes, seed=st.integers(0, 99))
@example(first=(5, 1), later=[(100, (1, 1), 0)], seed=0)  # a frame begun at the old rate
def test_a_busy_link_that_changes_is_never_doubted(first, later, seed):
    assert judge(first, later, simulate(first, later, seed)) == []


@given(first=values, at=st.integers(4, 13), seed=st.integers(0, 99))
def test_a_tenth_more_than_the_rate_in_one_interval_is_noticed(first, at, seed):
    frames = simulate(first, [], seed)
    extra = 2 + round(first[0] * 1e5 / 8 * 0.1 / FRAME)
    doubts = judge(first, [], frames, extra, at)
    assert len(doubts) == 1
    assert doubts[0].endswith("are too many")


@given(first=values, at=st.integers(4, 12), seed=st.integers(0, 99))
def test_a_count_of_a_busy_link_that_is_missing_is_noticed(first, at, seed):
    """A link without a count carried nothing, and the next one has the bytes of two intervals."""
    doubts = judge(first, [], simulate(first, [], seed), missing=(at,))
    assert [text[-12:] for text in doubts] == ["are too many"]


def test_links_are_counted_less_often_after_five_seconds():
    assert list_times(16_000 * MS)[:3] == [100 * MS, 200 * MS, 300 * MS]
    assert list_times(16_000 * MS)[48:] == [
        *(t_ms * MS for t_ms in (4900, 5000)),
        *(t_ms * MS for t_ms in range(5200, 15_001, 200)),
        15_400 * MS,
        15_800 * MS,
    ]


@pytest.mark.parametrize("t_ms", [50, 5100])
def test_a_count_between_two_times_of_counting_fails(t_ms):
    counted = LinksCounted(t_ms * MS, "runner", (LinkBytes("a", "b", FRAME),))
    history = History.of([make_header(make_scenario(5, 1)), counted])
    fails = [each.text for each in interfaces_agree(history, Rules.of(make_scenario(5, 1)))]
    assert f"links were counted at {t_ms / 1000:.3f} s, when no period ended" in fails


def test_what_is_on_the_wire_when_the_rate_falls_leaves_at_the_old_rate():
    later = [(1000, (5, 40), 0)]
    frames = simulate((50, 40), later, 1)
    assert judge((50, 40), later, frames) == []
    extra = round((50 - 5) * 1e6 / 8 * 0.02 / FRAME)  # another 20 ms at the old rate
    assert judge((50, 40), later, frames, extra, 10)


@given(first=values, share=st.sampled_from([0.01, 0.1, 0.5]), seed=st.integers(0, 99))
def test_duplicates_are_counted_and_take_none_of_the_rate(first, share, seed):
    draw = random.Random(seed)
    frames = simulate(first, [], seed)
    doubled = [t for t in frames for _ in range(1 + (draw.random() < share))]
    assert judge(first, [], doubled, duplicate_percent=100 * share) == []


def test_duplicates_that_were_not_asked_for_are_doubted():
    frames = simulate((50, 10), [], 1)
    doubled = sorted(frames + frames[::4])
    assert judge((50, 10), [], doubled, duplicate_percent=30.0) == []
    assert judge((50, 10), [], doubled) != []
    assert judge((50, 10), [], doubled, duplicate_percent=5.0) != []


@given(first=values, percent=st.sampled_from([1, 10, 50]), seed=st.integers(0, 99))
def test_frames_that_overtake_may_be_counted_a_delay_early(first, percent, seed):
    draw = random.Random(seed)
    delay_ns = first[1] * MS
    frames = [t - delay_ns * (draw.random() * 100 < percent) for t in simulate(first, [], seed)]
    assert judge(first, [], sorted(frames), reorder_percent=float(percent)) == []
