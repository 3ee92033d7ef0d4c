"""Networks in CSV: matrices and lists of links."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.topologies import Site, TopologyError, file, full_mesh, star
from trunkline.topologies.formats import csv_file


def build(files, **options):
    return file.build(random.Random(1), read=files.__getitem__, **options)


def links_of(topology):
    return {(link.src, link.dst): (link.rate_mbps, link.delay_ms) for link in topology.links}


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


def test_a_delay_is_said_to_be_half_of_a_round_trip_or_a_delay_of_the_matrix():
    trips = build({"r": RATES, "t": RTTS}, rates="r", rtts="t")
    delays = build({"r": RATES, "t": RTTS.replace("b,,,", "b,,20,")}, rates="r", delays="t")
    said = [made.origins["a", "b"]["delay_ms"] for made in (trips, delays)]
    assert said == ["half of rtts", "delays"]


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
        ("a,b,c\n0,1,2\n1,0,2\n2,2,0\n",
         "rows begin with 0, 1, 2: the first column must name the sites"),
        (",a,b\na,,1\na,,1\n", "line 3: a: expected each site once"),
        (
            ",a,b\na,,1\n",
            "no row for b: each site has a row and a column, if need be with empty cells",
        ),
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
        "line 5: d -> d: expected two different sites as src and dst",
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
    places = ("", "", "lat 99", "lon 190")
    nodes = " ".join(f"node [ id {key} {place} ]" for key, place in enumerate(places))
    with pytest.raises(TopologyError) as refused:
        build({"g.gml": f"graph [ {nodes} ]"}, file="g.gml")
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
    ("header", "unused"),
    [
        ("node_a,node_b,bw,Loss(fraction)", ()),
        ("Sender,Receiver,avg_throughput_mbps,loss ratio", ()),
        ("end1,end2,mean bandwidth (Mbit/s),avg_loss_share", ()),
        ("Host 1,Host 2,rate,plr,p95_rtt_ms", (("p95_rtt_ms", "80"),)),
    ],
)
def test_columns_of_ends_means_and_shares_are_read(header, unused):
    network = csv_file.read_edges(f"{header}\np,q,5,0.02{',80' * bool(unused)}\n")
    values = network.edges[0].values
    assert (values.rate_mbps, values.loss_percent, values.unused) == (5.0, 2.0, unused)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src,Ziel\na,b\n", "line 1: no column dst (nor target, to, node2 or the like): expected"),
        ("src,rate\na,5\n", "line 1: no column dst (nor target, to, node2 or the like): expected"),
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
    assert str(refused.value) == (
        "no delay and no coordinates for b -> a: give default_delay, such as default_delay: 10 ms"
    )


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
        ("src,dst\na,a\n", "line 2: a -> a: expected two different sites as src and dst"),
        (
            "src,dst\na,b\n\na,b\n",
            "line 4: a -> b: line 2 has this link: expected a row for each link",
        ),
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


def test_a_column_that_is_not_read_is_named_and_a_misspelled_one_is_refused():
    gephi = "Source,Target,Type,Id,Label,timeset,Weight,latency\n1,2,Undirected,0,,,2.0,9\n"
    built = build({"x.csv": gephi}, file="x.csv", default_rate_mbps=5.0)
    assert links_of(built)["node-1", "node-2"] == (5.0, 9.0)
    assert built.notes == (
        "attribute Weight of edges is not used: node-1 - node-2 '2.0'",
        "columns that are not read: 'Id', 'Label', 'timeset'",
    )
    with pytest.raises(TopologyError, match="unknown column 'bandwith': did you mean bandwidth"):
        build({"x.csv": "src,dst,bandwith\na,b,5\n"}, file="x.csv", default_delay_ms=1.0)


@pytest.mark.parametrize(
    "text",
    [
        '\ufeffsrc;dst;rate;delay\r\nMünchen;"O\'Hare; US";5,5;12,5 ms\r\n',
        'sep=;\nsrc;dst;rate;delay\nMünchen;"O\'Hare; US";5,5;12,5\n',
        "Dst|SRC | Rate (kbps)|DELAY_US\nO'Hare: US|München|5500| 12500\n",
        "src\tdst\trate\trtt\t\rMünchen\tO'Hare US\t5.5\t25 ms\t\r",
        'from,to,Speed (MB/s),latency\n\n# x\n"München","O\'Hare, US",0.6875,0.0125 s\n',
    ],
    ids=["BOM and CRLF", "Excel", "bars", "tabs and CR", "comments"],
)
def test_lists_of_spreadsheets_have_their_values(text):
    built = build({"x.csv": text}, file="x.csv")
    assert links_of(built)["munchen", "o-hare-us"] == (5.5, 12.5)
    assert built.notes == (
        "1 link has no reverse in the file, so it stands for both directions: munchen -> o-hare-us",
    )


def test_an_undirected_row_is_both_directions_of_a_link():
    rows = "Source,Target,Type,rate\na,b,Undirected,10\nb,c,Directed,5\n"
    with pytest.raises(TopologyError) as refused:
        build({"x.csv": f"{rows}b,a,Directed,5\nc,b,Undirected,5\n"}, file="x.csv")
    assert refused.value.problems == (
        "line 4: b -> a: line 2 has this link: expected a row for each link",
        "line 5: c -> b: line 3 has this link: expected a row for each link",
    )
    built = build({"x.csv": f"{rows}c,b,Directed,6\n"}, file="x.csv", default_delay_ms=1.0)
    assert links_of(built)["b", "a"] == (10.0, 1.0)
    assert links_of(built)["c", "b"] == (6.0, 1.0)
    cables = "src,dst,Type,rate\na,b,fibre,10\nb,a,copper,5\n"
    built = build({"x.csv": cables}, file="x.csv", default_delay_ms=1.0)
    assert built.notes == ("columns that are not read: 'Type'",)


def test_lists_of_edges_need_no_header_row():
    defaults = {"default_rate_mbps": 5.0, "default_delay_ms": 1.0}
    caida = "# inferred clique: 1 2\n1|2|-1\n2|3|0\n"
    built = build({"20240101.as-rel.txt": caida}, file="20240101.as-rel.txt", **defaults)
    assert built.site_names == ("node-1", "node-2", "node-3")
    assert [note for note in built.notes if "weight" in note]
    plain = build({"x.edges": "a b\nb c\n"}, file="x.edges", **defaults)
    assert len(plain.links) == 4
