"""A timeline carried out on the in-memory network, and what links were set to, read from a log."""

import math
import select
import time
from dataclasses import replace

from trunkline.agents.events.fault_events import AgentChanged, FaultEnded, FaultStarted, LinkChanged
from trunkline.harness.faults.fault_injector import FaultInjector
from trunkline.harness.faults.fault_syntax import parse
from trunkline.harness.faults.timeline import Entry, Timeline
from trunkline.harness.network.interface import InMemoryNetwork
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

FAULT_EVENTS = (FaultStarted, FaultEnded)

TOPOLOGY = Topology(
    "pair", (Site("a"), Site("b")), (Link("a", "b", 8.0, 10.0), Link("b", "a", 8.0, 10.0))
)


class Agents:
    """Agents that cannot be paused: they have ended by themselves. Others log while they run."""

    def __init__(self, log):
        self.told, self.log = [], log

    def can_change(self, name, do):
        return do != "pause"

    def change(self, name, do, fault):
        self.told.append((do, name, fault))
        self.log.append(f"{name} logged something")


def opened(*entries):
    """A timeline, and what carries it out: an injector, its network, agents and log."""
    log = []
    network, agents = InMemoryNetwork(TOPOLOGY), Agents(log)
    timeline = Timeline(TOPOLOGY, entries)
    injector = FaultInjector(
        timeline, network, agents, lambda kind, **fields: log.append(kind(0, "runner", **fields))
    )
    return timeline, injector, network, agents, log


def performed(*lines, stop_s=math.inf):
    """Each line is `seconds: fault`; the network, the agents and the log until nothing is due.

    `stop_s` is the time of the run's stop, in seconds from the first task.
    """
    entries = [
        Entry(float(at_s), parse(text, TOPOLOGY))
        for at_s, _, text in (line.partition(": ") for line in lines)
    ]
    timeline, injector, network, agents, log = opened(*entries)
    try:
        assert not select.select([injector.fd], [], [], 0)[0]
        now_ns = time.monotonic_ns()
        injector.start(now_ns, now_ns + stop_s * 1e9)
        while timeline.next_ns is not None or (stop_s < math.inf and timeline.active):
            assert select.select([injector.fd], [], [], 5)[0]
            injector.perform_due()
        states = [(network.topology, set(network.cuts))]
        injector.finish()
    finally:
        injector.close()
    return [*states, (network.topology, network.cuts)], agents.told, log


def test_links_are_changed_and_cut_and_everything_is_logged_and_undone():
    (during, after), told, log = performed("0: outage a -> b", "0.01: setlink b a rate=2 Mbit/s")
    assert during[0].link("b", "a").rate_mbps == during[0].link("a", "b").rate_mbps == 2.0
    assert during[1] == {(("a", "b"), "blackhole")}
    assert after == (TOPOLOGY, set())
    assert told == []
    text = "outage a b one-way blackhole"
    assert log[0] == FaultStarted(0, "runner", 0, "outage", text, ("a -> b",))
    assert log[1] == replace(changed(0, 8.0), cuts=("blackhole",))
    assert replace(changed(0, 2.0), cuts=("blackhole",)) in log
    assert [event.fault for event in log if isinstance(event, FaultEnded)] == [0, 1]


def test_what_is_due_comes_before_a_fault_that_is_typed_before_the_alarm_is_heard():
    _, injector, network, _, log = opened()
    injector.start(time.monotonic_ns())
    injector.inject(parse("trace a -> b 0s:2Mbit/s,60s:3Mbit/s", TOPOLOGY))
    injector.inject(parse("setlink a -> b delay=20ms", TOPOLOGY))
    injector.close()
    assert [type(event) for event in log] == [FaultStarted, LinkChanged, FaultStarted, LinkChanged]
    link = network.topology.link("a", "b")
    assert (link.rate_mbps, link.delay_ms) == (2.0, 20.0)


def test_agents_are_told_and_what_had_no_effect_is_not_logged():
    _, told, log = performed("0: kill a for 10 ms", "0: pause b")
    assert told == [("kill", "a", 0), ("restart", "a", 0), ("resume", "b", 1)]
    changes = [event.do for event in log if isinstance(event, AgentChanged)]
    assert changes == ["kill", "restart", "resume"]


def test_an_agent_is_logged_as_stopped_after_its_last_event_and_as_woken_before_its_next():
    _, _, log = performed("0: kill a for 10 ms", "0: pause b")
    seen = [getattr(each, "do", each) for each in log if not isinstance(each, FAULT_EVENTS)]
    assert seen == [
        *("a logged something", "kill"),
        *("restart", "a logged something"),
        *("resume", "b logged something"),
    ]


def test_at_the_stop_everything_is_undone_and_what_would_come_later_does_not_begin():
    lines = ("0: kill a", "0: kill controller", "0: outage a b", "0: flap a b every 5 ms")
    (during, after), told, log = performed(*lines, "60: kill b", stop_s=0.05)
    assert during == after == (TOPOLOGY, set())
    assert told == [
        ("kill", "a", 0),
        ("kill", "controller", 1),
        ("restart", "a", 0),
        ("restart", "controller", 1),
    ]
    assert [event.fault for event in log if isinstance(event, FaultEnded)] == [0, 1, 2, 3]


def changed(t_s, rate_mbps, delay_ms=10.0):
    return LinkChanged(int(t_s * 1e9), "runner", "a", "b", rate_mbps, delay_ms, 0.0, 0.0, ())


def test_a_links_rate_is_what_it_was_at_the_time():
    history = History.of([changed(10, 16.0, 5.0), changed(20, 4.0, 20.0)])
    conditions = Conditions.of(history, TOPOLOGY)
    ends = ("a", "b")
    assert [conditions.at(ends, t * 10**9).rate_mbps for t in (0, 9, 10, 19, 30)] == [
        8,
        8,
        16,
        16,
        4,
    ]
    assert conditions.rates_mbps(10**10) == {("a", "b"): 16.0, ("b", "a"): 8.0}
    assert conditions.capacity_bytes(ends, [(5 * 10**9, 25 * 10**9)]) == 5e6 + 20e6 + 2.5e6
    assert conditions.capacity_bytes(ends, [(12 * 10**9, 13 * 10**9)]) == 2e6
    assert conditions.least_delays_ms[ends] == 5.0
    assert conditions.slowdowns(ends, 0, 15 * 10**9) == 0
    assert conditions.slowdowns(ends, 0, 25 * 10**9) == 1
    assert conditions.mean_rate_mbps(ends, 20 * 10**9) == 12.0
    assert conditions.mean_rate_mbps(("b", "a"), 20 * 10**9) == 8.0


def test_programs_stay_dead_at_the_stop_and_nothing_is_due_any_more():
    log: list[object] = []
    agents = Agents(log)
    timeline = Timeline(TOPOLOGY, [Entry(0.0, parse("kill a", TOPOLOGY))])
    injector = FaultInjector(
        timeline, InMemoryNetwork(TOPOLOGY), agents, lambda kind, **fields: None, programs=["a"]
    )
    now_ns = time.monotonic_ns()
    injector.start(now_ns, now_ns + 20_000_000)
    for _ in range(2):
        assert select.select([injector.fd], [], [], 5)[0]
        injector.perform_due()
    assert agents.told == [("kill", "a", 0)]
    assert not select.select([injector.fd], [], [], 0.05)[0]
    injector.close()
