"""What a run lost and to what: its sentences, and the same as values."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
from finished_runs import make_agents_run

from trunkline.agents.events.fault_events import FaultStarted
from trunkline.harness.fluid.fluid_run import predict_events
from trunkline.harness.live import progress
from trunkline.harness.record.history import History
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.costs import task_losses
from trunkline.harness.report.explanations.costs.run_summary import (
    describe_run,
    summarize_run,
    to_json,
)
from trunkline.harness.report.explanations.costs.site_times import (
    Limit,
    Needs,
    SiteTimes,
    Slowest,
    Straggler,
    compare_computing_s,
)
from trunkline.harness.report.explanations.explained_tasks import explain_latest
from trunkline.harness.report.explanations.stretches import Turns
from trunkline.harness.report.explanations.time_parts import Part
from trunkline.harness.report.pages.run_page import write_page
from trunkline.harness.report.parts import report_parts
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.loading import parse

SCENARIO = """
topology:
  builder: full_mesh
  sites: [hub, north, south]
  rates: 20 Mbit/s
  delays: 10 ms
  overrides:
    - {link: hub <-> south, rate: 5 Mbit/s}
    - {link: north <-> south, rate: 4 Mbit/s}
workload: {kind: synthetic, model: 1 MB, compute: 0.5 s}
scheme: {policy: bsp, plan: ps}
stop: {tasks: 3}
"""

PS_BSP = "scheme={policy: ps, plan: ps, mode: bsp, servers: [hub]}"


def run_by_model(*changes: str) -> RunData:
    """A run by the fluid model."""
    scenario = parse(SCENARIO, "run.yaml", changes)
    history = History.of(predict_events(scenario))
    tables = report_parts.make_tables(scenario, history)
    return RunData(scenario, None, history, tables, {}, "", "")  # type: ignore[arg-type]


def find_needs(*changes: str) -> Needs:
    """The needs of tasks in a run by the fluid model."""
    found = Needs.of(run_by_model(*changes))
    assert found is not None
    return found


def test_the_link_that_needs_most_time_of_most_plans_is_named_with_its_rate() -> None:
    """The server is hub: south gets 1 MB at 5 Mbit/s, which takes 1.6 s, and sends as much."""
    found = find_needs()
    assert found.limit is not None
    assert (set(found.limit.link), found.limit.rate_mbps) == ({"hub", "south"}, 5.0)
    assert (found.limit.plans, found.plans, len(found.limit.alike)) == (3, 3, 1)
    assert found.second is None  # the way back, which is as slow, is alike
    assert 1.67 < found.bytes_s < 3.56
    assert found.propagation_s >= 0.02
    assert found.describe().endswith(
        "In all plans, hub -> south (5 Mbit/s) and 1 other link need most time for their bytes, "
        "1.673 s on average."
    )


def test_the_mean_of_all_tasks_says_that_it_has_the_warm_up() -> None:
    said = find_needs("warm_up={tasks: 1}").describe()
    assert " s on average of all tasks, the warm-up included; at the links' rates" in said
    assert " s on average; at the links' rates its bytes" in find_needs().describe()


def test_background_traffic_leaves_a_link_less() -> None:
    found = find_needs("background=[{src: north, dst: hub, rate: 18 Mbit/s}]")
    assert found.describe().endswith(
        "In all plans, north -> hub (20 Mbit/s, less background traffic) needs most time for its "
        "bytes, 4.182 s on average."
    )


def test_of_links_that_limit_as_many_plans_the_one_that_decides_more_seconds_is_first() -> None:
    """Pulls need 0.4 s on any of two links, pushes 4 s on one."""
    rates = "topology.overrides=[{link: south -> hub, rate: 2 Mbit/s}]"
    found = find_needs(PS_BSP, rates, "stop={tasks: 4}")
    assert found.describe().endswith(
        "In 2 of 4 plans, south -> hub (2 Mbit/s) needs most time for its bytes, 4.182 s on "
        "average; in 2, hub -> north (20 Mbit/s) and 1 other link need most, 0.418 s on average."
    )


def test_of_two_links_the_one_that_decides_most_seconds_is_told_first() -> None:
    first = Limit(("a", "b"), 10.0, 6, 0.5, frozenset())
    second = Limit(("b", "c"), 20.0, 9, 0.3, frozenset())
    assert (
        Needs(1.0, 0.5, 0.1, 25, first, second)
        .describe()
        .endswith(
            " In 6 of 25 plans, a -> b (10 Mbit/s) needs most time for its bytes, 0.500 s on "
            "average; in 9, b -> c (20 Mbit/s) needs most, 0.300 s on average."
        )
    )


def test_links_that_limit_about_as_many_plans_are_all_alike() -> None:
    """Pushes and pulls of two workers, one after the other, on four links of one rate."""
    even = "topology.overrides=[]", "stop={tasks: 8}"
    found = find_needs("scheme={name: r2sp, servers: [hub]}", *even)
    assert found.even == 4
    assert found.describe().endswith(
        " No link limits tasks more than others: in each of the 8 plans, one of 4 links needs most "
        "time for its bytes, 0.418 s on average."
    )
    assert not find_needs("scheme={name: r2sp, servers: [hub]}", "stop={tasks: 8}").even


def test_shares_of_time_say_whether_computing_took_more() -> None:
    assert SiteTimes(6.0, 2.0, 2.0, 4).describe() == (
        "Computing took more time than the network: on average, each of 4 sites was in tasks "
        "for 2.000 s (20 %), computed for 6.000 s (60 %), and waited for a group for 2.000 s "
        "(20 %)."
    )


def test_faults_that_decide_whether_the_network_took_more_are_told() -> None:
    """Without faults, a site was in tasks for 3 s and computed for 5 s."""
    times, without = SiteTimes(5.0, 2.0, 6.0, 4), SiteTimes(5.0, 0.5, 3.0, 4)
    said = times.describe(without=without)
    assert said.startswith("Because of faults, the network took more time than computing: on ")
    assert said.endswith(
        " (15 %). Without faults, a site was in tasks for 3.000 s, computed for 5.000 s, and "
        "waited for 0.500 s (measured)."
    )
    as_long = times.describe(without=replace(without, sync_s=5.5))
    assert as_long.startswith("The network took more time than computing: ")
    paused = SiteTimes(7.0, 2.0, 6.0, 4).describe(without=SiteTimes(5.0, 2.0, 6.0, 4))
    assert paused.startswith("Because of faults, computing took more time than the network: on ")


def test_a_server_that_does_no_rounds_is_in_no_mean() -> None:
    data = run_by_model(PS_BSP)
    times = SiteTimes.of(data.tables["workers"])
    assert times is not None
    assert times.sites == 2
    assert times.compute_s == pytest.approx(3 * 0.5, rel=0.4)
    assert ": on average, each of 2 sites was in tasks for " in times.describe()
    rows = [{"compute_s": "2", "wait_s": "1", "sync_s": "3"}] * 2
    assert progress._describe_workers([dict.fromkeys(rows[0], "0"), *rows]) == (
        "2 s computing, 1 s waiting for a group, 3 s in tasks, on average of 2 sites"
    )


def test_the_site_for_which_others_waited_is_named() -> None:
    """One site computes for three times as long as the others."""
    slow = "workload={kind: synthetic, model: 1 MB, compute: 0.5 s, slowdown: {south: 3}}"
    data = run_by_model(slow)
    straggler = Straggler.of(data.history)
    assert straggler == Straggler("south", 3, 3, "south", 3)
    times = SiteTimes.of(data.tables["workers"])
    assert times is not None
    assert times.describe(straggler=straggler).endswith(
        " %, mostly for south, the last to be ready in 3 of 3 tasks)."
    )
    waits_s = sum(data.tables["workers"]["wait_s"])
    assert Straggler.of(data.history, waits_s) == straggler
    assert Straggler.of(data.history, 2.1 * waits_s) is None  # most waits had other reasons
    assert replace(straggler, last=1, often="hub", often_last=2).describe() == (
        ", mostly for south, the last to be ready in 1 of 3 tasks; hub was the last in 2"
    )
    assert Straggler.of(History.of([])) is None


@pytest.mark.parametrize(
    ("after_ms", "told"), [((410, 420), False), ((410, 540), True), ((), False)]
)
def test_a_longer_time_between_turns_after_a_fault_is_told(monkeypatch, after_ms, told) -> None:
    data = run_by_model()
    ms = 10**6
    fault = FaultStarted(2000 * ms, "runner", 4, "pause", "pause south", ("south",))
    history = History.of(sorted([*data.history.events, fault], key=lambda event: event.t_ns))
    gaps = [(t_ms * ms, gap_ms * ms) for t_ms, gap_ms in ((500, 390), (900, 400), (1300, 410))]
    gaps += [((2000 + n) * ms, gap_ms * ms) for n, gap_ms in enumerate(after_ms)]
    monkeypatch.setattr(Turns, "gaps", gaps)
    found = explain_latest(data.scenario, history, data.tables["tasks"])
    _, said = describe_run(found, replace(data, history=history))
    gap = (
        "The time that the policy set between turns was 0.400 s before fault 4 (the median), and "
        "up to 0.540 s after it."
    )
    assert (gap in said) == told


def test_the_page_has_the_sentences_of_the_command(tmp_path) -> None:
    data = outputs.read(make_agents_run(tmp_path / "run"))
    found = explain_latest(data.scenario, data.history, data.tables["tasks"])
    said = [*summarize_run(found, data)]
    page = write_page(data).replace('<span class="whole">', "").replace("</span>", "")
    assert "Lost time" in page
    for each in said:
        assert each.replace("'", "&#x27;").replace(">", "&gt;") in page, each
    values = to_json(found, data)
    assert sum(values["causes_s"].values()) == pytest.approx(values["lost_s"])
    assert sum(values["shares"].values()) == pytest.approx(1)


def test_the_tasks_that_lost_most_are_told_first_if_a_fault_was_behind_a_part_of_that(
    tmp_path,
) -> None:
    """Also if that was a wait before a task only, else after the sentences on the network."""
    data = outputs.read(make_agents_run(tmp_path / "run"))
    calm, *others = explain_latest(data.scenario, data.history, data.tables["tasks"])
    assert not any(each.faults for each in (calm, *others))
    first, _, third, *_ = summarize_run([calm, *others], data)
    assert first.startswith("The network took more time than computing: ")
    assert third.startswith("Most time was lost by task ")
    assert calm.wait is not None
    late = replace(calm, wait=replace(calm.wait, fault=0, stretches=()))
    assert (late.taken_s, late.faults) == ({}, {0})
    assert [*summarize_run([late, *others], data)][:2] == [third, first]


def test_a_run_in_which_no_task_ended_has_its_faults_and_no_summary(tmp_path) -> None:
    data = outputs.read(make_agents_run(tmp_path / "run"))
    run, (fault,) = describe_run([], data)
    assert run == []
    assert fault.endswith(" It delayed no task, as far as the log tells.")


def test_tasks_overlap_only_if_one_begins_before_another_has_ended() -> None:
    """Rounds of all sites follow each other; pushes of two workers meet."""
    rounds, asynchronous = run_by_model(), run_by_model(PS_BSP.replace("bsp", "asp"))
    assert not task_losses._has_overlap(rounds.history)
    assert task_losses._has_overlap(asynchronous.history)


def test_a_slow_site_for_which_no_task_waited_is_told_with_its_times() -> None:
    """Workers of a server wait for it between a push and a pull."""

    def find(compute_s: float, wait_s: float) -> Slowest | None:
        others = {"compute_s": [5.0, 5.5], "wait_s": [8.0, 10.0]}
        rows = {"site": ["a", "b", "sydney"]}
        rows |= {
            name: [*s, own]
            for (name, s), own in zip(others.items(), (compute_s, wait_s), strict=True)
        }
        return Slowest.of(pd.DataFrame(rows))

    assert find(7.0, 0.2) is None
    assert find(17.6, 5.0) is None
    slowest = find(17.6, 0.2)
    said = SiteTimes(6.0, 6.0, 8.0, 3, slowest).describe()
    assert said.endswith(" s (30 %, but sydney only 0.200 s: it computed for 17.600 s).")
    assert SiteTimes(6.0, 0.5, 8.0, 3, slowest).describe().endswith(" for 0.500 s (3 %).")


def test_computing_of_a_site_is_compared_with_the_median_other_one() -> None:
    columns = {"site": ["a", "b", "c"], "rounds": [4, 2, 2], "compute_s": [1.0, 1.0, 1.2]}
    workers = pd.DataFrame({**columns, "wait_s": 0.0, "sync_s": 0.0})
    assert compare_computing_s(workers, "a") == pytest.approx((0.25, 0.55))
    assert compare_computing_s(workers, "c") == pytest.approx((0.6, 0.375))
    assert compare_computing_s(workers, "server") == pytest.approx((math.nan, 0.5), nan_ok=True)
    straggler = Straggler("c", 1, 2, "c", 1)
    assert straggler.describe_computing() == ""
    slow = replace(straggler, round_s=0.6, usual_s=0.375)
    assert slow.describe_computing() == (
        " In a round, c computes for 0.600 s on average, the median other site for 0.375 s."
    )
    alike = replace(straggler, round_s=0.6, usual_s=0.55)
    assert alike.describe_computing() == " c does not compute longer than the others."


def test_the_link_on_which_most_time_of_a_cause_was_lost_is_named(tmp_path) -> None:
    data = outputs.read(make_agents_run(tmp_path / "run"))
    each = explain_latest(data.scenario, data.history, data.tables["tasks"])
    found = next(one for one in each if not one.is_abandoned)

    def describe(*parts: Part) -> str:
        slow = replace(found, parts=parts, lost_s=1.0, wait=None, failures=())
        return next(task_losses.describe_losses([slow], data.history))

    near, far = Part("loss", 0.4, "a -> b"), Part("loss", 0.2, "b -> a")
    assert " Of the time lost to lost packets, 0.400 s were on a -> b. " in describe(near, far)
    assert " All time lost to lost packets was on a -> b. " in describe(near)
    assert "were on" not in describe(*(replace(near, where=f"a -> {n}") for n in "bcde"))
    assert "was on" not in describe(replace(near, fault=0), replace(far, seconds=0.05))
    cold = Part("cold start", 0.5, "b -> a")
    assert " All time lost to cold connections was on b -> a. " in describe(cold)
