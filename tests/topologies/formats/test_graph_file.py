"""Networks in GML and GraphML, and the names of their sites."""

import math
import random
import sys

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.topologies import Link, Site, TopologyError, file
from trunkline.topologies.formats.graph_file import read_gml
from trunkline.topologies.formats.network_file import Node, find_delay_ms, great_circle_km
from trunkline.topologies.formats.node_names import name_site, name_sites
from trunkline.topologies.model import check_site_name


def build(files, **options):
    return file.build(random.Random(1), read=files.__getitem__, **options)


def links_of(topology):
    return {(link.src, link.dst): (link.rate_mbps, link.delay_ms) for link in topology.links}


# --- GML and GraphML

NODES = 'graph [ node [ id 0 label "a" ] node [ id 1 label "b" ] '
ZOO = """\
graph [
  Network "Test"
  node [ id 0 label "Zürich" Latitude 47.37 Longitude 8.54 Internal 1 ]
  node [ id 1 label "New York" Latitude 40.71 Longitude -74.01 ]
  node [ id 2 label "Paris" Latitude 48.86 Longitude 2.35 ]
  node [ id 3 label "Upstream" Internal 0 ]
  edge [ source 0 target 2 LinkSpeed "10" LinkSpeedUnits "G" LinkSpeedRaw 10000000000.0 ]
  edge [ source 2 target 1 LinkSpeed "622" LinkSpeedUnits "M" ]
  edge [ source 1 target 3 LinkLabel "unknown" ]
]
"""


def test_a_file_of_the_topology_zoo_has_rates_and_delays_from_its_coordinates():
    built = build({"zoo.gml": ZOO}, file="zoo.gml")
    assert built.name == "zoo"
    assert built.sites == (Site("zurich"), Site("new-york"), Site("paris"))
    # 488 km and 5837 km of great circle, at 199.86 km/ms
    assert links_of(built) == {
        ("zurich", "paris"): (10_000.0, 2.443),
        ("paris", "zurich"): (10_000.0, 2.443),
        ("paris", "new-york"): (622.0, 29.207),
        ("new-york", "paris"): (622.0, 29.207),
    }


def test_a_cable_may_be_longer_than_the_great_circle_and_rates_may_be_smaller():
    built = build({"zoo.gml": ZOO}, file="zoo.gml", route_factor=1.5, rate_factor=0.01)
    assert built.link("zurich", "paris") == Link("zurich", "paris", 100.0, 3.665)


def test_external_nodes_are_sites_on_request_and_edges_without_values_take_the_defaults():
    built = build(
        {"zoo.gml": ZOO}, file="zoo.gml", external=True, default_rate_mbps=5.0, default_delay_ms=7.0
    )
    assert built.site_names == ("zurich", "new-york", "paris", "upstream")
    assert links_of(built)["new-york", "upstream"] == (5.0, 7.0)
    assert links_of(built)["upstream", "new-york"] == (5.0, 7.0)
    assert links_of(built)["zurich", "paris"] == (10_000.0, 2.443)


def test_options_of_every_link_hold_for_every_link():
    built = build(
        {"zoo.gml": ZOO}, file="zoo.gml", jitter_ms=1.0, loss_percent=0.5, queue_bytes=99_000
    )
    assert {(x.jitter_ms, x.loss_percent, x.queue_bytes) for x in built.links} == {
        (1.0, 0.5, 99_000)
    }


def test_parallel_edges_are_one_link_with_the_sum_of_rates_and_the_shortest_delay():
    text = """graph [ node [ id 0 ] node [ id 1 ]
      edge [ source 0 target 1 rate "10 Mbit/s" delay "5 ms" ]
      edge [ source 1 target 0 rate 20 delay 3 ]
      edge [ source 0 target 1 delay "1 s" ] ]"""
    both = {("node-0", "node-1"): (37.0, 3.0), ("node-1", "node-0"): (37.0, 3.0)}
    for header in ("graph [", "graph [ multigraph 1", "graph [ multigraph 0"):
        named = {"x.gml": text.replace("graph [", header, 1)}
        assert links_of(build(named, file="x.gml", default_rate_mbps=7.0)) == both


def test_an_edge_from_a_node_to_itself_is_ignored():
    text = NODES + "edge [ source 0 target 1 rate 5 delay 1 ] edge [ source 1 target 1 ] ]"
    assert links_of(build({"x.gml": text}, file="x.gml")) == {
        ("a", "b"): (5.0, 1.0),
        ("b", "a"): (5.0, 1.0),
    }


def test_a_directed_edge_without_its_reverse_stands_for_both_directions():
    text = """graph [ directed 1 node [ id 0 label "a" ] node [ id 1 label "b" ]
      node [ id 2 label "c" ]
      edge [ source 0 target 1 rate 10 delay 1 ] edge [ source 1 target 0 rate 20 delay 2 ]
      edge [ source 2 target 1 rate 30 delay 3 ] ]"""
    assert links_of(build({"x.gml": text}, file="x.gml")) == {
        ("a", "b"): (10.0, 1.0),
        ("b", "a"): (20.0, 2.0),
        ("b", "c"): (30.0, 3.0),
        ("c", "b"): (30.0, 3.0),
    }


def test_a_link_that_the_file_has_in_one_direction_is_a_note():
    rows = "src,dst,rate,delay\na,b,1,1\nb,a,2,1\nb,c,3,1\n"
    one = "1 link has no reverse in the file, so it stands for both directions: b -> c"
    assert build({"x.csv": rows}, file="x.csv").notes == (one,)
    more = "2 links have no reverse in the file, so each stands for both directions: b -> c, c -> a"
    assert build({"x.csv": f"{rows}c,a,1,1"}, file="x.csv").notes == (more,)
    nodes = 'node [ id 0 label "b" ] node [ id 1 label "c" ]'
    for directed, notes in ((1, (one,)), (0, ())):
        edge = "edge [ source 0 target 1 rate 30 delay 3 ]"
        text = f"graph [ directed {directed} {nodes} {edge} ]"
        assert build({"x.gml": text}, file="x.gml").notes == notes


def test_a_name_that_lacks_letters_of_its_label_or_has_a_number_is_a_note():
    labels = ["São Paulo (1)", "Łódź", "Oslo", "oslo", "Köln 東", "x" * 33, "7", "東京"]
    nodes = [f'node [ id {n} label "{label}" ] ' for n, label in enumerate(labels)]
    away = 'node [ id 8 label "北京" Internal 0 ] '
    edges = [f"edge [ source {n} target {n + 1} rate 1 delay 1 ] " for n in range(8)]
    text = f"graph [ {''.join(nodes)} {away} {''.join(edges)} ]"
    shortened = "x" * 32
    built = build({"x.gml": text}, file="x.gml")
    assert built.notes[1:] == (
        f"5 sites have another name than in the file: oslo-2 is 'oslo', koln is 'Köln 東', "
        f"{shortened} is '{'x' * 33}', node-7 is '7', node-7-2 is '東京'",
    )
    some = build({"x.gml": text}, file="x.gml", sites=["oslo", "oslo-2"])
    assert some.notes == built.notes


def test_equal_labels_are_numbered_and_words_that_are_no_names_get_one():
    labels = ["Oslo", "oslo", "oslo-2", "7", "None", "?", "", "backup", "São Paulo (GRU)", "?"]
    assert name_sites(labels) == [
        "oslo", "oslo-3", "oslo-2", "node-7", "node-none", "node", "node-2", "node-backup",
        "sao-paulo-gru", "node-3",
    ]  # fmt: skip
    assert name_sites(["1E", "1E", "1E"]) == ["1e", "node-1e-2", "node-1e-3"]
    assert name_site("a--b") == "a--b"
    assert name_site("aws:us-east-1") == "aws-us-east-1"
    assert name_site("x" * 50) == "x" * 32


@pytest.mark.parametrize(
    ("label", "name"),
    [("København", "kobenhavn"), ("Łódź", "lodz"), ("Æro", "aero"), ("Straße", "strasse"),
     ("Þórshöfn", "thorshofn"), ("Đakovo", "dakovo")],
)  # fmt: skip
def test_letters_of_latin_script_are_not_lost(label, name):
    assert name_site(label) == name


def test_a_node_whose_label_has_no_latin_letter_is_named_by_its_id():
    nodes = 'node [ id 4 label "東京" ] node [ id 7 label "Łódź" ]'
    network = read_gml(f"graph [ {nodes} edge [ source 4 target 7 rate 5 delay 1 ] ]")
    assert [node.name for node in network.nodes] == ["node-4", "lodz"]


@given(st.lists(st.text(max_size=40), max_size=20))
def test_every_label_gets_a_name_of_its_own_that_a_site_may_have(labels):
    names = name_sites(labels)
    assert len(set(names)) == len(labels)
    for name in names:
        check_site_name(name)


def test_graphml_is_the_same_network_as_gml():
    graph = networkx.parse_gml(ZOO.splitlines(), label="id")
    text = "\n".join(networkx.generate_graphml(graph))
    assert build({"x.graphml": text}, file="x.graphml").links == (
        build({"x.gml": ZOO}, file="x.gml").links
    )


@pytest.mark.parametrize("form", ["graphml", "gexf"])
def test_edges_without_a_value_of_their_own_have_the_default_of_the_format(form):
    graph = networkx.Graph()
    graph.add_edge("a", "b", bandwidth=5.0)
    graph.add_edge("b", "c")
    text = "\n".join(getattr(networkx, f"generate_{form}")(graph))
    if form == "graphml":
        of_key = '<key id="x" for="edge" attr.name="loss" attr.type="double">'
        of_key += "<default>1.5</default></key>"
        text = text.replace("<graph ", f"{of_key}<graph ", 1)
        text = text.replace(
            'attr.type="double" />', 'attr.type="double"><default>20</default></key>'
        )
    else:
        text = text.replace('title="bandwidth" type="double" />',
                            'title="bandwidth" type="double"><default>20</default></attribute>'
                            '<attribute id="x" title="loss" type="double"><default>1.5</default>'
                            "</attribute>")  # fmt: skip
    options = {"default_delay_ms": 3.0}
    links = build({f"x.{form}": text}, file=f"x.{form}", **options).links
    assert {(link.src, link.rate_mbps, link.loss_percent) for link in links} == {
        ("a", 5.0, 1.5), ("b", 5.0, 1.5), ("b", 20.0, 1.5), ("c", 20.0, 1.5)
    }  # fmt: skip


def test_delays_are_those_of_light_in_fibre_around_the_earth():
    pole, equator = Node("pole", 90.0, 0.0), Node("equator", 0.0, 50.0)
    assert great_circle_km(pole, equator) == pytest.approx(math.pi / 2 * 6371)
    assert find_delay_ms(pole, equator) == 50.072
    assert great_circle_km(Node("a", 0.0, 179.5), Node("b", 0.0, -179.5)) == pytest.approx(
        6371 * math.radians(1)
    )
    assert find_delay_ms(pole, Node("nowhere")) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty: expected nodes and links"),
        ("graph [ !", "not GML that networkx reads: cannot tokenize ! ] at (1, 23)"),
        ("graph [ node [ id 0 ] ]", "1 nodes: expected 2 to 10000"),
        (
            NODES + "edge [ source 0 target 1 ] ]",
            "no rate for a -> b, b -> a: give default_rate, such as default_rate: 10 Gbit/s\n"
            "no delay and no coordinates for a -> b, b -> a: give default_delay, such as "
            "default_delay: 10 ms",
        ),
        (
            NODES + "edge [ source 0 target 1 rate 5 ] ]",
            "no delay and no coordinates for a -> b, b -> a: give default_delay, such as "
            "default_delay: 10 ms",
        ),
        (
            NODES + 'edge [ source 0 target 1 rate "5 MB" ] ]',
            "edge a - b: rate '5 MB': expected a rate above 0 in Mbit/s, or with a unit (bit/s, "
            "kbit/s, Mbit/s, Gbit/s)",
        ),
        (
            NODES + 'edge [ source 0 target 1 delay "-5" ] ]',
            "edge a - b: delay '-5': expected a time of 0 or more in ms, or with a unit (us, ms, "
            "s)",
        ),
        (
            NODES + 'edge [ source 0 target 1 LinkSpeed "5" ] ]',
            "edge a - b: LinkSpeed with LinkSpeedUnits: expected one of K, M, G",
        ),
        (
            NODES + 'edge [ source 0 target 1 LinkSpeed "5" LinkSpeedUnits "Q" ] ]',
            "edge a - b: LinkSpeed with LinkSpeedUnits 'Q': expected one of K, M, G",
        ),
        (
            NODES + 'node [ id 2 label "c" Latitude "north" ] ]',
            "node c: latitude 'north': expected a number of degrees",
        ),
        (
            NODES + 'node [ id 2 label "c" Longitude 181 ] ]',
            "node c: longitude 181.0: expected -180 to 180",
        ),
        (
            NODES + 'node [ id 2 label "c" ] edge [ source 0 target 1 rate 5 delay 1 ] ]',
            "not connected: c cannot be reached from a; the network has 2 parts, of 2 + 1 nodes: "
            "part: largest takes the 2 nodes around a, or name sites: in one part",
        ),
        (
            NODES + "edge [ source 0 target 1 rate 0 delay 1 ] ]",
            "edge a - b: rate '0': expected a rate above 0 in Mbit/s, or with a unit (bit/s, "
            "kbit/s, Mbit/s, Gbit/s)",
        ),
        (
            "graph [" + "".join(f"node [ id {n} ]" for n in range(30000)) + "]",
            "30000 nodes: expected 2 to 10000",
        ),
        ("x" * 4_000_001, "4000001 characters: expected 4000000 or fewer"),
    ],
)
def test_a_wrong_gml_file_is_refused_with_its_place_and_what_is_allowed(text, message):
    with pytest.raises(TopologyError) as refused:
        build({"x.gml": text + " ]" * text.endswith("!")}, file="x.gml")
    assert (str(refused.value), refused.value.key) == (message, "file")


def test_a_python_without_networkx_is_told_what_it_lacks(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(TopologyError, match=r"GML needs networkx .* which this Python lacks"):
        build({}, file="os3e")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph [ ]", "not GraphML that networkx reads: syntax error: line 1, column 0"),
        ("<graphml/>", "not GraphML that networkx reads: file not successfully read as graphml"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><x/>', "expected XML without entities"),
    ],
)
def test_a_wrong_graphml_file_is_refused(text, message):
    with pytest.raises(TopologyError) as refused:
        build({"x.graphml": text}, file="x.graphml")
    assert str(refused.value) == message


@given(st.text(max_size=300))
def test_garbage_is_always_refused_by_a_topology_error(text):
    for options in ({"file": "x.gml"}, {"file": "x.graphml"}, {"file": "x.csv"}, {"rtts": "x"}):
        with pytest.raises(TopologyError):
            build(dict.fromkeys(("x.gml", "x.graphml", "x.csv", "x"), text), **options)
