"""A link whose quickest first chunks are late was slower than set."""

import json
from dataclasses import replace
from typing import Any

from hand_made import change, make_scenario
from three_sites import TOPOLOGY

from trunkline.agents.events import event_reading
from trunkline.harness.background.flows import Background
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.network import slow_links
from trunkline.harness.checks.network.slow_links import find_slow_links
from trunkline.harness.checks.rules import Rules
from trunkline.harness.network.interface import NetworkOptions
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions

RULES = Rules(make_scenario(TOPOLOGY))
MS = 1_000_000
SIZE = 50_000
SET_MS = 10 + SIZE * 8 / 8000
"""A chunk on a link of 8 Mbit/s with a delay of 10 ms, as all links are set."""

FOREST = {
    "contributors": ["oslo", "rome"],
    "receivers": ["oslo", "rome"],
    "chunk_count": 1,
    "blocks": [
        {
            "chunks": [[0, 1]],
            "aggregator": "rome",
            "in": [["oslo", "rome"]],
            "out": [["rome", "oslo"]],
        }
    ],
}


def make_history(first_ms: list[float], clock: str = "virtual", beside: bool = False) -> History:
    """Tasks of one chunk, a second apart; the chunk to rome takes so long in each of them."""
    sites = ["oslo", "rome", "kyiv"]
    header = {"scenario": "three", "seed": 1, "backend": "embedded", "clock": clock}
    sizes = {"bytes": SIZE, "chunk_bytes": SIZE}
    names = {"policy": "bsp", "plan": "ps"}
    values = {**header, "sites": sites, "model_bytes": SIZE, "chunk_bytes": SIZE, **names}
    log: list[dict[str, Any]] = [{"t_ns": 0, "site": "runner", "event": "run_started", **values}]

    def say(t_ns: int, site: str, event: str, **values: Any) -> None:
        log.append({"t_ns": t_ns, "site": site, "event": event, **values})

    for task, took_ms in enumerate(first_ms):
        start_ns = task * 1000 * MS
        end_ns = start_ns + round(took_ms * MS)
        weights = {"group": ["oslo", "rome"], "weights": {"oslo": 1.0, "rome": 1.0}, "scale": 0.5}
        say(
            start_ns,
            "controller",
            "task_started",
            task=task,
            **names,
            **weights,
            **sizes,
            forest=FOREST,
        )
        moved = {"task": task, "bytes": SIZE, "chunks": 1, "phase": "in"}
        say(end_ns, "oslo", "sent", dst="rome", **moved, start_ns=start_ns, end_ns=end_ns - 10 * MS)
        say(end_ns, "rome", "received", src="oslo", **moved, start_ns=end_ns, end_ns=end_ns)
        if beside:
            moved["phase"] = "relay"
            say(end_ns, "oslo", "sent", dst="rome", **moved, start_ns=start_ns, end_ns=end_ns)
        say(end_ns + 10 * MS, "controller", "task_completed", task=task, without=[])
    say(len(first_ms) * 1000 * MS, "runner", "run_finished", cause=None, links=[])
    ordered = sorted(log, key=lambda line: line["t_ns"])
    return History.of(event_reading.read(map(json.dumps, ordered)))


def doubts(history: History, rules: Rules = RULES) -> list[str]:
    losses, conditions = Losses.of(history, rules), Conditions.of(history, rules.topology)
    found = find_slow_links(history, rules, losses, conditions)
    return [each.text for each in found if each.outcome == "unknown"]


def test_a_link_as_fast_as_set_is_not_slow():
    assert doubts(make_history([SET_MS * 1.1] * 4)) == []


def test_a_link_that_is_half_as_fast_as_set_is_slow():
    (text,) = doubts(make_history([SET_MS * 2] * 4))
    assert text.startswith("oslo -> rome: each first chunk took at least 120.0 ms")


def test_a_single_quick_chunk_shows_that_the_link_is_not_slow():
    assert doubts(make_history([SET_MS * 2] * 4 + [SET_MS])) == []


def test_what_may_have_waited_is_not_judged():
    slow = [SET_MS * 2] * 4
    assert doubts(make_history(slow[:3])) == []
    assert doubts(make_history(slow, clock="real")) == []
    assert doubts(make_history(slow, beside=True)) == []
    assert (
        doubts(make_history(slow), change(RULES, network=NetworkOptions(congestion_control="bbr")))
        == []
    )
    thin = [replace(e, rate_mbps=1.0) if e.dst == "oslo" else e for e in TOPOLOGY.links]
    assert (
        doubts(make_history(slow), change(RULES, topology=replace(TOPOLOGY, links=tuple(thin))))
        == []
    )
    flows = (Background("oslo", "kyiv", 1.0),)
    assert doubts(make_history(slow), change(RULES, background=flows)) == []


def test_after_a_loss_a_small_window_costs_round_trips():
    links = tuple(replace(link, loss_percent=0.1) for link in TOPOLOGY.links)
    lossy = change(RULES, topology=replace(TOPOLOGY, links=links))
    assert doubts(make_history([SET_MS * 2] * 4), lossy) == []
    assert len(doubts(make_history([SET_MS * 3.5] * 4), lossy)) == 1


def test_a_chunk_that_needs_a_large_window_is_judged_on_a_warm_connection_only(monkeypatch):
    """Chunks of 50 kB are carried in the first tasks; the path holds 20 kB."""
    slow = [SET_MS * 2] * 20
    assert len(doubts(make_history(slow[:4]))) == 1
    monkeypatch.setattr(slow_links, "GROWN_WINDOWS", 1)
    assert doubts(make_history(slow)) == []
    warm = round(slow_links.WARM_PRODUCTS * 20_000 / SIZE) + 1
    assert len(doubts(make_history([SET_MS * 2] * (warm + 4)))) == 1
