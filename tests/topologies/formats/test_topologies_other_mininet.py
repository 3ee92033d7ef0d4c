"""Files that others have written for `mn --custom`, as topologies of a scenario."""

import shutil

import pytest

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.scenario.loading import load

FILE = """
from mininet.link import TCLink
from mininet.net import Mininet
from mininet.node import Node
from mininet.topo import Topo


class LinuxRouter(Node):
    def config(self, **params):
        super().config(**params)
        self.cmd("sysctl net.ipv4.ip_forward=1")


class MyTopo(Topo):
    def build(self, n=2, **_opts):
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2", failMode="standalone")
        self.addLink(s1, s2, cls=TCLink, bw=10, delay="25ms", jitter="2ms", loss=1,
                     max_queue_size=100, use_htb=True)
        for i in range(n):
            self.addLink(self.addHost("h%d" % (i + 1), cpu=0.5), s1, bw=100, delay="1ms")
        far = self.addHost("Far", ip="10.0.0.9/24")
        self.addLink(far, s2, params1=dict(bw=5, delay="3ms"),
                     params2=dict(bw=20, delay="500us", max_queue_size=50), speedup=3)
        self.addLink(self.addHost("plain"), s2)


class Routed(Topo):
    def __init__(self, **opts):
        Topo.__init__(self, **opts)
        r0 = self.addNode("r0", cls=LinuxRouter)
        for name in ("a", "b"):
            self.addLink(self.addHost(name), r0, bw=10, delay="2ms")


topos = {"mytopo": (lambda n=2: MyTopo(n=n)), "routed": Routed}

if __name__ == "__main__":
    Mininet(topo=MyTopo()).start()
"""
SCENARIO = """
topology: {builder: mytopo.py, topo: TOPO}
workload: {kind: synthetic, model: 100 kB}
scheme: {policy: bsp, plan: ps}
stop: {rounds: 1}
"""


def read(folder, topo='"mytopo"', code=FILE):
    (folder / "mytopo.py").write_text(code)
    (folder / "x.yaml").write_text(SCENARIO.replace("TOPO", topo))
    return load(folder / "x.yaml").topology


def values(topology, src, dst):
    link = topology.link(src, dst)
    return link.rate_mbps, link.delay_ms, link.jitter_ms, link.loss_percent, link.queue_bytes


def test_hosts_are_sites_switches_are_routers_and_links_have_their_parameters(tmp_path):
    made = read(tmp_path)
    assert made.site_names == ("h1", "h2", "far", "plain")
    assert made.routers == ("s1", "s2")
    assert values(made, "s1", "s2") == values(made, "s2", "s1") == (10, 25, 2, 1, 151_400)
    assert values(made, "far", "s2")[:2] == (5.0, 3.0)
    assert values(made, "s2", "far") == (20.0, 0.5, 0.0, 0.0, 75_700)
    assert values(made, "plain", "s2")[:2] == (1000.0, 0.0)
    assert made.overlay.neighbours("h1") == ("h2", "far", "plain")
    assert made.origins["s1", "s2"]["queue_bytes"] == "max_queue_size"
    for text in ("attribute speedup of edges", "links without bw have default_rate: plain - s2"):
        assert [note for note in made.notes if text in note], made.notes


def test_a_topo_has_a_name_and_parameters_as_on_the_command_line_of_mn(tmp_path):
    assert len(read(tmp_path, '"mytopo,5"').sites) == 7
    assert len(read(tmp_path, '"mytopo,n=3"').sites) == 5
    routed = read(tmp_path, "routed")
    assert (routed.site_names, routed.routers) == (("a", "b"), ("r0",))
    assert routed.overlay.link("a", "b").delay_ms == 4.0


def test_one_class_needs_no_dict_and_hosts_may_have_direct_links(tmp_path):
    code = """
from mininet.topo import Topo
class Ring(Topo):
    def build(self):
        hosts = [self.addHost(name) for name in ("a", "b", "c")]
        for one, other in zip(hosts, hosts[1:] + hosts[:1]):
            self.addLink(one, other, bw=10, delay="5ms")
"""
    made = read(tmp_path, '""', code)
    assert (made.routers, made.neighbours("a")) == ((), ("b", "c"))
    grid = "from mininet.topolib import TorusTopo\ntopos = {'torus': TorusTopo}"
    assert len(read(tmp_path, '"torus,3,3"', grid).sites) == 9


@pytest.mark.parametrize(
    ("topo", "code", "message"),
    [
        ('""', FILE, "topology.topo: '': expected one of mytopo, routed"),
        ('"x,3"', FILE, "topology.topo: x,3: 'x': expected one of mytopo, routed"),
        ('"mytopo,k=3"', FILE, "topology.topo: mytopo,k=3: got an unexpected keyword argument"),
        (
            "mytopo",
            FILE.replace('delay="25ms"', "delay=25"),
            "link s1 -> s2: delay '25': expected a time with a unit, such as '25ms'; tc would",
        ),
        (
            "mytopo",
            FILE.replace("bw=10,", "bw=-1,"),
            "link s1 -> s2: bw '-1': expected a rate above",
        ),
        (
            "mytopo",
            FILE.replace("max_queue_size=100", "max_queue_size=0"),
            "link s1 -> s2: max_queue_size '0': expected a number of packets, 1 or more",
        ),
        ("mytopo", FILE.replace("bw=10,", "bw=1 / 0,"), "line 17: ZeroDivisionError"),
        ("mytopo", "x = 1", "expected a file with a function build(rng, *, ...), or a class of"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_starts(tmp_path, topo, code, message):
    with pytest.raises(ScenarioErrors) as refused:
        read(tmp_path, topo, code)
    assert message in str(refused.value)


HOSTS = "net = Mininet()\nnet.addLink(net.addHost('a'), net.addHost('b'))\n"
NET = "from mininet.net import Mininet\n"
TOPO = "from mininet.topo import Topo as Base\nclass T(Base):\n    pass\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (NET + HOSTS, "a script of Mininet that makes a network itself: it has not been run: "),
        (f"{NET}def main():\n    net = Mininet()\nmain()\n", "a script of Mininet that"),
        (f"{NET}if __name__ == '__main__':\n    build = Mininet()\n", "a script of Mininet that"),
        ("def make(): build = 1\nclass C: topos = {}\nprint(3)\n", "expected a file with a funct"),
        ("import numpy as np\n", "expected a file with a function build(rng, *, ...), or a class"),
        (f"{TOPO}{NET}{HOSTS}", "line 5: a script of Mininet that makes a network itself: it has"),
        (f"{TOPO}{NET}def run():\n    Mininet(T()).start()\ndef all():\n    run()\nall()\n",
         'line 9: a script of Mininet that makes a network itself: it has not been run: expected '
         'that under `if __name__ == "__main__":`'),
    ],
)  # fmt: skip
def test_a_script_that_makes_its_own_network_is_refused_without_running_it(tmp_path, code, message):
    ran = tmp_path / "ran"
    with pytest.raises(ScenarioErrors) as refused:
        read(tmp_path, '""', f"{code}\nopen({str(ran)!r}, 'w').close()\n")
    assert f"topology.builder: mytopo.py: {message}" in str(refused.value)
    assert not ran.exists()


@pytest.mark.parametrize(
    ("topo", "code"),
    [
        ("mytopo", f"{FILE}\ndef run():\n    Mininet(MyTopo())\n"),
        ("torus", "from mininet.topolib import *\ntopos = {'torus': lambda: TorusTopo(3, 3)}\n"),
        ('"A,3,3"', "import mininet.topolib as lib\nclass A(lib.TorusTopo): pass\n"),
    ],
)
def test_a_script_with_a_topology_is_run_but_not_its_main_part(tmp_path, topo, code):
    assert len(read(tmp_path, topo, code).sites) > 2


@pytest.mark.skipif(not shutil.which("brctl"), reason="needs bridge-utils")
def test_stock_mn_connects_its_hosts_by_linux_bridges(embedded, tmp_path):
    (tmp_path / "mytopo.py").write_text(FILE.replace("loss=1", "loss=0"))
    mn = ["mn", "--custom", str(tmp_path / "mytopo.py"), "--topo", "mytopo", "--switch", "lxbr"]
    mn += ["--controller", "none", "--link", "tc", "--test", "pingall"]
    done = embedded.run(["timeout", "--kill-after=5", "600", *mn])
    assert "Results: 0% dropped (12/12 received)" in done.output, done.output
