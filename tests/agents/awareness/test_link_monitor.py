"""Sites that measure their links by the chunks of a run, and a controller that plans with it."""

import asyncio
import itertools

import pytest
from wan import CHUNK_BYTES, Wan

from trunkline.agents import registry
from trunkline.agents.awareness.link_monitor import Awareness
from trunkline.agents.awareness.measured_rates import MeasuredRates
from trunkline.agents.timing.site_clock import SiteClock
from trunkline.agents.wire.agent_settings import Probing, WorkerSettings
from trunkline.agents.wire.messages import TimeRequest, TimeServer

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
    known = MeasuredRates({("a", "b"): 10.0, ("b", "a"): 20.0})
    known.record(("a", "b"), 4.0)
    known.record(("a", "b"), 5.0)
    assert known.latest_mbps() == {("a", "b"): 5.0, ("b", "a"): 20.0}
    with pytest.raises(KeyError):
        known.record(("a", "c"), 1.0)


def test_without_being_asked_to_plans_do_not_follow_what_is_measured():
    wan = run("one_way_min_delay", rounds=3, assumed=WRONG, follows_measured=False)
    assert wan.of("rate_measured")
    assert [sends_over_the_slow_link(e) for e in wan.of("task_started")] == [True, True, True]


WRONG_CLOCKS = {"b": SiteClock(80.0, 40.0), "c": SiteClock(10.0, 90.0), "d": SiteClock(250.0, 0.0)}
PATH = {("a", "b"): 1.0, ("b", "a"): 1.0, ("b", "c"): 1.0, ("c", "b"): 1.0}


def clock_errors_ns(wan):
    return {
        event["site"]: wan.clocks.get(event["site"], SiteClock()).read_ns(event["t_ns"])
        + event["correction_ns"]
        - event["t_ns"]
        for event in wan.of("clock_synchronized")
    }


def servers(wan):
    """Whom every site asks for the time in the end."""
    return {site: of for e in wan.of("time_served") for site, of in e["servers"].items()}


def test_every_site_gets_the_time_over_the_trees_and_estimates_are_as_with_right_clocks():
    found = {}
    for sync_s in (None, 0.2):
        for clocks in ({}, WRONG_CLOCKS):
            probing = Probing("one_way", CHUNK_BYTES // 2, 16, sync_s=sync_s)
            options = {"probing": probing, "clocks": clocks, "time_roots": 1 if sync_s else 0}
            wan = Wan(PATH, "fapt", bsp("abc"), elements=32_000, rounds=8, **options)
            wan.run()
            assert wan.verdict().outcome == "pass"
            rates = {(e["src"], e["dst"]): e["rate_mbps"] for e in wan.of("rate_measured")}
            found[sync_s, bool(clocks)] = rates
            if sync_s:
                assert servers(wan) == {"b": "controller", "a": "b", "c": "b"}
                assert all(abs(error_ns) < 1e6 for error_ns in clock_errors_ns(wan).values())
    right = found[None, False]
    assert found[0.2, True] == pytest.approx(right, rel=0.1)
    assert found[None, True] != pytest.approx(right, rel=0.3)


def after_a_takeover(ahead_ms):
    """What is measured once a backup whose site's clock is ahead is in charge."""

    async def scenario(wan):
        await asyncio.sleep(5.0)
        wan.kill("controller")

    probing = Probing("one_way_min_delay", CHUNK_BYTES // 2, 16, sync_s=0.2)
    options = {"probing": probing, "clocks": {"backup": SiteClock(ahead_ms)}, "time_roots": 1}
    wan = Wan(PATH, "fapt", bsp("abc"), elements=32_000, backup=True, time_s=10.0, **options)
    wan.run(scenario)
    assert wan.verdict().outcome == "pass"
    assert wan.of("clock_synchronized")[-1]["controller"] == 1
    since_ns = wan.of("controller_found")[0]["t_ns"]
    return [e["rate_mbps"] for e in wan.of("rate_measured") if e["t_ns"] > since_ns]


def test_estimates_are_the_same_whatever_the_clock_of_a_controller_that_takes_over():
    right = after_a_takeover(0.0)
    assert len(right) > 100
    assert after_a_takeover(80.0) == pytest.approx(right, rel=0.05)
    assert after_a_takeover(3_600_000.0) == pytest.approx(right, rel=0.05)


def test_who_loses_its_parent_asks_another_one():
    async def scenario(wan):
        await asyncio.sleep(1.0)
        child, parent = next(each for each in servers(wan).items() if each[1] != "controller")
        wan.cut(child, parent)
        wan.lost = child, parent

    probing = Probing("one_way_min_delay", CHUNK_BYTES // 2, 16, sync_s=0.2)
    options = {"probing": probing, "clocks": WRONG_CLOCKS, "time_roots": 1, "time_s": 8.0}
    rates = dict.fromkeys(MESH, 1.0)
    wan = Wan(rates, "a2a", bsp(SITES), elements=4_000, **options)
    wan.run(scenario)
    child, parent = wan.lost
    last = [e for e in wan.of("clock_synchronized") if e["site"] == child][-1]
    assert last["server"] != parent
    assert all(abs(error_ns) < 1e6 for error_ns in clock_errors_ns(wan).values())


def test_whenever_a_site_asks_for_the_time_its_idle_links_show_their_propagation():
    said, beats = [], []
    probing = Probing("one_way_min_delay", 1000, 4, sync_s=1.0)
    settings = WorkerSettings(
        site="a", sites=("a", "b", "c"), chunk_bytes=2000, rounds=None, probing=probing
    )
    awareness = Awareness(
        settings,
        lambda: 7,
        lambda *message: said.append(message),
        lambda: beats.append(len(said)),
        lambda _: None,
        lambda *_, **__: None,
    )

    async def a_moment():
        running = asyncio.create_task(awareness.run())
        await asyncio.sleep(0)
        running.cancel()

    asyncio.run(a_moment())
    assert (said, beats) == ([], [])
    awareness.on_controller_frame(TimeServer("b"))
    asyncio.run(a_moment())
    assert (said, beats) == ([("b", TimeRequest(7))], [0])


def test_a_site_asks_for_the_time_as_often_as_it_begins_to_compute():
    probing = Probing("one_way_min_delay", CHUNK_BYTES // 2, 16, sync_s=100.0)
    options = {"probing": probing, "clocks": WRONG_CLOCKS, "time_roots": 1}
    wan = Wan(PATH, "fapt", bsp("abc"), elements=4_000, rounds=12, **options)
    wan.run()
    assert len([e for e in wan.of("clock_synchronized") if e["site"] == "b"]) >= 12
