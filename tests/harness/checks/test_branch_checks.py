"""A verdict on branches: a run in memory passes, and every falsification of it is noticed."""

import json
from dataclasses import replace

import pytest
import wan as fabric
from falsified import FALSIFICATIONS, apply
from wan import Wan, mesh

from trunkline.agents.policies import ps
from trunkline.harness.checks.computing import branch_checks
from trunkline.harness.checks.computing.branch_checks import branches_follow
from trunkline.workloads.layered.model import Base, Branch, LayeredModel

SITES = ("n1", "n2", "n3")
MODEL = LayeredModel(
    (
        Base("stem", (Branch("only", 8000, 0.05, 0.1),)),
        Base("mixed", (Branch("left", 4000, 0.03, 0.06), Branch("right", 12000, 0.08, 0.16))),
    )
)
OF_BRANCHES = [
    name
    for name in FALSIFICATIONS
    if "branch" in name or name == "parameters_were_here_that_a_task_brought"
]


@pytest.fixture(scope="module")
def wan():
    found = Wan(
        mesh(SITES),
        "ps",
        ps.create(SITES[1:], servers=SITES[:1]),
        servers=SITES[:1],
        layers=MODEL,
        rounds=4,
    )
    found.run()
    return found


def judge(wan, events):
    return list(branches_follow(wan.history(events), wan.rules()))


def test_every_branch_of_a_good_run_is_judged(wan):
    found = judge(wan, wan.events)
    assert "fail" not in {each.outcome for each in found}
    assert sum(each.objects for each in found) == 2 * 4 * 3


@pytest.mark.parametrize("name", OF_BRANCHES)
def test_a_falsified_branch_is_noticed(wan, name):
    falsified = apply(name, json.loads(json.dumps(wan.events)))
    assert [each for each in judge(wan, falsified) if each.outcome == "fail"], name


@pytest.mark.parametrize(("early_ns", "outcomes"), [(0, set()), (1_000_000, {"fail"})])
def test_the_last_branch_comes_with_the_last_byte_however_slow_the_transfer(
    wan, early_ns, outcomes
):
    log = json.loads(json.dumps(wan.events))
    last = max((e for e in log if e["event"] == "branch_arrived"), key=lambda e: e["t_ns"])
    last["t_ns"] -= early_ns
    for line in log:
        if line["event"] == "received" and line["task"] == last["task"]:
            line["start_ns"] -= 1_000_000_000
    found = branch_checks._judge_bytes(wan.history(log), wan.rules())
    assert {each.outcome for each in found} == outcomes


def test_there_are_falsifications():
    assert len(OF_BRANCHES) >= 17


def test_the_first_chunk_of_a_payload_counts_however_large_it_is(monkeypatch):
    """A payload starts in the log when all of its first chunk has arrived."""
    monkeypatch.setattr(fabric, "CHUNK_BYTES", 16_384)
    large = LayeredModel((Base("stem", (Branch("only", 12_000, 0.05, 0.1),)), *MODEL.bases[1:]))
    policy = ps.create(SITES[1:], servers=SITES[:1])
    found = Wan(mesh(SITES), "ps", policy, servers=SITES[:1], layers=large, rounds=2)
    found.run()
    rules = found.rules()
    links = tuple(replace(link, rate_mbps=1.0) for link in rules.topology.links)
    scenario = replace(rules.scenario, topology=replace(rules.topology, links=links))
    slow = replace(rules, scenario=scenario)
    outcomes = branches_follow(found.history(found.events), slow)
    assert "fail" not in {each.outcome for each in outcomes}
