"""Racks: fast links within a rack, slower ones between racks and to the server."""

import random

import pytest

from trunkline.topologies import TopologyError, explicit, racks


def build(**options):
    return racks.build(random.Random(1), **options)


def test_sites_of_a_rack_have_faster_and_shorter_links_than_those_of_others():
    built = build(racks=2, sites_per_rack=2, intra_delay_ms=0.2, inter_delay_ms=3.0)
    assert built.site_names == ("r1n1", "r1n2", "r2n1", "r2n2")
    assert {
        (link.src, link.dst): (link.rate_mbps, link.delay_ms)
        for link in built.links
        if link.src == "r1n2"
    } == {("r1n2", "r1n1"): (100.0, 0.2), ("r1n2", "r2n1"): (50.0, 3.0),
          ("r1n2", "r2n2"): (50.0, 3.0)}  # fmt: skip
    assert len(built.links) == 12


def test_alpha_is_the_ratio_of_the_rate_between_racks_to_that_within_a_rack():
    rates = build(intra_rate_mbps=200.0, alpha=0.2).rates_mbps()
    assert (rates["r1n1", "r1n2"], rates["r1n1", "r2n1"]) == (200.0, 40.0)


def test_the_rate_between_racks_may_be_given_and_all_rates_be_scaled():
    rates = build(intra_rate_mbps=200.0, inter_rate_mbps=300.0, rate_factor=0.1).rates_mbps()
    assert (rates["r1n1", "r1n2"], rates["r1n1", "r2n1"]) == (20.0, 30.0)


def test_a_server_is_outside_the_racks():
    built = build(racks=3, sites_per_rack=1, server=True)
    assert built.site_names == ("server", "r1n1", "r2n1", "r3n1")
    assert built.link("server", "r1n1").rate_mbps == built.link("r1n1", "server").rate_mbps == 50.0


def test_options_of_every_link_hold_for_every_link():
    built = build(jitter_ms=0.1, loss_percent=0.5, queue_bytes=99_000)
    assert {(x.jitter_ms, x.loss_percent, x.queue_bytes) for x in built.links} == {
        (0.1, 0.5, 99_000)
    }


def test_two_racks_of_fifty_sites_are_owls_hundred_workers():
    assert len(build(racks=2, sites_per_rack=50, server=True).links) == 101 * 100


@pytest.mark.parametrize(
    ("options", "message", "key"),
    [
        ({"racks": 0}, "racks: 0: expected 1 to 10000", "racks"),
        ({"sites_per_rack": -3}, "sites_per_rack: -3: expected 1 to 10000", "sites_per_rack"),
        ({"racks": 1, "sites_per_rack": 1}, "1 sites: expected 2 to 10000", "racks"),
        ({"racks": 1000, "sites_per_rack": 20}, "20000 sites: expected 2 to 10000", "racks"),
        (
            {"racks": 100},
            "159600 directed links: expected 50000 or fewer, a full mesh of 224 sites",
            "sites",
        ),
        ({"alpha": 0.0}, "alpha: 0.0: expected above 0", "alpha"),
        ({"rate_factor": float("nan")}, "rate_factor: nan: expected above 0", "rate_factor"),
        (
            {"alpha": 0.5, "inter_rate_mbps": 5.0},
            "alpha: 0.5: expected either alpha or inter_rate",
            "alpha",
        ),
        (
            {"inter_rate_mbps": 0.0},
            "inter-rack links: rate 0 Mbit/s: expected 0.001 to 1000000 Mbit/s",
            "inter_rate_mbps",
        ),
        (
            {"intra_delay_ms": 61_000.0},
            "intra-rack links: delay 61000 ms: expected 0 to 60000 ms",
            "intra_delay_ms",
        ),
        (
            {"jitter_ms": 0.5},
            "intra-rack links: jitter 0.5 ms: expected 0 to the link's delay, 0.1 ms",
            "jitter_ms",
        ),
    ],
)
def test_options_out_of_range_are_refused(options, message, key):
    with pytest.raises(TopologyError) as refused:
        build(**options)
    assert (str(refused.value), refused.value.key) == (message, key)


def test_with_switches_the_sites_of_a_rack_share_its_link_and_racks_share_the_servers():
    topology = racks.build(
        random.Random(0),
        racks=2,
        sites_per_rack=2,
        server=True,
        switches=True,
        intra_rate_mbps=100.0,
        server_rate_mbps=60.0,
    )
    assert topology.routers == ("r1-switch", "r2-switch", "core")
    assert topology.path("server", "r2n1") == ("server", "core", "r2-switch", "r2n1")
    rates = topology.rates_mbps()
    assert rates["r1n2", "r1-switch"] == 100.0
    assert rates["core", "r1-switch"] == 50.0
    assert rates["server", "core"] == 60.0
    assert topology.overlay.link("r1n1", "r1n2").delay_ms == pytest.approx(0.1)
    assert topology.overlay.link("server", "r1n1").delay_ms == pytest.approx(1.05)
    assert set(topology.overlay.neighbours("r1n1")) == {"server", "r1n2"}
    assert [site.rack for site in topology.sites] == ["", "r1", "r1", "r2", "r2"]


def test_without_a_limit_the_servers_link_is_as_fast_as_those_of_all_racks_together():
    topology = racks.build(random.Random(0), racks=3, server=True, switches=True)
    assert topology.rates_mbps()["server", "core"] == 150.0


def test_without_a_server_switches_connect_all_sites():
    topology = racks.build(random.Random(0), sites_per_rack=2, switches=True)
    assert set(topology.overlay.neighbours("r1n1")) == {"r1n2", "r2n1", "r2n2"}


def test_a_servers_link_needs_a_server_and_switches():
    with pytest.raises(TopologyError, match="server_rate: only with"):
        racks.build(random.Random(0), server=True, server_rate_mbps=10.0)


@pytest.mark.parametrize("rate_mbps", [0.0, -1.0])
def test_a_servers_link_has_a_rate_above_0(rate_mbps):
    with pytest.raises(TopologyError, match="the server's link: rate") as raised:
        racks.build(random.Random(0), server=True, switches=True, server_rate_mbps=rate_mbps)
    assert raised.value.key == "server_rate_mbps"


def test_racks_survive_being_written_out():
    topology = racks.build(random.Random(0), server=True, switches=True)
    again = explicit.build(random.Random(0), **explicit.options(topology))
    assert again.sites == topology.sites and again.overlay.links == topology.overlay.links
    wrong = {**explicit.options(topology), "racks": {"n99": "r1"}}
    with pytest.raises(TopologyError, match="racks: 'n99': expected"):
        explicit.build(random.Random(0), **wrong)


def test_between_racks_sites_are_connected_over_their_switches_at_the_rate_between_racks():
    options = {"sites_per_rack": 2, "server": True, "switches": True, "alpha": 0.3}
    apart, linked = build(**options), build(**options, between_racks=True)
    assert ("r1n1", "r2n2") not in apart.overlay.rates_mbps()
    assert linked.path("r1n1", "r2n2") == ("r1n1", "r1-switch", "core", "r2-switch", "r2n2")
    assert linked.overlay.rates_mbps()["r1n1", "r2n2"] == 30.0
    assert apart.links == linked.links
    with pytest.raises(TopologyError, match="between_racks: only with server and switches"):
        build(between_racks=True)
