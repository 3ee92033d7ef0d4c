"""What each fault cost the tasks of a run, in sentences."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
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
from trunkline.agents.events.task_events import TaskFinished, TaskStarted
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.record.stops import Standstill
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.abandonment import Failure, Late
from trunkline.harness.report.explanations.costs.measured_costs import Longer
from trunkline.harness.report.explanations.costs.member_costs import (
    SiteCost,
    cost_member,
    cost_sites,
)
from trunkline.harness.report.explanations.costs.site_times import list_at_work
from trunkline.harness.report.explanations.costs.task_losses import MEANING, describe_losses
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.fault_search import FaultSearch
from trunkline.harness.report.explanations.time_parts import Cause, Part
from trunkline.harness.report.explanations.told.explanations_section import explain_lost_time
from trunkline.harness.report.explanations.told.fault_costs import (
    GROUPS,
    describe_fault_costs,
    name_worst,
)
from trunkline.harness.report.explanations.waits import Held, Wait
from trunkline.harness.report.faults.fault_layout import describe_span
from trunkline.harness.report.pages.markup import join
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

NOTHING = "made no task longer or later, as far as the log tells"


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
        assert said.startswith(
            "Fault 0 (outage oslo rome for 100 ms), from 0.200 s to 0.300 s of the run, "
        )
        return said.partition("0.300 s of the run, ")[2]

    nothing = f"made no task longer or later, as far as the log tells{GROUPS}."
    assert describe() == describe(untouched) == nothing
    assert describe(slow[2], slow[1]) == (
        "cost tasks 1.000 s: tasks 1 (0.500 s) and 2 (0.500 s) took longer."
    )
    assert describe(given_up, slow[3]) == (
        "cost tasks 1.500 s: task 0 (1.000 s) took longer (0.500 s) and ended later where it "
        "was given up (0.500 s); task 3 (0.500 s) took longer. rome gave up task 0."
    )
    # Faults cost a task no more than it lost.
    assert describe(replace(slow[2], lost_s=0.2)).startswith("cost tasks 0.200 s: task 2 took ")
    assert describe(*slow) == (
        "cost tasks 4.500 s: tasks 0 (0.500 s), 1 (0.500 s), 2 (0.500 s), 3 (0.500 s), 4 (0.500 s) "
        "and 4 others (2.000 s) took longer."
    )


def test_a_task_of_the_usual_duration_was_not_made_longer_by_a_fault(tmp_path) -> None:
    """It made up for what the fault took, and began late for another reason."""
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    part = Part("stop", 0.042, "a -> b", fault=0)
    wait = Wait("rome", 0.0, 0.1, 0.974, "", (), (0, 0), ("rome", 0))
    found = Explanation(history.completed[0], 1.0, 1.0, (), (part,), None, wait, lost_s=0.974)
    assert found.costs_s == {0: 0.0}
    assert found.made_up_s == pytest.approx(0.042)
    (said,) = describe_fault_costs([found], history)
    assert said.endswith(f" made no task longer or later, as far as the log tells{GROUPS}.")
    late = replace(found, wait=replace(wait, fault=0))
    assert late.costs_s == {0: pytest.approx(0.974)}
    fast = replace(late, duration_s=0.9, lost_s=0.874)
    assert fast.costs_s == {0: pytest.approx(0.874)}


def test_a_repair_is_told_and_tasks_are_in_order_of_their_cost(tmp_path) -> None:
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
        "cost tasks 0.600 s: tasks 2 (0.300 s) and 1 (0.100 s) took longer; "
        "task 3 (0.200 s) was rearranged."
    )
    assert [*name_worst([small, large], history)] == []
    assert [*name_worst([small, large, other], history)] == [
        "Fault 1 (heal) cost tasks most: 71 % of the cost of all faults."
    ]


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
    assert said.endswith(" which task. n1 gave up tasks 1 and 2, n2 gave up task 2.")
    (said,) = describe_fault_costs([make(1, *members)], history)
    assert said.endswith(" n5 and n6 gave up task 1, 2 other sites gave up tasks.")


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
    assert said.startswith("Fault 3 (kill rome), at 290 ms (from 0.500 s of the run on), made no ")


def test_what_faults_cost_a_site_is_the_mean_of_all_sites(tmp_path) -> None:
    """Each member of the task lost two seconds, or less if it left the task before its end."""
    data = outputs.read(make_agents_run(tmp_path / "run"))
    task = data.history.completed[0]
    assert task.end_ns is not None
    part = Part("outage", 2.0, "a -> b", fault=0)
    found = [replace(Explanation(task, 3.0, 1.0, (), (part,), None, None), lost_s=2.0)]
    at_work = list_at_work(data.tables["workers"])
    cost = cost_sites(found, at_work)
    left_s = [(task.end_ns - event.t_ns) / 1e9 for event in task.all(TaskFinished)]
    each_s = (2.0 * len(task.started.group) - sum(left_s)) / data.scenario.parties
    assert 0 < sum(left_s) < 1
    assert cost == SiteCost(pytest.approx(each_s))
    assert cost_sites([], at_work) == SiteCost()


def test_one_time_of_a_member_counts_once() -> None:
    """It left the task early, waited less than the first one, was itself waited for, or gave up."""
    (task, *_) = three_sites.history().tasks
    ends_ns = {event.site: event.t_ns for event in task.all(TaskFinished)}
    assert task.end_ns is not None
    rest_s = {site: (task.end_ns - t_ns) / 1e9 for site, t_ns in ends_ns.items()}
    part = Part("outage", 2.0, "a -> b", fault=0)
    found = Explanation(task, 3.0, 1.0, (), (part,), None, None, lost_s=2.0)
    costs_s = {site: cost_member(found, site).seconds for site in ends_ns}
    assert costs_s == {site: pytest.approx(2.0 - rest_s[site]) for site in ends_ns}

    waited_s = {"oslo": 1.0, "rome": 0.4, "kyiv": 0.0}
    wait = Wait("kyiv", 1.0, 0.1, 0.2, "late", (), (0, 0), ("kyiv", 0), 0, waited_s=waited_s)
    stop = Standstill("kyiv", "pause", 0, 10**9, 0)
    for computing, own_s in ((False, 0.2), (True, 1.0)):
        held = replace(wait, held=Held(stop, 0.8, 0.8, computing))
        later = replace(found, parts=(), wait=held, lost_s=9.0)
        costs_s = {site: cost_member(later, site).seconds for site in (*waited_s, "server")}
        assert costs_s == pytest.approx({"oslo": 1.0, "rome": 0.6, "kyiv": own_s, "server": 0.0})

    earlier = replace(wait, after=6, after_s=0.9, behind=(0, 0.7), fault=None)
    delayed = replace(found, parts=(), wait=earlier, lost_s=0.2)
    costs_s = {site: cost_member(delayed, site).seconds for site in (*waited_s, "server")}
    assert costs_s == pytest.approx({"oslo": 0.7, "rome": 0.4, "kyiv": 0.0, "server": 0.0})

    late = [
        Failure((site,), "", 0, late=Late(s, ((0, s),))) for site, s in (("oslo", 1), ("rome", 2))
    ]
    given_up = replace(found, parts=(), failures=tuple(late), lost_s=9.0)
    costs_s = {site: cost_member(given_up, site).seconds for site in waited_s}
    assert costs_s == pytest.approx({"oslo": 1.0, "rome": 3.0, "kyiv": 0.0})


def test_measured_costs_of_faults_are_told_and_decide_their_order(tmp_path) -> None:
    """Fault 1 cost tasks more, and fault 0 the run."""
    history = outputs.read(make_agents_run(tmp_path / "run")).history
    other = FaultStarted(400 * 10**6, "runner", 1, "kill", "kill rome", ("rome",))
    events = [e for e in history.events if not isinstance(e, FaultStarted) or e.fault != 1]
    history = History.of(sorted([*events, other], key=lambda event: event.t_ns))
    task = history.completed[0]
    part = Part("outage", 2.0, "a -> b", fault=1)
    found = [replace(Explanation(task, 3.0, 1.0, (), (part,), None, None), lost_s=2.0)]

    def describe(*longer: Longer) -> tuple[list[str], list[str]]:
        said = [each.partition(" of the run")[2] for each in describe_fault_costs(found, history)]
        assert said == [" on), cost tasks 2.000 s: task 0 took longer.", f", {NOTHING}{GROUPS}."]
        words = describe_fault_costs(found, history, longer)
        said = [re.sub(r"^.* of the run( on\))?, ", "", each) for each in words]
        return [*name_worst(found, history, longer)], said

    worst, said = describe(Longer((0,), 2.5, 0), Longer((1,), -0.2, 1))
    assert worst == ["Fault 0 (outage oslo rome for 100 ms) delayed the run most, by 2.500 s."]
    assert said == [
        f"made the run 2.500 s longer, but {NOTHING}.",
        "made the run 0.200 s shorter and cost it 1 completed task, and cost tasks 2.000 s: "
        "task 0 took longer.",
    ]
    worst, said = describe(Longer((0, 1), 2.5, 0), Longer((), 0.1, 0))
    assert worst == ["Faults 0 and 1 together delayed the run most, by 2.500 s."]
    assert said[0].startswith("together with fault 0, made the run 2.500 s longer, and cost tasks ")
    assert said[1] == f"was measured together with fault 1 (see there), but {NOTHING}."
    worst, said = describe(Longer((0,), None, 0), Longer((1,), None, 3))
    assert worst == ["Fault 1 (kill rome) cost the run most: 3 completed tasks."]
    assert said[0].startswith("cost the run 3 completed tasks, and cost tasks 2.000 s: ")
    assert said[1] == f"cost the run no completed task, but {NOTHING}."
    of_site = SiteCost(1.2, -0.5, 0.02)
    _, said = describe(Longer((0,), 0.0, -2), Longer((1,), 1.0, 0, of_site))
    lost = "made the run 1.000 s longer (a site +1.200 s in tasks and -0.500 s in waits), and cost "
    assert said[0].startswith(lost)
    assert said[1].startswith("made the run no longer and let it complete 2 more tasks, but ")


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
        f"{NOTHING}. Because of it, {away} counted as lost from 0.110 s to 0.400 s, and missed "
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
        "lost 2.300 s in all: 1.000 s to faults, 0.400 s to other tasks on the same links, 0.300 s "
        "to waits of complete groups until another task had ended, 0.300 s to their own bytes, "
        "which took longer than expected, 0.100 s to messages from the last member to the "
        "controller, "
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
