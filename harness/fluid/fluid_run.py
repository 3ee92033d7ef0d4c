"""Simulate a whole run in the fluid model, to predict its events, rounds and task times (pure).

Policy, plans, compute times and rate errors are those of the run. Links carry chunks as in
`agents.planning.fluid`: without propagation, TCP, or messages of the controller. The timeline may
change the rates of links, and background traffic takes its mean rate. Plans that use measured rates
get exact rates at every update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from trunkline.agents.control.driver import Action, NewTask
from trunkline.agents.events.awareness_events import PlansUpdated, list_rates
from trunkline.agents.events.causes import Ending, Enough, RoundsDone, TimeUp
from trunkline.agents.events.event import CONTROLLER, Event
from trunkline.agents.events.round_events import (
    ComputeFinished,
    ComputeStarted,
    RoundFinished,
    WorkerFinished,
)
from trunkline.agents.events.round_events import Ready as ReadyLogged
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import (
    ContributionTaken,
    SiteExcluded,
    SiteReleased,
    TaskCompleted,
)
from trunkline.agents.planning.fluid.agenda import Agenda
from trunkline.agents.planning.fluid.fluid_links import FluidLinks
from trunkline.agents.planning.fluid.fluid_overlay import FluidOverlay
from trunkline.agents.planning.fluid.fluid_tasks import Offer
from trunkline.agents.planning.plan import Plan
from trunkline.agents.policies.policy import Ended, Exclude, Left, Proceed, Ready, Start
from trunkline.harness.faults.fault_types import Redraw, SetLink
from trunkline.harness.faults.recorded.recorded_faults import Trace
from trunkline.harness.fluid.fluid_counts import Counts, Expectation, Window
from trunkline.harness.fluid.fluid_log import FluidLog
from trunkline.harness.fluid.fluid_network import ChangingLinks, Messages
from trunkline.harness.fluid.fluid_state import Model, StartedTask, Worker
from trunkline.harness.fluid.fluid_steps import HandOut
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.settings import Scenario


def predict(scenario: Scenario, delays: bool = False) -> Expectation | None:
    """Predict a run; None if the fluid model cannot, by `list_obstacles`.

    With `delays`, every hop of a chunk and every message to and from the controller takes the
    propagation delay of its path. Without, nothing does, as in the papers' models.
    """
    return None if any(list_obstacles(scenario)) else _Run(scenario, delays).run()


def predict_events(scenario: Scenario, delays: bool = True) -> list[Event]:
    """The events that the run would log, in the order of time, as far as the model has them.

    There must be no obstacles.
    """
    run = _Run(scenario, delays)
    run.run()
    return run.finish_log()


def list_obstacles(scenario: Scenario) -> Iterator[str]:
    """Why the fluid model cannot predict a run: a key, its value, and what is possible."""
    if scenario.runs_programs:
        yield "workload.kind: program: the model knows no programs, only Trunkline's own agents"
    elif scenario.workload.kind in scenario.code:
        kind = scenario.workload.kind
        yield f"workload.kind: {kind}: the compute times of your own code are not known in advance"
    for number, entry in enumerate(scenario.timeline):
        fault = entry.fault
        if not isinstance(fault, SetLink | Redraw | Trace):
            known = "the model knows setlink, redraw and trace, and nothing that fails"
            yield f"timeline[{number}]: {fault.VERB}: {known}"
        elif isinstance(fault, Trace) and fault.has_outages:
            yield f"timeline[{number}]: trace: it has outages, and in the model no link fails"
    stop = scenario.stop
    if not (scenario.runs_programs or stop.time_s or stop.tasks or stop.rounds):
        yield "stop: the model trains nothing: expected time, tasks or rounds"


class _Run:
    """Simulates controller and workers.

    `_running` counts the tasks that run; `_waiting` has the task that waits for each site which was
    not ready; `_alarm_s` is when the policy ticks next, if it does.
    """

    def __init__(self, scenario: Scenario, delays: bool) -> None:
        topology, scheme = scenario.topology, scenario.scheme
        self._scenario, self._stop, self._delays = scenario, scenario.whole_stop, delays
        self._model = Model.of(scenario)
        self._driver = planning.create_driver(scenario)
        self._agenda = Agenda()
        self._log = FluidLog(self._agenda)
        links = FluidLinks(
            self._agenda,
            topology.rates_mbps(),
            topology.overlay.delays_ms() if delays else {},
            scheme.discipline,
            scheme.bounds,
            topology.overlay_paths(),
        )
        links.sent = self._log.count_sent
        self._overlay = FluidOverlay(links)
        self._network = ChangingLinks.of(scenario, links, self._is_active, self._log.add)
        self._messages = Messages.of(scenario, self._agenda) if delays else Messages(self._agenda)
        links.set_known_rates(self._driver.planner.rates.rates_mbps)
        self._workers = Worker.all_of(scenario)
        self._window = Window(begin_s=None if scenario.warm_up.unit else 0.0)
        self._counts = Counts(scenario.samples)
        self._running = 0
        self._waiting: dict[str, Callable[[], None]] = {}
        self._alarm_s: float | None = None
        self._ended: Ending | None = None

    def run(self) -> Expectation:
        self._log.begin(self._scenario)
        for site in self._workers:
            self._compute(site)
        if self._stop.time_s is not None:
            self._agenda.call_at(self._stop.time_s, partial(self._end, TimeUp(self._stop.time_s)))
        if self._scenario.warm_up.time_s is not None:
            self._agenda.call_at(self._scenario.warm_up.time_s, self._begin)
        if self._scenario.scheme.rates != "configured":
            self._agenda.call_at(self._scenario.scheme.update_s, self._update)
        self._agenda.run()
        return self._counts.expect(self._window.length_s, self._scenario.workers)

    def finish_log(self) -> list[Event]:
        """The events of a run that has ended."""
        cause = self._ended
        if cause is None:
            excluded = any(isinstance(event, SiteExcluded) for event in self._log.events)
            cause = RoundsDone(within_reach=False, excluded=excluded)
            self._log.add(Stopping, CONTROLLER, self._window.heard_s, cause=cause)
        delays_ms = self._scenario.topology.overlay.delays_ms() if self._delays else {}
        return self._log.end(cause, delays_ms)

    def _compute(self, site: str, handed: HandOut | None = None) -> None:
        """Let a site compute; `handed` brings the parameters, and they begin when they arrive."""
        worker, window, counts = self._workers[site], self._window, self._counts
        iteration = worker.iteration
        if window.has_stopped:
            return
        if iteration == self._stop.rounds:
            self._leave(site)
        if worker.has_left:
            return
        self._log.add(ComputeStarted, site, iteration=iteration, batch=worker.batch)
        took_s = worker.times.time_s(iteration, worker.batch)
        end_s = self._agenda.now_s + took_s
        if handed is not None:
            layers = worker.times.layers(iteration, worker.batch)
            computed = handed.compute(site, layers)
            self._log.hand_out(handed, site, iteration, computed)
            end_s = max(branch[-1] for branch in computed) + layers.backward_s
            told_s = handed.told_s[site]
            if window.begin_s is not None and told_s >= window.begin_s:
                counts.steps_s.append(end_s - told_s)
                counts.stalls_s.append(counts.steps_s[-1] - took_s)
        self._agenda.call_at(end_s, lambda: self._on_computed(site, iteration))

    def _on_computed(self, site: str, iteration: int) -> None:
        if not self._workers[site].has_left:
            self._log.add(ComputeFinished, site, iteration=iteration)
            self._on_ready(site, iteration)

    def _on_ready(self, site: str, iteration: int) -> None:
        """Let a site be ready, once no task in which it is passive replaces its model."""
        worker = self._workers[site]
        if worker.has_left:
            return
        if worker.locks:
            worker.computed = iteration
            return
        self._log.add(ReadyLogged, site, iteration=iteration)
        default, is_awaited = self._driver.planner.default, site in self._waiting
        if not (self._window.has_stopped or is_awaited) and default is not None:
            worker.offer = self._overlay.offer(self._model.make_task(default), site)
        self._decide(Ready(site, iteration), self._messages.find_arrival_s(site))

    def _invite(self, site: str) -> None:
        """Tell a site that has become ready of the task that waits for it."""
        self._messages.call(site, self._waiting.pop(site))
        self._end_if_enough()

    def _leave(self, site: str) -> None:
        """Let a site do no more rounds."""
        if not self._workers[site].has_left:
            self._workers[site].has_left = True
            self._log.add(WorkerFinished, site, rounds=self._workers[site].iteration)
            self._decide(Left(site), self._messages.find_arrival_s(site))

    def _decide(self, event: Ready | Left | Ended, heard_s: float) -> None:
        """Let the policy decide when the controller hears of the event."""

        def heard() -> None:
            self._window.heard_s = self._agenda.now_s
            if isinstance(event, Ended):
                self._log.add(TaskCompleted, CONTROLLER, task=event.task)
            if self._window.has_stopped:
                return
            if isinstance(event, Ready) and event.site in self._waiting:
                self._invite(event.site)
            else:
                self._perform(self._driver.step(event, self._agenda.now_s))

        self._messages.call_at(heard_s, heard)

    def _perform(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case NewTask():
                    planner = self._driver.planner
                    self._log.start_task(action, planner.settings, planner.rates.version)
                    if action.count - 1 == self._scenario.warm_up.tasks:
                        self._begin()
                    self._start(action)
                case Proceed(site, batch):
                    self._log.add(SiteReleased, CONTROLLER, worker=site)
                    if (offer := self._workers[site].take_offer()) is not None:
                        self._overlay.take_back(offer)
                    self._messages.call(site, partial(self._finish_round, site, batch))
                case Exclude(site):
                    self._log.add(SiteExcluded, CONTROLLER, worker=site)
                    self._messages.call(site, partial(self._leave, site))
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Let the policy tick when it wants to, and no more after the last round."""
        wake_s = self._driver.wake_s if self._is_active() else None
        if wake_s == self._alarm_s:
            return
        if self._alarm_s is not None:
            self._agenda.cancel(self._tick)
        if wake_s is not None:
            self._agenda.call_at(wake_s, self._tick)
        self._alarm_s = wake_s

    def _tick(self) -> None:
        self._alarm_s = None
        if not self._window.has_stopped:
            self._perform(self._driver.tick(self._agenda.now_s))

    def _start(self, new: NewTask) -> None:
        """Start a task, in which each site takes part when the controller's message arrives."""
        plan, start, counts = new.plan, new.start, self._window.has_begun
        if counts and start.is_symmetric and not start.merges:
            self._counts.groups.append(start.weights)
        overlaps = self._model.branches and not start.merges
        handed = HandOut(new.number, plan, self._model.branches) if overlaps else None
        task = StartedTask(new, counts, self._agenda.now_s, handed, set(plan.receivers))

        def arrived(site: str, chunk: int) -> None:
            if handed is not None:
                handed.arrived_s[site][chunk] = self._agenda.now_s

        self._log.numbers.append(new.number)
        self._network.start()  # timelines start with the first task
        self._running += 1
        called = [site for site in plan.participants() if site not in new.unready]
        later = [site for site in called if self._messages.find_arrival_s(site) > task.begun_s]
        for site in called:
            if site not in later:
                self._tell(task, site)
        made, offers = self._model.make_task(plan), self._take_offers(plan)
        received, unready = partial(self._receive, task), {*new.unready, *later}
        running = self._overlay.start(made, received, offers, unready, arrived)

        def join(site: str) -> None:
            self._tell(task, site)
            self._overlay.join(running, site)
            if site in task.early:
                self._receive(task, site)

        self._waiting |= {site: partial(join, site) for site in new.unready}
        for site in later:
            self._messages.call(site, partial(join, site))
        self._end_if_enough()

    def _tell(self, task: StartedTask, site: str) -> None:
        """Let a site hear of a task."""
        new = task.new
        task.told.add(site)
        if task.handed is not None:
            task.handed.told_s[site] = self._agenda.now_s
        if site in new.start.group:
            self._log.join_task(new, site, self._find_iteration(site))
        if site in new.start.passive and site in new.plan.receivers and site in self._workers:
            task.locked.add(site)
            self._workers[site].locks += 1

    def _receive(self, task: StartedTask, site: str) -> None:
        """Let a receiver have the whole result; it uses it when it has heard of the task."""
        if site not in task.told:
            task.early.add(site)
            return
        start, servers = task.new.start, self._scenario.scheme.servers
        task.missing.discard(site)
        task.heard_s = max(task.heard_s, self._messages.find_arrival_s(site))
        self._log.finish(task.new, site, start.merges or site in servers)
        if task.counts and self._hands_out(start) and not self._window.has_stopped:
            self._counts.pull_s.append(self._agenda.now_s - task.begun_s)
        if not task.missing:
            self._end_task(task)
        if site in task.locked:
            self._unlock(site)
        elif site not in start.passive and start.then == "proceed":
            self._finish_round(site, start.batches.get(site), task.handed)

    def _find_iteration(self, site: str) -> int:
        """The iteration that a member contributes; 0 for a server."""
        return self._workers[site].iteration if site in self._workers else 0

    def _hands_out(self, start: Start) -> bool:
        """Whether a task hands out the model of the servers alone."""
        return start.weights.keys() <= set(self._scenario.scheme.servers)

    def _take_offers(self, plan: Plan) -> list[Offer]:
        """The offers of a task's contributors, which the task takes."""
        workers = [self._workers[site] for site in plan.contributors if site in self._workers]
        return [offer for worker in workers if (offer := worker.take_offer()) is not None]

    def _end_task(self, task: StartedTask) -> None:
        new, start, servers = task.new, task.new.start, self._scenario.scheme.servers
        task_s = self._agenda.now_s - task.begun_s
        self._running -= 1
        self._counts.tasks_s += [task_s] if task.counts else []
        in_window = task.counts and not self._window.has_stopped
        if in_window and servers and set(servers).issuperset(start.takers):
            self._counts.push_s += [task_s] * len(start.weights)
            self._counts.pushed_s += [self._agenda.now_s] * len(start.weights)
        changes = start.merges or not start.weights.keys() <= start.passive
        self._counts.updates += in_window and changes
        report = {"duration_s": task.heard_s - task.begun_s}
        ended = Ended(new.number, start.group, True, report=report)
        self._decide(ended, task.heard_s)
        givers = set(start.group) - set(start.takers) - start.passive
        for site in sorted(givers):
            self._log.add(ContributionTaken, site, task=new.number)
            if start.then == "proceed":
                self._finish_round(site, start.batches.get(site))

    def _unlock(self, site: str) -> None:
        worker = self._workers[site]
        worker.locks -= 1
        if not worker.locks and worker.computed is not None:
            iteration, worker.computed = worker.computed, None
            self._on_ready(site, iteration)

    def _end_if_enough(self) -> None:
        tasks = self._driver.started
        if tasks == self._stop.tasks and not self._waiting:
            self._end(Enough(tasks))

    def _update(self) -> None:
        """Let plans use the current rates, and schedule the next update."""
        links, planner = self._overlay.links, self._driver.planner
        if planner.rates.refresh(links.link_rates_mbps()):
            links.set_known_rates(planner.rates.rates_mbps)
            planner.refresh_default()
            known = planner.rates
            rates = list_rates(known.rates_mbps)
            self._log.add(PlansUpdated, CONTROLLER, version=known.version, links=rates)
        if self._is_active():
            self._agenda.call_at(self._agenda.now_s + self._scenario.scheme.update_s, self._update)

    def _is_active(self) -> bool:
        """Whether there are tasks, or may be new ones."""
        may_begin = not self._window.has_stopped and any(
            not worker.has_left for worker in self._workers.values()
        )
        return self._running > 0 or may_begin

    def _finish_round(
        self, site: str, batch: int | None = None, handed: HandOut | None = None
    ) -> None:
        worker = self._workers[site]
        if not self._window.has_stopped and self._window.has_begun:
            self._counts.add_round(worker.batch)
        if batch is not None:
            worker.batch = batch
        worker.iteration += 1
        self._log.add(RoundFinished, site, rounds=worker.iteration)
        self._compute(site, handed)

    def _begin(self) -> None:
        """End the warm-up."""
        self._window.begin_s = self._agenda.now_s

    def _end(self, cause: Ending) -> None:
        if not self._window.has_stopped:
            self._window.stop_s, self._ended = self._agenda.now_s, cause
            self._log.add(Stopping, CONTROLLER, cause=cause)
