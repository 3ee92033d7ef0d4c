"""The shaping of directed links: rate, queue, delay, jitter and loss as kernel objects.

The model of a link is a bottleneck router in front of a wire. On the interface at its source it is

- a *policer*, a token bucket that fills at the link's rate and is as deep as the queue. Its tokens
  are exactly the free bytes of a FIFO queue that drains at the rate, so it decides whether a packet
  still fits. Packets that do not fit vanish without notice to the sender's kernel, as at a distant
  router. A drop with notice would throttle TCP at once, and TCP would never see a loss;
- a *netem* that holds the packets that fit. It sends them one after the other at the rate, delays
  them by `delay_ms`, and loses, duplicates and corrupts shares of them, by random numbers from a
  generator with its own seed. A share leaves out the delay and so overtakes others. Its limit would
  also count packets in flight, so the limit is set out of reach.

A packet leaves for the wire when the packet before it has left and its own bits are out, and
arrives one delay later. To the nanosecond, this is a FIFO queue and a wire. A token bucket instead
of netem would let the first packets of every burst out without their transmission time.

Jitter is uniform, +- `jitter_ms`, or has a table for its distribution. It never reorders packets: a
packet with a short delay arrives together with the packet before it. netem without the embedded
kernel's patch lets it arrive one transmission time later, so that jitter, or a delay that was just
lowered, slows down a busy link. There, duplicates take rate, and packets that overtake
others do not wait for the link. Its correlation changes shares, so it is refused.

In kernels without netem, `TokenBucket` shapes links without delay, jitter and loss.

Links change in place: no packet is lost, overtaken or let through unshaped. In the embedded kernel
(`kernel/live-changes.patch`) a new rate also holds for queued packets, and the policer keeps its
count of queued bytes. A new delay holds for packets that leave for the wire from then on; packets
still arrive in the order in which they left. A kernel without the patch sends queued packets at the
old rate, and its policer takes the queue to be empty. For at most one drain time, the link may then
hold up to twice its queue.

A blackhole is a second policer, on the ingress of the destination's interface. It has no rate and
drops all packets.
"""

from __future__ import annotations

import errno
import hashlib
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from trunkline.harness.kernel.guest import WAITED
from trunkline.harness.network.interface import ETHERNET_HEADER_BYTES, LinkCounters, NetworkError
from trunkline.harness.network.netlink import (
    CHANGE,
    CREATE,
    EXCLUSIVE,
    REPLACE,
    Channel,
    RefusedError,
    Request,
    attribute,
    attributes,
    number,
)
from trunkline.topologies import distributions
from trunkline.topologies.links import CHANGEABLE, UNIFORM, Link

_NEW_QDISC, _DELETE_QDISC, _GET_QDISC, _NEW_FILTER, _DELETE_FILTER, _NEW_ACTION, _GET_ACTION = (
    36,
    37,
    38,
    44,
    45,
    48,
    50,
)
_KIND, _OPTIONS, _STATISTICS = 1, 2, 7
_ACTION_STATISTICS = 4

_LOOPBACK = 1
_ROOT, _CLSACT, _INGRESS, _EGRESS = 0xFFFFFFFF, 0xFFFFFFF1, 0xFFFFFFF2, 0xFFFFFFF3
_SHAPER_HANDLE, _CLSACT_HANDLE = 0x10000, 0xFFFF0000
_ALL_PACKETS = 0x10300  # priority 1, ETH_P_ALL in network byte order
_DROP = 2  # TC_ACT_SHOT: the packet is dropped and counted
_SWALLOW = 4  # TC_ACT_STOLEN: the packet is dropped, and its sender is told that it was sent
_BLACKHOLES = 1 << 24  # plus the index of an interface: the index of its blackhole's policer

_TICK_NS = 64
_UINT32_MAX = 0xFFFFFFFF
_RATE_TABLE = bytes(1024)  # the policer requires a table, which the kernel no longer uses
_LIMIT_PACKETS = 0x7FFFFFFF

_TIMER_SLACK_S = 0.002


class Shaper(Protocol):
    """One way to shape links. Links have a `queue_bytes`; `index` is that of an interface."""

    def install(self, link: Link, index: int, seed: int) -> Iterator[Request]:
        """The requests that shape the interface at the link's source."""

    def change(self, old: Link, new: Link, index: int) -> Iterator[Request]:
        """The requests that change a link in place, without losing a packet."""

    def swallow(self, link: Link, index: int) -> Iterator[Request]:
        """The requests that make the interface at the link's destination drop all packets."""

    def deliver(self, link: Link, index: int) -> Iterator[Request]:
        """The requests that undo `swallow`."""

    def options(self, link: Link) -> tuple[str, bytes]:
        """The kind of the queueing discipline that shapes a link, and its parameters."""

    def counters(self, channel: Channel) -> dict[int, LinkCounters]:
        """The counters of the links from the channel's namespace, by interface index."""

    def swallowed(self, channel: Channel) -> dict[int, int]:
        """The packets to the channel's namespace that vanished so far, by interface index."""


def choose(channel: Channel, links: tuple[Link, ...], mtu: int) -> Shaper:
    """Choose the exact shaper if the kernel has it, else a token bucket if links allow it.

    Tries the exact shaper on the loopback interface of the channel's namespace.

    Raises:
        NetworkError: the kernel lacks netem or the policer, and a link needs them.
    """
    exact = RouterAndWire()
    try:
        channel.perform(exact.install(Link("lo", "lo", 1.0, queue_bytes=mtu), _LOOPBACK, seed=0))
        return exact
    except RefusedError as refused:
        if refused.code != errno.ENOENT:
            raise
        for link in links:
            if _needs_netem(link):
                raise _missing_modules(link, refused) from refused
        return TokenBucket(mtu)
    finally:
        _clear_loopback(channel)


class RouterAndWire:
    """The exact shaper: a policer for the queue and a netem for the wire."""

    def install(self, link: Link, index: int, seed: int) -> Iterator[Request]:
        """See `Shaper`."""
        what = f"link {link.src} -> {link.dst}"
        yield _qdisc(what, CREATE | EXCLUSIVE, index, _CLSACT, _CLSACT_HANDLE, b"clsact\0")
        police = attribute(_OPTIONS, attribute(2, _police_action(link, index)))
        body = _tc_message(index, 1, _EGRESS, _ALL_PACKETS) + attribute(_KIND, b"matchall\0")
        yield Request(what, _NEW_FILTER, CREATE | EXCLUSIVE, body + police)
        _require_exact(link)
        options = netem_options(link, seed)
        yield _qdisc(what, CREATE | EXCLUSIVE, index, _ROOT, _SHAPER_HANDLE, b"netem\0", options)

    def change(self, old: Link, new: Link, index: int) -> Iterator[Request]:
        """See `Shaper`."""
        what = f"link {new.src} -> {new.dst}"
        _require_exact(new)
        if (old.rate_mbps, old.queue_bytes) != (new.rate_mbps, new.queue_bytes):
            actions = attribute(1, _police_action(new, index))
            yield Request(what, _NEW_ACTION, CREATE | REPLACE, bytes(4) + actions)
        options = netem_options(new, before=old)
        yield _qdisc(what, CHANGE, index, _ROOT, _SHAPER_HANDLE, b"netem\0", options)

    def swallow(self, link: Link, index: int) -> Iterator[Request]:
        """See `Shaper`."""
        body = _tc_message(index, 1, _INGRESS, _ALL_PACKETS) + attribute(_KIND, b"matchall\0")
        actions = attribute(_OPTIONS, attribute(2, _drop_action(_BLACKHOLES + index)))
        what = f"blackhole {link.src} -> {link.dst}"
        yield Request(what, _NEW_FILTER, CREATE | EXCLUSIVE, body + actions)

    def deliver(self, link: Link, index: int) -> Iterator[Request]:
        """See `Shaper`."""
        body = _tc_message(index, 1, _INGRESS, _ALL_PACKETS) + attribute(_KIND, b"matchall\0")
        yield Request(f"blackhole {link.src} -> {link.dst}", _DELETE_FILTER, CHANGE, body)

    def options(self, link: Link) -> tuple[str, bytes]:
        """See `Shaper`."""
        return "netem", netem_options(link)

    def counters(self, channel: Channel) -> dict[int, LinkCounters]:
        """See `Shaper`."""
        overflows = dict(_read_overflows(channel))
        return {
            index: LinkCounters(sent_bytes, packets, overflows.get(index, 0), drops)
            for index, (sent_bytes, packets, drops) in _read_counts(channel, b"netem\0", _ROOT)
        }

    def swallowed(self, channel: Channel) -> dict[int, int]:
        """See `Shaper`."""
        found = _read_counts(channel, b"clsact\0", _CLSACT)
        return {index: drops for index, (_, _, drops) in found}


class TokenBucket:
    """A token bucket filter with a byte-limited queue: it shapes the rate only, in any kernel.

    Its bucket holds the bytes of 2 ms, so that timers of a real clock may be that late without loss
    of rate. The sender's kernel notices its drops (see the module's docstring).
    """

    def __init__(self, mtu: int) -> None:
        self._packet_bytes = mtu + ETHERNET_HEADER_BYTES

    def install(self, link: Link, index: int, seed: int) -> Iterator[Request]:
        """See `Shaper`."""
        return self._set(link, index, CREATE | EXCLUSIVE)

    def change(self, old: Link, new: Link, index: int) -> Iterator[Request]:
        """See `Shaper`. Refuses all but a rate."""
        if _needs_netem(new):
            raise _missing_modules(new, None)
        return self._set(new, index, CHANGE)

    def swallow(self, link: Link, index: int) -> Iterator[Request]:
        """See `Shaper`. Refuses: this kernel has no policer."""
        raise NetworkError(
            "a blackhole needs the policer, which this kernel lacks",
            f"link {link.src} -> {link.dst}",
            "outage with carrier, or backend: embedded",
        )

    def deliver(self, link: Link, index: int) -> Iterator[Request]:
        """See `Shaper`: there never is a blackhole."""
        return iter(())

    def options(self, link: Link) -> tuple[str, bytes]:
        """See `Shaper`."""
        return "tbf", bucket_options(link, self._packet_bytes)

    def counters(self, channel: Channel) -> dict[int, LinkCounters]:
        """See `Shaper`."""
        return {
            index: LinkCounters(sent_bytes, packets, queue_drops=drops)
            for index, (sent_bytes, packets, drops) in _read_counts(channel, b"tbf\0", _ROOT)
        }

    def swallowed(self, channel: Channel) -> dict[int, int]:
        """See `Shaper`."""
        return {}

    def _set(self, link: Link, index: int, flags: int) -> Iterator[Request]:
        options = bucket_options(link, self._packet_bytes)
        what = f"link {link.src} -> {link.dst}"
        yield _qdisc(what, flags, index, _ROOT, _SHAPER_HANDLE, b"tbf\0", options)


def link_seed(seed: int, src_rank: int, dst_rank: int) -> int:
    """The 64-bit seed of one directed link's random losses and jitter."""
    text = f"{seed}:{src_rank}:{dst_rank}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def bytes_per_s(rate_mbps: float) -> int:
    """Convert a rate to the kernel's unit, bytes per second; at least 1."""
    return max(1, round(rate_mbps * 125_000))


def threshold(percent: float) -> int:
    """Convert a share to netem's threshold for random 32-bit numbers: it takes those up to it."""
    return min(_UINT32_MAX, round(percent / 100 * (_UINT32_MAX + 1)))


def netem_options(link: Link, seed: int | None = None, before: Link | None = None) -> bytes:
    """The parameters of netem (struct tc_netem_qopt); without a seed its generator continues.

    netem keeps some parameters that it is not told, so those that the link had `before` are there.
    """
    rate = bytes_per_s(link.rate_mbps)
    loss, duplicate = threshold(link.loss_percent), threshold(link.duplicate_percent)
    gap = 1 if link.reorder_percent else 0  # every packet may overtake
    return b"".join(
        (
            struct.pack("=6I", 0, _LIMIT_PACKETS, loss, gap, duplicate, 0),
            *_impairments(link, before or link),
            attribute(5, attribute(2, burst_options(link))) if link.has_bursts else b"",
            attribute(6, struct.pack("=IiIi", min(rate, _UINT32_MAX), 0, 0, 0)),
            attribute(8, struct.pack("=Q", rate)) if rate > _UINT32_MAX else b"",
            attribute(10, struct.pack("=q", round(link.delay_ms * 1e6))),
            attribute(11, struct.pack("=q", round(link.jitter_ms * 1e6))),
            attribute(14, struct.pack("=Q", seed)) if seed is not None else b"",
        )
    )


def _impairments(link: Link, before: Link) -> Iterator[bytes]:
    """Correlation, distribution, reordering and corruption, if the link has them or had them."""
    rho = threshold(link.correlation_percent)
    if rho or before.correlation_percent:
        yield attribute(1, struct.pack("=3I", rho, 0, rho))
    if link.distribution != UNIFORM or before.distribution != UNIFORM:
        yield attribute(2, delay_table(link))
    if link.reorder_percent or before.reorder_percent:
        yield attribute(3, struct.pack("=2I", threshold(link.reorder_percent), rho))
    if link.corrupt_percent or before.corrupt_percent:
        yield attribute(4, struct.pack("=2I", threshold(link.corrupt_percent), rho))


def delay_table(link: Link) -> bytes:
    """The deviations from the delay in 8192ths of the jitter; no delay is below 0."""
    least = -math.inf
    if link.jitter_ms:
        least = -math.floor(distributions.ONE * link.delay_ms / link.jitter_ms)
    shape = distributions.shape(link.distribution)
    return struct.pack(
        f"={len(shape)}h", *(max(least, round(each * distributions.ONE)) for each in shape)
    )


def burst_options(link: Link) -> bytes:
    """The parameters of losses in bursts (struct tc_netem_gemodel).

    In Gilbert's model (Bell Syst. Tech. J. 39, 1960) a link is good, or bad and loses all packets.
    A packet makes a bad link good with probability r, and a good link bad with p. So bursts have
    1 / r packets on average, and p / (p + r) of all packets are lost.
    """
    r = 1 / link.burst
    share = link.loss_percent / 100
    p = r * share / (1 - share)
    good, bad = 0, 0  # the losses of a good link, and what a bad one delivers
    return struct.pack("=4I", threshold(100 * p), threshold(100 * r), bad, good)


def police_options(link: Link, index: int) -> bytes:
    """The policer's parameters (struct tc_police): rate, and the queue as time at that rate."""
    rate = bytes_per_s(link.rate_mbps)
    assert link.queue_bytes is not None
    depth_ticks = -(-link.queue_bytes * 10**9 // rate // _TICK_NS)  # `MAX_QUEUE_S` fits 32 bits
    numbers = struct.pack("=IiIII", index, _SWALLOW, 0, depth_ticks, _UINT32_MAX)
    parameters = numbers + _rate(rate) + bytes(12 + 3 * 4)
    rate64 = attribute(8, struct.pack("=Q", rate)) if rate > _UINT32_MAX else b""
    return attribute(1, parameters) + attribute(2, _RATE_TABLE) + rate64


def bucket_options(link: Link, packet_bytes: int) -> bytes:
    """The parameters of TBF (struct tc_tbf_qopt): rate, queue, a bucket for two packets or 2 ms.

    Raises:
        NetworkError: the queue is too long for 32 bits of bytes.
    """
    rate = bytes_per_s(link.rate_mbps)
    burst_bytes = max(2 * packet_bytes, round(rate * _TIMER_SLACK_S))
    assert link.queue_bytes is not None
    if link.queue_bytes > _UINT32_MAX:
        what = f"queue_bytes {link.queue_bytes}: expected up to {_UINT32_MAX} without a policer"
        raise NetworkError(what, f"link {link.src} -> {link.dst}")
    parameters = _rate(rate) + bytes(12) + struct.pack("=III", link.queue_bytes, 0, 0)
    rate64 = attribute(4, struct.pack("=Q", rate)) if rate > _UINT32_MAX else b""
    return attribute(1, parameters) + rate64 + number(6, burst_bytes)


def _rate(rate: int) -> bytes:
    """A struct tc_ratespec for Ethernet. The kernel only checks that the cell size is possible."""
    return struct.pack("=BBHhHI", 10, 1, 0, 0, 0, min(rate, _UINT32_MAX))


def _police_action(link: Link, index: int) -> bytes:
    options = attribute(_OPTIONS, police_options(link, index))
    return attribute(1, attribute(_KIND, b"police\0"), options)


def _drop_action(index: int) -> bytes:
    """A policer without a rate. Every packet conforms to it, and conforming packets are dropped."""
    parameters = struct.pack("=IiIII", index, _DROP, 0, 0, _UINT32_MAX) + bytes(24 + 3 * 4)
    options = attribute(_OPTIONS, attribute(1, parameters) + number(5, _DROP))
    return attribute(1, attribute(_KIND, b"police\0"), options)


def _tc_message(index: int, handle: int, parent: int, info: int = 0) -> bytes:
    return struct.pack("=BxxxiIII", 0, index, handle, parent, info)


def _qdisc(
    what: str, flags: int, index: int, parent: int, handle: int, kind: bytes, options: bytes = b""
) -> Request:
    body = _tc_message(index, handle, parent) + attribute(_KIND, kind)
    return Request(
        what, _NEW_QDISC, flags, body + (attribute(_OPTIONS, options) if options else b"")
    )


def _clear_loopback(channel: Channel) -> None:
    for parent in (_CLSACT, _ROOT):
        try:
            body = _tc_message(_LOOPBACK, 0, parent)
            channel.perform([Request("loopback", _DELETE_QDISC, CHANGE, body)])
        except RefusedError as refused:
            if refused.code not in (errno.ENOENT, errno.EINVAL):  # there was no such qdisc
                raise


def _needs_netem(link: Link) -> bool:
    """Whether the link has more than a rate."""
    plain = Link(link.src, link.dst, link.rate_mbps, burst=link.burst)
    return any(getattr(link, name) != getattr(plain, name) for name in CHANGEABLE)


def _require_exact(link: Link) -> None:
    """Raise NetworkError if the link's correlation needs the embedded kernel's netem."""
    if link.correlation_percent and not Path(WAITED).exists():
        raise NetworkError(
            "correlation needs the embedded kernel: others give shares that are far too small",
            f"link {link.src} -> {link.dst}",
            "backend: embedded",
        )


def _missing_modules(link: Link, cause: RefusedError | None) -> NetworkError:
    return NetworkError(
        "delay, jitter, loss and the like need netem and the policer, which this kernel lacks"
        + (f" ({cause.what})" if cause else ""),
        f"link {link.src} -> {link.dst}",
        "backend: embedded, or modprobe -a sch_netem sch_ingress cls_matchall act_police",
    )


def _read_counts(
    channel: Channel, kind: bytes, place: int
) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """(interface index, (bytes, packets, drops)) of every qdisc of that kind at that place."""
    question = Request("counters", _GET_QDISC, CHANGE, _tc_message(0, 0, 0))
    for body in channel.dump(question):
        _, index, _, parent, _ = struct.unpack_from("=BxxxiIII", body)
        found = attributes(body, 20)
        if parent == place and found[_KIND] == kind:
            statistics = attributes(found[_STATISTICS])
            sent_bytes, packets = struct.unpack_from("=QI", statistics[1])
            if 8 in statistics:  # only present when 32 bits are too few for the count
                (packets,) = struct.unpack_from("=Q", statistics[8])
            (drops,) = struct.unpack_from("=8xI", statistics[3])
            yield index, (sent_bytes, packets, drops)


def _read_overflows(channel: Channel) -> Iterator[tuple[int, int]]:
    """(interface index, packets over the limit) of every policer."""
    kind = attribute(1, attribute(1, attribute(_KIND, b"police\0")))
    for body in channel.dump(Request("counters", _GET_ACTION, CHANGE, bytes(4) + kind)):
        for action in attributes(attributes(body, 4).get(1, b"")).values():
            found = attributes(action)
            (index,) = struct.unpack_from("=I", attributes(found[_OPTIONS])[1])
            queue = attributes(found[_ACTION_STATISTICS])[3]
            (overflows,) = struct.unpack_from("=16xI", queue)
            yield index, overflows
