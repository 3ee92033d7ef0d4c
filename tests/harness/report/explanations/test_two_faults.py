"""What `explain` charges to two faults at once, against sums of the bare lines of the log.

The logs are those of runs of five sites in which two faults overlap, one of them a kill. They are
cut after some tasks, and have no fingerprints. `find_times`, `sum_lost_s` and `list_most` know
nothing but their lines.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from adding_up import list_broken
from three_sites import DATA

from trunkline.agents.events import event_reading
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.costs.task_losses import describe_losses
from trunkline.harness.report.explanations.explained_tasks import explain_latest
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.told.explanation_text import summarize
from trunkline.harness.report.explanations.told.fault_costs import describe_fault_costs
from trunkline.harness.report.parts import report_parts
from trunkline.harness.scenario.loading import load

Line = dict[str, Any]
FOLDER = DATA / "two_faults"
CASES = [path.stem for path in sorted(FOLDER.glob("*.jsonl"))]


def read_lines(case: str) -> list[Line]:
    return [json.loads(line) for line in (FOLDER / f"{case}.jsonl").read_text().splitlines()]


def explain_case(case: str) -> tuple[dict[int, Explanation], History]:
    log: Path = FOLDER / f"{case}.jsonl"
    scenario = load(log.with_suffix(".yaml"))
    history = History.of(event_reading.read(log.read_text().splitlines()))
    found = explain_latest(scenario, history, report_parts.make_tables(scenario, history)["tasks"])
    return {each.task.number: each for each in found}, history


def find_times(lines: list[Line]) -> dict[int, Line]:
    """When each task's group was complete, when the task started and ended, and how it ended."""
    ready: dict[str, int] = {}
    found: dict[int, Line] = {}
    for line in lines:
        match line["event"]:
            case "ready":
                ready[line["site"]] = line["t_ns"]
            case "contributed":
                ready.pop(line["site"], None)
            case "task_started":
                last_ns = max(ready[site] for site in line["group"] if site in ready)
                times = {"complete": last_ns, "start": line["t_ns"], "end": 0, "failed": None}
                found[line["task"]] = times
            case "task_finished" if not found[line["task"]]["failed"]:
                found[line["task"]]["end"] = line["t_ns"]
            case "task_abandoned":
                found[line["task"]] |= {"end": line["t_ns"], "failed": line["reason"]}
    return found


def sum_lost_s(lines: list[Line], expected_s: dict[int, float]) -> float:
    """What all tasks lost beyond what was expected; of an abandoned one, nothing was of use."""
    return sum(
        max(0.0, (each["end"] - each["complete"]) / 1e9 - (not each["failed"]) * expected_s[number])
        for number, each in find_times(lines).items()
    )


def list_most(lines: list[Line], fault: int) -> dict[int, float]:
    """The most that a fault can have cost each task, in seconds: the time after it began.

    Of an abandoned task it is all of the time if the fault stopped or cut one that is named in the
    reason for the end.
    """
    began = next(e for e in lines if e["event"] == "fault_started" and e["fault"] == fault)
    found = {}
    for number, each in find_times(lines).items():
        reason = each["failed"] or ""
        ended = any(set(re.findall(r"\w+", reason)) & set(t.split()) for t in began["targets"])
        since = each["complete"] if ended else max(each["complete"], began["t_ns"])
        found[number] = max(0.0, (each["end"] - since) / 1e9)
    return found


@pytest.mark.parametrize("case", CASES)
def test_what_is_charged_adds_up_and_nothing_is_charged_before_its_fault(case):
    found, history = explain_case(case)
    lines = read_lines(case)
    total = sum_lost_s(lines, {number: each.expected_s for number, each in found.items()})
    (said, *_) = describe_losses([*found.values()], history)
    assert f"lost {total:.3f} s in all: " in said
    of_causes = [float(text) for text in re.findall(r"[:,] ([0-9.]+) s to ", said)]
    less = re.search(r"their own bytes took ([0-9.]+) s less", said)
    assert sum(of_causes) - float(less[1] if less else 0) == pytest.approx(total, abs=0.005)
    by_fault: dict[int, float] = {}
    for number, each in found.items():
        assert [*list_broken(each)] == []
        for fault, seconds in each.taken_s.items():
            assert seconds <= list_most(lines, fault)[number] + 1e-9
            by_fault[fault] = by_fault.get(fault, 0.0) + seconds
    to_faults = re.search(r"([0-9.]+) s to faults", said)
    assert to_faults and float(to_faults[1]) == pytest.approx(sum(by_fault.values()), abs=0.001)


def find_time(case: str, event: str, **match: Any) -> float:
    """When the first such event was, in seconds."""
    wanted = {"event": event, **match}
    lines = (line for line in read_lines(case) if wanted.items() <= line.items())
    return next(line["t_ns"] for line in lines) / 1e9


def test_what_a_slow_link_took_of_a_task_before_a_kill_ended_it_is_the_slow_links() -> None:
    """oslo's links have 1 Mbit/s in place of 22 or more until the kill, and the task needs them."""
    case = "slowed_then_killed"
    found, history = explain_case(case)
    start_s, end_s = (find_time(case, f"task_{what}", task=1) for what in ("started", "abandoned"))
    before_s = find_time(case, "fault_started", fault=1) - start_s
    took_s = end_s - start_s
    costs = found[1].taken_s
    assert sum(costs.values()) == pytest.approx(took_s)
    assert before_s * (1 - 1 / 10) - 0.07 < costs[0] < before_s  # 10 Mbit/s or more, at most 70 ms
    slow, kill = describe_fault_costs([*found.values()], history)
    assert " It took 1.020 s of task 1." in slow
    assert f" Task 1 was abandoned after {found[1].duration_s:.3f} s." in kill
    assert "Of its time, 1.020 s were lost before, as bern -> oslo was slower than in " in (
        summarize(found[1], history)
    )


def test_a_task_that_a_cut_delays_before_another_fault_ends_it_began_later() -> None:
    """The controller waits until vienna, which the cut has stopped, counts as lost."""
    found, history = explain_case("delayed_then_killed")
    ready_s = find_time("delayed_then_killed", "ready", site="lisbon", iteration=2)
    start_s = find_time("delayed_then_killed", "task_started", task=2)
    assert found[2].before_s == {2: pytest.approx(start_s - ready_s, abs=0.03)}
    texts = describe_fault_costs([*found.values()], history)
    (cut,) = (text for text in texts if text.startswith("Fault 2 "))
    assert " Task 2 (0.552 s) began later. " in cut


def test_what_a_slow_link_took_of_a_task_that_a_pause_halts_is_the_slow_links() -> None:
    """oslo sends to rome at 8 in place of 50 Mbit/s when vienna, to which rome sends, is paused."""
    case = "delayed_then_killed"
    found, _ = explain_case(case)
    slow_s, pause_s = (find_time(case, "fault_started", fault=number) for number in (0, 1))
    sent = [line for line in read_lines(case) if line["event"] == "sent" and line["task"] == 0]
    early, late = (line for line in sent if (line["site"], line["dst"]) == ("oslo", "rome"))
    assert late["start_ns"] / 1e9 < slow_s
    assert pause_s < late["end_ns"] / 1e9
    assert found[0].taken_s[0] == pytest.approx((pause_s - slow_s) * (1 - 8 / 50), abs=0.01)
    cold_s = sum(each.seconds for each in found[0].parts if each.cause == "cold start")
    first_s = (early["end_ns"] - early["start_ns"]) / 1e9 - early["bytes"] * 8 / 50e6
    repaired = next(line for line in sent if (line["site"], line["dst"]) == ("lisbon", "rome"))
    again_s = (repaired["end_ns"] - repaired["start_ns"]) / 1e9 - repaired["bytes"] * 8 / 50e6
    assert cold_s < first_s + again_s


def test_a_pause_before_and_after_a_kill_is_the_pauses() -> None:
    case = "paused_and_killed"
    found, history = explain_case(case)
    pause_s, kill_s = (find_time(case, "fault_started", fault=number) for number in (0, 1))
    halted_s = find_time(case, "task_halted", task=1)
    lost_s = find_time(case, "worker_lost", worker="oslo")
    paused = kill_s - pause_s + lost_s - halted_s
    assert found[1].taken_s[0] == pytest.approx(paused, abs=0.001)
    assert found[1].taken_s[1] == pytest.approx(found[1].duration_s - paused, abs=0.001)
    text, _ = describe_fault_costs([*found.values()], history)
    assert f" It took {paused:.3f} s of task 1." in text


def test_bytes_that_were_handed_to_a_cut_link_wait_for_the_cut() -> None:
    """kyiv sent a chunk to bern, which was cut off until a kill ended the task."""
    case = "partitioned_then_killed"
    found, _ = explain_case(case)
    cut_s, kill_s = (find_time(case, "fault_started", fault=number) for number in (0, 1))
    assert found[2].taken_s[0] == pytest.approx(kill_s - cut_s, abs=0.001)
    assert found[2].taken_s[1] == pytest.approx(found[2].duration_s - kill_s + cut_s, abs=0.001)


def test_a_repair_costs_nothing_where_the_task_was_slow_before_and_soon_done_after() -> None:
    """Without faults, task 0 takes 3.888 s; with them, 3.870 s, as the new plan is faster."""
    case = "cut_and_killed"
    found, _ = explain_case(case)
    cold_s = sum(each.seconds for each in found[0].parts if each.where == "kyiv -> rome")
    sent = [line for line in read_lines(case) if line["event"] == "sent" and line["task"] == 0]
    begun = [line["start_ns"] / 1e9 for line in sent if line["site"] == "kyiv"]
    assert cold_s < find_time(case, "fault_started", fault=1) - min(begun) + 0.06
    assert found[0].duration_s == pytest.approx(3.870, abs=0.001)
    assert found[0].taken_s[1] < 0.1
    assert found[0].taken_s.keys() == {1}
    assert found[1].taken_s == {0: pytest.approx(found[1].duration_s)}


def test_the_path_leads_through_a_member_that_was_killed_before_it_reported() -> None:
    """kyiv got 524 kB from lima, passed them on, and was killed before it told so."""
    found, _ = explain_case("passed_on_then_killed")
    steps = [(step.kind, step.src, step.site) for step in found[1].steps]
    assert steps == [
        ("contribution", "", "lima"),
        ("transfer", "lima", "kyiv"),
        ("transfer", "kyiv", "lima"),
        ("installation", "", "lima"),
    ]
    reports = [e for e in read_lines("passed_on_then_killed") if e["event"] in ("sent", "received")]
    assert "kyiv" not in {line["site"] for line in reports if line["task"] == 1}


def test_a_repaired_task_is_charged_for_what_its_first_plan_did_without() -> None:
    """It was planned without a link that fault 0 had cut, and then fault 1 killed a helper.

    With all links, a task of this group was to take 0.698 s in a run without faults.
    """
    found, _ = explain_case("planned_without_then_killed")
    task = found[3]
    assert (task.expected_s, task.planned_s) == pytest.approx((0.698, 1.104), abs=0.001)
    assert task.taken_s == pytest.approx({0: 0.406, 1: 0.230}, abs=0.001)
