"""The words of faults' texts: what may follow a verb (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from trunkline.harness.config.document import shorten_words
from trunkline.harness.config.units import RATE_MBPS, SHARE_PERCENT, TIME_MS, TIME_S, Dimension
from trunkline.harness.network.interface import Cut

ALL = "all"
"""Instead of the second end of a link: all links of a site."""

Direction = Literal["both", "one-way"]


class FaultError(ValueError):
    """A text that is not a fault. If it ends too early, `candidates` are words that may follow."""

    def __init__(self, message: str, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(shorten_words(message))
        self.candidates = candidates


@dataclass(frozen=True, slots=True)
class Ends:
    """Two sites with a link: `a b`, or with a direction `a -> b` (one-way) or `a <-> b` (both).

    With `all`, the second one may be `all`: all links of the site.
    """

    all: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a site or, with `agents`, of what a fault stops: see `fault_syntax.parse`.

    With `programs`, agents cannot be stopped so.
    """

    field: str
    agents: bool = False
    programs: bool = False


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of sites that can reach each other: `a,b | c,d`."""


@dataclass(frozen=True, slots=True)
class Track:
    """What happens when: the name of a file, or the steps themselves, such as `0s:off,5s:on`."""


@dataclass(frozen=True, slots=True)
class Hint:
    """How the file of a trace is to be read: `key=word`; the fault itself has the steps."""

    key: str
    word: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One word of a set."""

    field: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clause:
    """A word and a quantity after it: `for 5 s`."""

    word: str
    field: str
    dimension: Dimension = TIME_S


@dataclass(frozen=True, slots=True)
class Setting:
    """`key=quantity`, or a range `key=20..155 Mbit/s`; a whole number if there is no dimension."""

    key: str
    field: str
    dimension: Dimension | None = None
    is_range: bool = False


@dataclass(frozen=True, slots=True)
class Sites:
    """A subset of the sites: `key=site,site,...`."""

    key: str
    field: str


@dataclass(frozen=True, slots=True)
class Delays:
    """`key=normal`, another distribution of delays, or a file of measured ones."""

    key: str
    field: str


DIRECTION = Choice("direction", get_args(Direction))
HOW = Choice("how", get_args(Cut))
FOR = Clause("for", "for_s")
EVERY = Clause("every", "every_s")

Part = Ends | Name | Groups | Track | Hint | Choice | Clause | Setting | Delays | Sites

LINK_VALUES = (
    Setting("rate", "rate_mbps", RATE_MBPS),
    Setting("delay", "delay_ms", TIME_MS),
    Setting("jitter", "jitter_ms", TIME_MS),
    Setting("loss", "loss_percent", SHARE_PERCENT),
    Setting("burst", "burst"),
    Setting("reorder", "reorder_percent", SHARE_PERCENT),
    Setting("duplicate", "duplicate_percent", SHARE_PERCENT),
    Setting("corrupt", "corrupt_percent", SHARE_PERCENT),
    Delays("distribution", "distribution"),
    Setting("correlation", "correlation_percent", SHARE_PERCENT),
)
"""What a fault may set of a link."""
