"""Gives events to the policy, and carries out its decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from trunkline.agents.control import replay
from trunkline.agents.control.alarm import Alarm
from trunkline.agents.control.driver import Action, Driver, NewTask, Postponed, Told
from trunkline.agents.control.known_offers import KnownOffers
from trunkline.agents.control.task_state import Running
from trunkline.agents.control.tasks import Tasks
from trunkline.agents.control.termination import Termination
from trunkline.agents.events import policy_events, task_events
from trunkline.agents.events.causes import Enough
from trunkline.agents.events.event import Log
from trunkline.agents.planning.plan import PlanError
from trunkline.agents.policies import policy as decisions
from trunkline.agents.wire.agent_settings import AgentError, ControllerSettings
from trunkline.agents.wire.messages import Control, Released, StopOrder


@dataclass(slots=True)
class Retries:
    """The groups that the links which work do not connect; they are tried again after a pause.

    latest: the latest report of each site that it is ready.
    stranded: the sites that wait for a group that is to be tried again.
    groups: these groups.
    timers: when they are tried again.
    """

    latest: dict[str, decisions.Ready] = field(default_factory=dict)
    stranded: set[str] = field(default_factory=set)
    groups: set[tuple[str, ...]] = field(default_factory=set)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


class Decider:
    """A controller's policy at work.

    `tell` sends to sites that are present in the overlay.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        driver: Driver,
        tell: Callable[[str, Control], None],
        now_ns: Callable[[], int],
        log: Log,
    ) -> None:
        self.driver = driver
        self.offers = KnownOffers()
        self.retries = Retries()
        self._early: list[decisions.SiteEvent] | None = []
        self._settings = settings
        self._planner = driver.planner
        self._tell = tell
        self._now_ns = now_ns
        self._log = log
        self._ends: list[decisions.Ended] = []
        self._alarm = Alarm(now_ns, self._tick)

    def connect(self, tasks: Tasks, termination: Termination) -> None:
        """Have these carry out the decisions."""
        self._tasks, self._termination = tasks, termination

    def begin(self) -> list[decisions.SiteEvent]:
        """Decide from now on; returns the events that have been kept until now."""
        events, self._early = self._early or [], None
        return events

    @property
    def decides(self) -> bool:
        """Whether the policy decides already."""
        return self._early is None

    def close(self) -> None:
        """Decide nothing more."""
        for timer in self.retries.timers:
            timer.cancel()
        self._alarm.cancel()
        self._ends.clear()

    def cancel_wakes(self) -> None:
        """Wake the policy no more: no task begins any more."""
        self._alarm.cancel()

    # -- events for the policy ----------------------------------------------------------------

    def ready(self, event: decisions.Ready) -> None:
        """A site is ready: it joins a task that waits for it, or the policy decides."""
        self.retries.latest[event.site] = event
        if not self._termination.stopping and self._tasks.invite_ready(event.site):
            self.stop_if_enough()
            return
        self.driver.ready.add(event.site)
        self.decide(event)

    def unready(self, site: str) -> None:
        """A site waits no more: it is lost."""
        self.retries.stranded.discard(site)
        self.driver.ready.discard(site)

    def forget(self, site: str) -> None:
        """Drop the events of a lost site that have been kept."""
        self._early = [event for event in self._early or () if event.site != site]

    def decide(self, event: decisions.SiteEvent) -> None:
        """Give an event to the policy, or keep it until the controller decides."""
        if self._early is None:
            self._give(event)
        elif not self._termination.stopping:
            self._early.append(event)

    def _give(self, event: decisions.SiteEvent | decisions.Ended) -> None:
        if not self._termination.stopping:
            self._perform(self.driver.step(event, self._now_ns() / 1e9))

    def _tick(self) -> None:
        try:
            self._perform(self.driver.tick(self._now_ns() / 1e9))
        except (PlanError, AgentError) as error:
            self._termination.fail(error)

    def on_ended(self, task: int, running: Running, completed: bool) -> None:
        """Note the end of a task. The policy first gets the event that led to it, if there is one.

        So it knows that a site is lost when it hears that a task of this site has ended.
        """
        if completed:
            latest = self.retries.latest
            for site in self.driver.awaiting(task) & running.start.weights.keys():
                latest[site] = replace(latest[site], given=True)
        if self.driver.hears_of_end(task):
            loop = asyncio.get_running_loop()
            report = {"duration_s": round(loop.time() - running.begun_s, 9)}
            self._ends.append(decisions.Ended(task, running.start.group, completed, report=report))
            loop.call_soon(self.report_ends)  # no message comes with the end of a budget
        self._termination.check()

    def report_ends(self) -> None:
        """Give the policy the ends of tasks that it has not heard of."""
        try:
            while self._ends and self.decides:
                self._give(self._ends.pop(0))
        except (PlanError, AgentError) as error:
            self._termination.fail(error)

    # -- decisions ----------------------------------------------------------------------------

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
                    self.retries.stranded.discard(site)
                    self._log(task_events.SiteReleased, worker=site)
                    self._tell(site, Released(batch))
                case decisions.Exclude(site):
                    self.retries.stranded.discard(site)
                    self._log(task_events.SiteExcluded, worker=site)
                    self._termination.exclude()
                    self._tell(site, StopOrder())
        self._alarm.set(None if self._termination.stopping else self.driver.wake_s)

    def _start(self, new: NewTask) -> None:
        settings, start = self._settings, new.start
        values = new.describe(settings, self._planner.rates.version)
        self._log(task_events.TaskStarted, **values)
        # A member that is not ready yet has used its last offer already. A site that waits after
        # this task may be in another one, which cannot take in the same offer.
        ready = [site for site in start.weights if site not in new.unready]
        offers = self.offers.take(ready)
        hears = self._planner.default or settings.auxiliary
        witnesses = self._planner.overlay.present if hears else ()
        self.retries.stranded -= frozenset(start.group) - start.passive
        offers = offers if self._planner.default else {}
        self._tasks.start(new.number, start, new.plan, offers, witnesses, new.unready, new.count)
        self.stop_if_enough()

    def stop_if_enough(self) -> None:
        """Stop the run if as many tasks have begun as the scenario wants."""
        enough = self._settings.tasks
        if (
            enough is not None
            and self.decides
            and self.driver.started >= enough
            and self._tasks.groups_are_complete
        ):
            self._termination.stop(Enough(enough))

    def _postpone(self, postponed: Postponed) -> None:
        """Try this group again after a pause: the usable links do not connect it now."""
        group, retries = postponed.start.group, self.retries
        self._log(task_events.GroupPostponed, group=group, cause=postponed.cause)
        retries.stranded |= postponed.ready
        if group not in retries.groups:
            retries.groups.add(group)
            loop = asyncio.get_running_loop()
            pause_s = self._settings.failover.timeout_s
            retries.timers.append(loop.call_later(pause_s, self._retry, group))

    def _retry(self, group: tuple[str, ...]) -> None:
        retries = self.retries
        retries.groups.discard(group)
        for site in group:
            if site in retries.stranded:
                retries.stranded.discard(site)
                self.ready(retries.latest[site])
