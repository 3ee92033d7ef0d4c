"""Plays a policy with workers, servers, tasks and faults at random, and checks what it decides.

Everything follows from the generator that a test gives. Computing, tasks and faults take random
times. A task completes, is given up, or is postponed: then no `Ended` comes. `Ended` may come after
members of the task are ready again. Workers and servers are lost and come back. Another controller
takes over, with the policy's initial state, while tasks run. From `calm_s` on there are no faults.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from trunkline.agents.policies.policy import (
    Compared,
    Ended,
    Exclude,
    Joined,
    Left,
    Lost,
    Proceed,
    Ready,
    Start,
    Tick,
    Traits,
    Wake,
)


@dataclass
class Worker:
    """A worker; `given`: its update of this iteration is in the result of a completed task."""

    iteration: int = 0
    given: bool = False
    is_present: bool = True
    is_waiting: bool = False
    has_left: bool = False
    life: int = 0  # what was planned for an earlier life or wait does not happen
    task: int | None = None  # the task in which it is active
    version: int = 0  # of its model: the pushes that it has


@dataclass
class Task:
    """A task; `early` members have gone on with its result, `lost` ones may have come back."""

    number: int
    start: Start
    began_s: float
    iterations: dict[str, int]
    version: int
    early: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    is_known: bool = True  # to the present controller
    is_over: bool = False
    is_told: bool = False

    @property
    def active(self) -> list[str]:
        return [site for site in self.start.group if site not in self.start.passive]

    @property
    def is_push(self) -> bool:
        return self.start.then == "wait"


@dataclass
class Simulator:
    """One run. `looks` are called with each task at its start, before anything else happens."""

    policy: object
    sites: tuple[str, ...]
    servers: tuple[str, ...]
    rng: random.Random
    rounds: int = 8
    is_faulty: bool = True
    is_exclusive: bool = False  # no site in two tasks
    calm_s: float = 25.0
    looks: tuple[Callable[[Simulator, Task], None], ...] = ()
    now_s: float = 0.0
    started: list[Task] = field(default_factory=list)
    completed: list[Task] = field(default_factory=list)
    proceeded: list[tuple[str, int]] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)
    takeovers: int = 0
    orphans: int = 0  # pushes that lost all their workers
    counted: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self):
        self.workers = {site: Worker() for site in self.sites}
        self.lost_servers: set[str] = set()
        self.left_s = dict.fromkeys(self.sites, math.inf)
        self.state = self.policy.initial
        self.traits = Traits.of(self.policy)
        self.speeds = {site: self.rng.choice((0.3, 1.0, 1.0, 4.0)) for site in self.sites}
        self.version = 0
        self._events: list = []
        self._order = 0
        self._wakes: set[float] = set()

    def play(self) -> Simulator:
        """Play until nothing happens any more; every worker must have done its rounds then."""
        for site in self.sites:
            self._compute(site)
        if self.is_faulty:
            for _ in range(self.rng.randint(0, 12)):
                fault = self.rng.choice((self._lose_worker, self._lose_server, self._take_over))
                self._at(self.rng.uniform(0, self.calm_s), fault)
        events = 0
        while self._events:
            self.now_s, _, act = heapq.heappop(self._events)
            act()
            events += 1
            assert events < 20_000, "the run does not end"
        stranded = [site for site, worker in self.workers.items() if not worker.has_left]
        assert not stranded, f"stranded: {stranded}"
        return self

    # What happens.

    def _compute(self, site):
        if self.workers[site].iteration >= self.rounds or site in self.excluded:
            self._leave(site)
            return
        self._later(site, self.speeds[site] * self.rng.uniform(0.5, 1.5), self._be_ready)

    def _leave(self, site):
        worker = self.workers[site]
        worker.has_left, worker.is_waiting = True, False
        worker.life += 1
        self.left_s[site] = self.now_s
        self._give(Left(site))

    def _be_ready(self, site):
        worker = self.workers[site]
        if site in self.excluded and self.rng.random() < 0.5:  # else it was not told yet
            self._leave(site)
            return
        worker.is_waiting, worker.task = True, None
        self._give(Ready(site, worker.iteration, given=worker.given))

    def _go_on(self, site):
        worker = self.workers[site]
        worker.iteration, worker.given = worker.iteration + 1, False
        worker.is_waiting, worker.task = False, None
        worker.life += 1
        self._compute(site)

    def _lose_worker(self):
        able = [s for s, w in self.workers.items() if w.is_present and not w.has_left]
        if not able:
            return
        site = self.rng.choice(able)
        worker = self.workers[site]
        worker.is_present = worker.is_waiting = False
        worker.life += 1
        for task in self.started:
            if not task.is_told and site in task.active:
                task.lost.add(site)
                self.orphans += task.is_push and task.lost == set(task.active)
        self._give(Lost(site))
        self._at(self.now_s + self.rng.expovariate(0.3), lambda: self._return(site))

    def _return(self, site):
        worker = self.workers[site]
        running = [t for t in self.started if t.number == worker.task and not t.is_over]
        worker.is_present = True
        worker.life += 1
        self._give(Joined(site))
        if not running:
            worker.task = None
            self._later(site, self.rng.uniform(0, 2), self._be_ready)
        elif running[0].start.then == "proceed" and self.rng.random() < 0.5:
            self._be_early(site, running[0])
        # Else it waits for the end of the task.

    def _lose_server(self):
        able = [server for server in self.servers if server not in self.lost_servers]
        if not able:
            return
        server = self.rng.choice(able)
        self.lost_servers.add(server)
        self._give(Lost(server))
        for task in [t for t in self.started if not t.is_over and server in t.start.group]:
            self._at(self.now_s + 0.1, lambda task=task: self._give_up(task))

        def join():
            self.lost_servers.discard(server)
            self._give(Joined(server))

        self._at(self.now_s + self.rng.uniform(0.5, 5), join)

    def _take_over(self):
        self.takeovers += 1
        self.state = self.policy.initial
        self._wakes.clear()
        for task in self.started:
            task.is_known = False
        for site, worker in self.workers.items():
            if worker.has_left:
                self._give(Left(site))
            elif not worker.is_present:
                self._give(Lost(site))
        for server in sorted(self.lost_servers):
            self._give(Lost(server))
        waiting = [site for site in self.sites if self.workers[site].is_waiting]
        for site in self.rng.sample(waiting, len(waiting)):
            self._later(site, self.rng.uniform(0, 0.5), self._be_ready)

    # Tasks.

    def _start(self, start):
        self._check(start)
        active = [site for site in start.group if site not in start.passive]
        if self.is_faulty and self.now_s < self.calm_s and self.rng.random() < 0.05:
            for site in active:  # postponed: the usable links do not connect the group
                self.workers[site].is_waiting = False
                self._later(site, 1.0, self._be_ready)
            return
        workers = [site for site in start.group if site in self.workers]
        iterations = {site: self.workers[site].iteration for site in workers}
        task = Task(len(self.started), start, self.now_s, iterations, self.version)
        for look in self.looks:
            look(self, task)
        self.started.append(task)
        for site in active:
            self.workers[site].is_waiting = False
            self.workers[site].task = task.number
            self.workers[site].life += 1
        end_s = self.now_s + self.rng.uniform(0.1, 2)
        is_given_up = self.is_faulty and self.now_s < self.calm_s and self.rng.random() < 0.1
        self._at(end_s, lambda: (self._give_up if is_given_up else self._complete)(task))
        if start.then == "proceed" and not is_given_up and self.is_faulty:
            for site in self.rng.sample(active, self.rng.randint(0, len(active))):
                self._later(site, self.rng.uniform(0, 2), lambda s: self._be_early(s, task))

    def _be_early(self, site, task):
        """A fast member has the result and goes on. So the task completes, but later."""
        if not task.is_over:
            task.early.add(site)
            self._take_result(site, task)
            self._go_on(site)

    def _staying(self, task):
        """The active members that wait for the end of the task."""
        return [
            site
            for site in task.active
            if self.workers[site].is_present and self.workers[site].task == task.number
        ]

    def _complete(self, task):
        if task.is_over:
            return
        staying = self._staying(task)
        if not (staying or task.early or task.is_push):
            self._give_up(task)
            return
        task.is_over = True
        self.completed.append(task)
        contributors = task.start.weights if task.is_push else {*staying, *task.early}
        self._count(task, [s for s in contributors if s in task.iterations])
        for site in staying:
            if task.is_push:
                self.workers[site].is_waiting, self.workers[site].task = True, None
                if site in task.lost or not task.is_known:  # no policy remembers that it waits
                    self._later(site, self.rng.uniform(0, 0.2), self._be_ready)
            else:
                self._take_result(site, task)
                self._go_on(site)
        self._tell(task, True)

    def _give_up(self, task):
        if task.is_over:
            return
        if task.early:
            self._complete(task)  # a member has the result, so all get it
            return
        staying = self._staying(task)
        task.is_over = True
        self._tell(task, False)
        for site in staying:
            self._later(site, self.rng.uniform(0, 0.3), self._be_ready)

    def _tell(self, task, completed):
        def tell():
            task.is_told = True
            report = {"duration_s": self.now_s - task.began_s}
            self._give(Ended(task.number, task.start.group, completed, report=report))

        if self.is_faulty and self.rng.random() < 0.4:
            late_s = 8.0 if completed and not task.is_push else 0.3
            self._at(self.now_s + self.rng.uniform(0, late_s), tell)
        else:
            tell()

    def _take_result(self, site, task):
        if site in task.start.takers:
            self.workers[site].version = task.version
            if self.traits.compares:
                self._give(Compared(site, self.rng.uniform(-1, 1)))

    def _count(self, task, contributors):
        """Each iteration of a site is in at most one result, if the policy promises it."""
        new = {(site, task.iterations[site]) for site in contributors if site in task.start.weights}
        if "once" in self.traits.promises:
            assert not new & self.counted, f"counted twice: {new & self.counted}"
        self.counted |= new
        self.version += task.is_push
        for site, iteration in new if task.is_push else ():
            if self.workers[site].iteration == iteration:
                self.workers[site].given = True

    # The policy.

    def _give(self, event):
        if isinstance(event, Ended | Tick) and not self.traits.timed:
            return
        event = type(event)(
            **{name: getattr(event, name) for name in event.__slots__ if name != "at_s"},
            at_s=self.now_s,
        )
        self.state, decisions = self.policy.step(self.state, event)
        # Workers that go on may leave at once: first all decisions count, then what follows.
        follow = []
        for decision in decisions:
            match decision:
                case Start():
                    self._start(decision)
                case Proceed(site):
                    worker = self.workers[site]
                    assert worker.is_present and worker.is_waiting, f"{site} does not wait"
                    worker.is_waiting = False
                    self.proceeded.append((site, worker.iteration))
                    follow.append(site)
                case Exclude(site):
                    self.excluded.append(site)
                    if self.workers[site].is_waiting:
                        self._later(site, 0.01, self._leave)
                case Wake(at_s):
                    assert self.traits.timed
                    self._wakes.add(at_s)
                    self._at(max(at_s, self.now_s + 0.001), self._tick)
        for site in follow:
            self._at(self.now_s, lambda site=site: self._go_on(site))

    def _tick(self):
        due = {at_s for at_s in self._wakes if at_s <= self.now_s}
        if due:
            self._wakes -= due
            self._give(Tick())

    def _check(self, start):
        """What must hold of every task."""
        everybody = (*self.sites, *self.servers)
        assert start.group == tuple(site for site in everybody if site in start.group)
        assert len(start.group) > 1
        assert set(start.weights) <= set(start.group)
        assert set(start.takers) <= set(start.group)
        assert start.passive <= set(start.group)
        for site in start.group:
            if site in self.servers:
                assert site in start.passive and site not in self.lost_servers
                continue
            worker = self.workers[site]
            assert worker.is_present and not worker.has_left, f"{site} is not there"
            if site not in start.passive:
                assert worker.is_waiting, f"{site} is not ready"
                busy = [t.number for t in self.started if not t.is_over and t.number == worker.task]
                assert not busy, f"{site} is active in {busy}"
        assert any(site not in start.passive for site in start.group)
        if set(start.group) & set(self.servers):
            assert set(self.servers) <= set(start.group)
        if self.is_exclusive:
            for task in self.started:
                # A task that lost its ready worker ends soon, and a new controller may not know it.
                if task.is_known and not (task.is_over or task.lost):
                    assert not set(task.start.group) & set(start.group), "a site in two tasks"

    # Time.

    def _at(self, at_s, act):
        self._order += 1
        heapq.heappush(self._events, (at_s, self._order, act))

    def _later(self, site, delay_s, act):
        """Something that the site does, unless it is lost or does something else before."""
        life = self.workers[site].life

        def happen():
            worker = self.workers[site]
            if worker.life == life and worker.is_present and not worker.has_left:
                act(site)

        self._at(self.now_s + delay_s, happen)
