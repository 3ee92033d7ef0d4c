"""Networks as other programs write them: what each says, in each format, and what is not used."""

import json
import math
import random

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.topologies import TopologyError, file


def build(text, name="x.gml", **options):
    return file.build(random.Random(1), read={name: text}.__getitem__, file=name, **options)


def values(topology, src, dst):
    link = topology.link(src, dst)
    return link.rate_mbps, link.delay_ms, link.jitter_ms, link.loss_percent, link.queue_bytes


# --- Shadow

SHADOW = """\
graph [
  directed 0
  node [ id 0 label "Oslo" host_bandwidth_down "100 Mbit" host_bandwidth_up "20 Mbit" ]
  node [ id 1 label "Rome" host_bandwidth_down "1 Gbit" host_bandwidth_up "1 Gbit" ]
  node [ id 2 label "Kyiv" host_bandwidth_down "50 Mbit" host_bandwidth_up "50 Mbit" ]
  edge [ source 0 target 0 latency "4 ms" packet_loss 0.0 ]
  edge [ source 0 target 1 latency "80 ms" jitter "3 ms" packet_loss 0.1 ]
  edge [ source 1 target 2 latency "125 ms" packet_loss 0.01 ]
]
"""


def test_a_network_of_shadow_has_its_latencies_losses_and_the_bandwidths_of_its_hosts():
    built = build(SHADOW)
    assert built.site_names == ("oslo", "rome", "kyiv")
    one, other = (built.overlay.link(*pair) for pair in (("oslo", "rome"), ("rome", "kyiv")))
    assert (one.rate_mbps, one.delay_ms, one.jitter_ms) == (20.0, 80.0, 3.0)
    assert (other.rate_mbps, other.delay_ms, other.jitter_ms) == (50.0, 125.0, 0.0)
    assert (one.loss_percent, other.loss_percent) == (pytest.approx(10), pytest.approx(1))
    assert built.overlay.link("rome", "oslo").rate_mbps == 100.0
    assert values(built, "oslo-gw", "rome-gw")[:4] == (1150.0, 80.0, 3.0, 10.0)
    assert built.origins["oslo", "oslo-gw"]["rate_mbps"] == "host_bandwidth_up, host_bandwidth_down"
    assert built.origins["oslo-gw", "rome-gw"]["loss_percent"] == "packet_loss"
    assert [note for note in built.notes if "self_loops: access" in note and "oslo 4 ms" in note]


def test_an_edge_to_itself_is_twice_the_delay_of_an_access_link_on_request():
    built = build(SHADOW, self_loops="access", rate_factor=0.1)
    assert built.link("oslo", "oslo-gw").delay_ms == 2.0
    assert built.link("oslo", "oslo-gw").rate_mbps == 2.0
    assert built.overlay.link("oslo", "rome").delay_ms == 82.0
    assert not [note for note in built.notes if "itself" in note]
    plain = SHADOW.replace("host_bandwidth", "x")
    only = build(plain, self_loops="access", default_rate_mbps=7.0)
    assert only.routers == ("oslo-gw",)
    assert only.link("oslo", "oslo-gw").rate_mbps == 7.0


def test_directed_edges_have_values_for_each_direction():
    text = """graph [ directed 1 node [ id 0 label "a" ] node [ id 1 label "b" ]
      edge [ source 0 target 1 latency "10 ms" bandwidth "5 Mbit" packet_loss 0.02 jitter "1 ms" ]
      edge [ source 1 target 0 latency "30 ms" bandwidth "2 Mbit" queue "30 packets" ] ]"""
    built = build(text)
    assert values(built, "a", "b") == (5.0, 10.0, 1.0, 2.0, None)
    assert values(built, "b", "a") == (2.0, 30.0, 0.0, 0.0, 45_420)


def test_options_hold_for_links_for_which_the_file_has_no_value():
    text = """graph [ node [ id 0 label "a" ] node [ id 1 label "b" ] node [ id 2 label "c" ]
      edge [ source 0 target 1 delay 10 rate 5 loss 2 jitter 1 queue 9000 ]
      edge [ source 1 target 2 delay 10 rate 5 ] ]"""
    built = build(text, loss_percent=1.0, jitter_ms=4.0, queue_bytes=70_000)
    assert values(built, "a", "b") == (5.0, 10.0, 1.0, 2.0, 9000)
    assert values(built, "b", "c") == (5.0, 10.0, 4.0, 1.0, 70_000)
    assert built.origins["a", "b"]["loss_percent"] == "loss"
    assert built.origins["b", "c"]["loss_percent"] == "default (loss)"


def test_impossible_values_of_a_file_are_a_problem_of_the_file():
    text = """graph [ node [ id 0 label "a" ] node [ id 1 label "b" ]
      edge [ source 0 target 1 delay 2 rate 5 jitter 3 queue 100 ] ]"""
    with pytest.raises(TopologyError) as refused:
        build(text)
    assert refused.value.key == "file"
    assert "link a -> b: jitter 3 ms: expected 0 to the link's delay, 2 ms" in str(refused.value)


# --- formats

EDGES = [
    ("oslo", "rome", {"bandwidth": "50 Mbit/s", "latency": "20 ms", "loss": 0.5}),
    ("rome", "kyiv", {"bandwidth": "8 Mbit/s", "distance": 1999, "jitter": "1 ms"}),
]
WANTED = {
    ("oslo", "rome"): (50.0, 20.0, 0.0, 0.5, None),
    ("rome", "kyiv"): (8.0, 10.002, 1.0, 0.0, None),
}


def make_graph(kind=networkx.Graph):
    graph = kind()
    graph.add_edges_from(EDGES)
    return graph


def write_json(graph, **words):
    return json.dumps(networkx.node_link_data(graph, **words))


def write_gexf(graph):
    return "\n".join(networkx.generate_gexf(graph))


def number(graph):
    """The graph with numbers for nodes and their names in `name`, as igraph writes it."""
    names = list(graph)
    numbered = networkx.relabel_nodes(graph, {name: key for key, name in enumerate(names)})
    networkx.set_node_attributes(numbered, dict(enumerate(names)), "name")
    return numbered


DOT = """\
# made by hand
graph net {
  node [shape=circle]; edge [color=red];
  oslo [label="Oslo"]  /* the north */
  "oslo" -- rome [bandwidth="50 Mbit/s", latency="20 ms", loss=0.5];
  rome--kyiv [bandwidth="8 Mbit/s" distance=1999, jitter="1 ms" weight=5];  // the east
}
"""
D3 = {
    "nodes": [{"name": "oslo"}, {"name": "rome"}, {"name": "kyiv"}],
    "links": [{"source": 0, "target": 1, **EDGES[0][2]}, {"source": 1, "target": 2, **EDGES[1][2]}],
}
CYTOSCAPE = networkx.cytoscape_data(make_graph())
CSV = """\
Source;Target;Bandwidth (Mbit/s);latency_ms;distance km;jitter;loss
oslo;rome;50;20;;;0,5
rome;kyiv;8;;1999;1 ms;
"""
EDGE_LIST = "\n".join(networkx.generate_edgelist(make_graph()))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.gml", "\n".join(networkx.generate_gml(make_graph()))),
        ("x.graphml", "\n".join(networkx.generate_graphml(make_graph()))),
        ("x.graphml", "\n".join(networkx.generate_graphml(number(make_graph())))),
        ("x.gexf", write_gexf(make_graph())),
        ("x.json", write_json(make_graph(), edges="links")),
        ("x.json", write_json(make_graph(), edges="edges")),
        ("x.json", write_json(number(make_graph()), edges="links")),
        ("x.json", write_json(make_graph(networkx.MultiDiGraph), edges="links")),
        ("x.json", json.dumps(D3)),
        ("x.json", json.dumps(CYTOSCAPE)),
        ("x.dot", DOT),
        ("x.gv", DOT.replace("graph net", "strict digraph").replace("--", "->")),
        ("x.csv", CSV),
        ("x.tsv", CSV.replace("0,5", "0.5").replace(";", "\t")),
        ("x.csv", CSV.replace("0,5", "0.5").replace(";", ",")),
        ("x.edgelist", EDGE_LIST),
    ],
)
def test_the_same_network_in_every_format(name, text):
    built = build(text, name)
    assert built.site_names == ("oslo", "rome", "kyiv")
    assert {pair: values(built, *pair) for pair in WANTED} == WANTED
    back = {pair: values(built, *pair[::-1]) for pair in WANTED}
    assert back == WANTED


def test_a_directed_graph_in_json_and_dot_has_values_for_each_direction():
    rows = [
        {"source": "a", "target": "b", "bw": 5, "delay": 1},
        {"source": "b", "target": "a", "bw": 6, "delay": 2},
    ]
    nodes = [{"id": "a"}, {"id": "b"}]
    texts = {
        "x.json": json.dumps({"directed": True, "nodes": nodes, "edges": rows}),
        "x.dot": "digraph { a -> b [bw=5, delay=1]; b -> a [bw=6, delay=2] }",
        "x.csv": "from,to,bw,delay\na,b,5,1\nb,a,6,2\n",
    }
    for name, text in texts.items():
        built = build(text, name)
        assert (values(built, "a", "b")[:2], values(built, "b", "a")[:2]) == ((5, 1), (6, 2)), name


def test_attributes_of_json_may_be_nested():
    nodes = [{"id": "a", "data": {"uplink": 5, "geo": {"lat": 3, "lon": 4}}}, {"id": "b"}]
    link = {"source": "a", "target": "b", "data": {"latency": "80 ms", "bw": 50},
            "rtt": {"mean": 3}, "meta": [{"mtu": 1500}, {"mtu": 900}]}  # fmt: skip
    built = build(json.dumps({"nodes": nodes, "links": [link]}), "x.json")
    assert values(built, "a-gw", "b")[:2] == (50.0, 80.0)
    assert values(built, "a", "a-gw")[0] == 5.0
    assert built.places == (("a", 3.0, 4.0),)
    assert built.notes == (
        "attribute rtt mean of edges is not used: a - b '3'",
        "attribute meta[0] mtu of edges is not used: a - b '1500'",
        "attribute meta[1] mtu of edges is not used: a - b '900'",
    )
    link["data"]["bw"] = [1, 2]
    with pytest.raises(TopologyError, match=r"edge a - b: bw '\[1, 2\]': expected a rate"):
        build(json.dumps({"nodes": nodes, "links": [link]}), "x.json")


def test_subgraphs_and_chains_of_dot_are_edges():
    text = "graph { edge [bw=3, delay=2] subgraph cluster_eu { a -- b -- c } d -- {a c} }"
    built = build(text, "x.dot")
    assert {frozenset((link.src, link.dst)) for link in built.links} == {
        frozenset(pair) for pair in ("ab", "bc", "da", "dc")
    }
    assert {link.rate_mbps for link in built.links} == {3.0}


YED = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">
  <key for="node" id="d6" yfiles.type="nodegraphics"/>
  <key attr.name="latency" attr.type="string" for="edge" id="d7"/>
  <key for="edge" id="d10" yfiles.type="edgegraphics"/>
  <graph edgedefault="directed" id="G">
    <node id="n0"><data key="d6"><y:ShapeNode><y:Geometry height="30.0" width="30.0" x="5" y="6"/>
      <y:NodeLabel alignment="center">Osaka</y:NodeLabel></y:ShapeNode></data></node>
    <node id="n1"><data key="d6"><y:ShapeNode><y:Geometry height="30.0" width="30.0" x="5" y="6"/>
      <y:NodeLabel alignment="center">São Paulo</y:NodeLabel></y:ShapeNode></data></node>
    <edge id="e0" source="n0" target="n1"><data key="d7">140 ms</data>
      <data key="d10"><y:PolyLineEdge><y:EdgeLabel>100 Mbit/s</y:EdgeLabel></y:PolyLineEdge></data>
    </edge>
  </graph>
</graphml>
"""


def test_a_drawing_of_yed_has_its_labels_and_its_edge_labels_are_named():
    built = build(YED, "x.graphml", default_rate_mbps=10.0)
    assert built.site_names == ("osaka", "sao-paulo")
    assert values(built, "osaka", "sao-paulo")[:2] == (10.0, 140.0)
    assert [note for note in built.notes if "'100 Mbit/s'" in note and "default_rate" in note]


SNDLIB = """<?xml version="1.0" encoding="ISO-8859-1"?>
<network xmlns="http://sndlib.zib.de/network" version="1.0">
 <networkStructure>
  <nodes coordinatesType="geographical">
   <node id="Aachen"><coordinates><x>6.04</x><y>50.76</y></coordinates></node>
   <node id="Berlin"><coordinates><x>13.48</x><y>52.52</y></coordinates></node>
   <node id="Ulm"><coordinates><x>10.0</x><y>48.4</y></coordinates></node>
  </nodes>
  <links>
   <link id="L1"><source>Aachen</source><target>Berlin</target>
    <preInstalledModule><capacity>622.0</capacity><cost>0.0</cost></preInstalledModule>
    <additionalModules><addModule><capacity>2488.0</capacity><cost>5.0</cost></addModule>
    </additionalModules></link>
   <link id="L2"><source>Berlin</source><target>Ulm</target>
    <preInstalledModule><capacity>0.0</capacity><cost>0.0</cost></preInstalledModule>
    <additionalModules><addModule><capacity>40.0</capacity><cost>1.0</cost></addModule>
    </additionalModules></link>
   <link id="L3"><source>Ulm</source><target>Aachen</target>
    <additionalModules><addModule><capacity>40.0</capacity><cost>1.0</cost></addModule>
    <addModule><capacity>160.0</capacity><cost>2.0</cost></addModule></additionalModules></link>
  </links>
 </networkStructure>
</network>
"""


def test_sndlib_has_capacities_and_coordinates():
    built = build(SNDLIB, "germany.xml", default_rate_mbps=5.0)
    assert values(built, "aachen", "berlin")[:2] == (622.0, 2.748)
    assert values(built, "ulm", "berlin")[0] == 40.0
    assert values(built, "ulm", "aachen")[0] == 5.0
    assert built.notes == (
        "several capacities could be installed, so default_rate holds: Ulm - Aachen",
    )
    pixels = SNDLIB.replace("geographical", "pixel")
    assert (
        values(
            build(pixels, "x.xml", default_rate_mbps=5.0, default_delay_ms=9.0), "ulm", "berlin"
        )[1]
        == 9.0
    )


REPETITA = """NODES 3
label x y
0_New_York -74.00597 40.71427
1_Chicago -87.65005 41.85003
2_Node 0.0 0.0

EDGES 4
label src dest weight bw delay
edge_0 0 1 1 9953280 5695
edge_1 1 0 1 622080 5700
edge_2 1 2 1 10000 100
edge_3 2 1 1 10000 100
"""


def test_repetita_has_bandwidths_in_kbit_and_delays_in_us():
    built = build(REPETITA, "Abilene.graph")
    assert built.site_names == ("new-york", "chicago", "node")
    assert values(built, "new-york", "chicago")[:2] == (9953.28, 5.695)
    assert values(built, "chicago", "new-york")[:2] == (622.08, 5.7)
    assert values(built, "node", "chicago")[:2] == (10.0, 0.1)
    assert built.notes == ()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", "{", "not JSON: "),
        ("x.json", "[1, 2]", "expected node-link data: a mapping with nodes: [...] and links:"),
        ("x.json", '{"nodes": [{"id": 1}, {"id": 1}], "links": []}', "node 1: id 1: expected"),
        ("x.json", '{"nodes": [{"id": 1}, {"id": 2}], "links": [{"source": 1, "target": 3}]}',
         "link 0: target 3: there is no node of this id"),
        ("x.dot", "graph { a -- b", "the end of the file: expected }"),
        ("x.dot", "graph {\n a -- <b> }", "line 2: '<b> }': expected nodes, edges and attributes; "
         "HTML is not read"),
        ("x.dot", "network { }", "expected graph { ... } or digraph { ... }"),
        ("x.xml", "<a/>", "not SNDlib's XML: expected network > networkStructure > nodes, links"),
        ("x.xml", "<a", "not XML: "),
        ("x.graph", "NODES 1\nlabel x y\na 1\n", "line 3: 'a 1': expected label x y"),
        ("x.graph", "a b\n", "line 1: 'a b': expected NODES, and then EDGES"),
        ("x.gexf", "<gexf/>", "not GEXF that networkx reads: "),
        ("x.csv", "site,a,b,c\na,1,2,3\n", "line 1: site,a,b,c: a header row is missing: expected"),
    ],
)  # fmt: skip
def test_a_wrong_file_of_each_format_is_refused(name, text, message):
    with pytest.raises(TopologyError) as refused:
        build(text, name, default_rate_mbps=1.0, default_delay_ms=1.0)
    assert str(refused.value).startswith(message)
    assert refused.value.key == "file"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\ufeff \r\n", "empty: expected nodes and links"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:12\n",
         "a pointer of Git LFS (`git lfs pull` gets the file): expected the file of a network"),
        ("\n<!DOCTYPE html>\n<html></html>", "a web page: expected the file of a network itself"),
        ("src,dst,rate\na\0,b,5\n", "line 2: a character 0: expected text, not binary data"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [each for each in file.READERS if each != ".gv"])
def test_a_file_that_is_obviously_something_else_is_named(text, message, suffix):
    with pytest.raises(TopologyError) as refused:
        build(text, f"x{suffix}")
    assert str(refused.value).startswith(message)


def test_numbers_of_gml_need_no_point():
    ends = 'node [ id 0 label "1e5 a" ] node [ id 1 label "b" ]'
    text = f"graph [ {ends} edge [ source 0 target 1 bw 1e2 delay 0e0 loss_rate 1e-05 ] ]"
    built = build(text)
    assert values(built, "1e5-a", "b")[:4] == (100.0, 0.0, 0.0, 0.001)


@given(st.text(max_size=200), st.sampled_from(sorted(file.READERS)))
def test_garbage_in_any_format_is_refused_by_a_topology_error(text, suffix):
    for prefix in (
        "",
        "graph { ",
        '{"nodes": [',
        "NODES 2\n",
        "<network><networkStructure>",
        "a b\n",
    ):
        with pytest.raises(TopologyError):
            build(prefix + text, f"x{suffix}", default_rate_mbps=math.inf)


# --- parts and hyperedges

PARTED = """graph [
  node [ id 0 label "a" ] node [ id 1 label "b" ] node [ id 2 label "c" ]
  node [ id 3 label "d" ] node [ id 4 label "e" ] node [ id 5 label "f" ]
  edge [ source 4 target 5 rate 1 delay 1 ]
  edge [ source 0 target 1 rate 1 delay 1 ] edge [ source 1 target 2 rate 1 delay 1 ] ]"""


def test_the_largest_part_of_a_network_may_be_chosen_and_the_error_says_how():
    with pytest.raises(TopologyError) as refused:
        build(PARTED)
    assert str(refused.value) == (
        "not connected: e cannot be reached from a; the network has 3 parts, of 3 + 2 + 1 nodes: "
        "part: largest takes the 3 nodes around a, or name sites: in one part"
    )
    built = build(PARTED, part="largest")
    assert built.site_names == ("a", "b", "c")
    assert built.notes == ("not connected, so nodes of other parts are left out: e, f, d",)
    assert build(PARTED, sites=["e", "f"]).site_names == ("e", "f")
    for sites, message in (
        (
            ["a", "e"],
            "sites: e cannot be reached from a: expected sites in one part; that of a has a,",
        ),
        (["a", "x"], "sites: 'x': expected one of a, b, c, e, f, d"),
    ):
        with pytest.raises(TopologyError, match=message) as refused:
            build(PARTED, sites=sites)
        assert refused.value.key == "sites"
    with pytest.raises(TopologyError, match="'e': expected one of a, b, c"):
        build(PARTED, sites=["a", "e"], part="largest")


HYPER = """graph [
  node [ id 0 label "a" ] node [ id 1 label "b" ] node [ id 2 label "c" ]
  node [ id 3 label "" hyperedge 1 ] node [ id 4 label "d" ]
  edge [ source 0 target 3 rate 1 delay 1 ] edge [ source 1 target 3 rate 1 delay 1 ]
  edge [ source 2 target 3 rate 1 delay 1 ] edge [ source 2 target 4 rate 1 delay 1 ] ]"""


def test_a_hyperedge_is_a_router_between_its_sites():
    built = build(HYPER)
    assert (built.site_names, built.routers) == (("a", "b", "c", "d"), ("node-3",))
    assert {link.dst for link in built.overlay.links if link.src == "a"} == {"b", "c"}
    assert built.overlay.neighbours("d") == ("c",)
    assert built.overlay.link("a", "b").delay_ms == 2.0
    assert built.path("a", "d") == ("a", "node-3", "c", "d")
    assert "node-3 is a router, because the file says so, and no site" in built.notes
    assert build(HYPER, sites=["a", "d"]).site_names == ("a", "d")
    with pytest.raises(TopologyError, match="'node-3': a router of the file"):
        build(HYPER, sites=["a", "node-3"])
