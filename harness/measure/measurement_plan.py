"""What is sent over a pair of links in order to measure them (pure).

Both directions of a pair are measured at the same times, in *stages*: in each, both ends send a
*train* of numbered UDP packets. A train asks one thing:

- `delay`: packets so far apart that none waits for another. Each takes the delay, a jitter that is
  independent of the others', and its transmission time.
- `order`: on links with jitter, packets so close that jitter could reorder them.
- `queue`: more packets at once than the queue holds. Those that fit arrive.
- `load`: more packets than the rate for some time. They arrive at the rate, while the other
  direction is just as busy. (A link with random loss gets as many at once as its queue holds:
  what is lost leaves no transmission time, but takes its place in the queue, so that a longer
  overload arrives at less than the rate.)
- `loss`: packets at half the rate, so that none is lost to a full queue: enough of them for a
  hundred losses, as far as the effort goes.

What cannot be asked of a link is skipped, with the reason.

Then a TCP connection in each direction, one after the other, fills the link with a window that the
path and half of the queue hold: nothing is lost, and the link alone says how fast it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trunkline.harness.network.interface import (
    ETHERNET_HEADER_BYTES,
    TCP_IP_HEADER_BYTES,
    Directed,
    NetworkOptions,
)
from trunkline.topologies.model import Link, Topology

UDP_IP_HEADER_BYTES = 28
PROBE_BYTES = 64
"""Payload of a packet that measures a delay or a loss."""

OVERLOAD = 1.25
"""How much more than the rate a `load` train sends."""

MIN_QUEUE_PACKETS = 16
"""TCP's first window has to fit into a queue, or a link can never show TCP its rate."""

ACKNOWLEDGEMENT_SHARE = 0.05
"""Of a link's rate, what its reverse needs for acknowledgements (66 bytes per packet, and some)."""

MIN_PACKETS = 10
"""Of a train at least so many must be expected to arrive, or it says nothing."""

MAX_ROUND_TRIP_S = 30.0
"""TCP sends again what it has not heard of for a second, later for two minutes at most: where
answers take longer than this, most of what it sends is sent for nothing."""

MAX_WINDOW_BYTES = 112_000_000
"""What the buffers of a site's TCP hold."""

MIN_UDP_PACKET_S, MIN_TCP_PACKET_S = 1e-7, 1e-6
"""Links that carry a full packet in less are too fast for the kernel's clock: work of the kernel
takes a little of its virtual time too, and TCP's work for a packet more than its transmission."""

IPERF3_PERIOD_S = 60.0
"""iperf3 says what arrived at least so often."""

WINDOW_QUEUE_SHARE = 0.5
MAX_PROBES = 1000
MAX_BURST_PACKETS = 100_000
MAX_LOAD_PACKETS = 20_000
_LOAD_PACKETS = 200
_STALL_S = 120
_PERIOD_S = 0.001
_BATCH = 512


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is sent; a real clock needs longer flows and has less time for packets.

    Attributes:
        loss_packets: at most so many packets ask for the loss of one link, and
        all_loss_packets: of all links together.
        flow_s: least duration of the part of a TCP flow that counts, and
        load_s: of a `load` train.
        gap_s: least time between two delay probes, and
        rest_s: between two stages, besides what the links need to become idle.
        iperf3_bytes: the most that iperf3 may move: it wakes up for every packet.
    """

    loss_packets: int
    all_loss_packets: int
    flow_s: float
    load_s: float
    gap_s: float
    rest_s: float
    iperf3_bytes: int


EFFORTS: Mapping[str, Effort] = {
    "virtual": Effort(500_000, 5_000_000, 0.0, 0.0, 0.001, 0.05, iperf3_bytes=30_000_000),
    "real": Effort(20_000, 200_000, 2.0, 0.5, 0.005, 0.3, iperf3_bytes=250_000_000),
}
"""By the scenario's clock."""


@dataclass(frozen=True, slots=True)
class Train:
    """Numbered packets: `group` of them at once every `period_s`, until `packets` were sent."""

    packets: int
    payload_bytes: int
    group: int
    period_s: float

    @property
    def wire_bytes(self) -> int:
        """What one packet weighs on the link."""
        return self.payload_bytes + UDP_IP_HEADER_BYTES + ETHERNET_HEADER_BYTES

    @property
    def duration_s(self) -> float:
        """From the first packet until a period after the last group."""
        return math.ceil(self.packets / self.group) * self.period_s


@dataclass(frozen=True, slots=True)
class Stage:
    """Trains that start together, and when the last packet has surely arrived or never will."""

    name: str
    trains: Mapping[Directed, Train]
    length_s: float


@dataclass(frozen=True, slots=True)
class Flow:
    """A TCP connection: bytes until it fills the link, bytes that count, and its limits.

    `window_bytes` is the most payload in flight. `warm_rate` and `rate` pace the connection, in
    bytes of payload per second: below the link's rate while the window grows, then above it.
    The connection may stand still for `stall_s` before it is given up.
    """

    warm_bytes: int
    counted_bytes: int
    window_bytes: int
    warm_rate: int
    rate: int
    stall_s: int


@dataclass(frozen=True, slots=True)
class Iperf3:
    """For how many seconds iperf3 sends, how often it says what arrived, when to give it up."""

    duration_s: int
    period_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class PairPlan:
    """Everything that measures the two links between `a` and `b`, and why something does not.

    Both links are idle `idle_s` after the last packet was sent.
    """

    a: str
    b: str
    stages: tuple[Stage, ...]
    flows: Mapping[Directed, Flow]
    iperf3: Mapping[Directed, Iperf3]
    skipped: Mapping[tuple[Directed, str], str]
    idle_s: float


def plan(topology: Topology, options: NetworkOptions, effort: Effort) -> tuple[PairPlan, ...]:
    """What measures each pair of links of the topology, in the order of its links."""
    lossy = sum(1 for link in topology.links if link.loss_percent)
    loss_packets = min(effort.loss_packets, effort.all_loss_packets // max(lossy, 1))
    return tuple(
        _plan_pair(
            topology, there, topology.link(there.dst, there.src), options, effort, loss_packets
        )
        for there in topology.links
        if topology.rank(there.src) < topology.rank(there.dst)
    )


def _plan_pair(
    topology: Topology,
    there: Link,
    back: Link,
    options: NetworkOptions,
    effort: Effort,
    loss_packets: int,
) -> PairPlan:
    links = {(link.src, link.dst): link for link in (there, back)}
    queues = {ends: topology.queue_bytes(link) for ends, link in links.items()}
    delays = {ends: _plan_delay(link, effort) for ends, link in links.items()}
    bursts = {ends: _plan_queue(queues[ends], options.mtu) for ends in links}
    loads = dict(_plan_load(links, queues, options.mtu, effort))
    stages = {
        "delay": delays,
        "order": {ends: _plan_order(link) for ends, link in links.items() if link.jitter_ms},
        "queue": {e: burst for e, burst in bursts.items() if burst.packets <= MAX_BURST_PACKETS},
        "load": loads,
        "loss": {
            ends: _plan_loss(link, queues[ends], loss_packets) for ends, link in links.items()
        },
    }
    flows: dict[Directed, Flow] = {}
    iperf3: dict[Directed, Iperf3] = {}
    skipped: dict[tuple[Directed, str], str] = {}
    for ends, link in links.items():
        reverse = links[link.dst, link.src]
        flow = _plan_flow(link, reverse, queues[ends], options.mtu, effort)
        times = _plan_iperf3(link, reverse, queues[ends], options.mtu)
        reasons = {
            "delay": _explain_no_delay(link, delays[ends]),
            "jitter": _explain_no_delay(link, delays[ends]),
            "queue": _explain_no_queue(link, queues[ends], bursts[ends]),
            "rate": _explain_no_rate(link, queues[ends], loads[ends], effort),
            "goodput": _explain_no_flow(link, reverse, queues[ends], flow, options),
        }
        reasons["iperf3"] = reasons["goodput"] or _explain_no_iperf3(link, reverse, times, effort)
        skipped |= {(ends, name): reason for name, reason in reasons.items() if reason}
        if not reasons["goodput"]:
            flows[ends] = flow
        if not reasons["iperf3"]:
            iperf3[ends] = times
    drains = {ends: _compute_drain_s(link, queues[ends]) for ends, link in links.items()}
    stages_of = (
        Stage(name, trains, _compute_length_s(trains, drains) + effort.rest_s)
        for name, trains in stages.items()
        if trains
    )
    idle_s = sum(drains.values()) + effort.rest_s
    return PairPlan(there.src, there.dst, tuple(stages_of), flows, iperf3, skipped, idle_s)


def _compute_length_s(trains: Mapping[Directed, Train], drains: Mapping[Directed, float]) -> float:
    return max(train.duration_s + drains[ends] for ends, train in trains.items())


def _compute_drain_s(link: Link, queue_bytes: int) -> float:
    """How long a link with a full queue takes to become idle."""
    return queue_bytes / _bytes_per_s(link) + (link.delay_ms + link.jitter_ms) / 1e3


def _plan_delay(link: Link, effort: Effort) -> Train:
    """Packets that never meet. Of a random delay the spread is measured too: 400 give it to 2 %."""
    probe = Train(400 if link.jitter_ms else 20, PROBE_BYTES, 1, 0.0)
    apart_s = effort.gap_s + 2 * link.jitter_ms / 1e3 + 2 * _transmission_s(link, probe.wire_bytes)
    packets = min(math.ceil(probe.packets / _compute_survival(link)), MAX_PROBES)
    return Train(packets, PROBE_BYTES, 1, apart_s)


def _plan_order(link: Link) -> Train:
    """Packets a tenth of the jitter apart, but never closer than the link can carry them."""
    least_s = 2 * _transmission_s(link, Train(1, PROBE_BYTES, 1, 0.0).wire_bytes)
    return Train(400, PROBE_BYTES, 1, max(link.jitter_ms / 1e4, least_s))


def _plan_queue(queue_bytes: int, mtu: int) -> Train:
    """A tenth more than fits."""
    full = Train(1, mtu - UDP_IP_HEADER_BYTES, 1, 0.0)
    packets = math.ceil(1.1 * queue_bytes / full.wire_bytes) + 20
    return Train(packets, full.payload_bytes, packets, 0.0)


def _plan_load(
    links: Mapping[Directed, Link], queues: Mapping[Directed, int], mtu: int, effort: Effort
) -> Iterator[tuple[Directed, Train]]:
    """Both directions as long as the slower one needs for its packets, or the faster one can.

    What is lost at random makes no room in the queue any sooner, so that a link with losses cannot
    be kept busy by more than its rate: it gets what its queue holds, at once.
    """
    payload_bytes = mtu - UDP_IP_HEADER_BYTES
    wire_bytes = Train(1, payload_bytes, 1, 0.0).wire_bytes
    each_s = {ends: _transmission_s(link, wire_bytes) for ends, link in links.items()}
    jitter_s = max(link.jitter_ms for link in links.values()) / 1e3
    wanted_s = max(_LOAD_PACKETS * max(each_s.values()), 400 * jitter_s, effort.load_s)
    duration_s = min(wanted_s, MAX_LOAD_PACKETS * min(each_s.values()))
    for ends, link in links.items():
        fitting = queues[ends] // wire_bytes
        if link.loss_percent:
            packets = max(1, min(fitting, MAX_LOAD_PACKETS))
            yield ends, Train(packets, payload_bytes, packets, 0.0)
            continue
        packets = max(_LOAD_PACKETS // 10, math.ceil(OVERLOAD * duration_s / each_s[ends]))
        group = _choose_group(each_s[ends] / OVERLOAD, fitting)
        yield ends, Train(packets, payload_bytes, group, group * each_s[ends] / OVERLOAD)


def _plan_loss(link: Link, queue_bytes: int, most_packets: int) -> Train:
    share = link.loss_percent / 100
    packets = min(math.ceil(100 / share), most_packets) if share else 1000
    each_s = 2 * _transmission_s(link, Train(1, PROBE_BYTES, 1, 0.0).wire_bytes)
    group = _choose_group(each_s, queue_bytes // Train(1, PROBE_BYTES, 1, 0.0).wire_bytes)
    return Train(packets, PROBE_BYTES, group, group * each_s)


def _choose_group(each_s: float, queue_packets: int) -> int:
    """How many packets to send at once: about a millisecond's, and half a queue at most."""
    return max(1, min(round(_PERIOD_S / each_s), queue_packets // 2, _BATCH))


def _compute_survival(link: Link) -> float:
    """The share of packets that random loss spares."""
    return max(1 - link.loss_percent / 100, 1e-9)


def _explain_no_delay(link: Link, train: Train) -> str:
    """Why the train cannot say how long the link's delay is, or nothing; so the next ones."""
    if train.packets * _compute_survival(link) < MIN_PACKETS:
        return f"too few of {train.packets} packets survive"
    return ""


def _explain_no_queue(link: Link, queue_bytes: int, train: Train) -> str:
    if train.packets > MAX_BURST_PACKETS:
        return f"overflowing it would take {train.packets} packets"
    if (
        queue_bytes // train.wire_bytes * _compute_survival(link) < MIN_PACKETS
        and link.loss_percent
    ):
        return f"too few of the packets that {queue_bytes} bytes hold survive"
    return ""


def _explain_no_rate(link: Link, queue_bytes: int, train: Train, effort: Effort) -> str:
    if _transmission_s(link, train.wire_bytes) < MIN_UDP_PACKET_S:
        return f"{link.rate_mbps:g} Mbit/s are too fast for the clock"
    if link.loss_percent:
        if train.packets * _compute_survival(link) < 2 * MIN_PACKETS:
            return f"too few of the packets that {queue_bytes} bytes hold survive"
        if train.packets * _transmission_s(link, train.wire_bytes) < effort.load_s / 10:
            return f"with loss, {queue_bytes} bytes keep it busy for too short a time"
    elif queue_bytes < (1 + 1 / OVERLOAD) * train.wire_bytes:
        return f"a queue of {queue_bytes} bytes is empty before the next packet fits"
    return ""


def _explain_no_flow(
    link: Link, reverse: Link, queue_bytes: int, flow: Flow, options: NetworkOptions
) -> str:
    """Why TCP cannot be expected to fill the link, or nothing."""
    if _transmission_s(link, options.mtu + ETHERNET_HEADER_BYTES) < MIN_TCP_PACKET_S:
        return f"{link.rate_mbps:g} Mbit/s are too fast for TCP in the kernel's clock"
    if link.loss_percent:
        return "random loss slows TCP down"
    if reverse.rate_mbps < ACKNOWLEDGEMENT_SHARE * link.rate_mbps:
        return f"acknowledgements do not fit into {reverse.rate_mbps:g} Mbit/s"
    least = max(MIN_QUEUE_PACKETS, options.initial_window)
    if queue_bytes < least * (options.mtu + ETHERNET_HEADER_BYTES):
        return f"a queue of {queue_bytes} bytes is too short for TCP"
    if flow.window_bytes > MAX_WINDOW_BYTES:
        return f"TCP's buffers hold less than the {flow.window_bytes / 1e6:.0f} MB in flight"
    round_trip_s = flow.window_bytes / _bytes_per_s(link)
    if round_trip_s > MAX_ROUND_TRIP_S:
        return f"a round trip of {round_trip_s:.0f} s is too long for TCP's timers"
    return ""


def _explain_no_iperf3(link: Link, reverse: Link, times: Iperf3, effort: Effort) -> str:
    """Why iperf3 is not asked, besides the reasons of `_no_flow`, or nothing."""
    if link.jitter_ms or reverse.jitter_ms:
        return "with jitter, half of its window does not fill the link"
    if times.period_s > IPERF3_PERIOD_S:
        return f"too few packets pass in {IPERF3_PERIOD_S:g} s"
    size = times.duration_s * _bytes_per_s(link)
    if size > effort.iperf3_bytes:
        return f"it would have to send {size / 1e6:.0f} MB"
    return ""


def _plan_flow(link: Link, reverse: Link, queue_bytes: int, mtu: int, effort: Effort) -> Flow:
    segment, wire_bytes = mtu - TCP_IP_HEADER_BYTES, mtu + ETHERNET_HEADER_BYTES
    share, rate = segment / wire_bytes, _bytes_per_s(link)
    round_trip_s = sum(at.delay_ms + at.jitter_ms for at in (link, reverse)) / 1e3
    in_flight = round_trip_s * rate + WINDOW_QUEUE_SHARE * queue_bytes
    window_bytes = max(round(in_flight * share), 4 * segment)
    steady = min(round(0.4 * link.jitter_ms * rate * share), MAX_LOAD_PACKETS * segment)
    counted = max(window_bytes, 1000 * segment, round(effort.flow_s * rate * share), steady)
    return Flow(
        warm_bytes=4 * window_bytes + 100 * segment,
        counted_bytes=counted,
        window_bytes=window_bytes,
        warm_rate=round(0.99 * share * rate),
        rate=round(1.05 * rate),
        stall_s=math.ceil(_STALL_S + 10 * (round_trip_s + queue_bytes / rate)),
    )


def _plan_iperf3(link: Link, reverse: Link, queue_bytes: int, mtu: int) -> Iperf3:
    """At least ten periods of 200 packets: slow start fills the queue and recovers in a third."""
    full_s = (link.delay_ms + reverse.delay_ms) / 1e3 + queue_bytes / _bytes_per_s(link)
    period_s = max(
        0.1, math.ceil(10 * 200 * _transmission_s(link, mtu + ETHERNET_HEADER_BYTES)) / 10
    )
    duration_s = max(1, math.ceil(10 * period_s), math.ceil(15 * full_s))
    return Iperf3(duration_s, period_s, _STALL_S + 2 * duration_s)


def _transmission_s(link: Link, wire_bytes: int) -> float:
    return wire_bytes / _bytes_per_s(link)


def _bytes_per_s(link: Link) -> float:
    return link.rate_mbps * 125_000
