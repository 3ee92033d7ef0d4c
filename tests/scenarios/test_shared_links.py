"""Concurrent partial reduces whose flows share links, over agents, wires and virtual time."""

import random

from wan import Wan, Wire, mesh

from trunkline.agents.planning.disciplines import DISCIPLINES
from trunkline.agents.policies import preduce

SIX = ("s0", "s1", "s2", "s3", "s4", "s5")


def test_agents_serve_their_flows_by_every_discipline_and_hold_the_same_results(monkeypatch):
    monkeypatch.setattr(Wire, "WINDOW_BYTES", 2048)  # so that chunks wait in queues of agents
    rng = random.Random(1)
    rates = {link: rng.uniform(0.3, 3.0) for link in mesh(SIX)}
    orders, results = {}, {}
    for name in DISCIPLINES:
        policy = preduce.create(SIX, p=2)
        wan = Wan(rates, "crew", policy, rounds=5, elements=12_000, discipline=name)
        wan.run()
        verdict = wan.verdict()
        assert verdict.outcome == "pass", (name, verdict)
        results[name] = len(wan.of("task_finished"))
        sent = sorted(wan.of("sent"), key=lambda e: (e["site"], e["dst"], e["start_ns"]))
        orders[name] = tuple(
            (e["site"], e["dst"], e["task"], e["phase"], e["end_ns"] - e["start_ns"]) for e in sent
        )
    assert set(results.values()) == {30}
    assert len(set(orders.values())) == len(DISCIPLINES)  # each has an order of its own
