"""The builder `file`: its options, the network that is shipped, and notes."""

import math
import random

import pytest

from trunkline.harness.config import units
from trunkline.topologies import TopologyError, file
from trunkline.topologies.formats.quantities import RATE, TIME, read_quantity
from trunkline.topologies.rates.access import AccessLink, add_access_links

TWO = "graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]"


def build(files, **options):
    return file.build(random.Random(1), read=files.__getitem__, **options)


def links_of(topology):
    return {(link.src, link.dst): (link.rate_mbps, link.delay_ms) for link in topology.links}


# --- options


@pytest.mark.parametrize(
    ("options", "message", "key"),
    [
        ({}, "no file: expected either file:, or rates: and delays: or rtts:", ""),
        (
            {"file": "os3e", "rates": "r"},
            "rates: expected either file:, or rates: and delays: or rtts:",
            "",
        ),
        (
            {"delays": "r", "rtts": "r"},
            "delays, rtts: expected either file:, or rates: and delays: or rtts:",
            "",
        ),
        (
            {"file": "geant"},
            "expected a file that ends in .gml, .graphml, .gexf, .json, .dot, .gv, .xml, .graph, "
            ".csv, .tsv, .txt, .edges, .edgelist, not compressed, or a network that comes with "
            "Trunkline: os3e",
            "file",
        ),
        ({"file": "os3e", "route_factor": 0.0}, "route_factor: 0.0: expected 1 or more",
         "route_factor"),
        ({"file": "os3e", "rate_factor": math.inf}, "rate_factor: inf: expected above 0",
         "rate_factor"),
        (
            {"file": "os3e", "jitter_ms": 5.0},
            "link vancouver -> seattle: jitter 5 ms: expected 0 to the link's delay, 0.974 ms",
            "jitter_ms",
        ),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(options, message, key):
    with pytest.raises(TopologyError) as refused:
        build({"r": ",a,b\na,,1\nb,2,\n"}, **options)
    assert (str(refused.value), refused.value.key) == (message, key)


def test_without_a_scenario_files_are_relative_to_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "x.gml").write_text(f"\ufeff{TWO}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    defaults = {"default_rate_mbps": 1.0, "default_delay_ms": 1.0}
    assert len(file.build(random.Random(1), file="x.gml", **defaults).sites) == 2
    with pytest.raises(TopologyError, match=r"y\.gml: cannot read: .*No such file"):
        file.build(random.Random(1), file="y.gml")


def test_the_units_of_a_file_are_those_of_a_scenario():
    for unit, dimension in ((RATE, units.RATE_MBPS), (TIME, units.TIME_MS)):
        for name in unit.sizes:
            assert read_quantity(f"2.5{name}", unit) == units.parse(f"2.5 {name}", dimension)


# --- the network that is shipped


def test_os3e_has_its_34_cities_and_42_links_across_the_united_states():
    built = file.build(random.Random(1), file="os3e")
    assert (built.name, len(built.sites), len(built.links)) == ("os3e", 34, 84)
    assert {link.rate_mbps for link in built.links} == {100_000.0}
    assert built.neighbours("chicago") == (
        "minneapolis", "kansas-city", "indianapolis", "cleveland",
    )  # fmt: skip
    assert [name for name in built.site_names if len(built.neighbours(name)) == 1] == [
        "vancouver", "miami",
    ]  # fmt: skip
    assert built.path("seattle", "miami")[:3] == ("seattle", "missoula", "minneapolis")
    lengths = {link.delay_ms * 199.86 for link in built.links}
    assert min(lengths) == pytest.approx(42, abs=1)  # Ashburn and Washington DC
    assert max(lengths) == pytest.approx(1611, abs=2)  # Missoula and Minneapolis


def test_notes_tell_which_nodes_are_left_out_and_which_labels_are_not_read():
    node = 'node [ id {} label "{}" Longitude {} Latitude 1 {} ]'
    parts = [
        node.format(0, "a", 0, ""),
        node.format(1, "b", 1, ""),
        node.format(2, "x", 2, "Internal 0"),
        'edge [ source 0 target 1 LinkLabel "10 Gbps" ]',
        'edge [ source 1 target 2 LinkLabel "E1" ]',
    ]

    def notes(**options):
        files = {"z.gml": f"graph [ {' '.join(parts)} ]"}
        return build(files, file="z.gml", default_rate_mbps=5.0, **options).notes

    unread = "a label, which is not read, and no rate, so default_rate holds: a - b '10 Gbps'"
    outside = "nodes with Internal 0 are left out, and external: true keeps them: x"
    assert notes() == (outside, f"1 link has {unread}")
    assert notes(external=True) == (f"2 links have {unread}, b - x 'E1'",)


def test_each_node_has_several_sites_behind_its_router():
    built = file.build(random.Random(1), file="os3e", sites_per_node=3)
    assert len(built.sites) == 3 * 34 and len(built.routers) == 34
    assert built.path("seattle-2", "portland-3") == (
        *("seattle-2", "seattle-gw"),
        *("portland-gw", "portland-3"),
    )
    assert built.path("seattle-1", "seattle-3") == ("seattle-1", "seattle-gw", "seattle-3")
    assert built.overlay.has_link("miami-1", "chicago-3")
    at = {name: place for name, *place in built.places}
    assert at["chicago-1"] == at["chicago-3"] == at["chicago"]


def test_a_hub_is_connected_to_each_other_site_and_no_two_others_are():
    built = file.build(
        random.Random(1), file="os3e", sites=["miami", "chicago"], sites_per_node=2, hub="chicago-2"
    )
    assert built.site_names == ("miami-1", "miami-2", "chicago-1", "chicago-2")
    assert built.overlay.neighbours("chicago-2") == ("miami-1", "miami-2", "chicago-1")
    assert built.overlay.neighbours("miami-1") == ("chicago-2",)
    whole = file.build(random.Random(1), file="os3e", hub="chicago")
    assert len(whole.overlay.neighbours("chicago")) == 33
    assert "chicago-gw" in whole.routers


def test_an_access_link_replaces_that_of_one_of_several_sites_at_a_node():
    built = file.build(random.Random(1), file="os3e", sites_per_node=2)
    found = add_access_links(built, [AccessLink(5.0, 6.0, ("miami-1",))])
    assert found.routers == built.routers
    assert found.link("miami-1", "miami-gw").rate_mbps == 5.0
    assert found.link("miami-gw", "miami-1").rate_mbps == 6.0
    assert found.link("miami-2", "miami-gw") == built.link("miami-2", "miami-gw")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sites_per_node": 0}, "sites_per_node: 0: expected 1 to 294, which is 10000 sites or"),
        ({"sites_per_node": 295}, "sites_per_node: 295: expected 1 to 294"),
        (
            {"sites_per_node": 2, "hub": "chicago"},
            "hub: 'chicago': did you mean chicago-1. expected one of",
        ),
        ({"sites": ["miami", "miami"]}, "sites: 'miami': named twice"),
    ],
)
def test_impossible_sites_of_nodes_are_refused(options, message):
    with pytest.raises(TopologyError, match=message) as refused:
        file.build(random.Random(1), file="os3e", **options)
    assert refused.value.key == [*options][-1]


def test_hundreds_of_sites_of_nodes_need_a_hub():
    what = "238 sites, each with a connection to each other one: expected 50000 or fewer"
    with pytest.raises(TopologyError, match=what) as refused:
        file.build(random.Random(1), file="os3e", sites_per_node=7)
    assert refused.value.key == "sites"
    built = file.build(random.Random(1), file="os3e", sites_per_node=7, hub="miami-1")
    assert len(built.overlay.links) == 2 * 237
