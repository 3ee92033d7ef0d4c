"""Directed links: their values, what is possible, and their queues (pure)."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trunkline.topologies import distributions

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

UNIFORM = "uniform"

MAX_CORRELATION_PERCENT = 99.0

MAX_SHOWN = 40
"""The characters of a distribution that an error shows."""

ALIKE = 0.65
"""How much a name resembles what a user gave, at least, if an error offers it."""

MOST_NAMES = 40
"""The most names that an error lists as allowed."""

MOST_PROBLEMS = 10
"""The most problems of links that one error lists."""

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
        keys: the option at fault of each problem, if they differ.
    """

    def __init__(self, message: str, key: str = "", keys: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.key = key or next(iter(keys), "")
        self.keys = tuple(keys) or (self.key,) * len(self.problems)

    @classmethod
    def join(cls, parts: Iterable[tuple[str, str]]) -> TopologyError:
        """The error of several problems, each with its option."""
        keys, texts = zip(*parts, strict=True)
        return cls("\n".join(texts), keys=keys)

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The option and the text of each problem."""
        return tuple(zip(self.keys, self.problems, strict=True))

    def with_keys(self, change: Callable[[str], str]) -> TopologyError:
        """The same problems of other options."""
        return TopologyError(str(self), keys=[change(key) for key in self.keys])

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, a line each."""
        return tuple(str(self).split("\n"))


def list_choices(names: Iterable[str], given: str) -> str:
    """The phrase `expected one of a, b`, after a hint if `given` resembles one of the names."""
    known = list(names)
    likeness = {name: difflib.SequenceMatcher(None, name, given.lower()).ratio() for name in known}
    near = max(known, key=likeness.__getitem__, default="")  # of equals, the first
    hint = f"did you mean {near}? " if near and likeness[near] >= ALIKE else ""
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    return f"{hint}expected one of {', '.join(known[:MOST_NAMES])}{more}"


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
        reorder_percent: the share of packets that leave out the delay, and so overtake others.
        duplicate_percent: the share of packets that arrive twice.
        corrupt_percent: the share of packets with one wrong bit, which a checksum finds.
        distribution: how delays spread around the delay: `uniform`, or in units of the jitter as
            `normal`, `pareto`, `paretonormal`, or as the delays in a CSV file.
        correlation_percent: how likely a packet shares the fate of the one before: its jitter,
            reordering, duplicate or corruption. Losses have `burst`.
    """

    src: str
    dst: str
    rate_mbps: float
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss_percent: float = 0.0
    queue_bytes: int | None = None
    burst: float = field(default=1.0, metadata={"omit": 1.0})
    reorder_percent: float = field(default=0.0, metadata={"omit": 0.0})
    duplicate_percent: float = field(default=0.0, metadata={"omit": 0.0})
    corrupt_percent: float = field(default=0.0, metadata={"omit": 0.0})
    distribution: str = field(default="uniform", metadata={"omit": "uniform"})
    correlation_percent: float = field(default=0.0, metadata={"omit": 0.0})

    @property
    def has_bursts(self) -> bool:
        """Whether losses come in bursts."""
        return self.burst > 1 and 0 < self.loss_percent < 100

    @property
    def is_lossy(self) -> bool:
        """Whether packets do not arrive, or arrive so that their receiver drops them."""
        return self.loss_percent > 0 or self.corrupt_percent > 0

    @property
    def slows_tcp(self) -> bool:
        """Whether TCP may take packets for lost."""
        return self.is_lossy or self.reorder_percent > 0 or self.duplicate_percent > 0

    @property
    def arriving(self) -> float:
        """The share of packets that arrive whole."""
        return (1 - self.loss_percent / 100) * (1 - self.corrupt_percent / 100)

    @property
    def lost_percent(self) -> float:
        """The share of packets that are lost, or dropped because they are wrong."""
        return 100 * (1 - self.arriving) if self.corrupt_percent else self.loss_percent

    @property
    def least_delay_ms(self) -> float:
        """The shortest time on the wire."""
        least = distributions.shape(self.distribution)[0]
        least = -1.0 if self.distribution == UNIFORM else least
        return 0.0 if self.reorder_percent else max(0.0, self.delay_ms + least * self.jitter_ms)

    @property
    def most_delay_ms(self) -> float:
        """The longest time on the wire."""
        most = distributions.shape(self.distribution)[-1]
        most = 1.0 if self.distribution == UNIFORM else most
        return self.delay_ms + most * self.jitter_ms

    @property
    def most_deviation_ms(self) -> float:
        """By how much a packet may come earlier or later than after the delay."""
        return max(self.most_delay_ms - self.delay_ms, self.delay_ms - self.least_delay_ms)


IMPAIRMENTS = (
    "reorder_percent",
    "duplicate_percent",
    "corrupt_percent",
    "distribution",
    "correlation_percent",
)
"""What links seldom have."""

CHANGEABLE = ("rate_mbps", "delay_ms", "jitter_ms", "loss_percent", "burst", *IMPAIRMENTS)
"""The fields of a link that may change while it is in use."""


@dataclass(frozen=True, slots=True)
class LinkOverride:
    """New values for one or both directions of a link; None keeps a value.

    Options:
        link: `a -> b` for one direction, `a <-> b` for both.
        rate_mbps, delay_ms, jitter_ms, loss_percent, queue_bytes: replaces the builder's value.
        burst, reorder_percent, duplicate_percent, corrupt_percent: replaces that of all links.
        distribution, correlation_percent: replaces that of all links.
    """

    link: str
    rate_mbps: float | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    loss_percent: float | None = None
    queue_bytes: int | None = None
    burst: float | None = None
    reorder_percent: float | None = None
    duplicate_percent: float | None = None
    corrupt_percent: float | None = None
    distribution: str | None = None
    correlation_percent: float | None = None

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
        TopologyError: values are impossible. The message has a line for each, which starts with
            `where`; its key is the field.
    """
    problems: dict[str, str] = {}

    def refuse(name: str, allowed: str) -> None:
        what, unit = _WORDS[name]
        shown = f"{what} {_show(getattr(link, name))} {unit}".rstrip()
        problems.setdefault(name, f"{where}: {shown}: expected {allowed}")

    slowest, fastest = RATES_MBPS
    if not slowest <= link.rate_mbps <= fastest:
        refuse("rate_mbps", f"{slowest:g} to {fastest:.0f} Mbit/s")
    if not 0 <= link.delay_ms <= MAX_DELAY_MS:
        refuse("delay_ms", f"0 to {MAX_DELAY_MS:.0f} ms")
    if not 0 <= link.jitter_ms <= MAX_JITTER_MS:
        refuse("jitter_ms", f"0 to {MAX_JITTER_MS:.0f} ms")
    if link.jitter_ms > link.delay_ms and "delay_ms" not in problems:
        refuse("jitter_ms", f"0 to the link's delay, {_show(link.delay_ms)} ms")
    if not 0 <= link.loss_percent <= 100:
        refuse("loss_percent", "0 to 100 %")
    if not 1 <= link.burst <= MAX_BURST:
        refuse("burst", f"1 to {MAX_BURST} packets")
    elif link.has_bursts and link.loss_percent > (most := 100 * link.burst / (link.burst + 1)):
        # A packet arrives between two bursts.
        what = f"up to {most:.4g} % with bursts of {link.burst:g} packets, or 100 %"
        refuse("loss_percent", what)
    _check_impairments(link, refuse)
    if link.queue_bytes is not None and "rate_mbps" not in problems:
        longest_bytes = _longest_queue_bytes(link.rate_mbps)
        if not PACKET_BYTES <= link.queue_bytes <= longest_bytes:
            drains = f"what drains in {MAX_QUEUE_S:.0f} s at {link.rate_mbps:g} Mbit/s"
            refuse("queue_bytes", f"{PACKET_BYTES} (one packet) to {longest_bytes}, {drains}")
    if problems:
        raise TopologyError.join(problems.items())


def check_all_values(links: Iterable[Link]) -> None:
    """Check the links of a topology.

    Raises:
        TopologyError: values are impossible. One that several links have is one problem.
    """
    problems: dict[tuple[str, Any], tuple[str, str]] = {}
    for link in links:
        where = f"link {link.src} -> {link.dst}"
        parts = [
            (key, f"{where}: {word} 100 %: expected below 100 %; an outage stops a link")
            for word in ("loss", "corrupt")
            if getattr(link, key := f"{word}_percent") == 100
        ]
        try:
            check_values(where, link)
        except TopologyError as error:
            parts += error.parts
        for key, text in parts:
            problems.setdefault((key, getattr(link, key)), (key, text))
    if problems:
        raise TopologyError.join([*problems.values()][:MOST_PROBLEMS])


def find_problem(name: str, value: Any) -> str:
    """Why no link can have this value of a field, such as `expected 0 to 100 %`; empty if one can.

    A value that only some links cannot have, because of their other values, has no problem.
    """
    able = Link("a", "b", 1.0, MAX_DELAY_MS, 1.0, 1.0)
    try:
        check_values("", replace(able, **{name: value}))
    except TopologyError as error:
        return str(error).rpartition(": ")[2]
    return ""


def _check_impairments(link: Link, refuse: Callable[[str, str], None]) -> None:
    for name in ("reorder_percent", "duplicate_percent", "corrupt_percent"):
        if not 0 <= getattr(link, name) <= 100:
            refuse(name, "0 to 100 %")
    if link.reorder_percent and not link.delay_ms:
        refuse("reorder_percent", "a delay above 0 ms, which these packets leave out")
    if problem := distributions.find_problem(link.distribution):
        refuse("distribution", problem)
    if link.distribution != UNIFORM and not link.jitter_ms:
        refuse("distribution", "a jitter above 0 ms, the standard deviation of the delays")
    if not 0 <= link.correlation_percent <= MAX_CORRELATION_PERCENT:
        refuse("correlation_percent", f"0 to {MAX_CORRELATION_PERCENT:g} %")
    if link.correlation_percent and not is_random(link):
        what = "jitter, reorder, duplicate or corrupt above 0; `burst` says how losses depend"
        refuse("correlation_percent", what)


def is_random(link: Link) -> bool:
    """Whether the link has something that a correlation concerns."""
    return bool(
        link.jitter_ms or link.reorder_percent or link.duplicate_percent or link.corrupt_percent
    )


def fit(link: Link, kept: Collection[str] = ()) -> Link:
    """The link without what its delay and its jitter no longer allow, except for these fields."""

    def change(name: str, value: Any) -> None:
        nonlocal link
        if name not in kept:
            link = replace(link, **{name: value})

    change("jitter_ms", min(link.jitter_ms, link.delay_ms))
    if not link.delay_ms:
        change("reorder_percent", 0.0)
    if not link.jitter_ms:
        change("distribution", UNIFORM)
    if not is_random(link):
        change("correlation_percent", 0.0)
    return link


_WORDS = {
    "rate_mbps": ("rate", "Mbit/s"),
    "delay_ms": ("delay", "ms"),
    "jitter_ms": ("jitter", "ms"),
    "loss_percent": ("loss", "%"),
    "burst": ("burst", "packets"),
    "queue_bytes": ("queue", "B"),
    "reorder_percent": ("reorder", "%"),
    "duplicate_percent": ("duplicate", "%"),
    "corrupt_percent": ("corrupt", "%"),
    "distribution": ("distribution", ""),
    "correlation_percent": ("correlation", "%"),
}
"""The fields of a link -> what users call them, and their units."""


def _show(value: float | str) -> str:
    if isinstance(value, str):
        return value if len(value) < MAX_SHOWN else f"{value[:MAX_SHOWN]}..."
    return f"{value:.15g}"


def describe_impairments(link: Link) -> str:
    """What the link has of `IMPAIRMENTS`, such as `reorder 2 %, distribution normal`."""
    words = []
    for name in IMPAIRMENTS:
        value = getattr(link, name)
        what, unit = _WORDS[name]
        if isinstance(value, str) and value != UNIFORM:
            words.append(f"{what} {value if value in distributions.NAMES else 'as measured'}")
        elif not isinstance(value, str) and value:
            words.append(f"{what} {_show(value)} {unit}")
    return ", ".join(words)


def compute_queue_bytes(rate_mbps: float, round_trip_ms: float) -> int:
    """One bandwidth-delay product within the limits of a queue (`Topology.queue_bytes`)."""
    drains_ms = max(MIN_QUEUE_MS, round_trip_ms)
    wanted_bytes = max(MIN_QUEUE_BYTES, math.ceil(rate_mbps * 125.0 * drains_ms))
    return min(wanted_bytes, _longest_queue_bytes(rate_mbps))


def _longest_queue_bytes(rate_mbps: float) -> int:
    return int(rate_mbps * 125_000 * MAX_QUEUE_S)
