"""Calls of torch.distributed in logs that are right, and in logs that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from trunkline.agents.events.call_events import CallFinished, CallStarted, TimingStopped
from trunkline.agents.events.event import Event
from trunkline.harness.checks.call_checks import calls_follow_each_other, collectives_take_time
from trunkline.harness.checks.verdict import Check, Checker, Rules
from trunkline.harness.record.history import History
from trunkline.harness.scenario.loading import parse

MS = 1_000_000
SCENARIO = """
name: mine
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [sh], time_calls: true}
"""


def begin(
    at_ms: int, site: str, call: int, name: str = "all_reduce", *, blocks: bool = True
) -> CallStarted:
    rank = int(site[1:]) - 1
    return CallStarted(
        at_ms * MS, site, 2, call, 0, name, 100, "0", (0, 1), rank, None, blocks
    )  # fmt: skip


def end(at_ms: int, site: str, call: int, *, failed: bool = False) -> CallFinished:
    return CallFinished(at_ms * MS, site, 2, call, failed)


GOOD = (
    begin(100, "n1", 0),
    begin(200, "n2", 0),
    end(220, "n1", 0),
    end(230, "n2", 0),
    begin(230, "n1", 1, "barrier"),
    begin(230, "n2", 1, "barrier"),
    end(250, "n1", 1),
    end(250, "n2", 1),
)


def judge(check: Checker, events: Sequence[Event]) -> Check:
    history = History.of(sorted(events, key=lambda event: event.t_ns))
    rules = Rules(parse(SCENARIO, "x.yaml").topology, 1.0, programs=("n1", "n2"))
    return Check.of("", "calls", check(history, rules))


@pytest.mark.parametrize("check", [calls_follow_each_other, collectives_take_time])
def test_calls_in_order_pass(check: Checker) -> None:
    found = judge(check, GOOD)
    assert (found.outcome, found.judged, found.excused) == ("pass", 4, 0)


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ((*GOOD, end(260, "n1", 1)), "call 1 of process 2 of n1 ended twice"),
        ((*GOOD, begin(260, "n1", 1)), "call 1 of process 2 of n1 began twice"),
        (GOOD[1:], "call 0 of process 2 of n1 ended at 0.220 s, but had not begun"),
        ((*GOOD, begin(260, "n1", 3)), "the numbers of the calls of process 2 of n1 have a gap"),
        ((*GOOD[:2], *GOOD[3:]), "began before all_reduce (call 0 of process 2 of n1) had ended"),
        ((*GOOD[:2], end(240, "n1", 0), *GOOD[3:]), "before all_reduce (call 0 of process 2 of n1"),
        ((*GOOD, begin(90, "n1", 2)), "began before the one before it"),
    ],
)
def test_calls_out_of_order_fail(events: Sequence[Event], problem: str) -> None:
    found = judge(calls_follow_each_other, events)
    assert found.outcome == "fail"
    assert problem in found.detail


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        (
            (*GOOD[:2], end(205, "n1", 0), *GOOD[3:]),
            "all_reduce (call 0 of process 2 of n1) was done 4.700 ms before it could, since n2",
        ),
        ((*GOOD[:5], replace(GOOD[5], name="broadcast"), *GOOD[6:]), "make different calls"),
        ((*GOOD[:5], GOOD[6]), "was done, but ranks 1 never began it"),
    ],
)
def test_a_result_before_its_data_fails(events: Sequence[Event], problem: str) -> None:
    found = judge(collectives_take_time, events)
    assert found.outcome == "fail"
    assert problem in found.detail


def test_calls_that_nobody_waits_for_may_overlap_and_not_end() -> None:
    events = (
        begin(100, "n1", 0, blocks=False),
        begin(110, "n1", 1, blocks=False),
        end(140, "n1", 1),
    )
    found = judge(calls_follow_each_other, events)
    assert (found.outcome, found.judged, found.excused) == ("pass", 1, 1)


def test_a_process_whose_timing_stopped_is_named() -> None:
    found = judge(calls_follow_each_other, [TimingStopped(0, "n1", 2, "no reason")])
    assert (found.outcome, found.excuses[0].cases) == ("unknown", ("n1, process 2: no reason",))


def test_ranks_that_are_not_unique_are_not_judged() -> None:
    found = judge(collectives_take_time, [*GOOD, replace(GOOD[0], process=9)])
    assert found.excuses[0].rule == "several processes have one rank"
