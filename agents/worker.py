"""The worker of one site: compute, say ready, synchronize, repeat; and serve others' tasks.

It knows sockets, not networks: whoever starts it hands it connected sockets to its neighbours and
to the controller. So the same worker runs over socket pairs, loopback and the emulated WAN.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, Protocol

from agents.clock import Clock
from agents.disciplines import DISCIPLINES
from agents.executor import Executor, Traffic
from agents.link import Connection
from agents.messages import (
    Begin,
    Bye,
    Evaluated,
    Frame,
    Left,
    ProtocolError,
    RearrangeTask,
    Released,
    SiteReady,
    StartTask,
    Stop,
    TaskFinished,
    TaskOver,
    describe,
    no_chunks,
)
from agents.part import BlockPart
from workloads.base import Vector, Workload, digest, fingerprint


class Log(Protocol):
    """Where an agent's events go: a type and its fields, stamped by the caller's clock."""

    def __call__(self, event: str, **fields: Any) -> None: ...


class AgentError(Exception):
    """The run cannot go on: a peer is lost or broke the protocol; the message says which."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker must know beside its sockets; `rounds` limits how many it does.

    `discipline` names the order in which its links serve their flows.
    """

    site: str
    sites: tuple[str, ...]
    chunk_bytes: int
    rounds: int | None
    discipline: str = "fcfs"


class Outcome(Enum):
    """How a wait for synchronization ended."""

    FINISHED = auto()
    DROPPED = auto()
    RELEASED = auto()
    STOPPED = auto()


class Worker:
    """One site's agent; `run` returns when the controller says goodbye."""

    def __init__(
        self, settings: WorkerSettings, workload: Workload, clock: Clock, log: Log
    ) -> None:
        self._settings = settings
        self._workload = workload
        self._clock = clock
        self._log = log
        self._iteration = 0
        self._offer = 0
        self._default: tuple[BlockPart, ...] = ()
        self._task: StartTask | None = None
        self._stopping = False
        self._left = False
        self._executor = Executor(
            settings.site,
            settings.sites,
            len(workload.contribution()),
            settings.chunk_bytes,
            clock.now_ns,
        )

    async def run(self, peers: Mapping[str, socket.socket], controller: socket.socket) -> None:
        """Work until told to leave. Raises AgentError when a connection is lost before that."""
        loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._outcome: asyncio.Future[Outcome] | None = None
        self._controller = Connection(
            controller, "controller", self._heard, self._lost, no_chunks, self._clock.now_ns
        )
        self._executor.links = links = {
            peer: Connection(
                sock,
                peer,
                self._chunk,
                self._lost,
                self._executor.allocate,
                self._clock.now_ns,
                DISCIPLINES[self._settings.discipline],
                self._settings.chunk_bytes,
            )
            for peer, sock in peers.items()
        }
        rounds = asyncio.create_task(self._rounds())
        rounds.add_done_callback(self._check_rounds)
        try:
            await self._ended
        finally:
            rounds.cancel()
            for link in (self._controller, *links.values()):
                link.close()

    def _check_rounds(self, rounds: asyncio.Task[None]) -> None:
        if not rounds.cancelled() and (error := rounds.exception()) and not self._ended.done():
            self._ended.set_exception(error)

    async def _rounds(self) -> None:
        await self._begun
        limit = self._settings.rounds
        while not self._stopping and (limit is None or self._iteration < limit):
            iteration = self._iteration
            self._log("compute_started", iteration=iteration)
            await self._clock.compute(partial(self._workload.compute, iteration))
            self._log("compute_finished", iteration=iteration)
            if await self._synchronize() is Outcome.STOPPED:
                break
            self._iteration += 1
            self._log("round_finished", rounds=self._iteration)
        self._log("worker_finished", rounds=self._iteration)
        self._left = True
        self._controller.tell(Left(self._iteration))

    async def _synchronize(self) -> Outcome:
        """Wait for a group and its result; a dropped task is tried again with another group."""
        outcome = Outcome.STOPPED if self._stopping else Outcome.DROPPED
        while outcome is Outcome.DROPPED:
            self._outcome = asyncio.get_running_loop().create_future()
            self._offer += 1
            self._log("ready", iteration=self._iteration)
            self._controller.tell(SiteReady(self._iteration, self._offer))
            if self._default:
                self._executor.offer(self._offer, self._workload.contribution(), self._default)
            outcome = await self._outcome
            self._outcome = None
            self._executor.take_back()
            if self._stopping and outcome is Outcome.DROPPED:
                outcome = Outcome.STOPPED
        return outcome

    def _settle(self, outcome: Outcome) -> None:
        if self._outcome is None or self._outcome.done():
            raise ProtocolError(f"{outcome.name.lower()}, but no round is waiting")
        self._outcome.set_result(outcome)

    # -- what the controller says -------------------------------------------------------------

    def _heard(self, _: str, frame: Frame) -> None:
        match frame:
            case Begin():
                self._default = frame.default
                self._begun.set_result(None)
            case StartTask():
                self._start(frame)
            case RearrangeTask():
                self._executor.rearrange(frame)
            case TaskOver():
                self._over(frame)
            case Released():
                self._settle(Outcome.RELEASED)
            case Stop():
                self._stopping = True
                if self._outcome and not self._outcome.done() and self._task is None:
                    self._settle(Outcome.STOPPED)
            case Bye():
                self._ended.set_result(None)
            case tuple():
                raise ProtocolError("a chunk from the controller")
            case _:
                raise ProtocolError(f"not for a worker: {describe(frame)}")

    def _start(self, message: StartTask) -> None:
        self._log("task_joined", task=message.task)
        contribution = None
        if message.contributes or message.receives:
            if self._outcome is None or self._task is not None:
                raise ProtocolError(f"task {message.task} while not waiting for one")
            self._task = message
            contribution = self._workload.contribution()
            self._log(
                "contributed",
                task=message.task,
                iteration=self._iteration,
                digest=digest(contribution),
                fingerprint=fingerprint(contribution, self._settings.chunk_bytes),
                weight=message.weights.get(self._settings.site, 0.0),
            )
        self._executor.start(message, contribution, self._finished)

    def _finished(self, result: Vector) -> None:
        message = self._task
        assert message is not None
        self._task = None
        self._workload.install(result)
        self._log(
            "task_finished",
            task=message.task,
            digest=digest(result),
            fingerprint=fingerprint(result, self._settings.chunk_bytes),
        )
        self._controller.tell(TaskFinished(message.task))
        if message.evaluate and (found := self._workload.evaluate()):
            self._log(
                "evaluated",
                task=message.task,
                accuracy_percent=found.accuracy_percent,
                loss=found.loss,
                samples=found.samples,
            )
            self._controller.tell(Evaluated(message.task, found.accuracy_percent))
        self._settle(Outcome.FINISHED)

    def _over(self, message: TaskOver) -> None:
        sent, received, discarded = self._executor.over(message.task)
        for (peer, phase), traffic in sent.items():
            self._log("sent", task=message.task, dst=peer, phase=phase, **_fields(traffic))
        for (peer, phase), traffic in received.items():
            self._log("received", task=message.task, src=peer, phase=phase, **_fields(traffic))
        for (source, _), traffic in discarded.items():
            self._log(
                "discarded",
                task=message.task,
                src=source,
                bytes=traffic.bytes,
                chunks=traffic.chunks,
            )
        if self._task is not None and self._task.task == message.task:
            self._task = None
            self._log(
                "task_dropped",
                task=message.task,
                reason=message.reason,
                digest=digest(self._workload.contribution()),
            )
            self._settle(Outcome.DROPPED)

    # -- what the neighbours say --------------------------------------------------------------

    def _chunk(self, peer: str, frame: Frame) -> None:
        if not isinstance(frame, tuple):
            raise ProtocolError(f"not for a neighbour: {describe(frame)}")
        self._executor.arrived(peer, *frame)

    def _lost(self, peer: str, error: Exception) -> None:
        """Fatal, except that a neighbour may hear the goodbye and close before this site does."""
        if not self._ended.done() and not (self._left and peer in self._executor.links):
            self._ended.set_exception(AgentError(f"lost the connection to {peer}: {error}"))


def _fields(traffic: Traffic) -> dict[str, int]:
    return {
        "bytes": traffic.bytes,
        "chunks": traffic.chunks,
        "start_ns": traffic.start_ns,
        "end_ns": traffic.end_ns,
    }
