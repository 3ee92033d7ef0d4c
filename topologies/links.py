"""Directed links: their values, what is possible, and their queues (pure)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

MIN_QUEUE_BYTES = 64 * 1024

MIN_QUEUE_MS = 1.0
"""The smallest default queue, by size and by the time that it takes to drain. A short link must
hold a burst; a fast link must hold the packets that arrive before a busy machine serves it."""

PACKET_BYTES = 1514
"""One full Ethernet frame. A smaller queue would drop every full packet."""

RATES_MBPS = (0.001, 1_000_000.0)
"""The rates of the slowest and of the fastest link: 1 kbit/s and 1 Tbit/s."""

MAX_DELAY_MS = 60_000.0

MAX_JITTER_MS = 2000.0
"""The kernel draws from twice the jitter, in 32 bits of nanoseconds: up to 2147 ms."""

MAX_BURST = 10_000
"""The longest mean burst of losses, in packets."""

MAX_QUEUE_S = 270.0
"""The time in which the longest queue drains. The kernel counts that time in 32 bits of 64 ns, up
to 274.8 s, at a rate that it rounds to whole bytes per second."""

_LINK_NAME = re.compile(r"\s*([^\s<>]+?)\s*(<->|->)\s*([^\s<>]+)\s*")


class TopologyError(ValueError):
    """An impossible topology, option or name; its message has a line for each problem.

    Attributes:
        key: the Python name of the option at fault (`"rates_mbps"`), or empty.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, a line each."""
        return tuple(str(self).split("\n"))


@dataclass(frozen=True, slots=True)
class Link:
    """The directed connection `src -> dst`; delay, jitter and loss are one-way.

    Options:
        src: the site that sends.
        dst: the site that receives.
        rate_mbps: its rate, headers included.
        delay_ms: the propagation delay.
        jitter_ms: the largest deviation from the delay, in both directions; deviations are uniform.
        loss_percent: the share of packets that are lost at random.
        queue_bytes: the bottleneck queue; by default one bandwidth-delay product, at least 64 KiB.
        burst: how many packets in a row are lost on average, in bursts (Gilbert's model); 1 for
            losses that do not depend on each other.
    """

    src: str
    dst: str
    rate_mbps: float
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss_percent: float = 0.0
    queue_bytes: int | None = None
    burst: float = field(default=1.0, metadata={"omit": 1.0})

    @property
    def has_bursts(self) -> bool:
        """Whether losses come in bursts."""
        return self.burst > 1 and 0 < self.loss_percent < 100


CHANGEABLE = ("rate_mbps", "delay_ms", "jitter_ms", "loss_percent", "burst")
"""The fields of a link that may change while it is in use."""


@dataclass(frozen=True, slots=True)
class LinkOverride:
    """New values for one or both directions of a link; None keeps a value.

    Options:
        link: `a -> b` for one direction, `a <-> b` for both.
        rate_mbps, delay_ms, jitter_ms, loss_percent, queue_bytes, burst: replaces the builder's
            value.
    """

    link: str
    rate_mbps: float | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    loss_percent: float | None = None
    queue_bytes: int | None = None
    burst: float | None = None

    def ends(self) -> tuple[tuple[str, str], ...]:
        """The directed pairs (src, dst) that `link` names. Raises TopologyError if none."""
        match = _LINK_NAME.fullmatch(self.link)
        if match is None:
            allowed = "'a -> b' for one direction, 'a <-> b' for both"
            raise TopologyError(f"link {self.link!r}: expected {allowed}", key="link")
        src, arrow, dst = match.groups()
        return ((src, dst),) if arrow == "->" else ((src, dst), (dst, src))

    def values(self) -> dict[str, Any]:
        """The fields of `Link` that this override sets."""
        names = (*CHANGEABLE, "queue_bytes")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def check_values(where: str, link: Link) -> None:
    """Check that the rate, delay, jitter, loss, bursts and queue of a link are possible.

    New and changed links have the same limits, but only a change may set a loss of 100 %.

    Raises:
        TopologyError: a value is impossible; the message starts with `where`, the key is the field.
    """

    def refuse(name: str, allowed: str) -> None:
        what, unit = _WORDS[name]
        shown = f"{what} {_show(getattr(link, name))} {unit}"
        raise TopologyError(f"{where}: {shown}: expected {allowed}", key=name)

    slowest, fastest = RATES_MBPS
    if not slowest <= link.rate_mbps <= fastest:
        refuse("rate_mbps", f"{slowest:g} to {fastest:.0f} Mbit/s")
    if not 0 <= link.delay_ms <= MAX_DELAY_MS:
        refuse("delay_ms", f"0 to {MAX_DELAY_MS:.0f} ms")
    if not 0 <= link.jitter_ms <= MAX_JITTER_MS:
        refuse("jitter_ms", f"0 to {MAX_JITTER_MS:.0f} ms")
    if link.jitter_ms > link.delay_ms:
        refuse("jitter_ms", f"0 to the link's delay, {_show(link.delay_ms)} ms")
    if not 0 <= link.loss_percent <= 100:
        refuse("loss_percent", "0 to 100 %")
    if not 1 <= link.burst <= MAX_BURST:
        refuse("burst", f"1 to {MAX_BURST} packets")
    if link.has_bursts and link.loss_percent > (most := 100 * link.burst / (link.burst + 1)):
        # A packet arrives between two bursts.
        what = f"up to {most:.4g} % with bursts of {link.burst:g} packets, or 100 %"
        refuse("loss_percent", what)
    longest_bytes = _longest_queue_bytes(link.rate_mbps)
    if link.queue_bytes is not None and not PACKET_BYTES <= link.queue_bytes <= longest_bytes:
        drains = f"what drains in {MAX_QUEUE_S:.0f} s at {link.rate_mbps:g} Mbit/s"
        refuse("queue_bytes", f"{PACKET_BYTES} (one packet) to {longest_bytes}, {drains}")


_WORDS = {
    "rate_mbps": ("rate", "Mbit/s"),
    "delay_ms": ("delay", "ms"),
    "jitter_ms": ("jitter", "ms"),
    "loss_percent": ("loss", "%"),
    "burst": ("burst", "packets"),
    "queue_bytes": ("queue", "B"),
}
"""The fields of a link -> what users call them, and their units."""


def _show(number: float) -> str:
    return f"{number:.15g}"


def compute_queue_bytes(rate_mbps: float, round_trip_ms: float) -> int:
    """One bandwidth-delay product within the limits of a queue (`Topology.queue_bytes`)."""
    drains_ms = max(MIN_QUEUE_MS, round_trip_ms)
    wanted_bytes = max(MIN_QUEUE_BYTES, math.ceil(rate_mbps * 125.0 * drains_ms))
    return min(wanted_bytes, _longest_queue_bytes(rate_mbps))


def _longest_queue_bytes(rate_mbps: float) -> int:
    return int(rate_mbps * 125_000 * MAX_QUEUE_S)
