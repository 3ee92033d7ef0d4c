"""Flows of background traffic, and when each of them sends how much (pure)."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from trunkline.agents.planning.plan import Directed
from trunkline.harness.background.file_sizes import NAMED, Distribution, Named
from trunkline.harness.config.units import split_name
from trunkline.harness.network.interface import ETHERNET_HEADER_BYTES, payload_share
from trunkline.topologies.model import Topology

UDP_IP_HEADER_BYTES = 28
HEADER_BYTES = 8
"""The bytes at the start of every packet that say whose it is."""

MIN_PACKET_BYTES = UDP_IP_HEADER_BYTES + HEADER_BYTES

LEAST_SHARE = 0.01
"""The share of a link's rate that an estimate leaves to others, with any background traffic."""

Kind = Literal["constant", "on-off", "tcp"]
Positive = Annotated[float, Field(gt=0)]


_KINDS_OF = {
    "packet_bytes": ("constant", "on-off"),
    "busy_s": ("on-off",),
    "idle_s": ("on-off",),
    "size_bytes": ("tcp",),
    "size_factor": ("tcp",),
}
"""The kinds that an option is for; the others are for all."""


@dataclass(frozen=True, slots=True)
class Background:
    """Traffic of others between sites; see docs/networks.md.

    Options:
        src: the site that sends, or a list of sites.
        dst: the site that receives, or a list; each sender has one flow to each receiver.
        kind: `constant` sends UDP packets at equal intervals, `on-off` does so for random periods,
            and `tcp` transfers files over TCP, which begin at random times (Poisson).
        rate_mbps: the rate of one flow, headers included; of `on-off` while it sends, of `tcp` the
            mean that it offers.
        packet_bytes: the IP packets of `constant` and `on-off`.
        busy_s: the mean period in which `on-off` sends (exponentially distributed).
        idle_s: the mean period in which `on-off` is silent (exponentially distributed).
        size_bytes: the size of the files of `tcp`, or a distribution of sizes.
        size_factor: every size of a distribution is multiplied by it.
        start_s: when the flows begin, from the run's start.
        stop_s: when they end; by default with the run.
    """

    src: str | tuple[str, ...]
    dst: str | tuple[str, ...]
    rate_mbps: Positive
    kind: Kind = "constant"
    packet_bytes: Annotated[int, Field(ge=MIN_PACKET_BYTES)] = 1500
    busy_s: Positive = 1.0
    idle_s: Positive = 1.0
    size_bytes: Annotated[int, Field(ge=1)] | Named = "web-search"
    size_factor: Positive = 1.0
    start_s: Annotated[float, Field(ge=0)] = 0.0
    stop_s: float | None = None

    def __post_init__(self) -> None:
        if self.stop_s is not None and self.stop_s <= self.start_s:
            raise ValueError("stop: expected a time after start")
        for name, kinds in _KINDS_OF.items():
            default = type(self).__dataclass_fields__[name].default
            if self.kind not in kinds and getattr(self, name) != default:
                key, words = split_name(name)[0], " or ".join(kinds)
                raise ValueError(f"{key}: only with kind {words}")
        if isinstance(self.size_bytes, int) and self.size_factor != 1.0:
            raise ValueError("size_factor: only with a distribution of sizes")
        if not list(self.pairs()):
            raise ValueError("expected src and dst with two different sites")

    def pairs(self) -> Iterator[Directed]:
        """The ends of each flow."""
        for src in _as_tuple(self.src):
            for dst in _as_tuple(self.dst):
                if src != dst:
                    yield src, dst

    @property
    def sites(self) -> tuple[str, ...]:
        """Every site that the entry names."""
        return _as_tuple(self.src) + _as_tuple(self.dst)

    @property
    def mean_mbps(self) -> float:
        """The mean rate of one flow between its start and its stop, headers included."""
        share = self.busy_s / (self.busy_s + self.idle_s) if self.kind == "on-off" else 1.0
        return self.rate_mbps * share

    @property
    def distribution(self) -> Distribution:
        """The sizes of files."""
        if isinstance(self.size_bytes, int):
            return Distribution(((self.size_bytes, 0.0), (self.size_bytes, 1.0)))
        points = NAMED[self.size_bytes].points
        return Distribution(tuple((size * self.size_factor, share) for size, share in points))


@dataclass(frozen=True, slots=True)
class Flow:
    """One flow of background traffic, with its number in the run."""

    number: int
    src: str
    dst: str
    entry: Background

    def is_active(self, t_s: float) -> bool:
        """Whether the time is between its start and its stop."""
        return self.entry.start_s <= t_s < (self.entry.stop_s or math.inf)


def list_flows(entries: Iterable[Background]) -> tuple[Flow, ...]:
    """The flows of all entries, numbered from 0."""
    ends = ((entry, pair) for entry in entries for pair in entry.pairs())
    return tuple(Flow(number, *pair, entry) for number, (entry, pair) in enumerate(ends))


def schedule(flow: Flow, seed: int, mtu: int) -> Iterator[tuple[int, int]]:
    """When the flow sends, in nanoseconds of the run, and how many bytes of payload.

    For `tcp` each pair is a file. The same flow and seed give the same times and sizes.
    """
    entry, rng = flow.entry, random.Random(f"{seed} background {flow.number}")
    make = {"constant": _send_constantly, "on-off": _send_on_and_off, "tcp": _transfer_files}
    for t_s, size in make[entry.kind](entry, rng, mtu):
        if t_s >= (entry.stop_s or math.inf):
            return
        yield round(t_s * 1e9), size


def compute_loads_mbps(topology: Topology, flows: Iterable[Flow]) -> dict[Directed, float]:
    """The mean rate of the flows on each link that they cross, headers included."""
    loads: dict[Directed, float] = {}
    for flow in flows:
        for hop in pairwise(topology.path(flow.src, flow.dst)):
            loads[hop] = loads.get(hop, 0.0) + flow.entry.mean_mbps
    return loads


def leave_rate(rate_mbps: float, load_mbps: float) -> float:
    """The rate that background traffic leaves to others, at least LEAST_SHARE of the link's."""
    return max(rate_mbps - load_mbps, LEAST_SHARE * rate_mbps)


def leave_rates(
    rates_mbps: Mapping[Directed, float], topology: Topology, flows: Iterable[Flow]
) -> dict[Directed, float]:
    """The rates of links that background traffic leaves to others on average."""
    loads = compute_loads_mbps(topology, flows)
    return {ends: leave_rate(rate, loads.get(ends, 0.0)) for ends, rate in rates_mbps.items()}


def _interval_s(entry: Background) -> float:
    return (entry.packet_bytes + ETHERNET_HEADER_BYTES) * 8 / (entry.rate_mbps * 1e6)


def _send_constantly(
    entry: Background, rng: random.Random, mtu: int
) -> Iterator[tuple[float, int]]:
    step_s, number = _interval_s(entry), rng.random()
    while True:
        yield entry.start_s + number * step_s, entry.packet_bytes - UDP_IP_HEADER_BYTES
        number += 1


def _send_on_and_off(
    entry: Background, rng: random.Random, mtu: int
) -> Iterator[tuple[float, int]]:
    step_s, t_s = _interval_s(entry), entry.start_s
    if rng.random() * (entry.busy_s + entry.idle_s) < entry.idle_s:
        t_s += rng.expovariate(1 / entry.idle_s)
    while True:
        end_s = t_s + rng.expovariate(1 / entry.busy_s)
        while t_s < end_s:
            yield t_s, entry.packet_bytes - UDP_IP_HEADER_BYTES
            t_s += step_s
        t_s = end_s + rng.expovariate(1 / entry.idle_s)


def _transfer_files(entry: Background, rng: random.Random, mtu: int) -> Iterator[tuple[float, int]]:
    sizes, t_s = entry.distribution, entry.start_s
    payload_per_s = entry.rate_mbps * payload_share(mtu) * 1e6 / 8
    while True:
        t_s += rng.expovariate(payload_per_s / sizes.mean_bytes)
        yield t_s, max(1, round(sizes.draw(rng)))


def _as_tuple(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names
