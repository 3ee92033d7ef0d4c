"""The controller: a thin shell around a policy and a plan builder.

Workers tell the controller when they are ready. The policy then decides which sites synchronize,
and the plan builder decides how. `agents.control.tasks` supervises each task, and
`agents.control.termination` ends the run. No model passes through the controller. A controller can
begin in the middle of a run, because workers report everything that it must know.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from trunkline.agents.awareness.clock_sync import TimeService
from trunkline.agents.awareness.measured_rates import MeasuredRates
from trunkline.agents.control import replay
from trunkline.agents.control.alarm import Alarm
from trunkline.agents.control.driver import Action, Driver, NewTask, Postponed, Told
from trunkline.agents.control.task_state import Running
from trunkline.agents.control.tasks import Tasks
from trunkline.agents.control.termination import Termination
from trunkline.agents.events import (
    awareness_events,
    connection_events,
    policy_events,
    run_events,
    task_events,
)
from trunkline.agents.events.causes import (
    Asked,
    DecidedWithout,
    Ending,
    Enough,
    TargetReached,
    TimeUp,
)
from trunkline.agents.events.event import Log
from trunkline.agents.planning import repair
from trunkline.agents.planning.plan import Directed, Plan, PlanError, PlanRequest
from trunkline.agents.planning.site_plan import BlockPart, parts_of
from trunkline.agents.policies import policy as decisions
from trunkline.agents.site.plan_cache import PlanCaches
from trunkline.agents.wire.agent_settings import AgentError, ControllerSettings
from trunkline.agents.wire.framing import Frame, no_chunks
from trunkline.agents.wire.lane import ConnectionLostError
from trunkline.agents.wire.link import Connection
from trunkline.agents.wire.liveness import Pulse
from trunkline.agents.wire.messages import (
    AuxiliaryPaths,
    Begin,
    Bye,
    Compared,
    Control,
    DefaultSplit,
    Evaluated,
    Halted,
    Left,
    LinkFound,
    LinkLost,
    Measured,
    ProtocolError,
    Refused,
    Released,
    Report,
    SiteReady,
    Stop,
    TaskFinished,
    TaskOver,
    TaskState,
    TimeRequest,
    describe,
)


class Controller:
    """`run` returns when the run is over and every worker within reach was told to exit.

    With `build_default`, sites send their contributions as soon as they are ready, by the split
    that it builds for all sites; plans keep as much of that split as they can. `latest_mbps`
    returns the latest known rate of every link. If it is None and the settings follow measured
    rates, plans use the rates that workers measure.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        policy: decisions.Policy,
        build: Callable[[PlanRequest], Plan],
        now_ns: Callable[[], int],
        log: Log,
        build_default: Callable[[PlanRequest], Plan] | None = None,
        latest_mbps: Callable[[], Mapping[Directed, float]] | None = None,
    ) -> None:
        self.settings = settings
        self._now_ns = now_ns
        self._log = log
        self._measured_rates = MeasuredRates(settings.rates_mbps)
        if latest_mbps is None and settings.follows_measured:
            latest_mbps = self._measured_rates.latest_mbps
        self._latest_mbps = latest_mbps
        self._offers: dict[str, int] = {}
        self._spent: list[dict[str, int]] = []
        self._offers_are_whole = True
        self._driver = Driver.create(settings, policy, build, build_default)
        self._planner = self._driver.planner
        self._overlay = self._planner.overlay
        self._termination = Termination(
            settings, self._overlay.present, self._is_busy, self._announce_stop
        )
        self._time_service = TimeService(
            settings.clock, settings.time_roots, settings.rank, now_ns, self._tell, log
        )
        self._tasks = Tasks(
            self._overlay,
            settings.cut,
            settings.servers,
            settings.task_s,
            settings.failover.replans,
            self._planner.plan,
            self._planner.detours,
            PlanCaches(self._planner.rates),
            self._tell,
            log,
            self._on_ended,
        )
        self._links: dict[str, Connection] = {}
        self._unsettled: list[decisions.SiteEvent] | None = []
        self._absent: set[str] = set()
        self._helps: dict[str, tuple[int, ...]] = {}
        self._awaited: set[str] = set()
        self._alone = asyncio.Event()
        self._latest: dict[str, decisions.Ready] = {}
        self._stranded: set[str] = set()
        self._retrying: set[tuple[str, ...]] = set()
        self._ends: list[decisions.Ended] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._alarm = Alarm(now_ns, self._tick)

    async def run(self, workers: Mapping[str, socket.socket], elapsed_s: float = 0.0) -> None:
        """Run until a stop condition holds and no task is running.

        `elapsed_s` is the time since the run's start. Raises PlanError if the plan builder refuses
        a group although every link can be used.
        """
        loop = asyncio.get_running_loop()
        settings = self.settings
        self._termination.begin()
        for site, sock in workers.items():
            self.accept(site, sock)
        self._timers.append(loop.call_later(settings.failover.patience_s, self._settle))
        if settings.time_s is not None:
            left_s = max(0.0, settings.time_s - elapsed_s)
            over = TimeUp(settings.time_s)
            self._timers.append(loop.call_later(left_s, self._termination.stop, over))
        updating = asyncio.create_task(self._update())
        updating.add_done_callback(self._fail_on_error)
        pulse = asyncio.create_task(Pulse(settings.failover, self._connections).run())
        try:
            await self._termination.wait()
            await self._say_goodbye()
        finally:
            updating.cancel()
            pulse.cancel()
            self._close()

    @property
    def last_tasks(self) -> tuple[int, ...]:
        """The latest task number of each controller that this one knows of."""
        return tuple(self._driver.last_tasks.values())

    def stop(self) -> None:
        """Start no more tasks, because a user asked for the end of the run."""
        self._termination.stop(Asked())

    def accept(self, site: str, sock: socket.socket) -> None:
        """Take over a connection from a worker, or from the backup controller, after its hello."""
        if not self._termination.has_begun:
            sock.close()
            return
        if site in self._links:
            self._links[site].lose(ConnectionLostError(f"{site} calls again"))
        self._links[site] = Connection(
            sock, site, self._on_frame, self._on_lost, no_chunks, self._now_ns
        )
        if self._termination.is_open:
            self._links[site].tell(Begin(self._default_of(site)))
        else:
            self._links[site].tell(Bye())

    async def _say_goodbye(self) -> None:
        """Tell all agents that the run is over, until the last one has answered or time is up.

        An agent whose connection is lost before that calls again, and is told then.
        """
        self._awaited = self._overlay.present | self._links.keys()
        for link in self._connections():
            link.tell(Bye())
        self._leave_if_alone()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._alone.wait(), self.settings.failover.patience_s)

    def _leave_if_alone(self) -> None:
        if not self._links and not self._awaited:
            self._alone.set()

    def _close(self) -> None:
        self._termination.close()
        for timer in self._timers:
            timer.cancel()
        self._alarm.cancel()
        self._ends.clear()
        self._tasks.close()
        for link in self._connections():
            link.close()

    def _connections(self) -> list[Connection]:
        return list(self._links.values())

    # -- messages from workers ----------------------------------------------------------------

    def _on_frame(self, site: str, frame: Frame) -> None:
        if not self._termination.is_open:
            if isinstance(frame, Bye):
                self._awaited.discard(site)
            return
        if site not in self._overlay.present and not isinstance(frame, Report):
            raise ProtocolError("a worker begins with its report")
        try:
            self._handle(site, frame)
        except (PlanError, AgentError) as error:
            self._termination.fail(error)
        self._report_ends()
        if isinstance(frame, Report | LinkLost | LinkFound):
            self._serve_time()
        self._termination.check()

    def _handle(self, site: str, frame: Frame) -> None:
        match frame:
            case Report():
                self._add_worker(site, frame)
            case SiteReady():
                self._offers[site] = frame.offer
                self._tasks.plan_caches.note_version(site, frame.version)
                self._ready(decisions.Ready(site, frame.iteration, given=frame.given))
            case TaskFinished():
                self._tasks.on_finished(site, frame.task, frame.blocks)
            case Halted():
                self._tasks.on_halted(site, frame.task, frame.finished)
            case Refused():
                self._tasks.on_refused(frame.site, frame.task)
            case LinkLost():
                self._forget_offers()
                self._note_losses(site, self._overlay.lost_by(site) | {frame.peer})
                self._on_link_lost(site, frame.peer)
            case LinkFound():
                self._forget_offers()
                self._note_losses(site, self._overlay.lost_by(site) - {frame.peer})
                self._share_changes()
                self._tasks.on_link_found()
            case Measured():
                self._record_rate(frame)
            case TimeRequest():
                self._time_service.answer(site, frame)
            case Evaluated():
                self._check_accuracy(frame.accuracy_percent)
            case Compared():
                self._decide(decisions.Compared(site, frame.similarity))
            case Left():
                self._on_left(site)
            case tuple():
                raise ProtocolError("a chunk sent to the controller")
            case _:
                raise ProtocolError(f"not for the controller: {describe(frame)}")

    def _add_worker(self, site: str, report: Report) -> None:
        """Handle a worker's report: the worker has connected, for the first time or again."""
        if site in self._overlay.present or site not in self.settings.sites:
            raise ProtocolError("a second report, or one of no worker")
        self._note_losses(site, frozenset(report.lost))
        self._overlay.present.add(site)
        self._tasks.plan_caches.forget(site)
        if site in self._absent or self._unsettled is None:
            self._log(connection_events.WorkerFound, worker=site)
        self._absent.discard(site)
        self._share_changes()
        self._driver.started = max(self._driver.started, report.begun)
        if self._unsettled is not None:
            self._driver.skip(report.last_tasks)
            self._note_offer(site, report)
        else:
            self._forget_offers()
            self._decide(decisions.Joined(site))
        for state in report.tasks:
            if self._unsettled is not None:
                self._tasks.adopt(state, site, self._now_ns())
            elif not self._tasks.on_rejoined(site, state):
                self._tell(site, self._describe_end(site, state))
        self._helps[site] = report.helps
        if self._unsettled is None:
            self._tasks.add_helper(site, report.helps)
        for peer in report.lost:
            self._on_link_lost(site, peer)
        if self._termination.stopping:
            self._tell(site, Stop(self._termination.cause))
        elif report.stop is not None:
            self._termination.stop(report.stop)
        else:
            self._stop_if_enough()
        if report.left:
            self._on_left(site)
        elif report.ready is not None:
            self._ready(decisions.Ready(site, report.ready, given=report.given))
        self._tasks.on_link_found()
        self._settle_if_complete()

    def _note_losses(self, site: str, lost: frozenset[str]) -> None:
        """Note which neighbours a worker is not connected to."""
        if lost != self._overlay.lost_by(site):
            self._overlay.lost[site] = lost
            self._log(connection_events.LossesReported, worker=site, lost=tuple(sorted(lost)))

    def _describe_end(self, site: str, state: TaskState) -> TaskOver:
        """How a task ended from which this site was absent."""
        completed: bool | None = False
        if state.roles is not None and site not in state.roles.receivers:
            known = state.task in self._tasks.running or state.task in self._tasks.completed
            completed = state.task in self._tasks.completed if known else None
        return TaskOver(state.task, completed, DecidedWithout())

    def _note_offer(self, site: str, report: Report) -> None:
        """Note an offer that was made to the controller before this one."""
        self._spent.append(report.spent)
        if report.offer is not None and self._offers_are_whole:
            self._offers[site] = report.offer

    def _forget_offers(self) -> None:
        """Chunks of any offer may be missing, also of one that is not reported yet.

        A site or a link was lost, and is used again. (Plans go around it before, and a chunk of an
        offer counts only on the way of the plan.)
        """
        self._offers.clear()
        self._offers_are_whole = False

    def _settle_offers(self) -> None:
        """Keep the offers that all sites can still take into a task."""
        if self._overlay.present < set(self.settings.sites):
            self._offers.clear()
        for spent in self._spent:
            for site, number in spent.items():
                if self._offers.get(site, number + 1) <= number:
                    del self._offers[site]
        self._spent.clear()

    def _settle_if_complete(self) -> None:
        """Settle once every worker has reported or was lost before its report."""
        if self._overlay.present | self._absent >= set(self.settings.sites):
            self._settle()

    def _settle(self) -> None:
        """Begin to decide: all workers have reported, or the time for reports is over."""
        if self._unsettled is None:
            return
        events, self._unsettled = self._unsettled, None
        self._settle_offers()
        missing = [site for site in self.settings.sites if site not in self._overlay.present]
        for site in missing:
            if site not in self._absent:
                self._log(connection_events.WorkerLost, site, "does not report", reported=False)
        self._log(policy_events.PolicyBegan, term=self.settings.term)
        self._share_changes()
        for site in missing:
            self._decide(decisions.Lost(site))
        for site, tasks in self._helps.items():
            self._tasks.add_helper(site, tasks)
        self._tasks.settle()
        self._report_ends()
        self._stop_if_enough()
        for event in sorted(events, key=lambda event: self.settings.sites.index(event.site)):
            is_ready = isinstance(event, decisions.Ready)
            # A site that is not ready any more takes part in a task already.
            if not is_ready or event.site in self._driver.ready:
                self._decide(event)
        self._serve_time()
        self._termination.check()

    def _ready(self, event: decisions.Ready) -> None:
        self._latest[event.site] = event
        if not self._termination.stopping and self._tasks.invite_ready(event.site):
            self._stop_if_enough()
            return
        self._driver.ready.add(event.site)
        self._decide(event)

    def _serve_time(self) -> None:
        if self._unsettled is None:
            self._time_service.refresh(self._overlay.present, self._overlay.usable_mbps())

    def _record_rate(self, frame: Measured) -> None:
        try:
            self._measured_rates.record((frame.src, frame.dst), frame.rate_mbps)
        except KeyError:
            raise ProtocolError(f"no such link: {describe(frame)}") from None

    def _on_left(self, site: str) -> None:
        self._termination.mark_done(site)
        self._driver.ready.discard(site)
        self._tasks.on_left(site)
        self._decide(decisions.Left(site))

    def _on_lost(self, site: str, error: Exception) -> None:
        del self._links[site]
        if not self._termination.is_open:
            self._leave_if_alone()
            return
        if site not in self._overlay.present and self._unsettled is None:
            return
        self._overlay.present.discard(site)
        self._stranded.discard(site)
        self._driver.ready.discard(site)
        self._forget_offers()
        self._log(connection_events.WorkerLost, worker=site, reason=str(error))
        if self._unsettled is not None:
            self._absent.add(site)
            self._unsettled = [event for event in self._unsettled if event.site != site]
            self._helps.pop(site, None)
            self._tasks.forget_report(site)
            self._settle_if_complete()
            return
        self._serve_time()
        self._share_changes()
        try:
            self._tasks.on_site_lost(site)
            self._planner.forget(lambda path: site in path)
            if self._termination.is_working(site):
                self._decide(decisions.Lost(site))
        except (PlanError, AgentError) as failed:
            self._termination.fail(failed)
        self._report_ends()
        self._termination.check()

    def _on_link_lost(self, a: str, b: str) -> None:
        """Stop the use of this link and repair every task whose chunks were lost on it."""
        self._share_changes()
        self._tasks.on_link_lost(a, b)
        self._planner.forget(lambda path: repair.crosses(path, a, b))

    def _default_of(self, site: str) -> tuple[BlockPart, ...]:
        default = self._planner.default
        return () if default is None else parts_of(default, site)

    def _share_changes(self) -> None:
        """Tell every worker its auxiliary paths and its part of the default split from now on."""
        if self._unsettled is not None:
            return
        if self._planner.refresh_default():
            for site in sorted(self._overlay.present):
                self._tell(site, DefaultSplit(self._default_of(site)))
        if not self.settings.auxiliary:
            return
        found = self._planner.paths()
        for site in sorted(self._overlay.present):
            own = tuple(path for (src, _), all_ in found.items() if src == site for path in all_)
            self._tell(site, AuxiliaryPaths(own))

    def _tell(self, site: str, message: Control) -> None:
        if site in self._links and site in self._overlay.present:
            self._links[site].tell(message)

    # -- decisions of the policy --------------------------------------------------------------

    def _decide(self, event: decisions.SiteEvent) -> None:
        if self._unsettled is None:
            self._give(event)
        elif not self._termination.stopping:
            self._unsettled.append(event)

    def _give(self, event: decisions.SiteEvent | decisions.Ended) -> None:
        if not self._termination.stopping:
            self._perform(self._driver.step(event, self._now_ns() / 1e9))

    def _perform(self, actions: Iterable[Action]) -> None:
        """Carry out what the policy decided; after the end of the run no task begins any more."""
        for action in actions:
            match action:
                case NewTask() | Postponed() if self._termination.stopping:
                    pass
                case Told(event):
                    self._log(policy_events.PolicyTold, *replay.to_values(event))
                case NewTask():
                    self._start(action)
                case Postponed():
                    self._postpone(action)
                case decisions.Proceed(site, batch):
                    self._stranded.discard(site)
                    self._log(task_events.SiteReleased, worker=site)
                    self._tell(site, Released(batch))
                case decisions.Exclude(site):
                    self._stranded.discard(site)
                    self._log(task_events.SiteExcluded, worker=site)
                    self._termination.exclude()
                    self._tell(site, Stop())
        self._alarm.set(None if self._termination.stopping else self._driver.wake_s)

    def _tick(self) -> None:
        try:
            self._perform(self._driver.tick(self._now_ns() / 1e9))
        except (PlanError, AgentError) as error:
            self._termination.fail(error)

    def _on_ended(self, task: int, running: Running, completed: bool) -> None:
        """Note the end of a task. The policy first gets the event that led to it, if there is one.

        So it knows that a site is lost when it hears that a task of this site has ended.
        """
        if completed:
            for site in self._driver.awaiting(task) & running.start.weights.keys():
                self._latest[site] = replace(self._latest[site], given=True)
        if self._driver.hears_of_end(task):
            loop = asyncio.get_running_loop()
            report = {"duration_s": round(loop.time() - running.begun_s, 9)}
            self._ends.append(decisions.Ended(task, running.start.group, completed, report=report))
            loop.call_soon(self._report_ends)  # no message comes with the end of a budget
        self._termination.check()

    def _report_ends(self) -> None:
        """Give the policy the ends of tasks that it has not heard of."""
        try:
            while self._ends and self._unsettled is None:
                self._give(self._ends.pop(0))
        except (PlanError, AgentError) as error:
            self._termination.fail(error)

    def _start(self, new: NewTask) -> None:
        settings, start = self.settings, new.start
        self._log(
            task_events.TaskStarted,
            task=new.number,
            policy=settings.policy_name,
            plan=settings.plan_name,
            group=start.group,
            weights=dict(start.weights),
            scale=start.scale,
            bytes=settings.model_bytes,
            chunk_bytes=settings.chunk_bytes,
            tensor_bytes=settings.tensor_bytes,
            forest=new.plan.to_json(),
            version=self._planner.rates.version,
            roles=start.roles,
        )
        # A member that is not ready yet has used its last offer already. A site that waits after
        # this task may be in another one, which cannot take in the same offer.
        ready = [site for site in start.weights if site not in new.unready]
        offers = {site: self._offers.pop(site) for site in ready if site in self._offers}
        hears = self._planner.default or self.settings.auxiliary
        witnesses = self._overlay.present if hears else ()
        self._stranded -= frozenset(start.group) - start.passive
        offers = offers if self._planner.default else {}
        self._tasks.start(new.number, start, new.plan, offers, witnesses, new.unready, new.count)
        self._stop_if_enough()

    def _stop_if_enough(self) -> None:
        enough = self.settings.tasks
        if (
            enough is not None
            and self._unsettled is None
            and self._driver.started >= enough
            and self._tasks.groups_are_complete
        ):
            self._termination.stop(Enough(enough))

    def _postpone(self, postponed: Postponed) -> None:
        """Try this group again after a pause: the usable links do not connect it now."""
        group = postponed.start.group
        self._log(task_events.GroupPostponed, group=group, cause=postponed.cause)
        self._stranded |= postponed.ready
        if group not in self._retrying:
            self._retrying.add(group)
            loop = asyncio.get_running_loop()
            pause_s = self.settings.failover.timeout_s
            self._timers.append(loop.call_later(pause_s, self._retry, group))

    def _retry(self, group: tuple[str, ...]) -> None:
        self._retrying.discard(group)
        for site in group:
            if site in self._stranded:
                self._stranded.discard(site)
                self._ready(self._latest[site])

    async def _update(self) -> None:
        """Take over the latest rates for plans every `update_s` (NetStorm's UPDATE_TIME)."""
        while self._latest_mbps is not None:
            await asyncio.sleep(self.settings.update_s)
            known = self._planner.rates
            if known.refresh(self._latest_mbps()):
                links = awareness_events.list_rates(known.rates_mbps)
                self._log(awareness_events.PlansUpdated, version=known.version, links=links)
                self._share_changes()

    def _check_accuracy(self, accuracy_percent: float) -> None:
        target = self.settings.accuracy_percent
        if target is not None and accuracy_percent >= target:
            self._termination.stop(TargetReached(accuracy_percent, target))

    def _fail_on_error(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._termination.fail(error)

    def _is_busy(self) -> bool:
        """Whether tasks are running, or may be running before all workers have reported."""
        return self._unsettled is not None or bool(self._tasks.running)

    def _announce_stop(self, cause: Ending) -> None:
        self._alarm.cancel()
        self._log(run_events.Stopping, cause=cause)
        for site in self.settings.sites:
            self._tell(site, Stop(self._termination.cause))
