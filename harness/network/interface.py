"""The emulated network as the rest of the harness sees it, and an in-memory fake of it.

Names, addresses and indices depend on the ranks of the sites only. So two runs of a scenario look
the same to every program inside, and the kernel need not be asked for them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from trunkline.agents.planning.plan import Directed
from trunkline.topologies.links import Link, TopologyError, check_values
from trunkline.topologies.model import Topology

Cut = Literal["blackhole", "carrier"]
"""How a link fails. `blackhole`: packets of one direction no longer arrive, also those under way,
and neither site is told. `carrier`: the interfaces at both ends go down. Both directions stop,
their queues are lost, and both sites notice it at once."""

_FIRST_ADDRESS = 0x0A000001
_FIRST_IPV6_ADDRESS = 0xFD << 120 | 1

HOSTS = "hosts"
"""The file in the folder `log` of a run with the addresses of all sites."""

ETHERNET_HEADER_BYTES = 14
"""The Ethernet header of every packet on a link: rates and queues include it."""

TCP_IP_HEADER_BYTES = 52
"""The headers of IP and of TCP with timestamps in every packet with payload."""

EMPTY_PACKET_BYTES = 94
"""The most bytes of a packet without payload: Ethernet, IPv4, and TCP with all options."""


class NetworkError(RuntimeError):
    """The network cannot be built or changed.

    Attributes:
        what: what happened.
        where: the link or site, or empty.
        remedy: what helps, or empty.
    """

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        parts = [f"{where}: " if where else "", what, f"; remedy: {remedy}" if remedy else ""]
        super().__init__("".join(parts))


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """Settings of all sites and links.

    Options:
        congestion_control: TCP's algorithm (`cubic`, `reno`, `bbr`); the kernel must have it.
        offloads: whether TCP passes packets of up to 64 KB to links, which takes less processor
            time. Without offloads packets have at most `mtu` bytes, as on a real network, so that
            loss and queues act on single packets.
        mtu: the largest IP packet on every link, in bytes.
        slow_start_after_idle: whether a connection begins with slow start again after it was idle.
        initial_window: packets that a new connection may send at once.
        hystart: whether `cubic` leaves slow start before it loses packets: when round trips grow
            (`delay`), when acknowledgements keep coming for a whole round trip (`train`), at the
            first of both (`true`, as Linux does by default), or never. The setting holds for a
            whole kernel, so only the embedded kernel can change it.
        pacing: whether the agents' connections spread their packets over the round trip, as Linux
            does with its `fq` queue, instead of sending a whole window at once.
        connections: how many TCP connections two neighbours share, 1 to 16; only 1 with awareness.
            With several, losses slow each one down alone. Chunks take the connection that is free,
            and are delivered in the order in which they were begun.
        may_change: whether programs and typed commands may change links, routes and addresses
            themselves, with `tc` or `ip`. If not, the verdict of a run in which they did is
            `unknown`.
        ipv6: whether every site has an IPv6 address, too, for programs; agents use IPv4. Without
            it, programs can open IPv6 sockets, but only IPv4 addresses exist.
    """

    congestion_control: str = "cubic"
    offloads: bool = False
    mtu: int = 1500
    slow_start_after_idle: bool = False
    initial_window: int = 10
    hystart: bool | Literal["train", "delay"] = True
    pacing: bool = True
    connections: int = 1
    may_change: bool = False
    ipv6: bool = False

    @property
    def kernel_parameters(self) -> tuple[str, ...]:
        """The words that these settings add to the embedded kernel's command line."""
        match self.hystart:
            case True:
                return ()
            case False:
                return ("tcp_cubic.hystart=0",)
            case "train":
                return ("tcp_cubic.hystart_detect=1",)
            case "delay":
                return ("tcp_cubic.hystart_detect=2",)


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """Counters of one directed link since it was built.

    Attributes:
        bytes: the bytes that crossed the link, Ethernet headers included.
        packets: the packets that crossed the link.
        queue_drops: packets that did not fit into its queue.
        losses: packets that were lost at random.
        swallowed: packets that crossed the link and vanished in a blackhole.
    """

    bytes: int = 0
    packets: int = 0
    queue_drops: int = 0
    losses: int = 0
    swallowed: int = 0

    @property
    def drops(self) -> int:
        """The packets that the link did not deliver, without those queued when it went down."""
        return self.queue_drops + self.losses + self.swallowed


@dataclass(frozen=True, slots=True)
class Datagrams:
    """Packets of UDP: those that a site sent, that its processes got, and that found no socket."""

    sent: int = 0
    received: int = 0
    refused: int = 0


class Network(Protocol):
    """Sites that can reach each other over shaped links. Methods raise `NetworkError`."""

    topology: Topology

    def start(self) -> None:
        """Builds the network; if that fails, removes everything again."""

    def stop(self) -> None:
        """Removes everything that `start` made; a second call does nothing."""

    def enter(self, site: str) -> None:
        """Moves the calling process into the site. The process must have one thread only."""

    def open_socket(self, site: str) -> socket.socket:
        """A TCP socket that belongs to the site."""

    def address(self, site: str) -> str:
        """The site's one IPv4 address, reachable from every site."""

    def device(self, src: str, dst: str) -> str:
        """The interface at `src` towards a node that it has a link or an overlay link to."""

    def set_link(self, src: str, dst: str, **values: Any) -> None:
        """Changes values of the directed link src -> dst, by their names in `CHANGEABLE`.

        Packets in the queue and under way are kept. The size of the queue cannot change.
        """

    def cut(self, src: str, dst: str, how: Cut) -> None:
        """Stops the direction src -> dst, or both (`carrier`); a second call does nothing."""

    def mend(self, src: str, dst: str, how: Cut) -> None:
        """Undoes a `cut` of the same kind; without such a cut, does nothing."""

    def counters(self) -> dict[Directed, LinkCounters]:
        """The counters of every directed link, by (src, dst)."""

    def short_of_memory(self) -> list[str]:
        """The sites at which TCP has reached the limit of its memory.

        All sites of a kernel share that limit. Beyond it, sockets of different sites wait for each
        other, which they would not do on different machines.
        """

    def with_data(self) -> list[str]:
        """The sites whose TCP has sent data, also if only to themselves."""

    def datagrams(self) -> dict[str, Datagrams]:
        """What the UDP of each site has counted, also of what it sent to itself."""

    def counting_data(self) -> contextlib.AbstractContextManager[Callable[[str], int]]:
        """How many packets with data a site's TCP and UDP have sent, also to itself."""


@dataclass(slots=True)
class InMemoryNetwork:
    """A fake network for tests. It notes calls; tests set `carried` and `sent_data`."""

    topology: Topology
    running: bool = False
    entered: list[str] = field(default_factory=list)
    carried: dict[Directed, LinkCounters] = field(default_factory=dict)
    sent_data: dict[str, int] = field(default_factory=dict)
    cuts: set[tuple[Directed, Cut]] = field(default_factory=set)

    def start(self) -> None:
        """See `Network`."""
        self.running = True

    def stop(self) -> None:
        """See `Network`."""
        self.running = False

    def enter(self, site: str) -> None:
        """Notes the site in `entered`."""
        self.topology.rank(site)
        self.entered.append(site)

    def open_socket(self, site: str) -> socket.socket:
        """A TCP socket of this process; notes the site in `entered`."""
        self.enter(site)
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def address(self, site: str) -> str:
        """See `Network`."""
        return site_address(self.topology.rank(site))

    def device(self, src: str, dst: str) -> str:
        """See `Network`."""
        return first_device(self.topology, src, dst)

    def set_link(self, src: str, dst: str, **values: Any) -> None:
        """Changes the link in `topology`."""
        new = change_link(self.topology.link(src, dst), **values)
        links = (new if (at.src, at.dst) == (src, dst) else at for at in self.topology.links)
        self.topology = replace(self.topology, links=tuple(links))

    def cut(self, src: str, dst: str, how: Cut) -> None:
        """Notes the cut in `cuts`: a carrier for both directions, a blackhole for one."""
        self.cuts.update((ends, how) for ends in self._affected(src, dst, how))

    def mend(self, src: str, dst: str, how: Cut) -> None:
        """Removes the cut from `cuts`."""
        self.cuts.difference_update((ends, how) for ends in self._affected(src, dst, how))

    def counters(self) -> dict[Directed, LinkCounters]:
        """The counters in `carried`; zero for other links."""
        pairs = ((link.src, link.dst) for link in self.topology.links)
        return {pair: self.carried.get(pair, LinkCounters()) for pair in pairs}

    def short_of_memory(self) -> list[str]:
        """See `Network`."""
        return []

    def with_data(self) -> list[str]:
        """See `Network`."""
        return [site for site, packets in self.sent_data.items() if packets]

    def datagrams(self) -> dict[str, Datagrams]:
        """None at any site."""
        return {site: Datagrams() for site in self.topology.site_names}

    def counting_data(self) -> contextlib.AbstractContextManager[Callable[[str], int]]:
        """The numbers in `sent_data`; zero for other sites."""
        return contextlib.nullcontext(lambda site: self.sent_data.get(site, 0))

    def _affected(self, src: str, dst: str, how: Cut) -> tuple[Directed, ...]:
        self.topology.link(src, dst)
        return ((src, dst), (dst, src)) if how == "carrier" else ((src, dst),)


def change_link(link: Link, **values: Any) -> Link:
    """A copy of the link with some values replaced.

    A loss of 100 % is allowed here, although a topology cannot have it.

    Raises:
        NetworkError: an impossible value.
    """
    new = replace(link, **values)
    try:
        check_values(f"link {link.src} -> {link.dst}", new)
    except TopologyError as error:
        raise NetworkError(str(error)) from None
    return new


def payload_share(mtu: int) -> float:
    """The share of a link's rate that is left for TCP's payload: 1448 of 1514 bytes at MTU 1500.

    The rest are the headers of Ethernet (14 bytes), IP (20) and TCP with timestamps (32).
    """
    return (mtu - TCP_IP_HEADER_BYTES) / (mtu + ETHERNET_HEADER_BYTES)


def site_address(rank: int) -> str:
    """The IPv4 address of a site: 10.0.0.1 for the first one, and so on in 10.0.0.0/8."""
    return str(ipaddress.IPv4Address(_FIRST_ADDRESS + rank))


def site_ipv6_address(rank: int) -> str:
    """The IPv6 address of a site, if it has one: fd00::1 for the first one, and so on."""
    return str(ipaddress.IPv6Address(_FIRST_IPV6_ADDRESS + rank))


def list_hosts(topology: Topology, *, ipv6: bool = False) -> str:
    """The addresses of all sites, as in /etc/hosts."""
    lines = ["127.0.0.1 localhost"]
    lines += (f"{site_address(rank)} {site}" for rank, site in enumerate(topology.site_names))
    if ipv6:
        lines += ["::1 localhost"]
        sites = enumerate(topology.site_names)
        lines += (f"{site_ipv6_address(rank)} {site}" for rank, site in sites)
    return "\n".join(lines) + "\n"


def device_name(src_rank: int, dst_rank: int) -> str:
    """The name of an interface, up to 15 characters: `l3-12` is at site 3, towards site 12."""
    return f"l{src_rank}-{dst_rank}"


def first_device(topology: Topology, src: str, dst: str) -> str:
    """The interface at `src` on the path to `dst`. Raises TopologyError without a link to it."""
    if not topology.is_overlay_link(src, dst):
        topology.link(src, dst)
    return device_name(topology.rank(src), topology.rank(topology.path(src, dst)[1]))


def device_index(dst_rank: int) -> int:
    """The kernel's index of the interface towards a site; 1 is the loopback interface."""
    return 2 + dst_rank


def hardware_address(src_rank: int, dst_rank: int) -> bytes:
    """The MAC address, locally administered, of the interface at one site towards another."""
    return bytes((2, 0)) + src_rank.to_bytes(2) + dst_rank.to_bytes(2)
