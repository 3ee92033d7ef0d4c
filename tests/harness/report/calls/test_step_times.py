"""Where the time of programs went, in logs that are written down by hand."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest

from trunkline.agents.events.call_events import CallFinished, CallStarted, TimingStopped
from trunkline.agents.events.causes import TimeUp
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged, FaultEnded, FaultStarted
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted
from trunkline.agents.events.run_events import (
    AgentExited,
    ProgramsStarted,
    ProgramStarted,
    RunFinished,
)
from trunkline.harness.record import calls
from trunkline.harness.record.hangs import describe_hangs
from trunkline.harness.record.history import History
from trunkline.harness.record.step_times import StepTime, list_step_times
from trunkline.harness.report.calls.late_starts import describe_late_start
from trunkline.harness.report.calls.steps.step_tables import (
    PARTS,
    StepRow,
    describe_before,
    describe_longest,
    rank_stragglers,
    sum_steps,
    tabulate_steps,
)
from trunkline.harness.report.calls.steps.steps_section import describe_stragglers
from trunkline.workloads.program_roles import PROCESSES, find_owner, first_process

S = 10**9
SITES = ("n1", "n2", "n3")


def call(
    site: str, number: int, begin: int, end: int | None, name: str = "all_reduce", root: int = 0
) -> list[Event]:
    peer = root if name in ("broadcast", "gather") else None
    rank = SITES.index(site)
    started = CallStarted(begin, site, 2, number, 0, name, 100, "0", (0, 1, 2), rank, peer, True)
    return [started] + ([] if end is None else [CallFinished(end, site, 2, number, False)])


def computing(site: str, iteration: int, begin: int, end: int) -> list[Event]:
    return [ComputeStarted(begin, site, iteration), ComputeFinished(end, site, iteration)]


def steps(*events: Sequence[Event]) -> list[StepTime]:
    return list(list_step_times(make_history(*events), SITES))


def make_history(*events: Sequence[Event]) -> History:
    every = [ProgramsStarted(0, "runner"), *(event for each in events for event in each)]
    return History.of(sorted(every, key=lambda event: event.t_ns))


def parts(step: StepTime) -> tuple[int, int, int, int]:
    return step.computing_ns, step.waiting_ns, step.moving_ns, step.rest_ns


STARTED = [ProgramStarted(0, "runner", "n1", 0)]
TWICE = [
    *STARTED,
    AgentExited(40, "runner", "n1", code=1, signal=0, asked=False),
    ProgramStarted(45, "runner", "n1", 1),
    AgentExited(60, "runner", "n1", code=0, signal=0, asked=False),
]

ALL_REDUCE = [call("n1", 0, 10, 60), call("n2", 0, 30, 60), call("n3", 0, 40, 70)]


def test_an_all_reduce_waits_for_its_last_member_and_then_moves_bytes() -> None:
    found = steps(*ALL_REDUCE)
    assert [parts(step) for step in found] == [(0, 30, 20, 10), (0, 10, 20, 30), (0, 0, 30, 40)]
    assert [step.waited_for for step in found] == [{"n3": 30}, {"n3": 10}, {}]
    assert rank_stragglers(make_history(*ALL_REDUCE), SITES) == [("n3", 40e-9)]


@pytest.mark.parametrize(
    ("waited", "all_s", "rest"),
    [(3, 24, ""), (4, 30, ", 3.000 s for n3"), (5, 35, ", 5.500 s for 2 others")],
)
def test_waits_are_means_of_a_program_that_add_up(waited: int, all_s: float, rest: str) -> None:
    found = [(f"n{number}", 9.0 - number) for number in range(waited)]
    named = "4.500 s for n0, 4.000 s for n1, 3.500 s for n2"
    assert [*describe_stragglers(found, 2)] == [
        f"A program waited {all_s / 2:.3f} s on average: {named}{rest}."
    ]


def test_only_the_root_of_a_broadcast_is_waited_for() -> None:
    found = steps(
        call("n1", 0, 20, 30, "broadcast"),
        call("n2", 0, 10, 40, "broadcast"),
        call("n3", 0, 50, 55, "broadcast"),
    )
    assert [parts(step) for step in found] == [(0, 0, 10, 20), (0, 10, 20, 10), (0, 0, 5, 50)]


def test_computing_counts_before_calls_and_divides_the_steps() -> None:
    found = steps(
        computing("n1", 0, 0, 20),
        call("n1", 0, 10, 30, "barrier"),
        computing("n1", 1, 50, 60),
        call("n2", 0, 25, 30, "barrier"),
        call("n3", 0, 25, 30, "barrier"),
    )
    assert [(step.site, step.number) for step in found] == [
        ("n1", 0), ("n1", 1), ("n2", None), ("n3", None),
    ]  # fmt: skip
    assert [parts(step) for step in found[:2]] == [(20, 5, 5, 20), (10, 0, 0, 0)]


def test_iterations_that_are_counted_anew_are_other_steps() -> None:
    """A program that was started again counts from 0."""
    found = steps(computing("n1", 0, 0, 20), TWICE, computing("n1", 0, 50, 60))
    assert [(step.number, step.start_ns, step.stopped_ns, parts(step)) for step in found] == [
        (0, 0, 5, (20, 0, 0, 20)), (None, 45, 0, (0, 0, 0, 5)), (0, 50, 0, (10, 0, 0, 0)),
    ]  # fmt: skip


def test_a_program_that_was_started_again_is_one_program() -> None:
    """Its processes have other ids. Until the second one starts, the program is stopped."""
    first = [ComputeStarted(10, "n1", 0, None, 2), ComputeFinished(20, "n1", 0, 2)]
    second = [ComputeStarted(50, "n1", 0, None, PROCESSES + 2),
              ComputeFinished(60, "n1", 0, PROCESSES + 2)]  # fmt: skip
    frame = StepRow.frame(tabulate_steps(make_history(first, TWICE, second), ["n1"]))
    assert frame["program"].tolist() == ["n1"] * 4
    assert frame["process"].tolist() == [2, 2, PROCESSES + 2, PROCESSES + 2]
    assert frame["step"].fillna(-1).tolist() == [-1, 0, -1, 0]
    assert (frame["duration_s"] * 1e9).round().tolist() == [10, 35, 5, 10]
    assert (frame["stopped_s"] * 1e9).round().tolist() == [0, 5, 0, 0]
    sums = sum_steps(frame)
    assert sums[["program", "steps"]].to_numpy().tolist() == [["n1", 2]]
    assert sums["before_s"].tolist() == pytest.approx([15e-9])
    said = "0.000 s of a program's time, on average, passed before its first step."
    assert list(describe_before(sums)) == [said]


def test_a_paused_program_neither_computes_nor_moves_bytes() -> None:
    faults = [AgentChanged(5, "runner", "n1", "pause", 0),
              AgentChanged(25, "runner", "n1", "resume", 0)]  # fmt: skip
    found = steps(STARTED, computing("n1", 0, 0, 20), faults, call("n1", 0, 20, 40, "send"))
    own = [step for step in found if step.site == "n1"]
    assert [(step.stopped_ns, parts(step)) for step in own] == [(20, (5, 0, 15, 0))]


def test_roles_of_a_site_have_the_time_of_their_own_processes() -> None:
    """They are waited for by their names. One that does not call has its whole time as rest."""
    programs = ("n1.a", "n1.b", "n2.b")
    started = [ProgramStarted(0, "runner", who, 0) for who in programs]
    exits = [AgentExited(60, "runner", who, code=0, signal=0, asked=False) for who in programs]
    begun = [
        CallStarted(10, "n1", PROCESSES + 2, 0, 0, "all_reduce", 9, "0", (0, 1), 0, None, True),
        CallStarted(30, "n2", 2, 0, 0, "all_reduce", 9, "0", (0, 1), 1, None, True),
    ]
    ended = [CallFinished(50, call.site, call.process, 0, False) for call in begun]
    found = list(list_step_times(make_history(started, begun, ended, exits), programs))
    assert [(step.who, parts(step), dict(step.waited_for)) for step in found] == [
        ("n1.a", (0, 0, 0, 60), {}),
        ("n1.b", (0, 20, 20, 10), {"n2.b": 20}),
        ("n2.b", (0, 0, 20, 30), {}),
    ]


def test_the_number_of_a_process_tells_its_program() -> None:
    here = ["n1.a", "n1.b", "n1.c"]
    for attempt, name in itertools.product(range(3), here):
        assert find_owner(here, first_process(here, name, attempt) + 17) == name
    assert find_owner(here, None) == "n1"
    assert find_owner(["n1.a"], None) == "n1.a"


def test_the_parts_of_an_iteration_are_one_step() -> None:
    """A program reports that it computes, and `compute` adds a time at its optimizer's step."""
    found = steps(
        computing("n1", 0, 0, 10),
        computing("n1", 0, 30, 40),
        computing("n1", 1, 50, 60),
    )
    assert [(step.number, step.start_ns, parts(step)) for step in found[:2]] == [
        (0, 0, (20, 0, 0, 30)), (1, 50, (10, 0, 0, 0)),
    ]  # fmt: skip


def test_a_call_without_an_end_moves_bytes_to_the_end_of_the_step() -> None:
    found = steps(call("n1", 0, 10, None), call("n1", 1, 20, 90, "barrier"))
    assert parts(found[0]) == (0, 0, 80, 10)


def test_the_parts_of_each_row_add_up() -> None:
    history = make_history(*ALL_REDUCE, computing("n1", 0, 5, 9))
    frame = StepRow.frame(tabulate_steps(history, SITES))
    assert frame["duration_s"].tolist() == pytest.approx(frame[list(PARTS)].sum(axis=1).tolist())
    assert frame["waited_for"].tolist() == ["", "n3", "n3", ""]
    assert sum_steps(frame)["steps"].tolist() == [1, 0, 0]
    assert sum_steps(frame)["before_s"].tolist() == pytest.approx([5e-9, 0, 0])


def of_process(process: int, iteration: int, begin: int, end: int | None) -> list[Event]:
    began = ComputeStarted(begin, "n1", iteration, None, process)
    return [began] if end is None else [began, ComputeFinished(end, "n1", iteration, process)]


@pytest.mark.parametrize("second", [5, 20, 25])
def test_each_process_of_a_site_has_its_own_steps(second: int) -> None:
    """Whether the second one begins while the first one computes, or afterwards."""
    found = steps(
        of_process(2, 0, 0, 20),
        of_process(3, 0, second, 30),
        of_process(2, 1, 40, 50),
        of_process(3, 1, 40, 60),
    )
    own = [step for step in found if step.site == "n1" and step.number is not None]
    assert [(step.process, step.number, step.start_ns, step.computing_ns) for step in own] == [
        (2, 0, 0, 20), (2, 1, 40, 10), (3, 0, second, 30 - second), (3, 1, 40, 20),
    ]  # fmt: skip


def test_a_site_waits_for_itself_only_if_another_process_of_it_is_meant() -> None:
    meeting = [
        event
        for site, process, begin in [("n1", 2, 10), ("n1", 3, 40), ("n2", 2, 20), ("n2", 3, 30)]
        for event in of_group(site, process, begin, 60)
    ]
    history = make_history(of_process(2, 0, 0, 8), of_process(3, 0, 0, 36), meeting)
    frame = StepRow.frame(tabulate_steps(history, ("n1", "n2")))
    both = [f"{name} (process {number})" for name in ("n1", "n2") for number in (2, 3)]
    assert frame["program"].tolist() == both
    assert frame["waited_for"].tolist() == ["n1 (process 3)", "", "n1", "n1"]
    assert frame["process"].tolist() == [2, 3, 2, 3]
    assert frame["waiting_s"].tolist() == pytest.approx([30e-9, 0, 20e-9, 10e-9])
    assert rank_stragglers(history, ("n1", "n2")) == [("n1 (process 3)", 30e-9), ("n1", 30e-9)]
    sums = sum_steps(frame)
    assert sums["program"].tolist() == both
    assert sums["computing_s"].tolist() == pytest.approx([8e-9, 36e-9, 0, 0])


def of_group(site: str, process: int, begin: int, end: int) -> list[Event]:
    rank = ["n1", "n2"].index(site) * 2 + process - 2
    ranks = (0, 1, 2, 3)
    name = "all_reduce"
    began = CallStarted(begin, site, process, 0, 0, name, 100, "0", ranks, rank, None, True)
    return [began, CallFinished(end, site, process, 0, False)]


def test_a_call_of_a_process_that_was_replaced_ends_when_the_next_one_begins() -> None:
    hangs = call("n1", 0, 10, None)
    after = [CallStarted(50, "n1", 7, 0, 0, "barrier", 0, "0", (0, 1, 2), 0, None, True),
             CallFinished(70, "n1", 7, 0, False)]  # fmt: skip
    own = [step for step in steps(hangs, after) if step.site == "n1"]
    assert [(step.who, step.end_ns, step.moving_ns, step.rest_ns) for step in own] == [
        ("n1", 70, 60, 10),
    ]  # fmt: skip


HUNG = [
    [ProgramStarted(0, "runner", site, 0) for site in SITES],
    *ALL_REDUCE,
    call("n1", 1, 100, None),
    call("n2", 1, 110, None),
    [RunFinished(400 * S, "runner", TimeUp(400.0), ())],
]


def test_members_wait_to_the_end_for_one_that_never_begins() -> None:
    """Its own row lasts until its program ends, not until its last call did."""
    end = 400 * S
    found = steps(*HUNG)
    assert [parts(step) for step in found] == [
        (0, end - 70, 20, 50), (0, end - 100, 20, 80), (0, 0, 30, end - 30),
    ]  # fmt: skip
    assert [step.waited_for for step in found] == [{"n3": end - 70}, {"n3": end - 100}, {}]
    assert list(describe_hangs(make_history(*HUNG), SITES)) == [
        "n3 never began all_reduce number 1, in which n1 and n2 waited from 0.0 s on."
    ]


def test_a_call_that_fails_was_waiting_for_those_that_never_began_it() -> None:
    """Where others ended calls that need n3, its calls are not timed, so it is not missing."""
    exits = [AgentExited(80, "runner", "n2", code=1, signal=0, asked=False)]
    failed = [*call("n1", 1, 90, None), CallFinished(2 * S, "n1", 2, 1, True)]
    events = [HUNG[0], call("n1", 0, 10, 60), call("n2", 0, 30, 60), exits, failed, HUNG[-1]]
    found = steps(*events)
    assert [(dict(step.waited_for), step.end_ns) for step in found] == [
        ({"n2": 20 + 2 * S - 90}, 2 * S), ({}, 80), ({}, 400 * S),
    ]  # fmt: skip
    assert list(describe_hangs(make_history(*events), SITES)) == [
        "n2 never began all_reduce number 1, in which n1 waited from 0.0 s to 2.0 s."
    ]
    first = [HUNG[0], call("n1", 0, 10, None), HUNG[-1]]
    assert list(describe_hangs(make_history(*first), SITES)) == [
        "n2 and n3 never began all_reduce number 0, in which n1 waited from 0.0 s on."
    ]
    said = "rank 1 and rank 2 never began all_reduce number 0, in which n1 waited from 0.0 s on."
    assert list(describe_hangs(make_history(*first), ["n1"])) == [said]


def test_calls_that_are_cut_by_the_end_of_the_run_are_not_said_to_hang() -> None:
    """Others took as long. What they waited for is told all the same."""
    log = [*ALL_REDUCE, call("n1", 1, 100, None), call("n2", 1, 110, None)]
    end = [RunFinished(140, "runner", TimeUp(1.0), ())]
    assert steps(*log, end)[0].waited_for == {"n3": 70}
    assert list(describe_hangs(make_history(*log, end), SITES)) == []


def test_the_calls_of_one_hang_are_told_once() -> None:
    later = [call(site, 2, 200, None) for site in ("n1", "n2")]
    assert len(list(describe_hangs(make_history(*HUNG, *later), SITES))) == 1


def test_no_call_is_said_to_hang_if_the_timing_of_a_process_stopped() -> None:
    stopped = [TimingStopped(90, "n3", 2, "only the first 1 calls of a process are timed")]
    assert [step.waiting_ns for step in steps(*HUNG, stopped)] == [40, 10, 0]


def test_what_a_launcher_ended_does_not_count_as_computing() -> None:
    found = steps(of_process(2, 0, 0, 20), of_process(2, 1, 30, None), of_process(3, 1, 70, 80))
    assert [step.computing_ns for step in found if step.site == "n1"] == [20, 10]


@pytest.mark.parametrize(
    ("first_end", "why"),
    [
        (5 * S, "its all_reduce before had ended 3.000 s later"),
        (3 * S, "it took 2.000 s longer from the end of a call to the start of the next one"),
    ],
)
def test_why_a_program_began_last_is_said(first_end: int, why: str) -> None:
    """n3 begins its second call 3 s after the others, whose first calls had ended at 2 s."""
    history = make_history(
        *(call(site, 0, S, 2 * S) for site in SITES[:2]),
        call("n3", 0, S, first_end),
        *(call(site, 1, 3 * S, 7 * S) for site in SITES[:2]),
        call("n3", 1, 6 * S, 7 * S),
    )
    said = f"n3 typically began 3.000 s after those that waited for it, mostly because {why}."
    assert [*describe_late_start(history, SITES, "n3")] == [said]
    assert not [*describe_late_start(history, SITES, "n1")]


def test_of_several_calls_before_the_most_frequent_one_is_named() -> None:
    """n3 is late after two barriers and one reduce."""
    names = ("barrier", "barrier", "reduce")
    history = make_history(
        *(
            call(site, number, start * S, end * S, what)
            for turn, name in enumerate(names)
            for site, late in (("n1", 0), ("n2", 0), ("n3", 3))
            for number, start, end, what in (
                (2 * turn, 20 * turn + 1, 20 * turn + 2 + late, name),
                (2 * turn + 1, 20 * turn + 4 + late, 20 * turn + 9, "all_gather"),
            )
        )
    )
    (said,) = describe_late_start(history, SITES, "n3")
    assert "mostly because its last call before (in 2 of 3 cases barrier) had ended " in said


def test_the_root_of_a_broadcast_and_the_last_of_a_gather_are_late_for_those_that_wait() -> None:
    """n3 begins the gather 3 s after its root, n1, and n1 the broadcast after n2 and n3."""
    history = make_history(
        *(call(site, 0, S, 2 * S, "barrier") for site in SITES[:2]),
        call("n3", 0, S, 5 * S, "barrier"),
        *(
            call(site, 1, begin * S, end * S, "gather")
            for site, begin, end in (("n1", 2, 7), ("n2", 2, 5), ("n3", 5, 6))
        ),
        *(
            call(site, 2, begin * S, 8 * S, "broadcast")
            for site, begin in (("n1", 7), ("n2", 5), ("n3", 6))
        ),
    )
    assert [*describe_late_start(history, SITES, "n3")] == [
        "n3 typically began 3.000 s after those that waited for it, mostly because its barrier "
        "before had ended 3.000 s later."
    ]
    assert [*describe_late_start(history, SITES, "n1")] == [
        "n1 typically began 1.500 s after those that waited for it, mostly because its gather "
        "before had ended 1.500 s later."
    ]
    assert not [*describe_late_start(history, SITES, "n2")]


def test_long_steps_are_named_once_with_their_longest_part() -> None:
    def step(
        program: str, number: int | None, duration: float, **parts: float
    ) -> dict[str, object]:
        times = dict.fromkeys(PARTS, 0.0) | {f"{name}_s": time for name, time in parts.items()}
        return {"program": program, "step": number, "duration_s": duration, **times}

    usual = [step(p, n, 2.0, moving=1.5, computing=0.5) for p in SITES for n in range(5)]
    late = [
        step("n1", 5, 3.0, moving=1.4, computing=1.6),
        step("n2", 5, 4.0, moving=1.5, held=2.5),
        step("n3", 6, 2.1, moving=2.1),
        step("n3", None, 9.0, moving=9.0),
    ]
    assert [*describe_longest(pd.DataFrame([*usual, *late]))] == [
        "Longest steps: step 5 of n2 (4.000 s, 2.500 s of it held up by faults in calls)."
    ]
    (said,) = describe_longest(
        pd.DataFrame([*usual, *late]), lambda number, who: f": fault 3 in step {number} of {who}"
    )
    assert said.endswith(" of it held up by faults in calls: fault 3 in step 5 of n2).")
    assert not [*describe_longest(pd.DataFrame(usual))]
    assert not [*describe_longest(pd.DataFrame([late[-1]]))]


def test_a_program_that_computes_longer_is_said_to_per_step() -> None:
    """Not diluted by the calls of the start, before which no program computes."""
    start = [call(site, number, number * S, number * S + 1) for site in SITES for number in (0, 1)]
    log = [
        event
        for number in (2, 3, 4)
        for site, took in zip(SITES, (10**8, 12 * 10**7, 4 * 10**8), strict=True)
        for event in (
            *computing(site, number, number * S, number * S + took),
            *call(site, number, number * S + took + 1000, number * S + 9 * 10**8),
        )
    ]
    history = make_history(*start, log)
    said = "it computed 0.290 s longer per step (0.400 s against 0.110 s)"
    assert [*describe_late_start(history, SITES, "n3")] == [
        f"n3 typically began 0.290 s after those that waited for it, mostly because {said}."
    ]
    parts = [
        each if not isinstance(each, ComputeStarted | ComputeFinished) or each.iteration == 2
        else replace(each, iteration=3) for each in log
    ]  # fmt: skip
    (split,) = describe_late_start(make_history(*start, parts), SITES, "n3")
    assert split.endswith("it computed 0.290 s longer between calls (0.400 s against 0.110 s).")


def test_a_step_beside_a_fault_does_not_say_why_a_program_began_last() -> None:
    """n3 begins its calls 0.1 s later, and once 2 s later, beside a fault."""
    log = [
        *(call(site, 0, S, 2 * S) for site in SITES),
        *(call(site, 1, 3 * S + S // 10 * (site == "n3"), 4 * S) for site in SITES),
        *(call(site, 2, 5 * S + 2 * S * (site == "n3"), 8 * S) for site in SITES),
    ]
    fault = [FaultStarted(5 * S, "runner", 0, "pause", "pause n3", ("n3",)),
             FaultEnded(7 * S, "runner", 0)]  # fmt: skip
    (said,) = describe_late_start(make_history(*log, fault), SITES, "n3")
    assert said.startswith("n3 typically began 0.100 s after")
    (said,) = describe_late_start(make_history(*log), SITES, "n3")
    assert not said.startswith("n3 typically began 0.100 s after")


def test_a_pause_before_a_call_is_not_computing() -> None:
    history = make_history(
        STARTED,
        *(call(site, 0, S, 2 * S) for site in SITES),
        *(computing(site, 0, 2 * S, 3 * S) for site in SITES[1:]),
        computing("n1", 0, 2 * S, 6 * S),
        [AgentChanged(2 * S + 1, "runner", "n1", "pause", 0),
         AgentChanged(5 * S + 1, "runner", "n1", "resume", 0)],
        *(call(site, 1, 3 * S, 7 * S) for site in SITES[1:]),
        call("n1", 1, 6 * S, 7 * S),
    )  # fmt: skip
    (said,) = describe_late_start(history, SITES, "n1")
    assert said.endswith(
        "it took 3.000 s longer from the end of a call to the start of the next one."
    )


def test_meetings_of_calls_are_found_once_for_all_tables_and_sentences(monkeypatch) -> None:
    """With many calls, finding them takes longer than all else."""
    found = []
    groups = calls.list_groups
    monkeypatch.setattr(calls, "list_groups", lambda history: found.append(0) or groups(history))
    history = History.of(())
    assert len(list(list_step_times(history, ()))) == 0
    assert calls.find_meetings(history) is calls.find_meetings(history)
    assert len(found) == 1
    calls.find_meetings(History.of(()))
    assert len(found) == 2  # another history has its own
