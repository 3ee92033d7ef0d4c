"""The events of tasks: how each is started, carried out and ended (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from trunkline.agents.events.causes import BY_TYPE, Abandoning, Dropping, Halting, Loss, NoPlan
from trunkline.agents.events.event import By, Count, Event, TaskEvent

Phase = Literal["in", "out", "relay", "aux", "early"]
"""Payload on its way: `in` towards the aggregator, `out` from it, `relay` for chunks that are only
forwarded, `aux` for the first hop of an auxiliary path; `early` for contributions that set out
before their task was known."""


@dataclass(frozen=True, slots=True)
class Contributed(TaskEvent, by=By.SITE):
    """What this site put into the task; digest and fingerprint are of its float32s."""

    iteration: Count
    digest: str
    fingerprint: tuple[float, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class TaskJoined(TaskEvent, by=By.SITE):
    """This site knows the task, as a member, an aggregator or both.

    Its parts are `unchanged` if they are those of the task before.
    """

    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Sent(TaskEvent, by=By.SITE):
    """The payload of one task and phase that this site put on its link to `dst`."""

    dst: str
    phase: Phase
    bytes: Count
    chunks: Count
    start_ns: Count
    end_ns: Count
    resent: Count | None = None

    def omitted_keys(self) -> tuple[str, ...]:
        return ("resent",) if self.resent is None else ()


@dataclass(frozen=True, slots=True)
class Received(TaskEvent, by=By.SITE):
    """The payload of one task and phase that arrived over the link from `src`."""

    src: str
    phase: Phase
    bytes: Count
    chunks: Count
    start_ns: Count
    end_ns: Count


@dataclass(frozen=True, slots=True)
class Routed(TaskEvent, by=By.SITE):
    """The worker sent so many bytes of its own for the task along this path.

    It is logged only with auxiliary paths. The path is an edge of the plan or a way around one.
    """

    path: tuple[str, ...]
    bytes: Count
    chunks: Count


@dataclass(frozen=True, slots=True)
class Discarded(TaskEvent, by=By.SITE):
    """The part of the payload received for the task that `src` had sent early, in vain."""

    src: str
    bytes: Count
    chunks: Count


@dataclass(frozen=True, slots=True)
class TaskFinished(TaskEvent, by=By.SITE):
    """A member installed the result."""

    digest: str
    fingerprint: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ContributionTaken(TaskEvent, by=By.SITE):
    """All receivers have the result, of which this site only was a contributor."""


@dataclass(frozen=True, slots=True)
class TaskDropped(TaskEvent, by=By.SITE):
    """A member gave the task up; `digest` is of the model that it keeps."""

    cause: Annotated[Dropping, BY_TYPE] | None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class HaltHeard(TaskEvent, by=By.SITE):
    """The worker was told to drop the task's blocks so far.

    It answered whether it has `finished` the task and still remembers its result.
    """

    finished: bool


@dataclass(frozen=True, slots=True)
class BlocksHeard(TaskEvent, by=By.SITE):
    """The worker was told of new blocks of a task; the last of them is number `blocks` - 1."""

    blocks: Count


@dataclass(frozen=True, slots=True)
class Evaluated(TaskEvent, by=By.SITE):
    """A program has measured the task's result on test samples."""

    accuracy_percent: float
    loss: float
    samples: Count


@dataclass(frozen=True, slots=True)
class Compared(TaskEvent, by=By.SITE):
    """How similar the latest step is to what the task's result adds to the model.

    It is the cosine of the angle between both, seen from the model with which the step began.
    """

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
class TaskStarted(TaskEvent, by=By.CONTROLLER):
    """`group` is to hold `scale` times the weighted sum of the contributions.

    Without `roles`, every member is ready, contributes, and gets the result as its new model.

    `bytes` is the model's size; `forest` is the plan as `agents.planning.plan.Plan.to_json` gives
    it, made by the rates of that `version`. The model consists of tensors of `tensor_bytes`, or of
    one array.
    """

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
class ModelMerged(TaskEvent, by=By.SITE):
    """A task's result became a part of this site's model, as the task's roles say.

    The model before has the digest `base`; the new one is the site's version number `version`. The
    `step` is the fingerprint of the step that was added.
    """

    version: Count
    base: str
    base_fingerprint: tuple[float, ...]
    step: tuple[float, ...]
    digest: str
    fingerprint: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ServerBegan(Event, by=By.SITE):
    """This server holds version 0 of its shard of the model."""

    digest: str
    fingerprint: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TaskRearranged(TaskEvent, by=By.CONTROLLER):
    """The blocks of `forest`, numbered from `first`, take over from the `withdrawn`."""

    withdrawn: tuple[Count, ...]
    first: Count
    forest: Mapping[str, Any]
    cause: Annotated[Loss, BY_TYPE]


@dataclass(frozen=True, slots=True)
class TaskHalted(TaskEvent, by=By.CONTROLLER):
    """All sites drop the blocks so far; `members` are asked if they have finished."""

    cause: Annotated[Halting, BY_TYPE]
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskReplanned(TaskEvent, by=By.CONTROLLER):
    """A halted task continues with the blocks of `forest`, numbered from `first`.

    With a `holder`, they only carry the result from that member to the others.
    """

    first: Count
    holder: str | None
    forest: Mapping[str, Any]
    cause: Annotated[Halting, BY_TYPE]


@dataclass(frozen=True, slots=True)
class TaskCompleted(TaskEvent, by=By.CONTROLLER):
    """The members reported the result installed, all but those in `without`."""

    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskAbandoned(TaskEvent, by=By.CONTROLLER):
    """The task is given up; every member keeps its own model."""

    cause: Annotated[Abandoning, BY_TYPE]


@dataclass(frozen=True, slots=True)
class GroupPostponed(Event, by=By.CONTROLLER):
    """The links that work do not connect the group; it is tried again later."""

    group: tuple[str, ...]
    cause: NoPlan


@dataclass(frozen=True, slots=True)
class SiteExcluded(Event, by=By.CONTROLLER):
    """This worker is to do no more rounds; it ends its round."""

    worker: str


@dataclass(frozen=True, slots=True)
class SiteReleased(Event, by=By.CONTROLLER):
    """This worker, which was ready, continues with its next round without a task."""

    worker: str
