"""Policies as pure state machines: `(state, event) -> (state, decisions)`.

The controller process calls one. A policy can be tested without sockets and replayed from an event
log.

Every event has the time `at_s`, in seconds since the run's start, by the clock of the event log.
The driver fills it in. `Traits` lists what a policy may declare about itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Real
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from trunkline.agents.events.task_events import Roles

Kept = Literal["model", "initial"]
Then = Literal["proceed", "wait"]
Gives = Literal["model", "update"]
Promise = Literal["once"]


@dataclass(frozen=True, slots=True)
class Ready:
    """A site has finished its local work of an iteration and wants to synchronize.

    It is ready again after a task that was given up, and after one with `then="wait"` if no
    controller remembers that it waits.

    Attributes:
        given: its contribution of this iteration is in the result of a task already.
    """

    site: str
    iteration: int
    at_s: float = 0.0
    given: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """A site has done its rounds and synchronizes no more."""

    site: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Lost:
    """A site cannot be reached. If it was ready, it no longer is."""

    site: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Joined:
    """A lost site can be reached again. A `Ready` follows when it is ready."""

    site: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A task has ended that this controller started or took over; only for timed policies.

    Members continue as soon as they have the result. So a fast one may be ready again before this.

    Attributes:
        task: the task's number.
        group: the members of the task.
        completed: whether the members have the result; else each of them keeps its own model.
        report: what was measured, by name. `duration_s` is the time from the task's start to its
            end; of a task taken over, from its deadline as its members report it.
    """

    task: int
    group: tuple[str, ...]
    completed: bool
    at_s: float = 0.0
    report: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Compared:
    """A site has got a new model and compared its latest step with it; only if `Traits.compares`.

    Attributes:
        similarity: the cosine of the angle between what the site's iteration added to the model
            with which it began and what the new model adds to that, from -1 to 1.
    """

    site: str
    similarity: float
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Tick:
    """The time of one `Wake` or more has come; only for timed policies."""

    at_s: float = 0.0


SiteEvent = Ready | Left | Lost | Joined | Compared
Event = SiteEvent | Ended | Tick


@dataclass(frozen=True, slots=True)
class Start:
    """A task: its result is `scale * sum(weights[site] * contribution[site])`.

    Every receiver's new model is `keep * kept + step`, with `step = momentum * last step +
    result`. The last step is that of this receiver's last task. So the defaults replace the model
    by the result, and `keep = 1` adds an update to it.

    Attributes:
        group: all members, contributors and receivers.
        weights: the weight of each contributor.
        receivers: the members that get the result; None for the whole group.
        passive: members that take part without being ready. They contribute their model or update,
            and install the result whenever it comes. Servers are always passive.
        kept: what `keep` is a share of: the receiver's `model`, or the `initial` model with which
            it began (`Traits.keeps_initial`).
        then: what members that are not passive do after the task: their next iteration, or `wait`,
            ready for another task or `Proceed`.
        batches: for sites that proceed, the number of samples in each step of the next iteration;
            without an entry it stays as it is.
    """

    group: tuple[str, ...]
    weights: Mapping[str, float]
    scale: float
    receivers: tuple[str, ...] | None = None
    passive: frozenset[str] = frozenset()
    keep: float = 0.0
    momentum: float = 0.0
    then: Then = "proceed"
    batches: Mapping[str, int] = field(default_factory=dict)
    kept: Kept = "model"

    @property
    def takers(self) -> tuple[str, ...]:
        """The members that get the result."""
        return self.group if self.receivers is None else self.receivers

    @property
    def is_symmetric(self) -> bool:
        """Whether every member contributes and receives."""
        return set(self.takers) == set(self.weights) == set(self.group)

    @property
    def merges(self) -> bool:
        """Whether the result becomes a part of what a receiver has, and does not replace it."""
        return bool(self.keep or self.momentum)

    @property
    def roles(self) -> Roles | None:
        """How members take part, for logs and messages; None if the task is plain."""
        passive = tuple(site for site in self.group if site in self.passive)
        found = Roles(self.takers, passive, self.keep, self.momentum, self.then, self.kept)
        return None if found == Roles(self.group, (), 0.0, 0.0, "proceed") else found

    @classmethod
    def of(
        cls, group: tuple[str, ...], weights: Mapping[str, float], scale: float, roles: Roles | None
    ) -> Start:
        """The task of these members; the inverse of `roles`."""
        if roles is None:
            return cls(group, weights, scale)
        passive = frozenset(roles.passive)
        rest = roles.keep, roles.momentum, roles.then
        return cls(group, weights, scale, roles.receivers, passive, *rest, kept=roles.kept)


@dataclass(frozen=True, slots=True)
class Proceed:
    """A ready site continues with its next iteration without a task.

    `batch` is the number of samples in each of its steps from now on; with None, it stays as it is.
    """

    site: str
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Exclude:
    """A site does no more rounds: it ends its round, and a `Left` follows.

    A site that is started again after a fault does not know that it was excluded.
    """

    site: str


@dataclass(frozen=True, slots=True)
class Wake:
    """A `Tick` is to come at `at_s`, in seconds since the run's start; only from timed policies.

    The tick is never early. It answers every wake whose time has come. If that time has passed
    already, the tick comes at once, but at least `TICK_S` after the tick before. A controller that
    takes over begins with the policy's `initial`: the wakes of its predecessor are forgotten.
    """

    at_s: float


Decision = Start | Proceed | Exclude | Wake

TICK_S = 0.001
"""The least time between two ticks. So a policy cannot keep time from passing."""


@runtime_checkable
class Policy(Protocol):
    """A policy. `initial` is the first state; `step` returns a new state and changes none.

    A policy may also have the attributes of `Traits`.
    """

    @property
    def initial(self) -> Any: ...

    def step(self, state: Any, event: Event) -> tuple[Any, tuple[Decision, ...]]: ...


@dataclass(frozen=True, slots=True)
class Traits:
    """What a policy declares about itself, by attributes of the same names.

    Attributes:
        timed: it also gets `Ended` and `Tick`, and may decide `Wake`.
        gives: what workers contribute: their model after the step of the iteration, or only the
            `update`, the step itself. A server always contributes its model.
        accumulates: with updates, a site adds an update that no task took to its next one.
        keeps_initial: whether tasks may mix in the model with which a site began.
        compares: it also gets `Compared`, if the workload is one that learns (`EVALUATES`).
        early: a task may begin before all of its active members are ready; the others join it when
            they are.
        promises: what holds for all of its tasks, so that a verdict checks it. `once`: each
            iteration of a site is in one result.
    """

    timed: bool = False
    gives: Gives = "model"
    accumulates: bool = False
    keeps_initial: bool = False
    compares: bool = False
    early: bool = False
    promises: tuple[Promise, ...] = ("once",)

    @classmethod
    def of(cls, policy: Policy) -> Traits:
        """The traits of a policy. Raises ValueError if it declares what is not allowed."""
        found = cls(
            bool(getattr(policy, "timed", False)),
            getattr(policy, "gives", "model"),
            bool(getattr(policy, "accumulates", False)),
            bool(getattr(policy, "keeps_initial", False)),
            bool(getattr(policy, "compares", False)),
            bool(getattr(policy, "early", False)),
            tuple(getattr(policy, "promises", ("once",))),
        )
        if found.gives not in get_args(Gives):
            raise ValueError(f"gives = {found.gives!r}: expected {_list(get_args(Gives))}")
        if not set(found.promises) <= set(get_args(Promise)):
            allowed = f"expected any of {_list(get_args(Promise))}"
            raise ValueError(f"promises = {found.promises!r}: {allowed}")
        return found


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


def is_timed(policy: Policy) -> bool:
    """Whether the policy gets `Ended` and `Tick`, and may decide `Wake`."""
    return Traits.of(policy).timed


FLOAT32_LARGEST = (2 - 2.0**-23) * 2.0**127
FLOAT32_SMALLEST = 2.0**-126
FLOAT32_NUMBERS = (
    f"0, or a number of a size from {FLOAT32_SMALLEST:.7g} to {FLOAT32_LARGEST:.7g} (float32)"
)
"""What `is_float32` allows, in words."""


def is_float32(value: Any) -> bool:
    """Whether a value is a number that float32 can hold with its whole precision."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    size: Any = abs(value)
    return bool(size == 0 or FLOAT32_SMALLEST <= size <= FLOAT32_LARGEST)


WHOLE_TOTAL = 2**16
"""The largest total of whole weights: float32 is exact up to 2**24, and synthetic elements are at
most 255."""


def average(group: tuple[str, ...]) -> Start:
    """Start the plain mean of a group. Weights are 1, so that sums of small integers stay exact."""
    return Start(group, dict.fromkeys(group, 1.0), 1.0 / len(group))


def weighted(weights: Mapping[str, Fraction]) -> Start:
    """Start the mean of the sites in `weights`; the weights sum to 1.

    If their common denominator is small, the weights become whole numbers with one scale, so that
    sums of small integers are exact in any order. Otherwise they become floating-point numbers.
    """
    whole = math.lcm(*(weight.denominator for weight in weights.values()))
    if whole > WHOLE_TOTAL:
        return Start(tuple(weights), {site: float(each) for site, each in weights.items()}, 1.0)
    return Start(
        tuple(weights), {site: float(each * whole) for site, each in weights.items()}, 1.0 / whole
    )
