"""When background traffic sends how much: rates, sizes, seeds, wrong values."""

from itertools import islice, pairwise, takewhile

import pytest

from trunkline.harness.background.file_sizes import NAMED
from trunkline.harness.background.flows import (
    Background,
    compute_loads_mbps,
    leave_rates,
    list_flows,
    schedule,
)
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

MTU = 1500
SEEDS = range(1, 11)


def flow(**values):
    return list_flows([Background("a", "b", **values)])[0]


def sent_until(entry, end_s, seed=1):
    return list(takewhile(lambda x: x[0] < end_s * 1e9, schedule(entry, seed, MTU)))


def test_a_constant_flow_sends_packets_of_its_rate_at_equal_intervals():
    packets = sent_until(flow(rate_mbps=12.112, packet_bytes=1500), 10.0)
    assert len(packets) == 10_000  # 1514 bytes on the link are 1 ms
    assert {size for _, size in packets} == {1472}
    gaps = {after - before for (before, _), (after, _) in pairwise(packets)}
    assert max(gaps) - min(gaps) <= 1 and 999_999 <= min(gaps) <= 1_000_001


def test_flows_do_not_all_send_at_the_same_moment():
    entries = [Background("a", ("b", "c", "d"), rate_mbps=1.0)]
    firsts = {next(schedule(each, 1, MTU))[0] for each in list_flows(entries)}
    assert len(firsts) == 3


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "on-off", "rate_mbps": 10.0, "busy_s": 0.5, "idle_s": 1.5},
        {"kind": "tcp", "rate_mbps": 10.0, "size_bytes": 20_000},
    ],
)
def test_random_flows_have_their_mean_rate(values):
    entry = flow(**values)
    extra = 0 if entry.entry.kind == "tcp" else 42  # IP, UDP and Ethernet
    headers = 1514 / 1448 if entry.entry.kind == "tcp" else 1.0
    rates = [
        sum((size + extra) * headers for _, size in sent_until(entry, 200.0, seed)) * 8e-6 / 200.0
        for seed in SEEDS
    ]
    assert sum(rates) / len(rates) == pytest.approx(entry.entry.mean_mbps, rel=0.1)


@pytest.mark.parametrize(
    ("name", "mean_bytes"), [("web-search", 1_711_250), ("data-mining", 7_430_437)]
)
def test_drawn_sizes_have_the_mean_of_their_distribution(name, mean_bytes):
    assert NAMED[name].mean_bytes == pytest.approx(mean_bytes, rel=0.01)
    entry = flow(kind="tcp", rate_mbps=10.0, size_bytes=name, size_factor=0.5)
    drawn = [size for _, size in islice(schedule(entry, 1, MTU), 40_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(0.5 * mean_bytes, rel=0.1)


def test_the_same_seed_gives_the_same_times_and_another_seed_others():
    entry = flow(kind="on-off", rate_mbps=10.0)
    first, again, other = (list(islice(schedule(entry, seed, MTU), 500)) for seed in (1, 1, 2))
    assert first == again != other


def test_a_flow_sends_only_between_its_start_and_its_stop():
    for kind in ("constant", "on-off", "tcp"):
        sizes = {"size_bytes": 1000} if kind == "tcp" else {}
        entry = flow(kind=kind, rate_mbps=10.0, start_s=2.0, stop_s=5.0, **sizes)
        times = [t_ns for t_ns, _ in schedule(entry, 3, MTU)]
        assert times and min(times) >= 2e9 and max(times) < 5e9


def test_lists_of_sites_are_a_flow_for_each_pair():
    entries = [Background(("a", "b"), ("b", "c"), rate_mbps=1.0), Background("c", "a", 2.0)]
    ends = [(each.number, each.src, each.dst) for each in list_flows(entries)]
    assert ends == [(0, "a", "b"), (1, "a", "c"), (2, "b", "c"), (3, "c", "a")]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"dst": "a"}, "two different sites"),
        ({"start_s": 3.0, "stop_s": 3.0}, "a time after start"),
        ({"busy_s": 2.0}, "busy: only with kind on-off"),
        ({"size_bytes": 1000}, "size: only with kind tcp"),
        ({"kind": "tcp", "packet_bytes": 100}, "packet: only with kind constant or on-off"),
        ({"kind": "tcp", "size_bytes": 1000, "size_factor": 2.0}, "with a distribution of sizes"),
    ],
)
def test_impossible_flows_are_refused(values, text):
    with pytest.raises(ValueError, match=text):
        Background(**{"src": "a", "dst": "b", "rate_mbps": 1.0} | values)


def test_flows_take_their_mean_rate_from_every_link_of_their_path():
    links = [Link(*ends, 100.0, 1.0) for ends in (("a", "r"), ("r", "a"), ("b", "r"), ("r", "b"))]
    topology = Topology("t", (Site("a"), Site("b")), tuple(links), ("r",))
    flows = list_flows(
        [
            Background("a", "b", 30.0),
            Background("a", "b", 40.0, kind="on-off", busy_s=1.0, idle_s=3.0),
            Background("b", "a", 150.0),
        ]
    )
    loads = compute_loads_mbps(topology, flows)
    assert loads == {("a", "r"): 40.0, ("r", "b"): 40.0, ("b", "r"): 150.0, ("r", "a"): 150.0}
    left = leave_rates(topology.rates_mbps(), topology, flows)
    assert left == {("a", "r"): 60.0, ("r", "b"): 60.0, ("b", "r"): 1.0, ("r", "a"): 1.0}
