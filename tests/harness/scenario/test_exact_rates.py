"""Plans that know all rates exactly know those that the timeline has set, and no later ones."""

import json

import pytest

from trunkline.agents.events.round_events import ComputeStarted
from trunkline.agents.events.task_events import TaskStarted
from trunkline.harness.runs import runner
from trunkline.harness.scenario.exact_rates import ExactRates
from trunkline.harness.scenario.loading import ScenarioErrors, load, parse

TEXT = """
topology: {builder: full_mesh, sites: 3, rates: 50 Mbit/s}
workload: {kind: synthetic, model: 8 MB}
scheme: {policy: bsp, plan: fapt, rates: exact}
timeline:
- {at: 2 s, do: setlink n1 n2 one-way rate=10Mbit/s for 3 s}
stop: {rounds: 1}
"""


def read(text=TEXT):
    return parse(text, "exact.yaml")


def test_rates_are_those_of_the_timeline_which_begins_with_the_first_task():
    now_s, passed_on = 0.0, []
    exact = ExactRates(read(), lambda: round(now_s * 1e9))
    log = exact.watch(lambda kind, *_, **fields: passed_on.append((kind, fields)))
    log(ComputeStarted, iteration=0)
    known = {}
    for now_s in (1.0, 4.0, 5.999, 6.0, 8.999, 9.0):
        if now_s == 4.0:
            log(TaskStarted, task=0)
        if now_s == 6.0:
            log(TaskStarted, task=1)
        rates = exact.latest_mbps()
        assert len(rates) == 6
        assert {rate for link, rate in rates.items() if link != ("n1", "n2")} == {50.0}
        known[now_s] = rates["n1", "n2"]
    assert known == {1.0: 50.0, 4.0: 50.0, 5.999: 50.0, 6.0: 10.0, 8.999: 10.0, 9.0: 50.0}
    assert [kind for kind, _ in passed_on] == [ComputeStarted, TaskStarted, TaskStarted]
    assert passed_on[-1][1] == {"task": 1}


def test_an_edge_over_routers_has_the_rate_of_its_slowest_link():
    access = "sites: 3, access: [{sites: [n1], up: 20 Mbit/s, down: 30 Mbit/s, delay: 1 ms}]"
    text = TEXT.replace("sites: 3", access).replace("n1 n2 one-way", "n1 n1-gw one-way")
    exact = ExactRates(read(text), lambda: 0)
    rates = exact.latest_mbps()
    assert rates["n1", "n2"] == 20.0
    assert rates["n2", "n1"] == 30.0
    assert rates["n2", "n3"] == 50.0


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (TEXT.replace("exact}", "exact, rate_error: 10 %}"), "expected 0 % with rates: exact"),
        (TEXT + "failover: {backup: n2}\n", "scheme.rates: exact: only without failover.backup"),
    ],
)
def test_what_would_make_rates_unknown_is_refused(text, refusal):
    with pytest.raises(ScenarioErrors, match=refusal):
        read(text)


def test_plans_of_a_run_know_at_each_update_what_the_timeline_has_set(embedded, tmp_path):
    source = tmp_path / "exact.yaml"
    timeline = "- {at: 700 ms, do: redraw rate=20..50Mbit/s every 1 s}"
    source.write_text(
        "topology: {builder: full_mesh, sites: 3, rates: 50 Mbit/s}\n"
        "workload: {kind: synthetic, model: 1 MB, compute: 100 ms}\n"
        "scheme: {policy: bsp, plan: fapt, rates: exact, update: 500 ms}\n"
        f"timeline:\n{timeline}\n"
        "stop: {time: 3 s}\noutputs: {plots: false}\n"
    )
    done = runner.run(load(source), source, tmp_path / "runs", lambda progress: None)
    assert done.verdict.outcome == "pass", done.verdict
    rates, known = {}, []
    for line in (done.run_dir / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "stopping":  # all faults end, and plans are no longer made
            break
        if event["event"] == "link_changed":
            rates[event["src"], event["dst"]] = event["rate_mbps"]
        if event["event"] == "plans_updated":
            known.append({(src, dst): rate for src, dst, rate in event["links"]})
            assert known[-1] == (rates or dict.fromkeys(known[-1], 50.0))
    assert len({tuple(each.values()) for each in known}) >= 3
