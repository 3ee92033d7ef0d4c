"""The reports of iperf3 in a run: goodput, round trips, and packets that were sent again.

iperf3 knows nothing of Trunkline, and reads the round trips and the retransmissions from the kernel
that it runs on: the embedded one on the virtual clock, and that of Debian in real time.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPORTS = "log/*.client*.out"
"""The output of the roles `client`, `client2` and so on, in the folder of a run."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What a sending iperf3 reported: Mbit/s that arrived, ms, and packets that it sent again."""

    mbps: float
    rtt_ms: float
    again: int

    @classmethod
    def of(cls, report: str) -> Flow:
        """Read a report of `iperf3 -J`; of several streams, the round trip is their mean.

        Raises ValueError if it is none, for instance because the program was ended.
        """
        try:
            end = json.loads(report)["end"]
            senders = [stream["sender"] for stream in end["streams"]]
            return cls(
                end["sum_received"]["bits_per_second"] / 1e6,
                statistics.fmean(each["mean_rtt"] for each in senders) / 1e3,
                sum(each["retransmits"] for each in senders),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"no report of iperf3 -J: {error}") from error


def read_flows(run: Path) -> tuple[Flow, ...]:
    """The reports of all clients of a run, by their names.

    Raises ValueError if one is not complete.
    """
    return tuple(Flow.of(path.read_text()) for path in sorted(run.glob(REPORTS)))


def _find_goodput(flows: Sequence[Flow]) -> float:
    return statistics.fmean(flow.mbps for flow in flows)


def _find_round_trip(flows: Sequence[Flow]) -> float:
    return statistics.fmean(flow.rtt_ms for flow in flows)


def count_again(flows: Sequence[Flow]) -> int:
    """The packets that all flows sent again."""
    return sum(flow.again for flow in flows)


MEANS: Mapping[str, Callable[[Sequence[Flow]], float]] = {
    "goodput, Mbit/s": _find_goodput,
    "round trip, ms": _find_round_trip,
}
"""What is compared: the mean of a run's flows."""
