"""What agents say to each other, but for models: typed messages, to and from JSON (pure).

What arrives is checked strictly against the dataclasses below; `agents.wire.framing` puts it on a
wire.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from trunkline.agents.planning.site_plan import BlockPart


class ProtocolError(Exception):
    """The peer sent something that is no valid frame; the connection cannot be trusted further."""


ControllerRank = Annotated[int, Field(ge=0, lt=32)]
"""0 for the controller that starts the run, 1 for the backup; a frame has five bits for it."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First message on every connection: who calls, of which run, and when.

    `proof` is that of `agents.wire.identity`; the time is the kernel's monotonic one.
    """

    run: str
    site: str
    called_ns: int
    proof: str
    type: Literal["hello"] = "hello"


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task whose end a member has not heard; `finished` if it has installed the result.

    `left_s` remains of the budget, in seconds.
    """

    task: int
    group: tuple[str, ...]
    weights: dict[str, float]
    scale: float
    blocks: int
    finished: bool
    left_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """Worker to controller, first of all on every connection: what a new one must know.

    `ready` is the iteration that waits for a group, if one does; `left` says that no more will.
    `lost` are the neighbours that it has lost since its last report or cannot reach; `helps` the
    tasks of others that it takes part in, `last_tasks` the latest task that it has heard of from
    each controller.
    """

    ready: int | None
    left: bool
    lost: tuple[str, ...]
    tasks: tuple[TaskState, ...]
    helps: tuple[int, ...]
    last_tasks: tuple[int, ...]
    type: Literal["report"] = "report"


@dataclass(frozen=True, slots=True)
class LinkLost:
    """Worker to controller: the connection to this neighbour broke; what was on it is gone."""

    peer: str
    type: Literal["link_lost"] = "link_lost"


@dataclass(frozen=True, slots=True)
class LinkFound:
    """Worker to controller: connected to this neighbour again."""

    peer: str
    type: Literal["link_found"] = "link_found"


@dataclass(frozen=True, slots=True)
class Begin:
    """Controller to worker, first of all: it is in charge; compute and say when ready.

    `default` is this site's part of the default split: with a non-blocking scatter it sends by
    that as soon as it is ready. Empty where the scatter waits for the task.
    """

    default: tuple[BlockPart, ...]
    type: Literal["begin"] = "begin"


@dataclass(frozen=True, slots=True)
class SiteReady:
    """Worker to controller: an iteration's local work is done.

    `offer` numbers what this site contributes now; it may be on its way by the default split.
    `version` is that of the parts it knows (NetStorm's TRP): it sends nothing before it has an
    answer, which is the task's start.
    """

    iteration: int
    offer: int
    version: int = 0
    type: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class StartTask:
    """Controller to every participant: its part of a task.

    The result is `scale * sum(weights[site] * contribution[site])`. `evaluate` asks this site to
    measure the result's accuracy. `blocks` is how many block numbers the task has used so far,
    those below `floor` are withdrawn; `left_s` is what remains of its budget in seconds.
    `offers` are the contributors' offers that the task takes in, where the scatter did not wait:
    what of them is not in a part of its receiver is dropped, what is missing is sent. The parts are
    made by rates of that `version`; where they are `unchanged` they are left out.
    """

    task: int
    group: tuple[str, ...]
    blocks: int
    floor: int
    left_s: float
    weights: dict[str, float]
    scale: float
    contributes: bool
    receives: bool
    evaluate: bool
    offers: dict[str, int]
    parts: tuple[BlockPart, ...]
    version: int = 0
    unchanged: bool = False
    type: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class RearrangeTask:
    """Controller to every participant, old and new: other blocks of a running task take over.

    Every trace of the blocks in `withdrawn` is dropped; the new ones, of which `parts` are this
    site's, start afresh. Block numbers are never used again within a task: `blocks` is how many
    it has used so far, the new ones included. With a `floor` all blocks below it are withdrawn,
    and a result that is not whole is begun again: sums may be formed in another order than before.
    """

    task: int
    blocks: int
    floor: int
    withdrawn: tuple[int, ...]
    parts: tuple[BlockPart, ...]
    type: Literal["rearrange"] = "rearrange"


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """Worker to controller: this receiver has installed the whole result.

    Blocks from number `blocks` on were announced too late for it: it has given nothing to them.
    """

    task: int
    blocks: int
    type: Literal["finished"] = "finished"


@dataclass(frozen=True, slots=True)
class Halt:
    """Controller to every participant: drop all blocks so far, install nothing, and answer."""

    task: int
    type: Literal["halt"] = "halt"


@dataclass(frozen=True, slots=True)
class Halted:
    """Member to controller: it has installed the result, or else it will not."""

    task: int
    finished: bool
    type: Literal["halted"] = "halted"


@dataclass(frozen=True, slots=True)
class Refuse:
    """Worker to worker: the sender takes no part in this task, or no longer."""

    task: int
    type: Literal["refuse"] = "refuse"


@dataclass(frozen=True, slots=True)
class Refused:
    """Worker to controller: `site` said that it takes no part in the task."""

    task: int
    site: str
    type: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class AuxiliaryPaths:
    """Controller to worker: all paths from it that it may use from now on, in place of any before.

    To each destination the best is first. The version is that of the rates they were chosen by.
    """

    version: int
    paths: tuple[tuple[str, ...], ...]
    type: Literal["auxiliary_paths"] = "auxiliary_paths"


@dataclass(frozen=True, slots=True)
class Delivered:
    """Worker to worker, back along an auxiliary path of ranks: a chunk is where it was sent."""

    path: tuple[int, ...]
    task: int
    inward: bool
    block: int
    chunk: int
    type: Literal["delivered"] = "delivered"


@dataclass(frozen=True, slots=True)
class TaskOver:
    """Controller to every participant: forget the task; abandoned unless `completed`."""

    task: int
    completed: bool
    reason: str
    type: Literal["over"] = "over"


@dataclass(frozen=True, slots=True)
class Arrived:
    """Worker to worker: its frame of that time has arrived, with a chunk of this size or none.

    The time is by a clock that follows that controller's.
    """

    sent_ns: int
    controller: ControllerRank
    size: int
    type: Literal["arrived"] = "arrived"


@dataclass(frozen=True, slots=True)
class Measured:
    """Worker to controller: the rate of a directed link, as chunks that crossed it tell."""

    src: str
    dst: str
    rate_mbps: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    type: Literal["measured"] = "measured"


@dataclass(frozen=True, slots=True)
class TimeServer:
    """Controller to worker: ask this neighbour for the time, or `controller`."""

    site: str
    type: Literal["time_server"] = "time_server"


@dataclass(frozen=True, slots=True)
class TimeRequest:
    """Whoever needs the time to whoever has it: asked at this time of the asker's clock."""

    asked_ns: int
    type: Literal["time_request"] = "time_request"


@dataclass(frozen=True, slots=True)
class TimeReply:
    """The answer: when it was asked, heard and answered, the latter two by the answerer's clock.

    That clock follows the one of the controller of this rank, from which it is so far.
    """

    asked_ns: int
    received_ns: int
    replied_ns: int
    controller: ControllerRank
    distance_ns: int
    type: Literal["time_reply"] = "time_reply"


@dataclass(frozen=True, slots=True)
class Released:
    """Controller to worker: nobody is left to synchronize with, go on alone."""

    type: Literal["released"] = "released"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Worker to controller: the accuracy of a task's result, in percent."""

    task: int
    accuracy_percent: float
    type: Literal["evaluated"] = "evaluated"


@dataclass(frozen=True, slots=True)
class Left:
    """Worker to controller: no further rounds; still aggregates and forwards for others."""

    rounds: int
    type: Literal["left"] = "left"


@dataclass(frozen=True, slots=True)
class Stop:
    """Controller to worker: no new rounds; a running task is still finished."""

    type: Literal["stop"] = "stop"


@dataclass(frozen=True, slots=True)
class Bye:
    """Controller to worker: nothing is running any more, exit."""

    type: Literal["bye"] = "bye"


Control = (
    Hello
    | Report
    | LinkLost
    | LinkFound
    | Begin
    | SiteReady
    | StartTask
    | RearrangeTask
    | TaskFinished
    | Halt
    | Halted
    | Refuse
    | Refused
    | Arrived
    | Measured
    | TimeServer
    | TimeRequest
    | TimeReply
    | AuxiliaryPaths
    | Delivered
    | TaskOver
    | Released
    | Evaluated
    | Left
    | Stop
    | Bye
)

_CONTROL: TypeAdapter[Control] = TypeAdapter(Annotated[Control, Field(discriminator="type")])


def to_json(message: Control) -> bytes:
    """The message as one JSON object."""
    return _CONTROL.dump_json(message)


def from_json(text: bytes) -> Control:
    """The inverse of `to_json`. Raises ProtocolError for anything else."""
    try:
        return _CONTROL.validate_json(text)
    except ValidationError as error:
        raise ProtocolError(f"no valid message: {error}") from None


def describe(message: Control) -> str:
    """A short form for error messages."""
    fields = dataclasses.asdict(message)
    return f"{fields.pop('type')} {fields}"[:200]
