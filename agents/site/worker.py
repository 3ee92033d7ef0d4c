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
from functools import partial
from typing import Any

from trunkline.agents.awareness.link_monitor import Awareness
from trunkline.agents.events import connection_events, round_events, task_events
from trunkline.agents.events.causes import Dropping, HaltedAlone, LostAlone, NoRepair, RefusedAlone
from trunkline.agents.events.event import Log
from trunkline.agents.events.lifecycle import Doing, SiteLife, follow
from trunkline.agents.planning.chunks import cut_tensors
from trunkline.agents.planning.disciplines import DISCIPLINES
from trunkline.agents.site.executor import Executor
from trunkline.agents.site.forward import Forward
from trunkline.agents.site.membership import Membership
from trunkline.agents.site.rounds import Alone, EarlyScatter, Outcome, Rounds
from trunkline.agents.site.site_model import SiteModel
from trunkline.agents.timing.clock import Clock
from trunkline.agents.wire.agent_settings import WorkerSettings
from trunkline.agents.wire.controller_link import ControllerLink
from trunkline.agents.wire.framing import ChunkHeader, Frame
from trunkline.agents.wire.liveness import Pulse
from trunkline.agents.wire.messages import (
    Arrived,
    AuxiliaryPaths,
    Begin,
    Bye,
    DefaultSplit,
    Delivered,
    Halt,
    LeftNotice,
    LinkFoundNotice,
    LinkLostNotice,
    ProtocolError,
    RearrangeTask,
    Refuse,
    Refused,
    RefuseOffer,
    Released,
    Report,
    SiteReady,
    StartTask,
    StopOrder,
    TaskOver,
    TimeReply,
    TimeRequest,
    TimeServer,
    describe,
)
from trunkline.agents.wire.neighbours import Neighbours, Reach, Unreachable
from trunkline.workloads.base import Workload
from trunkline.workloads.layered.model import WorkloadInLayers

OFFERS_PER_LIFE = 1_000_000
"""Every process of a worker numbers its offers in a range of its own."""


class Worker:
    """One site's agent; `run` returns when the controller ends the run."""

    def __init__(
        self,
        settings: WorkerSettings,
        workload: Workload,
        clock: Clock,
        log: Log,
        reach: Reach | None = None,
        model: SiteModel | None = None,
    ) -> None:
        """`model` is the site's model in the memory of the workload, if it was made before."""
        self._settings = settings
        self._clock = clock
        life = SiteLife(Doing.RESTARTED if settings.lives else Doing.IDLE)
        self._log = log = follow(life, log)
        self._rounds = Rounds(settings.first_iteration, settings.first_iteration, life)
        self._scatter = EarlyScatter(settings.lives * OFFERS_PER_LIFE)
        self._alone = Alone()
        self._model = model or SiteModel.of(settings, workload)
        self._executor = Executor.of(settings, self._model, clock.now_ns)
        self._forward: Forward | None = None
        if isinstance(workload, WorkloadInLayers) and settings.tensor_bytes:
            branches = cut_tensors(settings.chunk_bytes, settings.tensor_bytes)
            self._forward = Forward(workload, branches, clock, log, self._fail_on_error)
        reach = reach or Unreachable()
        self._controller = ControllerLink(
            settings.controllers,
            reach,
            settings.failover,
            self._on_controller_frame,
            self._on_controller_lost,
            self._on_controller_found,
            clock.now_ns,
        )
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
        self._member = Membership(
            settings,
            workload,
            self._model,
            self._executor,
            self._rounds,
            self._forward,
            self._controller,
            log,
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
        self._alone.lost_peers = dict.fromkeys(
            s for s in self._settings.neighbours if s not in peers
        )
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
                self._member.close(moved)
            self._neighbours.say_goodbye()
        finally:
            self._alone.cancel()
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
            self._log(task_events.ServerBegan, *self._member.describe(self._model.model))
            return
        rounds, limit = self._rounds, self._settings.rounds
        while not rounds.stopping and (limit is None or rounds.iteration < limit):
            iteration, start_ns = rounds.iteration, self._clock.now_ns()
            self._log(round_events.ComputeStarted, iteration, rounds.batch)
            self._awareness.on_compute_started()
            await self._compute(iteration)
            self._log(round_events.ComputeFinished, iteration=iteration)
            await self._member.wait_unlocked()
            self._model.commit(iteration)
            outcome = await self._synchronize()
            if outcome is Outcome.STOPPED:
                break
            rounds.iteration += 1
            if outcome is not Outcome.ALONE:
                rounds.synchronized += 1
                self._log(round_events.RoundFinished, rounds=rounds.synchronized)
                continue
            self._log(round_events.RoundAlone, iteration=iteration)
            # Without compute time and without a wait, the loop would never let time pass.
            if self._clock.now_ns() == start_ns:
                await asyncio.sleep(self._settings.failover.beat_s)
        self._log(round_events.WorkerFinished, rounds=rounds.synchronized)
        self._controller.tell(LeftNotice(rounds.synchronized))

    async def _compute(self, iteration: int) -> None:
        work = partial(self._model.compute, iteration, self._rounds.batch)
        if self._forward is None:
            await self._clock.compute(work)
        else:
            await self._forward.finish(iteration, self._rounds.batch, work)

    async def _synchronize(self) -> Outcome:
        """Wait for a group and its result; after a dropped task, wait for another group."""
        rounds, scatter = self._rounds, self._scatter
        rounds.given = False
        while not rounds.stopping:
            if not self._controller.connected and (self._alone.standalone or not scatter.default):
                return Outcome.ALONE
            waiting = rounds.begin_wait()
            scatter.number += 1
            self._log(round_events.Ready, iteration=rounds.iteration)
            version = self._member.plan_cache.version
            ready = SiteReady(rounds.iteration, scatter.number, version, rounds.given)
            self._controller.tell(ready)
            if scatter.default:
                self._executor.offer(scatter.number, self._model.model, scatter.default)
            outcome = await waiting
            rounds.forget_wait()
            self._executor.take_back()
            if outcome is not Outcome.DROPPED:
                return outcome
        return Outcome.STOPPED

    # -- the controller -----------------------------------------------------------------------

    def _on_controller_found(self, name: str, begin: Begin) -> None:
        """Report this worker's whole state to the controller that is in charge now."""
        self._scatter.default = begin.default
        self._alone.standalone = False
        self._alone.cancel()
        if self._begun.done():
            self._log(connection_events.ControllerFound, controller=name)
        else:
            self._begun.set_result(None)
        lost, self._alone.lost_peers = tuple(self._alone.lost_peers), {}
        rounds, known = self._rounds, self._member.tasks
        tasks = known.list_states(self._executor)
        self._controller.tell(
            Report(
                ready=rounds.iteration if rounds.is_waiting else None,
                left=rounds.has_left,
                lost=lost,
                tasks=tuple(tasks),
                helps=tuple(set(self._executor.running()) - {task.task for task in tasks}),
                offer=self._executor.open_offer() if rounds.is_waiting else None,
                spent=self._executor.find_spent_offers(),
                begun=known.count,
                given=rounds.is_waiting and rounds.given,
                stop=rounds.stopped_by,
            )
        )
        self._awareness.report_all()
        for peer in lost:
            if peer in self._neighbours.links:
                self._controller.tell(LinkFoundNotice(peer))
            else:
                self._alone.lost_peers[peer] = None

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
        patience_s, timers = self._settings.failover.patience_s, self._alone.timers
        if self._scatter.default:
            timers.append(self._loop.call_later(patience_s, self._stand_alone))
        else:
            self._stand_alone()
        known = self._member.tasks
        for task in list(known.joined):
            if task in known.halted:
                self._give_up(task, HaltedAlone())
                continue
            left_s = known.left_s(task)
            if any(peer not in self._neighbours.links for peer in self._settings.neighbours):
                left_s = min(left_s, patience_s)
            timers.append(self._loop.call_later(left_s, self._give_up, task, NoRepair()))

    def _stand_alone(self) -> None:
        """Wait for no controller any more: take part in no new task and no offer."""
        self._alone.standalone = True
        self._executor.refuse_offers()
        if self._rounds.is_waiting:
            self._rounds.end_wait(Outcome.ALONE)

    def _on_controller_frame(self, frame: Frame) -> None:
        match frame:
            case StartTask():
                self._member.start(frame)
            case RearrangeTask():
                self._log(task_events.BlocksHeard, task=frame.task, blocks=frame.blocks)
                self._member.tasks.halted.discard(frame.task)
                self._executor.rearrange(frame)
            case Halt():
                self._member.halt(frame.task)
            case DefaultSplit():
                self._scatter.default = frame.parts
            case AuxiliaryPaths():
                self._executor.dispatch.switch(frame.paths)
            case TaskOver():
                self._member.end(frame.task, frame.completed, frame.cause)
            case Released(batch):
                self._rounds.set_batch(batch)
                self._rounds.end_wait(Outcome.RELEASED)
            case TimeServer() | TimeReply():
                self._awareness.on_controller_frame(frame)
            case StopOrder(cause):
                self._rounds.stop(cause)
            case Bye():
                self._ended.set_result(None)
            case tuple():
                raise ProtocolError("a chunk from the controller")
            case _:
                raise ProtocolError(f"not for a worker: {describe(frame)}")

    # -- without a controller -----------------------------------------------------------------

    def _give_up(self, task: int, cause: Dropping) -> None:
        """Without a controller: leave the task and tell all neighbours, unless it is finished."""
        if task in self._member.tasks.installed or not self._executor.runs(task):
            return
        self._member.end(task, None, cause)
        for link in list(self._neighbours.links.values()):
            link.tell(Refuse(task))

    def _refuse_unknown(self, peer: str, header: ChunkHeader) -> None:
        """Without a controller: take part in no new task and, standalone, in no offer."""
        source = self._settings.sites[header.source]
        if not header.early:
            if not self._executor.knows(header.task):
                self._refuse(header.task, {source, peer})
        elif self._alone.standalone:
            self._executor.refuse_offers()
            me = self._settings.site
            self._neighbours.tell(peer, RefuseOffer(source, header.task, me))

    def _refuse(self, task: int, senders: set[str]) -> None:
        """Without a controller: tell the senders that this site takes no part in the task."""
        self._member.close(task)
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
        if task in self._member.tasks.installed or not self._executor.runs(task):
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
        self._alone.lost_peers[peer] = None
        if self._controller.connected:
            self._controller.tell(LinkLostNotice(peer))
            return
        for task in self._executor.running():
            self._give_up(task, LostAlone(peer))

    def _on_peer_found(self, peer: str) -> None:
        self._log(connection_events.LinkFound, peer=peer)
        self._controller.tell(LinkFoundNotice(peer))
