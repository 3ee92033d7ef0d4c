"""The raw measurements of a directed link (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_LISTED = 1000
"""Delays and missing numbers are listed up to this length."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The arrivals of one train.

    Attributes:
        sent: packets that were sent.
        sent_ns: the time from the first sending to the last.
        arrived: packets that arrived, each counted once.
        disordered: packets that arrived after one with a higher number.
        counted: packets that arrived after the middle one.
        counted_ns: the time from the middle arrival to the last.
        pairs: how often a packet of these followed the one before it in number, too.
        pairs_ns: the time between the two packets of all these pairs.
        delays_ns: arrival minus sending time, in order of arrival; empty for long trains.
        missing: the numbers that did not arrive; empty if there are too many.
        bursts: how many runs of consecutive numbers did not arrive.
        copies: packets that arrived although they had arrived before; nothing else counts them.
        overtook: packets that arrived before one with a lower number.
    """

    sent: int
    sent_ns: int
    arrived: int
    disordered: int = 0
    counted: int = 0
    counted_ns: int = 0
    pairs: int = 0
    pairs_ns: int = 0
    delays_ns: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    bursts: int = 0
    copies: int = 0
    overtook: int = 0

    @classmethod
    def of(cls, packets: NDArray[np.int64], sent: int, sent_ns: int) -> Arrivals:
        """Count rows of (number, sending time, arrival time) in order of arrival; times in ns."""
        firsts = np.sort(np.unique(packets[:, 0], return_index=True)[1])
        copies, packets = len(packets) - len(firsts), packets[firsts]
        numbers, left_ns, came_ns = packets.T
        least_later = np.minimum.accumulate(numbers[::-1])[::-1]
        missing = np.setdiff1d(np.arange(sent), numbers)
        middle = len(packets) // 2
        apart_ns = np.diff(came_ns[middle:])[np.diff(numbers[middle:]) == 1]
        return cls(
            sent=sent,
            sent_ns=sent_ns,
            arrived=sent - len(missing),
            disordered=int((numbers < np.maximum.accumulate(numbers)).sum()),
            counted=max(0, len(packets) - 1 - middle),
            counted_ns=int(came_ns[-1] - came_ns[middle]) if len(packets) else 0,
            pairs=len(apart_ns),
            pairs_ns=int(apart_ns.sum()),
            delays_ns=_list_if_short((came_ns - left_ns).tolist()),
            missing=_list_if_short(missing.tolist()),
            bursts=int((np.diff(missing, prepend=-2) > 1).sum()),
            copies=copies,
            overtook=int((numbers > least_later).sum()),
        )


@dataclass(frozen=True, slots=True)
class Moved:
    """Payload that a TCP connection delivered, and how long that took."""

    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Observation:
    """The measurements of the link `src -> dst`.

    Attributes:
        src: the site that sends.
        dst: the site that receives.
        trains: the arrivals by stage.
        flow: the payload of the TCP connection.
        ping_ms: the mean of `pings` round trips that started at `src`.
        pings: the number of answered pings.
        iperf3_mbps: the goodput that iperf3 reported.
        late: the share of the time by which timers were late, on a real clock.
        failed: quantity -> why it could not be measured.
    """

    src: str
    dst: str
    trains: Mapping[str, Arrivals] = field(default_factory=dict)
    flow: Moved | None = None
    ping_ms: float | None = None
    pings: int = 0
    iperf3_mbps: float | None = None
    late: float = 0.0
    failed: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Observation:
        """Read what `to_json` gave."""
        fields = dict(value)
        fields["trains"] = {
            name: Arrivals(**{**train, **{key: tuple(train[key]) for key in _LISTS}})
            for name, train in value["trains"].items()
        }
        fields["flow"] = Moved(**value["flow"]) if value["flow"] else None
        return cls(**fields)


_LISTS = ("delays_ns", "missing")


def _list_if_short(values: Iterable[int]) -> tuple[int, ...]:
    listed = tuple(values)
    return listed if len(listed) <= MAX_LISTED else ()
