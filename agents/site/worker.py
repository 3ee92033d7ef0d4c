"""The worker of one site: it computes, reports that it is ready, synchronizes, and repeats.

A worker also aggregates and forwards chunks for tasks of other sites. It knows sockets, but not
networks: its caller gives it connected sockets and a way to connect again (`Reach`). So the same
worker runs over socket pairs, loopback and the emulated WAN. docs/failover.md describes what it
does when connections break.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import asdict, replace
from enum import Enum, auto
from functools import partial
from typing import Any

from trunkline.agents.awareness.link_monitor import Awareness
from trunkline.agents.events import connection_events, round_events, task_events
from trunkline.agents.events.causes import (
    Dropping,
    Ending,
    HaltedAlone,
    LostAlone,
    NoRepair,
    RefusedAlone,
)
from trunkline.agents.events.event import Log
from trunkline.agents.planning.chunks import cut_tensors
from trunkline.agents.planning.disciplines import DISCIPLINES
from trunkline.agents.planning.plan import indexes_of
from trunkline.agents.planning.site_plan import BlockPart
from trunkline.agents.planning.two_sided import share_model
from trunkline.agents.site.executor import Executor
from trunkline.agents.site.forward import Forward
from trunkline.agents.site.plan_cache import PlanCache
from trunkline.agents.site.site_model import SiteModel
from trunkline.agents.wire.agent_settings import WorkerSettings, remember
from trunkline.agents.wire.clock import Clock
from trunkline.agents.wire.controller_link import ControllerLink
from trunkline.agents.wire.framing import ChunkHeader, Frame
from trunkline.agents.wire.liveness import Pulse
from trunkline.agents.wire.messages import (
    Arrived,
    AuxiliaryPaths,
    Begin,
    Bye,
    Compared,
    DefaultSplit,
    Delivered,
    Evaluated,
    Halt,
    Halted,
    Left,
    LinkFound,
    LinkLost,
    ProtocolError,
    RearrangeTask,
    Refuse,
    Refused,
    RefuseOffer,
    Released,
    Report,
    SiteReady,
    StartTask,
    Stop,
    TaskFinished,
    TaskOver,
    TaskState,
    TimeReply,
    TimeRequest,
    TimeServer,
    describe,
)
from trunkline.agents.wire.neighbours import Neighbours, Reach, Unreachable
from trunkline.workloads.base import Vector, Workload, digest, fingerprint
from trunkline.workloads.layered.model import WorkloadInLayers

OFFERS_PER_LIFE = 1_000_000
"""Every process of a worker numbers its offers in a range of its own."""


class Outcome(Enum):
    """How the wait for a synchronization ended.

    FINISHED: the result is installed. DROPPED: the task ended without a result. RELEASED: the
    policy lets this site continue alone. STOPPED: the run ends. ALONE: no controller is connected.
    """

    FINISHED = auto()
    DROPPED = auto()
    RELEASED = auto()
    STOPPED = auto()
    ALONE = auto()


class Worker:
    """One site's agent; `run` returns when the controller ends the run."""

    def __init__(
        self,
        settings: WorkerSettings,
        workload: Workload,
        clock: Clock,
        log: Log,
        reach: Reach | None = None,
    ) -> None:
        self._settings = settings
        self._workload = workload
        self._clock = clock
        self._log = log
        self._iteration = settings.first_iteration
        self._synchronized = settings.first_iteration
        self._offer = settings.lives * OFFERS_PER_LIFE
        self._unlocked: asyncio.Future[None] | None = None
        self._default: tuple[BlockPart, ...] = ()
        self._plan_cache = PlanCache()
        self._batch: int | None = None
        self._given = False
        self._active: int | None = None
        self._joined: dict[int, StartTask] = {}
        self._halted: set[int] = set()
        self._reported: set[int] = set()
        self._installed: dict[int, StartTask] = {}
        self._deadlines_s: dict[int, float] = {}
        self._last_tasks: dict[int, int] = {}
        self._task_count = 0
        for task in settings.last_tasks:
            remember(self._last_tasks, task)
        self._lost_peers: dict[str, None] = {}
        self._patience: list[asyncio.TimerHandle] = []
        self._standalone = False
        self._stopping = False
        self._stopped_by: Ending | None = None
        self._left = False
        elements = len(workload.contribution())
        cut = settings.cut(elements)
        shard = share_model(settings.servers, cut).get(settings.site)
        self._model = SiteModel(
            workload,
            cut,
            settings.gives,
            settings.accumulates,
            shard,
            initial=workload.contribution().copy() if settings.keeps_initial else None,
            compares=settings.compares and shard is None,
        )
        self._executor = Executor(
            settings.site,
            settings.sites,
            elements,
            settings.chunk_bytes,
            clock.now_ns,
            settings.auxiliary,
            settings.tensor_bytes,
            None if shard is None else tuple(indexes_of(shard)),
        )
        reach = reach or Unreachable()
        self._forward: Forward | None = None
        if isinstance(workload, WorkloadInLayers) and settings.tensor_bytes:
            branches = cut_tensors(settings.chunk_bytes, settings.tensor_bytes)
            self._forward = Forward(workload, branches, clock, log, self._fail_on_error)
        self._awareness = Awareness(
            settings,
            clock.now_ns,
            lambda peer, message: self._neighbours.tell(peer, message),
            lambda: self._neighbours.beat(),
            lambda message: self._controller.tell(message),
            log,
        )
        self._neighbours = Neighbours(
            settings.callees,
            reach,
            settings.failover,
            self._on_peer_frame,
            self._on_peer_lost,
            self._on_peer_found,
            self._executor.allocate,
            clock.now_ns,
            DISCIPLINES[settings.discipline],
            settings.chunk_bytes,
            self._awareness,
            settings.connections,
        )
        self._executor.dispatch.links = self._neighbours.links
        self._controller = ControllerLink(
            settings.controllers,
            reach,
            settings.failover,
            self._on_controller_frame,
            self._on_controller_lost,
            self._on_controller_found,
            clock.now_ns,
        )

    async def run(
        self, peers: Mapping[str, socket.socket], controller: socket.socket | None
    ) -> None:
        """Work until the controller ends the run.

        Neighbours without a socket connect later: this worker dials those of higher rank, and the
        others dial it (`accept`).
        """
        self._loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._outcome: asyncio.Future[Outcome] | None = None
        self._lost_peers = dict.fromkeys(s for s in self._settings.neighbours if s not in peers)
        self._neighbours.start(peers)
        self._controller.start(controller)
        pulse = asyncio.create_task(Pulse(self._settings.failover, self._connections).run())
        rounds = asyncio.create_task(self._run_rounds())
        awareness = asyncio.create_task(self._awareness.run())
        for task in (pulse, rounds, awareness):
            task.add_done_callback(self._fail_on_error)
        try:
            await self._ended
            # This site was not told how these tasks ended.
            for moved in self._executor.open_accounts():
                self._close_task(moved)
            self._neighbours.say_goodbye()
        finally:
            self._stop_patience()
            rounds.cancel()
            pulse.cancel()
            awareness.cancel()
            if self._forward is not None:
                self._forward.cancel()
            self._controller.close()
            self._neighbours.close()

    def accept(self, peer: str, sock: socket.socket) -> None:
        """Take over a connection from a neighbour, after its hello."""
        self._neighbours.accept(peer, sock)

    def _connections(self) -> list[Any]:
        home = [] if self._controller.link is None else [self._controller.link]
        return [*home, *self._neighbours.links.values()]

    def _fail_on_error(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) and not self._ended.done():
            self._ended.set_exception(error)

    # -- rounds -------------------------------------------------------------------------------

    async def _run_rounds(self) -> None:
        await self._begun
        if self._settings.is_server:
            self._log(task_events.ServerBegan, *self._describe(self._model.model))
            return
        limit = self._settings.rounds
        while not self._stopping and (limit is None or self._iteration < limit):
            iteration, start_ns = self._iteration, self._clock.now_ns()
            self._log(round_events.ComputeStarted, iteration, self._batch)
            self._awareness.on_compute_started()
            await self._compute(iteration)
            self._log(round_events.ComputeFinished, iteration=iteration)
            await self._commit(iteration)
            outcome = await self._synchronize()
            if outcome is Outcome.STOPPED:
                break
            self._iteration += 1
            if outcome is not Outcome.ALONE:
                self._synchronized += 1
                self._log(round_events.RoundFinished, rounds=self._synchronized)
                continue
            self._log(round_events.RoundAlone, iteration=iteration)
            # Without compute time and without a wait, the loop would never let time pass.
            if self._clock.now_ns() == start_ns:
                await asyncio.sleep(self._settings.failover.beat_s)
        self._log(round_events.WorkerFinished, rounds=self._synchronized)
        self._left = True
        self._controller.tell(Left(self._synchronized))

    async def _compute(self, iteration: int) -> None:
        work = partial(self._model.compute, iteration, self._batch)
        if self._forward is None:
            await self._clock.compute(work)
        else:
            await self._forward.finish(iteration, self._batch, work)

    async def _commit(self, iteration: int) -> None:
        """Take over the step of an iteration, once no task reads and replaces the model."""
        while any(message.receives for message in self._joined.values()):
            self._unlocked = self._loop.create_future()
            await self._unlocked
        self._model.commit(iteration)

    def _unlock(self) -> None:
        if self._unlocked is not None and not self._unlocked.done():
            self._unlocked.set_result(None)

    async def _synchronize(self) -> Outcome:
        """Wait for a group and its result; after a dropped task, wait for another group."""
        self._given = False
        while not self._stopping:
            if not self._controller.connected and (self._standalone or not self._default):
                return Outcome.ALONE
            self._outcome = self._loop.create_future()
            self._offer += 1
            self._log(round_events.Ready, iteration=self._iteration)
            version = self._plan_cache.version
            self._controller.tell(SiteReady(self._iteration, self._offer, version, self._given))
            if self._default:
                self._executor.offer(self._offer, self._model.model, self._default)
            outcome = await self._outcome
            self._outcome = None
            self._executor.take_back()
            if outcome is not Outcome.DROPPED:
                return outcome
        return Outcome.STOPPED

    @property
    def _is_waiting(self) -> bool:
        """Whether this site has reported ready and is an active member of no task."""
        return self._outcome is not None and not self._outcome.done() and self._active is None

    def _settle(self, outcome: Outcome) -> None:
        if self._outcome is None or self._outcome.done():
            raise ProtocolError(f"{outcome.name.lower()}, but no round is waiting")
        self._outcome.set_result(outcome)

    # -- the controller -----------------------------------------------------------------------

    def _on_controller_found(self, name: str, begin: Begin) -> None:
        """Report this worker's whole state to the controller that is in charge now."""
        self._default = begin.default
        self._standalone = False
        self._stop_patience()
        if self._begun.done():
            self._log(connection_events.ControllerFound, controller=name)
        else:
            self._begun.set_result(None)
        lost, self._lost_peers = tuple(self._lost_peers), {}
        tasks = [*self._installed.values(), *self._joined.values()]
        self._reported.update(self._joined)
        self._controller.tell(
            Report(
                ready=self._iteration if self._is_waiting else None,
                left=self._left,
                lost=lost,
                tasks=tuple(self._make_state(message) for message in tasks),
                helps=tuple(set(self._executor.running()) - {task.task for task in tasks}),
                offer=self._executor.open_offer() if self._is_waiting else None,
                spent=self._executor.find_spent_offers(),
                last_tasks=tuple(self._last_tasks.values()),
                begun=self._task_count,
                given=self._is_waiting and self._given,
                stop=self._stopped_by,
            )
        )
        self._awareness.report_all()
        for peer in lost:
            if peer in self._neighbours.links:
                self._controller.tell(LinkFound(peer))
            else:
                self._lost_peers[peer] = None

    def _make_state(self, message: StartTask) -> TaskState:
        return TaskState(
            message.task,
            message.group,
            message.weights,
            message.scale,
            self._executor.blocks(message.task),
            message.task in self._installed,
            max(0.0, self._deadlines_s[message.task] - self._loop.time()),
            message.roles,
        )

    def _on_controller_lost(self, error: Exception) -> None:
        """Go on without a controller: finish the running task if possible, begin no other.

        A non-blocking scatter goes on for as long as another controller may take to answer (CREW,
        Section IV-B).
        """
        if self._ended.done():
            return
        self._log(connection_events.ControllerLost, reason=str(error))
        for task, senders in self._executor.find_unknown_tasks().items():
            self._refuse(task, senders)
        patience_s = self._settings.failover.patience_s
        if self._default:
            self._patience.append(self._loop.call_later(patience_s, self._stand_alone))
        else:
            self._stand_alone()
        for task in list(self._joined):
            if task in self._halted:
                self._give_up(task, HaltedAlone())
                continue
            left_s = max(0.0, self._deadlines_s[task] - self._loop.time())
            if any(peer not in self._neighbours.links for peer in self._settings.neighbours):
                left_s = min(left_s, patience_s)
            self._patience.append(self._loop.call_later(left_s, self._give_up, task, NoRepair()))

    def _stand_alone(self) -> None:
        """Wait for no controller any more: take part in no new task and no offer."""
        self._standalone = True
        self._executor.refuse_offers()
        if self._is_waiting:
            self._settle(Outcome.ALONE)

    def _stop_patience(self) -> None:
        for timer in self._patience:
            timer.cancel()
        self._patience.clear()

    def _on_controller_frame(self, frame: Frame) -> None:
        match frame:
            case StartTask():
                self._start_task(frame)
            case RearrangeTask():
                self._log(task_events.BlocksHeard, task=frame.task, blocks=frame.blocks)
                self._halted.discard(frame.task)
                self._executor.rearrange(frame)
            case Halt():
                self._halt(frame.task)
            case DefaultSplit():
                self._default = frame.parts
            case AuxiliaryPaths():
                self._executor.dispatch.switch(frame.paths)
            case TaskOver():
                self._end_task(frame.task, frame.completed, frame.cause)
            case Released(batch):
                self._batch = batch or self._batch
                self._settle(Outcome.RELEASED)
            case TimeServer() | TimeReply():
                self._awareness.on_controller_frame(frame)
            case Stop(cause):
                self._stopping, self._stopped_by = True, cause
                if self._is_waiting:
                    self._settle(Outcome.STOPPED)
            case Bye():
                self._ended.set_result(None)
            case tuple():
                raise ProtocolError("a chunk from the controller")
            case _:
                raise ProtocolError(f"not for a worker: {describe(frame)}")

    # -- tasks --------------------------------------------------------------------------------

    def _start_task(self, message: StartTask) -> None:
        parts = self._plan_cache.take(message.version, message.parts, message.unchanged)
        message = replace(message, parts=parts)
        self._log(task_events.TaskJoined, task=message.task, unchanged=message.unchanged)
        remember(self._last_tasks, message.task)
        self._task_count = max(self._task_count, message.count)
        contribution = None
        if message.contributes or message.receives:
            contribution = self._join(message)
        finished, left = partial(self._on_finished, message), partial(self._on_left, message)
        arrived = partial(self._on_arrived, message.task)
        self._executor.start(message, contribution, finished, left, arrived)

    def _join(self, message: StartTask) -> Vector:
        """Become a member of a task; returns this site's contribution."""
        task, site = message.task, self._settings.site
        if message.roles is None or site not in message.roles.passive:
            if not self._is_waiting:
                raise ProtocolError(f"task {task} while not waiting for one")
            self._active = task
        self._joined[task] = message
        self._halted.discard(task)
        self._deadlines_s[task] = self._loop.time() + message.left_s
        self._overlap(message)
        contribution = self._model.model
        if message.contributes:
            # The results of other tasks, in which this site is passive, may replace the model.
            lasting = message.roles is not None
            contribution = self._model.contribute(task, lasting)
        vector, prints = self._describe(contribution)
        self._log(
            task_events.Contributed,
            task=task,
            iteration=self._model.version if self._settings.is_server else self._model.iteration,
            digest=vector,
            fingerprint=prints,
            weight=message.weights.get(site, 0.0),
        )
        return contribution

    def _overlap(self, message: StartTask) -> None:
        """Begin the next iteration, if the task hands out its model to this site."""
        following, roles = self._iteration + 1, message.roles
        if self._forward is None or not message.receives or self._active != message.task:
            return
        hands_out = roles is None or (roles.then == "proceed" and not roles.merges)
        if hands_out and not self._stopping and following != self._settings.rounds:
            self._forward.begin(following, message.batch or self._batch, message.task)

    def _on_arrived(self, task: int, chunk: int, place: slice, data: Vector) -> None:
        if self._forward is not None:
            self._forward.arrive(task, chunk, place, data)

    def _describe(self, vector: Vector) -> tuple[str, tuple[float, ...]]:
        return digest(vector), fingerprint(vector, self._settings.chunk_bytes)

    def _on_finished(self, message: StartTask, result: Vector) -> None:
        task = message.task
        del self._joined[task]
        self._installed[task] = message
        merge = self._model.merge(result, message.roles)
        self._log(task_events.TaskFinished, task, *self._describe(result))
        if merge is not None:
            base, step, model = map(self._describe, (merge.base, merge.step, merge.model))
            values = merge.version, *base, step[1], *model
            self._log(task_events.ModelMerged, task, *values)
        self._controller.tell(TaskFinished(task, self._executor.blocks(task)))
        if (similarity := self._model.compare()) is not None:
            self._log(task_events.Compared, task, similarity)
            self._controller.tell(Compared(similarity))
        if message.evaluate and (accuracy := self._workload.evaluate()):
            self._log(task_events.Evaluated, task=task, **asdict(accuracy))
            self._controller.tell(Evaluated(task, accuracy.accuracy_percent))
        self._unlock()
        self._go_on(message)

    def _on_left(self, message: StartTask) -> None:
        """Go on if the task asks nothing more of this site, which keeps its contribution."""
        if message.contributes and message.roles is not None and message.roles.then == "proceed":
            self._go_on(message)

    def _go_on(self, message: StartTask) -> None:
        """An active member has done its part of a task: it proceeds, or waits for the next one."""
        if self._active != message.task:
            return
        self._active = None
        self._given |= message.contributes
        if message.roles is None or message.roles.then == "proceed":
            self._batch = message.batch or self._batch
            self._settle(Outcome.FINISHED)
        elif not self._controller.connected:
            self._settle(Outcome.ALONE)
        elif self._stopping:
            self._settle(Outcome.STOPPED)
        elif message.task in self._reported:
            self._settle(Outcome.DROPPED)  # so it is ready again: the policy may not know it waits

    def _halt(self, task: int) -> None:
        if task in self._joined:
            self._halted.add(task)
        finished = self._executor.halt(task)
        self._log(task_events.HaltHeard, task=task, finished=finished)
        self._controller.tell(Halted(task, finished))

    def _end_task(self, task: int, completed: bool | None, cause: Dropping | None) -> None:
        """Forget a task; None for `completed` if it is not known whether the receivers have it."""
        taken = self._may_be_taken(task) if completed is None else completed
        self._close_task(task)
        self._installed.pop(task, None)
        self._deadlines_s.pop(task, None)
        message = self._joined.pop(task, None)
        if message is None:
            self._model.end(task, taken=True)
            return
        taken = taken and not message.receives
        self._model.end(task, taken)
        if self._forward is not None:
            self._forward.end(task)
        self._unlock()
        if taken and completed:
            self._log(task_events.ContributionTaken, task)
            self._go_on(message)
            return
        kept = digest(self._model.model)
        self._log(task_events.TaskDropped, task=task, cause=cause, digest=kept)
        if self._active == task:
            self._active = None
            self._given |= taken
            self._settle(Outcome.DROPPED)

    def _close_task(self, task: int) -> None:
        """Forget a task and log its traffic."""
        sent, received, discarded = self._executor.end_task(task)
        for (peer, phase), traffic in sent.items():
            self._log(task_events.Sent, task=task, dst=peer, phase=phase, **asdict(traffic))
        for (peer, phase), traffic in received.items():
            self._log(task_events.Received, task=task, src=peer, phase=phase, **asdict(traffic))
        for path, (size, chunks) in self._executor.dispatch.pop_routes(task).items():
            self._log(task_events.Routed, task=task, path=path, bytes=size, chunks=chunks)
        for (source, _), traffic in discarded.items():
            size, chunks = traffic.bytes, traffic.chunks
            self._log(task_events.Discarded, task=task, src=source, bytes=size, chunks=chunks)

    def _give_up(self, task: int, cause: Dropping) -> None:
        """Without a controller: leave the task and tell all neighbours, unless it is finished."""
        if task in self._installed or not self._executor.runs(task):
            return
        self._end_task(task, None, cause)
        for link in list(self._neighbours.links.values()):
            link.tell(Refuse(task))

    def _may_be_taken(self, task: int) -> bool:
        """Whether receivers may have a result with this site's contribution, for all it knows.

        A contribution to other sites then counts as taken, because it must not count twice.
        """
        message = self._joined.get(task)
        return message is not None and not message.receives and self._executor.has_left(task)

    def _refuse_unknown(self, peer: str, header: ChunkHeader) -> None:
        """Without a controller: take part in no new task and, standalone, in no offer."""
        source = self._settings.sites[header.source]
        if not header.early:
            if not self._executor.knows(header.task):
                self._refuse(header.task, {source, peer})
        elif self._standalone:
            self._executor.refuse_offers()
            me = self._settings.site
            self._neighbours.tell(peer, RefuseOffer(source, header.task, me))

    def _refuse(self, task: int, senders: set[str]) -> None:
        """Without a controller: tell the senders that this site takes no part in the task."""
        self._close_task(task)
        for peer in senders:
            self._neighbours.tell(peer, Refuse(task))

    # -- the neighbours -----------------------------------------------------------------------

    def _on_peer_frame(self, peer: str, frame: Frame) -> None:
        match frame:
            case (header, payload):
                self._executor.on_chunk(peer, header, payload)
                if not self._controller.connected:
                    self._refuse_unknown(peer, header)
            case Refuse():
                self._on_refused(peer, frame.task)
            case RefuseOffer():
                self._on_offer_refused(frame)
            case Arrived() | TimeRequest() | TimeReply():
                self._awareness.on_neighbour_frame(peer, frame)
            case Delivered():
                self._executor.dispatch.on_delivered(frame)
            case Bye():
                self._neighbours.mark_departing(peer)
            case _:
                raise ProtocolError(f"not for a neighbour: {describe(frame)}")

    def _on_refused(self, peer: str, task: int) -> None:
        if task in self._installed or not self._executor.runs(task):
            return
        if self._controller.connected:
            self._controller.tell(Refused(task, peer))
        else:
            self._give_up(task, RefusedAlone(peer))

    def _on_offer_refused(self, frame: RefuseOffer) -> None:
        if frame.site == self._settings.site:
            self._executor.withdraw(frame.offer, frame.by)
        else:
            self._neighbours.tell(frame.site, frame)

    def _on_peer_lost(self, peer: str, error: Exception) -> None:
        if self._ended.done():
            return
        self._log(connection_events.LinkLost, peer=peer, reason=str(error))
        self._lost_peers[peer] = None
        if self._controller.connected:
            self._controller.tell(LinkLost(peer))
            return
        for task in self._executor.running():
            self._give_up(task, LostAlone(peer))

    def _on_peer_found(self, peer: str) -> None:
        self._log(connection_events.LinkFound, peer=peer)
        self._controller.tell(LinkFound(peer))
