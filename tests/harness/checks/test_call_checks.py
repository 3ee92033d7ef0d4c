"""Calls of torch.distributed in logs that are right, and in logs that cannot be."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from trunkline.agents.events.call_events import CallFinished, CallStarted, TimingStopped
from trunkline.agents.events.event import Event
from trunkline.agents.events.round_events import SyncFinished, SyncStarted
from trunkline.agents.events.run_events import AgentExited, LinkTotals, RunFinished
from trunkline.harness.checks.programs.call_checks import (
    calls_follow_each_other,
    collectives_take_time,
)
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Check, Checker
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


def in_group(event: Event, ranks: tuple[int, ...]) -> Event:
    """The event; if it is the start of a call, of a group of these ranks."""
    return replace(event, ranks=ranks) if isinstance(event, CallStarted) else event


def later(events: Sequence[Event], calls: int, ranks: tuple[int, ...] = (0, 1)) -> list[Event]:
    """The events of each process, a second later for each two calls before them."""
    found = [replace(each, t_ns=each.t_ns + calls // 2 * 1000 * MS) for each in events]
    return [
        in_group(replace(each, call=each.call + calls), ranks)
        for each in found
        if isinstance(each, CallStarted | CallFinished)
    ]


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
    rules = Rules(parse(SCENARIO, "x.yaml"))
    return Check.of("", "calls", check(history, rules))


@pytest.mark.parametrize("check", [calls_follow_each_other, collectives_take_time])
def test_calls_in_order_pass(check: Checker) -> None:
    found = judge(check, GOOD)
    assert (found.outcome, found.judged, found.excused) == ("pass", 4, 0)


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (False, "its program ended first"),
        (True, "the run ended first"),
        (None, "the run ended first"),
    ],
)
def test_a_call_that_did_not_end_says_what_ended_first(asked: bool | None, rule: str) -> None:
    exits = [] if asked is None else [AgentExited(300 * MS, "runner", "n1", 0, 0, asked=asked)]
    found = judge(calls_follow_each_other, [*GOOD, begin(260, "n1", 2), *exits])
    assert (found.outcome, [each.rule for each in found.excuses]) == ("pass", [rule])


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
            "all_reduce (call 0 of process 2 of n1) was done 4.700 ms before data of n2",
        ),
        ((*GOOD[:5], replace(GOOD[5], name="broadcast"), *GOOD[6:]), "make different calls"),
        ((*GOOD[:5], GOOD[6]), "was done, but ranks 1 never began it"),
        (
            (replace(GOOD[0], bytes=96), *GOOD[1:]),
            "different bytes: all_reduce (call 0 of process 2 of n1) of 96 bytes, all_reduce",
        ),
        (
            [in_group(each, (0,)) if each.site == "n1" else each for each in GOOD],
            "group 0 of ranks 0, 1: rank 0 says that it has other ranks",
        ),
        ([in_group(each, (1,)) for each in GOOD], "group 0 of ranks 1: rank 0 calls it, but is"),
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


def of_process(events: Sequence[Event], process: int, later_ms: int) -> list[Event]:
    return [
        replace(each, process=process, t_ns=each.t_ns + later_ms * MS)
        for each in events
        if isinstance(each, CallStarted | CallFinished)
    ]


def test_calls_of_a_group_that_is_made_anew_are_one_if_they_overlap() -> None:
    """n2 is killed in its first call and comes back; n1 tries again, in a group without a name."""
    first = [begin(100, "n1", 0), end(900, "n1", 0, failed=True), begin(200, "n2", 0)]
    again = [begin(2000, "n1", 1), end(2200, "n1", 1)]
    back = of_process([begin(2100, "n2", 0), end(2200, "n2", 0)], 9, 0)
    found = judge(collectives_take_time, [*first, *again, *back])
    assert (found.outcome, found.judged, found.excused) == ("pass", 2, 0)
    early = [begin(2000, "n1", 1), end(2105, "n1", 1)]  # n2's data need 10 ms
    assert judge(collectives_take_time, [*first, *early, *back]).outcome == "fail"
    alone = [begin(2000, "n1", 1), end(2050, "n1", 1)]
    found = judge(collectives_take_time, [*first, *alone, *back])
    assert found.excuses[0].rule.startswith("its group may have been made anew")
    unnamed = [replace(e, group="") if isinstance(e, CallStarted) else e for e in GOOD]
    assert judge(collectives_take_time, unnamed).outcome == "pass"


def test_a_program_may_leave_its_group_and_make_one_of_the_same_name() -> None:
    alone = [each for each in GOOD if each.site == "n1"]
    left = [*GOOD, *later(alone, 2, (0,))]
    assert judge(collectives_take_time, left).outcome == "pass"
    found = judge(collectives_take_time, [*left, *later(alone, 4)])
    assert found.outcome == "fail"  # n2 never began these
    found = judge(collectives_take_time, [*left, *later(alone, 4)[:1]])
    assert (found.outcome, found.detail) == ("unknown", "group 0 has its former ranks again at n1")


def test_a_member_without_calls_is_doubted() -> None:
    found = judge(collectives_take_time, [each for each in GOOD if each.site == "n1"])
    assert (found.outcome, found.detail) == (
        "unknown",
        "group 0 of ranks 0, 1: no call of rank 1 was timed",
    )


SYNC = (SyncStarted(90 * MS, "n1", 0, 100, "allreduce"), SyncFinished(220 * MS, "n1", 0))


def test_a_synchronization_ends_after_its_calls() -> None:
    assert judge(calls_follow_each_other, [*GOOD, *SYNC]).outcome == "pass"
    early = replace(SYNC[1], t_ns=220 * MS - 1)
    found = judge(calls_follow_each_other, [*GOOD, SYNC[0], early])
    assert found.outcome == "unknown"
    assert found.detail == "task 0 ended at n1 during all_reduce (call 0 of process 2 of n1)"
    other = replace(begin(80, "n1", 2), thread=1)
    events = [*GOOD, SYNC[0], early, replace(other, t_ns=240 * MS), end(250, "n1", 2)]
    assert judge(calls_follow_each_other, events).outcome == "pass"


def test_synchronizations_without_timed_calls_are_doubted() -> None:
    found = judge(calls_follow_each_other, SYNC)
    assert (found.outcome, found.detail) == ("unknown", "no call was timed")
    run = RunFinished(0, "runner", "", (LinkTotals("n1", "n2", 100, 1, 0),))
    assert judge(calls_follow_each_other, [run]).outcome == "unknown"
    assert judge(calls_follow_each_other, []).outcome == "none"
