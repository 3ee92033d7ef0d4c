"""The network: Mininet's hosts, with our own links between them.

Only this file, `mininet_objects` and `mininet_cli` import Mininet.

`Topo`, `Mininet` and `Host` are Mininet's, so its command line, `net["tokyo"].cmd("ping ...")`,
`pingall` and `iperf` work here. Mininet makes and shapes each link through a shell. We do that over
netlink for all links together: `wiring` makes them, `shaping` shapes them.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from mininet.net import Mininet  # type: ignore[import-untyped]

from trunkline.agents.planning.plan import Directed
from trunkline.harness.network import read_back, shaping, ways, wiring
from trunkline.harness.network.capture import open_tap
from trunkline.harness.network.interface import (
    Cut,
    Datagrams,
    LinkCounters,
    NetworkError,
    NetworkOptions,
    change_link,
    device_index,
    device_name,
    first_device,
    hardware_address,
    site_address,
)
from trunkline.harness.network.mininet_objects import start_mininet
from trunkline.harness.network.namespace import Namespace, Statistics, check_rights
from trunkline.harness.network.netlink import RefusedError, Request
from trunkline.harness.network.node_settings import choose_congestion_control, make_settings
from trunkline.harness.network.read_back import Device, Interface, Listener
from trunkline.harness.processes import ownership
from trunkline.topologies.links import Link
from trunkline.topologies.model import Topology

SENT_DATA = ("TCPOrigDataSent", "OutDatagrams")
"""The kernel's counters of packets with data that a namespace has sent."""

DATAGRAMS = ("OutDatagrams", "InDatagrams", "NoPorts")
"""Those of UDP in the order of `Datagrams`."""


class MininetNetwork:
    """A `Network` in the kernel that this process runs in, under that kernel's clock."""

    def __init__(
        self, topology: Topology, options: NetworkOptions | None = None, seed: int = 0
    ) -> None:
        self.topology = topology
        self.mininet: Mininet | None = None
        self._options = options or NetworkOptions()
        self._seed = seed
        self._namespaces: dict[str, Namespace] = {}
        self._shaper: shaping.Shaper = shaping.RouterAndWire()
        self._routed_algorithm: str | None = None
        self._links: dict[Directed, Link] = {
            (link.src, link.dst): replace(link, queue_bytes=topology.queue_bytes(link))
            for link in topology.links
        }
        self._cuts: set[tuple[Directed, Cut]] = set()
        self._counted = {ends: LinkCounters() for ends in self._links}

    def start(self) -> None:
        """Builds the network; if that fails, removes everything again."""
        check_rights()
        try:
            self._start_hosts()
            self._configure_sites()
            self._make_links()
            tag, own = ownership.Owner.me().tag, self._make_own_interfaces()
            for site, namespace in self._namespaces.items():
                rank = self.topology.rank(site)
                requests = wiring.raise_links(rank, tag, self._options, has_own_interface=own)
                namespace.channel.perform(requests)
            # Links are shaped after their interfaces are up, because that opens them for traffic
            # at once. By itself the kernel opens about 100 interfaces a second.
            self._shape_links()
            for site, namespace in self._namespaces.items():
                namespace.channel.perform(self._connections(site))
        except BaseException:
            self.stop()
            raise

    def _make_own_interfaces(self) -> bool:
        """Makes an interface for each site's address; False if the kernel has none of its kind."""
        try:
            for site, namespace in self._namespaces.items():
                rank = self.topology.rank(site)
                namespace.channel.perform([wiring.make_own_interface(rank, self._options)])
        except RefusedError as refused:
            if refused.code != errno.EOPNOTSUPP:
                raise
            return False
        return True

    def stop(self, leave_links: bool = False) -> None:
        """Removes all interfaces, shells and namespaces; a second call does nothing.

        A namespace with a process that does not belong to the run stays, without its links. With
        `leave_links` they are left to the kernel, which ends soon: it removes 1,000 in a second.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self._stop_hosts)
            if self._namespaces and not leave_links:
                # A request to remove links takes about 25 ms, for any number of links. All sites
                # wait at the same time.
                pool = stack.enter_context(ThreadPoolExecutor(len(self._namespaces)))
                list(pool.map(_remove_links, self._namespaces.values()))

    def enter(self, site: str) -> None:
        """Moves the calling process into the site. The process must have one thread only."""
        self._namespace(site).enter()

    def open_socket(self, site: str) -> socket.socket:
        """A TCP socket that belongs to the site: it stays in the namespace where it was made."""
        with self._namespace(site).inside():
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def address(self, site: str) -> str:
        """The site's one IPv4 address, reachable from every site."""
        return site_address(self.topology.rank(site))

    def device(self, src: str, dst: str) -> str:
        """The interface at `src` towards a node that it has a link or an overlay link to."""
        return first_device(self.topology, src, dst)

    def set_link(self, src: str, dst: str, **values: Any) -> None:
        """Changes values of the directed link src -> dst, by their names in `CHANGEABLE`."""
        self.topology.link(src, dst)
        old = self._links[src, dst]
        new = change_link(old, **values)
        index = device_index(self.topology.rank(dst))
        channel = self._namespace(src).channel
        channel.perform(self._shaper.change(old, new, index))
        self._links[src, dst] = new

    def cut(self, src: str, dst: str, how: Cut) -> None:
        """Stops the direction src -> dst, or both (`carrier`); a second call does nothing."""
        ends = self._ends(src, dst, how)
        if (ends, how) in self._cuts:
            return
        if how == "blackhole":
            requests = self._shaper.swallow(
                self._links[ends], device_index(self.topology.rank(src))
            )
            self._namespace(dst).channel.perform(requests)
        else:
            for here, there in (ends, ends[::-1]):
                down = wiring.lower_link(self.topology.rank(here), self.topology.rank(there))
                self._namespace(here).channel.perform([down])
        self._cuts.add((ends, how))

    def mend(self, src: str, dst: str, how: Cut) -> None:
        """Undoes a `cut` of the same kind; without such a cut, does nothing."""
        ends = self._ends(src, dst, how)
        if (ends, how) not in self._cuts:
            return
        if how == "blackhole":
            requests = self._shaper.deliver(
                self._links[ends], device_index(self.topology.rank(src))
            )
            self._namespace(dst).channel.perform(requests)
        else:
            self._raise_link(*ends)
        self._cuts.remove((ends, how))

    def counters(self) -> dict[Directed, LinkCounters]:
        """The counters of every directed link, by (src, dst).

        If somebody has removed its interface or its shaping, they are those before.
        """
        channels = {node: self._namespace(node).channel for node in self.topology.node_names}
        carried = {site: self._shaper.counters(channel) for site, channel in channels.items()}
        lost = {site: self._shaper.swallowed(channel) for site, channel in channels.items()}
        index = {site: device_index(self.topology.rank(site)) for site in channels}
        for src in channels:
            for dst in self.topology.neighbours(src):
                if (counted := carried[src].get(index[dst])) is not None:
                    swallowed = lost[dst].get(index[src], 0)
                    self._counted[src, dst] = replace(counted, swallowed=swallowed)
        return dict(self._counted)

    def listen(self, node: str) -> Listener:
        """Hear of changes of the node's links that the run does not make."""
        namespace = self._namespace(node)
        with namespace.inside():
            return Listener(namespace.channel)

    def read_back(self, node: str) -> dict[int, Interface]:
        """What the kernel has for the interfaces of a node, by their indices."""
        return read_back.read(self._namespace(node).channel)

    def wanted(self, node: str) -> Iterator[tuple[str, int, Interface]]:
        """The far end and the index of each link from a node, and what the run has set."""
        for end in self.topology.neighbours(node):
            here, there = self.topology.rank(node), self.topology.rank(end)
            shaping_ = read_back.describe(*self._shaper.options(self._links[node, end]))
            device = Device(
                up=not self._is_lowered(node, end),
                mtu=self._options.mtu,
                address=hardware_address(here, there),
            )
            yield end, device_index(there), Interface(device, shaping_)

    def differing_ways(self, node: str) -> Iterator[ways.Difference]:
        """How the node's routes, addresses and neighbours differ from what the run has set."""
        down = {end for end in self.topology.neighbours(node) if self._is_lowered(node, end)}
        channel = self._namespace(node).channel
        return ways.differences(channel, self.topology, node, self._options, down)

    def _is_lowered(self, node: str, end: str) -> bool:
        """Whether the run itself has lowered the link's interfaces."""
        return (self._ends(node, end, "carrier"), "carrier") in self._cuts

    def tap(self, src: str, dst: str) -> socket.socket:
        """A socket for copies of the packets that arrive over the link src -> dst."""
        self.topology.link(src, dst)
        try:
            with self._namespace(dst).inside():
                return open_tap(device_name(self.topology.rank(dst), self.topology.rank(src)))
        except OSError as error:
            what = f"cannot capture packets: {error.strerror}"
            raise NetworkError(what, f"link {src} -> {dst}", "CAP_NET_RAW, Linux 4.20") from error

    def short_of_memory(self) -> list[str]:
        """The sites at which TCP has reached the limit of its memory."""
        sites = self.topology.site_names
        return [site for site in sites if self._namespace(site).statistic("TCPMemoryPressures")]

    def with_data(self) -> list[str]:
        """The sites whose TCP has sent data, also if only to themselves."""
        sites = self.topology.site_names
        return [site for site in sites if self._namespace(site).statistic(SENT_DATA[0])]

    def datagrams(self) -> dict[str, Datagrams]:
        """What the UDP of each site has counted, also of what it sent to itself."""
        return {
            site: Datagrams(*map(self._namespace(site).statistic, DATAGRAMS))
            for site in self.topology.site_names
        }

    @contextlib.contextmanager
    def counting_data(self) -> Iterator[Callable[[str], int]]:
        """How many packets with data a site's TCP and UDP have sent, also to itself."""
        with contextlib.ExitStack() as opened:
            statistics = {
                site: opened.enter_context(contextlib.closing(Statistics(self._namespace(site))))
                for site in self.topology.site_names
            }
            yield lambda site: sum(map(statistics[site].read, SENT_DATA))

    def _ends(self, src: str, dst: str, how: Cut) -> Directed:
        """The key of a cut. Both directions of a carrier have the same key."""
        self.topology.link(src, dst)
        return (dst, src) if how == "carrier" and dst < src else (src, dst)

    def _raise_link(self, src: str, dst: str) -> None:
        """Sets both ends up and restores the routes and neighbours that they lost."""
        directions = ((src, dst), (dst, src))
        for here, there in directions:
            up = wiring.raise_link(self.topology.rank(here), self.topology.rank(there))
            self._namespace(here).channel.perform([up])
        for here, there in directions:
            opened = wiring.open_link(self.topology.rank(here), self.topology.rank(there))
            self._namespace(here).channel.perform([*opened, *self._connections(here, there)])

    def _connections(self, site: str, through: str | None = None) -> Iterator[Request]:
        return wiring.set_routes(
            self.topology, site, self._options, self._routed_algorithm, through
        )

    def _namespace(self, site: str) -> Namespace:
        self.topology.rank(site)
        if site not in self._namespaces:
            raise NetworkError("the network is not running", f"site {site}")
        return self._namespaces[site]

    def _start_hosts(self) -> None:
        self.mininet = start_mininet(self.topology)
        self._namespaces = {host.name: host.namespace for host in self.mininet.hosts}

    def _stop_hosts(self) -> None:
        self._namespaces = {}
        if self.mininet is not None:
            self.mininet.stop()
            self.mininet = None

    def _configure_sites(self) -> None:
        settings = make_settings(self._options)
        for namespace in self._namespaces.values():
            wanted = self._options.congestion_control
            self._routed_algorithm = choose_congestion_control(namespace, wanted)
            namespace.write_settings(settings)

    def _make_links(self) -> None:
        for site, namespace in self._namespaces.items():
            src = self.topology.rank(site)
            ends = [(self.topology.rank(end), end) for end in self.topology.neighbours(site)]
            namespace.channel.perform(
                wiring.make_pair(src, dst, self._namespaces[end].handle, self._options)
                for dst, end in ends
                if src < dst
            )
        if not self._options.offloads:
            for site, namespace in self._namespaces.items():
                with namespace.inside():
                    wiring.stop_merging(
                        self.device(site, end) for end in self.topology.neighbours(site)
                    )

    def _shape_links(self) -> None:
        first = next(iter(self._namespaces.values()))
        links = tuple(self._links.values())
        self._shaper = shaping.choose(first.channel, links, self._options.mtu)
        for src, namespace in self._namespaces.items():
            namespace.channel.perform(
                request
                for dst in self.topology.neighbours(src)
                for request in self._shaper.install(
                    self._links[src, dst],
                    device_index(self.topology.rank(dst)),
                    shaping.link_seed(self._seed, self.topology.rank(src), self.topology.rank(dst)),
                )
            )


def _remove_links(namespace: Namespace) -> None:
    try:
        namespace.channel.perform([wiring.remove_links()])
    except RefusedError as refused:
        if refused.code != errno.ENODEV:  # other sites, at the far ends, have removed them all
            raise
