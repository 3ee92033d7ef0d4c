"""The controller: a thin shell around a policy and a plan builder.

It hears who is ready, asks the policy who synchronizes, asks the plan builder how, tells every
participant its part, and stops the run when the scenario says so. No model passes through it.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents import policy as decisions
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
from agents.part import BlockPart, part
from agents.plan import Block, Directed, Plan, PlanError, PlanRequest, check
from agents.worker import AgentError, Log


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The run as the controller needs it; `seed` decides all that plans leave to chance.

    `time_s`, `tasks` and `accuracy_percent` are the stop conditions that it watches (the workers
    count their own rounds); `task_s` is the budget of one task.
    """

    sites: tuple[str, ...]
    rates_mbps: Mapping[Directed, float]
    delays_ms: Mapping[Directed, float]
    model_bytes: int
    chunk_bytes: int
    seed: int
    policy_name: str
    plan_name: str
    task_s: float
    time_s: float | None = None
    tasks: int | None = None
    accuracy_percent: float | None = None


@dataclass(slots=True)
class _Running:
    """A task: `blocks` are those that are not withdrawn, of the `used` numbers so far."""

    start: decisions.Start
    plan: Plan
    blocks: dict[int, Block]
    used: int
    participants: set[str]
    missing: set[str]
    budget: asyncio.TimerHandle


@dataclass(slots=True)
class Controller:
    """`run` returns when all is done and everybody was told to leave.

    With a `default` split, sites that are ready send by it at once; `build` is then expected to
    keep what it can of it.
    """

    settings: ControllerSettings
    policy: decisions.Policy
    build: Callable[[PlanRequest], Plan]
    now_ns: Callable[[], int]
    log: Log
    default: Plan | None = None
    _state: Any = None
    _links: dict[str, Connection] = field(default_factory=dict)
    _offers: dict[str, int] = field(default_factory=dict)
    _running: dict[int, _Running] = field(default_factory=dict)
    _working: set[str] = field(default_factory=set)
    _started: int = 0
    _stopping: bool = False
    _ended: asyncio.Future[None] | None = None

    async def run(self, workers: Mapping[str, socket.socket]) -> None:
        """Run until a stop condition holds and nothing is left running.

        Raises AgentError when a worker is lost, PlanError when the plan refuses a group.
        """
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._state = self.policy.initial
        self._working = set(self.settings.sites)
        self._links = {
            site: Connection(sock, site, self._heard, self._lost, no_chunks, self.now_ns)
            for site, sock in workers.items()
        }
        for site, link in self._links.items():
            link.tell(Begin(part(self.default, site) if self.default else ()))
        timer = None
        if self.settings.time_s is not None:
            reason = f"{self.settings.time_s:g} s are over"
            timer = loop.call_later(self.settings.time_s, self._stop, reason)
        try:
            await self._ended
            self._tell_all(Bye())
            for link in self._links.values():
                await link.drain()
        finally:
            if timer:
                timer.cancel()
            for running in self._running.values():
                running.budget.cancel()
            for link in self._links.values():
                link.close()

    def _heard(self, site: str, frame: Frame) -> None:
        try:
            match frame:
                case SiteReady():
                    self._offers[site] = frame.offer
                    self._decide(decisions.Ready(site, frame.iteration))
                case TaskFinished():
                    self._finished(site, frame.task)
                case Evaluated():
                    self._evaluated(frame.accuracy_percent)
                case Left():
                    self._working.discard(site)
                    self._decide(decisions.Left(site))
                case tuple():
                    raise ProtocolError("a chunk sent to the controller")
                case _:
                    raise ProtocolError(f"not for the controller: {describe(frame)}")
        except PlanError as error:
            self._fail(error)
        self._end_if_idle()

    def _decide(self, event: decisions.Event) -> None:
        if self._stopping:
            return
        self._state, made = self.policy.step(self._state, event)
        for decision in made:
            match decision:
                case decisions.Start():
                    self._start(decision)
                case decisions.Release():
                    self._links[decision.site].tell(Released())

    def _start(self, start: decisions.Start) -> None:
        settings = self.settings
        task = self._started
        self._started += 1
        plan = self.build(
            PlanRequest(
                start.group,
                settings.sites,
                settings.rates_mbps,
                settings.delays_ms,
                -(-settings.model_bytes // settings.chunk_bytes),
                random.Random(f"{settings.seed} {task}"),
            )
        )
        check(plan, settings.rates_mbps.keys())
        self.log(
            "task_started",
            task=task,
            policy=settings.policy_name,
            plan=settings.plan_name,
            group=list(start.group),
            weights=dict(start.weights),
            scale=start.scale,
            bytes=settings.model_bytes,
            chunk_bytes=settings.chunk_bytes,
            forest=plan.to_json(),
        )
        loop = asyncio.get_running_loop()
        reason = f"exceeded its budget of {settings.task_s:g} s"
        budget = loop.call_later(settings.task_s, self._abandon, task, reason)
        running = self._running[task] = _Running(
            start,
            plan,
            dict(enumerate(plan.blocks)),
            len(plan.blocks),
            {*plan.participants(), *(self.default.participants() if self.default else ())},
            set(plan.receivers),
            budget,
        )
        offers = {s: self._offers[s] for s in plan.contributors} if self.default else {}
        for site in sorted(running.participants):
            invitation = self._invitation(task, running, site, part(plan, site), offers)
            self._links[site].tell(invitation)
        if self._started == settings.tasks:
            self._stop(f"{settings.tasks} tasks are started")

    def _invitation(
        self,
        task: int,
        running: _Running,
        site: str,
        parts: tuple[BlockPart, ...],
        offers: dict[str, int],
    ) -> StartTask:
        start, plan = running.start, running.plan
        return StartTask(
            task=task,
            blocks=running.used,
            weights=dict(start.weights),
            scale=start.scale,
            contributes=site in plan.contributors,
            receives=site in plan.receivers,
            evaluate=site == start.group[0],
            offers=offers,
            parts=parts,
        )

    def _rearrange(self, task: int, withdrawn: Sequence[int], blocks: Sequence[Block]) -> None:
        """Let new blocks of a running task take over from some of its blocks.

        Raises PlanError, before anybody is told, if the task would then not do what it promises.
        """
        running = self._running[task]
        kept = {number: b for number, b in running.blocks.items() if number not in withdrawn}
        first = running.used
        added = replace(running.plan, blocks=tuple(blocks))
        whole = replace(running.plan, blocks=(*kept.values(), *blocks))
        check(whole, self.settings.rates_mbps.keys())
        running.blocks = kept | dict(enumerate(blocks, first))
        running.used += len(blocks)
        self.log(
            "task_rearranged",
            task=task,
            withdrawn=list(withdrawn),
            first=first,
            forest=added.to_json(),
        )
        for site in sorted(running.participants | set(added.participants())):
            parts = part(added, site, first)
            if site in running.participants:
                message = RearrangeTask(task, running.used, tuple(withdrawn), parts)
                self._links[site].tell(message)
            else:
                self._links[site].tell(self._invitation(task, running, site, parts, {}))
        running.participants.update(added.participants())

    def _finished(self, site: str, task: int) -> None:
        running = self._running.get(task)
        if running is None:
            return
        running.missing.discard(site)
        if not running.missing:
            self.log("task_completed", task=task)
            self._over(task, TaskOver(task, completed=True, reason=""))

    def _abandon(self, task: int, reason: str) -> None:
        self.log("task_abandoned", task=task, reason=reason)
        self._over(task, TaskOver(task, completed=False, reason=reason))
        self._end_if_idle()

    def _over(self, task: int, message: TaskOver) -> None:
        running = self._running.pop(task)
        running.budget.cancel()
        for site in sorted(running.participants):
            self._links[site].tell(message)

    def _evaluated(self, accuracy_percent: float) -> None:
        target = self.settings.accuracy_percent
        if target is not None and accuracy_percent >= target:
            self._stop(f"accuracy {accuracy_percent:.2f} % reached {target:g} %")

    def _stop(self, reason: str) -> None:
        if not self._stopping:
            self._stopping = True
            self.log("stopping", reason=reason)
            self._tell_all(Stop())

    def _end_if_idle(self) -> None:
        assert self._ended is not None
        if self._working or self._running or self._ended.done():
            return
        if not self._stopping:
            self._stop("every site has done its rounds")
        self._ended.set_result(None)

    def _tell_all(self, message: Stop | Bye) -> None:
        for link in self._links.values():
            link.tell(message)

    def _lost(self, site: str, error: Exception) -> None:
        self._fail(AgentError(f"lost the worker of {site}: {error}"))

    def _fail(self, error: Exception) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)
