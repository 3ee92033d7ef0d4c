"""Measure the time to build and remove a network, beside stock Mininet with TCLink.

    sudo python benchmarks/network_build.py --sites 5 10 20 40 60
    sudo python benchmarks/network_build.py --sites 60 --ours-only

Both build a full mesh in this machine's kernel, with both directions of every link shaped to a
rate. Each runs in its own namespaces: stock Mininet puts its links' ends into the namespace in
which it runs for a while.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRIVATE = ("unshare", "--pid", "--fork", "--mount-proc", "--net")
RATE_MBPS = 100

OURS = """
import json, sys, time
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology
count, rate = int(sys.argv[1]), float(sys.argv[2])
names = [f"h{i}" for i in range(count)]
links = tuple(Link(src, dst, rate) for src in names for dst in names if src != dst)
network = MininetNetwork(Topology("mesh", tuple(map(Site, names)), links))
times = [time.monotonic()]
network.start()
times.append(time.monotonic())
network.stop()
times.append(time.monotonic())
print(json.dumps(times))
"""
STOCK = """
import json, sys, time
from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.topo import Topo
setLogLevel("critical")  # it complains about every link's HTB quantum
count, rate = int(sys.argv[1]), float(sys.argv[2])
class Mesh(Topo):
    def build(self):
        hosts = [self.addHost(f"h{i}") for i in range(count)]
        for i, host in enumerate(hosts):
            for other in hosts[i + 1:]:
                self.addLink(host, other, bw=rate)
times = [time.monotonic()]
network = Mininet(topo=Mesh(), link=TCLink, controller=None)
network.start()
times.append(time.monotonic())
network.stop()
times.append(time.monotonic())
print(json.dumps(times))
"""


def main() -> None:
    """Measure both; print a line for each, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--repeat", type=int, default=1, help="measurements of each")
    parser.add_argument("--ours-only", action="store_true", help="leave stock Mininet out")
    arguments = parser.parse_args()
    for sites in (n for n in arguments.sites for _ in range(arguments.repeat)):
        ours = measure(OURS, sites)
        show("trunkline", sites, ours)
        if not arguments.ours_only:
            stock = measure(STOCK, sites)
            show("mininet", sites, stock)
            up, down = (theirs / mine for theirs, mine in zip(stock, ours, strict=True))
            sys.stdout.write(f"ratio      up {up:.1f}  down {down:.1f}\n")
        sys.stdout.flush()


def measure(source: str, sites: int) -> tuple[float, float]:
    """Run the source in its own namespaces; return the seconds to build and to remove."""
    command = [*PRIVATE, sys.executable, "-c", source, str(sites), str(RATE_MBPS)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    start, up, down = json.loads(done.stdout.rstrip().rsplit("\n", 1)[-1])
    return up - start, down - up


def show(who: str, sites: int, times_s: tuple[float, float]) -> None:
    """Print seconds, and milliseconds per link."""
    links = sites * (sites - 1) // 2
    up_s, down_s = times_s
    sys.stdout.write(
        f"{who:10} {sites} sites, {links} links: up {up_s:.2f} s ({up_s / links * 1e3:.2f} ms "
        f"per link), down {down_s:.2f} s ({down_s / links * 1e3:.2f} ms per link)\n"
    )


if __name__ == "__main__":
    main()
