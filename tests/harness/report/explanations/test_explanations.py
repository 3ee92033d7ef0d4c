"""Runs in which one thing makes a task slow: the explanation names it.

Each scenario has a cause of its own, of which the log says nothing but its effects.
"""

from __future__ import annotations

import json
import re

import pytest
from adding_up import list_broken
from inside import run_all

from trunkline.agents.events.task_events import TaskAbandoned, TaskHalted
from trunkline.harness.commands import main
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.costs.task_losses import (
    Losses,
    describe_losses,
)
from trunkline.harness.report.explanations.explained_tasks import explain_latest, explain_tasks
from trunkline.harness.report.explanations.time_parts import PLANNED
from trunkline.harness.report.explanations.told.explanation_text import summarize
from trunkline.harness.report.explanations.told.fault_costs import describe_fault_costs
from trunkline.harness.report.explanations.told.wait_text import describe_wait
from trunkline.harness.report.pages.run_page import write_page
from trunkline.harness.scenario.loading import parse, resolve

MESH = """
topology: {{builder: full_mesh, sites: 4, rates: 20 Mbit/s, delays: 10 ms{topology}}}
workload: {{kind: synthetic, model: {model}, compute: {compute}}}
scheme: {scheme}
stop: {{tasks: {tasks}}}
"""
STAR = "{policy: bsp, plan: star, server: n1, chunk: 16 KiB}"
SERVER = "{policy: bsp, plan: star, server: n2, chunk: 16 KiB}"
RING = "{policy: bsp, plan: ring, chunk: 16 KiB}"
CHAIN = (
    ", overrides: ["
    + ", ".join(
        f"{{link: {link}, rate: 1 Mbit/s}}" for link in ("n1 <-> n3", "n1 <-> n4", "n2 <-> n4")
    )
    + "]"
)
"""Leaves the chain n1, n2, n3, n4 as the tree of fast links."""


def write(
    more: str = "",
    *,
    topology: str = "",
    model: str = "1 MB",
    compute: str = "50 ms",
    scheme: str = STAR,
    tasks: int = 4,
) -> str:
    texts = {"topology": topology, "model": model, "compute": compute, "scheme": scheme}
    return MESH.format(tasks=tasks, **texts) + more


LARGE = """
topology:
  builder: full_mesh
  sites: 5
  rates: 50 Mbit/s
  delays: 20 ms
  overrides: [{link: n2 <-> n4, rate: 2 Mbit/s}]
workload: {kind: synthetic, model: 4 MB, compute: 200 ms}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 3}
timeline: [{at: 1.5 s, do: setlink n1 n2 rate=5Mbit/s for 1 s}]
"""


def write_slowed(values: str, scheme: str, topology: str = "") -> str:
    """A link is slowed down while a large model is on its way, in pipelines."""
    fault = f"timeline: [{{at: 400 ms, do: setlink n2 n3 {values}}}]"
    return write(fault, topology=topology, model="4 MB", scheme=scheme, tasks=2)


RING_OF_FIVE = """
topology: {{builder: full_mesh, sites: 5, rates: 40 Mbit/s, delays: 20 ms}}
workload: {{kind: synthetic, model: 4 MB, compute: 0.2 s}}
scheme: {{policy: bsp, plan: ring}}
stop: {{rounds: 4}}
timeline: [{{at: {at}, do: outage {link} for {time}}}]
"""
BUDGET = """
limits: {task: 1 s}
timeline: [{at: 200 ms, do: setlink n2 n3 rate=200kbit/s for 2 s}]
"""
HELD = "timeline: [{at: 1.5 s, do: pause n3 for 1.8 s}]"
"""A site is paused while it computes for task 1, for less than the time after which it is lost."""

LOST_MEMBER = RING_OF_FIVE.format(at="3 s", link="n1 n2", time="4 s")
"""A site loses the controller and a neighbour in the ring just as a task ends elsewhere."""

ROUNDABOUT = RING_OF_FIVE.format(at="2.5 s", link="n3 n4", time="30 s")
"""A task is planned anew without a link, and the new plan is slower."""


def write_faulty(fault: str, plan: str) -> str:
    """A pair of sites has a fault from the time 3 s on, on paths of 50 Mbit/s and 20 ms."""
    return FAULTY.format(fault=fault, plan=plan)


FAULTY = """
topology: {{builder: full_mesh, sites: 4, rates: 50 Mbit/s, delays: 20 ms}}
workload: {{kind: synthetic, model: 3 MB, compute: 0.2 s}}
scheme: {{policy: bsp, plan: {plan}}}
stop: {{tasks: 8}}
timeline: [{{at: 3 s, do: setlink {fault}}}]
"""

PAIRS = {
    "lossy": write("timeline: [{at: 1 s, do: setlink n1 -> n3 loss=5% for 2 s}]", tasks=8),
    "crowded": write(
        "background: [{src: n1, dst: n2, rate: 15 Mbit/s, start: 1 s, stop: 4 s}]",
        scheme=RING,
        model="2 MB",
        tasks=6,
    ),
    "flapping": write("timeline: [{at: 1 s, do: flap n1 n3 every 400ms for 2 s}]", tasks=8),
    "slowed": write(
        "timeline: [{at: 1.5 s, do: setlink n2 n1 rate=3Mbit/s for 1 s}]",
        scheme="{policy: bsp, plan: ps}",
        tasks=8,
    ),
    "late": write(
        "timeline: [{at: 2 s, do: setlink n3 -> n1 delay=150ms for 2 s}]", scheme=STAR, tasks=8
    ),
}
"""Runs that one thing makes longer, each beside the same one without it."""

UNSENT = """
topology: {builder: full_mesh, sites: 5, rates: n2, delays: 30 ms}
workload: {kind: synthetic, model: 10 MB, compute: 0.1 s}
scheme: {policy: preduce, plan: a2a, p: 3}
stop: {tasks: 3}
timeline: [{at: 1 s, do: isolate n1 for 2 s}]
"""
"""A member has the whole result and cannot send all of its contribution to one that is cut off."""

CAUSES = {
    "rate": (
        write(topology=", overrides: [{link: n1 -> n2, rate: 2 Mbit/s}]"),
        3,
        ("rate", "n1 -> n2", None),
    ),
    "propagation": (
        write(topology=", overrides: [{link: n3 -> n1, delay: 400 ms}]", model="40 kB"),
        3,
        ("propagation", "n3 -> n1", None),
    ),
    "slowdown": (
        write("timeline: [{at: 0 s, do: setlink n1 -> n2 rate=2 Mbit/s}]"),
        2,
        ("slowdown", "n1 -> n2", 0),
    ),
    "slowdown in a ring": (
        write_slowed("rate=1 Mbit/s for 2 s", "{policy: bsp, plan: ring}"),
        0,
        ("slowdown", "n2 -> n3", 0),
    ),
    "slowdown with a server": (
        write_slowed("rate=1 Mbit/s for 2 s", "{policy: bsp, plan: star, server: n2}"),
        0,
        ("slowdown", None, 0),
    ),
    "slowdown in a tree": (
        write_slowed("rate=1 Mbit/s for 2 s", "{policy: bsp, plan: mst}", CHAIN),
        0,
        ("slowdown", None, 0),
    ),
    "slowdown with shares": (
        write_slowed("rate=1 Mbit/s for 2 s", "{policy: bsp, plan: crew}"),
        0,
        ("slowdown", None, 0),
    ),
    "one slow task of a ring": (LARGE, 1, ("slowdown", "n1 -> n2", 0)),
    "outage": (
        write("timeline: [{at: 100 ms, do: outage n4 n1 one-way for 1.5 s}]", tasks=2),
        0,
        ("outage", "n4 -> n1", 0),
    ),
    "outage of who still needs a contribution": (UNSENT, 0, ("outage", "n5 -> n1", 0)),
    "outage until a mend": (
        write(
            "timeline: [{at: 100 ms, do: outage n4 n1}, {at: 1.6 s, do: mend n1 n4}]\n"
            "failover: {heartbeat: 500 ms, timeout: 5 s}",
            tasks=2,
        ),
        0,
        ("outage", "n4 -> n1", 0),
    ),
    "stop": (
        write("timeline: [{at: 200 ms, do: pause n3 for 1 s}]", tasks=6),
        0,
        ("stop", "n3", 0),
    ),
    "repair": (
        write(
            "timeline: [{at: 100 ms, do: outage n2 n3 for 3 s}]\n"
            "failover: {heartbeat: 100 ms, timeout: 500 ms}",
            scheme=RING,
            tasks=2,
        ),
        0,
        ("repair", None, 0),
    ),
    "a slow link before a loss": (
        write(
            "timeline: [{at: 100 ms, do: setlink n4 n1 rate=1Mbit/s for 9 s},"
            " {at: 8.5 s, do: kill n3 for 1 s}]",
            scheme=RING,
            tasks=2,
        ),
        0,
        ("slowdown", "n4 -> n1", 0),
    ),
    "a lost aggregator": (
        write(
            "timeline: [{at: 100 ms, do: pause n4 for 3 s}]\n"
            "failover: {heartbeat: 100 ms, timeout: 500 ms}",
            scheme="{policy: preduce, p: 3, plan: crew, chunk: 16 KiB}",
            compute="50 ms, slowdown: {n4: 3.0}",
        ),
        0,
        ("repair", None, 0),
    ),
    "other tasks": (
        write(
            topology=", access: [{sites: [n1], up: 20 Mbit/s, down: 20 Mbit/s, delay: 1 ms}]",
            scheme="{name: ps-asp, servers: [n1], chunk: 16 KiB}",
            tasks=12,
        ),
        None,
        ("other tasks", None, None),
    ),
    "background traffic": (
        write("background: [{src: n1, dst: n3, rate: 17 Mbit/s}]"),
        3,
        ("background traffic", "n1 -> n3", None),
    ),
    "loss": (
        write("timeline: [{at: 0 s, do: setlink n1 -> n2 loss=4 %}]"),
        2,
        ("loss", "n1 -> n2", 0),
    ),
    "loss in a ring": (
        write_faulty("n2 n3 loss=5% for 3 s", "ring"),
        None,
        ("loss", "n2 -> n3", 0),
    ),
    "loss with shares": (
        write_faulty("n1 n3 loss=5% for 3 s", "crew"),
        7,  # after the fault
        ("loss", None, 0),
    ),
    "delay in a ring": (
        write(
            "timeline: [{at: 2 s, do: setlink n2 n3 delay=800ms for 2 s}]",
            scheme=RING,
            model="2 MB",
        ),
        None,
        ("delay", "n2 -> n3", 0),
    ),
    "delay of the controller": (
        write("timeline: [{at: 1 s, do: setlink n1 n3 delay=500ms}]", scheme=SERVER, tasks=4),
        3,
        ("delay", "n1 -> n3", 0),
    ),
    "cold start": (
        write(
            topology=", overrides: [{link: n1 -> n2, rate: 200 Mbit/s, delay: 150 ms}]",
            model="3 MB",
            tasks=2,
        ),
        0,
        ("cold start", "n1 -> n2", None),
    ),
}
"""A scenario, the task to explain (None: the one that took longest), and its main cause."""


class Runs(dict):
    """The data of runs by name; `home` has their folders."""

    def __init__(self, home, found):
        super().__init__(found)
        self.home = home


@pytest.fixture(scope="module")
def runs(embedded, tmp_path_factory):
    """The run of each cause, and of a group that waits for one slow site."""
    home = tmp_path_factory.mktemp("causes")
    texts = {cause.replace(" ", "_"): text for cause, (text, _, _) in CAUSES.items()}
    texts["lost_member"], texts["roundabout"] = LOST_MEMBER, ROUNDABOUT
    texts["budget"] = write(BUDGET, scheme="{policy: bsp, plan: crew}", tasks=3)
    texts["abandoned"] = write("timeline: [{at: 100 ms, do: isolate n3}]", model="2 MB", tasks=2)
    texts["held"] = write(HELD, compute="2 s", tasks=3)
    texts["waits"] = write(compute="50 ms, slowdown: {n3: 18.0}", tasks=3)
    texts |= PAIRS
    for name, text in PAIRS.items():
        texts[f"{name}_without"] = re.sub(r"(timeline|background): .*", r"\1: []", text)
    for name, text in texts.items():
        (home / name / "log").mkdir(parents=True)
        resolved = resolve(parse(text, f"{name}.yaml", ("files={private: false}",), 1))
        (home / name / "resolved.yaml").write_text(resolved)
    done = embedded.call(run_all, str(home), list(texts), visible=[home])
    assert set(done["codes"].values()) == {0}
    return Runs(home, {name: outputs.read(home / name) for name in texts})


@pytest.mark.parametrize("cause", CAUSES)
def test_the_main_cause_of_a_slow_task_is_named(runs, cause):
    data = runs[cause.replace(" ", "_")]
    _, number, (expected, where, fault) = CAUSES[cause]
    tasks = data.tables["tasks"]
    if number is None:
        number = int(tasks["task"][tasks["duration_s"].idxmax()])
    (found,) = explain_tasks(data.scenario, data.history, tasks, [number])
    said = summarize(found, data.history)
    assert (found.main.cause, found.main.fault) == (expected, fault), said
    assert where in (None, found.main.where), said


@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause.startswith("slowdown ")])
def test_a_slowdown_counts_the_time_that_the_link_carried_nothing_for_it(runs, cause):
    data = runs[cause.replace(" ", "_")]
    (found,) = explain_tasks(data.scenario, data.history, data.tables["tasks"], [0])
    slow = [part for part in found.parts if part.cause == "slowdown"]
    lost_s = sum(part.seconds for part in slow if "left TCP a small window" not in part.text)
    assert lost_s == pytest.approx(2 * (1 - 1 / 20), rel=0.1)  # 2 s at 1 of 20 Mbit/s


def test_the_steps_and_the_parts_of_every_task_fill_its_time(runs):
    count = 0
    for data in runs.values():
        numbers = [task.number for task in data.history.completed]
        for found in explain_tasks(data.scenario, data.history, data.tables["tasks"], numbers):
            begin_ns = found.task.started.t_ns
            assert found.steps[0].start_ns == begin_ns
            for before, after in zip(found.steps, found.steps[1:], strict=False):
                assert before.end_ns == after.start_ns and after.start_ns <= after.end_ns
            assert found.steps[-1].end_ns == found.task.end_ns
            assert sum(part.seconds for part in found.parts) == pytest.approx(found.duration_s)
            assert [*list_broken(found)] == []
            count += 1
    assert count > 50


def test_the_command_explains_one_task_or_those_that_were_slowest(runs, capsys, monkeypatch):
    folder, data = runs.home / "stop", runs["stop"]
    assert main.main(["explain", str(folder), "--json"]) == 0
    first, *others = map(json.loads, capsys.readouterr().out.splitlines())
    # Of the other tasks none lost a considerable share of its time.
    assert (first["task"], first["main"]["cause"], others) == (0, "stop", [])
    assert first["faults_s"] == {"0": pytest.approx(first["main_s"])}
    assert (first["faults_before_s"], first["measured"]) == ({}, None)
    assert main.main(["explain", str(folder)]) == 0
    said = capsys.readouterr().out
    most, sites, needs, lost, unmeasured, fault, *_ = said.splitlines()
    assert sites.startswith("The network took more time than computing: on average, each of ")
    assert needs.startswith("A completed task took ")
    assert lost.startswith("The 6 tasks of this run lost ")
    assert f" {first['main_s']:.3f} s to faults on their critical paths, " in lost
    assert lost.endswith("the wait of its complete group before it.")
    assert "`trunkline explain RUN --measure` carries it out again" in unmeasured
    assert fault.startswith("Fault 0 (")
    assert most == f"Most time was lost by task 0 ({first['lost_s']:.3f} s)."
    lost = f"{first['faults_s']['0']:.3f} s"
    assert f" of the run). It took {lost} of task 0." in said
    assert first["run"]["lost_s"] == pytest.approx(sum(first["run"]["causes_s"].values()))
    assert first["run"]["faults_s"] == {"0": pytest.approx(first["faults_s"]["0"])}
    assert first["run"]["faults"]["0"].startswith("pause n3 ")
    assert first["run"]["measured"] is None
    assert sum(first["run"]["shares"].values()) == pytest.approx(1)
    assert first["run"]["limiting"]["rate_mbps"] == 20.0
    assert main.main(["explain", str(folder), "--json", "--task", "0"]) == 0
    assert "run" not in json.loads(capsys.readouterr().out)
    assert main.main(["explain", str(folder), "--json", "--task", "all"]) == 0
    tasks = [json.loads(line)["task"] for line in capsys.readouterr().out.splitlines()]
    assert tasks == [task.number for task in data.history.tasks if task.end_ns is not None]
    assert main.main(["explain", str(folder), "1"]) == 64
    assert "did you mean --task 1?" in capsys.readouterr().err
    assert main.main(["explain", str(runs.home / "lost_member"), "--json"]) == 0
    lost_s = [json.loads(line)["lost_s"] for line in capsys.readouterr().out.splitlines()]
    assert len(lost_s) > 1 and lost_s == sorted(lost_s, reverse=True)
    assert main.main(["explain", str(runs.home / "cold_start")]) == 0
    assert capsys.readouterr().out.count("comparisons leave out the first N tasks.") == 1
    assert main.main(["explain", str(folder), "--task", "0"]) == 0
    said = capsys.readouterr().out
    (found,) = explain_tasks(data.scenario, data.history, data.tables["tasks"], [0])
    assert said.startswith(summarize(found, data.history))
    assert said.count("\n") > len(found.steps)
    assert main.main(["explain", str(folder), "--task", "77"]) == 64
    assert "--task 77: expected 0 to 5\n" in capsys.readouterr().err
    # A terminal gets lines that fit into it.
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert main.main(["explain", str(folder)]) == 0
    lines = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80 < max(map(len, said.splitlines()))


def explain_all(data):
    """The explanations of all tasks that have ended, by number."""
    numbers = [task.number for task in data.history.tasks]
    found = explain_tasks(data.scenario, data.history, data.tables["tasks"], numbers)
    return {each.task.number: each for each in found}


def test_a_task_that_failed_for_a_member_names_the_fault_and_comes_first(runs):
    data = runs["lost_member"]
    failed = {number: each for number, each in explain_all(data).items() if each.failures}
    assert failed
    for each in failed.values():
        assert {failure.fault for failure in each.failures} == {0}
        assert "(fault 0: outage n1 n2" in summarize(each, data.history)
        assert each.is_notable
    worst = explain_latest(data.scenario, data.history, data.tables["tasks"], len(failed))
    assert failed.keys() & {each.task.number for each in worst}


def test_the_time_of_an_abandoned_task_is_divided_by_its_halt(runs):
    data = runs["abandoned"]
    found = explain_all(data)[0]
    assert found.task.all(TaskAbandoned) and found.main is None
    parts = {part.cause: part for part in found.parts}
    assert parts.keys() == {"before the fault", "end", "abandonment"}
    assert parts["before the fault"].text == "fault 0" and found.taken_s == {0: found.duration_s}
    (cost,) = describe_fault_costs([found], data.history)
    assert cost.startswith("Fault 0 (isolate n3 blackhole) acted at 100 ms (0.231 s to ")
    lost = f"Task 0 was abandoned after {found.duration_s:.3f} s. Because of it, n3 did "
    assert f" s of the run). {lost}" in cost
    assert re.search(r" alone( \(of \d+ in all\))?\. The run ended while it lasted\.$", cost)
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.duration_s)
    assert parts["before the fault"].seconds == pytest.approx(0.1, abs=0.001)
    text = "from the fault until the controller halted the task: "
    assert 2.0 < parts["end"].seconds < 2.5
    assert parts["end"].text.startswith(text) and "n3" in parts["end"].text
    assert parts["end"].text.endswith(" (2.000 s of this were the wait for failover.timeout)")
    assert f"{found.expected_s:.3f} s were expected. Task 0 was" in summarize(found, data.history)
    assert "Its time in numbers: 3 parts" in write_page(data)


def test_a_task_whose_budget_was_spent_names_the_link_that_it_waited_for(runs):
    data = runs["budget"]
    found = explain_all(data).values()
    repaired = [each for each in found if each.task.all(TaskHalted) and not each.failures]
    spent = [each for each in found if each.failures]
    assert repaired
    assert {(each.main.cause, each.main.fault) for each in repaired} == {("repair", 0)}
    assert spent
    for each in spent:
        (failure,) = each.failures
        assert failure.missing.where in ("n2 -> n3", "n3 -> n2")
        assert failure.missing.arrived < failure.missing.planned
        said = summarize(each, data.history)
        assert "was abandoned: it exceeded its budget of 1 s. By then n" in said
        assert "of 20 Mbit/s on average (fault 0: setlink n2 n3" in said


def test_a_group_that_waits_for_a_lost_site_names_the_fault(runs):
    data = runs["lost_member"]
    found = explain_all(data)
    late = {number: each.wait for number, each in found.items() if each.wait.fault is not None}
    assert late
    for number, wait in late.items():
        assert wait.fault == 0
        assert wait.decide_s > 0.2
        assert "n2" in wait.reason
        assert " counted as lost (fault 0: outage n1 n2" in describe_wait(
            number, wait, data.history
        )
    usual = [each.wait for each in explain_all(runs["rate"]).values()]
    assert all(wait.reason == "" and wait.decide_s < 0.02 for wait in usual)


def test_a_group_that_waits_for_a_site_that_was_paused_names_the_fault(runs):
    data = runs["held"]
    (worst,) = explain_latest(data.scenario, data.history, data.tables["tasks"], 1)
    assert worst.task.number == 1
    assert worst.is_notable and not worst.is_slow
    assert (worst.wait.last, worst.wait.held.stop.fault) == ("n3", 0)
    assert worst.wait.held.seconds == pytest.approx(1.8, abs=0.01)
    assert "n3 was paused for 1.8" in describe_wait(1, worst.wait, data.history)
    assert "n3 was paused for" in write_page(data)
    assert [each.is_notable for each in explain_all(data).values()] == [False, True, False]


def test_a_group_that_waits_for_a_late_message_names_the_delay(runs):
    data = runs["delay_of_the_controller"]
    wait = explain_all(data)[3].wait
    assert (wait.fault, wait.heard[0]) == (0, "n3")
    assert wait.decide_s == pytest.approx(0.5, abs=0.02)
    said = describe_wait(3, wait, data.history)
    assert "heard of n3 late: the delay of n3 -> n1 was 500 ms in place of 10 ms (fault 0: " in said
    assert explain_all(data)[3].before_s == {0: pytest.approx(wait.decide_s)}


def test_what_a_new_plan_takes_longer_is_charged_to_the_repair(runs):
    found = explain_all(runs["roundabout"])[1]
    longer = [part for part in found.parts if part.cause == "longer plan"]
    planned = sum(part.seconds for part in found.parts if part.cause in PLANNED)
    assert [part.fault for part in longer] == [0]
    assert found.main.cause == "repair"
    again = sum(part.seconds for part in found.parts if part.cause == "begun anew")
    assert again > 0.3
    before = sum(part.seconds for part in found.parts if part.cause == "before the fault")
    assert found.main_s == pytest.approx(found.duration_s - planned - before, abs=0.1)
    assert planned == pytest.approx(found.expected_s)
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.duration_s)


def test_the_page_explains_tasks_that_were_slow_and_no_others(runs):
    assert "n3 was stopped (fault 0: pause n3" in write_page(runs["stop"])
    assert "Lost time" not in write_page(runs["rate"])


def test_the_page_says_that_estimates_do_not_know_changed_rates(runs):
    assert "by the rates before any change" in write_page(runs["slowdown"])
    assert "by the rates before any change" not in write_page(runs["rate"])


def test_a_group_waits_for_the_site_that_computes_longest(runs):
    data = runs["waits"]
    found = explain_tasks(data.scenario, data.history, data.tables["tasks"], [1])[0]
    assert found.wait.last == "n3"
    assert found.wait.compute_s == pytest.approx(0.9, abs=0.01)
    assert found.wait.wait_s > 0.8


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("crowded", "background traffic"),
        *((name, "faults") for name in ("lossy", "flapping", "slowed", "late")),
    ],
)
def test_what_a_cause_took_is_by_how_much_later_the_run_ended(runs, name, cause):
    """One task follows the other, so what it took of all tasks is what it made the run longer."""
    ends_ns = [runs[each].history.tasks[-1].end_ns for each in (name, f"{name}_without")]
    longer_s = (ends_ns[0] - ends_ns[1]) / 1e9
    data = runs[name]
    losses = Losses.of(explain_latest(data.scenario, data.history, data.tables["tasks"]))
    assert longer_s > 0.5
    assert losses.by_cause_s[cause] == pytest.approx(longer_s, rel=0.15)


def test_what_tasks_lost_adds_up_by_cause(runs):
    """To the rounding of each number."""
    for data in runs.values():
        found = explain_latest(data.scenario, data.history, data.tables["tasks"])
        said = re.split(r" A task loses | Of the ", next(describe_losses(found, data.history)))[0]
        if " lost no time" in said:
            continue
        total, *parts = [float(text) for text in re.findall(r"(\d+\.\d{3}) s ", said)]
        less = parts.pop() if "less than expected" in said else 0.0
        assert sum(parts) - less == pytest.approx(total, abs=0.001 * (len(parts) + 2)), said
        lost_s = sum(max(0.0, each.lost_s) for each in found)
        assert total == pytest.approx(lost_s, abs=0.001)


def test_the_causes_of_a_task_add_up_to_what_it_took_longer(runs):
    found = [each for data in runs.values() for each in explain_all(data).values() if each.steps]
    assert len(found) > 20
    for each in found:
        groups = sum(part.seconds for group in each.groups for part in group)
        assert groups + each.own_s == pytest.approx(each.late_s)
