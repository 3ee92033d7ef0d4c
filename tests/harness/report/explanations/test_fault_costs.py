"""What each fault cost the tasks of a run, in sentences."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import three_sites
from finished_runs import make_agents_run

from trunkline.agents.events.causes import BudgetSpent
from trunkline.agents.events.connection_events import ControllerFound, ControllerLost
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted
from trunkline.agents.events.round_events import ComputeStarted, RoundAlone
from trunkline.agents.events.task_events import TaskAbandoned, TaskCompleted, TaskFinished
from trunkline.harness.checks.verdict import Verdict
from trunkline.harness.fluid.fluid_run import predict_events
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.record.stops import Standstill
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.abandonment import Failure, Late
from trunkline.harness.report.explanations.costs import shorter_run
from trunkline.harness.report.explanations.costs.fault_delay import Delay
from trunkline.harness.report.explanations.costs.member_costs import SiteCost, cost_member
from trunkline.harness.report.explanations.costs.run_summary import describe_run, to_json
from trunkline.harness.report.explanations.costs.shorter_run import Longer, predict_shorter
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
from trunkline.harness.report.parts import report_parts
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.loading import parse
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology


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
        "cost tasks 1.500 s: task 0 (1.000 s) took longer (0.500 s) and ended later for members "
        "that gave it up (0.500 s); task 3 (0.500 s) took longer. rome gave up task 0."
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
    cost = Delay.of(found, data).site
    left_s = [(task.end_ns - event.t_ns) / 1e9 for event in task.all(TaskFinished)]
    each_s = (2.0 * len(task.started.group) - sum(left_s)) / data.scenario.parties
    assert 0 < sum(left_s) < 1
    assert cost == SiteCost(pytest.approx(each_s))
    assert describe_delay(found, data) == []  # the run ended by its time
    assert Delay.of([], data).site == SiteCost()


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


def describe_delay(found: list[Explanation], data: RunData) -> list[str]:
    delay = Delay.of(found, data)
    return [*delay.describe_unknown(), *delay.describe_end()]


SCENARIO = """
topology: {builder: full_mesh, sites: 3, rates: 20 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 2 MB, compute: [0.2 s, 0.7 s]}
scheme: {policy: preduce, plan: ps, p: 2}
stop: {tasks: 6}
seed: 3
"""


def predicted(*changes: str, slower: float = 1.0, later_ns: int = 0) -> RunData:
    """A run by the fluid model with a fault, slower links, and whose last task ends later."""
    scenario = parse(SCENARIO, "run.yaml", changes)
    rate = f"topology.rates={20 / slower} Mbit/s"
    history = History.of(predict_events(parse(SCENARIO, "run.yaml", (*changes, rate))))
    last = history.tasks[-1].started.task
    fault_ns = (history.tasks[0].end_ns or 0) + 1
    events = [
        replace(event, t_ns=event.t_ns + later_ns)
        if isinstance(event, TaskCompleted | TaskFinished) and event.task == last
        else event
        for event in history.events
    ]
    events.append(FaultStarted(fault_ns, "runner", 0, "pause", "pause n1", ("n1",)))
    history = History.of(sorted(events, key=lambda event: event.t_ns))
    tables = report_parts.make_tables(scenario, history)
    return RunData(scenario, Verdict("pass", ()), history, tables, {}, SCENARIO, SCENARIO)


def explain_as_late(data: RunData) -> Explanation:
    task = data.history.tasks[-1]
    part = Part("outage", 2.0, "a -> b", fault=0)
    return replace(Explanation(task, 3.0, 1.0, (), (part,), None, None), lost_s=2.0)


def test_how_much_earlier_a_run_ends_without_faults_is_predicted() -> None:
    """The model has no headers, and its prediction has, so it says less than 2 s."""
    data = predicted(later_ns=2 * 10**9)
    *_, said = describe_delay([explain_as_late(data)], data)
    found = re.fullmatch(
        r"Without faults, the last task would have ended about (\S+) ± (\S+) s earlier "
        r"\(predicted by the fluid model; `trunkline explain RUN --measure` measures it\)\.",
        said,
    )
    assert found and 1.7 <= float(found[1]) <= 2.0
    *_, said = describe_delay([explain_as_late(data)], predicted())
    assert said.startswith("Without faults, the last task would have ended no earlier (± 0.")


def test_the_error_of_a_prediction_grows_with_the_root_of_the_time_after_the_first_fault() -> None:
    for count, least_s in ((2, 4.0), (40, 10.0)):
        data = predicted(f"stop={{tasks: {count}}}")
        shorter = predict_shorter(data, [])
        assert shorter is not None
        rest_s = (data.history.end_ns - data.history.faults[0].started.t_ns) / 1e9
        expected_s = 0.2 * math.sqrt(max(least_s, rest_s - shorter.earlier_s))
        assert shorter.error_s == pytest.approx(expected_s, rel=0.05)
        *_, said = describe_delay([explain_as_late(data)], data)
        assert f" ended no earlier (± {shorter.error_s:.1f} s) (predicted by " in said


def test_until_the_first_fault_the_prediction_is_the_run() -> None:
    """Tasks before it took as long as they did, however long that was."""
    data = predicted(later_ns=2 * 10**9)
    moved = move(data.history, 5 * 10**9)
    slow = replace(data, history=moved, tables=report_parts.make_tables(data.scenario, moved))
    shorter, usual = (predict_shorter(each, [explain_as_late(each)]) for each in (slow, data))
    assert shorter is not None and usual is not None
    assert shorter.earlier_s == pytest.approx(usual.earlier_s, abs=0.02)


def move(history: History, by_ns: int) -> History:
    """The history with a first task that took longer, and all later events moved by that."""
    first = history.tasks[0].started.t_ns
    return History.of(
        replace(event, t_ns=event.t_ns + by_ns) if event.t_ns > first else event
        for event in history.events
    )


def add_two_faults(data: RunData, first_ns: int, second_ns: int) -> RunData:
    """The run with two faults, which delay all that follows by 2 s and by 0.5 s."""
    events = [event for event in data.history.events if not isinstance(event, FaultStarted)]
    moved = [
        replace(event, t_ns=event.t_ns + 2 * 10**9 * (event.t_ns > first_ns)) for event in events
    ]
    moved = [
        replace(event, t_ns=event.t_ns + 5 * 10**8 * (event.t_ns > second_ns)) for event in moved
    ]
    for number, begun_ns in enumerate((first_ns, second_ns)):
        text = f"pause n{number}"
        moved.append(FaultStarted(begun_ns, "runner", number, "pause", text, (f"n{number}",)))
        moved.append(FaultEnded(begun_ns + 1, "runner", number))
    return replace(data, history=History.of(sorted(moved, key=lambda event: event.t_ns)))


def charge(data: RunData, *tasks: int) -> list[Explanation]:
    """Explanations in which fault 0 cost the first of these tasks something, and so on."""
    found = []
    for fault, number in enumerate(tasks):
        task = next(task for task in data.history.tasks if task.number == number)
        part = Part("outage", 1.0 + fault, "a -> b", fault=fault)
        made = Explanation(task, 9.0, 1.0, (), (part,), None, None)
        found.append(replace(made, lost_s=8.0))
    return found


def test_each_fault_made_the_run_longer_by_what_the_run_was_later_since_then() -> None:
    """The parts add up, and the worst fault is named first, though the other cost tasks more."""
    data = predicted("stop={tasks: 8}")
    ends_ns = [task.end_ns or 0 for task in data.history.tasks]
    data = add_two_faults(data, ends_ns[0] + 1, ends_ns[4] + 2 * 10**9 + 1)
    found = charge(data, 2, 6)
    shorter = predict_shorter(data, found)
    assert shorter is not None
    assert [each.faults for each in shorter.parts] == [(0,), (1,)]
    assert [each.seconds for each in shorter.parts] == pytest.approx([2.0, 0.5], abs=0.2)  # headers
    assert sum(each.seconds for each in shorter.parts) == pytest.approx(shorter.earlier_s)
    assert to_json(found, data)["longer"][0]["faults"] == (0,)
    (worst,) = name_worst(found, data.history, shorter.parts)
    said = f"about {shorter.parts[0].seconds:.1f} s"
    assert worst == f"Fault 0 (pause n0) delayed the run most, by {said}."
    first, second = describe_fault_costs(found, data.history, shorter.parts)
    own = said.replace(" s", f" ± {shorter.parts[0].error_s:.1f} s")
    assert shorter.parts[0].error_s == pytest.approx(1.0, abs=0.1)
    assert f", made the run {own} longer, and cost tasks 1.000 s: task 2 took l" in first
    assert second.startswith("Fault 1 (pause n1), ")
    run, faults = describe_run(found, data)
    assert run[1].startswith(worst)
    assert faults == [first, second]
    first, second = describe_fault_costs(found, data.history)
    assert first.startswith("Fault 1 (pause n1), ")  # by what they cost tasks
    assert "made the run" not in first + second


def test_what_the_model_is_wrong_by_after_a_fault_is_charged_to_none() -> None:
    """All that ends after the last tasks but five is later by another second, without a fault."""
    data = predicted("stop={tasks: 20}")
    ends_ns = [task.end_ns or 0 for task in data.history.tasks]
    data = add_two_faults(data, ends_ns[0] + 1, ends_ns[4] + 2 * 10**9 + 1)
    found = charge(data, 2, 6)
    usual = predict_shorter(data, found)
    late_ns = (data.history.tasks[-5].end_ns or 0) - 1
    moved = [
        replace(event, t_ns=event.t_ns + 10**9 * (event.t_ns > late_ns))
        for event in data.history.events
    ]
    late = predict_shorter(replace(data, history=History.of(moved)), found)
    assert usual is not None and late is not None
    assert [each.seconds for each in late.parts] == [each.seconds for each in usual.parts]
    assert late.earlier_s == usual.earlier_s


def test_a_run_that_ends_by_its_rounds_is_predicted_as_a_whole() -> None:
    data = predicted("stop={rounds: 4}", later_ns=2 * 10**9)
    shorter = predict_shorter(data, [explain_as_late(data)])
    assert shorter is not None
    assert shorter.earlier_s == pytest.approx(2.0, abs=0.3)
    assert shorter.parts == ()
    assert shorter.error_s == pytest.approx(0.3 * 2.0, rel=0.3)


def test_faults_that_overlap_made_the_run_longer_together() -> None:
    """The second one began before a task had ended that the first one cost something."""
    data = predicted("stop={tasks: 8}")
    ends_ns = [task.end_ns or 0 for task in data.history.tasks]
    data = add_two_faults(data, ends_ns[0] + 1, ends_ns[4] + 2 * 10**9 + 1)
    found = charge(data, 5, 6)
    shorter = predict_shorter(data, found)
    assert shorter is not None
    assert [each.faults for each in shorter.parts] == [(0, 1)]
    assert Delay.of(found, data).longer == shorter.parts
    parts = (Longer((0, 1), 2.5), Longer((2,), 0.1))
    assert [*name_worst(found, data.history, parts)] == [
        "Faults 0 and 1 together delayed the run most, by about 2.5 s.",
        "Of these, fault 1 cost tasks most.",
    ]
    first, second = describe_fault_costs(found, data.history, parts)
    assert (
        ", made the run about 2.5 ± 0.0 s longer, together with fault 0, and cost tasks 2" in first
    )
    assert ", made the run longer together with fault 1 (see there), and cost tasks 1" in second
    (worst,) = name_worst(found, data.history, parts, is_ranked=False)
    assert worst == (
        "Faults delayed the run by about 2.5 s (faults 0 and 1 together) and 0.1 s (fault 2); the "
        "prediction is too rough to say which one delayed it most."
    )
    first, _ = describe_fault_costs(found, data.history, (Longer((0,), 9.0), Longer((1,), 1.0)))
    assert first.startswith("Fault 0 ")
    longer = Longer((0,), 9.0), Longer((1,), 1.0)
    first, _ = describe_fault_costs(found, data.history, longer, is_ranked=False)
    assert first.startswith("Fault 1 ")
    parts = (Longer((0,), 0.5), Longer((1,), -0.2))
    _, second = describe_fault_costs(found, data.history, parts)
    assert second.startswith("Fault 1 ")
    assert ", made the run about 0.2 ± 0.0 s shorter, and cost " in second
    parts = (Longer((0,), 0.5), Longer((1,), -0.04))
    _, second = describe_fault_costs(found, data.history, parts)
    assert ", made the run no longer (± 0.0 s), and cost tasks " in second


def test_its_tasks_take_as_long_as_those_of_the_run() -> None:
    """Contributions that were sent early make tasks a little shorter than estimated."""
    data = predicted("stop={tasks: 9}", slower=1.25)
    shorter = predict_shorter(data, [explain_as_late(data)])
    assert shorter is not None
    assert shorter.longer == pytest.approx(0.16, abs=0.08)
    assert shorter.earlier_s < shorter.error_s


def test_tasks_that_faults_ended_would_have_been_completed() -> None:
    data = predicted(later_ns=2 * 10**9)
    task = data.history.tasks[-1].started.task
    events = [
        TaskAbandoned(event.t_ns, event.site, task, BudgetSpent(1.0))
        if isinstance(event, TaskCompleted) and event.task == task
        else event
        for event in data.history.events
    ]
    data = replace(data, history=History.of(events))
    *_, said = describe_delay([explain_as_late(data)], data)
    assert " s earlier, and 1 more task would have been completed (predicted by " in said


def test_a_run_that_the_model_does_not_know_is_not_predicted(monkeypatch) -> None:
    data = predicted(later_ns=2 * 10**9)
    monkeypatch.setattr(shorter_run, "MOST_CHUNKS", 10)
    *_, said = describe_delay([explain_as_late(data)], data)
    assert said.startswith("The fluid model cannot say how much earlier the last task would ")


def test_a_run_that_ends_by_its_time_is_no_longer_for_its_faults() -> None:
    data = predicted("stop={time: 4 s}")
    assert describe_delay([explain_as_late(data)], data) == []


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


def test_faults_that_are_told_together_say_so_also_if_there_are_no_others() -> None:
    parts = (Longer((0, 1), 6.1),)
    delay = Delay(SiteCost(1.0), True, shorter_run.Shorter(6.1, 0.0, 9, 0.5, parts))
    assert delay.longer == parts
    both = (Longer((0,), 4.0), Longer((1,), 2.0))
    for error_s, is_ranked in ((1.9, True), (2.1, False)):
        shorter = shorter_run.Shorter(6.0, 0.0, 9, error_s, both)
        assert Delay(SiteCost(1.0), True, shorter).is_ranked == is_ranked
    assert not Delay(SiteCost(1.0), True).is_ranked
    alone = replace(delay, shorter=shorter_run.Shorter(6.1, 0.0, 9, 0.5, (Longer((0,), 6.1),)))
    assert alone.longer == ()
