"""What faults cost a run, measured by runs without some of them."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.report.explanations import test_pulls, test_stretches
from trunkline.agents.events.causes import Asked
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import CommandTyped, FaultStarted
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import TaskCompleted
from trunkline.harness.commands import main
from trunkline.harness.faults import fault_syntax
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.record.history import History
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.costs.measured_costs import (
    Measured,
    Outcome,
    TaskRun,
    list_problems,
    list_runs,
    list_steps,
    number_steps,
)
from trunkline.harness.report.explanations.costs.site_times import SiteTimes
from trunkline.harness.runs import measured_faults, runner
from trunkline.harness.scenario.loading import parse

TEXT = """
name: faulty
topology: {builder: full_mesh, sites: 3, rates: 20 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 500 kB, compute: 0.2 s}
scheme: {policy: bsp, plan: ring}
timeline:
- {at: 3 s, do: setlink n1 n2 rate=10Mbit/s for 1 s}
- {at: 1 s, do: pause n2 for 1 s}
stop: {tasks: 6}
outputs: {plots: false}
"""


@pytest.fixture
def run_dir(embedded, make_once, tmp_path) -> Path:
    """A run with two faults."""

    def carry_out(home: Path) -> None:
        (home / "faulty.yaml").write_text(TEXT)
        scenario = parse(TEXT, str(home / "faulty.yaml"))
        runner.run(scenario, home / "faulty.yaml", home / "runs", lambda _: None)

    made = next((make_once(carry_out) / "runs" / "faulty").glob("2*"))
    return Path(shutil.copytree(made, tmp_path / "faulty"))


def test_each_fault_costs_what_the_run_with_it_takes_longer(run_dir, capsys) -> None:
    """A pause of a second while a site computes or sends delays each later task by about that."""
    assert main.main(["explain", str(run_dir)]) == 0
    said = capsys.readouterr().out
    assert "`trunkline explain RUN --measure` carries it out again" in said
    assert ", made the run" not in said
    assert main.main(["explain", str(run_dir), "--measure"]) == 0
    captured = capsys.readouterr()
    assert "run 1 of 2: with no fault" in captured.err
    runs = sorted((run_dir / outputs.WITHOUT_FAULTS / "faulty").glob("2*"))
    assert [len(outputs.read_history(each)[0].timeline) for each in runs] == [0, 1]
    data = outputs.read(run_dir)
    found = data.measured
    assert found is not None
    assert [each.faults for each in found.parts] == [(0,), (1,)]
    pause_s, slow_s = (each.seconds for each in found.parts)
    assert 0.7 <= pause_s <= 1.2
    assert 0.0 <= slow_s <= 1.0
    assert found.outcomes[-1] == Outcome.of(2, data)
    assert found.outcomes[0] == Outcome.of(0, outputs.read(runs[0]))
    whole = f"Without faults, the last task ended {pause_s + slow_s:.3f} s earlier (measured)."
    assert captured.out.startswith(whole)
    assert f"made the run {pause_s:.3f} s longer (a mean site: +" in captured.out
    rows = [line for line in captured.out.splitlines() if line.startswith((" no fault", " also"))]
    assert rows[1].split()[:7] == ["also", "pause", "n2", "for", "1", "s", "at"]
    (first,) = (int(n) for n in re.findall(r"^Task (\d+) \(", captured.out, re.MULTILINE)[:1])
    times = [f"{each.tasks[first].duration_s:.3f}" for each in found.outcomes]
    assert len({*times}) > 1
    heads = ["with", "began", "(s)", "took", "(s)", "ended", "(s)", "how"]
    lines = captured.out.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.split() == heads)
    assert lines[begin + 1].split()[3:6:2] == [times[0], "completed"]
    assert f" {times[1]} " in lines[begin + 2]
    page = re.sub("<[^>]*>", "", (run_dir / "report.html").read_text())
    assert f"Task {first} without some of the faults" in page
    assert whole in page
    assert "The run without some of its faults: 2 runs" in page
    assert main.main(["explain", str(run_dir)]) == 0
    assert capsys.readouterr().out == captured.out  # it is known from now on
    assert main.main(["explain", str(run_dir), "--json"]) == 0
    values = json.loads(capsys.readouterr().out.splitlines()[0])["run"]["measured"]
    assert values["whole"]["seconds"] == pytest.approx(pause_s + slow_s)
    assert [each["faults"] for each in values["parts"]] == [[0], [1]]
    assert main.main(["explain", str(run_dir), "--task", str(first), "--json"]) == 0
    tasks = json.loads(capsys.readouterr().out)["measured"]
    assert {each["task"] for each in tasks} == {first}
    assert [f"{each['duration_s']:.3f}" for each in tasks] == times


def test_many_faults_and_typed_ones_are_measured(run_dir, monkeypatch) -> None:
    """Many only together; of typed ones, a run with all of them says what they cost."""
    data, asked, ends_s = outputs.read(run_dir), [], []

    class Done:
        run_dir = Path()

    def carry_out(scenario, source, runs_dir, on_progress):
        asked.append([entry.at_s for entry in scenario.timeline])
        ends_s.append(scenario.stop.time_s)
        return Done

    monkeypatch.setattr(measured_faults.runner, "run", carry_out)
    monkeypatch.setattr(measured_faults.outputs, "read", lambda _: data)
    many = replace(data, scenario=replace(data.scenario, timeline=data.scenario.timeline * 5))
    found = measured_faults.measure(run_dir, many, lambda _: None)
    assert asked == [[]]
    assert (found.whole.seconds, found.steps) == (0.0, ("all faults",))
    ends_s.clear()
    assert [row[0] for row in found.list_rows()] == ["no fault", "all faults"]
    asked.clear()
    typed = [
        replace(e, asked=True) if isinstance(e, FaultStarted) else e for e in data.history.events
    ]
    by_hand = replace(data, history=History.of(typed), scenario=replace(data.scenario, timeline=()))
    found = measured_faults.measure(run_dir, by_hand, lambda _: None)
    assert asked == [[], [pytest.approx(1)], [pytest.approx(1), pytest.approx(3)]]
    assert found.numbers == ((0,), (1,))
    assert not found.by_time
    ended = [*typed, Stopping(4 * 10**9, "controller", Asked())]
    found = measured_faults.measure(
        run_dir, replace(by_hand, history=History.of(ended)), lambda _: None
    )
    assert found.by_time
    assert ends_s == [None] * 3 + [4.0] * 3


def test_what_cannot_be_measured_is_refused(run_dir, capsys) -> None:
    scenario, history = outputs.read_history(run_dir)
    assert not [*list_problems(scenario, history)]

    def refuse(*events: Event) -> str:
        (why,) = list_problems(scenario, History.of([*history.events, *events]))
        return why

    (why,) = list_problems(replace(scenario, timeline=()), history)
    assert why.startswith("it had no faults")
    end_ns = history.end_ns
    assert refuse(CommandTyped(end_ns, "runner", "n1 ip link set down")).startswith("commands w")
    unfinished = History.of([e for e in history.events if not isinstance(e, TaskCompleted)])
    (why,) = list_problems(scenario, unfinished)
    assert why == "none of its tasks has ended: expected one"
    assert main.main(["explain", str(run_dir), "--measure", "--task", "1"]) == 64
    assert "--measure: expected without --task and --step" in capsys.readouterr().err


def test_a_file_of_costs_that_is_broken_is_named(run_dir, capsys) -> None:
    (run_dir / outputs.MEASURED).write_text('{"steps": []}')
    assert main.main(["explain", str(run_dir)]) != 0
    assert (
        f"{outputs.MEASURED}: expected what `explain --measure` writes" in capsys.readouterr().err
    )


def entry(at_s: float, text: str) -> Entry:
    return Entry(at_s, fault_syntax.parse(text))


def test_a_fault_that_another_one_undoes_is_measured_with_it() -> None:
    """A run with the outage alone would be one in which it lasts."""
    outage, pause, slow = (
        entry(1, "outage a b"),
        entry(2, "pause c for 1 s"),
        entry(5, "setlink a b rate=1Mbit/s for 1 s"),
    )
    mend, heal = entry(4, "mend a b"), entry(6, "heal")
    assert list_steps([outage, pause, slow]) == [(outage,), (pause,), (slow,)]
    assert list_steps([outage, pause, mend, slow]) == [(outage, pause, mend), (slow,)]
    assert list_steps([pause, slow, heal]) == [(pause,), (slow, heal)]
    assert list_steps([heal, pause]) == [(heal,), (pause,)]
    churn = entry(0, "churn pauses=3s")
    assert list_steps([churn, pause]) == [(churn,), (pause,)]
    assert list_steps([churn, churn, pause]) == [(churn, churn, pause)]


def test_faults_of_a_churn_belong_to_its_step() -> None:
    """Each fault of the log is that of one entry; those that no entry has are the churn's."""
    steps = list_steps([entry(0, "churn pauses=3s"), entry(2, "pause c for 1 s")])
    churn = write(steps[0][0].fault)
    texts = ((0, churn), (1, "pause a for 2 s"), (2, "pause c for 1 s"))
    began = [FaultStarted(t * 10**9, "runner", t, text.split()[0], text, ()) for t, text in texts]
    assert number_steps(steps, History.of(began)) == ((1,), (2,))


def list_rows(number: int, *outcomes: dict[int, TaskRun]) -> list[tuple[str, ...]]:
    """What a table says of a task in runs with these tasks: with no fault, fault a, and so on."""
    times = SiteTimes(1.0, 2.0, 3.0, 4)
    runs = [Outcome(n, 5.0, 9, times, "pass", tasks) for n, tasks in enumerate(outcomes)]
    steps = tuple("abc"[: len(runs) - 1])
    return Measured(steps, tuple(runs), ((0,),) * len(steps), own=outcomes[-1]).list_task_rows(
        number
    )


def test_a_task_has_a_row_for_each_run_up_to_the_last_fault_that_changed_it() -> None:
    usual, late = TaskRun(1.0, 0.5, "completed", ("n1", "n2")), TaskRun(1.25, 2.0, "abandoned", ())
    late, other = replace(late, group=("n2", "n1")), replace(usual, group=("n1", "n3"))
    head = "no fault", "1.000", "0.500", "1.500"
    assert list_rows(7, {7: usual}, {7: late}, {7: late}) == [
        (*head, "completed"),
        ("also a", "1.250", "2.000", "3.250", "abandoned"),
    ]
    assert list_rows(7, {7: other}, {}, {7: usual}) == [
        (*head, "a task of n1, n3"),
        ("also a", "", "", "", "no such task ended"),
        ("also b", *head[1:], "completed"),
    ]
    many = replace(usual, group=tuple(f"n{number}" for number in range(9)))
    assert (
        list_rows(7, {7: many}, {7: usual})[0][-1] == "a task of n0, n1, n2, n3, n4, 4 other sites"
    )
    more, few = replace(many, group=many.group[:7]), replace(many, group=many.group[:6])
    assert list_rows(7, {7: more}, {7: usual})[0][-1].endswith(" n3, n4, 2 other sites")
    assert list_rows(7, {7: few}, {7: usual})[0][-1] == "a task of n0, n1, n2, n3, n4, n5"


def test_the_first_two_rows_of_a_task_are_shown_also_if_no_fault_changed_it() -> None:
    usual, late = TaskRun(1.0, 0.5, "completed", ("n1",)), TaskRun(1.25, 0.5, "completed", ("n1",))

    def list_starts(*tasks: TaskRun) -> list[tuple[str, str]]:
        return [row[:2] for row in list_rows(7, *({7: task} for task in tasks))]

    same = [("no fault", "1.000"), ("also a", "1.000")]
    assert list_starts(usual, usual) == list_starts(usual, usual, usual, usual) == same
    later = [("no fault", "1.000"), ("also a", "1.250")]
    assert list_starts(usual, late, late, late) == later
    assert list_starts(usual, usual, late, late) == [*same, ("also b", "1.250")]
    outcome = Outcome(0, 5.0, 9, SiteTimes(1.0, 2.0, 3.0, 4), "pass", {7: usual})
    whole = Measured(("all faults",), (outcome, outcome), ((0,),), own={7: usual})
    assert [row[0] for row in whole.list_task_rows(7)] == ["no fault", "all faults"]


def find_costs_s(*outcomes: TaskRun | None, numbers: int = 1) -> dict[int, float]:
    """What faults cost task 7 in runs with these tasks; each step is `numbers` faults."""
    times, tasks = SiteTimes(1.0, 2.0, 3.0, 4), [{7: each} if each else {} for each in outcomes]
    runs = [Outcome(n, 5.0, 9, times, "pass", found) for n, found in enumerate(tasks)]
    steps = tuple(tuple(range(n, n + numbers)) for n in range(len(runs) - 1))
    own = {7: next(each for each in reversed(outcomes) if each)}
    return Measured(("x",) * len(steps), tuple(runs), steps, own=own).find_costs_s(7)


def test_a_task_that_began_as_without_a_fault_cost_what_it_took_longer() -> None:
    usual = TaskRun(1.0, 0.5, "completed", ("n1", "n2"))
    slow, late = replace(usual, duration_s=2.0), replace(usual, start_s=1.002, duration_s=2.0)
    assert find_costs_s(usual, slow, slow, usual) == {0: 1.5, 1: 0.0, 2: -1.5}
    assert find_costs_s(usual, late) == find_costs_s(None, usual) == {}
    assert find_costs_s(replace(usual, group=("n1", "n3")), slow) == {}
    assert find_costs_s(usual, replace(slow, outcome="abandoned")) == {}
    assert find_costs_s(usual, slow, numbers=2) == {}


@pytest.mark.parametrize(("rounds", "is_other"), [(9.4, True), (9.6, False), (10.6, True)])
def test_runs_in_which_sites_did_other_work_are_not_compared(rounds, is_other) -> None:
    """Without faults a mean site did 10 rounds."""
    usual = SiteTimes(1.0, 2.0, 3.0, 4, rounds=10.0)
    first = Outcome(0, 5.0, 9, usual, "pass", {})
    last = Outcome(1, 3.0, 9, replace(usual, rounds=rounds), "pass", {})
    found = Measured(("kill a",), (first, last), ((0,),))
    more = f" But a mean site did 10.0 rounds without faults, and {rounds} with: these times are"
    said = "Without faults, the last task ended 2.000 s later (measured)."
    assert found.describe_end() == said + f"{more} of different work." * is_other
    (part,) = found.parts
    assert (part.of_site.rounds, part.of_site.is_other_work) == (
        pytest.approx(rounds - 10), is_other
    )  # fmt: skip
    assert [row[4] for row in found.list_rows()] == ["10.0", str(rounds)]


def test_a_task_with_a_server_is_the_one_at_the_same_turn_of_its_members() -> None:
    """Its number is another one if other workers came between."""
    push = TaskRun(1.0, 0.5, "completed", ("n1", "server"), "push 0")
    again, others = replace(push, start_s=4.0, turn="push 1"), replace(push, group=("n2", "server"))
    assert list_rows(3, {0: push, 3: others, 5: again}, {0: push, 3: again}) == [
        ("no fault", "4.000", "0.500", "4.500", "completed (task 5)"),
        ("also a", "4.000", "0.500", "4.500", "completed"),
    ]
    assert list_rows(3, {0: push}, {3: again})[0][-1] == "no such task ended"
    assert list_rows(4, {3: others, 5: push}, {4: push})[0][-1] == "completed (task 5)"


def test_the_turns_of_pushes_and_pulls_are_counted_apart() -> None:
    history = test_pulls.order(
        test_pulls.push(1, "fast", 0, 100, 500), test_pulls.pull(2, "fast", 500, 900, "ended", 1),
        test_pulls.push(3, "slow", 0, 1000, 1400), test_pulls.push(4, "fast", 900, 1500, 1900),
    )  # fmt: skip
    found = list_runs(history.tasks)
    assert {number: each.turn for number, each in found.items()} == {
        1: "push 0", 2: "pull 0", 3: "push 0", 4: "push 1"
    }  # fmt: skip
    assert (found[4].start_s, found[4].duration_s) == (1.5, 0.4)
    outcome = Outcome(0, 5.0, 4, SiteTimes(1.0, 2.0, 3.0, 4), "pass", found)
    assert [outcome.find(number, own) for number, own in found.items()] == [*found.items()]
    assert found[4].group == ("fast", "s")


def test_a_push_that_has_not_ended_is_no_task_of_a_run_but_a_turn() -> None:
    history = test_stretches.order(
        test_stretches.push(0, "n2", 1000, None, "ready"),
        test_stretches.push(1, "n2", 1500, 1900, "tick"),
        test_stretches.pair(2, "n3", 1900, 2300),
    )
    ended = TaskRun(1.5, 0.4, "completed", ("n2", "n1"), "push 1")
    assert list_runs(history.tasks) == {1: ended, 2: TaskRun(1.9, 0.4, "completed", ("n3", "n1"))}


@pytest.mark.parametrize(
    ("longer_s", "fewer", "by_time", "said"),
    [
        (2.5, 0, False, "the last task ended 2.500 s earlier"),
        (-0.5, 0, False, "the last task ended 0.500 s later"),
        (
            0.0,
            1,
            False,
            "the last task ended at the same time, and 9 tasks were completed instead of 8",
        ),
        (9.0, 0, True, "as many tasks were completed, 9"),
    ],
)
def test_the_end_without_faults_is_told(longer_s, fewer, by_time, said) -> None:
    times = SiteTimes(1.0, 2.0, 3.0, 4)
    tasks = {
        3: TaskRun(1.0, 0.5, "completed", ("a", "b"), "push 1"),
        1_000_000: TaskRun(2.0, 0.25, "", ()),
    }
    first = Outcome(0, 5.0, 9, times, "pass", tasks)
    last = Outcome(1, 5.0 + longer_s, 9 - fewer, times, "unknown", {})
    found = Measured(("pause a",), (first, last), ((0,),), by_time)
    assert found.describe_end() == f"Without faults, {said} (measured)."
    assert Measured.from_json(json.loads(json.dumps(found.to_json())), ()) == found
    assert [each.keys() & {"tasks", "ended_s"} for each in found.summarize()["outcomes"]] == [
        {"ended_s"}, {"ended_s"}
    ]  # fmt: skip
    assert [*found.list_rows()][1][0] == "also pause a (verdict: unknown)"
    on_clock = replace(found, real=True).describe_end()
    assert on_clock.endswith(" (measured on this machine's clock, by one run each).")
