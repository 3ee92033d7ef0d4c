"""The causes of a task's time, from a log that was written down by hand."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from three_sites import TOPOLOGY, Change, added, history

from trunkline.agents.events.causes import SiteLost
from trunkline.harness.report.explanations.explanation import Explanation, explain
from trunkline.harness.report.explanations.explanation_text import summarize
from trunkline.harness.report.explanations.task_time import Part, Run

FAST = replace(
    TOPOLOGY, links=tuple(replace(link, rate_mbps=10 * link.rate_mbps) for link in TOPOLOGY.links)
)
"""Links that are faster than the payload was, which connections that are cold explain."""


def list_cold(*changes: Change) -> list[Part]:
    """The parts of the first task's time that are due to cold connections, in order of time."""
    found = history(*changes)
    task = found.tasks[0]
    parts = explain(Run(found, FAST, 1500, "oslo"), task, 0.1, None).parts
    return [part for part in parts if part.cause == "cold start"]


def halted(t_ms: int) -> Change:
    cause = asdict(SiteLost("rome"))
    return added(t_ms, "controller", "task_halted", task=0, cause=cause, members=[])


def test_a_halt_after_a_transfer_did_not_make_its_connection_cold() -> None:
    found_again = added(1_400, "rome", "link_found", peer="oslo")
    parts = list_cold(found_again, halted(1_490))
    assert {part.where: part.text for part in parts} == {
        "rome -> oslo": ", made at 1.400 s,",
        "oslo -> rome": "",
    }


def test_a_connection_that_nothing_had_used_before_a_repair_is_cold_because_of_it() -> None:
    parts = list_cold(halted(215))
    assert {part.where: part.text for part in parts} == {
        "rome -> oslo": ", which the repair needed,",
        "oslo -> rome": "",
    }


def explain_parts(expected_s: float) -> Explanation:
    """A task of 6 s whose time is in parts of two faults and one without."""
    parts = (
        Part("repair", 2.0, "rome", 3, text="was rearranged"),
        Part("queueing", 1.5, "oslo -> rome"),
        Part("longer plan", 1.0, "oslo -> rome", 3),
        Part("outage", 0.5, "oslo -> rome", 4),
        Part("rate", 1.0, "oslo -> rome"),
    )
    task = history().tasks[0]
    return Explanation(task, 6.0, expected_s, (), parts, parts[0], None)


def test_the_main_cause_has_all_the_time_that_its_fault_took() -> None:
    slow = explain_parts(1.0)
    assert slow.main_s == pytest.approx(3.0)
    said = summarize(slow, history())
    assert "The main cause took 3.000 s in 2 parts, the longest of 2.000 s: the task was re" in said


def test_most_of_a_task_that_was_not_slow_is_one_part() -> None:
    usual = explain_parts(5.0)
    assert usual.main_s == pytest.approx(2.0)
    assert "The longest part took 2.000 s: the task was rearranged" in summarize(usual, history())
