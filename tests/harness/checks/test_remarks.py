"""What did not move in a run, in runs that keep every promise."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hand_made import THREE_SITES, change
from three_sites import Change, added, altered, history, without

from trunkline.agents.events.call_events import CallStarted
from trunkline.agents.events.causes import Broken, TimeUp
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged, FaultStarted
from trunkline.agents.events.round_events import ComputeStarted, SyncFinished, SyncStarted
from trunkline.agents.events.run_events import (
    AgentExited,
    ExpectedOutput,
    ProgramsStarted,
    ProgramStarted,
    RunFinished,
    SiteQuiet,
    Stopping,
)
from trunkline.harness.checks.expectations import remarks as remarks_module
from trunkline.harness.checks.expectations.remarks import (
    FREE,
    STOP_OTHERWISE,
    _name_rare,
    find_remarks,
)
from trunkline.harness.checks.rules import Rules
from trunkline.harness.record.history import History
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.loading import parse
from trunkline.harness.scenario.sections.expectations import Expectation
from trunkline.harness.scenario.settings import Stop

S = 1_000_000_000
ASKS = "To have that judged, use expect: (docs/expect.md)."
SCENARIO = """
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [sh]}
stop: {time: 30 s}
"""
RULES = Rules.of(parse(SCENARIO, "x.yaml"))


def remarks(events: Sequence[Event], rules: Rules = RULES) -> list[str]:
    frame = (
        make_header(rules.scenario),
        ProgramsStarted(0, "runner"),
        Stopping(30 * S, "runner", cause=TimeUp(30.0)),
        RunFinished(30 * S, "runner", TimeUp(30.0), ()),
    )
    log = sorted((*frame, *events), key=lambda event: event.t_ns)
    free, *others = find_remarks(History.of(log), rules)
    assert free == FREE == "Computing took no time in this run (docs/programs.md, Computing)."
    return others


def quiet(since_s: int, until_s: int, *sites: str) -> list[SiteQuiet]:
    return [SiteQuiet(until_s * S, "runner", site, since_s * S) for site in sites or ("n1", "n2")]


def synchronized(at_s: int, *sites: str) -> list[Event]:
    started = [SyncStarted(at_s * S, site, 0, 9, "mine") for site in sites]
    return [*started, *(SyncFinished(at_s * S, site, 0) for site in sites)]


STARTED = [ProgramStarted(0, "runner", who, 0) for who in ("n1", "n2")]


def test_faults_of_the_timeline_that_never_came_are_named() -> None:
    late = "{at: 50 s, do: outage n1 n2}, {at: 40 s, do: kill n1}"
    timeline = f"timeline: [{late}, {{at: 1 s, do: heal}}]"
    rules = Rules.of(parse(SCENARIO + timeline, "x.yaml", ("limits.run=60 s",)))
    end = RunFinished(30 * S, "runner", TimeUp(30.0), ())
    log = (make_header(rules.scenario), ProgramsStarted(0, "runner"), end)
    assert next(find_remarks(History.of(log), rules)) == (
        "2 faults of the timeline never came, because the run stopped 30.000 s after the "
        "programs began: kill n1 at "
        "40 s; outage n1 n2 both blackhole at 50 s."
    )


def test_of_many_faults_that_never_came_the_first_are_named() -> None:
    late = ", ".join(f"{{at: {at_s} s, do: kill n1}}" for at_s in range(40, 45))
    rules = Rules.of(parse(f"{SCENARIO}timeline: [{late}]", "x.yaml", ("limits.run=60 s",)))
    end = RunFinished(30 * S, "runner", Broken((), interrupted=True), ())
    log = (make_header(rules.scenario), ProgramsStarted(0, "runner"), end)
    (said,) = find_remarks(History.of(log), rules)
    assert said.startswith("5 faults of the timeline never came, because the run stopped ")
    assert said.endswith(": kill n1 at 40 s; kill n1 at 41 s; kill n1 at 42 s; 2 more.")


def test_faults_before_a_failure_are_named_with_the_address_of_the_site() -> None:
    """A program only says that its peer, an address, is gone."""
    killed = [
        *STARTED,
        FaultStarted(2 * S, "runner", 0, "outage", "outage n1 n2 both blackhole", ("n1 -> n2",)),
        FaultStarted(3 * S, "runner", 1, "setlink", "setlink n1 n2 rate=1Mbit/s", ("n1 -> n2",)),
        FaultStarted(4 * S, "runner", 2, "kill", "kill n2", ("n2",)),
        AgentChanged(4 * S, "runner", "n2", "kill", 2),
        AgentExited(4 * S, "runner", "n2", signal=9, code=0, fault=2, asked=False),
    ]
    failed = AgentExited(5 * S, "runner", "n1", code=1, signal=0, asked=False)
    later = FaultStarted(6 * S, "runner", 3, "kill", "kill n1", ("n1",))
    begun = [
        "Fault 0 (outage n1 n2 both blackhole) began at 2.000 s, before n1 failed at 5.000 s.",
        "Fault 2 (kill n2) began at 4.000 s, before n1 failed at 5.000 s. The address of n2 is "
        "10.0.0.2.",
    ]
    frame = (make_header(RULES.scenario), ProgramsStarted(0, "runner"))
    end = RunFinished(7 * S, "runner", Broken(("n1 failed",), interrupted=False), ())
    found = [*find_remarks(History.of((*frame, *killed, failed, later, end)), RULES)]
    assert found[:2] == begun
    assert not any("Fault 1" in said or "Fault 3" in said for said in found)
    whole = [*find_remarks(History.of((*frame, *killed, end)), RULES)]
    assert not any(said.startswith("Fault") for said in whole)


def test_of_many_faults_before_a_failure_the_last_ones_are_named() -> None:
    faults = [
        FaultStarted(number * S, "runner", number, "pause", f"pause n{number % 2 + 1}", ("n1",))
        for number in range(5)
    ]
    failed = AgentExited(9 * S, "runner", "n1", code=1, signal=0, asked=False)
    end = RunFinished(9 * S, "runner", Broken(("n1 failed",), interrupted=False), ())
    log = (make_header(RULES.scenario), ProgramsStarted(0, "runner"), STARTED[0], *faults, failed)
    found = [*find_remarks(History.of((*log, end)), RULES)]
    assert found[0] == "2 other faults began before n1 failed."
    assert [said[:7] for said in found[1:4]] == ["Fault 2", "Fault 3", "Fault 4"]


def test_nothing_is_said_of_a_run_that_moves() -> None:
    assert remarks([*STARTED, *synchronized(9, "n1", "n2")]) == []


MODELLED = Rules.of(parse(SCENARIO.replace("[sh]", "[sh], compute: 1 s"), "x.yaml"))


def first_remark(rules: Rules, *steps: ComputeStarted) -> str:
    end = RunFinished(30 * S, "runner", TimeUp(30.0), ())
    log = (make_header(rules.scenario), ProgramsStarted(0, "runner"), *steps, end)
    return next(find_remarks(History.of(log), rules))


@pytest.mark.parametrize("rules", [RULES, MODELLED])
def test_steps_that_took_time_are_counted(rules: Rules) -> None:
    steps = [ComputeStarted(1, "n1", 0), ComputeStarted(2, "n1", 1)]
    took, idle = {
        True: ("took the times of workload.compute", " n2 had none."),
        False: ("that programs reported took computing time", " n2 reported none."),
    }[rules is MODELLED]
    said = f"2 steps {took}.{{}} All other code took no time (docs/programs.md, Computing)."
    assert first_remark(rules, *steps) == said.format(idle)
    assert first_remark(rules, *steps[:1], ComputeStarted(1, "n2", 0)) == said.format("")


def test_steps_are_progress() -> None:
    steps = [ComputeStarted(1, "n1", 0)]
    end = RunFinished(30 * S, "runner", TimeUp(30.0), ())
    log = (make_header(RULES.scenario), ProgramsStarted(0, "runner"), *steps, end)
    assert "progress" not in " ".join(find_remarks(History.of(log), RULES))


def test_a_time_of_computing_that_no_step_took_is_noticed() -> None:
    assert first_remark(MODELLED) == (
        "No program reported a step. So computing took no time, unless programs took their times "
        "from log/SITE.steps themselves (docs/programs.md, Computing)."
    )


def test_programs_that_say_nothing_are_asked_what_is_expected() -> None:
    said = "No program reported progress, so no check judged it."
    assert remarks(STARTED) == [said, ASKS]
    expects = change(RULES, expect=(Expectation(tasks=1),))
    assert remarks(STARTED, expects) == []


def test_a_call_that_a_program_never_began_is_named() -> None:
    call = CallStarted(9 * S, "n1", 2, 0, 0, "barrier", 0, "0", (0, 1), 0, None, True)
    said = "n2 never began barrier number 0, in which n1 waited from 9.0 s on."
    assert said in remarks([*STARTED, call])


def test_a_site_that_never_synchronizes_is_named() -> None:
    found = remarks([*STARTED, *synchronized(9, "n1")])
    assert found == ["n2 never synchronized, but others did.", ASKS]


def test_links_that_are_dead_for_most_of_the_run_are_noticed() -> None:
    found = remarks([*STARTED, *synchronized(1, "n1", "n2"), *quiet(1, 30)])
    said = "n1, n2 sent and received no data and reported nothing from 1.0 s to 30.0 s."
    assert found == [said, ASKS]


def test_a_third_of_the_run_in_two_parts_is_not_noticed() -> None:
    parts = [*quiet(0, 9), *quiet(10, 19), *quiet(20, 30)]
    assert remarks([*STARTED, *synchronized(25, "n1", "n2"), *parts]) == []


def test_only_the_time_in_which_a_program_runs_counts() -> None:
    """n1 starts late and is killed for a time; n2 never starts."""
    lives = [
        ProgramStarted(9 * S, "runner", "n1", 0),
        AgentExited(15 * S, "runner", "n1", code=0, signal=9, asked=False),
        ProgramStarted(24 * S, "runner", "n1", 1),
    ]
    never = "n2 never started."
    asks = "No program reported progress, so no check judged it."
    silent = "n1 sent and received no data and reported nothing from 9.0 s to"
    assert remarks([*quiet(1, 30), *lives]) == [never, asks, ASKS]
    assert remarks([*quiet(1, 30), lives[0]]) == [never, f"{silent} 30.0 s.", asks, ASKS]
    heard = [ExpectedOutput(20 * S, "runner", "n1", 0, "x")]
    assert remarks([*quiet(1, 30), lives[0], *heard])[1] == f"{silent} 20.0 s."


def test_a_program_that_has_exited_owes_nothing() -> None:
    exits = [AgentExited(2 * S, "runner", who, code=0, asked=False) for who in ("n1", "n2")]
    assert remarks([*STARTED, *synchronized(1, "n1", "n2"), *exits, *quiet(1, 30)]) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((), []),
        (
            (without("task_completed"), without("task_finished")),
            ["None of 3 tasks was completed."],
        ),
        ((without("task_finished", site="kyiv"),), ["kyiv had a part in no completed task.", ASKS]),
    ],
)
def test_tasks_of_agents_that_lead_to_nothing_are_noticed(changes, said) -> None:
    assert list(find_remarks(history(*changes), Rules.of(THREE_SITES))) == said


def leave_early(site: str, *alone: int) -> tuple[Change, ...]:
    """The site did these iterations alone, and left before the second of two completed tasks."""
    rounds = (added(1400, site, "round_alone", iteration=each) for each in alone)
    left = altered("worker_finished", {"t_ns": 1_405_000_000}, site=site)
    return (*rounds, left)


@pytest.mark.parametrize(
    ("site", "alone", "said"),
    [
        ("oslo", (1, 2, 3), "oslo took part in 1 of 2 completed tasks: it did its last 3 rounds"),
        ("oslo", (1, 2), "oslo took part in 1 of 2 completed tasks: it did 2 of its 4 rounds"),
        ("oslo", (3,), "oslo took part in 1 of 2 completed tasks: it did its last round"),
        (
            "kyiv",
            (0, 1, 2, 3),
            "kyiv took part in 0 of 2 completed tasks: it did all its rounds",
        ),
    ],
)
def test_a_site_that_left_early_because_it_did_its_rounds_alone_is_named(site, alone, said) -> None:
    rules = Rules.of(replace(THREE_SITES, stop=Stop(rounds=4)))
    gone = [without("task_finished", site="kyiv")] if site == "kyiv" else []
    found = list(find_remarks(history(*gone, *leave_early(site, *alone)), rules))
    assert found == [f"{said} alone.", STOP_OTHERWISE]


def test_sites_that_left_alike_are_named_together() -> None:
    rules = Rules.of(replace(THREE_SITES, stop=Stop(rounds=2)))
    changes = [*leave_early("oslo", 1), *leave_early("rome", 1), without("task_finished", task=1)]
    assert next(find_remarks(history(*changes), rules)) == (
        "oslo, rome took part in 1 of 2 completed tasks: each did its last round alone."
    )


def test_rounds_alone_are_no_reason_if_few_or_if_the_others_were_done_as_early() -> None:
    few, late = leave_early("oslo", 3), added(1400, "oslo", "round_alone", iteration=3)
    for changes, stop in ((few, Stop(rounds=5)), ((late,), Stop(rounds=4)), (few, Stop(tasks=2))):
        rules = Rules.of(replace(THREE_SITES, stop=stop))
        assert list(find_remarks(history(*changes), rules)) == []


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (
            (1, 9, 8, 10),
            "n1 took part in 1 of 10 completed tasks; half of the sites took part in 8.5 or more.",
        ),
        ((2, 9, 8, 10), ""),
        ((1, 4, 4, 4), ""),
        (
            (2, 1, 2, 2, 10, 10, 10, 10, 10),
            "n2 took part in 1 of 10 completed tasks, n1 took part in 2 of 10 completed tasks, n3 "
            "took part in 2 of 10 completed tasks, 1 other site in few; half of the sites took "
            "part in 10 or more.",
        ),
        ((), ""),
    ],
)
def test_sites_that_took_part_in_few_tasks_are_named(tasks: Sequence[int], said: str) -> None:
    sites = [f"n{number}" for number in range(1, len(tasks) + 1)]
    run = SimpleNamespace(completed=[None] * 10)
    assert "".join(_name_rare(sites, tasks, run)) == said


def test_only_in_runs_with_faults_few_tasks_are_worth_a_remark(monkeypatch) -> None:
    monkeypatch.setattr(remarks_module, "LEAST_TASKS", 0.0)
    monkeypatch.setattr(remarks_module, "FEW_SHARE", 1.0)
    fault = added(1, "runner", "fault_started", fault=0, verb="isolate", text="x", targets=["rome"])
    quiet, faulty = (list(find_remarks(history(*c), Rules.of(THREE_SITES))) for c in ((), (fault,)))
    assert quiet == []
    assert [" took part in " in said for said in faulty] == [True, False]


def test_a_run_without_a_completed_task_is_judged_and_asks_for_nothing() -> None:
    """Its verdict says that it shows nothing about its scheme."""
    agents = """
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s}
workload: {kind: synthetic, model: 1 kB}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 3}
"""
    rules = Rules.of(parse(agents, "x.yaml"))
    end = RunFinished(30 * S, "runner", TimeUp(30.0), ())
    found = find_remarks(History.of((make_header(rules.scenario), end)), rules)
    assert list(found) == ["No task began."]
