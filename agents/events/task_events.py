"""The events of tasks: how each is started, carried out and ended (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from trunkline.agents.events.causes import BY_TYPE, Abandoning, Dropping, Halting, Loss, NoPlan
from trunkline.agents.events.event import Count, Event

Phase = Literal["in", "out", "relay", "aux", "early"]
"""Payload on its way: `in` towards the aggregator, `out` from it, `relay` for chunks that are only
forwarded, `aux` for the first hop of an auxiliary path; `early` for contributions that set out
before their task was known."""


@dataclass(frozen=True, slots=True)
class Contributed(Event):
    """Worker: what this site put into the task; digest and fingerprint are of its float32s."""

    task: Count
    iteration: Count
    digest: str
    fingerprint: tuple[float, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class TaskJoined(Event):
    """Worker: this site knows the task, as a member, an aggregator or both.

    Its parts are `unchanged` if they are those of the task before.
    """

    task: Count
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Sent(Event):
    """Worker: the payload of one task and phase that this site put on its link to `dst`."""

    task: Count
    dst: str
    phase: Phase
    bytes: Count
    chunks: Count
    start_ns: Count
    end_ns: Count


@dataclass(frozen=True, slots=True)
class Received(Event):
    """Worker: the payload of one task and phase that arrived over the link from `src`."""

    task: Count
    src: str
    phase: Phase
    bytes: Count
    chunks: Count
    start_ns: Count
    end_ns: Count


@dataclass(frozen=True, slots=True)
class Routed(Event):
    """Worker: it sent so many bytes of its own for the task along this path.

    It is logged only with auxiliary paths. The path is an edge of the plan or a way around one.
    """

    task: Count
    path: tuple[str, ...]
    bytes: Count
    chunks: Count


@dataclass(frozen=True, slots=True)
class Discarded(Event):
    """Worker: the part of the payload received for the task that `src` had sent early, in vain."""

    task: Count
    src: str
    bytes: Count
    chunks: Count


@dataclass(frozen=True, slots=True)
class TaskFinished(Event):
    """Worker: a member installed the result."""

    task: Count
    digest: str
    fingerprint: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ContributionTaken(Event):
    """Worker: all receivers have the result, of which this site only was a contributor."""

    task: Count


@dataclass(frozen=True, slots=True)
class TaskDropped(Event):
    """Worker: a member gave the task up; `digest` is of the model that it keeps."""

    task: Count
    cause: Annotated[Dropping, BY_TYPE] | None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class HaltHeard(Event):
    """Worker: it was told to drop the task's blocks so far.

    It answered whether it has `finished` the task and still remembers its result.
    """

    task: Count
    finished: bool


@dataclass(frozen=True, slots=True)
class BlocksHeard(Event):
    """Worker: it was told of new blocks of a task; the last of them is number `blocks` - 1."""

    task: Count
    blocks: Count


@dataclass(frozen=True, slots=True)
class Evaluated(Event):
    """Worker: the result of the task, measured on test samples."""

    task: Count
    accuracy_percent: float
    loss: float
    samples: Count


@dataclass(frozen=True, slots=True)
class Compared(Event):
    """Worker: how similar its latest step is to what the task's result adds to its model.

    It is the cosine of the angle between both, seen from the model with which the step began.
    """

    task: Count
    similarity: float


@dataclass(frozen=True, slots=True)
class Roles:
    """How the members of a task take part, as in `agents.policies.policy.Start`."""

    receivers: tuple[str, ...]
    passive: tuple[str, ...]
    keep: float
    momentum: float
    then: Literal["proceed", "wait"]
    kept: Literal["model", "initial"] = "model"

    @property
    def merges(self) -> bool:
        """Whether the result becomes a part of what a receiver has, and does not replace it."""
        return bool(self.keep or self.momentum)


@dataclass(frozen=True, slots=True)
class TaskStarted(Event):
    """Controller: `group` is to hold `scale` times the weighted sum of the contributions.

    Without `roles`, every member is ready, contributes, and gets the result as its new model.

    `bytes` is the model's size; `forest` is the plan as `agents.planning.plan.Plan.to_json` gives
    it, made by the rates of that `version`. The model consists of tensors of `tensor_bytes`, or of
    one array.
    """

    task: Count
    policy: str
    plan: str
    group: tuple[str, ...]
    weights: Mapping[str, float]
    scale: float
    bytes: Count
    chunk_bytes: Count
    tensor_bytes: tuple[Count, ...] = field(default=(), kw_only=True)
    forest: Mapping[str, Any]
    version: Count = 1
    roles: Roles | None = None

    @property
    def receivers(self) -> tuple[str, ...]:
        """The members that are to get the result."""
        return self.group if self.roles is None else self.roles.receivers

    @property
    def passive(self) -> tuple[str, ...]:
        """The members that take part without being ready."""
        return () if self.roles is None else self.roles.passive

    def omitted_keys(self) -> tuple[str, ...]:
        return ("roles",) if self.roles is None else ()


@dataclass(frozen=True, slots=True)
class ModelMerged(Event):
    """Worker: a task's result became a part of this site's model, as the task's roles say.

    The model before has the digest `base`; the new one is the site's version number `version`. The
    `step` is the fingerprint of the step that was added.
    """

    task: Count
    version: Count
    base: str
    base_fingerprint: tuple[float, ...]
    step: tuple[float, ...]
    digest: str
    fingerprint: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ServerBegan(Event):
    """Worker: this server holds version 0 of its shard of the model."""

    digest: str
    fingerprint: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TaskRearranged(Event):
    """Controller: the blocks of `forest`, numbered from `first`, take over from the `withdrawn`."""

    task: Count
    withdrawn: tuple[Count, ...]
    first: Count
    forest: Mapping[str, Any]
    cause: Annotated[Loss, BY_TYPE]


@dataclass(frozen=True, slots=True)
class TaskHalted(Event):
    """Controller: all sites drop the blocks so far; `members` are asked if they have finished."""

    task: Count
    cause: Annotated[Halting, BY_TYPE]
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskReplanned(Event):
    """Controller: a halted task continues with the blocks of `forest`, numbered from `first`.

    With a `holder`, they only carry the result from that member to the others.
    """

    task: Count
    first: Count
    holder: str | None
    forest: Mapping[str, Any]
    cause: Annotated[Halting, BY_TYPE]


@dataclass(frozen=True, slots=True)
class TaskCompleted(Event):
    """Controller: the members reported the result installed, all but those in `without`."""

    task: Count
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskAbandoned(Event):
    """Controller: the task is given up; every member keeps its own model."""

    task: Count
    cause: Annotated[Abandoning, BY_TYPE]


@dataclass(frozen=True, slots=True)
class GroupPostponed(Event):
    """Controller: the links that work do not connect the group; it is tried again later."""

    group: tuple[str, ...]
    cause: NoPlan


@dataclass(frozen=True, slots=True)
class SiteExcluded(Event):
    """Controller: this worker is to do no more rounds; it ends its round."""

    worker: str


@dataclass(frozen=True, slots=True)
class SiteReleased(Event):
    """Controller: this worker, which was ready, continues with its next round without a task."""

    worker: str
