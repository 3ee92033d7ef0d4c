"""The emulated network as the rest of the harness sees it, and an in-memory fake of it.

Names, addresses and indices are a function of the sites' ranks alone, so that two runs of one
scenario look the same to every program inside, and nothing has to be asked from the kernel.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from trunkline.topologies.model import Link, Topology, TopologyError, check_values

Directed = tuple[str, str]
"""A directed link: (source site, destination site)."""

Cut = Literal["blackhole", "carrier"]
"""How a link fails. `blackhole`: nothing of one direction arrives any more, and nobody is told;
what is on its way is lost too, as if the far end were cut off. `carrier`: the interfaces at both
ends go down, so both directions stop, their queues are lost, and both sites know it at once."""

_FIRST_ADDRESS = 0x0A000001

ETHERNET_HEADER_BYTES = 14
"""What every packet weighs on a link besides its IP packet: rates and queues include it."""

TCP_IP_HEADER_BYTES = 52
"""IP and TCP with timestamps: what a full packet carries besides payload."""


class NetworkError(RuntimeError):
    """The network cannot be built or changed: what happened, where, and the remedy if known."""

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        parts = [f"{where}: " if where else "", what, f"; remedy: {remedy}" if remedy else ""]
        super().__init__("".join(parts))


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """What holds for every site and link.

    Options:
        congestion_control: TCP's algorithm, one that the kernel has (`cubic`, `reno`, `bbr`).
        offloads: whether links get packets of up to 64 KB from TCP, which is cheaper, or of `mtu`,
            which is faithful: loss and queues then act on what a wide-area network would see.
        mtu: bytes of an IP packet on every link.
        slow_start_after_idle: whether a connection that was idle starts slowly again.
        initial_window: packets that a new connection may send at once.
        hystart: whether `cubic` leaves slow start as soon as round trips grow, as Linux's does by
            default. A setting of the whole kernel, so only the embedded one does without.
        pacing: whether the agents' connections spread their packets over the round trip, as Linux
            does with its `fq` queue, instead of sending all that the window allows at once.
    """

    congestion_control: str = "cubic"
    offloads: bool = False
    mtu: int = 1500
    slow_start_after_idle: bool = False
    initial_window: int = 10
    hystart: bool = True
    pacing: bool = True


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """What one directed link carried and lost since it was built.

    `bytes` and `packets` went over the link, Ethernet headers included; `queue_drops` did not fit
    into its queue, `losses` were lost at random, and of those that went over, `swallowed` vanished
    in a blackhole, all in packets.
    """

    bytes: int = 0
    packets: int = 0
    queue_drops: int = 0
    losses: int = 0
    swallowed: int = 0

    @property
    def drops(self) -> int:
        """All packets that the link did not deliver, except the queue of one that went down."""
        return self.queue_drops + self.losses + self.swallowed


class Network(Protocol):
    """Sites that can reach each other over shaped links. Errors are `NetworkError`."""

    topology: Topology

    def start(self) -> None:
        """Builds everything; leaves nothing behind if it fails halfway."""

    def stop(self) -> None:
        """Removes everything that `start` made; a second call does nothing."""

    def enter(self, site: str) -> None:
        """Moves the calling process, which has one thread, into the site."""

    def address(self, site: str) -> str:
        """The site's one IPv4 address, reachable from every site."""

    def device(self, src: str, dst: str) -> str:
        """The interface at `src` towards `dst`; a socket bound to it uses that link."""

    def set_link(
        self,
        src: str,
        dst: str,
        *,
        rate_mbps: float | None = None,
        delay_ms: float | None = None,
        jitter_ms: float | None = None,
        loss_percent: float | None = None,
    ) -> None:
        """Changes one direction in place; None keeps a value, the queue stays as built."""

    def cut(self, src: str, dst: str, how: Cut) -> None:
        """Stops the direction src -> dst, or both (`carrier`); again, it does nothing."""

    def mend(self, src: str, dst: str, how: Cut) -> None:
        """Undoes `cut` of the same kind; where there was none, it does nothing."""

    def counters(self) -> dict[Directed, LinkCounters]:
        """What every directed link has carried and dropped so far."""

    def short_of_memory(self) -> list[str]:
        """The sites at which TCP met the limit of its memory, which all sites of a kernel share.

        Then sockets wait for each other that have nothing in common in the scenario.
        """


@dataclass(slots=True)
class InMemoryNetwork:
    """A network without a network, for tests of what uses one; they fill in `carried`."""

    topology: Topology
    running: bool = False
    entered: list[str] = field(default_factory=list)
    carried: dict[Directed, LinkCounters] = field(default_factory=dict)
    cuts: set[tuple[Directed, Cut]] = field(default_factory=set)

    def start(self) -> None:
        """See `Network`."""
        self.running = True

    def stop(self) -> None:
        """See `Network`."""
        self.running = False

    def enter(self, site: str) -> None:
        """Notes it in `entered`."""
        self.topology.rank(site)
        self.entered.append(site)

    def address(self, site: str) -> str:
        """See `Network`."""
        return site_address(self.topology.rank(site))

    def device(self, src: str, dst: str) -> str:
        """See `Network`."""
        self.topology.link(src, dst)
        return device_name(self.topology.rank(src), self.topology.rank(dst))

    def set_link(self, src: str, dst: str, **values: float | None) -> None:
        """Changes `topology`."""
        new = change_link(self.topology.link(src, dst), **values)
        links = (new if (at.src, at.dst) == (src, dst) else at for at in self.topology.links)
        self.topology = Topology(self.topology.name, self.topology.sites, tuple(links))

    def cut(self, src: str, dst: str, how: Cut) -> None:
        """Notes it in `cuts`: the carrier of both directions, a blackhole of one."""
        self.cuts.update((ends, how) for ends in self._affected(src, dst, how))

    def mend(self, src: str, dst: str, how: Cut) -> None:
        """Takes it out of `cuts`."""
        self.cuts.difference_update((ends, how) for ends in self._affected(src, dst, how))

    def counters(self) -> dict[Directed, LinkCounters]:
        """What a test put into `carried`, else nothing."""
        pairs = ((link.src, link.dst) for link in self.topology.links)
        return {pair: self.carried.get(pair, LinkCounters()) for pair in pairs}

    def short_of_memory(self) -> list[str]:
        """See `Network`."""
        return []

    def _affected(self, src: str, dst: str, how: Cut) -> tuple[Directed, ...]:
        self.topology.link(src, dst)
        return ((src, dst), (dst, src)) if how == "carrier" else ((src, dst),)


def change_link(
    link: Link,
    rate_mbps: float | None = None,
    delay_ms: float | None = None,
    jitter_ms: float | None = None,
    loss_percent: float | None = None,
) -> Link:
    """The link with some values replaced; None keeps one. A loss of 100 % makes it a black hole.

    Raises:
        NetworkError: an impossible value.
    """
    new = replace(
        link,
        rate_mbps=link.rate_mbps if rate_mbps is None else rate_mbps,
        delay_ms=link.delay_ms if delay_ms is None else delay_ms,
        jitter_ms=link.jitter_ms if jitter_ms is None else jitter_ms,
        loss_percent=link.loss_percent if loss_percent is None else loss_percent,
    )
    try:
        check_values(f"link {link.src} -> {link.dst}", new)
    except TopologyError as error:
        raise NetworkError(str(error)) from None
    return new


def payload_share(mtu: int) -> float:
    """The part of a link's rate that TCP's payload can get: 1448 of 1514 bytes at an MTU of 1500.

    What is left goes to Ethernet (14 bytes), IP (20) and TCP with timestamps (32).
    """
    return (mtu - TCP_IP_HEADER_BYTES) / (mtu + ETHERNET_HEADER_BYTES)


def site_address(rank: int) -> str:
    """10.0.0.1 for the first site, counting up through 10.0.0.0/8."""
    return str(ipaddress.IPv4Address(_FIRST_ADDRESS + rank))


def device_name(src_rank: int, dst_rank: int) -> str:
    """`l3-12`: at site 3, towards site 12. At most 15 characters, as Linux wants."""
    return f"l{src_rank}-{dst_rank}"


def device_index(dst_rank: int) -> int:
    """The number by which the kernel knows the interface towards that site; 1 is loopback."""
    return 2 + dst_rank


def hardware_address(src_rank: int, dst_rank: int) -> bytes:
    """The (locally administered) MAC address of the interface at one site towards another."""
    return bytes((2, 0)) + src_rank.to_bytes(2) + dst_rank.to_bytes(2)
