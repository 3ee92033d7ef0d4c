"""A cut goes on acting while TCP's timers keep its links silent."""

import pytest

from trunkline.agents.events.call_events import CallFinished, CallStarted
from trunkline.agents.events.causes import TimeUp
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted
from trunkline.agents.events.run_events import LinkBytes, LinksCounted, RunFinished
from trunkline.harness.record.history import History
from trunkline.harness.report.calls.calls_in_faults import (
    describe_calls_in_faults,
    find_calls_in_faults,
    find_fault_times,
    name_costliest,
)
from trunkline.harness.report.calls.made_up import measure_made_up_s
from trunkline.harness.report.calls.silent_links import find_silence

MS = 10**6


def make(carried: dict[int, int]) -> History:
    """An outage from 0.5 to 1.5 s, a pause from 1.6 to 2.5 s, and a call until 2.6 s.

    `carried` says what the cut link carried until these times in ms.
    """
    counts, total = [], 0
    for t_ms, size in carried.items():
        total += size
        counts.append(LinksCounted(t_ms * MS, "runner", (LinkBytes("n1", "n2", total),)))
    targets = ("n1 -> n2", "n2 -> n1")
    log: list[Event] = [
        FaultStarted(500 * MS, "runner", 0, "outage", "outage n1 n2", targets),
        FaultEnded(1500 * MS, "runner", 0),
        FaultStarted(1600 * MS, "runner", 1, "pause", "pause n2", ("n2",)),
        FaultEnded(2500 * MS, "runner", 1),
        RunFinished(4000 * MS, "runner", TimeUp(4.0), ()),
        *counts,
    ]
    for number, (begin, end) in enumerate([(100, 200), (400, 2600), (3000, 3100)]):
        log.append(
            CallStarted(begin * MS, "n1", 2, number, 0, "barrier", 0, "0", (0,), 0, None, True)
        )
        log.append(CallFinished(end * MS, "n1", 2, number, False))
    return History.of(sorted(log, key=lambda event: event.t_ns))


@pytest.mark.parametrize(
    ("carried", "until_ms"),
    [
        ({500: 9000, 700: 114, 1100: 114, 1900: 66, 2100: 114, 2200: 9000}, 2100),
        ({500: 9000, 700: 114, 1600: 9000}, None),
        ({500: 9000, 700: 114, 1500: 114, 1600: 5000, 2000: 114}, None),
        ({500: 9000, 2100: 114, 2200: 9000}, None),  # no data to carry during the cut
        ({500: 9000, 700: 114, 1900: 66}, 2500),  # for as long again as the cut, at most
        ({500: 9000, 700: 114, 3000: 9000}, 2500),
        ({}, None),
    ],
)
def test_a_link_is_silent_until_it_carries_data_again(
    carried: dict[int, int], until_ms: int | None
) -> None:
    history = make(carried)
    assert find_silence(history) == ({} if until_ms is None else {0: until_ms * MS})


def test_a_cut_shares_the_time_until_its_links_carry_data_again() -> None:
    """The call is late from 0.5 s to 2.6 s: its like take 0.1 s."""
    alone = find_fault_times(make({}), ("n1",)).divide_s(1)
    assert alone == pytest.approx({0: 1.1, 1: 1.0})
    history = make({500: 9000, 700: 114, 2100: 114, 2200: 9000})
    found = find_fault_times(history, ("n1",))
    assert found.divide_s(1) == pytest.approx({0: 1.1 + 0.25, 1: 1.0 - 0.25})
    (worst,) = name_costliest(history, ("n1",), 1)
    assert worst == "Fault 0 cost the programs most: 64 % of the cost of all faults."
    first, second = describe_calls_in_faults(history, ("n1",), 1)
    assert "cost a program 1.350 s on average (each moment shared by faults 0 and 1). " in first
    assert first.endswith(
        " After fault 0 its links carried no data until about 2.1 s: TCP waited for its timer, so "
        "the fault still acted."
    )
    assert "cost a program 0.750 s on average (each moment shared by faults 0 and 1). " in second


@pytest.mark.parametrize(
    ("carried", "is_unused"),
    [
        ({500: 9000}, True),  # before the outage
        ({500: 9000, 2700: 9000}, True),  # after the call that was under way
        ({500: 9000, 600: 66}, False),
        ({2600: 9000}, False),
    ],
)
def test_a_fault_of_links_that_no_call_used_costs_nothing(
    carried: dict[int, int], is_unused: bool
) -> None:
    history = make(carried)
    outage, pause = find_calls_in_faults(history, ("n1",), 1)
    assert outage.unused is is_unused
    assert (outage.cost_s == 0) is is_unused
    assert pause.cost_s == pytest.approx(1.0)
    if is_unused:
        assert list(outage.describe()) == [
            "Fault 0 (outage n1 n2) cost the programs nothing in calls: no call used its links."
        ]


def test_the_next_call_makes_up_for_what_others_have_done_meanwhile() -> None:
    """n1 is late by 1.1 s; its next call takes 0.06 instead of 0.1 s, as those without a fault."""
    history = make({})
    times = find_fault_times(history, ("n1",))
    assert measure_made_up_s(history, times, 1) == 0.0
    begun = CallStarted(2700 * MS, "n1", 2, 9, 0, "barrier", 0, "0", (0,), 0, None, True)
    shorter = [begun, CallFinished(2760 * MS, "n1", 2, 9, False)]
    history = History.of(sorted([*history.events, *shorter], key=lambda event: event.t_ns))
    times = find_fault_times(history, ("n1",))
    assert times.measure_s(1) == pytest.approx(2.1)
    assert measure_made_up_s(history, times, 2) == pytest.approx(0.02)
