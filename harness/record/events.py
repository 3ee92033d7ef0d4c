"""The events of a run as typed values (pure).

Every process of a run writes events with the run's one clock; the runner merges them by time into
`events.jsonl`, which `harness.record.event_reading` reads. A class here is one event type: its name
in snake case is the line's `"event"`, its fields are the line's keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trunkline.agents.planning.chunks import Cut, cut_model

CONTROLLER = "controller"
BACKUP = "backup"
RUNNER = "runner"


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """What the interface of one directed link counted during the run, headers included."""

    src: str
    dst: str
    bytes: int
    packets: int
    drops: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at `site` (a site, "controller" or "runner"), `t_ns` into the run."""

    t_ns: int
    site: str


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """Runner: the agents are about to start."""

    scenario: str
    seed: int
    backend: str
    clock: str
    sites: tuple[str, ...]
    model_bytes: int
    chunk_bytes: int
    policy: str
    plan: str


@dataclass(frozen=True, slots=True)
class NetworkReady(Event):
    """Runner: every link is up and shaped."""


@dataclass(frozen=True, slots=True)
class ProgramsStarted(Event):
    """Runner: every site's program begins now."""


@dataclass(frozen=True, slots=True)
class AgentExited(Event):
    """Runner: the process of `who` ended with this exit code, or by this signal.

    `fault` is the number of the fault that killed it. `asked` is of a program that was told to
    end, whose exit code then means nothing.
    """

    who: str
    code: int | None = None
    signal: int | None = None
    fault: int | None = None
    asked: bool = False


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """Runner: every process is reaped; `links` are the interface counters at that moment.

    At the sites `short_of_memory` TCP met the kernel's limit of its memory.
    """

    reason: str
    links: tuple[LinkCounters, ...]
    short_of_memory: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentFailed(Event):
    """Controller or worker: gives up, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Late(Event):
    """Worker on a real clock: its work took so much longer than it is modelled to take."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TimersLate(Event):
    """Agent on a real clock, at its end: how late its timers were in all, of the time watched."""

    seconds: float
    of_s: float


@dataclass(frozen=True, slots=True)
class ComputeStarted(Event):
    """Worker: an iteration's own work begins."""

    iteration: int


@dataclass(frozen=True, slots=True)
class ComputeFinished(Event):
    """Worker: an iteration's own work is done."""

    iteration: int


@dataclass(frozen=True, slots=True)
class SyncStarted(Event):
    """Program: synchronizes with others; all give this task the same number, size and operation.

    The size is in bytes; `allreduce` is the operation that a bound can be given for.
    """

    task: int
    bytes: int = 0
    operation: str = "program"


@dataclass(frozen=True, slots=True)
class SyncFinished(Event):
    """Program: has what it wanted from the task."""

    task: int


@dataclass(frozen=True, slots=True)
class Ready(Event):
    """Worker: waits for a group to synchronize this iteration with."""

    iteration: int


@dataclass(frozen=True, slots=True)
class Contributed(Event):
    """Worker: what this site put into the task; digest and fingerprint are of its float32s."""

    task: int
    iteration: int
    digest: str
    fingerprint: tuple[float, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class TaskJoined(Event):
    """Worker: this site knows the task, as a member, an aggregator or both.

    Its parts are `unchanged` if they are those of the task before.
    """

    task: int
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Sent(Event):
    """Worker: the payload of one task and phase that this site put on its link to `dst`."""

    task: int
    dst: str
    phase: str
    bytes: int
    chunks: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Received(Event):
    """Worker: the payload of one task and phase that arrived over the link from `src`."""

    task: int
    src: str
    phase: str
    bytes: int
    chunks: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Routed(Event):
    """Worker: of what it sent for the task itself, so much set out along this path.

    Only where there are auxiliary paths; then it has an edge of the plan or goes around one.
    """

    task: int
    path: tuple[str, ...]
    bytes: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Discarded(Event):
    """Worker: of the payload received for the task, what `src` had sent early and in vain."""

    task: int
    src: str
    bytes: int
    chunks: int


@dataclass(frozen=True, slots=True)
class TaskFinished(Event):
    """Worker: a member installed the result."""

    task: int
    digest: str
    fingerprint: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TaskDropped(Event):
    """Worker: a member gave the task up; `digest` is of the model that it keeps."""

    task: int
    reason: str
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class RoundFinished(Event):
    """Worker: one more iteration computed and synchronized."""

    rounds: int


@dataclass(frozen=True, slots=True)
class WorkerFinished(Event):
    """Worker: told to stop, done."""

    rounds: int


@dataclass(frozen=True, slots=True)
class Evaluated(Event):
    """Worker: the result of the task, measured on test samples."""

    task: int
    accuracy_percent: float
    loss: float
    samples: int


@dataclass(frozen=True, slots=True)
class TaskStarted(Event):
    """Controller: `group` is to hold `scale` times the weighted sum of the contributions.

    `bytes` is the model's size; `forest` is the plan as `agents.planning.plan.Plan.to_json` gives
    it, made by the rates of that version. The model is of tensors of `tensor_bytes`, or of one
    array.
    """

    task: int
    policy: str
    plan: str
    group: tuple[str, ...]
    weights: Mapping[str, float]
    scale: float
    bytes: int
    chunk_bytes: int
    forest: Mapping[str, Any]
    version: int = 1
    tensor_bytes: tuple[int, ...] = ()

    @property
    def cut(self) -> Cut:
        """The model's chunks, in bytes."""
        return cut_model(self.bytes, self.chunk_bytes, self.tensor_bytes)


@dataclass(frozen=True, slots=True)
class TaskRearranged(Event):
    """Controller: the blocks of `forest`, numbered from `first`, take over from the `withdrawn`."""

    task: int
    withdrawn: tuple[int, ...]
    first: int
    forest: Mapping[str, Any]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TaskHalted(Event):
    """Controller: everybody drops the blocks so far; `members` are asked if they have finished."""

    task: int
    reason: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskReplanned(Event):
    """Controller: a halted task goes on with the blocks of `forest`, numbered from `first`.

    With a `holder` they only carry the result from that member, which has it, to the others.
    """

    task: int
    reason: str
    first: int
    holder: str | None
    forest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskCompleted(Event):
    """Controller: the members reported the result installed, all but those in `without`."""

    task: int
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskAbandoned(Event):
    """Controller: the task is given up, everybody keeps their own model."""

    task: int
    reason: str


@dataclass(frozen=True, slots=True)
class GroupPostponed(Event):
    """Controller: no plan for this group over the links that can be used now; tried again later."""

    group: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerLost(Event):
    """Controller: the connection to this worker broke."""

    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerFound(Event):
    """Controller: a worker that was lost follows it, with all that it reported."""

    worker: str


@dataclass(frozen=True, slots=True)
class ControllerLost(Event):
    """Worker: the connection to the controller broke; it is on its own."""

    reason: str


@dataclass(frozen=True, slots=True)
class ControllerFound(Event):
    """Worker: it follows this controller, the same as before or another."""

    controller: str


@dataclass(frozen=True, slots=True)
class CallerRefused(Event):
    """Agent: somebody connected who is none of this run's, the `count`-th; not all are logged."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class LinkLost(Event):
    """Worker: the connection to a neighbour broke."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True)
class LinkFound(Event):
    """Worker: connected to this neighbour again."""

    peer: str


@dataclass(frozen=True, slots=True)
class RoundAlone(Event):
    """Worker: an iteration computed and not synchronized, for want of a controller."""

    iteration: int


@dataclass(frozen=True, slots=True)
class Stopping(Event):
    """Controller: the stop condition is met, no more tasks."""

    reason: str
