"""The control messages between agents (pure).

`agents.wire.framing` defines the wire format, also that of chunks. It checks every received message
strictly against the dataclasses below and `agents.wire.hello`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from trunkline.agents.events.causes import BY_TYPE, Dropping, Ending
from trunkline.agents.events.task_events import Roles
from trunkline.agents.planning.site_plan import BlockPart
from trunkline.agents.wire.hello import Hello


class ProtocolError(Exception):
    """The peer broke the protocol, so the connection cannot be trusted any further."""


Plain = Field(exclude_if=lambda value: not value)
"""For fields that messages leave out if they say nothing: the size of a message takes time."""

ControllerRank = Annotated[int, Field(ge=0, lt=16)]
"""0 for the controller that starts the run, 1 for the backup; a frame has four bits for it."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task of which a member has not heard the end; `finished` if it has installed the result.

    `left_s` is the rest of the task's budget in seconds.
    """

    task: int
    group: tuple[str, ...]
    weights: dict[str, float]
    scale: float
    blocks: int
    finished: bool
    left_s: float
    roles: Annotated[Roles | None, Plain] = None


@dataclass(frozen=True, slots=True)
class Report:
    """Worker to controller, first on every connection: everything that a new one must know.

    ready: the iteration that waits for a group, if any.
    left: whether the worker has done its rounds.
    lost: the neighbours that it has lost since its last report or cannot reach.
    tasks: the tasks of which it is a member.
    helps: the tasks in which it takes part without being a member.
    offer: the number of its contribution that is on its way by the default split, if any.
    spent: of each site the latest offer that this worker has taken into a task or discarded.
    begun: how many tasks of the run have begun, as far as it knows.
    given: whether the contribution of the iteration that waits is in the result of a task already.
    stop: why the whole run ends, if a controller has said so.
    """

    ready: int | None
    left: bool
    lost: tuple[str, ...]
    tasks: tuple[TaskState, ...]
    helps: tuple[int, ...]
    offer: int | None
    spent: dict[str, int]
    begun: int = 0
    given: Annotated[bool, Plain] = False
    stop: Annotated[Annotated[Ending, BY_TYPE] | None, Plain] = None
    type: Literal["report"] = "report"


@dataclass(frozen=True, slots=True)
class LinkLostNotice:
    """Worker to controller: the connection to this neighbour is lost, with all chunks on it."""

    peer: str
    type: Literal["link_lost"] = "link_lost"


@dataclass(frozen=True, slots=True)
class LinkFoundNotice:
    """Worker to controller: this neighbour is connected again."""

    peer: str
    type: Literal["link_found"] = "link_found"


@dataclass(frozen=True, slots=True)
class Begin:
    """Controller to worker, first on every connection: this controller is in charge.

    `default` is the worker's part of the default split, by which it sends as soon as it is ready.
    It is empty without a non-blocking scatter.
    """

    default: tuple[BlockPart, ...]
    type: Literal["begin"] = "begin"


@dataclass(frozen=True, slots=True)
class DefaultSplit:
    """Controller to worker: its part of a new default split; links or rates have changed."""

    parts: tuple[BlockPart, ...]
    type: Literal["default_split"] = "default_split"


@dataclass(frozen=True, slots=True)
class SiteReady:
    """Worker to controller: an iteration's local work is done.

    `offer` is the number of its contribution, which may be on its way by the default split.
    `version` is that of its cached parts (NetStorm's TRP). The task's start answers it; before
    that, the worker sends nothing by these parts. With `given`, the contribution of this iteration
    is in the result of a task already.
    """

    iteration: int
    offer: int
    version: int = 0
    given: Annotated[bool, Plain] = False
    type: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class StartTask:
    """Controller to every participant: its parts of a task.

    The result is `scale * sum(weights[site] * contribution[site])`.

    blocks: how many block numbers the task has used so far; those below `floor` are withdrawn.
    left_s: the rest of the task's budget in seconds.
    offers: the contributors' offers that the task takes in (non-blocking scatter). Offered chunks
        at a site that does not aggregate them are dropped, and missing chunks are sent.
    parts: this site's parts, made with rates of this `version`; empty if `unchanged`.
    roles: how members take part; None if the task is plain.
    batch: the samples in each step of this site's next iteration; None for no change.
    count: how many tasks of the run have begun with this one, as far as the controller knows.
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
    offers: dict[str, int]
    parts: tuple[BlockPart, ...]
    version: int = 0
    unchanged: bool = False
    roles: Annotated[Roles | None, Plain] = None
    batch: Annotated[int | None, Plain] = None
    count: int = 0
    type: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class RearrangeTask:
    """Controller to every participant, old and new: new blocks replace blocks of a running task.

    The receiver drops everything of the `withdrawn` blocks and starts with the new ones; `parts`
    are its parts of these. A task uses each block number once: `blocks` is how many it has used,
    with the new ones. With a `floor`, all blocks below it are withdrawn and an incomplete result is
    started again, because the new blocks may add in another order.
    """

    task: int
    blocks: int
    floor: int
    withdrawn: tuple[int, ...]
    parts: tuple[BlockPart, ...]
    type: Literal["rearrange"] = "rearrange"


@dataclass(frozen=True, slots=True)
class FinishedNotice:
    """Worker to controller: this receiver has installed the whole result.

    It has contributed nothing to blocks from number `blocks` on, which it did not know by then.
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
    """Member to controller, after a halt: whether it has installed the result.

    If not, it will not do so from the blocks so far.
    """

    task: int
    finished: bool
    type: Literal["halted"] = "halted"


@dataclass(frozen=True, slots=True)
class Refuse:
    """Worker to worker: the sender does not take part in this task, or not any more."""

    task: int
    type: Literal["refuse"] = "refuse"


@dataclass(frozen=True, slots=True)
class RefuseOffer:
    """Worker to worker: `by`, which has no controller, discards chunks of this offer of `site`.

    A site that passed these chunks on hands the message to `site`.
    """

    site: str
    offer: int
    by: str
    type: Literal["refuse_offer"] = "refuse_offer"


@dataclass(frozen=True, slots=True)
class Refused:
    """Worker to controller: `site` has refused to take part in the task."""

    task: int
    site: str
    type: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class AuxiliaryPaths:
    """Controller to worker: the auxiliary paths from its site, which replace all earlier ones.

    For each destination the best path comes first. They need no version: the connection keeps the
    order of messages, and a chunk carries its path.
    """

    paths: tuple[tuple[str, ...], ...]
    type: Literal["auxiliary_paths"] = "auxiliary_paths"


@dataclass(frozen=True, slots=True)
class Delivered:
    """Worker to worker, back along an auxiliary path: a chunk has reached its destination.

    `path` is the path of the chunk, in ranks.
    """

    path: tuple[int, ...]
    task: int
    inward: bool
    block: int
    chunk: int
    type: Literal["delivered"] = "delivered"


@dataclass(frozen=True, slots=True)
class TaskOver:
    """Controller to every participant: forget the task, which is `completed` or abandoned.

    None for `completed` means that this controller does not know: the task ended without it.
    """

    task: int
    completed: bool | None
    cause: Annotated[Annotated[Dropping, BY_TYPE] | None, Plain] = None
    type: Literal["over"] = "over"


@dataclass(frozen=True, slots=True)
class Arrived:
    """Worker to worker: the frame with this stamp has arrived; `size` is its chunk's, 0 for a beat.

    The stamp is the receiver's own: `sent_ns` of a clock that follows the clock of `controller`.
    """

    sent_ns: int
    controller: ControllerRank
    size: int
    type: Literal["arrived"] = "arrived"


@dataclass(frozen=True, slots=True)
class Measured:
    """Worker to controller: the rate of a directed link, measured from chunks that crossed it."""

    src: str
    dst: str
    rate_mbps: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    type: Literal["measured"] = "measured"


@dataclass(frozen=True, slots=True)
class TimeServer:
    """Controller to worker: ask this neighbour (or `controller`) for the time."""

    site: str
    type: Literal["time_server"] = "time_server"


@dataclass(frozen=True, slots=True)
class TimeRequest:
    """A site asks another agent for the time; `asked_ns` is by the asking site's clock."""

    asked_ns: int
    type: Literal["time_request"] = "time_request"


@dataclass(frozen=True, slots=True)
class TimeReply:
    """The answer to a `TimeRequest`; `received_ns` and `replied_ns` are by the server's clock.

    The server's clock follows that of the `controller` with this rank. `distance_ns` is the round
    trip of all exchanges between the two.
    """

    asked_ns: int
    received_ns: int
    replied_ns: int
    controller: ControllerRank
    distance_ns: int
    type: Literal["time_reply"] = "time_reply"


@dataclass(frozen=True, slots=True)
class Released:
    """Controller to worker: continue without a task in this round.

    With a `batch`, steps have this number of samples from now on.
    """

    batch: Annotated[int | None, Plain] = None
    type: Literal["released"] = "released"


@dataclass(frozen=True, slots=True)
class ComparedNotice:
    """Worker to controller: how similar its latest step is to the new model (`task_events`)."""

    similarity: Annotated[float, Field(ge=-1, le=1)]
    type: Literal["compared"] = "compared"


@dataclass(frozen=True, slots=True)
class LeftNotice:
    """Worker to controller: it has done its rounds; it still aggregates and forwards chunks."""

    rounds: int
    type: Literal["left"] = "left"


@dataclass(frozen=True, slots=True)
class StopOrder:
    """Controller to worker: begin no new round, but finish the running task.

    It is for all workers at the end of the run, or for one that the policy excludes. Workers tell
    the `cause` to other controllers, if there is one.
    """

    cause: Annotated[Annotated[Ending, BY_TYPE] | None, Plain] = None
    type: Literal["stop"] = "stop"


@dataclass(frozen=True, slots=True)
class Bye:
    """Controller to worker: the run is over, exit; the worker answers with the same message.

    Worker to worker: the sender exits.
    """

    type: Literal["bye"] = "bye"


Control = (
    Hello
    | Report
    | LinkLostNotice
    | LinkFoundNotice
    | Begin
    | DefaultSplit
    | SiteReady
    | StartTask
    | RearrangeTask
    | FinishedNotice
    | Halt
    | Halted
    | Refuse
    | RefuseOffer
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
    | ComparedNotice
    | LeftNotice
    | StopOrder
    | Bye
)


def describe(message: Control) -> str:
    """A short form for error messages."""
    fields = dataclasses.asdict(message)
    return f"{fields.pop('type')} {fields}"[:200]
