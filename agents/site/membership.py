"""The tasks in which a worker takes part: how it joins, finishes and ends them."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from trunkline.agents.events import task_events
from trunkline.agents.events.causes import Dropping
from trunkline.agents.events.event import Log
from trunkline.agents.events.lifecycle import Doing, Part
from trunkline.agents.site.executor import Executor
from trunkline.agents.site.forward import Forward
from trunkline.agents.site.plan_cache import PlanCache
from trunkline.agents.site.rounds import Outcome, Rounds
from trunkline.agents.site.site_model import SiteModel
from trunkline.agents.wire.agent_settings import WorkerSettings
from trunkline.agents.wire.controller_link import ControllerLink
from trunkline.agents.wire.messages import (
    ComparedNotice,
    FinishedNotice,
    Halted,
    ProtocolError,
    StartTask,
    TaskState,
)
from trunkline.workloads.base import Vector, Workload, describe, digest


@dataclass(slots=True)
class KnownTasks:
    """The tasks that a worker knows as a member.

    joined: the tasks without a result yet; `halted` are those of them that a controller has halted.
    installed: the tasks whose result is installed, until their end is known.
    deadlines_s: the end of each task's budget, by the event loop's clock.
    count: how many tasks of the run have begun, as far as this worker knows.
    """

    joined: dict[int, StartTask] = field(default_factory=dict)
    halted: set[int] = field(default_factory=set)
    installed: dict[int, StartTask] = field(default_factory=dict)
    deadlines_s: dict[int, float] = field(default_factory=dict)
    count: int = 0

    def left_s(self, task: int) -> float:
        """The rest of a task's budget, in seconds."""
        return max(0.0, self.deadlines_s[task] - asyncio.get_running_loop().time())

    def list_states(self, executor: Executor) -> list[TaskState]:
        """What a controller has to know of each task."""
        return [
            TaskState(
                message.task,
                message.group,
                message.weights,
                message.scale,
                executor.blocks(message.task),
                message.task in self.installed,
                self.left_s(message.task),
                message.roles,
            )
            for message in (*self.installed.values(), *self.joined.values())
        ]


class Membership:
    """What a worker does for its tasks."""

    def __init__(
        self,
        settings: WorkerSettings,
        workload: Workload,
        model: SiteModel,
        executor: Executor,
        rounds: Rounds,
        forward: Forward | None,
        controller: ControllerLink,
        log: Log,
    ) -> None:
        self.tasks = KnownTasks()
        self.plan_cache = PlanCache()
        self._settings = settings
        self._workload = workload
        self._model = model
        self._executor = executor
        self._rounds = rounds
        self._forward = forward
        self._controller = controller
        self._log = log
        self._unlocked: asyncio.Future[None] | None = None

    async def wait_unlocked(self) -> None:
        """Wait until no task reads and replaces the model."""
        while any(message.receives for message in self.tasks.joined.values()):
            self._unlocked = asyncio.get_running_loop().create_future()
            await self._unlocked

    def _unlock(self) -> None:
        if self._unlocked is not None and not self._unlocked.done():
            self._unlocked.set_result(None)

    def describe(self, vector: Vector) -> tuple[str, tuple[float, ...]]:
        """The digest and the fingerprint of a vector."""
        return describe(vector, self._settings.chunk_bytes)

    # -- begin --------------------------------------------------------------------------------

    def start(self, message: StartTask) -> None:
        """Take part in a task that a controller has started."""
        parts = self.plan_cache.take(message.version, message.parts, message.unchanged)
        message = replace(message, parts=parts)
        self._log(task_events.TaskJoined, task=message.task, unchanged=message.unchanged)
        self.tasks.count = max(self.tasks.count, message.count)
        contribution = None
        if message.contributes or message.receives:
            contribution = self._join(message)
        finished, left = partial(self._on_finished, message), partial(self._on_left, message)
        arrived = partial(self._on_arrived, message.task)
        self._executor.start(message, contribution, finished, left, arrived)

    def _join(self, message: StartTask) -> Vector:
        """Become a member of a task; returns this site's contribution."""
        task, site = message.task, self._settings.site
        part = Part.of(site, message.receives, message.roles)
        if not (part.passive or self._rounds.is_waiting):
            raise ProtocolError(f"task {task} while not waiting for one")
        self._rounds.life.parts[task] = part
        self.tasks.joined[task] = message
        self.tasks.halted.discard(task)
        self.tasks.deadlines_s[task] = asyncio.get_running_loop().time() + message.left_s
        if not part.passive:
            self._overlap(message)
        contribution = self._model.model
        if message.contributes:
            # The results of other tasks, in which this site is passive, may replace the model.
            lasting = message.roles is not None
            contribution = self._model.contribute(task, lasting)
        vector, prints = self.describe(contribution)
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
        rounds, roles = self._rounds, message.roles
        following = rounds.iteration + 1
        if self._forward is None or not message.receives:
            return
        hands_out = roles is None or (roles.then == "proceed" and not roles.merges)
        if hands_out and not rounds.stopping and following != self._settings.rounds:
            self._forward.begin(following, message.batch or rounds.batch, message.task)

    def _on_arrived(self, task: int, chunk: int, place: slice, data: Vector) -> None:
        if self._forward is not None:
            self._forward.arrive(task, chunk, place, data)

    # -- result -------------------------------------------------------------------------------

    def _on_finished(self, message: StartTask, result: Vector) -> None:
        task = message.task
        del self.tasks.joined[task]
        self.tasks.installed[task] = message
        merge = self._model.merge(result, message.roles)
        was_active = self._rounds.is_active_in(task)
        self._log(task_events.TaskFinished, task, *self.describe(result))
        if merge is not None:
            base, step, model = map(self.describe, (merge.base, merge.step, merge.model))
            values = merge.version, *base, step[1], *model
            self._log(task_events.ModelMerged, task, *values)
        self._controller.tell(FinishedNotice(task, self._executor.blocks(task)))
        if (similarity := self._model.compare()) is not None:
            self._log(task_events.Compared, task, similarity)
            self._controller.tell(ComparedNotice(similarity))
        self._unlock()
        if was_active:
            self._go_on(message)

    def _on_left(self, message: StartTask) -> None:
        """Go on if the task asks nothing more of this site, which keeps its contribution."""
        proceeds = message.roles is not None and message.roles.then == "proceed"
        if message.contributes and proceeds and self._rounds.is_active_in(message.task):
            self._go_on(message)

    def _go_on(self, message: StartTask) -> None:
        """An active member has done its part of a task: it proceeds, or waits for the next one."""
        rounds = self._rounds
        rounds.given |= message.contributes
        if message.roles is None or message.roles.then == "proceed":
            rounds.set_batch(message.batch)
            rounds.end_wait(Outcome.FINISHED)
        elif not self._controller.connected:
            rounds.end_wait(Outcome.ALONE)
        elif rounds.stopping:
            rounds.end_wait(Outcome.STOPPED)
        elif rounds.life.doing is Doing.COMPUTED:
            rounds.end_wait(Outcome.DROPPED)  # ready again: the policy may not know that it waits

    # -- end ----------------------------------------------------------------------------------

    def halt(self, task: int) -> None:
        """Drop the task's blocks so far, and answer whether this site has finished it."""
        if task in self.tasks.joined:
            self.tasks.halted.add(task)
        finished = self._executor.halt(task)
        self._log(task_events.HaltHeard, task=task, finished=finished)
        self._controller.tell(Halted(task, finished))

    def end(self, task: int, completed: bool | None, cause: Dropping | None) -> None:
        """Forget a task; None for `completed` if it is not known whether the receivers have it."""
        taken = self._may_be_taken(task) if completed is None else completed
        self.close(task)
        self.tasks.installed.pop(task, None)
        self.tasks.deadlines_s.pop(task, None)
        message = self.tasks.joined.pop(task, None)
        if message is None:
            self._rounds.life.parts.pop(task, None)
            self._model.end(task, taken=True)
            return
        taken = taken and not message.receives
        self._model.end(task, taken)
        if self._forward is not None:
            self._forward.end(task)
        self._unlock()
        was_active = self._rounds.is_active_in(task)
        if taken and completed:
            self._log(task_events.ContributionTaken, task)
            self._rounds.life.parts.pop(task)
            if was_active:
                self._go_on(message)
            return
        kept = digest(self._model.model)
        self._log(task_events.TaskDropped, task=task, cause=cause, digest=kept)
        self._rounds.life.parts.pop(task)
        if was_active:
            self._rounds.given |= taken
            self._rounds.end_wait(Outcome.DROPPED)

    def _may_be_taken(self, task: int) -> bool:
        """Whether receivers may have a result with this site's contribution, for all it knows.

        A contribution to other sites then counts as taken, because it must not count twice.
        """
        message = self.tasks.joined.get(task)
        return message is not None and not message.receives and self._executor.has_left(task)

    def close(self, task: int) -> None:
        """Forget a task's chunks and log its traffic."""
        sent, received, discarded = self._executor.end_task(task)
        for (peer, phase), traffic in sent.items():
            told = {"phase": phase, **asdict(traffic), "resent": self._executor.count_resent(peer)}
            self._log(task_events.Sent, task=task, dst=peer, **told)
        for (peer, phase), traffic in received.items():
            self._log(task_events.Received, task=task, src=peer, phase=phase, **asdict(traffic))
        for path, (size, chunks) in self._executor.dispatch.pop_routes(task).items():
            self._log(task_events.Routed, task=task, path=path, bytes=size, chunks=chunks)
        for (source, _), traffic in discarded.items():
            size, chunks = traffic.bytes, traffic.chunks
            self._log(task_events.Discarded, task=task, src=source, bytes=size, chunks=chunks)
