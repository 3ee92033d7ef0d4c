"""How delays spread, files of measured delays, and impairments of all links or of one."""

import random
import statistics

import pytest

from trunkline.topologies import (
    Link,
    LinkOverride,
    TopologyError,
    distributions,
    file,
    full_mesh,
    link_defaults,
)
from trunkline.topologies.formats import delay_file
from trunkline.topologies.links import describe_impairments, fit


def mesh(**values):
    return full_mesh.build(random.Random(1), sites=3, rates_mbps=10.0, read=read, **values)


def read(name):
    return {"delays.csv": "\n".join(str(20 + number % 50) for number in range(500))}[name]


@pytest.mark.parametrize(
    ("name", "table"),
    [  # every 512th number of the 4,096 that iproute2's own programs make, without the first
        ("normal", (-9423, -5525, -2610, 0, 2611, 5526, 9424)),
        ("pareto", (-4964, -4362, -3609, -2622, -1237, 955, 5461)),
        ("paretonormal", (-6078, -4652, -3359, -1966, -275, 2097, 6451)),
    ],
)
def test_named_shapes_are_those_of_iproute2(name, table):
    shape = [8192 * each for each in distributions.shape(name)]
    assert shape[512::512] == pytest.approx(table, abs=8)
    assert shape == sorted(shape)
    assert max(shape) <= 32767


def test_a_uniform_shape_reaches_the_jitter_on_both_sides():
    shape = distributions.shape("uniform")
    assert (shape[0], shape[-1]) == pytest.approx((-1, 1), abs=0.001)
    assert statistics.fmean(shape) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("head", "unit", "factor"),
    [
        ("", "", 1.0),
        ("", " us", 0.001),
        ("# measured by ping\ndelay\n", "", 1.0),
        ("latency_us\n", "", 0.001),
        ("rtt (s)\n", "", 500.0),
        ("\ufeff'Delay (ms)'\n", "", 1.0),
    ],
)
def test_a_file_of_delays_has_its_unit_in_the_title_or_in_the_values(head, unit, factor):
    draw = random.Random(2)
    delays = [draw.gammavariate(2, 10) + 5 for _ in range(2000)]
    found = delay_file.read(head + "\n".join(f"{each:.4f}{unit}" for each in delays))
    assert found.delay_ms == pytest.approx(factor * statistics.fmean(delays), rel=1e-4)
    assert found.jitter_ms == pytest.approx(factor * statistics.pstdev(delays), rel=1e-4)
    shape = distributions.shape(found.distribution)
    for percent in (5, 25, 50, 75, 95):
        measured = statistics.quantiles(delays, n=100)[percent - 1]
        again = statistics.fmean(delays) + statistics.pstdev(delays) * shape[percent * 4096 // 100]
        assert again == pytest.approx(measured, rel=0.02)


def test_a_file_may_have_other_columns():
    rows = "\n".join(f"2026-01-01T00:00:{n:02};{n + 10} ms;ok" for n in range(40))
    found = delay_file.read("time;rtt;state\n" + rows)
    assert found.delay_ms == pytest.approx((10 + 19.5) / 2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1\n2\n3", "3 delays: expected 10 or more, one a line"),
        ("\n".join(["7"] * 20), "all delays are 7 ms: expected delays that differ"),
        ("a,b\n1,2", "'a,b': expected a title line with a column delay or rtt"),
        ("1,2\n3,4", "line 1: 2 columns: expected one, or a title line with delay"),
        ("delay\n1\nfast", "line 3: delay 'fast': expected a time of 0 or more in ms"),
        ("1\n-2", "line 2: '-2': expected a time of 0 or more in ms"),
    ],
)
def test_what_is_no_file_of_delays_is_named_with_its_line(text, problem):
    with pytest.raises(TopologyError) as refused:
        delay_file.read(text)
    assert str(refused.value).startswith(problem)


def test_all_links_have_what_the_topology_says_where_they_can():
    topology, refused = link_defaults.impair(
        mesh(delays_ms={"n1": {"n2": 0.0, "n3": 5.0}, "n2": {"n1": 5.0, "n3": 5.0},
                        "n3": {"n1": 5.0, "n2": 5.0}}),
        read, reorder_percent=1.0, duplicate_percent=2.0, correlation_percent=25.0,
    )  # fmt: skip
    assert refused == ()
    assert topology.link("n1", "n2").reorder_percent == 0.0
    words = "reorder 1 %, duplicate 2 %, correlation 25 %"
    assert describe_impairments(topology.link("n2", "n1")) == words


def test_a_file_gives_delay_and_jitter_where_there_is_no_jitter():
    topology, refused = link_defaults.impair(mesh(), read, distribution="delays.csv")
    link = topology.link("n1", "n2")
    assert refused == ()
    assert (link.delay_ms, link.jitter_ms) == pytest.approx((44.5, 14.43), abs=0.01)
    topology, _ = link_defaults.impair(mesh(jitter_ms=2.0), read, distribution="delays.csv")
    assert (topology.link("n1", "n2").delay_ms, topology.link("n1", "n2").jitter_ms) == (30.0, 2.0)
    override = LinkOverride("n1 -> n2", delay_ms=50.0, distribution="delays.csv")
    read_from = link_defaults.read_override(override, read)
    assert (read_from.delay_ms, read_from.jitter_ms) == (50.0, pytest.approx(14.43, abs=0.01))


def test_the_delays_of_a_link_have_limits():
    link = Link("a", "b", 10.0, 20.0, 4.0)
    limits = {
        "uniform": (16.0, 24.0, 4.0),
        "normal": (20 - 3.668 * 4, 20 + 3.668 * 4, 3.668 * 4),
        "-1,0,2.5": (16.0, 30.0, 10.0),
    }
    for distribution, (least, most, deviation) in limits.items():
        each = Link("a", "b", 10.0, 20.0, 4.0, distribution=distribution)
        found = each.least_delay_ms, each.most_delay_ms, each.most_deviation_ms
        assert found == pytest.approx((least, most, deviation), abs=0.01)
    overtaking = Link("a", "b", 10.0, 20.0, 4.0, reorder_percent=1.0)
    assert (overtaking.least_delay_ms, overtaking.most_deviation_ms) == (0.0, 20.0)
    assert fit(link) == link


def test_without_a_delay_a_link_has_nothing_that_needs_one():
    rough = Link("a", "b", 1.0, 5.0, 1.0, reorder_percent=1.0, distribution="normal",
                 correlation_percent=50.0)  # fmt: skip
    short = Link("a", "b", 1.0, 0.0, 1.0, reorder_percent=1.0, distribution="normal",
                 correlation_percent=50.0)  # fmt: skip
    assert fit(rough) == rough
    assert fit(short) == Link("a", "b", 1.0, 0.0)


def test_files_of_networks_have_shares_of_packets_too():
    text = "src,dst,rate,delay,reorder,duplication,corrupt (%)\na,b,10,5,1,0.5 %,\nb,a,10,5,,,2\n"
    made = file.build(random.Random(1), file="x.csv", read=lambda name: text)
    there, back = made.link("a", "b"), made.link("b", "a")
    assert (there.reorder_percent, there.duplicate_percent, there.corrupt_percent) == (1.0, 0.5, 0)
    assert (back.reorder_percent, back.duplicate_percent, back.corrupt_percent) == (0.0, 0.0, 2.0)
    assert made.origins["a", "b"]["reorder_percent"] == "reorder"
    assert made.notes == ()
    every, refused = link_defaults.impair(made, read, reorder_percent=3.0)
    assert refused == ()
    assert every.link("a", "b").reorder_percent == 1.0
    assert every.link("b", "a").reorder_percent == 3.0
    impossible = text.replace("a,b,10,5,1", "a,b,10,5,101")
    with pytest.raises(
        TopologyError, match="line 2: a -> b: reorder '101': expected a share of 0 to 100"
    ):
        file.build(random.Random(1), file="x.csv", read=lambda name: impossible)
