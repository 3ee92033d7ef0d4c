"""Simulate a whole run in the fluid model, to predict its rounds and task times (pure).

Policy, plans, compute times and rate errors are those of the run. Links carry chunks as in
`agents.planning.fluid`: without propagation, TCP, or messages of the controller. The timeline may
change the rates of links, and background traffic takes its mean rate. Plans that use measured rates
get exact rates at every update.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from trunkline.agents.control.driver import Action, NewTask
from trunkline.agents.planning.chunks import cut_tensors
from trunkline.agents.planning.fluid.agenda import Agenda
from trunkline.agents.planning.fluid.fluid_links import FluidLinks
from trunkline.agents.planning.fluid.fluid_overlay import FluidOverlay
from trunkline.agents.planning.fluid.fluid_tasks import FluidTask, Offer
from trunkline.agents.planning.plan import Plan
from trunkline.agents.policies.policy import Ended, Exclude, Left, Proceed, Ready, Start
from trunkline.harness.faults.fault_types import Redraw, SetLink, Trace
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.study.fluid_counts import Counts, Expectation, Window
from trunkline.harness.study.fluid_network import ChangingLinks, Messages
from trunkline.harness.study.fluid_steps import HandOut


def predict(scenario: Scenario, delays: bool = False) -> Expectation | None:
    """Predict a run; None if the fluid model cannot.

    With `delays`, every hop of a chunk and every message to and from the controller takes the
    propagation delay of its path. Without, nothing does, as in the papers' models.

    It cannot with faults, with a stop by accuracy alone, with programs, or with a user's own
    workload, whose compute times are not known in advance.
    """
    stop = scenario.stop
    faults = [e for e in scenario.timeline if not isinstance(e.fault, SetLink | Redraw | Trace)]
    faults += [e for e in scenario.timeline if isinstance(e.fault, Trace) and e.fault.has_outages]
    unknown = scenario.runs_programs or scenario.workload.kind in scenario.code
    if faults or unknown:
        return None
    if not (stop.time_s or stop.tasks or stop.rounds):
        return None
    return _Run(scenario, delays).run()


@dataclass(frozen=True, slots=True)
class _Model:
    """The model of a run, and how it is cut into chunks; `branches` are the chunks of each one."""

    model_bytes: int
    chunk_bytes: int
    tensor_bytes: tuple[int, ...]
    branches: tuple[range, ...]

    @classmethod
    def of(cls, scenario: Scenario) -> _Model:
        chunk_bytes, tensor_bytes = scenario.scheme.chunk_bytes, scenario.tensor_bytes
        in_layers = scenario.layers is not None
        branches = cut_tensors(chunk_bytes, tensor_bytes) if in_layers else ()
        return cls(scenario.model_bytes, chunk_bytes, tensor_bytes, branches)

    def make_task(self, plan: Plan) -> FluidTask:
        """A task that moves the model by this plan."""
        sizes = self.model_bytes, self.chunk_bytes
        return FluidTask(plan, *sizes, tensor_bytes=self.tensor_bytes)


@dataclass(slots=True)
class _Worker:
    """A worker.

    Attributes:
        times: how long its iterations take.
        iteration: the iteration that it computes, or computes next.
        batch: the samples in each of its steps; None for the workload's own.
        locks: how many running tasks in which it is passive will replace its model.
        computed: the iteration that it has computed and that waits for these tasks.
        offer: its contribution that is on its way and that no task has taken yet.
        has_left: whether it does no more rounds.
    """

    times: Any
    iteration: int = 0
    batch: int | None = None
    locks: int = 0
    computed: int | None = None
    offer: Offer | None = None
    has_left: bool = False

    @classmethod
    def all_of(cls, scenario: Scenario) -> dict[str, _Worker]:
        """The workers of a scenario by site."""
        workload, workers = scenario.workload, scenario.workers
        times = workload.module.compute_times
        return {
            site: cls(times(rank, workers, scenario.seed, **workload.options))
            for rank, site in enumerate(workers)
        }

    def take_offer(self) -> Offer | None:
        """The offer, if there is one; the worker has none then."""
        offer, self.offer = self.offer, None
        return offer


class _Run:
    """Simulates controller and workers.

    `_running` counts the tasks that run; `_alarm_s` is when the policy ticks next, if it does.
    """

    def __init__(self, scenario: Scenario, delays: bool) -> None:
        topology, scheme = scenario.topology, scenario.scheme
        self._scenario, self._stop = scenario, scenario.whole_stop
        self._model = _Model.of(scenario)
        self._driver = planning.create_driver(scenario)
        self._agenda = Agenda()
        links = FluidLinks(
            self._agenda,
            topology.rates_mbps(),
            topology.overlay.delays_ms() if delays else {},
            scheme.discipline,
            scheme.bounds,
            topology.overlay_paths(),
        )
        self._overlay = FluidOverlay(links)
        self._network = ChangingLinks.of(scenario, links, self._is_active)
        self._messages = Messages.of(scenario, self._agenda) if delays else Messages(self._agenda)
        links.set_known_rates(self._driver.planner.rates.rates_mbps)
        self._workers = _Worker.all_of(scenario)
        self._window = Window(begin_s=None if scenario.warm_up.unit else 0.0)
        self._counts = Counts(scenario.samples)
        self._running = 0
        self._alarm_s: float | None = None

    def run(self) -> Expectation:
        for site in self._workers:
            self._compute(site)
        if self._stop.time_s is not None:
            self._agenda.call_at(self._stop.time_s, self._end)
        if self._scenario.warm_up.time_s is not None:
            self._agenda.call_at(self._scenario.warm_up.time_s, self._begin)
        if self._scenario.scheme.rates != "configured":
            self._agenda.call_at(self._scenario.scheme.update_s, self._update)
        self._agenda.run()
        return self._counts.expect(self._window.length_s, self._scenario.workers)

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
        took_s = worker.times.time_s(iteration, worker.batch)
        end_s = self._agenda.now_s + took_s
        if handed is not None:
            end_s = handed.compute_end(site, worker.times.layers(iteration, worker.batch))
            if window.begin_s is not None and handed.begun_s >= window.begin_s:
                counts.steps_s.append(end_s - handed.begun_s)
                counts.stalls_s.append(counts.steps_s[-1] - took_s)
        self._agenda.call_at(end_s, lambda: self._on_ready(site, iteration))

    def _on_ready(self, site: str, iteration: int) -> None:
        """Let a site be ready, once no task in which it is passive replaces its model."""
        worker = self._workers[site]
        if worker.has_left:
            return
        if worker.locks:
            worker.computed = iteration
            return
        if not self._window.has_stopped and self._overlay.join(site):
            self._end_if_enough()
            return
        default = self._driver.planner.default
        if not self._window.has_stopped and default is not None:
            worker.offer = self._overlay.offer(self._model.make_task(default), site)
        self._decide(Ready(site, iteration), site)

    def _leave(self, site: str) -> None:
        """Let a site do no more rounds."""
        if not self._workers[site].has_left:
            self._workers[site].has_left = True
            self._decide(Left(site), site)

    def _decide(self, event: Ready | Left | Ended, *tellers: str) -> None:
        """Let the policy decide when the controller has heard of the event from these sites."""

        def heard() -> None:
            self._window.heard_s = self._agenda.now_s
            if not self._window.has_stopped:
                self._perform(self._driver.step(event, self._agenda.now_s))

        self._messages.call(tellers, heard)

    def _perform(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case NewTask():
                    if action.count - 1 == self._scenario.warm_up.tasks:
                        self._begin()
                    begins = partial(self._start, action, self._window.has_begun)
                    self._messages.call(action.plan.participants(), begins)
                case Proceed(site, batch):
                    if (offer := self._workers[site].take_offer()) is not None:
                        self._overlay.take_back(offer)
                    self._messages.call((site,), partial(self._finish_round, site, batch))
                case Exclude(site):
                    self._messages.call((site,), partial(self._leave, site))
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

    def _start(self, new: NewTask, counts: bool) -> None:
        """Start a task; `counts` tells whether the warm-up is over."""
        plan, start = new.plan, new.start
        if counts and start.is_symmetric and not start.merges:
            self._counts.groups.append(start.weights)
        begun_s, missing = self._agenda.now_s, set(plan.receivers)
        locked = start.passive.intersection(plan.receivers, self._workers)
        for site in locked:
            self._workers[site].locks += 1
        overlaps = self._model.branches and not start.merges
        handed = HandOut(begun_s, plan, self._model.branches) if overlaps else None

        def arrived(site: str, chunk: int) -> None:
            if handed is not None:
                handed.arrived_s[site][chunk] = self._agenda.now_s

        def received(site: str) -> None:
            missing.discard(site)
            took_s = self._agenda.now_s - begun_s
            if counts and self._hands_out(start) and not self._window.has_stopped:
                self._counts.pull_s.append(took_s)
            if not missing:
                self._end_task(new, counts, took_s)
            if site in locked:
                self._unlock(site)
            elif site not in start.passive and start.then == "proceed":
                self._finish_round(site, start.batches.get(site), handed)

        self._network.start()  # timelines start with the first task
        self._running += 1
        offers = self._take_offers(plan)
        task = self._model.make_task(plan)
        self._overlay.start(task, received, offers, new.unready, arrived)
        self._end_if_enough()

    def _hands_out(self, start: Start) -> bool:
        """Whether a task hands out the model of the servers alone."""
        return start.weights.keys() <= set(self._scenario.scheme.servers)

    def _take_offers(self, plan: Plan) -> list[Offer]:
        """The offers of a task's contributors, which the task takes."""
        workers = [self._workers[site] for site in plan.contributors if site in self._workers]
        return [offer for worker in workers if (offer := worker.take_offer()) is not None]

    def _end_task(self, new: NewTask, counts: bool, task_s: float) -> None:
        start, servers = new.start, self._scenario.scheme.servers
        self._running -= 1
        self._counts.tasks_s += [task_s] if counts else []
        in_window = counts and not self._window.has_stopped
        if in_window and servers and set(servers).issuperset(start.takers):
            self._counts.push_s += [task_s] * len(start.weights)
            self._counts.pushed_s += [self._agenda.now_s] * len(start.weights)
        changes = start.merges or not start.weights.keys() <= start.passive
        self._counts.updates += in_window and changes
        ended = Ended(new.number, start.group, True, report={"duration_s": task_s})
        self._decide(ended, *new.plan.receivers)
        givers = set(start.group) - set(start.takers) - start.passive
        for site in sorted(givers) if start.then == "proceed" else ():
            self._finish_round(site, start.batches.get(site))

    def _unlock(self, site: str) -> None:
        worker = self._workers[site]
        worker.locks -= 1
        if not worker.locks and worker.computed is not None:
            iteration, worker.computed = worker.computed, None
            self._on_ready(site, iteration)

    def _end_if_enough(self) -> None:
        if self._driver.started == self._stop.tasks and not self._overlay.open:
            self._end()

    def _update(self) -> None:
        """Let plans use the current rates, and schedule the next update."""
        links, planner = self._overlay.links, self._driver.planner
        if planner.rates.refresh(links.link_rates_mbps()):
            links.set_known_rates(planner.rates.rates_mbps)
            planner.refresh_default()
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
        self._compute(site, handed)

    def _begin(self) -> None:
        """End the warm-up."""
        self._window.begin_s = self._agenda.now_s

    def _end(self) -> None:
        if not self._window.has_stopped:
            self._window.stop_s = self._agenda.now_s
