"""What keeps TCP below the rate of a link, and for how long (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trunkline.agents.planning.plan import Directed


@dataclass(frozen=True, slots=True)
class Trouble:
    """A time in which a link was cut, lost packets, or had a longer delay or a lower rate.

    Attributes:
        amount: the share that was lost in %, the delay in ms, or the rate in Mbit/s; 100 for a cut.
    """

    cause: Literal["loss", "delay", "outage", "slowdown"]
    hop: Directed
    start_ns: int
    end_ns: float
    amount: float

    def is_at(self, t_ns: int) -> bool:
        """Whether it lasts at a time."""
        return self.start_ns <= t_ns < self.end_ns

    @property
    def silent_ns(self) -> float:
        """Until when a cut may keep TCP silent: the time between two tries doubles meanwhile."""
        return self.end_ns + (self.end_ns - self.start_ns if self.cause == "outage" else 0)


@dataclass(frozen=True, slots=True)
class Slice:
    """A short time on a connection.

    Attributes:
        mbps: the rate of the path, 0 while it is cut.
        tcp_mbps: what TCP could carry at most because of the trouble.
        trouble: None if TCP had no limit.
        megabits: what the connection carried, if there was a trouble.
    """

    seconds: float
    mbps: float
    tcp_mbps: float
    trouble: Trouble | None
    megabits: float

    @property
    def due_s(self) -> float:
        """The most time that the trouble took; of losses, by how much longer the bytes need.

        A slower link took what no cold connection explains.
        """
        cause = None if self.trouble is None else self.trouble.cause
        if cause == "slowdown":
            return 0.0
        if cause != "loss":
            return self.seconds
        return min(self.seconds, self.megabits * (1 / self.tcp_mbps - 1 / self.mbps))


@dataclass(frozen=True, slots=True)
class Limitation:
    """For how long a trouble limited TCP.

    Attributes:
        due_s: the most of this time that it took if TCP had not found the path's rate yet.
    """

    trouble: Trouble
    seconds: float
    due_s: float
