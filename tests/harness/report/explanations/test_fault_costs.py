"""What each fault cost the tasks of a run, in sentences."""

from __future__ import annotations

import re
from dataclasses import replace

import three_sites
from finished_runs import make_agents_run

from trunkline.agents.events.connection_events import (
    ControllerFound,
    ControllerLost,
    WorkerFound,
    WorkerLost,
)
from trunkline.agents.events.fault_events import AgentChanged, FaultEnded, FaultStarted
from trunkline.agents.events.round_events import ComputeStarted, RoundAlone
from trunkline.agents.events.task_events import TaskStarted
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.record.stops import Standstill
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.abandonment import Failure, Late
from trunkline.harness.report.explanations.costs.measured_costs import Longer, SiteCost
from trunkline.harness.report.explanations.costs.task_losses import (
    AND_STOPS,
    MEANING,
    describe_losses,
)
from trunkline.harness.report.explanations.explained_tasks import explain_latest
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.fault_search import FaultSearch
from trunkline.harness.report.explanations.time_parts import Cause, Part
from trunkline.harness.report.explanations.told.explanations_section import explain_lost_time
from trunkline.harness.report.explanations.told.fault_costs import (
    describe_fault_costs,
    sum_lost,
    sum_taken,
)
from trunkline.harness.report.explanations.told.worst_fault import name_worst
from trunkline.harness.report.explanations.waits import Held, Stretch, Wait
from trunkline.harness.report.faults.fault_layout import describe_span
from trunkline.harness.report.pages.markup import join
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

NOTHING = "It delayed no task, as far as the log tells."
LOST = {"type": "site_lost", "site": "kyiv"}


BEYOND = " beyond the faults before it."


def test_a_fault_names_the_tasks_that_it_cost_time_and_those_that_failed(tmp_path) -> None:
    data = outputs.read(make_agents_run(tmp_path / "run"))
    history = data.history
    task = history.completed[0]
    numbered = [
        replace(task, started=replace(task.started, task=number, t_ns=number))
        for number in range(9)
    ]
    slow = [
        replace(
            Explanation(each, 2.0, 1.0, (), (Part("outage", 0.5, "a -> b", fault=0),), None, None),
            lost_s=1.0,
        )
        for each in numbered
    ]
    given_up = replace(
        slow[0], failures=(Failure(("rome",), "oslo is lost", 0, late=Late(0.5, ((0, 0.5),))),)
    )
    untouched = replace(slow[1], parts=(Part("outage", 0.001, "a -> b", fault=0),))

    def describe(*found: Explanation) -> str:
        (said,) = describe_fault_costs(found, history)  # the heal costs nothing
        acted = "Fault 0 (outage oslo rome for 100 ms) acted from 0.200 s to 0.300 s of the run. "
        assert said.startswith(acted)
        return said.removeprefix(acted)

    assert describe() == NOTHING
    assert describe(slow[2], untouched) == "It took 0.500 s of task 2."
    assert describe(slow[2], slow[1]) == "It took 0.500 s of task 1 and 0.500 s of task 2."
    assert describe(given_up, slow[3]) == (
        "It took 1.000 s of task 0 and 0.500 s of task 3. "
        "rome gave up task 0 (0.500 s after its end for the others)."
    )
    assert describe(replace(given_up, parts=())) == (
        "rome gave up task 0 (0.500 s after its end for the others)."
    )
    assert describe(*slow) == (
        "It took 0.500 s of task 0, 0.500 s of task 1, 0.500 s of task 2, 0.500 s of task 3, "
        "0.500 s of task 4 and 2.000 s of 4 other tasks."
    )


def test_a_fault_behind_a_wait_made_the_task_begin_later_and_took_nothing_of_it(tmp_path) -> None:
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    wait = Wait("rome", 0.0, 0.1, 0.974, "late", (), (0, 0), ("rome", 0))
    found = Explanation(history.completed[0], 1.0, 1.0, (), (), None, wait, lost_s=0.974)
    assert (found.before_s, found.faults, found.began_late(0)) == ({}, frozenset(), False)
    late = replace(found, wait=replace(wait, fault=0))
    assert (late.taken_s, late.before_s, late.began_late(0)) == ({}, {0: 0.974}, True)
    (said,) = describe_fault_costs([late], history)
    assert said.endswith(" of the run. Task 0 (0.974 s) began later.")
    # of several stretches it counts with its own, and only if these are a good part of the wait
    stretches = (Stretch(0.8, "", None), Stretch(0.174, "late", None, 0))
    short = replace(late, wait=replace(wait, stretches=stretches))
    assert (short.before_s, short.began_late(0)) == ({0: 0.174}, False)
    soon = replace(late, wait=replace(wait, decide_s=0.09, fault=0))
    assert (soon.before_s, soon.began_late(0)) == ({0: 0.09}, False)  # not worth a word
    second = replace(history.completed[1], started=replace(history.completed[1].started, t_ns=1))
    both = replace(late, task=second), short, late
    (said,) = describe_fault_costs(both, history)
    assert said.endswith(" of the run. Tasks 1 (0.974 s) and 0 (0.974 s) began later.")


def test_a_stop_of_the_last_member_counts_with_what_others_waited_meanwhile(tmp_path) -> None:
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    held = Held(Standstill("rome", "pause", 0, 10**9, 0), 1.0, 0.6, True)
    wait = Wait("rome", 0.7, 0.1, 0.01, "", (), (0, 0), ("rome", 0), held=held)
    found = Explanation(history.completed[0], 1.0, 1.0, (), (), None, wait, lost_s=0.61)
    assert (found.before_s, found.began_late(0)) == ({0: 0.6}, True)
    (said,) = describe_losses([found], history)
    assert " 0.600 s to waits for a last member while it was stopped, 0.010 s to messages " in said
    assert AND_STOPS in said


def test_all_that_a_fault_did_to_a_task_makes_it_one_of_its_faults_and_late_ones_notable() -> None:
    """The controller waited for something because of fault 0, which had stopped the last member."""
    task = three_sites.history().tasks[0]
    held = Held(Standstill("rome", "pause", 0, 10**9, 0), 1.0, 0.25, True)
    stretches = Stretch(0.25, "late", None, 0), Stretch(0.25, "", None), Stretch(0.5, "x", None, 2)
    wait = Wait("rome", 0.7, 0.1, 1.0, "late", (), (0, 0), ("rome", 0), 0, held=held)
    wait = replace(wait, stretches=stretches)
    parts = Part("outage", 0.5, "a -> b", 1), Part("rate", 9.5, "a -> b")
    found = Explanation(task, 10.0, 10.0, (), parts, parts[1], wait)
    assert (found.taken_s, found.before_s) == ({1: 0.5}, {0: 0.5, 2: 0.5})
    assert found.faults == {0, 1, 2}
    assert sum_taken([found, found]) == {1: 1.0}
    assert sum_lost([found, found]) == {0: 1.0, 1: 1.0, 2: 1.0}
    assert [found.began_late(fault) for fault in range(3)] == [True, False, True]
    assert found.is_notable and not (found.is_slow or found.is_disturbed)
    others = tuple(replace(each, fault=None) for each in stretches)
    assert not replace(found, wait=replace(wait, held=None, stretches=others)).is_notable


def test_a_repair_is_told_and_tasks_are_in_order_of_what_the_fault_took(tmp_path) -> None:
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    task = history.completed[0]

    def make(number: int, cause: Cause, seconds: float, fault: int) -> Explanation:
        started = replace(task.started, task=number, t_ns=number)
        part = Part(cause, seconds, "a -> b", fault)
        found = Explanation(replace(task, started=started), 9.0, 1.0, (), (part,), None, None)
        return replace(found, lost_s=8.0)

    small, large = make(1, "outage", 0.1, 0), make(2, "outage", 0.3, 0)
    repaired, other = make(3, "repair", 0.2, 0), make(4, "stop", 1.0, 1)
    (said,) = describe_fault_costs([small, large, repaired], history)
    assert said.endswith(
        " It took 0.300 s of task 2, 0.200 s of task 3 (rearranged) and 0.100 s of task 1."
    )
    halted = three_sites.added(300, "controller", "task_halted", task=0, cause=LOST, members=[])
    again = replace(repaired, task=three_sites.history(halted).tasks[0])
    (said,) = describe_fault_costs([again], history)
    assert said.endswith(" It took 0.200 s of task 0 (halted and repaired).")
    assert [*name_worst([small, large], history)] == []
    events = [e for e in history.events if not isinstance(e, FaultStarted) or e.fault != 1]
    two = History.of([*events, FaultStarted(1, "runner", 1, "kill", "kill rome", ())])
    assert [*name_worst([small, large, other], two)] == [
        "Of 2 faults, fault 1 (kill rome) held tasks up longest: 1.000 s of the 1.400 s of all "
        "faults."
    ]


def test_the_waits_that_faults_were_behind_count_for_their_order() -> None:
    """Of 11 faults, fault 1 took 1 s of a task, and fault 2 was behind a wait of 1.5 s."""
    kills = [
        FaultStarted(number, "runner", number, "kill", f"kill n{number}", (f"n{number}",))
        for number in range(11)
    ]
    history = History.of([*kills, *three_sites.history().events])
    wait = Wait("rome", 0.0, 0.1, 1.5, "late", (), (0, 0), ("rome", 0), 2)
    part, least = Part("stop", 1.0, "n1", 1), Part("stop", 0.05, "n0", 0)
    others = (Part("stop", 0.1, f"n{number}", number) for number in range(3, 11))
    parts = part, *others, least
    found = [Explanation(history.tasks[0], 2.0, 1.0, (), parts, part, wait, lost_s=2.5)]
    assert [*name_worst(found, history)] == [
        "Of 11 faults, fault 2 (kill n2) held tasks up longest: 1.500 s of the 3.350 s of all "
        "faults."
    ]
    first, second, *_, last = describe_fault_costs(found, history)
    assert first.startswith("Fault 2 (kill n2) acted ")
    assert first.endswith(" Task 0 (1.500 s) began later.")
    assert second.startswith("Fault 1 (kill n1) acted ") and second.endswith(" of task 0.")
    assert last == "1 other fault was behind 0.050 s of tasks in all."
    # what was measured comes first, if the worst fault made the run longer at all
    (worst,) = name_worst(found, history, [Longer((1,), 0.06, 0), Longer((2,), 0.01, 0)])
    assert worst == f"Fault 1 (kill n1) delayed the run most, by 0.060 s{BEYOND}"
    (worst,) = name_worst(found, history, [Longer((1,), 0.04, 0), Longer((2,), 0.01, 0)])
    assert worst == "No fault made the run longer."
    assert not [*name_worst(found, history, [Longer((1,), None, 0), Longer((2,), None, 0)])]


def test_members_that_gave_tasks_up_are_named_with_their_tasks(tmp_path) -> None:
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    task = history.completed[0]
    members = tuple(f"n{number}" for number in range(1, 9))

    def make(number: int, *names: str) -> Explanation:
        started = replace(task.started, task=number, t_ns=number)
        failures = (Failure(names, "n9 is lost", 0),)
        found = Explanation(replace(task, started=started), 1.0, 1.0, (), (), None, None)
        return replace(found, failures=failures)

    (said,) = describe_fault_costs([make(1, "n1"), make(2, "n1", "n2")], history)
    assert said.endswith(" of the run. n1 gave up task 1 and task 2 and n2 gave up task 2.")
    (said,) = describe_fault_costs([make(1, *members)], history)
    assert said.endswith(" n6 gave up task 1 and 2 other sites gave up tasks.")
    other = replace(make(1, "n1"), failures=(Failure(("n1",), "n9 is lost", 1),))
    (said,) = describe_fault_costs([other, make(2, "n2")], history)
    assert said.endswith(" of the run. n2 gave up task 2.")


def test_a_fault_has_its_times_by_the_clock_of_the_timeline_and_by_that_of_the_run() -> None:
    fault = Disturbance(FaultStarted(2_595_000_000, "runner", 0, "kill", "kill rome", ()), None)
    ended = replace(fault, end_ns=6_595_000_000)
    assert describe_span(ended, 595_000_000) == "at 2 s (2.595 s to 6.595 s of the run)"
    assert describe_span(fault, 595_000_000) == "at 2 s (from 2.595 s of the run on)"
    assert describe_span(ended, 0) == "from 2.595 s to 6.595 s"  # both clocks are the same
    assert describe_span(ended) == "from 2.595 s to 6.595 s of the run"


def test_a_cost_has_both_times_of_the_fault() -> None:
    fault = FaultStarted(500 * 10**6, "runner", 3, "kill", "kill rome", ("rome",))
    (said,) = describe_fault_costs([], History.of([*three_sites.history().events, fault]))
    assert said.startswith("Fault 3 (kill rome) acted at 290 ms (from 0.500 s of the run on). It ")


def test_measured_costs_of_faults_are_told_and_decide_their_order(tmp_path) -> None:
    """Fault 1 took more of tasks, and fault 0 cost the run more."""
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    other = FaultStarted(400 * 10**6, "runner", 1, "kill", "kill rome", ("rome",))
    events = [e for e in history.events if not isinstance(e, FaultStarted) or e.fault != 1]
    history = History.of(sorted([*events, other], key=lambda event: event.t_ns))
    task = history.completed[0]
    part = Part("outage", 2.0, "a -> b", fault=1)
    found = [replace(Explanation(task, 3.0, 1.0, (), (part,), None, None), lost_s=2.0)]

    def describe(*longer: Longer) -> tuple[list[str], list[str]]:
        said = [each.partition(" of the run")[2] for each in describe_fault_costs(found, history)]
        assert said == [" on). It took 2.000 s of task 0.", f". {NOTHING}"]
        words = describe_fault_costs(found, history, longer)
        said = [re.sub(r"^.* of the run( on\))?", "", each) for each in words]
        return [*name_worst(found, history, longer)], said

    took = "It took 2.000 s of task 0."
    worst, said = describe(Longer((0,), 2.5, 0), Longer((1,), -0.2, 1))
    assert worst == [
        f"Fault 0 (outage oslo rome for 100 ms) delayed the run most, by 2.500 s{BEYOND}"
    ]
    assert said == [
        f" and made the run 2.500 s longer. {NOTHING}",
        f", made the run 0.200 s shorter and cost it 1 completed task. {took}",
    ]
    worst, said = describe(Longer((0, 1), 2.5, 0), Longer((), 0.1, 0))
    assert worst == [f"Faults 0 and 1 together delayed the run most, by 2.500 s{BEYOND}"]
    assert said == [
        f" and together with fault 0 made the run 2.500 s longer. {took}",
        f" and was measured together with fault 1 (see there). {NOTHING}",
    ]
    worst, said = describe(Longer((0,), None, 0), Longer((1,), None, 3))
    assert worst == [f"Fault 1 (kill rome) cost the run most: 3 completed tasks{BEYOND}"]
    assert said[0] == f" and cost the run 3 completed tasks. {took}"
    assert said[1] == f" and cost the run no completed task. {NOTHING}"
    of_site = SiteCost(1.2, -0.05, 0.0004)
    _, said = describe(Longer((0,), 0.0, -2), Longer((1,), 1.0, 0, of_site))
    lost = "made the run 1.000 s longer (a mean site: +1.200 s in tasks, -0.050 s in waits)"
    assert said[0] == f" and {lost}. {took}"
    assert said[1] == f", made the run no longer and let it complete 2 more tasks. {NOTHING}"


def test_of_runs_with_other_work_the_fault_that_cost_most_rounds_is_named(tmp_path) -> None:
    """Their times say nothing."""
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    few, many = SiteCost(rounds=-0.5, is_other_work=True), SiteCost(rounds=1.5, is_other_work=True)
    parts = Longer((0,), 2.5, 2, few), Longer((1,), 3.5, 0)
    (worst,) = name_worst([], history, parts)
    which = "Fault 0 (outage oslo rome for 100 ms)"
    assert (
        worst == f"{which} cost most work, 0.5 rounds of a mean site and 2 completed tasks{BEYOND}"
    )
    (worst,) = name_worst([], history, [replace(parts[0], tasks=-1), parts[1]])
    assert worst == f"{which} cost most work, 0.5 rounds of a mean site{BEYOND}"
    assert not [*name_worst([], history, [replace(parts[0], of_site=many), parts[1]])]
    assert not [*name_worst([], history, parts[:1])]
    said = " ".join(describe_fault_costs([], history, parts))
    changed = "changed the work of the run, which ended 2.500 s later (a mean site: -0.5 rounds)"
    assert changed in said


def test_rounds_that_a_stopped_site_did_not_begin_are_told() -> None:
    def describe(verb: str, *sites: str) -> str:
        rounds = [ComputeStarted(n, site, n, 1) for n, site in enumerate(sites)]
        fault = FaultStarted(0, "runner", 0, verb, f"{verb} a", ("a",))
        (said,) = describe_fault_costs([], History.of([fault, *rounds]))
        return said

    told = " In this run, a began 1 round, and the other sites 2.0 on average."
    assert told in describe("kill", *"abcbc")
    assert told in describe("pause", *"abcbc")
    assert "began" not in describe("isolate", *"abcbc")
    assert "began" not in describe("kill", *"abcabc")
    assert "began" not in describe("kill", *"bcbc")
    assert "began" not in describe("kill", "a")


def test_what_dead_agents_cost_is_said_to_be_in_no_sum(tmp_path) -> None:
    data = outputs.read(make_agents_run(tmp_path / "run"))
    found, *_ = explain_latest(data.scenario, data.history, data.tables["tasks"])
    cut = FaultStarted(0, "runner", 0, "outage", "outage a b", ("a -> b",))
    kill = FaultStarted(0, "runner", 1, "kill", "kill a", ("a",))
    for fault, number in ((0, 2), (1, 1)):
        slow = replace(found, parts=(Part("outage", 1.0, "a -> b", fault),))
        told = [*name_worst([slow], History.of([cut, kill]))]
        assert len(told) == number
    assert told[0].startswith("Of 2 faults, fault 1 (kill a) held tasks up longest: ")


def test_tasks_that_a_lost_site_missed_are_told_of_the_fault() -> None:
    """Two tasks began without it, and one when it was back."""
    started = three_sites.history().tasks[0].started
    ms = 10**6

    def start(t_ms: int, *group: str) -> TaskStarted:
        return replace(started, t_ns=t_ms * ms, task=t_ms, group=group)

    both = started.group
    away, *others = (site for site in both if site != started.site)
    left = [site for site in both if site != away]
    events = [
        FaultStarted(100 * ms, "runner", 0, "kill", f"kill {away}", (away,)),
        AgentChanged(100 * ms, "runner", away, "kill", 0),
        WorkerLost(110 * ms, "controller", away, "closed the connection"),
        start(200, *left),
        start(300, *left),
        WorkerFound(400 * ms, "controller", away),
        start(500, *both),
    ]
    history = History.of(
        [replace(e, site="controller") if hasattr(e, "group") else e for e in events]
    )
    links = [Link(a, b, 8.0) for a in both for b in both if a != b]
    topology = Topology("mesh", tuple(map(Site, both)), tuple(links))
    search = FaultSearch(history, topology, left[0], 1000 * ms)
    (said,) = describe_fault_costs([], history, (), search)
    assert said.endswith(
        f"{NOTHING} Because of it, {away} counted as lost from 0.110 s to 0.400 s, and missed "
        "2 tasks."
    )
    assert others


def test_the_option_that_explains_a_task_is_not_broken_on_the_page() -> None:
    history = three_sites.history()
    slow = Explanation(history.tasks[0], 2.0, 1.0, (), (Part("rate", 2.0, "a -> b"),), None, None)
    page = join(explain_lost_time([slow], history))
    assert '<code>trunkline explain RUN <span class="whole">--task N</span></code>' in page


def test_rounds_alone_during_a_fault_are_told_of_all_that_a_site_did(tmp_path) -> None:
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    fault = history.faults[0]

    def describe(*after_ms: int, begun_ms: int = 50) -> str:
        times_ns = (fault.started.t_ns + after * 10**6 for after in (*after_ms, begun_ms))
        *ended_ns, begun_ns = times_ns
        alone = [RoundAlone(t_ns, "rome", 1 + n) for n, t_ns in enumerate(ended_ns)]
        events = [*history.events, *alone, ComputeStarted(begun_ns, "rome", 9)]
        said, *_ = describe_fault_costs([], History.of(events))
        return said.partition(" Because of it, ")[2]

    assert describe(10, 20) == "rome did 2 rounds alone."
    assert describe(10, 20, 900, begun_ms=101) == "rome did 2 rounds alone (of 3 in all)."
    assert describe(10, 20, 101) == "rome did 3 rounds alone."  # it had begun in the fault


def test_what_tasks_lost_is_told_by_cause_the_longest_first(tmp_path) -> None:
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    task = history.completed[0]
    parts = (
        Part("rate", 1.2, "a -> b"),
        Part("outage", 0.5, "a -> b", fault=0),
        Part("other tasks", 0.2, "a -> b", text="3"),
        Part("contribution", 0.1, "a"),
    )

    def wait(reason: str, decide_s: float) -> Wait:
        return Wait("rome", 0.0, 0.1, decide_s, reason, (), (0, 0), ("rome", 0))

    def make(reason: str, decide_s: float, lost_s: float) -> Explanation:
        found = Explanation(task, 2.0, 1.0, (), parts, None, wait(reason, decide_s))
        return replace(found, lost_s=lost_s)

    first, second = make("The controller waited until task 2 had ended", 0.3, 1.3), make("", 0.1, 1)
    (said,) = describe_losses([first, second], history)
    ended = sum(each.end_ns is not None for each in history.tasks)
    assert said == (
        f"The {'2 tasks of 3 that lost most time' if ended == 3 else f'{ended} tasks of this run'} "
        "lost 2.300 s in all: 1.000 s to faults on their critical paths, 0.400 s to other tasks on "
        "the same links, 0.300 s to waits of complete groups until another task had ended, 0.300 s "
        "to their own bytes, which took longer than expected, 0.100 s to messages from the last "
        "member to the controller, "
        f"0.200 s to other causes. {MEANING}"
    )
    (none,) = describe_losses([replace(first, lost_s=-1.0)], history)
    assert none.endswith(" lost no time: none took longer than expected.")


def test_rounds_that_a_site_did_alone_before_it_found_the_controller_again_are_the_faults() -> None:
    """The fault is over, and on a link of the way; another one began meanwhile."""
    ms = 10**6
    events = [
        FaultStarted(100 * ms, "runner", 0, "outage", "outage a b", ("a -> b", "b -> a")),
        ControllerLost(2000 * ms, "c", "controller was silent for 1 s"),
        FaultEnded(2010 * ms, "runner", 0),
        FaultStarted(2100 * ms, "runner", 1, "pause", "pause c", ("c",)),
        ComputeStarted(2200 * ms, "c", 1, 0),
        RoundAlone(2300 * ms, "c", 1),
        ControllerFound(2400 * ms, "c", "controller"),
    ]
    links = [Link(*ends, 8.0) for ends in ("ab", "ba", "bc", "cb")]
    topology = Topology("line", (Site("a"), Site("c")), tuple(links), ("b",))
    history = History.of(events)
    search = FaultSearch(history, topology, "a", 1000 * ms)
    first, second = sorted(describe_fault_costs([], history, (), search))
    assert first.endswith(" Because of it, c did 1 round alone.")
    assert "alone" not in second


def test_a_pause_of_a_member_for_which_no_other_one_waited_delayed_no_task(tmp_path) -> None:
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    held = Held(Standstill("rome", "pause", 0, 10**9, 0), 1.0, 0.0, True)
    wait = Wait("rome", 0.0, 0.1, 0.01, "", (), (0, 0), ("rome", 0), held=held)
    found = Explanation(history.completed[0], 1.0, 1.0, (), (), None, wait)
    assert (found.before_s, found.faults) == ({}, frozenset())
    (said,) = describe_fault_costs([found], history)
    assert said.endswith(" It delayed no task, as far as the log tells.")
