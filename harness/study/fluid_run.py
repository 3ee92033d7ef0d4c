"""Simulate a whole run in the fluid model, to predict its rounds and task times (pure).

Policy, plans, compute times and rate errors are those of the run. Links carry chunks as in
`agents.planning.fluid`: without propagation, TCP, or messages of the controller. The timeline may
change the rates of links, and background traffic takes its mean rate. Plans that use measured rates
get exact rates at every update.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from trunkline.agents.control.driver import Action, NewTask
from trunkline.agents.planning.chunks import cut_tensors
from trunkline.agents.planning.fluid import FluidOverlay, FluidTask, Offer
from trunkline.agents.planning.plan import Plan
from trunkline.agents.policies.policy import Ended, Exclude, Left, Proceed, Ready
from trunkline.harness.background.flows import leave_rates, list_flows
from trunkline.harness.faults.fault_types import Redraw, SetLink, Trace
from trunkline.harness.faults.timeline import LinkStep, Timeline
from trunkline.harness.report import mixing
from trunkline.harness.report.updates import update_tables
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.study.fluid_steps import HandOut


@dataclass(frozen=True, slots=True)
class Expectation:
    """The predicted mean task time, mean rounds per worker, window and groups of a run.

    The window ends when the run is told to stop; only rounds in it count. `update_s` is the window
    over the number of updates (`harness.record.history.Task.updates`). `rho` says how slowly the
    groups mix models (`harness.report.mixing`). `push_s` and `pull_s` are the mean times of workers
    until all servers have their update, and until they have the servers' model; `zero_gaps_percent`
    is the share of gaps of zero between updates, as in `tables/run.csv`. `step_s` and
    `stall_percent` are those of iterations that are computed while their parameters arrive, as in
    `tables/run.csv`. `samples_per_s` is NaN for workloads without a batch.
    """

    task_s: float
    rounds: float
    window_s: float
    update_s: float
    rho: float
    push_s: float
    pull_s: float
    zero_gaps_percent: float
    step_s: float
    stall_percent: float
    samples_per_s: float


def predict(scenario: Scenario, delays: bool = False) -> Expectation | None:
    """Predict a run; None if the fluid model cannot.

    With `delays`, every hop of a chunk and every message to and from the controller takes the
    propagation delay of its path. Without, nothing does, as in the papers' models.

    It cannot with faults, with a stop by accuracy alone, with programs, or with a user's own
    workload, whose compute times are not known in advance.
    """
    stop = scenario.stop
    faults = [e for e in scenario.timeline if not isinstance(e.fault, SetLink | Redraw | Trace)]
    unknown = scenario.runs_programs or scenario.workload.kind in scenario.code
    if faults or unknown:
        return None
    if not (stop.time_s or stop.tasks or stop.rounds):
        return None
    return _Run(scenario, delays).run()


class _Run:
    """Simulates controller and workers; `_until_s` is set when the run is told to stop."""

    def __init__(self, scenario: Scenario, delays: bool) -> None:
        topology, scheme = scenario.topology, scenario.scheme
        options = scenario.workload.options
        self._topology, self._sites = topology, topology.site_names
        self._stop, self._warm_up = scenario.whole_stop, scenario.warm_up
        self._begin_s: float | None = None if self._warm_up.unit else 0.0
        self._started = 0
        self._chunk_bytes = scheme.chunk_bytes
        self._model_bytes = scenario.model_bytes
        self._tensor_bytes = scenario.tensor_bytes
        self._driver = planning.create_driver(scenario)
        self._known = self._driver.planner.rates
        self._update_s = scheme.update_s if scheme.rates != "configured" else None
        self._timeline = Timeline(topology, scenario.timeline, scenario.seed)
        paths = topology.overlay_paths()
        self._overlay = FluidOverlay(
            topology.rates_mbps(),
            topology.overlay.delays_ms() if delays else {},
            scheme.discipline,
            scheme.bounds,
            paths,
        )
        self._flows = list_flows(scenario.background)
        self._rates_mbps = topology.rates_mbps()
        self._leave_rates()
        for t_s in {
            t for flow in self._flows for t in (flow.entry.start_s, flow.entry.stop_s) if t
        }:
            self._overlay.call_at(t_s, self._leave_rates)
        self._control_s = dict.fromkeys(self._sites, 0.0)
        if delays:
            centre = scenario.controller_site
            for site in self._sites:
                self._control_s[site] = topology.path_delay_ms(centre, site) / 1e3
        self._has_begun = False
        self._overlay.set_known_rates(self._known.rates_mbps)
        self._offers: dict[str, Offer] = {}
        self._workers = scenario.workers
        self._times = {
            site: scenario.workload.module.compute_times(
                rank, self._workers, scenario.seed, **options
            )
            for rank, site in enumerate(self._workers)
        }
        self._batches: dict[str, int] = {}
        self._locks: Counter[str] = Counter()
        self._computed: dict[str, int] = {}
        self._iterations: Counter[str] = Counter()
        self._tasks_s: list[float] = []
        self._servers = frozenset(scheme.servers)
        self._branches: tuple[range, ...] = ()
        if scenario.layers is not None:
            self._branches = cut_tensors(scheme.chunk_bytes, scenario.tensor_bytes)
        self._steps_s: list[float] = []
        self._stalls_s: list[float] = []
        self._push_s: list[float] = []
        self._pull_s: list[float] = []
        self._pushed_s: list[float] = []
        self._updates = 0
        self._groups: list[Mapping[str, float]] = []
        self._running = 0
        self._working = set(self._workers)
        self._alarm_s: float | None = None
        self._until_s: float | None = None
        self._heard_s = 0.0  # the run ends then, even if links change later
        self._rounds = 0
        self._samples_of, self._samples = scenario.samples, 0

    def run(self) -> Expectation:
        for site in self._workers:
            self._compute(site)
        if self._stop.time_s is not None:
            self._overlay.call_at(self._stop.time_s, self._end)
        if self._warm_up.time_s is not None:
            self._overlay.call_at(self._warm_up.time_s, self._begin)
        if self._update_s is not None:
            self._overlay.call_at(self._update_s, self._update)
        self._overlay.run()
        end_s = self._heard_s if self._until_s is None else self._until_s
        window_s = end_s - (end_s if self._begin_s is None else self._begin_s)
        stalled_s, stepped_s = sum(self._stalls_s), sum(self._steps_s)
        return Expectation(
            task_s=_mean(self._tasks_s),
            rounds=self._rounds / len(self._workers),
            window_s=window_s,
            update_s=window_s / self._updates if self._updates else math.nan,
            rho=mixing.compute_rho(self._groups, self._workers),
            push_s=_mean(self._push_s),
            pull_s=_mean(self._pull_s),
            zero_gaps_percent=update_tables.compute_zero_share(np.diff(self._pushed_s)),
            step_s=_mean(self._steps_s),
            stall_percent=100 * stalled_s / stepped_s if self._steps_s else math.nan,
            samples_per_s=self._samples / window_s if self._samples_of and window_s else math.nan,
        )

    def _compute(self, site: str, handed: HandOut | None = None) -> None:
        """Let a site compute; `handed` brings the parameters, and they begin when they arrive."""
        iteration = self._iterations[site]
        if self._until_s is not None:
            return
        if iteration == self._stop.rounds:
            self._leave(site)
        if site not in self._working:
            return
        times, batch = self._times[site], self._batches.get(site)
        took_s = times.time_s(iteration, batch)
        end_s = self._overlay.now_s + took_s
        if handed is not None:
            end_s = handed.compute_end(site, times.layers(iteration, batch))
            if self._begin_s is not None and handed.begun_s >= self._begin_s:
                self._steps_s.append(end_s - handed.begun_s)
                self._stalls_s.append(self._steps_s[-1] - took_s)
        self._overlay.call_at(end_s, lambda: self._on_ready(site, iteration))

    def _on_ready(self, site: str, iteration: int) -> None:
        """Let a site be ready, once no task in which it is passive replaces its model."""
        if site not in self._working:
            return
        if self._locks[site]:
            self._computed[site] = iteration
            return
        if self._until_s is None and self._overlay.join(site):
            self._end_if_enough()
            return
        default = self._driver.planner.default
        if self._until_s is None and default is not None:
            self._offers[site] = self._overlay.offer(self._make_task(default), site)
        self._decide(Ready(site, iteration), site)

    def _leave(self, site: str) -> None:
        """Let a site do no more rounds."""
        if site in self._working:
            self._working.discard(site)
            self._decide(Left(site), site)

    def _decide(self, event: Ready | Left | Ended, *tellers: str) -> None:
        """Let the policy decide when the controller has heard of the event from these sites."""

        def heard() -> None:
            self._heard_s = self._overlay.now_s
            if self._until_s is None:
                self._perform(self._driver.step(event, self._overlay.now_s))

        self._later(tellers, heard)

    def _later(self, sites: Iterable[str], what: Callable[[], None]) -> None:
        """Do something once messages between the controller and these sites have arrived."""
        wait_s = max((self._control_s[site] for site in sites), default=0.0)
        if wait_s:
            self._overlay.call_at(self._overlay.now_s + wait_s, what)
        else:
            what()

    def _perform(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case NewTask():
                    if self._started == self._warm_up.tasks:
                        self._begin()
                    self._started += 1
                    begins = partial(self._start, action, self._begin_s is not None)
                    self._later(action.plan.participants(), begins)
                case Proceed(site, batch):
                    if site in self._offers:
                        self._overlay.take_back(self._offers.pop(site))
                    self._later((site,), partial(self._finish_round, site, batch))
                case Exclude(site):
                    self._later((site,), partial(self._leave, site))
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Let the policy tick when it wants to, and no more after the last round."""
        wake_s = self._driver.wake_s if self._is_active else None
        if wake_s == self._alarm_s:
            return
        if self._alarm_s is not None:
            self._overlay.cancel(self._tick)
        if wake_s is not None:
            self._overlay.call_at(wake_s, self._tick)
        self._alarm_s = wake_s

    def _tick(self) -> None:
        self._alarm_s = None
        if self._until_s is None:
            self._perform(self._driver.tick(self._overlay.now_s))

    def _start(self, new: NewTask, counts: bool) -> None:
        """Start a task; `counts` tells whether the warm-up is over."""
        plan, start = new.plan, new.start
        if counts and start.is_symmetric and not start.merges:
            self._groups.append(start.weights)
        begun_s, missing = self._overlay.now_s, set(plan.receivers)
        locked = start.passive.intersection(plan.receivers, self._workers)
        self._locks.update(locked)
        overlaps = self._branches and not start.merges
        handed = HandOut(begun_s, plan, self._branches) if overlaps else None

        def arrived(site: str, chunk: int) -> None:
            if handed is not None:
                handed.arrived_s[site][chunk] = self._overlay.now_s

        def received(site: str) -> None:
            missing.discard(site)
            if counts and start.weights.keys() <= self._servers and self._until_s is None:
                self._pull_s.append(self._overlay.now_s - begun_s)
            if not missing:
                self._end_task(new, counts, self._overlay.now_s - begun_s)
            if site in locked:
                self._unlock(site)
            elif site not in start.passive and start.then == "proceed":
                self._finish_round(site, start.batches.get(site), handed)

        if not self._has_begun:  # timelines start with the first task
            self._has_begun = True
            self._change_links(begun_s)
        self._running += 1
        offers = [self._offers.pop(site) for site in plan.contributors if site in self._offers]
        self._overlay.start(self._make_task(plan), received, offers, new.unready, arrived)
        self._end_if_enough()

    def _end_task(self, new: NewTask, counts: bool, task_s: float) -> None:
        self._running -= 1
        self._tasks_s += [task_s] if counts else []
        in_window = counts and self._until_s is None
        if in_window and self._servers and self._servers.issuperset(new.start.takers):
            self._push_s += [task_s] * len(new.start.weights)
            self._pushed_s += [self._overlay.now_s] * len(new.start.weights)
        changes = new.start.merges or not new.start.weights.keys() <= new.start.passive
        self._updates += in_window and changes
        ended = Ended(new.number, new.start.group, True, report={"duration_s": task_s})
        self._decide(ended, *new.plan.receivers)
        givers = set(new.start.group) - set(new.start.takers) - new.start.passive
        for site in sorted(givers) if new.start.then == "proceed" else ():
            self._finish_round(site, new.start.batches.get(site))

    def _unlock(self, site: str) -> None:
        self._locks[site] -= 1
        if not self._locks[site] and site in self._computed:
            self._on_ready(site, self._computed.pop(site))

    def _end_if_enough(self) -> None:
        if self._driver.started == self._stop.tasks and not self._overlay.open:
            self._end()

    def _change_links(self, start_s: float) -> None:
        """Apply all changes of the timeline up to now, and schedule the next one.

        `start_s` is when the timeline started.
        """
        now_ns = round((self._overlay.now_s - start_s) * 1e9)
        steps = [step for step in self._timeline.advance(now_ns) if isinstance(step, LinkStep)]
        changed = {(step.after.src, step.after.dst): step.after.rate_mbps for step in steps}
        self._rates_mbps |= changed
        self._leave_rates()
        next_ns = self._timeline.next_ns
        if next_ns is not None and self._is_active:
            self._overlay.call_at(start_s + next_ns / 1e9, lambda: self._change_links(start_s))

    def _leave_rates(self) -> None:
        """Leave each flow of background traffic that is active now its mean rate."""
        active = [flow for flow in self._flows if flow.is_active(self._overlay.now_s)]
        self._overlay.rates_mbps = leave_rates(self._rates_mbps, self._topology, active)

    def _update(self) -> None:
        """Take over the current rates, and schedule the next update."""
        assert self._update_s is not None
        if self._known.refresh(self._overlay.link_rates_mbps()):
            self._overlay.set_known_rates(self._known.rates_mbps)
            self._driver.planner.refresh_default()
        if self._is_active:
            self._overlay.call_at(self._overlay.now_s + self._update_s, self._update)

    @property
    def _is_active(self) -> bool:
        """Whether there are tasks, or may be new ones."""
        return bool(self._running or (self._until_s is None and self._working))

    def _make_task(self, plan: Plan) -> FluidTask:
        sizes = self._model_bytes, self._chunk_bytes
        return FluidTask(plan, *sizes, tensor_bytes=self._tensor_bytes)

    def _finish_round(
        self, site: str, batch: int | None = None, handed: HandOut | None = None
    ) -> None:
        if self._until_s is None and self._begin_s is not None:
            self._rounds += 1
            self._samples += self._samples_of(self._batches.get(site)) if self._samples_of else 0
        if batch is not None:
            self._batches[site] = batch
        self._iterations[site] += 1
        self._compute(site, handed)

    def _begin(self) -> None:
        """End the warm-up."""
        self._begin_s = self._overlay.now_s

    def _end(self) -> None:
        if self._until_s is None:
            self._until_s = self._overlay.now_s


def _mean(values: list[float]) -> float:
    return fmean(values) if values else math.nan
