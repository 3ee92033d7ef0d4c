"""The topology files as stock Mininet takes them: `mn --custom FILE --topo NAME`."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trunkline.topologies import Link, Site, Topology, TopologyError, file, internet2, star
from trunkline.topologies.mininet_topo import to_topo

ROOT = Path(__file__).parents[2]


def ends_and_parameters(topo):
    return {
        (node1, node2): (info["params1"], info["params2"])
        for node1, node2, info in topo.links(withInfo=True)
    }


def test_a_site_is_a_host_and_an_edge_is_a_link_shaped_at_each_sender():
    links = (Link("a", "b", 20.0, 30.0, 2.5, 0.02, queue_bytes=15_140), Link("b", "a", 155.0, 10.0))
    topo = to_topo(Topology("pair", (Site("a"), Site("b")), links))
    assert (topo.hosts(), topo.switches()) == (["a", "b"], [])
    assert ends_and_parameters(topo) == {
        ("a", "b"): (
            # 81,250 bytes in flight for at most 32.5 ms, and 15,140 queued
            {"bw": 20.0, "delay": "30.000ms", "jitter": "2.500ms", "loss": 0.02,
             "max_queue_size": 64},
            # 193,750 bytes in flight for 10 ms, and 775,000 (155 Mbit/s x 40 ms) queued
            {"bw": 155.0, "delay": "10.000ms", "jitter": None, "loss": 0.0,
             "max_queue_size": 640},
        )
    }  # fmt: skip


def test_parameters_of_the_command_line_become_options_of_the_builder():
    topo = star.topos["star"](3, hub="n2", rates_mbps="20+30", delays_ms=5, seed=4)
    both = [shape for pair in ends_and_parameters(topo).values() for shape in pair]
    assert ends_and_parameters(topo).keys() == {("n1", "n2"), ("n2", "n3")}
    assert {shape["delay"] for shape in both} == {"5.000ms"}
    assert len({shape["bw"] for shape in both}) == 4
    assert all(20 <= shape["bw"] <= 30 for shape in both)


def test_a_plus_sign_joins_the_regions_of_a_list():
    topo = star.topos["star"]("aws:eu-west-1+gcp:us-central1", rates_mbps="intercloud")
    ((forth, back),) = ends_and_parameters(topo).values()
    assert (forth["bw"], forth["delay"], back["bw"], back["delay"]) == (
        220.2, "52.763ms", 67.9, "52.281ms",
    )  # fmt: skip


def test_interface_names_are_mininets_own_where_the_kernel_takes_them():
    links = [Link(a, b, 1.0) for a, b in (("n1", "eu-stockholm"), ("eu-stockholm", "n1"))]
    topo = to_topo(Topology("pair", (Site("n1"), Site("eu-stockholm")), tuple(links)))
    info = topo.linkInfo("n1", "eu-stockholm")
    assert (info["intfName1"], info["intfName2"]) == ("n1-eth0", "eth0")


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (
            (), {"rates_mbps": 1500.0},
            "link n1 -> n2: rate 1500 Mbit/s: stock Mininet shapes 1000 Mbit/s or less",
        ),
        (
            (), {"rate": 5},
            "parameter 'rate': expected one of sites, hub, rates_mbps, delays_ms, jitter_ms, "
            "loss_percent, queue_bytes, rate_factor, seed, each once",
        ),
        (
            (4,), {"sites": 5},
            "parameter 'sites': expected one of sites, hub, rates_mbps, delays_ms, jitter_ms, "
            "loss_percent, queue_bytes, rate_factor, seed, each once",
        ),
        (tuple(range(1, 10)), {}, "9 parameters: at most 8 are allowed"),
    ],
)  # fmt: skip
def test_what_stock_mininet_cannot_do_is_refused(values, options, message):
    with pytest.raises(TopologyError) as error:
        star.topos["star"](*values, **options)
    assert str(error.value) == message


def test_the_function_that_reads_files_is_no_parameter_of_the_command_line():
    with pytest.raises(
        TopologyError, match="parameter 'read': expected one of file, rates, delays, "
    ):
        file.topos["file"]("os3e", read=5)


LOAD = """
import sys
customs = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), customs, customs)
from mininet.util import buildTopo
topo = buildTopo(customs["topos"], sys.argv[2])
print(len(topo.hosts()), len(topo.links()))
"""


@pytest.mark.parametrize(
    ("topo", "printed"),
    [
        ("internet2", "9 13"),
        ("star", "5 4"),
        ("star,6", "6 5"),
        ("full_mesh,4", "4 6"),
        ("racks,2,3", "6 15"),
        ("file,os3e,rate_factor=0.001", "34 42"),
        ("file,rates=r.csv,default_delay_ms=5", "2 1"),
    ],
)
def test_a_file_executed_as_mn_executes_it_finds_its_package(topo, printed, tmp_path):
    file = ROOT / "topologies" / f"{topo.partition(',')[0]}.py"
    (tmp_path / "r.csv").write_text(",a,b\na,,10\nb,20,\n")
    argv = [sys.executable, "-c", LOAD, str(file), topo]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (printed, "")


def run_mn(embedded, topo: str, *options: str) -> str:
    """What `mn --custom topologies/NAME.py --topo NAME,...` prints in the embedded kernel."""
    file = f"topologies/{topo.partition(',')[0]}.py"
    mn = ["mn", "--custom", file, "--topo", topo, *options]
    done = embedded.run(["timeout", "--kill-after=5", "600", *mn], cwd=ROOT)
    assert done.code == 0, done.output
    assert "Caught exception" not in done.output, done.output
    return done.output


def test_stock_mn_loads_internet2_and_shapes_every_direction(embedded, tmp_path):
    script = tmp_path / "commands"
    ports = range(3)
    classes = "".join(f"n3 tc class show dev n3-eth{port}\n" for port in ports)
    script.write_text("n3 tc qdisc show\n" + classes)
    output = run_mn(embedded, "internet2,5", "--pre", str(script), "--test", "none")
    netem = re.findall(r"netem 10: dev n3-eth(\d) .* delay (\S+) loss (\S+)", output)
    assert netem == [(str(port), "30ms", "0.02%") for port in ports]
    rates = [int(kbit) / 1000 for kbit in re.findall(r"class htb 5:1 .* rate (\d+)Kbit", output)]
    built = internet2.build(random.Random(1), sites=5)
    expected = [built.link("n3", name).rate_mbps for name in built.neighbours("n3")]
    assert rates == pytest.approx(expected, abs=0.001)
    assert "*** Stopping 6 links" in output


def test_stock_mn_loads_a_star_of_a_given_size_whose_hosts_reach_the_hub(embedded):
    output = run_mn(embedded, "star,3,delays_ms=7", "--test", "pingpair")
    assert "(100.00Mbit 7.000ms delay" in output
    assert "Results: 0% dropped (2/2 received)" in output
    assert "*** Stopping 2 links" in output


COMMANDS = """
pingall
link n1 n2 down
pingall
link n1 n2 up
pingall
iperf n2 n3
iperfudp 10M n2 n3
"""


def test_in_stock_mn_links_go_down_and_up_and_iperf_measures(embedded, tmp_path):
    """A leaf of the star is alone without its link, and its routes come back with the link.

    Leaves reach each other over the hub, so a part of the pings crosses another host.
    """
    script = tmp_path / "commands"
    script.write_text(COMMANDS)
    output = run_mn(embedded, "star,4,delays_ms=1", "--pre", str(script), "--test", "none")
    pings = re.findall(r"Results: (\d+)% dropped \((\S+) received\)", output)
    assert pings == [("0", "12/12"), ("50", "6/12"), ("0", "12/12")]
    tcp, udp = re.findall(r"\*\*\* Results: (\[.*\])", output)
    for rate in re.findall(r"([\d.]+) Mbits/sec", tcp):
        assert float(rate) == pytest.approx(95, abs=5)
    sent, *rates = re.findall(r"([\d.]+) ?M", udp)
    assert sent == "10"
    assert [float(rate) for rate in rates] == pytest.approx([10, 10], rel=0.1)
