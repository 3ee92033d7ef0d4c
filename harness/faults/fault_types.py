"""Faults as data: every disturbance that a timeline or a person at the shell can request (pure).

A fault is a frozen value. The docstring of its class is its help text. `VERB` is the first word of
its text. `PARTS` are the words that may follow, in the order in which
`harness.faults.fault_writing` writes them. Fields with a default may be left out.
`harness.faults.timeline` has the effects of faults on links and agents, and undoes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from trunkline.harness.config.units import TIME_S
from trunkline.harness.faults.fault_parts import (
    DIRECTION,
    EVERY,
    FOR,
    HOW,
    LINK_VALUES,
    Direction,
    Ends,
    FaultError,
    Groups,
    Name,
    Part,
    Setting,
    Sites,
)
from trunkline.harness.faults.recorded.recorded_faults import Availability, Trace
from trunkline.harness.network.interface import Cut

Range = tuple[float, float]
"""Smallest and largest value; draws are uniform between them."""

_DRAWN = tuple(
    Setting(part.key, part.field, part.dimension, is_range=True)
    for part in LINK_VALUES
    if isinstance(part, Setting) and part.key in ("rate", "delay", "loss")
)


@dataclass(frozen=True, slots=True)
class Outage:
    """Stops a link. `blackhole`: packets vanish; `carrier`: both interfaces go down."""

    VERB: ClassVar = "outage"
    PARTS: ClassVar[tuple[Part, ...]] = (Ends(), DIRECTION, HOW, FOR)
    a: str
    b: str
    direction: Direction = "both"
    how: Cut = "blackhole"
    for_s: float | None = None

    def __post_init__(self) -> None:
        _check_direction(self.direction, self.how)


@dataclass(frozen=True, slots=True)
class Isolate:
    """Stops all links of a site."""

    VERB: ClassVar = "isolate"
    PARTS: ClassVar[tuple[Part, ...]] = (Name("site"), HOW, FOR)
    site: str
    how: Cut = "blackhole"
    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """Stops all links between the groups; a single group is cut off from all other sites."""

    VERB: ClassVar = "partition"
    PARTS: ClassVar[tuple[Part, ...]] = (Groups(), HOW, FOR)
    groups: tuple[tuple[str, ...], ...]
    how: Cut = "blackhole"
    for_s: float | None = None

    def __post_init__(self) -> None:
        _check_once([site for group in self.groups for site in group])


@dataclass(frozen=True, slots=True)
class Flap:
    """Stops a link for the first half of every period."""

    VERB: ClassVar = "flap"
    PARTS: ClassVar[tuple[Part, ...]] = (Ends(), DIRECTION, HOW, EVERY, FOR)
    a: str
    b: str
    every_s: float
    direction: Direction = "both"
    how: Cut = "blackhole"
    for_s: float | None = None

    def __post_init__(self) -> None:
        _check_direction(self.direction, self.how)
        _check_period(self.every_s)


@dataclass(frozen=True, slots=True)
class SetLink:
    """Changes values of a link, or of all links of a site; without `for` they stay until `mend`."""

    VERB: ClassVar = "setlink"
    PARTS: ClassVar[tuple[Part, ...]] = (Ends(all=True), DIRECTION, *LINK_VALUES, FOR)
    a: str
    b: str
    direction: Direction = "both"
    rate_mbps: float | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    loss_percent: float | None = None
    burst: int | None = None
    reorder_percent: float | None = None
    duplicate_percent: float | None = None
    corrupt_percent: float | None = None
    distribution: str | None = None
    correlation_percent: float | None = None
    for_s: float | None = None

    def __post_init__(self) -> None:
        _check_given(self, LINK_VALUES)

    def values(self) -> dict[str, Any]:
        """The values that change, by their argument of `Network.set_link`."""
        return _given(self, LINK_VALUES)


@dataclass(frozen=True, slots=True)
class Redraw:
    """Draws new values for every direction of every link, uniformly, from the scenario's seed."""

    VERB: ClassVar = "redraw"
    PARTS: ClassVar[tuple[Part, ...]] = (*_DRAWN, EVERY, FOR)
    rate_mbps: Range | None = None
    delay_ms: Range | None = None
    loss_percent: Range | None = None
    every_s: float | None = None
    for_s: float | None = None

    def __post_init__(self) -> None:
        _check_given(self, _DRAWN)
        _check_period(self.every_s)

    def ranges(self) -> dict[str, Range]:
        """The ranges of the values that are drawn, by their field of `Link`."""
        return _given(self, _DRAWN)


@dataclass(frozen=True, slots=True)
class Kill:
    """Kills an agent or a program (SIGKILL); with `for` it starts again after that time."""

    VERB: ClassVar = "kill"
    PARTS: ClassVar[tuple[Part, ...]] = (Name("who", agents=True), FOR)
    who: str
    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """Asks a program to end (SIGTERM, 5 s later SIGKILL); with `for` it starts again."""

    VERB: ClassVar = "leave"
    PARTS: ClassVar[tuple[Part, ...]] = (Name("who", agents=True, programs=True), FOR)
    who: str
    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Freezes an agent or a program (SIGSTOP); its kernel still acknowledges what arrives."""

    VERB: ClassVar = "pause"
    PARTS: ClassVar[tuple[Part, ...]] = (Name("who", agents=True), FOR)
    who: str
    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """Ends every pause of an agent or a program."""

    VERB: ClassVar = "resume"
    PARTS: ClassVar[tuple[Part, ...]] = (Name("who", agents=True),)
    who: str


@dataclass(frozen=True, slots=True)
class Restart:
    """Starts what was killed, or has left, again; what runs is killed first."""

    VERB: ClassVar = "restart"
    PARTS: ClassVar[tuple[Part, ...]] = (Name("who", agents=True),)
    who: str


@dataclass(frozen=True, slots=True)
class Mend:
    """Undoes every outage, flap and setlink of a link."""

    VERB: ClassVar = "mend"
    PARTS: ClassVar[tuple[Part, ...]] = (Ends(all=True),)
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Heal:
    """Ends all faults: links are as in the scenario, and all agents run."""

    VERB: ClassVar = "heal"
    PARTS: ClassVar[tuple[Part, ...]] = ()


@dataclass(frozen=True, slots=True)
class Churn:
    """Random faults from a seed; a time is the mean between two faults of a kind (exponential).

    `outages` stop a random link and `oneways` one direction of it; `losses` make a link lose 10 to
    60 % of its packets, `slowdowns` leave a tenth of its rate. `pauses` and `kills` stop the agent
    or the programs of a random site, `controller` kills the controller. Each fault lasts for a time
    from the range `lasting`. At most `links` links and `agents` agents are affected at the same
    time, and at most `total` faults begin; faults beyond that are left out. With `among`, it
    affects only these sites and the links between them.
    """

    VERB: ClassVar = "churn"
    PARTS: ClassVar[tuple[Part, ...]] = (
        Setting("outages", "outages_s", TIME_S),
        Setting("pauses", "pauses_s", TIME_S),
        Setting("kills", "kills_s", TIME_S),
        Setting("controller", "controller_s", TIME_S),
        Setting("oneways", "oneways_s", TIME_S),
        Setting("losses", "losses_s", TIME_S),
        Setting("slowdowns", "slowdowns_s", TIME_S),
        Setting("lasting", "lasting_s", TIME_S, is_range=True),
        Setting("links", "links"),
        Setting("agents", "agents"),
        Setting("total", "total"),
        Sites("among", "among"),
        Setting("seed", "seed"),
        FOR,
    )
    outages_s: float | None = None
    pauses_s: float | None = None
    kills_s: float | None = None
    controller_s: float | None = None
    lasting_s: Range = (1.0, 10.0)
    links: int = 1
    agents: int = 1
    total: int | None = None
    among: tuple[str, ...] = ()
    seed: int | None = None
    for_s: float | None = None
    oneways_s: float | None = None
    losses_s: float | None = None
    slowdowns_s: float | None = None

    def __post_init__(self) -> None:
        _check_given(self, self.PARTS[:7])
        for part in self.PARTS[:7]:
            _check_period(getattr(self, part.field))  # type: ignore[union-attr]
        _check_period(self.lasting_s[0])
        _check_once(self.among)


Fault = (
    Outage
    | Isolate
    | Partition
    | Flap
    | SetLink
    | Redraw
    | Trace
    | Availability
    | Kill
    | Leave
    | Pause
    | Resume
    | Restart
    | Mend
    | Heal
    | Churn
)

VERBS: Mapping[str, Any] = {cls.VERB: cls for cls in get_args(Fault)}
"""The class of each verb, in the order of the help."""

MEANT = {
    "crash": "kill",
    "cut": "outage",
    "down": "outage",
    "fail": "outage",
    "freeze": "pause",
    "slow": "setlink",
    "start": "restart",
    "stop": "pause",
    "suspend": "pause",
    "tc": "setlink",
    "up": "mend",
}
"""The verb that is probably meant by a word that is none."""

LEAVE_S = 5.0
"""A program that was asked to leave is killed after this time, in seconds of the run's clock."""

MIN_PERIOD_S = 0.001
"""The shortest period of changes. Faster changes would keep the session from all other work."""


def needs_blackholes(faults: Iterable[Fault]) -> bool:
    """Whether one of the faults needs blackholes, which not every kernel has."""
    return any(
        isinstance(fault, Churn)
        or getattr(fault, "how", None) == "blackhole"
        or (isinstance(fault, Trace) and fault.has_outages)
        for fault in faults
    )


def _check_direction(direction: Direction, how: Cut) -> None:
    if how == "carrier" and direction == "one-way":
        raise FaultError("carrier one-way: expected both: interfaces go down at both ends")


def _check_once(sites: Sequence[str]) -> None:
    for site in sites:
        if sites.count(site) > 1:
            raise FaultError(f"site {site} is named twice: expected once")


def _check_period(period_s: float | None) -> None:
    if period_s is not None and period_s < MIN_PERIOD_S:
        raise FaultError(f"{period_s:g} s: expected {MIN_PERIOD_S * 1000:g} ms or more")


def _check_given(fault: Any, parts: tuple[Any, ...]) -> None:
    if not _given(fault, parts):
        keys = ", ".join(f"{part.key}=" for part in parts)
        raise FaultError(f"nothing to do: expected at least one of {keys}")


def _given(fault: Any, parts: tuple[Any, ...]) -> dict[str, Any]:
    named = ((part.field, getattr(fault, part.field)) for part in parts)
    return {name: value for name, value in named if value is not None}
