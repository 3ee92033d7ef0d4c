"""Reordering, duplicates, corruption and delays under the virtual clock: as much as asked for."""

import math
from dataclasses import replace

import numpy as np
import pytest
from probing import datagrams

from trunkline.topologies import distributions
from trunkline.topologies.formats import delay_file
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

PACKETS = 10_000
DELAY_MS = 20.0
QUEUE = {"queue_bytes": 8_000_000}
SENDING_MS = (64 + 28 + 14) * 8e-5
"""One packet of `datagrams` at 100 Mbit/s."""

SAMPLES, APART_S = 1000, 0.2
PERIOD_MS = 0.4
SIGMAS = 3.5
MEASURED = delay_file.read("\n".join(str(10 + (i % 100) ** 2 / 500) for i in range(1000)))
SHAPES = ("uniform", "normal", "pareto", "paretonormal", MEASURED.distribution)

SHARES = {
    "reorder": {"reorder_percent": 5.0},
    "duplicate": {"duplicate_percent": 3.0},
    "corrupt": {"corrupt_percent": 2.0},
    "together": {"reorder_percent": 10.0, "correlation_percent": 50.0},
    "all": {"reorder_percent": 5.0, "duplicate_percent": 3.0, "corrupt_percent": 2.0},
}


def network(**values):
    return Topology(
        "impaired",
        (Site("a"), Site("b")),
        (
            replace(Link("a", "b", 100.0, DELAY_MS, **QUEUE), **values),
            Link("b", "a", 100.0, DELAY_MS, **QUEUE),
        ),
    )


# What runs inside the embedded kernel.


def build(seed=1, **values):
    from trunkline.harness.network.mininet_net import MininetNetwork

    net = MininetNetwork(network(**values), seed=seed)
    net.start()
    return net


def measure():
    found = {}
    for name, values in SHARES.items():
        net = build(**values)
        there, back = (datagrams(net, *ends, PACKETS) for ends in (("a", "b"), ("b", "a")))
        found[name] = there, back, disagreeing(net)
        net.stop()
    for seed in (1, 2):
        net = build(seed, **SHARES["all"])
        found[f"seed {seed}"] = datagrams(net, "a", "b", PACKETS)
        net.stop()
    return found


def measure_delays():
    found = {}
    for shape in SHAPES:
        net = build(jitter_ms=5.0, distribution=shape)
        found[shape] = [datagrams(net, "a", "b", SAMPLES, period_s=APART_S), disagreeing(net)]
        net.stop()
    net = build(jitter_ms=5.0, distribution="normal", correlation_percent=60.0)
    found["together"] = datagrams(net, "a", "b", SAMPLES, period_s=APART_S)
    net.stop()
    return found


def change():
    """The arrivals after each change of one network, and a rate that doubles meanwhile."""
    net = build()
    found = [(datagrams(net, "a", "b", PACKETS), disagreeing(net))]
    for values in (
        {"reorder_percent": 10.0},
        {"reorder_percent": 0.0, "duplicate_percent": 5.0},
        {"duplicate_percent": 0.0, "corrupt_percent": 5.0, "correlation_percent": 50.0},
        {"corrupt_percent": 0.0, "correlation_percent": 0.0},
    ):
        net.set_link("a", "b", **values)
        found.append((datagrams(net, "a", "b", PACKETS), disagreeing(net)))
    shaped = []
    for values in ({"jitter_ms": 5.0, "distribution": "pareto"}, {"distribution": "uniform"}):
        net.set_link("a", "b", **values)
        shaped.append(datagrams(net, "a", "b", SAMPLES, period_s=APART_S))
    net.set_link("a", "b", jitter_ms=0.0, reorder_percent=20.0, rate_mbps=1.0)
    before = {500: lambda: net.set_link("a", "b", rate_mbps=2.0, delay_ms=30.0)}
    faster = datagrams(net, "a", "b", 1000, period_s=PERIOD_MS / 1e3, before=before)
    net.stop()
    return found, shaped, faster


def disagreeing(net):
    """The links for which the kernel has other values than the run has set."""
    return [
        (end, str(wanted), str(net.read_back(node)[index]))
        for node in ("a", "b")
        for end, index, wanted in net.wanted(node)
        if net.read_back(node)[index] != wanted
    ]


# What the tests look at.


@pytest.fixture(scope="module")
def found(embedded):
    return embedded.call(measure)


@pytest.fixture(scope="module")
def delays(embedded):
    return embedded.call(measure_delays)


@pytest.fixture(scope="module")
def changes(embedded):
    return embedded.call(change)


def on_the_wire_ms(came, sending_ms=SENDING_MS):
    """Each packet's delay without its time in the queue, by its number."""
    return {number: ns / 1e6 - (number + 1) * sending_ms for number, ns in came}


def count_overtaking(came):
    """Those without a delay, after a look at the others."""
    waits = np.array(list(on_the_wire_ms(came).values()))
    quick = np.abs(waits) < 0.5
    assert np.all(np.abs(waits[~quick] - DELAY_MS) < 0.5)
    return int(quick.sum())


def sigmas(count, share, packets=PACKETS, correlation=0.0):
    inflated = (1 + correlation) / (1 - correlation)
    spread = math.sqrt(packets * share * (1 - share) * inflated)
    return (count - packets * share) / spread


def test_the_asked_share_leaves_out_the_delay_but_not_the_queue_and_overtakes(found):
    there, back, wrong = found["reorder"]
    assert len(there) == PACKETS
    assert abs(sigmas(count_overtaking(there), 0.05)) < SIGMAS
    numbers = [number for number, _ in there]
    assert numbers != sorted(numbers)
    assert [number for number, _ in back] == list(range(PACKETS))
    assert wrong == []


def test_the_asked_share_arrives_twice_and_takes_none_of_the_rate(found):
    there, back, wrong = found["duplicate"]
    numbers = [number for number, _ in there]
    assert set(numbers) == set(range(PACKETS))
    assert abs(sigmas(len(numbers) - PACKETS, 0.03)) < SIGMAS
    assert all(abs(ms - DELAY_MS) < 0.5 for ms in on_the_wire_ms(there).values())
    assert len(back) == PACKETS
    assert wrong == []


def test_the_asked_share_is_corrupted_and_dropped_by_its_receiver(found):
    there, back, wrong = found["corrupt"]
    assert abs(sigmas(PACKETS - len(there), 0.02)) < SIGMAS
    assert (len(back), wrong) == (PACKETS, [])


def test_correlation_keeps_the_share_and_lets_neighbours_share_their_fate(found):
    there, _, wrong = found["together"]
    assert wrong == []
    assert abs(sigmas(count_overtaking(there), 0.1, correlation=0.5)) < SIGMAS
    waits = on_the_wire_ms(there)
    quick = np.array([abs(waits[number]) < 0.5 for number in range(PACKETS)], float)
    assert np.corrcoef(quick[1:], quick[:-1])[0, 1] == pytest.approx(0.5, abs=0.06)


def test_impairments_do_not_disturb_each_other_and_depend_on_the_seed_alone(found):
    there, _, wrong = found["all"]
    assert (there, wrong) == (found["seed 1"], [])
    assert there != found["seed 2"]
    lost = PACKETS - len({number for number, _ in there})
    # A packet is lost if it is corrupted and was not duplicated, or both of them are.
    assert abs(sigmas(lost, 0.02 * (0.97 + 0.03 * 0.02))) < SIGMAS
    assert abs(sigmas(len(there), 1.03 * 0.98 / 1.2, round(PACKETS * 1.2))) < SIGMAS


def judge_shape(came, shape, delay_ms=DELAY_MS, jitter_ms=5.0):
    """The largest distance from the asked distribution, as a share of what chance allows."""
    measured = np.sort([ns / 1e6 - SENDING_MS for _, ns in came])
    asked = delay_ms + jitter_ms * np.array(distributions.shape(shape))
    places = np.searchsorted(asked, measured, side="right") / len(asked)
    ranks = np.arange(1, len(measured) + 1) / len(measured)
    return float(np.abs(places - ranks).max()) * math.sqrt(len(measured)) / 1.95


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.partition(",")[0])
def test_delays_spread_as_asked(delays, shape):
    came, wrong = delays[shape]
    assert (len(came), wrong) == (SAMPLES, [])
    assert judge_shape(came, shape) < 1
    others = {"uniform", "normal", "pareto"} - {shape}
    assert all(judge_shape(came, other) > 1 for other in others)


def test_correlated_delays_have_the_same_distribution(delays):
    measured = [ns / 1e6 for _, ns in delays["together"]]
    assert np.corrcoef(measured[1:], measured[:-1])[0, 1] == pytest.approx(0.6, abs=0.1)
    assert judge_shape(delays["together"], "normal") < 2  # as few as 250 independent ones


def test_impairments_begin_change_and_end_while_the_link_is_in_use(changes):
    (plain, *_), found = changes[0][0], changes[0]
    assert [wrong for _, wrong in found] == [[]] * 5
    assert [number for number, _ in plain] == list(range(PACKETS))
    reordered, copied, corrupted, last = (came for came, _ in found[1:])
    assert abs(sigmas(count_overtaking(reordered), 0.1)) < SIGMAS
    assert abs(sigmas(len(copied) - PACKETS, 0.05)) < SIGMAS
    assert abs(sigmas(PACKETS - len(corrupted), 0.05, correlation=0.5)) < SIGMAS
    assert [number for number, _ in last] == list(range(PACKETS))
    for came, shape in zip(changes[1], ("pareto", "uniform"), strict=True):
        assert judge_shape(came, shape) < 1


def test_packets_that_overtake_take_a_new_rate_as_others_do(changes):
    faster = changes[2]
    assert {number for number, _ in faster} == set(range(1000))
    changed_ms = 500 * PERIOD_MS
    overtaking = 0
    for number, ns in faster:
        departs_ms = (number + 1) * SENDING_MS * 100  # at 1 Mbit/s
        if late := departs_ms > changed_ms:
            departs_ms = (departs_ms + changed_ms) / 2  # the rate is twice that
        waited_ms = number * PERIOD_MS + ns / 1e6 - departs_ms
        delay_ms = 30.0 if late else DELAY_MS
        assert min(abs(waited_ms), abs(waited_ms - delay_ms)) < 0.6
        overtaking += waited_ms < 1
    assert abs(sigmas(overtaking, 0.2, 1000)) < SIGMAS
