"""The causes of a task's time, from a log that was written down by hand."""

from __future__ import annotations

from dataclasses import replace

from three_sites import TOPOLOGY, Change, added, history

from trunkline.harness.report.explanations.causes import Part, Run
from trunkline.harness.report.explanations.explanation import explain

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
    return added(t_ms, "controller", "task_halted", task=0, reason="rome is lost", members=[])


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
