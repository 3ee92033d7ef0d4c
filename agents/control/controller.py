"""The controller: a thin shell around a policy and a plan builder.

It hears who is ready, asks the policy who synchronizes, asks the plan builder how, and stops the
run when the scenario says so; `agents.control.tasks` does the rest of each task. No model passes
through it. It can begin in the middle of a run: the workers report all that it must know.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping

from trunkline.agents.awareness.clock_sync import TimeService
from trunkline.agents.awareness.measured_rates import MeasuredRates
from trunkline.agents.control.driver import Driver, NewTask, Postponed
from trunkline.agents.control.tasks import Tasks
from trunkline.agents.control.termination import ASKED, Ending
from trunkline.agents.events import awareness_events, connection_events, run_events, task_events
from trunkline.agents.events.event import Log
from trunkline.agents.planning import repair
from trunkline.agents.planning.plan import Directed, Plan, PlanError, PlanRequest
from trunkline.agents.planning.site_plan import parts_of
from trunkline.agents.policies import policy as decisions
from trunkline.agents.site.plan_cache import Tables
from trunkline.agents.wire.agent_settings import ControllerSettings
from trunkline.agents.wire.framing import Frame, no_chunks
from trunkline.agents.wire.link import Connection, ConnectionLostError
from trunkline.agents.wire.liveness import Pulse
from trunkline.agents.wire.messages import (
    AuxiliaryPaths,
    Begin,
    Bye,
    Control,
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
    TimeRequest,
    describe,
)


class Controller:
    """`run` returns when all is done and everybody who can be reached was told to leave.

    With a `default` split, sites that are ready send by it at once; `build` is then expected to
    keep what it can of it. `latest_mbps` says what is now known of every link's rate; None leaves
    it to what the workers measure, if plans are to follow that.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        policy: decisions.Policy,
        build: Callable[[PlanRequest], Plan],
        now_ns: Callable[[], int],
        log: Log,
        default: Plan | None = None,
        latest_mbps: Callable[[], Mapping[Directed, float]] | None = None,
    ) -> None:
        self.settings = settings
        self._now_ns = now_ns
        self._log = log
        self._default = default
        self._measured_rates = MeasuredRates(settings.rates_mbps)
        if latest_mbps is None and settings.follows_measured:
            latest_mbps = self._measured_rates.latest_mbps
        self._latest_mbps = latest_mbps
        self._offers: dict[str, int] = {}
        self._driver = Driver.create(settings, policy, build)
        self._planner = self._driver.planner
        self._overlay = self._planner.overlay
        self._ending = Ending(settings, self._overlay.present, self._busy, self._say_stop)
        self._time = TimeService(
            settings.clock, settings.time_roots, settings.rank, now_ns, self._tell, log
        )
        self._tasks = Tasks(
            self._overlay,
            settings.cut,
            settings.task_s,
            settings.failover.replans,
            self._planner.plan,
            self._planner.detours,
            Tables(self._planner.rates),
            self._tell,
            log,
            self._ending.check,
        )
        self._links: dict[str, Connection] = {}
        self._unsettled: list[decisions.Event] | None = []
        self._absent: set[str] = set()
        self._helps: dict[str, tuple[int, ...]] = {}
        self._all_gone = asyncio.Event()
        self._iterations: dict[str, int] = {}
        self._stranded: set[str] = set()
        self._timers: list[asyncio.TimerHandle] = []

    async def run(self, workers: Mapping[str, socket.socket], elapsed_s: float = 0.0) -> None:
        """Run until a stop condition holds and nothing is left running.

        `elapsed_s` of the run have passed already. Raises PlanError when the plan refuses a group
        although every link can be used.
        """
        loop = asyncio.get_running_loop()
        settings = self.settings
        self._ending.begin()
        for site, sock in workers.items():
            self.accepted(site, sock)
        self._timers.append(loop.call_later(settings.failover.patience_s, self._settle))
        if settings.time_s is not None:
            reason = f"{settings.time_s:g} s are over"
            left_s = max(0.0, settings.time_s - elapsed_s)
            self._timers.append(loop.call_later(left_s, self._ending.stop, reason))
        updating = asyncio.create_task(self._update())
        updating.add_done_callback(self._check)
        pulse = asyncio.create_task(Pulse(settings.failover, self._connections).run())
        try:
            await self._ending.wait()
            for link in self._connections():
                link.tell(Bye())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), settings.failover.timeout_s)
        finally:
            updating.cancel()
            pulse.cancel()
            self._close()

    @property
    def last_tasks(self) -> tuple[int, ...]:
        """The latest task of each controller that this one knows of."""
        return tuple(self._driver.last_tasks.values())

    def stop(self) -> None:
        """Somebody asks for the end: no more tasks."""
        self._ending.stop(ASKED)

    def accepted(self, site: str, sock: socket.socket) -> None:
        """A worker, or a controller that stands by, has called and said who it is."""
        if not self._ending.is_open:
            sock.close()
            return
        if site in self._links:
            self._links[site].lose(ConnectionLostError(f"{site} calls again"))
        self._links[site] = Connection(sock, site, self._heard, self._lost, no_chunks, self._now_ns)
        self._links[site].tell(Begin(parts_of(self._default, site) if self._default else ()))

    def _close(self) -> None:
        self._ending.close()
        for timer in self._timers:
            timer.cancel()
        self._tasks.close()
        for link in self._connections():
            link.close()

    def _connections(self) -> list[Connection]:
        return list(self._links.values())

    # -- what workers say ---------------------------------------------------------------------

    def _heard(self, site: str, frame: Frame) -> None:
        if site not in self._overlay.present and not isinstance(frame, Report):
            raise ProtocolError("a worker begins with its report")
        try:
            self._take(site, frame)
        except PlanError as error:
            self._ending.fail(error)
        if isinstance(frame, Report | LinkLost | LinkFound):
            self._serve_time()
        self._ending.check()

    def _take(self, site: str, frame: Frame) -> None:
        match frame:
            case Report():
                self._joined(site, frame)
            case SiteReady():
                self._offers[site] = frame.offer
                self._tasks.tables.asked(site, frame.version)
                self._ready(site, frame.iteration)
            case TaskFinished():
                self._tasks.finished(site, frame.task, frame.blocks)
            case Halted():
                self._tasks.halted(site, frame.task, frame.finished)
            case Refused():
                self._tasks.refused(frame.site, frame.task)
            case LinkLost():
                self._offers.clear()
                self._overlay.lost.setdefault(site, set()).add(frame.peer)
                self._link_lost(site, frame.peer)
            case LinkFound():
                self._offers.clear()
                self._overlay.lost.setdefault(site, set()).discard(frame.peer)
                self._share_paths()
                self._tasks.mended()
            case Measured():
                self._measured(frame)
            case TimeRequest():
                self._time.answer(site, frame)
            case Evaluated():
                self._evaluated(frame.accuracy_percent)
            case Left():
                self._left(site)
            case tuple():
                raise ProtocolError("a chunk sent to the controller")
            case _:
                raise ProtocolError(f"not for the controller: {describe(frame)}")

    def _joined(self, site: str, report: Report) -> None:
        """A worker follows this controller, for the first time or again."""
        if site in self._overlay.present or site not in self.settings.sites:
            raise ProtocolError("a second report, or one of no worker")
        self._overlay.present.add(site)
        self._tasks.tables.forget(site)
        self._absent.discard(site)
        self._offers.clear()
        self._overlay.lost[site] = set(report.lost)
        if self._unsettled is not None:
            self._driver.skip(report.last_tasks)
        else:
            self._log(connection_events.WorkerFound, worker=site)
            self._decide(decisions.Joined(site))
        for state in report.tasks:
            if self._unsettled is not None:
                self._tasks.adopt(state, site)
            elif not self._tasks.rejoined(site, state):
                self._tell(site, TaskOver(state.task, False, "decided without this site"))
        self._helps[site] = report.helps
        if self._unsettled is None:
            self._tasks.helps(site, report.helps)
        for peer in report.lost:
            self._link_lost(site, peer)
        self._share_paths()
        if self._ending.stopping:
            self._tell(site, Stop())
        if report.left:
            self._left(site)
        elif report.ready is not None:
            self._ready(site, report.ready)
        self._tasks.mended()
        self._settle_if_complete()

    def _settle_if_complete(self) -> None:
        """Once every worker has reported, or was lost before it did."""
        if self._overlay.present | self._absent >= set(self.settings.sites):
            self._settle()

    def _settle(self) -> None:
        """Everybody has reported, or had the time to: begin to decide."""
        if self._unsettled is None:
            return
        events, self._unsettled = self._unsettled, None
        for site in self.settings.sites:
            if site not in self._overlay.present:
                if site not in self._absent:
                    self._log(connection_events.WorkerLost, worker=site, reason="does not report")
                self._decide(decisions.Lost(site))
        self._share_paths()
        for site, tasks in self._helps.items():
            self._tasks.helps(site, tasks)
        self._tasks.settle()
        for event in sorted(events, key=lambda event: self.settings.sites.index(event.site)):
            is_ready = isinstance(event, decisions.Ready)
            if not is_ready or event.site in self._driver.ready:  # else a task has it already
                self._decide(event)
        self._serve_time()
        self._ending.check()

    def _ready(self, site: str, iteration: int) -> None:
        self._iterations[site] = iteration
        if not self._ending.stopping and self._tasks.ask(site):
            self._stop_if_enough()
            return
        self._driver.ready.add(site)
        self._decide(decisions.Ready(site, iteration))

    def _serve_time(self) -> None:
        if self._unsettled is None:
            self._time.refresh(self._overlay.present, self._overlay.usable_mbps())

    def _measured(self, frame: Measured) -> None:
        try:
            self._measured_rates.record((frame.src, frame.dst), frame.rate_mbps)
        except KeyError:
            raise ProtocolError(f"no such link: {describe(frame)}") from None

    def _left(self, site: str) -> None:
        self._ending.left(site)
        self._driver.ready.discard(site)
        self._tasks.leaves(site)
        self._decide(decisions.Left(site))

    def _lost(self, site: str, error: Exception) -> None:
        del self._links[site]
        if not self._links:
            self._all_gone.set()
        if not self._ending.is_open:
            return
        if site not in self._overlay.present and self._unsettled is None:
            return
        self._overlay.present.discard(site)
        self._stranded.discard(site)
        self._driver.ready.discard(site)
        self._offers.clear()
        self._log(connection_events.WorkerLost, worker=site, reason=str(error))
        if self._unsettled is not None:
            self._absent.add(site)
            self._settle_if_complete()
            return
        self._serve_time()
        self._share_paths()
        try:
            self._tasks.site_lost(site)
            self._planner.forget(lambda path: site in path)
            if self._ending.works(site):
                self._decide(decisions.Lost(site))
        except PlanError as failed:
            self._ending.fail(failed)
        self._ending.check()

    def _link_lost(self, a: str, b: str) -> None:
        """Nobody is to send that way; what is on it is lost, and mended task by task."""
        self._share_paths()
        self._tasks.link_lost(a, b)
        self._planner.forget(lambda path: repair.crosses(path, a, b))

    def _share_paths(self) -> None:
        """Tell every worker which paths it may use from now on."""
        if not self.settings.auxiliary or self._unsettled is not None:
            return
        found, version = self._planner.paths(), self._planner.rates.version
        for site in sorted(self._overlay.present):
            own = tuple(path for (src, _), all_ in found.items() if src == site for path in all_)
            self._tell(site, AuxiliaryPaths(version, own))

    def _tell(self, site: str, message: Control) -> None:
        if site in self._links and site in self._overlay.present:
            self._links[site].tell(message)

    # -- what the policy decides --------------------------------------------------------------

    def _decide(self, event: decisions.Event) -> None:
        if self._ending.stopping:
            return
        if self._unsettled is not None:
            self._unsettled.append(event)
            return
        for action in self._driver.step(event):
            match action:
                case NewTask():
                    self._start(action)
                case Postponed():
                    self._postpone(action)
                case decisions.Release(site):
                    self._tell(site, Released())

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
        )
        offers = {site: self._offers[site] for site in start.group if site in self._offers}
        hears = self._default or self.settings.auxiliary
        witnesses = self._overlay.present if hears else ()
        self._stranded.difference_update(start.group)
        offers = offers if self._default else {}
        self._tasks.start(new.number, start, new.plan, offers, witnesses, new.unready)
        self._stop_if_enough()

    def _stop_if_enough(self) -> None:
        enough = self.settings.tasks
        if enough is not None and self._driver.started >= enough and self._tasks.complete_groups:
            self._ending.stop(f"{enough} tasks are started")

    def _postpone(self, postponed: Postponed) -> None:
        """The sites of a group that cannot be connected are ready again later."""
        group = postponed.start.group
        self._log(task_events.GroupPostponed, group=group, reason=postponed.reason)
        self._stranded |= postponed.ready
        loop = asyncio.get_running_loop()
        pause_s = self.settings.failover.timeout_s
        self._timers.append(loop.call_later(pause_s, self._retry, group))

    def _retry(self, group: tuple[str, ...]) -> None:
        for site in group:
            if site in self._stranded:
                self._stranded.discard(site)
                self._ready(site, self._iterations[site])

    async def _update(self) -> None:
        """Every UPDATE_TIME, plan by the latest rates from then on."""
        while self._latest_mbps is not None:
            await asyncio.sleep(self.settings.update_s)
            known = self._planner.rates
            if known.refresh(self._latest_mbps()):
                links = awareness_events.list_rates(known.rates_mbps)
                self._log(awareness_events.PlansUpdated, version=known.version, links=links)
                self._share_paths()

    def _evaluated(self, accuracy_percent: float) -> None:
        target = self.settings.accuracy_percent
        if target is not None and accuracy_percent >= target:
            self._ending.stop(f"accuracy {accuracy_percent:.2f} % reached {target:g} %")

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._ending.fail(error)

    def _busy(self) -> bool:
        """Whether tasks are under way, or may be."""
        return self._unsettled is not None or bool(self._tasks.running)

    def _say_stop(self, reason: str) -> None:
        self._log(run_events.Stopping, reason=reason)
        for site in self.settings.sites:
            self._tell(site, Stop())
