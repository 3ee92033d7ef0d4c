"""How the groups of tasks came together, from made-up logs."""

from dataclasses import replace

import pytest

from trunkline.agents.events.causes import NoPlan, TakenOver
from trunkline.agents.events.connection_events import BackupTookOver, WorkerFound, WorkerLost
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged, FaultStarted, LinkChanged
from trunkline.agents.events.policy_events import PolicyTold
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted, Ready, RoundAlone
from trunkline.agents.events.task_events import (
    Contributed,
    GroupPostponed,
    Roles,
    SiteReleased,
    TaskAbandoned,
    TaskCompleted,
    TaskFinished,
    TaskStarted,
)
from trunkline.agents.planning.plan import Plan
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations import explanation
from trunkline.harness.report.explanations.costs.wait_faults import add_fault
from trunkline.harness.report.explanations.critical_path import PathStep
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.late_messages import find_silence
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.told.fault_costs import describe_fault_costs
from trunkline.harness.report.explanations.told.wait_text import describe_wait
from trunkline.harness.report.explanations.waits import find_waits
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

MS = 1_000_000


def start(at_ms: int, task: int) -> TaskStarted:
    weights = {"n1": 1.0, "n2": 1.0}
    plan = Plan(("n1", "n2"), ("n1", "n2"), 0, ()).to_json()
    group = "n1", "n2"
    return TaskStarted(at_ms * MS, "controller", task, "", "", group, weights, 0.5, 0, 0, plan)


def ready(site: str, from_ms: int, to_ms: int) -> tuple[ComputeStarted, Ready]:
    return ComputeStarted(from_ms * MS, site, 1, 0), Ready(to_ms * MS, site, 1)


def explain(*events: Event) -> str:
    history = order(*events)
    return describe_wait(7, find_waits(history)[7], history)


def order(*events: Event) -> History:
    return History.of(sorted(events, key=lambda event: event.t_ns))


def stop(who: str, do: str, from_ms: int, to_ms: int) -> tuple[Event, ...]:
    """Fault 4 stops an agent between these times."""
    undo = {"pause": "resume", "kill": "restart"}[do]
    return (
        FaultStarted(from_ms * MS, "runner", 4, do, f"{do} {who}", (who,)),
        AgentChanged(from_ms * MS, "runner", who, do, 4),
        AgentChanged(to_ms * MS, "runner", who, undo, 4),
    )


def test_a_member_that_was_in_a_task_while_others_waited_is_named_with_the_task() -> None:
    early, late = ready("n1", 0, 100), ready("n2", 900, 1100)
    said = explain(*early, TaskFinished(900 * MS, "n2", 3, "", ()), *late, start(1110, 7))
    assert said == (
        "Before task 7, its first member waited 1.000 s for n2, the last. "
        "Until then n2 was in task 3, then computed for 0.200 s. "
        "The controller started the task 0.010 s after n2 was ready."
    )


def test_a_task_that_starts_within_half_a_millisecond_starts_at_once() -> None:
    said = explain(*ready("n1", 0, 100), *ready("n2", 900, 1100), start(1100, 7))
    assert said.endswith("The controller started the task as soon as n2 was ready.")


def test_a_member_whose_last_task_ended_before_anyone_waited_only_computed() -> None:
    early, late = ready("n1", 0, 100), ready("n2", 50, 1100)
    said = explain(TaskFinished(40 * MS, "n2", 3, "", ()), *early, *late, start(1110, 7))
    assert said == (
        "Before task 7, its first member waited 1.000 s for n2, the last. "
        "Until then n2 computed for 1.050 s. "
        "The controller started the task 0.010 s after n2 was ready."
    )


@pytest.mark.parametrize(
    ("group", "who"), [(("n1", "n2"), "group"), (("n1", "n3"), "group of n1 and n3")]
)
def test_a_member_that_waited_with_a_postponed_group_is_why_a_task_started_late(group, who) -> None:
    cause = NoPlan("no links connect it", ("n3", "n1"))
    waits = GroupPostponed(150 * MS, "controller", group, cause)
    said = explain(*ready("n1", 0, 100), waits, *ready("n2", 0, 200), start(2200, 7))
    assert said.endswith(
        "The controller started the task 2.000 s after n2 was ready. "
        f"The controller postponed the {who}, to try it again after failover.timeout: no links "
        "connect it."
    )


def test_a_pause_of_the_last_member_is_named_with_the_part_of_it_that_it_computed() -> None:
    early, late = ready("n1", 0, 200), ready("n2", 0, 1050)
    events = *early, *late, *stop("n2", "pause", 50, 1050), start(1070, 7)
    assert explain(*events) == (
        "Before task 7, its first member waited 0.850 s for n2, the last. "
        "Until then n2 computed for 1.050 s. "
        "n2 was paused for 1.000 s of that time (fault 4: pause n2). "
        "The controller started the task 0.020 s after n2 was ready."
    )
    wait = find_waits(order(*events))[7]
    assert wait.faults == {4}
    assert wait.lost_s == pytest.approx(0.87)


def test_a_pause_that_ended_before_the_others_had_computed_delayed_nobody() -> None:
    early, late = ready("n1", 0, 1000), ready("n2", 0, 1020)
    events = *early, *late, *stop("n2", "pause", 100, 900), start(1030, 7)
    assert find_waits(order(*events))[7].held is None


def test_a_pause_of_a_group_of_one_is_named_and_costs_nothing() -> None:
    """No member waited for it."""
    events = *ready("n2", 0, 1020), *stop("n2", "pause", 100, 900), start(1030, 7)
    wait = find_waits(order(*events))[7]
    assert wait.faults == frozenset()
    assert wait.lost_s == pytest.approx(0.01)
    said = explain(*events)
    assert said.startswith("Before task 7, n2 computed for 1.020 s. ")
    assert "n2 was paused for 0.800 s of that time (fault 4: pause n2)." in said


def test_the_fault_behind_a_task_in_which_the_last_member_was_is_named() -> None:
    early, late = ready("n1", 0, 100), ready("n2", 900, 1100)
    ended = TaskFinished(900 * MS, "n2", 3, "", ())
    fault = FaultStarted(200 * MS, "runner", 4, "outage", "outage n2 n3", ("n2 -> n3",))
    history = order(*early, fault, ended, *late, start(1110, 7))
    wait = find_waits(history)[7]
    assert (wait.after, wait.behind) == (3, None)
    said = describe_wait(7, replace(wait, behind=4), history)
    assert (
        " Until then n2 was in task 3, which fault 4 (outage n2 n3) held up, then computed for "
        "0.200 s. "
    ) in said


@pytest.mark.parametrize(
    ("ready_ms", "lost_s"),
    [({"n1": 1000}, 1.5), ({"n1": 1000, "n3": 2000}, 1.5), ({"n1": 2490}, None), ({}, 0.0)],
)
def test_a_stop_of_the_last_member_took_what_the_first_one_waited_meanwhile(
    ready_ms: dict[str, int], lost_s: float | None
) -> None:
    """n2 was paused from 1 to 2.5 s. It is not named if others waited for it for 10 ms only."""
    others = [event for site, at_ms in ready_ms.items() for event in ready(site, 500, at_ms)]
    events = *others, *ready("n2", 900, 2500), *stop("n2", "pause", 1000, 2500), start(2510, 7)
    held = find_waits(order(*events))[7].held
    assert (None if held is None else held.lost_s) == lost_s


@pytest.mark.parametrize(
    ("ready_ms", "lost_s"), [(900, 0.5), (1400, 0.1), (1440, 0.06), (1460, None), (1500, None)]
)
def test_a_stop_that_ended_long_before_its_member_was_ready_took_what_others_waited_in_it(
    ready_ms: int, lost_s: float | None
) -> None:
    """n2 was paused from 1 to 1.5 s, and ready at 2.5 s: what n1 waited after that is not lost."""
    early, late = ready("n1", 0, ready_ms), ready("n2", 900, 2500)
    wait = find_waits(order(*early, *late, *stop("n2", "pause", 1000, 1500), start(2510, 7)))[7]
    assert (None if wait.held is None else wait.held.lost_s) == lost_s
    assert wait.lost_s == pytest.approx(0.01 + (lost_s or 0.0))
    assert wait.faults == (frozenset() if lost_s is None else {4})


def test_a_member_that_was_dead_while_others_waited_is_named_with_that_time() -> None:
    early, broken = ready("n1", 0, 200), ready("n2", 0, 1500)[0]
    again = ready("n2", 1200, 1400)
    said = explain(*early, broken, *again, *stop("n2", "kill", 100, 1100), start(1420, 7))
    dead = "n2 was dead for 1.000 s before (fault 4: kill n2), and then began its round again. "
    assert f"n2 computed for 0.200 s. {dead}" in said


@pytest.mark.parametrize(
    ("who", "times_ms"), [("n1", (50, 1050)), ("n2", (0, 100)), ("n2", (-9, 0))]
)
def test_a_stop_of_another_member_or_one_that_hardly_mattered_is_not_named(
    who: str, times_ms: tuple[int, int]
) -> None:
    early, late = ready("n1", 0, 200), ready("n2", 0, 1100)
    events = *early, *late, *stop(who, "pause", *times_ms), start(1110, 7)
    assert find_waits(order(*events))[7].held is None


def explain_pair(*events: Event) -> Explanation:
    """The explanation of task 7, which the controller at n1 started late; nothing was sent."""
    links = Link("n1", "n2", 8.0, 10.0), Link("n2", "n1", 8.0, 10.0)
    topology = Topology("pair", (Site("n1"), Site("n2")), links)
    early, late = ready("n1", 0, 200), ready("n2", 0, 300)
    ended = TaskAbandoned(2100 * MS, "controller", 7, TakenOver())
    history = order(*early, *late, *events, start(2000, 7), ended)
    run = Run(history, topology, 1500, "n1")
    wait = add_fault(run, history.tasks[0], find_waits(history)[7])
    return explanation.explain(run, history.tasks[0], 0.1, wait)


def test_a_task_of_the_backup_waits_for_no_word_of_the_controller_that_was_killed() -> None:
    """The controller is dead when the backup, at n2, tells the members of its first task."""
    links = Link("n1", "n2", 8.0, 10.0), Link("n2", "n1", 8.0, 30.0)
    topology = Topology("pair", (Site("n1"), Site("n2")), links)
    begun = replace(start(2000, 1_000_000), site="backup")
    took_over, lost = BackupTookOver(500 * MS, "backup"), stop("controller", "kill", 400, 9000)
    history = order(*ready("n1", 0, 200), *ready("n2", 0, 300), took_over, *lost, begun)
    run = Run(history, topology, 1500, "n1", timeout_ns=MS, backup_site="n2")
    step = PathStep("contribution", 2000 * MS, 2031 * MS, "n1")
    parts = [(part.cause, part.where, part.fault) for part in run.divide(history.tasks[0], step)]
    assert parts == [("propagation", "n2 -> n1", None), ("contribution", "n1", None)]
    assert find_silence(run, history.tasks[0], "n1", (300 * MS, 2000 * MS)) is None
    assert list(describe_fault_costs([], history)) == [
        "Fault 4 (kill controller) acted from 0.400 s of the run on. It delayed no task, as far as "
        "the log tells. The backup took over 0.100 s after the fault began, and started its "
        "first task, 1000000, 1.600 s after it."
    ]
    assert next(describe_fault_costs([], order(took_over, *lost))).endswith(
        " The backup took over 0.100 s after the fault began."
    )


def test_a_controller_that_was_cut_off_or_stopped_is_why_a_task_began_late() -> None:
    started = FaultStarted(250 * MS, "runner", 4, "outage", "outage n1 n2", ("n2 -> n1",))
    cut, mended = (
        LinkChanged(t_ms * MS, "runner", "n2", "n1", 8.0, 10.0, 0.0, 0.0, cuts)
        for t_ms, cuts in ((250, ("blackhole",)), (1900, ()))
    )
    silent = explain_pair(started, cut, mended).wait
    assert silent is not None
    assert (silent.fault, silent.reason) == (
        4, "The controller heard of n2 late: n2 -> n1 was cut for 1.600 s, and then TCP was silent"
    )  # fmt: skip
    stopped = explain_pair(*stop("controller", "pause", 250, 1900)).wait
    assert stopped is not None
    assert stopped.fault == 4
    assert stopped.reason.endswith("the controller was stopped for 1.600 s")
    usual = explain_pair().wait
    assert usual is not None
    assert (usual.fault, usual.reason) == (None, "")


def test_a_postponed_group_names_the_sites_that_counted_as_lost_and_until_when() -> None:
    cause = NoPlan("no links connect it", ("n1", "n2"))
    links = Link("n1", "n2", 8.0, 10.0), Link("n2", "n1", 8.0, 30.0)
    topology = Topology("pair", (Site("n1"), Site("n2")), links)

    def find(*news: Event) -> str:
        waits = GroupPostponed(250 * MS, "controller", ("n1", "n2"), cause)
        history = order(*ready("n1", 0, 100), *ready("n2", 0, 200), waits, *news, start(2250, 7))
        run = Run(history, topology, 1500, "n1", timeout_ns=MS)
        return add_fault(run, history.tasks[0], find_waits(history)[7]).reason

    lost = WorkerLost(150 * MS, "controller", "n2", "silent for 2 s")
    found = WorkerFound(900 * MS, "controller", "n2")
    assert find(lost, found).endswith(": no links connect it; n2 counted as lost until 0.900 s")
    assert find(lost).endswith(": no links connect it; n2 counted as lost")
    assert find(lost, replace(found, t_ns=200 * MS)).endswith(": no links connect it")
    assert find().endswith(": no links connect it")


def gossip(task: int, t_ms: int, active: str, partner: str, after: int | None) -> tuple[Event, ...]:
    """The active site averages with a partner that need not be ready, after another task."""
    weights = dict.fromkeys((active, partner), 1.0)
    plan = Plan((active, partner), (active, partner), 0, ()).to_json()
    roles = Roles((active, partner), (partner,), 0.0, 0.0, "proceed")
    names = "", "", (active, partner), weights, 1.0, 0, 0, plan
    told = "ready", {"site": active}
    if after is not None:
        told = "ended", {"task": after}
    return (
        PolicyTold(t_ms * MS, "controller", *told),
        TaskStarted(t_ms * MS, "controller", task, *names, roles=roles),
        *(Contributed(t_ms * MS, site, task, 0, "", (), 1.0) for site in (active, partner)),
    )


def end(task: int, t_ms: int, *sites: str) -> tuple[Event, ...]:
    """The task ends for its members, and is completed."""
    left = (TaskFinished(t_ms * MS, site, task, "", ()) for site in sites)
    return *left, TaskCompleted(t_ms * MS, "controller", task)


def test_a_member_that_helps_others_goes_on_waiting_for_its_own_group() -> None:
    """n3 is ready at 100 ms, helps n1 in task 6, and waits until its own partner n2 is free."""
    history = order(
        *ready("n1", 0, 90), *ready("n3", 0, 100),
        *gossip(6, 110, "n1", "n3", None), *end(6, 400, "n1", "n3"),
        *gossip(7, 900, "n3", "n2", 5),
    )  # fmt: skip
    wait = find_waits(history)[7]
    assert (wait.last, wait.decide_s, wait.awaited) == ("n3", pytest.approx(0.8), 5)
    assert wait.waited_s == {"n3": 0.0}


def test_a_member_that_helped_after_it_had_computed_was_late_because_of_that() -> None:
    """n2 has computed at 200 ms, and is held in task 6, in which it helps n1, until 2 s."""
    history = order(
        *ready("n1", 0, 90), *gossip(6, 110, "n1", "n2", None),
        ComputeStarted(0, "n2", 1, 0), ComputeFinished(200 * MS, "n2", 1),
        *end(6, 2000, "n1", "n2"), Ready(2000 * MS, "n2", 1), *gossip(7, 2010, "n2", "n1", 6),
    )  # fmt: skip
    wait = find_waits(history)[7]
    assert (wait.compute_s, wait.after, wait.computed_first) == (pytest.approx(0.2), 6, True)
    held = replace(wait, behind=4)
    faults = order(*history.events, *stop("n2", "pause", 300, 1800))
    assert describe_wait(7, held, faults) == (
        "Before task 7, n2 computed for 0.200 s, then was in task 6, which fault 4 (pause n2) held "
        "up. The controller started the task 0.010 s after n2 was ready. The controller waited "
        "until task 6 had ended."
    )


def start_of(number: int, at_ms: int, *group: str, passive: tuple[str, ...] = ()) -> TaskStarted:
    plan = Plan(group, group, 0, ()).to_json()
    roles = Roles(group, passive, 0.0, 0.0, "proceed")
    weights = dict.fromkeys(group, 1.0)
    return TaskStarted(
        at_ms * MS, "controller", number, "", "", group, weights, 1.0, 0, 0, plan, roles=roles
    )


def test_sites_that_went_on_without_a_task_are_counted_while_others_waited() -> None:
    events = [
        SiteReleased(5 * MS, "controller", "c"), Ready(10 * MS, "a", 1),
        *(SiteReleased(10 * n * MS, "controller", to) for n, to in ((2, "c"), (3, "b"), (4, "c"))),
        Ready(90 * MS, "b", 2), start_of(0, 100, "a", "b"),
    ]  # fmt: skip
    wait = find_waits(History.of(events))[0]
    assert wait.released == {"c": 2, "b": 1}
    assert (
        "Meanwhile the policy let c (2 times) and b go on without a task: these rounds did not "
        "count."
    ) in describe_wait(0, wait, History.of(events))


def test_a_member_that_need_not_be_ready_may_be_of_a_postponed_group() -> None:
    """a draws the partner p, whose own group had been postponed: both waited for that."""
    cause = NoPlan("the links that are left do not connect the group", ("p", "x"))
    events = [
        Ready(5 * MS, "p", 1), GroupPostponed(10 * MS, "controller", ("p", "x"), cause),
        Ready(20 * MS, "a", 1), PolicyTold(90 * MS, "controller", "ready", {"site": "p"}),
        start_of(0, 90, "a", "p", passive=("p",)),
    ]  # fmt: skip
    wait = find_waits(History.of(events))[0]
    assert (wait.last, wait.cause) == ("a", cause)
    assert wait.reason.startswith("The controller postponed the group of p and x")


def test_a_site_that_was_ready_but_unheard_has_the_fault_that_silenced_it() -> None:
    """It was ready before the last member; of another one, the controller had heard."""
    ms = 10**6
    plan = Plan(("a", "b"), ("a", "b"), 0, ()).to_json()
    weights = {"a": 1.0, "b": 1.0}
    start = TaskStarted(900 * ms, "controller", 0, "", "", ("a", "b"), weights, 1.0, 0, 0, plan)
    ready = [("c", 300), ("d", 320), ("a", 400), ("b", 850)]
    events: list[Event] = [Ready(t_ms * ms, site, 1) for site, t_ms in ready]
    told = ((310, "c"), (410, "a"), (860, "b"))
    events += [
        PolicyTold(t_ms * ms, "controller", "ready", {"site": site, "iteration": 1})
        for t_ms, site in told
    ]
    ways = "d -> a", "a -> d"
    cut = FaultStarted(200 * ms, "runner", 3, "outage", "outage a d", ways)
    history = History.of(sorted([*events, cut, start], key=lambda event: event.t_ns))
    (task,) = history.tasks
    wait = find_waits(history)[0]
    assert [(each.site, each.ready_ns) for each in wait.unheard] == [("d", 320 * ms)]
    links = tuple(Link(x, y, 10.0, 10.0) for x in "abcd" for y in "abcd" if x != y)
    run = Run(history, Topology("mesh", tuple(map(Site, "abcd")), links), 1500, "a", timeout_ns=ms)
    charged = add_fault(run, task, wait)
    assert [each.fault for each in charged.unheard] == [3]
    said = describe_wait(0, charged, history)
    assert (
        " d had been ready since 0.320 s, but the controller had not heard of it (fault 3: " in said
    )
    left = order(*events, cut, start, RoundAlone(500 * ms, "d", 1))
    assert find_waits(left)[0].unheard == ()
    passive = Roles(("a", "b"), ("a",), 0.0, 0.0, "proceed")
    alone = order(*events, cut, replace(start, roles=passive))
    assert find_waits(alone)[0].unheard == ()
    soon = replace(wait, span=(wait.span[0], 500 * ms))
    assert add_fault(run, task, soon).unheard == ()
