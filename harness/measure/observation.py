"""What was seen of a directed link while it was measured (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_LISTED = 1000
"""Single delays and lost numbers are told of trains up to this long."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What became of one train. Times are ns; those of packets that never came are not in it.

    Attributes:
        sent: packets that were sent, over `sent_ns` from the first to the last.
        arrived: packets that arrived, each counted once.
        disordered: of those, how many came after one with a higher number.
        counted: how many came after the middle one, in `counted_ns`.
        delays_ns: arrival minus sending of each, in order of arrival, of short trains.
        missing: the numbers that did not arrive, of short trains or rare losses.
    """

    sent: int
    sent_ns: int
    arrived: int
    disordered: int = 0
    counted: int = 0
    counted_ns: int = 0
    delays_ns: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()

    @classmethod
    def of(cls, packets: NDArray[np.int64], sent: int, sent_ns: int) -> Arrivals:
        """From rows of (number, sent, arrived), in order of arrival."""
        numbers, left_ns, came_ns = packets.T
        missing = np.setdiff1d(np.arange(sent), numbers)
        middle = len(packets) // 2
        return cls(
            sent=sent,
            sent_ns=sent_ns,
            arrived=sent - len(missing),
            disordered=int((numbers < np.maximum.accumulate(numbers)).sum()),
            counted=max(0, len(packets) - 1 - middle),
            counted_ns=int(came_ns[-1] - came_ns[middle]) if len(packets) else 0,
            delays_ns=_list_if_short((came_ns - left_ns).tolist()),
            missing=_list_if_short(missing.tolist()),
        )


@dataclass(frozen=True, slots=True)
class Moved:
    """Payload that a TCP connection delivered, and how long that took."""

    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that was seen of `src -> dst`; `trains` are by the names of their stages.

    `ping_ms` is the mean of `pings` round trips that started at `src`, `iperf3_mbps` what it says
    it received in its second half. `late` is the share of the time that timers were late by, on
    a real clock. `failed` says why a quantity could not be measured.
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
        """As `from_json` takes it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Observation:
        """What `to_json` gave."""
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
