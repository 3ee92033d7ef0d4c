"""Networks from files: GML, GraphML, lists of links and matrices."""

import math
import random
import sys

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.harness.config import units
from trunkline.topologies import Link, Site, TopologyError, csv_file, file, full_mesh, star
from trunkline.topologies.graph_file import read_gml
from trunkline.topologies.model import check_site_name
from trunkline.topologies.network_file import Node, find_delay_ms, great_circle_km
from trunkline.topologies.node_names import name_site, name_sites
from trunkline.topologies.quantities import RATE, TIME, read_quantity


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
        ("", "not GML that networkx reads: input contains no graph"),
        ("graph [ !", "not GML that networkx reads: cannot tokenize ! ] at (1, 23)"),
        ("graph [ node [ id 0 ] ]", "1 nodes: expected 2 to 10000"),
        (
            NODES + "edge [ source 0 target 1 ] ]",
            "no rate for a -> b, b -> a: give default_rate\n"
            "no delay and no coordinates for a -> b, b -> a: give default_delay",
        ),
        (
            NODES + "edge [ source 0 target 1 rate 5 ] ]",
            "no delay and no coordinates for a -> b, b -> a: give default_delay",
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
            "not connected: c cannot be reached from a; the network has 2 parts, of 2, 1 nodes: "
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


# --- matrices

RATES = "# measured\n,a,b,c\na,,100,50 Mbit/s\nb,1 Gbit/s,0,\nc,50,-,\n"
RTTS = ",b,a,c\nb,,,\na,20,,30 ms\n\nc,,40,\n"


def test_matrices_have_a_value_for_each_direction_and_no_link_where_a_cell_is_empty():
    built = build({"r": RATES, "t": RTTS}, rates="r", rtts="t")
    assert built.sites == (Site("a"), Site("b"), Site("c"))
    assert links_of(built) == {
        ("a", "b"): (100.0, 10.0),
        ("a", "c"): (50.0, 15.0),
        ("b", "a"): (1000.0, 10.0),  # a round trip is the same both ways
        ("c", "a"): (50.0, 20.0),
    }


def test_delays_are_one_way_and_alone_say_which_links_exist():
    text = " ,a,b\na,-,5\nb,500 us,-"
    built = build({"d": text}, delays="d", default_rate_mbps=8.0)
    assert links_of(built) == {("a", "b"): (8.0, 5.0), ("b", "a"): (8.0, 0.5)}


@given(
    st.integers(2, 6).flatmap(
        lambda count: st.lists(
            st.floats(0.001, 1e6), min_size=count * (count - 1), max_size=count * (count - 1)
        ).map(lambda rates: (count, rates))
    )
)
def test_a_full_matrix_of_rates_is_a_full_mesh_of_exactly_these_rates(drawn):
    count, rates = drawn
    names = [f"n{n}" for n in range(1, count + 1)]
    given_rates = iter(rates)
    cells = {src: {dst: next(given_rates) for dst in names if dst != src} for src in names}
    rows = [
        ",".join([src, *("" if src == dst else repr(cells[src][dst]) for dst in names)])
        for src in names
    ]
    text = "\n".join([",".join(["", *names]), *rows])
    mesh = full_mesh.build(random.Random(1), sites=count, rates_mbps=cells, delays_ms=30.0)
    built = build({"r": text}, rates="r", default_delay_ms=30.0)
    assert (built.sites, built.links) == (mesh.sites, mesh.links)


MANY = "," + ",".join(f"s{n}" for n in range(300)) + "\n"
MANY += "".join(f"s{n}," + ",".join(["1"] * 300) + "\n" for n in range(300))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty: expected CSV with a header row"),
        ("a\n", "line 1: 0 nodes: expected 2 to 10000"),
        (",a,a\n", "line 1: a: expected each site once"),
        (",a,\n", "line 1: a site has no name"),
        (",a,b\na,,1,2\n", "line 2: 4 cells: expected 3 as in the header row"),
        (",a,b\na,,1\nc,1,\n", "line 3: c: expected one of the sites of the header row"),
        (",a,b\na,,1\na,,1\n", "line 3: a: expected each site once"),
        (",a,b\na,,1\n", "no row for b: each site has a row and a column"),
        (
            ",a,b\na,,ten\nb,1,\n",
            "line 2: a -> b: 'ten': expected a rate above 0 in Mbit/s, or with a unit (bit/s, "
            "kbit/s, Mbit/s, Gbit/s)",
        ),
        (
            ",a,b\na,,-1\nb,1,\n",
            "line 2: a -> b: '-1': expected a rate above 0 in Mbit/s, or with a unit (bit/s, "
            "kbit/s, Mbit/s, Gbit/s)",
        ),
        (",a,b\na,,1\nb,nan,\n",
         "line 3: b -> a: 'nan': expected a rate above 0 in Mbit/s, or with a unit (bit/s, kbit/s, "
         "Mbit/s, Gbit/s)"),
        (
            ",a,b\na,,1\nb,-,\n",
            "link a -> b: has no reverse; every link needs both directions",
        ),
        (",a,b\na,,1e9\nb,1,\n",
         "link a -> b: rate 1000000000 Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        (MANY, "50232 directed links: expected 50000 or fewer, a full mesh of 224 sites"),
        ('a,"b', "line 1: not CSV: unexpected end of data"),
    ],
)  # fmt: skip
def test_a_wrong_matrix_is_refused_with_its_line_and_what_is_allowed(text, message):
    with pytest.raises(TopologyError) as refused:
        build({"r": text}, rates="r", default_delay_ms=1.0)
    assert (str(refused.value), refused.value.key) == (message, "rates")


def test_all_rows_of_a_list_with_problems_are_refused_at_once():
    text = "src,dst,rate,rtt\na,b,1 GB,x\nb,c,-1,\nc,d\nd,d,10,\na,東京,1,\na,d,10,3\n"
    with pytest.raises(TopologyError) as refused:
        build({"links.csv": text}, file="links.csv")
    rate = "expected a rate above 0 in Mbit/s, or with a unit (bit/s, kbit/s, Mbit/s, Gbit/s)"
    assert list(refused.value.problems) == [
        f"line 2: a -> b: rate '1 GB': {rate}",
        "line 2: a -> b: rtt 'x': expected a time of 0 or more in ms, or with a unit (us, ms, s)",
        f"line 3: b -> c: rate '-1': {rate}",
        "line 4: 2 cells: expected 4 as in the header row",
        "line 5: d -> d: expected links between two sites",
        "line 6: '東京': expected a name of up to 32 Latin letters, digits and -",
    ]


def test_all_problems_of_a_matrix_of_gml_and_of_values_are_refused_at_once():
    with pytest.raises(TopologyError) as refused:
        build({"m.csv": ",a,b\na,,x\nc,1,\nb,y,\nb,1,\n"}, rates="m.csv")
    assert [text.split(": expected")[0] for text in refused.value.problems] == [
        "line 2: a -> b: 'x'",
        "line 3: c",
        "line 4: b -> a: 'y'",
        "line 5: b",
    ]
    with pytest.raises(TopologyError) as refused:
        build({"g.gml": f"{NODES} node [ id 2 lat 99 ] node [ id 3 lon 190 ] ]"}, file="g.gml")
    assert len(refused.value.problems) == 2
    with pytest.raises(TopologyError) as refused:
        build({"l.csv": "src,dst,rate,delay\na,b,1e9,1\nb,c,5,90 s\n"}, file="l.csv")
    assert [text.split(":")[1] for text in refused.value.problems] == [
        " rate 1000000000 Mbit/s", " rate 1000000000 Mbit/s", " delay 90000 ms", " delay 90000 ms"
    ]  # fmt: skip


def test_names_of_columns_may_have_capitals_and_a_byte_order_mark_is_skipped():
    network = csv_file.read_edges("\ufeffSrc,Dst,RATE\na,b,5\n")
    assert [edge.values.rate_mbps for edge in network.edges] == [5.0, 5.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src,Ziel\na,b\n", "line 1: no column dst: expected src, dst, and any of rate, delay"),
        ("src,rate\na,5\n", "line 1: no column dst: expected src, dst, and any of rate, delay"),
        (
            "src,dst,rate,dealy\na,b,5,1\n",
            "line 1: unknown column 'dealy': did you mean delay?: expected src, dst, and any of",
        ),
        ("a,b,10 ms\nb,c,5 ms\n", "line 1: a,b,10 ms: a header row is missing: expected src, dst"),
    ],
)
def test_a_wrong_header_is_named(text, message):
    with pytest.raises(TopologyError) as refused:
        csv_file.read_edges(text)
    assert str(refused.value).startswith(message)


def test_matrices_of_different_sites_or_with_holes_are_refused():
    with pytest.raises(TopologyError) as refused:
        build({"r": RATES, "t": ",a,b\na,,1\nb,1,\n"}, rates="r", rtts="t")
    assert str(refused.value) == "c: expected the same sites in both matrices"
    with pytest.raises(TopologyError) as refused:
        build({"r": RATES, "d": RTTS}, rates="r", delays="d")
    assert str(refused.value) == "no delay and no coordinates for b -> a: give default_delay"


MATRIX = ",a,b,c\na,,1,2\nb,3,,4 Gbit/s\nc,5,6,\n"


def test_other_builders_take_the_rates_and_delays_of_their_links_from_a_matrix():
    files = {"r.csv": MATRIX, "d.csv": MATRIX.replace("Gbit/s", "us")}
    built = star.build(
        random.Random(1),
        sites=["b", "a", "c"],
        rates_mbps="r.csv",
        delays_ms="d.csv",
        rate_factor=0.5,
        read=files.__getitem__,
    )
    assert links_of(built) == {
        ("b", "a"): (1.5, 3.0),
        ("a", "b"): (0.5, 1.0),
        ("b", "c"): (2000.0, 0.004),
        ("c", "b"): (3.0, 6.0),
    }
    mesh = full_mesh.build(
        random.Random(1), sites=["a", "b"], rates_mbps="r.csv", read=files.__getitem__
    )
    assert links_of(mesh) == {("a", "b"): (1.0, 30.0), ("b", "a"): (3.0, 30.0)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",a,b\na,,1\nb,,\n", "no value for a -> n3, n3 -> a"),
        (",a\na,\n", "line 1: 1 nodes: expected 2 to 10000"),
    ],
)
def test_a_matrix_that_lacks_a_link_of_the_builder_is_refused(text, message):
    options = {"sites": ["a", "n3"], "rates_mbps": "r.csv", "read": {"r.csv": text}.__getitem__}
    with pytest.raises(TopologyError) as refused:
        full_mesh.build(random.Random(1), **options)
    assert (str(refused.value), refused.value.key) == (
        f"rates_mbps: 'r.csv': {message}",
        "rates_mbps",
    )


# --- lists of links


def test_a_list_of_links_has_one_or_both_directions_of_each():
    text = "src,dst,rate,rtt_ms\nwest,east,10,5\neast,far,5 Gbit/s,1 s\nfar,east,1,3\n"
    built = build({"x.csv": text}, file="x.csv")
    assert built.site_names == ("west", "east", "far")
    assert links_of(built) == {
        ("west", "east"): (10.0, 2.5),
        ("east", "west"): (10.0, 2.5),
        ("east", "far"): (5000.0, 500.0),
        ("far", "east"): (1.0, 1.5),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            RATES,
            "line 2: ,a,b,c: expected src, dst, and any of rate, delay or rtt, jitter, loss and "
            "queue once each; a matrix is read with rates:, delays: or rtts:",
        ),
        (
            "src,dst,rate,rate_mbps\n",
            "line 1: two columns for rate: expected src, dst, and any of rate, delay or rtt, "
            "jitter, loss and queue once each; a matrix is read with rates:, delays: or rtts:",
        ),
        ("src,dst\n", "0 nodes: expected 2 to 10000"),
        (
            "src,dst\na,東京\n",
            "line 2: '東京': expected a name of up to 32 Latin letters, digits and -",
        ),
        ("src,dst\na,a\n", "line 2: a -> a: expected links between two sites"),
        ("src,dst\na,b\n\na,b\n", "line 4: a -> b: expected each link once"),
        ("src,dst,delay,rtt\na,b,1,3\n", "line 2: a -> b: expected either a delay or an rtt"),
        (
            "src,dst,rate\na,b,0e5\n",
            "line 2: a -> b: rate '0e5': expected a rate above 0 in Mbit/s, or with a unit (bit/s, "
            "kbit/s, Mbit/s, Gbit/s)",
        ),
        (
            f"src,dst,rate\na{'b' * 75},b,1\n",
            f"line 2: 'a{'b' * 38}…': expected a name of up to 32 Latin letters, digits and -",
        ),
        (
            "src,dst,rate\na,b,1 GB\n",
            "line 2: a -> b: rate '1 GB': expected a rate above 0 in Mbit/s, or with a unit "
            "(bit/s, kbit/s, Mbit/s, Gbit/s)",
        ),
    ],
)
def test_a_wrong_list_is_refused_with_its_line_and_what_is_allowed(text, message):
    with pytest.raises(TopologyError) as refused:
        build({"x.csv": text}, file="x.csv", default_rate_mbps=1.0, default_delay_ms=1.0)
    assert (str(refused.value), refused.value.key) == (message, "file")


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
            ".csv, .tsv, .txt, .edges, .edgelist, or a network that comes with Trunkline: os3e",
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
        build({"r": RATES}, **options)
    assert (str(refused.value), refused.value.key) == (message, key)


def test_without_a_scenario_files_are_relative_to_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "x.gml").write_text("\ufeff" + ZOO, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert len(file.build(random.Random(1), file="x.gml").sites) == 3
    with pytest.raises(TopologyError, match=r"y\.gml: cannot read: .*No such file"):
        file.build(random.Random(1), file="y.gml")


def test_the_units_of_a_file_are_those_of_a_scenario():
    for unit, dimension in ((RATE, units.RATE_MBPS), (TIME, units.TIME_MS)):
        for name in unit.sizes:
            assert read_quantity(f"2.5{name}", unit) == units.parse(f"2.5 {name}", dimension)
    assert read_quantity("1e999999999 Gbit/s", RATE) == math.inf


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
