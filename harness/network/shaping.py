"""How a directed link is shaped: its rate, queue, delay, jitter and loss as kernel objects.

A link is a bottleneck router in front of a wire. On the interface at its source it becomes

- a *policer* (token bucket, filled at the link's rate, as deep as the queue), which decides whether
  a packet still fits: its tokens are exactly the free bytes of a FIFO queue that drains at the
  rate. What does not fit vanishes without the sender's kernel noticing, as it would at a distant
  router; a drop that it noticed would throttle TCP at once, and no packet would ever be lost;
- a *netem*, which keeps the packets that fit: it sends them one after the other at the rate,
  `delay_ms` later, and loses `loss_percent` of them at random, from a generator with its own seed.
  Its own limit would count packets in flight too, so that is out of the way.

So a packet leaves for the wire when the one before it has and its own bits are out, and arrives its
delay later: to the nanosecond what a FIFO queue and a wire do. (A token bucket in netem's place
would let the first packets of every burst out without their transmission time.) Jitter is uniform,
+- `jitter_ms`, and never reorders: a packet that drew a short delay arrives with the one before it.
netem without the embedded kernel's patch lets it arrive a transmission time after that one, so that
jitter, or a delay that was just lowered, holds up a busy link.

Kernels without netem can have links without delay, jitter and loss: `TokenBucket` shapes those.

Both change in place: no packet is lost, overtaken or let through unshaped. In the embedded kernel
(`kernel/live-changes.patch`) a new rate holds for what is queued, too, and the policer knows what
is queued; a new delay holds for what leaves for the wire from then on, and who left first still
arrives first.
A kernel without the patch sends what is queued at the old rate, and a new rate finds the policer's
queue empty: for at most one drain time, the link then holds up to twice its queue.

A blackhole is a second policer, where packets enter the destination: it has no rate, and drops all.
"""

from __future__ import annotations

import errno
import hashlib
import struct
from collections.abc import Iterator
from typing import Protocol

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
from trunkline.topologies.model import Link

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
_DROP = 2  # TC_ACT_SHOT: gone, and counted
_SWALLOW = 4  # TC_ACT_STOLEN: gone, and the sender is told that it went well
_BLACKHOLES = 1 << 24  # added to an interface's index: the policer that is its blackhole

_TICK_NS = 64
_UINT32_MAX = 0xFFFFFFFF
_RATE_TABLE = bytes(1024)  # asked for by the policer's interface, but no longer used by the kernel
_LIMIT_PACKETS = 0x7FFFFFFF

_TIMER_SLACK_S = 0.002


class Shaper(Protocol):
    """One way to shape links. A link's `queue_bytes` is set here; `index` is its interface's."""

    def install(self, link: Link, index: int, seed: int) -> Iterator[Request]:
        """What makes an unshaped interface the link."""

    def change(self, old: Link, new: Link, index: int) -> Iterator[Request]:
        """What turns one into the other in place, without losing a packet."""

    def swallow(self, link: Link, index: int) -> Iterator[Request]:
        """What makes the interface at the link's destination drop all that arrives."""

    def deliver(self, link: Link, index: int) -> Iterator[Request]:
        """What undoes `swallow`."""

    def counters(self, channel: Channel) -> dict[int, LinkCounters]:
        """What the links of the channel's namespace carried and dropped, by interface index."""

    def swallowed(self, channel: Channel) -> dict[int, int]:
        """How many packets to the channel's namespace vanished so far, by interface index."""


def choose(channel: Channel, links: tuple[Link, ...], mtu: int) -> Shaper:
    """The exact shaper where the kernel has it, else a token bucket if that is enough.

    Tries it out on the loopback interface of the channel's namespace.

    Raises:
        NetworkError: the kernel lacks netem or the policer, and some link needs them.
    """
    exact = RouterAndWire()
    try:
        channel.perform(exact.install(Link("lo", "lo", 1.0, queue_bytes=mtu), _LOOPBACK, seed=0))
        return exact
    except RefusedError as refused:
        if refused.code != errno.ENOENT:
            raise
        for link in links:
            if link.delay_ms or link.jitter_ms or link.loss_percent:
                raise _missing_modules(link, refused) from refused
        return TokenBucket(mtu)
    finally:
        _clear_loopback(channel)


class RouterAndWire:
    """A policer for the queue and a netem for the wire: exact. See the module's docstring."""

    def install(self, link: Link, index: int, seed: int) -> Iterator[Request]:
        """See `Shaper`."""
        what = f"link {link.src} -> {link.dst}"
        yield _qdisc(what, CREATE | EXCLUSIVE, index, _CLSACT, _CLSACT_HANDLE, b"clsact\0")
        police = attribute(_OPTIONS, attribute(2, _police_action(link, index)))
        body = _tc_message(index, 1, _EGRESS, _ALL_PACKETS) + attribute(_KIND, b"matchall\0")
        yield Request(what, _NEW_FILTER, CREATE | EXCLUSIVE, body + police)
        options = netem_options(link, seed)
        yield _qdisc(what, CREATE | EXCLUSIVE, index, _ROOT, _SHAPER_HANDLE, b"netem\0", options)

    def change(self, old: Link, new: Link, index: int) -> Iterator[Request]:
        """See `Shaper`."""
        what = f"link {new.src} -> {new.dst}"
        if (old.rate_mbps, old.queue_bytes) != (new.rate_mbps, new.queue_bytes):
            actions = attribute(1, _police_action(new, index))
            yield Request(what, _NEW_ACTION, CREATE | REPLACE, bytes(4) + actions)
        options = netem_options(new)
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
    """A token bucket filter with a byte-limited queue: the rate, on any kernel, and nothing else.

    Its bucket holds what passes in 2 ms: a real clock's timers may come that late without costing
    rate. A sender on the same machine notices its drops (see the module's docstring).
    """

    def __init__(self, mtu: int) -> None:
        self._packet_bytes = mtu + ETHERNET_HEADER_BYTES

    def install(self, link: Link, index: int, seed: int) -> Iterator[Request]:
        """See `Shaper`."""
        return self._set(link, index, CREATE | EXCLUSIVE)

    def change(self, old: Link, new: Link, index: int) -> Iterator[Request]:
        """See `Shaper`. Refuses delay, jitter and loss."""
        if new.delay_ms or new.jitter_ms or new.loss_percent:
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
    """The kernel's unit of a rate; at least 1."""
    return max(1, round(rate_mbps * 125_000))


def loss_threshold(loss_percent: float) -> int:
    """The 32-bit number that a random one has to stay below or at for a packet to be lost."""
    return min(_UINT32_MAX, round(loss_percent / 100 * (_UINT32_MAX + 1)))


def netem_options(link: Link, seed: int | None = None) -> bytes:
    """What netem is told (struct tc_netem_qopt); without a seed, its generator goes on."""
    rate = bytes_per_s(link.rate_mbps)
    return b"".join(
        (
            struct.pack("=6I", 0, _LIMIT_PACKETS, loss_threshold(link.loss_percent), 0, 0, 0),
            attribute(6, struct.pack("=IiIi", min(rate, _UINT32_MAX), 0, 0, 0)),
            attribute(8, struct.pack("=Q", rate)) if rate > _UINT32_MAX else b"",
            attribute(10, struct.pack("=q", round(link.delay_ms * 1e6))),
            attribute(11, struct.pack("=q", round(link.jitter_ms * 1e6))),
            attribute(14, struct.pack("=Q", seed)) if seed is not None else b"",
        )
    )


def police_options(link: Link, index: int) -> bytes:
    """The policer's parameters: rate, and the queue as time at that rate (struct tc_police)."""
    rate = bytes_per_s(link.rate_mbps)
    assert link.queue_bytes is not None
    depth_ticks = -(-link.queue_bytes * 10**9 // rate // _TICK_NS)  # `MAX_QUEUE_S` fits 32 bits
    numbers = struct.pack("=IiIII", index, _SWALLOW, 0, depth_ticks, _UINT32_MAX)
    parameters = numbers + _rate(rate) + bytes(12 + 3 * 4)
    rate64 = attribute(8, struct.pack("=Q", rate)) if rate > _UINT32_MAX else b""
    return attribute(1, parameters) + attribute(2, _RATE_TABLE) + rate64


def bucket_options(link: Link, packet_bytes: int) -> bytes:
    """TBF's parameters: rate, queue and a bucket for two packets or 2 ms (struct tc_tbf_qopt).

    Raises:
        NetworkError: a queue that 32 bits of bytes cannot hold.
    """
    rate = bytes_per_s(link.rate_mbps)
    burst_bytes = max(2 * packet_bytes, round(rate * _TIMER_SLACK_S))
    assert link.queue_bytes is not None
    if link.queue_bytes > _UINT32_MAX:
        what = f"queue_bytes {link.queue_bytes}: allowed without a policer is up to {_UINT32_MAX}"
        raise NetworkError(what, f"link {link.src} -> {link.dst}")
    parameters = _rate(rate) + bytes(12) + struct.pack("=III", link.queue_bytes, 0, 0)
    rate64 = attribute(4, struct.pack("=Q", rate)) if rate > _UINT32_MAX else b""
    return attribute(1, parameters) + rate64 + number(6, burst_bytes)


def _rate(rate: int) -> bytes:
    """A struct tc_ratespec of an Ethernet; the cell size only has to be possible."""
    return struct.pack("=BBHhHI", 10, 1, 0, 0, 0, min(rate, _UINT32_MAX))


def _police_action(link: Link, index: int) -> bytes:
    options = attribute(_OPTIONS, police_options(link, index))
    return attribute(1, attribute(_KIND, b"police\0"), options)


def _drop_action(index: int) -> bytes:
    """A policer without a rate, to which every packet conforms, and which drops what conforms."""
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
            if refused.code not in (errno.ENOENT, errno.EINVAL):  # what was never there
                raise


def _missing_modules(link: Link, cause: RefusedError | None) -> NetworkError:
    return NetworkError(
        "delay, jitter and loss need netem and the policer, which this kernel lacks"
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
            if 8 in statistics:  # only there when 32 bits no longer hold it
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
