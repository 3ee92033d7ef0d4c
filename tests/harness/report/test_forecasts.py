"""Forecasts of plans that differ in names only are computed once, and are those of each plan."""

import random
from dataclasses import replace

import pytest

from trunkline.agents.control.planner import make_request
from trunkline.agents.events.task_events import TaskStarted
from trunkline.agents.planning.fluid.completion_times import estimate
from trunkline.harness.network.interface import payload_share
from trunkline.harness.report.tables import forecasts
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.loading import parse

GROUPS = 60
CHUNK_BYTES, MODEL_BYTES = 1024, 10_000
SIZES = MODEL_BYTES, CHUNK_BYTES
MESH = """
topology: {builder: full_mesh, sites: 12, rates: [10 Mbit/s, 20 Mbit/s], delays: 3 ms}
workload: {kind: synthetic, model: 10 kB, compute: 1 s}
scheme: {policy: bsp, plan: a2a, chunk: 1 KiB}
stop: {rounds: 1}
"""
ACCESS = """
topology:
  builder: star
  sites: 12
  rates: 20 Mbit/s
  delays: 5 ms
  access: [{sites: [n2, n3], up: 10 Mbit/s, down: 30 Mbit/s}]
workload: {kind: synthetic, model: 10 kB, compute: 1 s}
scheme: {policy: bsp, plan: star, chunk: 1 KiB}
stop: {rounds: 1}
"""


@pytest.mark.parametrize(("text", "most"), [(MESH, GROUPS), (ACCESS, 15)])
def test_each_plan_has_its_own_times_though_few_are_computed(text, most, monkeypatch):
    scenario = parse(text, "s.yaml", seed=1)
    settings = planning.controller_settings(scenario)
    computed = []

    def count(*arguments):
        computed.append(arguments)
        return estimate(*arguments)

    monkeypatch.setattr(forecasts, "estimate", count)
    forecast = forecasts.make_forecaster(scenario)
    share = payload_share(scenario.network.mtu)
    rates_mbps = {link: rate * share for link, rate in scenario.topology.rates_mbps().items()}
    rng, groups, found = random.Random(1), set(), set()
    while len(groups) < GROUPS:
        groups.add(tuple(sorted(rng.sample(settings.sites, rng.choice((2, 3))))))
    for group in sorted(groups):
        inside = {link: rate for link, rate in settings.rates_mbps.items() if "n1" in link}
        if "access" not in text:
            inside = {k: v for k, v in settings.rates_mbps.items() if {*k} <= {*group}}
        plan = _plan(scenario, settings, group, inside)
        started = TaskStarted(
            0, "controller", 0, "bsp", "p", group, dict.fromkeys(group, 1.0), 1.0,
            MODEL_BYTES, CHUNK_BYTES, plan.to_json(),
        )  # fmt: skip
        got = forecast(started)
        paths = scenario.topology.overlay_paths()
        right = estimate(plan, rates_mbps, CHUNK_BYTES, MODEL_BYTES, paths=paths)
        assert got.estimate_s == right
        found.add(right)
    assert 1 < len(found) <= len(computed) / 2 <= most  # without delays, and with them


def _plan(scenario, settings, group, rates_mbps):
    build, _ = planning.create_builders(scenario)
    sites = tuple(dict.fromkeys((*group, *(site for link in rates_mbps for site in link))))
    request = make_request(settings, sites, rates_mbps, random.Random(1))
    return build(replace(request, group=group))


FAR = """
topology:
  builder: full_mesh
  sites: 3
  rates: 20 Mbit/s
  delays: 3 ms
  overrides: [{link: n1 <-> n2, delay: 100 ms}, {link: n1 <-> n3, delay: 100 ms}]
workload: {kind: synthetic, model: 10 kB, compute: 1 s}
scheme: {policy: bsp, plan: a2a, chunk: 1 KiB}
failover: {backup: n2}
stop: {rounds: 1}
"""


def test_a_task_of_the_backup_begins_when_the_message_of_its_site_arrives() -> None:
    scenario = parse(FAR, "s.yaml", seed=1)
    settings, group = planning.controller_settings(scenario), ("n2", "n3")
    inside = {k: v for k, v in settings.rates_mbps.items() if {*k} <= {*group}}
    forest = _plan(scenario, settings, group, inside).to_json()
    forecast = forecasts.make_forecaster(scenario)
    first, second = (
        forecast(
            TaskStarted(0, by, 0, "", "", group, dict.fromkeys(group, 1.0), 0.5, *SIZES, forest)
        )
        for by in ("controller", "backup")
    )
    assert first.estimate_s == second.estimate_s
    assert first.latency_s - second.latency_s == pytest.approx(0.097, abs=1e-3)
