"""The causes of a task's time, from a log that was written down by hand."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from three_sites import TOPOLOGY, Change, added, altered, history

from trunkline.agents.events.causes import SiteLost
from trunkline.harness.background.flows import Background, Flow
from trunkline.harness.report.explanations.costs.run_summary import list_lost
from trunkline.harness.report.explanations.critical_path import PathStep
from trunkline.harness.report.explanations.explanation import Explanation, explain
from trunkline.harness.report.explanations.links.link_loads import Shared
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.time_parts import Part
from trunkline.harness.report.explanations.told.explanation_text import (
    describe_part,
    summarize,
)
from trunkline.topologies.links import Link, LinkOverride
from trunkline.topologies.model import Topology

FAST = replace(
    TOPOLOGY, links=tuple(replace(link, rate_mbps=10 * link.rate_mbps) for link in TOPOLOGY.links)
)
"""Links that are faster than the payload was, which connections that are cold explain."""

NEAR = replace(FAST, links=tuple(replace(link, delay_ms=0.1) for link in FAST.links))
"""Links of a short delay, on which connections are warm at once."""


def list_parts(topology: Topology, *changes: Change) -> list[Part]:
    """Where the time of the first task went, the longest part first."""
    found = history(*changes)
    return [*explain(Run(found, topology, 1500, "oslo"), found.tasks[0], 0.1, None).parts]


def cut(start_ms: int, end_ms: int, src: str, dst: str) -> list[Change]:
    """A link of `FAST` is cut by fault 7."""
    values = {"rate_mbps": 80.0, "delay_ms": 10.0, "jitter_ms": 0.0, "loss_percent": 0.0}
    ends = {"src": src, "dst": dst, **values}
    said = {"verb": "outage", "text": "outage", "targets": [f"{src} -> {dst}"]}
    return [
        added(start_ms, "runner", "fault_started", fault=7, **said),
        added(start_ms, "runner", "link_changed", **ends, cuts=["blackhole"]),
        added(end_ms, "runner", "link_changed", **ends, cuts=[]),
        added(end_ms, "runner", "fault_ended", fault=7),
    ]


def list_cold(*changes: Change) -> list[Part]:
    """The parts of the first task's time that are due to cold connections, in order of time."""
    parts = list_parts(FAST, *changes)
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


@pytest.mark.parametrize(("peer", "fault"), [("oslo", 7), ("kyiv", None)])
def test_a_connection_is_cold_by_a_cut_of_its_way_if_it_had_carried_as_much_before(
    peer: str, fault: int | None
) -> None:
    """Between tasks, the cut breaks the connections of rome, which a router joins to the others.

    Task 0 had used that from rome to oslo, and none had used that to kyiv.
    """
    ends = [(site, "hub") for site in ("oslo", "rome", "kyiv")]
    links = tuple(Link(a, b, 80.0, 5.0) for end in ends for a, b in (end, end[::-1]))
    joined = replace(TOPOLOGY, links=links, routers=("hub",), pairs=())
    said = {"verb": "outage", "text": "outage hub rome", "targets": ["hub -> rome", "rome -> hub"]}
    log = history(
        added(1482, "runner", "fault_started", fault=7, **said),
        added(1485, "rome", "link_lost", peer=peer, reason="nothing was received for 1 s"),
        added(1490, "runner", "fault_ended", fault=7),
        added(1495, "rome", "link_found", peer=peer),
    )
    run = Run(log, joined, 1500, "oslo", timeout_ns=50 * 10**6)
    step = PathStep("transfer", 1_520_000_000, 1_980_000_000, peer, "rome", 500_000)
    cold = [part for part in run.divide(log.tasks[1], step) if part.cause == "cold start"]
    assert [(part.where, part.fault) for part in cold] == [(f"rome -> {peer}", fault)]


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
        Part("longer plan", 1.0, "oslo -> rome", 3, text="after the repair"),
        Part("outage", 0.5, "oslo -> rome", 4),
        Part("rate", 1.0, "oslo -> rome"),
    )
    task = history().tasks[0]
    lost_s = 6.0 - expected_s
    return Explanation(task, 6.0, expected_s, (), parts, parts[0], None, lost_s=lost_s)


def test_the_main_cause_has_all_the_time_that_its_fault_took() -> None:
    slow = explain_parts(1.0)
    assert slow.main_s == pytest.approx(3.0)
    said = summarize(slow, history())
    assert said.partition("expected (1.000 s). ")[2] == (
        "Fault 3 took 3.000 s: 2.000 s, as the task was rearranged; 1.000 s, as the plan after the "
        "repair takes longer, over oslo -> rome. Queues, and TCP's control of its rate, "
        "took 1.500 s on oslo -> rome. Fault 4 took 0.500 s: oslo -> rome was cut."
    )
    assert slow.late_s == pytest.approx(3.0 + 1.5 + 0.5 + slow.own_s)


def test_sizes_have_decimal_units_also_if_binary_ones_were_shorter() -> None:
    part = Part("rate", 1.0, "oslo -> rome", bytes=225 * 1024, text="8 Mbit/s")
    said = "oslo -> rome carried 230.4 kB of this task at its rate, 8 Mbit/s"
    assert describe_part(part, history()) == said


def test_the_time_that_tasks_lost_is_not_below_nothing() -> None:
    found = [replace(explain_parts(5.0), lost_s=lost_s) for lost_s in (1.25, -0.5)]
    number = found[0].task.number
    said = f"Most time was lost by task {number} (1.250 s), task {number} (0.000 s)."
    assert list_lost(found) == said


def test_most_of_a_task_that_was_not_slow_is_what_a_fault_took_of_it_or_one_part() -> None:
    usual = replace(explain_parts(5.0), lost_s=1.0)
    assert usual.main_s == pytest.approx(3.0) and usual.is_disturbed and not usual.is_slow
    said = summarize(usual, history())
    assert "Fault 3 took 3.000 s: 2.000 s, as the task was rearranged; 1.000 s, as the " in said
    assert said.endswith("Its own bytes, with propagation, took 4.000 s less than expected.")
    assert usual.taken_s == {3: pytest.approx(3.0), 4: pytest.approx(0.5)}
    parts = tuple(replace(part, fault=None) for part in usual.parts)
    calm = replace(usual, parts=parts, main=parts[0])
    assert calm.main_s == pytest.approx(2.0) and not calm.is_disturbed
    assert "A repair took 2.000 s: the task was rearranged." in summarize(calm, history())
    on_time = replace(calm, expected_s=5.9)
    assert "Its longest part took 2.000 s: the task was re" in summarize(on_time, history())


def test_contributions_and_results_on_a_link_and_transfers_in_turn_explain_own_bytes() -> None:
    parts = (Part("rate", 5.0, "oslo -> rome"), Part("other tasks", 1.0, "oslo -> rome", text="3"))
    steps = (
        PathStep("transfer", 0, 2 * 10**9, "rome", "oslo"),
        PathStep("transfer", 2 * 10**9, 6 * 10**9, "oslo", "rome"),
    )
    shared = (Shared("oslo -> rome", 2e6, 3e6, 0.8),)
    task = history().tasks[0]
    found = Explanation(task, 6.0, 3.0, steps, parts, parts[0], None, shared=shared)
    assert summarize(found, history()).partition("(3.000 s). ")[2] == (
        "Other tasks on the same links took 1.000 s: oslo -> rome carried 0 B of task 3. Its own "
        "bytes, with propagation, took 2.000 s longer than expected, because transfers followed "
        "each other that overlap in the estimate: oslo -> rome for 2.000 s, rome -> oslo for "
        "4.000 s. On oslo -> rome, 2 MB of contributions and 3 MB of results shared the link, "
        "which needs 0.800 s for the smaller part."
    )


@pytest.mark.parametrize(
    ("hop", "start_ms", "end_ms", "said"),
    [
        (("rome", "oslo"), 4, 205, "until 0.205 s, which left TCP a small window"),
        (("oslo", "rome"), 4, 205, "until 0.205 s, which held up acknowledgements and left TCP a "),
        (("rome", "oslo"), 600, 900, ", which held up acknowledgements"),
    ],
)
def test_a_cut_before_a_step_or_of_its_way_back_takes_what_nothing_else_explains(
    hop: tuple[str, str], start_ms: int, end_ms: int, said: str
) -> None:
    """After the early cuts the longer step is from rome to oslo, otherwise from oslo to rome."""
    parts = list_parts(FAST, *cut(start_ms, end_ms, *hop))
    part = max((each for each in parts if each.fault == 7), key=lambda each: each.seconds)
    assert (part.cause, part.where, part.seconds > 0.7) == ("outage", " -> ".join(hop), True)
    assert said in describe_part(part, history())


def test_a_long_rest_of_a_run_with_faults_has_no_fault_that_explains_it() -> None:
    usual = list_parts(NEAR)[0]
    assert (usual.cause, usual.where) == ("queueing", "oslo -> rome")
    main = list_parts(NEAR, *cut(1400, 1450, "kyiv", "rome"))[0]
    guess = "perhaps queues, or a wait that the log does not show; no fault explains it"
    assert main == replace(usual, cause="unexplained", text=guess)
    assert describe_part(main, history()) == f"the rest on oslo -> rome: {guess}"


def test_a_long_rest_on_a_link_that_loses_packets_may_be_a_lost_packet() -> None:
    """Also without faults; in this step, half a packet would be too many to expect."""
    lossy = NEAR.with_overrides([LinkOverride("oslo -> rome", loss_percent=0.001)])
    main = list_parts(lossy)[0]
    assert (main.cause, main.where, main.fault) == ("unexplained", "oslo -> rome", None)
    assert main.text == "perhaps a lost packet: oslo -> rome loses 0.001 %"
    back = NEAR.with_overrides([LinkOverride("rome -> oslo", loss_percent=0.001)])
    assert list_parts(back)[0].cause == "queueing"


def test_a_long_rest_names_a_fault_that_acted_between_members_meanwhile() -> None:
    """It is one that does not explain it: it took a little of the rate of the way back."""
    ends = {"src": "rome", "dst": "oslo", "rate_mbps": 79.0, "delay_ms": 0.1, "jitter_ms": 0.0}
    said = {"verb": "setlink", "text": "setlink rome oslo", "targets": ["rome -> oslo"]}
    changes = (
        added(700, "runner", "fault_started", fault=7, **said),
        added(700, "runner", "link_changed", **ends, loss_percent=0.0, cuts=[]),
    )
    main, said_of = list_parts(NEAR, *changes)[0], "acted among its members: setlink rome oslo"
    guess = f"perhaps queues, or a wait that the log does not show; meanwhile fault 7 {said_of}"
    assert (main.cause, main.text) == ("unexplained", guess)
    assert main.fault is None
    found = history(*changes)
    explained = explain(Run(found, NEAR, 1500, "oslo"), found.tasks[0], 0.1, None)
    assert f" on oslo -> rome ({guess})" in summarize(explained, found)


def test_a_loss_lasts_until_it_ends_and_not_until_the_rate_changes() -> None:
    """Fault 7 begins at 0.3 s, and at 0.5 s another fault changes the rate."""
    ends = {"src": "oslo", "dst": "rome", "delay_ms": 10.0, "jitter_ms": 0.0, "cuts": []}
    said = {"verb": "setlink", "text": "setlink", "targets": ["oslo -> rome"]}
    changes = [
        added(t_ms, "runner", "link_changed", **ends, rate_mbps=rate, loss_percent=lost)
        for t_ms, rate, lost in ((300, 80.0, 9.0), (500, 79.0, 9.0), (600, 79.0, 0.0))
    ]
    fault = added(300, "runner", "fault_started", fault=7, **said)
    parts = list_parts(FAST, fault, *changes)
    (loss,) = (part for part in parts if part.cause == "loss")
    assert (loss.fault, loss.text) == (7, "lost 9 % until 0.600 s, and lost packets delayed TCP")


ANEW = "halted and planned anew"


@pytest.mark.parametrize(
    ("verb", "timeout_ms", "how"),
    [
        (
            "pause",
            800,
            ANEW + " (0.800 s of this were the wait for failover.timeout)",
        ),
        ("pause", 2000, ANEW + " (1.000 s of this were the wait for failover.timeout)"),
        ("kill", 800, ANEW),
    ],
)
def test_a_repair_says_how_much_of_it_agents_waited_for_a_silent_site(
    verb: str, timeout_ms: int, how: str
) -> None:
    """The silence may begin before the task. Connections of a site that is killed break at once."""
    said = {"fault": 7, "verb": verb, "text": verb, "targets": ["rome"]}
    fault = added(200, "runner", "fault_started", **said)
    lost = added(1210, "controller", "worker_lost", worker="rome", reason="")
    log = history(fault, lost, halted(1215))
    run = Run(log, FAST, 1500, "oslo", timeout_ns=timeout_ms * 1_000_000)
    step = PathStep("repair", 210_000_000, 1_220_000_000, "rome")
    (part,) = run.divide(log.tasks[0], step)
    assert (part.fault, part.text) == (7, f"was {how}: rome is lost")


def list_lossy(percent: float) -> list[Part]:
    """The parts of the first task's time if the links of `FAST` lose so many packets."""
    links = (replace(link, loss_percent=percent) for link in FAST.links)
    return list_parts(replace(FAST, links=tuple(links)))


@pytest.mark.parametrize(("percent", "main"), [(0.01, "cold start"), (9.0, "loss")])
def test_a_cold_connection_is_slow_because_of_losses_only_if_there_were_any(
    percent: float, main: str
) -> None:
    """Of the 690 packets on each link, 0.07 or 62 are lost on average."""
    parts = list_lossy(percent)
    assert parts[0].cause == main
    assert {"cold start": False, "loss": True}[main] == any(each.cause == "loss" for each in parts)


def told(resent: int) -> Change:
    """Senders say that TCP sent so many packets again on each connection in the first task."""
    return altered("sent", {"resent": resent}, task=0)


@pytest.mark.parametrize(
    ("percent", "resent", "causes"),
    [
        (9.0, 0, {"cold start"}),
        (9.0, 62, {"loss"}),
        (0.01, 1, {"cold start", "loss"}),
        (0.01, 4, {"cold start"}),  # so many were not lost, but dropped by a queue
    ],
)
def test_packets_were_lost_if_tcp_sent_about_as_many_again(
    percent: float, resent: int, causes: set[str]
) -> None:
    """A connection that lost packets was cold no longer than a slow start takes."""
    links = (replace(link, loss_percent=percent) for link in FAST.links)
    parts = list_parts(replace(FAST, links=tuple(links)), told(resent))
    assert {part.cause for part in parts} & {"cold start", "loss", "unexplained"} == causes
    if "loss" in causes:
        cold_s = sum(part.seconds for part in parts if part.cause == "cold start")
        assert cold_s < 2 * 4 * 0.02


def test_the_usual_losses_of_a_link_are_no_faults() -> None:
    """Fault 7 makes the link lose 1 % for 10 ms; then it loses 0.01 % again."""
    ends = {"src": "oslo", "dst": "rome", "rate_mbps": 80.0, "delay_ms": 10.0, "jitter_ms": 0.0}
    said = {"verb": "setlink", "text": "setlink", "targets": ["oslo -> rome"]}
    changes = [
        added(100, "runner", "fault_started", fault=7, **said),
        added(100, "runner", "link_changed", **ends, loss_percent=1.0, cuts=[]),
        added(110, "runner", "link_changed", **ends, loss_percent=0.01, cuts=[]),
        added(110, "runner", "fault_ended", fault=7),
    ]
    links = (replace(link, loss_percent=0.01) for link in FAST.links)
    parts = list_parts(replace(FAST, links=tuple(links)), told(1), *changes)
    assert {part.fault for part in parts if part.cause == "loss"} == {None}


def test_a_short_stop_takes_at_most_its_own_length_again() -> None:
    """Rome is paused for 30 ms in a step that takes 0.8 s longer than its bytes need."""
    said = {"verb": "pause", "text": "pause rome", "targets": ["rome"]}
    pause = [
        added(700, "runner", "fault_started", fault=7, **said),
        added(700, "runner", "agent_changed", who="rome", do="pause", fault=7),
        added(730, "runner", "agent_changed", who="rome", do="resume", fault=7),
        added(730, "runner", "fault_ended", fault=7),
    ]
    parts = list_parts(FAST, *pause)
    assert sum(part.seconds for part in parts if part.fault == 7) == pytest.approx(0.06)


def test_losses_take_no_more_than_tcp_needs_because_of_them() -> None:
    """0.2 % leaves TCP 15.1 of 80 Mbit/s, and 8 Mbit need 0.43 s more because of it."""
    parts = list_lossy(0.2)
    losses = {part.where: part.seconds for part in parts if part.cause == "loss"}
    assert losses["rome -> oslo"] == pytest.approx(8 / 15.1 - 8 / 80, rel=0.01)
    assert parts[0].cause == "cold start"


@pytest.mark.parametrize(("delay_ms", "late_s"), [(10.3, 0.0003), (310.0, 0.39)])
def test_a_word_that_is_late_takes_no_more_than_that_unless_tcp_takes_it_for_lost(
    delay_ms: float, late_s: float
) -> None:
    ends = {"src": "oslo", "dst": "rome", "rate_mbps": 80.0, "jitter_ms": 0.0, "loss_percent": 0.0}
    change = added(150, "runner", "link_changed", **ends, delay_ms=delay_ms, cuts=[])
    run = Run(history(change), FAST, 1500, "oslo")
    step = PathStep("contribution", 210_000_000, 610_000_000, "rome")
    parts = [*run.divide(run.history.tasks[0], step)]
    assert sum(part.seconds for part in parts) == pytest.approx(0.4)
    late = sum(part.seconds for part in parts if part.cause == "delay")
    assert late == pytest.approx(late_s)
    (message,) = (part for part in parts if part.cause == "propagation")
    said = describe_part(message, run.history)
    assert said == "propagation over oslo -> rome by the controller's message"


def test_a_longer_delay_of_the_way_back_holds_up_acknowledgements() -> None:
    ends = {"src": "rome", "dst": "oslo", "rate_mbps": 80.0, "jitter_ms": 0.0, "loss_percent": 0.0}
    said = {"verb": "setlink", "text": "setlink rome oslo", "targets": ["rome -> oslo"]}
    log = history(
        added(100, "runner", "fault_started", fault=7, **said),
        added(100, "runner", "link_changed", **ends, delay_ms=310.0, cuts=[]),
    )
    run = Run(log, FAST, 1500, "oslo")
    step = PathStep("transfer", 210_000_000, 1_150_000_000, "rome", "oslo", 1_000_000)
    longest = max(run.divide(log.tasks[0], step), key=lambda part: part.seconds)
    assert (longest.cause, longest.where, longest.fault) == ("delay", "rome -> oslo", 7)
    assert "300 ms in place of 10 ms, which held up acknowledgements, and TCP takes " in (
        describe_part(longest, log).replace("310", "300")
    )


def test_a_message_of_the_controller_waits_behind_bytes_on_a_slowed_link() -> None:
    """oslo's first 0.25 MB to rome are on the link when rome contributes late."""
    ends = {"src": "oslo", "dst": "rome", "delay_ms": 10.0, "jitter_ms": 0.0, "loss_percent": 0.0}
    said = {"verb": "setlink", "text": "setlink", "targets": ["oslo -> rome"]}
    changes = (
        added(100, "runner", "fault_started", fault=7, **said),
        added(100, "runner", "link_changed", **ends, rate_mbps=2.0, cuts=[]),
    )
    log = history(*changes)
    run = Run(log, TOPOLOGY, 1500, "oslo")
    (first, *_) = (piece for piece in run.pieces if (piece.src, piece.dst) == ("oslo", "rome"))
    step = PathStep("contribution", first.start_ns, first.end_ns, "rome")
    parts = {part.cause: part for part in run.divide(log.tasks[0], step)}
    assert parts["slowdown"].fault == 7
    assert parts["slowdown"].seconds > step.duration_s / 2 > parts["contribution"].seconds
    free = history()
    parts = {
        part.cause: part for part in Run(free, TOPOLOGY, 1500, "kyiv").divide(free.tasks[0], step)
    }
    assert parts.keys() == {"propagation", "contribution"}


def test_a_slower_link_counts_also_if_another_link_of_the_way_was_busier() -> None:
    """The sites' links join at a router; a fault slows down the link to or from it."""
    rates = {"oslo": 8.0, "rome": 80.0, "kyiv": 80.0}
    links = [
        Link(*ends, rate, 5.0)
        for site, rate in rates.items()
        for ends in ((site, "hub"), ("hub", site))
    ]
    joined = replace(TOPOLOGY, links=tuple(links), routers=("hub",), pairs=())
    values = {"delay_ms": 5.0, "jitter_ms": 0.0, "loss_percent": 0.0, "cuts": []}
    said = {"verb": "setlink", "text": "setlink", "targets": ["rome -> hub", "hub -> rome"]}
    slowed = [
        added(t_ms, "runner", "link_changed", src=src, dst=dst, rate_mbps=rate, **values)
        for t_ms, rate in ((215, 1.0), (340, 80.0))
        for src, dst in (("rome", "hub"), ("hub", "rome"))
    ]
    fault = added(215, "runner", "fault_started", fault=7, **said)
    parts = list_parts(joined, fault, *slowed)

    (slow,) = (part for part in parts if part.cause == "slowdown")
    assert (slow.where, slow.fault) == ("hub -> rome", 7)


def test_a_summary_begins_with_the_group_and_the_times_of_the_task() -> None:
    found = explain_parts(5.0)
    started = found.task.started

    def begin(*group: str) -> str:
        task = replace(found.task, started=replace(started, group=group, t_ns=1_816_000_000))
        return summarize(replace(found, task=task), history()).partition(" took ")[0]

    assert begin("rome", "oslo") == "Task 0 (rome, oslo; 1.816 to 7.816 s)"
    assert begin(*"abcdef") == "Task 0 (a, b, c, d, e, f; 1.816 to 7.816 s)"
    assert begin(*"abcdefgh") == "Task 0 (a, b, c, d, e, 3 other sites; 1.816 to 7.816 s)"


def test_own_bytes_that_took_less_than_expected_have_a_reason() -> None:
    """The plan's slowest link is not on the critical path, or has a part of its bytes there."""
    log = history()

    def explain_with_slow(src: str, dst: str) -> Explanation:
        links = (
            replace(link, rate_mbps=4.0) if (link.src, link.dst) == (src, dst) else link
            for link in TOPOLOGY.links
        )
        run = Run(log, replace(TOPOLOGY, links=tuple(links)), 1500, "oslo")
        return explain(run, log.tasks[1], 1.0, None)

    found = explain_with_slow("kyiv", "oslo")
    which = ", the busiest link of the plan,"
    assert found.spared == f"kyiv -> oslo{which} is not on the critical path"
    late = replace(found, duration_s=1.5)
    less = f"Its own bytes, with propagation, took {-found.own_s:.3f} s less than expected"
    assert f" {less}: {found.spared}." in summarize(late, log)
    assert f" {less}." in summarize(replace(late, spared=""), log)
    part = explain_with_slow("oslo", "kyiv").spared
    assert part.startswith("only ") and part.endswith(
        f" of 500 kB on oslo -> kyiv{which} are on the critical path"
    )


@pytest.mark.parametrize(
    ("mbps", "stop_s", "cause"),
    [
        (4.0, None, "background traffic"),
        (4.0, 0.3, "background traffic"),
        (4.0, 1e-9, "background traffic"),
        (1.0, None, "queueing"),
    ],
)
def test_much_background_traffic_is_behind_queues_while_it_lasts_and_afterwards(
    mbps: float, stop_s: float | None, cause: str
) -> None:
    """The flow has a half or an eighth of oslo -> rome."""
    log = history()
    flow = Flow(0, "oslo", "rome", Background("oslo", "rome", mbps, stop_s=stop_s))
    run = Run(log, TOPOLOGY, 1500, "oslo", [flow])
    step = PathStep("transfer", 210_000_000, 2_150_000_000, "rome", "oslo", 100_000)
    (rest,) = (
        each
        for each in run.divide(log.tasks[0], step)
        if each.cause in ("queueing", "background traffic")
    )
    assert rest.cause == cause
