"""A whole run in the fluid model: how many rounds the workers of a scenario would do (pure).

Policy, plans, compute times and rate errors are the run's own; links carry chunks as
`agents.fluid` says, without propagation, TCP, or messages to and from the controller.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agents import registry
from agents.fluid import Job, Offer, Overlay
from agents.plan import Plan, PlanRequest
from agents.policy import Event, Left, Ready, Release, Start
from harness import planning
from harness.scenario import Scenario
from workloads import compute_time, kinds


@dataclass(frozen=True, slots=True)
class Expectation:
    """What comes of a run: the mean time of its tasks, and the rounds of an average worker.

    The rounds are those until the end of the window: when the run was told to stop.
    """

    task_s: float
    rounds: float
    window_s: float


def of(scenario: Scenario) -> Expectation | None:
    """The fluid model's run; None where it knows nothing of what happens.

    That is with a timeline, or where only the accuracy ends the run, or where sites run programs.
    """
    stop = scenario.stop
    if scenario.timeline or scenario.runs_programs:
        return None
    if not (stop.time_s or stop.tasks or stop.rounds):
        return None
    return _Run(scenario).run()


class _Run:
    """Controller and workers without processes; `_until_s` is set when the run is told to stop."""

    def __init__(self, scenario: Scenario) -> None:
        topology, scheme, workload = scenario.topology, scenario.scheme, scenario.workload
        options = workload.options
        self._sites = topology.site_names
        self._seed = scenario.seed
        self._stop = scenario.stop
        self._chunk_bytes = scheme.chunk_bytes
        self._model_bytes = kinds()[workload.kind].model_bytes(**options)
        self._delays_ms = topology.delays_ms()
        self._chunk_count = -(-self._model_bytes // self._chunk_bytes)
        self._known_mbps = planning.known_rates_mbps(scenario)
        self._overlay = Overlay(topology.rates_mbps(), {}, scheme.discipline)
        policy = registry.policies()[scheme.policy.kind]
        self._policy = policy.create(self._sites, **scheme.policy.options)
        self._state: Any = self._policy.initial
        self._build, self._default = planning.builder(scenario, self._known_mbps, self._chunk_count)
        self._offers: dict[str, Offer] = {}
        self._times = {
            site: compute_time.for_site(
                rank,
                self._sites,
                scenario.seed,
                options["compute_s"],
                options["compute_factor"],
                options["slowdown"],
            )
            for rank, site in enumerate(self._sites)
        }
        self._iterations: Counter[str] = Counter()
        self._tasks_s: list[float] = []
        self._started = 0
        self._until_s: float | None = None
        self._rounds = 0

    def run(self) -> Expectation:
        for site in self._sites:
            self._compute(site)
        if self._stop.time_s is not None:
            self._overlay.at(self._stop.time_s, self._end)
        self._overlay.run()
        window_s = self._overlay.now_s if self._until_s is None else self._until_s
        task_s = fmean(self._tasks_s) if self._tasks_s else float("nan")
        return Expectation(task_s, self._rounds / len(self._sites), window_s)

    def _compute(self, site: str) -> None:
        iteration = self._iterations[site]
        if self._until_s is not None:
            return
        if iteration == self._stop.rounds:
            self._decide(Left(site))
            return
        done_s = self._overlay.now_s + self._times[site].time_s(iteration)
        self._overlay.at(done_s, lambda: self._ready(site, iteration))

    def _ready(self, site: str, iteration: int) -> None:
        if self._until_s is None and self._default:
            self._offers[site] = self._overlay.offer(self._job(self._default), site)
        self._decide(Ready(site, iteration))

    def _decide(self, event: Event) -> None:
        if self._until_s is not None:
            return
        self._state, decisions = self._policy.step(self._state, event)
        for decision in decisions:
            match decision:
                case Start():
                    self._start(decision)
                case Release(site):
                    if site in self._offers:
                        self._overlay.take_back(self._offers.pop(site))
                    self._round(site)

    def _start(self, start: Start) -> None:
        plan = self._build(
            PlanRequest(
                start.group,
                self._sites,
                self._known_mbps,
                self._delays_ms,
                self._chunk_count,
                random.Random(f"{self._seed} {self._started}"),
            )
        )
        begun_s, missing = self._overlay.now_s, set(plan.receivers)

        def received(site: str) -> None:
            missing.discard(site)
            if not missing:
                self._tasks_s.append(self._overlay.now_s - begun_s)
            self._round(site)

        self._started += 1
        offers = [self._offers.pop(site) for site in plan.contributors if site in self._offers]
        self._overlay.start(self._job(plan), received, offers)
        if self._started == self._stop.tasks:
            self._end()

    def _job(self, plan: Plan) -> Job:
        return Job(plan, self._model_bytes, self._chunk_bytes)

    def _round(self, site: str) -> None:
        self._iterations[site] += 1
        self._rounds += self._until_s is None
        self._compute(site)

    def _end(self) -> None:
        if self._until_s is None:
            self._until_s = self._overlay.now_s
