"""Plan the packets that measure each pair of links (pure).

Both directions of a pair are measured at the same time, in *stages*. In each stage, both ends send
a *train* of numbered UDP packets, which measures one quantity:

- `delay`: packets so far apart that none waits for another. Each takes the delay, an independent
  jitter, and its transmission time.
- `order`: packets so close that jitter could reorder them; only on links with jitter.
- `queue`: more packets at once than the queue holds. Those that fit arrive.
- `load`: packets at more than the rate, while the other direction is as busy. They arrive at the
  rate. A link with random loss gets as many packets at once as its queue holds: a lost packet
  takes a place in the queue, but no transmission time, so a longer overload would arrive at less
  than the rate.
- `loss`: packets at half the rate, so that the queue drops none. There are enough for a hundred
  losses, as far as the effort allows; also for a hundred packets that overtake others, arrive twice
  or are corrupted.

A quantity that cannot be measured on a link is skipped, with the reason.

Afterwards a TCP connection fills each direction, one after the other. Its window is what the path
and half of the queue hold: nothing is lost, so only the link limits the rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trunkline.agents.planning.plan import Directed
from trunkline.harness.measure.effort import Effort
from trunkline.harness.measure.impaired import in_order, swing_ms
from trunkline.harness.network.interface import (
    ETHERNET_HEADER_BYTES,
    TCP_IP_HEADER_BYTES,
    NetworkOptions,
)
from trunkline.topologies.links import UNIFORM, Link
from trunkline.topologies.model import Topology

UDP_IP_HEADER_BYTES = 28
PROBE_BYTES = 64
"""Payload of a packet that measures a delay or a loss."""

OVERLOAD = 1.25
"""A `load` train sends at this multiple of the rate."""

MIN_QUEUE_PACKETS = 16
"""The shortest queue for TCP: its first window must fit, or TCP never reaches the rate."""

ACKNOWLEDGEMENT_SHARE = 0.05
"""The share of a link's rate that the reverse needs for acknowledgements (66 bytes per packet)."""

MIN_PACKETS = 10
"""A train is sent only if at least this many of its packets are expected to arrive."""

MAX_ROUND_TRIP_S = 30.0
"""The longest round trip for TCP. It retransmits after one second, later after up to two minutes
without an acknowledgement: with longer round trips most packets would be retransmissions."""

MAX_WINDOW_BYTES = 112_000_000
"""The largest window that the buffers of a site's TCP hold."""

MIN_UDP_PACKET_S, MIN_TCP_PACKET_S = 1e-7, 1e-6
"""The shortest transmission times of a full packet. Faster links cannot be measured: the kernel's
work takes some virtual time too, and TCP's work for a packet would take longer than its
transmission."""

IPERF3_PERIOD_S = 60.0
"""The longest period of iperf3's reports."""

WINDOW_QUEUE_SHARE = 0.5
LEAST_DELAY_MS = 2.0
"""With longer delays, packets that leave out the delay stand out."""
MAX_PROBES = 1000
MAX_BURST_PACKETS = 100_000
MAX_LOAD_PACKETS = 20_000
_LOAD_PACKETS = 200
_STALL_S = 120
_PERIOD_S = 0.001
_BATCH = 512


@dataclass(frozen=True, slots=True)
class Train:
    """Numbered packets: `group` at once every `period_s`, until `packets` have been sent."""

    packets: int
    payload_bytes: int
    group: int
    period_s: float

    @property
    def wire_bytes(self) -> int:
        """The size of one packet on the link."""
        return self.payload_bytes + UDP_IP_HEADER_BYTES + ETHERNET_HEADER_BYTES

    @property
    def duration_s(self) -> float:
        """The time from the first packet until one period after the last group."""
        return math.ceil(self.packets / self.group) * self.period_s


@dataclass(frozen=True, slots=True)
class Stage:
    """Trains that start together; after `length_s`, every packet has arrived or is lost."""

    name: str
    trains: Mapping[Directed, Train]
    length_s: float


@dataclass(frozen=True, slots=True)
class Flow:
    """A TCP connection that fills a link.

    Attributes:
        warm_bytes: bytes until it fills the link; they do not count.
        counted_bytes: bytes that count.
        window_bytes: the most payload in flight.
        warm_rate: pacing of the first part in bytes of payload per second, below the link's rate.
        rate: pacing of the counted part, above the link's rate.
        stall_s: the connection fails after so many seconds without progress.
    """

    warm_bytes: int
    counted_bytes: int
    window_bytes: int
    warm_rate: int
    rate: int
    stall_s: int


@dataclass(frozen=True, slots=True)
class Iperf3:
    """How long iperf3 sends, the period of its reports, and its timeout, in seconds."""

    duration_s: int
    period_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class PairPlan:
    """The measurements of the two links between `a` and `b`.

    `skipped` maps a link and a quantity to the reason why it is not measured. Both links are idle
    `idle_s` after the last packet was sent.
    """

    a: str
    b: str
    stages: tuple[Stage, ...]
    flows: Mapping[Directed, Flow]
    iperf3: Mapping[Directed, Iperf3]
    skipped: Mapping[tuple[Directed, str], str]
    idle_s: float


def plan(topology: Topology, options: NetworkOptions, effort: Effort) -> tuple[PairPlan, ...]:
    """Plan the measurements of each pair of links, in the topology's order of links."""
    lossy = sum(1 for link in topology.links if link.slows_tcp)
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
        "order": {ends: _plan_order(link) for ends, link in links.items() if jumbles(link)},
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
            "reorder": _explain_no_reorder(link, stages["loss"][ends]),
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
    """The seconds in which a link with a full queue becomes idle."""
    return queue_bytes / _bytes_per_s(link) + link.most_delay_ms / 1e3


def jumbles(link: Link) -> bool:
    """Whether packets could change their order, and must not."""
    return bool(link.jitter_ms and not link.reorder_percent)


def _plan_delay(link: Link, effort: Effort) -> Train:
    """Packets that never meet. With jitter 400 packets, which give its spread to 2 %."""
    usual = 400 if link.distribution == UNIFORM else MAX_PROBES
    probe = Train(usual if link.jitter_ms else 20, PROBE_BYTES, 1, 0.0)
    range_ms = 2 * in_order(link).most_deviation_ms
    apart_s = effort.gap_s + range_ms / 1e3 + 2 * _transmission_s(link, probe.wire_bytes)
    packets = min(math.ceil(probe.packets / _compute_survival(link)), MAX_PROBES)
    return Train(packets, PROBE_BYTES, 1, apart_s)


def _plan_order(link: Link) -> Train:
    """Packets a tenth of the jitter apart, but never closer than the link can send them."""
    least_s = 2 * _transmission_s(link, Train(1, PROBE_BYTES, 1, 0.0).wire_bytes)
    return Train(400, PROBE_BYTES, 1, max(link.jitter_ms / 1e4, least_s))


def _plan_queue(queue_bytes: int, mtu: int) -> Train:
    """Packets at once: a tenth more than the queue holds, and 20 that the link sends meanwhile."""
    full = Train(1, mtu - UDP_IP_HEADER_BYTES, 1, 0.0)
    packets = math.ceil(1.1 * queue_bytes / full.wire_bytes) + 20
    return Train(packets, full.payload_bytes, packets, 0.0)


def _plan_load(
    links: Mapping[Directed, Link], queues: Mapping[Directed, int], mtu: int, effort: Effort
) -> Iterator[tuple[Directed, Train]]:
    """Trains of both directions with about the same duration.

    The duration is what the slower link needs for its packets, limited by the most packets of the
    faster one. See the module's docstring for links with random loss.
    """
    payload_bytes = mtu - UDP_IP_HEADER_BYTES
    wire_bytes = Train(1, payload_bytes, 1, 0.0).wire_bytes
    each_s = {ends: _transmission_s(link, wire_bytes) for ends, link in links.items()}
    jitter_s = max(swing_ms(link) for link in links.values()) / 1e3
    wanted_s = max(_LOAD_PACKETS * max(each_s.values()), 400 * jitter_s, effort.load_s)
    duration_s = min(wanted_s, MAX_LOAD_PACKETS * min(each_s.values()))
    for ends, link in links.items():
        fitting = queues[ends] // wire_bytes
        if link.is_lossy:
            packets = max(1, min(fitting, MAX_LOAD_PACKETS))
            yield ends, Train(packets, payload_bytes, packets, 0.0)
            continue
        packets = max(_LOAD_PACKETS // 10, math.ceil(OVERLOAD * duration_s / each_s[ends]))
        group = _choose_group(each_s[ends] / OVERLOAD, fitting)
        yield ends, Train(packets, payload_bytes, group, group * each_s[ends] / OVERLOAD)


def _plan_loss(link: Link, queue_bytes: int, most_packets: int) -> Train:
    shares = [link.loss_percent / link.burst, link.reorder_percent]
    shares += [link.duplicate_percent, link.corrupt_percent]
    share = min(filter(None, shares), default=0.0) / 100
    packets = min(math.ceil(100 / share), most_packets) if share else 1000
    each_s = 2 * _transmission_s(link, Train(1, PROBE_BYTES, 1, 0.0).wire_bytes)
    group = _choose_group(each_s, queue_bytes // Train(1, PROBE_BYTES, 1, 0.0).wire_bytes)
    return Train(packets, PROBE_BYTES, group, group * each_s)


def _choose_group(each_s: float, queue_packets: int) -> int:
    """The number of packets to send at once: those of about 1 ms, and at most half a queue."""
    return max(1, min(round(_PERIOD_S / each_s), queue_packets // 2, _BATCH))


def _compute_survival(link: Link) -> float:
    """The share of packets that are neither lost at random nor corrupted."""
    return max(link.arriving, 1e-9)


def _explain_no_delay(link: Link, train: Train) -> str:
    """Why this train cannot measure the delay, or an empty text; so do the next functions."""
    if train.packets * _compute_survival(link) < MIN_PACKETS:
        return f"too few of {train.packets} packets would arrive"
    if link.reorder_percent and in_order(link).least_delay_ms < LEAST_DELAY_MS:
        return "packets that overtake look like those with a short delay"
    return ""


def _explain_no_reorder(link: Link, train: Train) -> str:
    if link.reorder_percent and link.delay_ms < 3e3 * train.period_s:
        return f"in {link.delay_ms:g} ms there is nothing to overtake"
    return ""


def _explain_no_queue(link: Link, queue_bytes: int, train: Train) -> str:
    if train.packets > MAX_BURST_PACKETS:
        return f"overflowing it would take {train.packets} packets"
    if link.corrupt_percent and link.correlation_percent:
        return "too few packets for corruption that comes in groups"
    if queue_bytes // train.wire_bytes * _compute_survival(link) < MIN_PACKETS and link.is_lossy:
        return f"too few of the packets that {queue_bytes} bytes hold would arrive"
    return ""


def _explain_no_rate(link: Link, queue_bytes: int, train: Train, effort: Effort) -> str:
    if _transmission_s(link, train.wire_bytes) < MIN_UDP_PACKET_S:
        return f"{link.rate_mbps:g} Mbit/s are too fast for the clock"
    if link.is_lossy:
        if train.packets * _compute_survival(link) < 2 * MIN_PACKETS:
            return f"too few of the packets that {queue_bytes} bytes hold would arrive"
        if train.packets * _transmission_s(link, train.wire_bytes) < effort.load_s / 10:
            return f"with loss, a queue of {queue_bytes} bytes keeps the link busy too briefly"
    elif queue_bytes < (1 + 1 / OVERLOAD) * train.wire_bytes:
        return f"a queue of {queue_bytes} bytes is empty before the next packet fits"
    return ""


def _explain_no_flow(
    link: Link, reverse: Link, queue_bytes: int, flow: Flow, options: NetworkOptions
) -> str:
    """Why TCP would not fill the link, or an empty text."""
    if _transmission_s(link, options.mtu + ETHERNET_HEADER_BYTES) < MIN_TCP_PACKET_S:
        return f"{link.rate_mbps:g} Mbit/s are too fast for TCP in the kernel's clock"
    if link.loss_percent:
        return "random loss slows TCP down"
    if link.slows_tcp or reverse.reorder_percent or reverse.duplicate_percent:
        return "packets that are reordered, doubled or corrupted slow TCP down"
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
    """Why iperf3 is not run, besides the reasons of `_explain_no_flow`, or an empty text."""
    if link.jitter_ms or reverse.jitter_ms:
        return "with jitter, half of its window would not fill the link"
    if times.period_s > IPERF3_PERIOD_S:
        return f"too few packets pass in {IPERF3_PERIOD_S:g} s"
    size = times.duration_s * _bytes_per_s(link)
    if size > effort.iperf3_bytes:
        return f"it would have to send {size / 1e6:.0f} MB"
    return ""


def _plan_flow(link: Link, reverse: Link, queue_bytes: int, mtu: int, effort: Effort) -> Flow:
    segment, wire_bytes = mtu - TCP_IP_HEADER_BYTES, mtu + ETHERNET_HEADER_BYTES
    share, rate = segment / wire_bytes, _bytes_per_s(link)
    round_trip_s = sum(at.most_delay_ms for at in (link, reverse)) / 1e3
    in_flight = round_trip_s * rate + WINDOW_QUEUE_SHARE * queue_bytes
    window_bytes = max(round(in_flight * share), 4 * segment)
    # With 400 times the jitter, it moves the result by 0.5 % at most.
    steady = min(round(0.4 * swing_ms(link) * rate * share), MAX_LOAD_PACKETS * segment)
    counted = max(window_bytes, 1000 * segment, round(effort.flow_s * rate * share), steady)
    # Slow start doubles the window every round trip: four windows and a few packets suffice.
    return Flow(
        warm_bytes=4 * window_bytes + 100 * segment,
        counted_bytes=counted,
        window_bytes=window_bytes,
        warm_rate=round(0.99 * share * rate),
        rate=round(1.05 * rate),
        stall_s=math.ceil(_STALL_S + 10 * (round_trip_s + queue_bytes / rate)),
    )


def _plan_iperf3(link: Link, reverse: Link, queue_bytes: int, mtu: int) -> Iperf3:
    """At least ten periods of 200 packets: slow start and its losses take the first third."""
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
