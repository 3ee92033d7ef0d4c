"""The controller: a thin shell around a policy and a plan builder.

Workers tell the controller when they are ready. The policy then decides which sites synchronize,
and the plan builder decides how. `agents.control.tasks` supervises each task, and
`agents.control.termination` ends the run. No model passes through the controller. A controller can
begin in the middle of a run, because workers report everything that it must know.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trunkline.agents.awareness.clock_sync import TimeService
from trunkline.agents.awareness.measured_rates import MeasuredRates
from trunkline.agents.control.decider import Decider
from trunkline.agents.control.driver import Driver
from trunkline.agents.control.farewell import Farewell
from trunkline.agents.control.participants import Participants
from trunkline.agents.control.tasks import Tasks
from trunkline.agents.control.termination import Termination
from trunkline.agents.events import awareness_events, connection_events, policy_events, run_events
from trunkline.agents.events.causes import DecidedWithout, Ending, TimeUp
from trunkline.agents.events.event import Log
from trunkline.agents.events.lifecycle import ControllerLife, follow
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
    ComparedNotice,
    Control,
    DefaultSplit,
    FinishedNotice,
    Halted,
    LeftNotice,
    LinkFoundNotice,
    LinkLostNotice,
    Measured,
    ProtocolError,
    Refused,
    Report,
    SiteReady,
    StopOrder,
    TaskOver,
    TaskState,
    TimeRequest,
    describe,
)


@dataclass(slots=True)
class Reports:
    """What workers have reported before the controller decides.

    absent: the workers that were lost before that.
    helps: the tasks in which each worker takes part without being a member.
    """

    absent: set[str] = field(default_factory=set)
    helps: dict[str, tuple[int, ...]] = field(default_factory=dict)


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
        self._log = log = follow(ControllerLife(), log)
        self._measured_rates = MeasuredRates(settings.rates_mbps)
        if latest_mbps is None and settings.follows_measured:
            latest_mbps = self._measured_rates.latest_mbps
        self._latest_mbps = latest_mbps
        driver = Driver.create(settings, policy, build, build_default)
        self._planner = driver.planner
        self._overlay = self._planner.overlay
        self._decider = Decider(settings, driver, self._tell, now_ns, log)
        self._termination = Termination(
            settings, self._overlay.present, self._is_busy, self._announce_stop
        )
        self._time_service = TimeService(
            settings.clock, settings.time_roots, settings.rank, now_ns, self._tell, log
        )
        self._plan_caches = PlanCaches(self._planner.rates)
        self._tasks = Tasks(
            self._overlay,
            settings.cut,
            settings.task_s,
            settings.failover.replans,
            self._planner.plan,
            self._planner.detours,
            Participants(settings.servers, self._plan_caches, self._tell),
            log,
            self._decider.on_ended,
        )
        self._decider.connect(self._tasks, self._termination)
        self._links: dict[str, Connection] = {}
        self._reports = Reports()
        self._farewell = Farewell(self._links)
        self._timers: list[asyncio.TimerHandle] = []

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
        self._timers.append(loop.call_later(settings.failover.patience_s, self._begin_to_decide))
        if settings.time_s is not None:
            left_s = max(0.0, settings.time_s - elapsed_s)
            over = TimeUp(settings.time_s)
            self._timers.append(loop.call_later(left_s, self._termination.stop, over))
        updating = asyncio.create_task(self._update())
        updating.add_done_callback(self._fail_on_error)
        pulse = asyncio.create_task(Pulse(settings.failover, self._connections).run())
        try:
            await self._termination.wait()
            await self._farewell.say(self._overlay.present, settings.failover.patience_s)
        finally:
            updating.cancel()
            pulse.cancel()
            self._close()

    @property
    def next_task(self) -> int:
        """The number of its next task."""
        return self._decider.driver.next_task

    def stop(self, cause: Ending) -> None:
        """Start no more tasks: a user asked for the end, or the model is as good as wanted."""
        self._termination.stop(cause)

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

    def _close(self) -> None:
        self._termination.close()
        for timer in self._timers:
            timer.cancel()
        self._decider.close()
        self._tasks.close()
        for link in self._connections():
            link.close()

    def _connections(self) -> list[Connection]:
        return list(self._links.values())

    # -- messages from workers ----------------------------------------------------------------

    def _on_frame(self, site: str, frame: Frame) -> None:
        if not self._termination.is_open:
            if isinstance(frame, Bye):
                self._farewell.on_answered(site)
            return
        if site not in self._overlay.present and not isinstance(frame, Report):
            raise ProtocolError("a worker begins with its report")
        try:
            self._handle(site, frame)
        except (PlanError, AgentError) as error:
            self._termination.fail(error)
        self._decider.report_ends()
        if isinstance(frame, Report | LinkLostNotice | LinkFoundNotice):
            self._serve_time()
        self._termination.check()

    def _handle(self, site: str, frame: Frame) -> None:
        match frame:
            case Report():
                self._add_worker(site, frame)
            case SiteReady():
                self._decider.offers.numbers[site] = frame.offer
                self._plan_caches.note_version(site, frame.version)
                self._decider.ready(decisions.Ready(site, frame.iteration, given=frame.given))
            case FinishedNotice():
                self._tasks.on_finished(site, frame.task, frame.blocks)
            case Halted():
                self._tasks.on_halted(site, frame.task, frame.finished)
            case Refused():
                self._tasks.on_refused(frame.site, frame.task)
            case LinkLostNotice():
                self._decider.offers.forget()
                self._note_losses(site, self._overlay.lost_by(site) | {frame.peer})
                self._on_link_lost(site, frame.peer)
            case LinkFoundNotice():
                self._decider.offers.forget()
                self._note_losses(site, self._overlay.lost_by(site) - {frame.peer})
                self._share_changes()
                self._tasks.on_link_found()
            case Measured():
                self._record_rate(frame)
            case TimeRequest():
                self._time_service.answer(site, frame)
            case ComparedNotice():
                self._decider.decide(decisions.Compared(site, frame.similarity))
            case LeftNotice():
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
        self._plan_caches.forget(site)
        if site in self._reports.absent or self._decider.decides:
            self._log(connection_events.WorkerFound, worker=site)
        self._reports.absent.discard(site)
        self._share_changes()
        self._decider.driver.started = max(self._decider.driver.started, report.begun)
        if not self._decider.decides:
            self._decider.offers.note(site, report)
        else:
            self._decider.offers.forget()
            self._decider.decide(decisions.Joined(site))
        for state in report.tasks:
            if not self._decider.decides:
                self._tasks.adopt(state, site, self._now_ns())
            elif not self._tasks.on_rejoined(site, state):
                self._tell(site, self._describe_end(site, state))
        self._reports.helps[site] = report.helps
        if self._decider.decides:
            self._tasks.add_helper(site, report.helps)
        for peer in report.lost:
            self._on_link_lost(site, peer)
        if self._termination.stopping:
            self._tell(site, StopOrder(self._termination.cause))
        elif report.stop is not None:
            self._termination.stop(report.stop)
        else:
            self._decider.stop_if_enough()
        if report.left:
            self._on_left(site)
        elif report.ready is not None:
            self._decider.ready(decisions.Ready(site, report.ready, given=report.given))
        self._tasks.on_link_found()
        self._decide_if_complete()

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

    def _decide_if_complete(self) -> None:
        """Begin to decide once every worker has reported or was lost before its report."""
        if self._overlay.present | self._reports.absent >= set(self.settings.sites):
            self._begin_to_decide()

    def _begin_to_decide(self) -> None:
        """Begin to decide: all workers have reported, or the time for reports is over."""
        if self._decider.decides:
            return
        events = self._decider.begin()
        everyone = self._overlay.present >= set(self.settings.sites)
        self._decider.offers.keep_usable(all_present=everyone)
        missing = [site for site in self.settings.sites if site not in self._overlay.present]
        for site in missing:
            if site not in self._reports.absent:
                self._log(connection_events.WorkerLost, site, "does not report", reported=False)
        self._log(policy_events.PolicyBegan, term=self.settings.term)
        self._share_changes()
        for site in missing:
            self._decider.decide(decisions.Lost(site))
        for site, tasks in self._reports.helps.items():
            self._tasks.add_helper(site, tasks)
        self._tasks.begin_to_decide()
        self._decider.report_ends()
        self._decider.stop_if_enough()
        for event in sorted(events, key=lambda event: self.settings.sites.index(event.site)):
            is_ready = isinstance(event, decisions.Ready)
            # A site that is not ready any more takes part in a task already.
            if not is_ready or event.site in self._decider.driver.ready:
                self._decider.decide(event)
        self._serve_time()
        self._termination.check()

    def _serve_time(self) -> None:
        if self._decider.decides:
            self._time_service.refresh(self._overlay.present, self._overlay.usable_mbps())

    def _record_rate(self, frame: Measured) -> None:
        try:
            self._measured_rates.record((frame.src, frame.dst), frame.rate_mbps)
        except KeyError:
            raise ProtocolError(f"no such link: {describe(frame)}") from None

    def _on_left(self, site: str) -> None:
        self._termination.mark_done(site)
        self._decider.driver.ready.discard(site)
        self._tasks.on_left(site)
        self._decider.decide(decisions.Left(site))

    def _on_lost(self, site: str, error: Exception) -> None:
        del self._links[site]
        if not self._termination.is_open:
            self._farewell.leave_if_alone()
            return
        if site not in self._overlay.present and self._decider.decides:
            return
        self._overlay.present.discard(site)
        self._decider.unready(site)
        self._decider.offers.forget()
        self._log(connection_events.WorkerLost, worker=site, reason=str(error))
        if not self._decider.decides:
            self._reports.absent.add(site)
            self._decider.forget(site)
            self._reports.helps.pop(site, None)
            self._tasks.forget_report(site)
            self._decide_if_complete()
            return
        self._serve_time()
        self._share_changes()
        try:
            self._tasks.on_site_lost(site)
            self._planner.forget(lambda path: site in path)
            if self._termination.is_working(site):
                self._decider.decide(decisions.Lost(site))
        except (PlanError, AgentError) as failed:
            self._termination.fail(failed)
        self._decider.report_ends()
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
        if not self._decider.decides:
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

    # -- rates and the end of the run ---------------------------------------------------------

    async def _update(self) -> None:
        """Take over the latest rates for plans every `update_s` (NetStorm's UPDATE_TIME)."""
        while self._latest_mbps is not None:
            await asyncio.sleep(self.settings.update_s)
            known = self._planner.rates
            if known.refresh(self._latest_mbps()):
                links = awareness_events.list_rates(known.rates_mbps)
                self._log(awareness_events.PlansUpdated, version=known.version, links=links)
                self._share_changes()

    def _fail_on_error(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._termination.fail(error)

    def _is_busy(self) -> bool:
        """Whether tasks are running, or may be running before all workers have reported."""
        return not self._decider.decides or bool(self._tasks.running)

    def _announce_stop(self, cause: Ending) -> None:
        self._decider.cancel_wakes()
        self._log(run_events.Stopping, cause=cause)
        for site in self.settings.sites:
            self._tell(site, StopOrder(self._termination.cause))
