"""What a site sent, but could not log: an early contribution, a chunk of a task that is over."""

from dataclasses import asdict

import pytest
from faults import FOUR, bsp
from wan import CHUNK_BYTES, FAILOVER, Wan, mesh

from trunkline.agents.events.causes import LostAlone
from trunkline.harness.checks import result_checks
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.payload import timing_checks

ALONE = ("joined", "contributed", "finished", "sent", "received", "discarded")


@pytest.fixture(scope="module")
def wan():
    """Two tasks, to which all sites send early."""
    wan = Wan(mesh(FOUR), "crew", bsp(FOUR), tasks=2, early=True)
    wan.run()
    assert wan.verdict().outcome == "pass"
    return wan


def forget(wan, site, task):
    """The log of a site that logged nothing of a task."""
    of_task = [*(f"task_{word}" for word in ALONE), *ALONE]
    return [
        event
        for event in wan.events
        if not (event["site"] == site and event.get("task") == task and event["event"] in of_task)
    ]


def find_rules(check, wan, events):
    """The outcomes of a check, and the rules of its excuses."""
    found = list(check(wan.history(events), wan.rules()))
    return {each.rule or each.outcome for each in found}


@pytest.mark.parametrize(
    "check", [result_checks.results_are_sums, result_checks.contributions_count_once]
)
@pytest.mark.parametrize("killed", [False, True])
def test_a_contribution_is_unlogged_only_if_its_site_was_killed(wan, check, killed):
    events = forget(wan, "s2", 1)
    started_ns = next(e["t_ns"] for e in wan.of("task_started") if e["task"] == 1)
    if killed:
        change = {"site": "runner", "event": "agent_changed", "who": "s2", "fault": 0}
        events += [{**change, "t_ns": started_ns + 1, "do": "kill"}]
    assert any(e["event"] == "received" and e["src"] == "s2" for e in events if e.get("task") == 1)
    rules = find_rules(check, wan, events)
    assert (result_checks.UNLOGGED in rules) == killed
    assert ("fail" in rules) != killed


@pytest.mark.parametrize(
    ("chunks", "later", "away", "excused"),
    [(1, 1, True, True), (1, -1, True, False), (2, 1, True, False), (1, 1, False, False)],
)
def test_one_chunk_may_arrive_after_the_task_if_the_receiver_has_no_controller(
    wan, chunks, later, away, excused
):
    of_task = [event for event in wan.of("sent") if event["task"] == 0]
    report = next(event for event in of_task if event["phase"] == "out")
    told_ns = min(event["t_ns"] for event in of_task if event["site"] == report["site"])
    pair = {"src": report["site"], "site": report["dst"], "phase": "out", "task": 0}
    events = []
    for event in wan.events:
        if event["event"] == "received" and pair.items() <= event.items():
            end_ns = told_ns + later
            times = {"start_ns": end_ns, "end_ns": end_ns, "t_ns": max(event["t_ns"], end_ns)}
            event = {**event, **times, "chunks": chunks, "bytes": chunks * CHUNK_BYTES}
        events += [event] * (event is not report)
    if away:
        lost = {"event": "controller_lost", "site": report["dst"], "reason": "silent"}
        events.append({**lost, "t_ns": told_ns - 1})
    rules = find_rules(timing_checks.payload_takes_time, wan, events)
    assert (timing_checks.AMID_A_CHUNK in rules) == excused
    assert ("fail" in rules) != excused


@pytest.mark.parametrize(
    ("chunks", "later", "alone", "excused"),
    [
        (1, 1, "site", True),
        (1, 1, "dst", True),
        (1, 1, "controller", True),
        (1, -1, "site", False),
        (1, -1, "dst", False),
        (2, 1, "site", False),
        (2, 1, "dst", False),
        (1, 1, None, False),
    ],
)
def test_a_site_that_leaves_its_task_amid_its_first_chunk_has_nothing_to_report(
    wan, chunks, later, alone, excused
):
    """The sender has no controller and gives up, or no controller reaches the receiver."""
    of_task = [event for event in wan.of("sent") if event["task"] == 0]
    report = next(event for event in of_task if event["phase"] == "out")
    ended_ns = next(e["t_ns"] for e in wan.of("task_finished") if e["site"] == report["site"])
    pair = {"src": report["site"], "site": report["dst"], "phase": "out", "task": 0}
    events = []
    for event in wan.events:
        is_report = event["event"] in ("sent", "received") and event["task"] == 0
        is_chunk = event["event"] == "received" and pair.items() <= event.items()
        if is_report and not is_chunk and report["site"] in (event["site"], event.get("src")):
            continue
        if is_chunk:
            end_ns = ended_ns + later
            times = {"start_ns": end_ns, "end_ns": end_ns, "t_ns": max(event["t_ns"], end_ns)}
            event = {**event, **times, "chunks": chunks, "bytes": chunks * CHUNK_BYTES}
        events.append(event)
    given_up = {"site": report["site"], "task": 0, "event": "task_dropped", "t_ns": ended_ns}
    events.append({**given_up, "cause": asdict(LostAlone("s2")), "digest": ""})
    if alone == "controller":
        lost = {"event": "worker_lost", "site": alone, "worker": report["dst"], "reason": "silent"}
    elif alone:
        lost = {"event": "controller_lost", "site": report[alone], "reason": "silent"}
    if alone:
        events.append({**lost, "t_ns": ended_ns - 1})
    rules = find_rules(timing_checks.payload_takes_time, wan, events)
    assert (timing_checks.AMID_A_CHUNK in rules) == excused
    assert ("fail" in rules) != excused


@pytest.mark.parametrize(
    ("found_after_s", "killed_after_s", "excused"),
    [
        (1.0, 1.5 + 2 * FAILOVER.timeout_s, True),
        (1.0, 1.0 + FAILOVER.patience_s + FAILOVER.timeout_s + 0.5, False),
        (None, 0.1, True),
        (None, 2 * FAILOVER.timeout_s + 0.5, False),
    ],
)
def test_a_site_reports_a_task_when_a_controller_that_it_found_again_may_have_settled(
    wan, found_after_s, killed_after_s, excused
):
    """One is killed so long after the last task of the run has ended; the run's end is far."""
    ended_ns = wan.of("task_completed")[-1]["t_ns"]
    events = [
        event
        for event in wan.events
        if event["t_ns"] <= ended_ns
        and not (event["site"] == "s2" and event["event"] in ("sent", "received"))
    ]

    def at_ns(after_s):
        return ended_ns + round(after_s * 1e9)

    if found_after_s is not None:
        lost = {"event": "controller_lost", "site": "s2", "reason": "silent", "t_ns": ended_ns - 1}
        found = {"event": "controller_found", "site": "s2", "controller": "backup"}
        events += [lost, {**found, "t_ns": at_ns(found_after_s)}]
    kill = {"event": "agent_changed", "site": "runner", "who": "s2", "do": "kill", "fault": 0}
    events.append({**kill, "t_ns": at_ns(killed_after_s)})
    history = wan.history(sorted(events, key=lambda event: event["t_ns"]))
    losses = Losses.of(history, wan.rules())
    found = losses.before_report(history.tasks[-1], "s2")
    assert (found is not None) == excused
