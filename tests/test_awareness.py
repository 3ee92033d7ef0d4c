"""Sites that measure their links by the chunks of a run, and a controller that plans with it."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from wan import CHUNK_BYTES, Wan

from agents import registry
from agents.estimates import KnownRates
from agents.settings import Probing

SITES = ("a", "b", "c", "d")
MESH = tuple(itertools.permutations(SITES, 2))
TRUE = {("a", "b"): 0.25, ("c", "d"): 2.0}


def bsp(sites):
    return registry.policies()["bsp"].create(sites)


def run(estimator, plan="fapt", scenario=None, update_s=0.5, follows_measured=True, **options):
    rates = {(a, b): TRUE.get((a, b), TRUE.get((b, a), 1.0)) for a, b in MESH}
    wan = Wan(
        rates,
        plan,
        bsp(SITES),
        elements=32_000,
        probing=Probing(estimator, CHUNK_BYTES // 2, 16),
        follows_measured=follows_measured,
        update_s=update_s,
        **options,
    )
    wan.run(scenario)
    assert wan.verdict().outcome == "pass"
    return wan


def test_what_chunks_tell_of_a_link_is_its_rate():
    wan = run("one_way_min_delay", plan="a2a", rounds=2)
    found = {(event["src"], event["dst"]): event for event in wan.of("rate_measured")}
    assert found.keys() == wan.rates.keys()
    for link, event in found.items():
        assert event["rate_mbps"] == pytest.approx(wan.rates[link], rel=0.05)
        assert event["site"] == link[1]
        assert event["bytes"] == event["chunks"] * CHUNK_BYTES


@pytest.mark.parametrize("estimator", ["one_way", "round_trip"])
def test_estimates_with_queues_in_them_are_low(estimator):
    wan = run(estimator, plan="a2a", rounds=2)
    for event in wan.of("rate_measured"):
        link = event["src"], event["dst"]
        assert event["rate_mbps"] < 0.9 * wan.rates[link]
        assert event["site"] == link[estimator == "one_way"]


WRONG = dict.fromkeys(MESH, 1.0) | {("a", "b"): 9.0}


def sends_over_the_slow_link(event):
    blocks = event["forest"]["blocks"]
    return any(["a", "b"] in block["in"] for block in blocks if block["aggregator"] == "b")


def test_plans_follow_what_is_measured():
    wan = run("one_way_min_delay", rounds=3, assumed=WRONG)
    assert [sends_over_the_slow_link(e) for e in wan.of("task_started")] == [True, False, False]


def test_a_controller_that_takes_over_is_told_what_was_measured_before():
    async def scenario(wan):
        while len(wan.of("task_completed")) < 2:
            await asyncio.sleep(0.05)
        wan.kill("controller")

    options = {"assumed": WRONG, "backup": True, "update_s": 0.1, "time_s": 20.0}
    wan = run("one_way_min_delay", scenario=scenario, **options)
    first = next(event for event in wan.of("plans_updated") if event["site"] == "backup")
    asked = next(event for event in wan.of("controller_found") if event["site"] == "b")
    fresh = range(asked["t_ns"], first["t_ns"])
    assert not any(e["t_ns"] in fresh for e in wan.of("rate_measured") if e["site"] == "b")
    assert ["a", "b", pytest.approx(0.25, rel=0.1)] in first["links"]


def test_a_link_keeps_its_last_measurement_and_what_is_assumed_until_the_first():
    known = KnownRates({("a", "b"): 10.0, ("b", "a"): 20.0})
    known.measured(("a", "b"), 4.0)
    known.measured(("a", "b"), 5.0)
    assert known.latest_mbps() == {("a", "b"): 5.0, ("b", "a"): 20.0}
    with pytest.raises(KeyError):
        known.measured(("a", "c"), 1.0)


def test_without_being_asked_to_plans_do_not_follow_what_is_measured():
    wan = run("one_way_min_delay", rounds=3, assumed=WRONG, follows_measured=False)
    assert wan.of("rate_measured")
    assert [sends_over_the_slow_link(e) for e in wan.of("task_started")] == [True, True, True]
