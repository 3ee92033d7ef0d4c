"""Blocking against non-blocking scatter of CREW in the fluid model: training rounds in a window.

    python benchmarks/scatter.py --sites 60 --p 5 10 --seeds 3

Rounds as the executor does them, without TCP, delays and the controller's messages: sites compute,
the first p that are ready form a group (`preduce`), every directed link serves one chunk at a time
at its rate, first come first served. Without blocking, a ready site sends by the split for P = N at
once; when its group is known, what is on its way to the right site stays, what has not been sent
and now belongs elsewhere moves to the end of another queue, the rest was in vain. Rates are N2.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agents.plan import Directed, Plan, PlanRequest
from agents.plans import crew
from agents.rearrange import keeping
from topologies.options import draw_n2
from workloads import compute_time


@dataclass(frozen=True, slots=True)
class Setting:
    """One training: `slowest` is how many times longer the last site computes than the first."""

    sites: int
    p: int
    blocking: bool
    model_mb: float
    chunks: int
    compute: str
    factor: float
    slowest: float
    window_s: float
    seed: int


@dataclass(eq=False, slots=True)
class Offer:
    """One site's contribution; `left` are chunks not handed to a link yet, by where they go."""

    site: int
    task: Task | None = None
    left: dict[int, int] = field(default_factory=dict)
    arrived: set[int] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class Task:
    """A group's task: who adds up each chunk, what is awaited there, what members still miss."""

    group: Sequence[int]
    owner: Sequence[int]
    awaited: list[int]
    missing: dict[int, int]


Event = tuple[float, int, str, tuple[int, ...]]


class Training:
    """A run of the fluid model."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        rng = random.Random(setting.seed)
        names = self.names = tuple(f"s{number:02}" for number in range(setting.sites))
        self.rates: dict[Directed, float] = {
            (a, b): draw_n2(rng) for a in names for b in names if a != b
        }
        self.chunk_s = {
            (names.index(a), names.index(b)): setting.model_mb * 8 / setting.chunks / rate
            for (a, b), rate in self.rates.items()
        }
        self.queues: dict[tuple[int, int], deque[tuple[str, Offer | Task, int]]] = {
            ends: deque() for ends in self.chunk_s
        }
        self.serving: dict[tuple[int, int], tuple[str, Offer | Task, int] | None] = dict.fromkeys(
            self.chunk_s
        )
        self.heap: list[Event] = []
        self.count = 0
        self.rounds = [0] * setting.sites
        self.ready: list[int] = []
        self.offers: dict[int, Offer] = {}
        self.waited_s = self.since_s = 0.0
        self.sent = self.vain = 0
        distribution = compute_time.parse(setting.compute)
        share = [number / (setting.sites - 1) for number in range(setting.sites)]
        self.times = [
            compute_time.ComputeTime(
                distribution,
                setting.seed,
                number,
                setting.factor * (1 + (setting.slowest - 1) * share[number]),
            )
            for number in range(setting.sites)
        ]
        self.default = self._plan(crew.build, names)
        self.default_owner = self._owners(self.default)

    def run(self) -> float:
        """Mean rounds per site in the window."""
        for site in range(self.setting.sites):
            self._compute(0.0, site)
        while self.heap and self.heap[0][0] <= self.setting.window_s:
            now, _, what, where = heapq.heappop(self.heap)
            if what == "ready":
                self._ready(now, where[0])
            else:
                self._served(now, (where[0], where[1]))
        return statistics.mean(self.rounds)

    def _compute(self, now: float, site: int) -> None:
        self._at(now + self.times[site].time_s(self.rounds[site]), "ready", (site,))

    def _ready(self, now: float, site: int) -> None:
        offer = self.offers[site] = Offer(site)
        self.ready.append(site)
        self.waited_s -= now
        if not self.setting.blocking:
            self._offer(now, offer, self.default_owner, range(self.setting.chunks))
        if len(self.ready) == self.setting.p:
            group, self.ready = self.ready, []
            self.waited_s += now * len(group)
            self._start(now, group)

    def _offer(self, now: float, offer: Offer, owner: Sequence[int], chunks: Sequence[int]) -> None:
        for chunk in chunks:
            if owner[chunk] != offer.site:
                offer.left[chunk] = owner[chunk]
                self._push(now, (offer.site, owner[chunk]), ("in", offer, chunk))

    def _start(self, now: float, group: Sequence[int]) -> None:
        chunks = self.setting.chunks
        fresh = self._plan(crew.build, tuple(self.names[site] for site in sorted(group)))
        owner = self._owners(fresh if self.setting.blocking else keeping(self.default, fresh))
        task = Task(group, owner, [len(group)] * chunks, dict.fromkeys(group, chunks))
        for site in group:
            offer = self.offers[site]
            offer.task = task
            moved = []
            for chunk in range(chunks):
                right = not self.setting.blocking and owner[chunk] == self.default_owner[chunk]
                if owner[chunk] == site:
                    self._cancel(offer, chunk)
                    self._added(now, task, chunk)
                elif not right:
                    self._cancel(offer, chunk)
                    moved.append(chunk)
                elif chunk in offer.arrived:
                    self._added(now, task, chunk)
            self._offer(now, offer, owner, moved)

    def _cancel(self, offer: Offer, chunk: int) -> None:
        """Take a chunk back; what has gone to another site already was in vain."""
        if not self.setting.blocking and offer.left.pop(chunk, None) is None:
            self.vain += self.default_owner[chunk] != offer.site

    def _added(self, now: float, task: Task, chunk: int) -> None:
        task.awaited[chunk] -= 1
        if task.awaited[chunk]:
            return
        owner = task.owner[chunk]
        for site in task.group:
            if site == owner:
                self._delivered(now, task, site)
            else:
                self._push(now, (owner, site), ("out", task, chunk))

    def _delivered(self, now: float, task: Task, site: int) -> None:
        task.missing[site] -= 1
        if not task.missing[site]:
            self.rounds[site] += 1
            self._compute(now, site)

    def _push(
        self, now: float, ends: tuple[int, int], frame: tuple[str, Offer | Task, int]
    ) -> None:
        self.queues[ends].append(frame)
        if self.serving[ends] is None:
            self._serve(now, ends)

    def _serve(self, now: float, ends: tuple[int, int]) -> None:
        queue = self.queues[ends]
        while queue:
            kind, whose, chunk = frame = queue.popleft()
            if isinstance(whose, Offer) and whose.left.get(chunk) != ends[1]:
                continue  # taken back
            if isinstance(whose, Offer):
                del whose.left[chunk]
            self.serving[ends] = frame
            self.sent += 1
            self._at(now + self.chunk_s[ends], kind, ends)
            return
        self.serving[ends] = None

    def _served(self, now: float, ends: tuple[int, int]) -> None:
        frame = self.serving[ends]
        assert frame is not None
        _, whose, chunk = frame
        if isinstance(whose, Task):
            self._delivered(now, whose, ends[1])
        elif whose.task is None:
            whose.arrived.add(chunk)
        elif whose.task.owner[chunk] == ends[1]:
            self._added(now, whose.task, chunk)
        self._serve(now, ends)

    def _at(self, time_s: float, what: str, where: tuple[int, ...]) -> None:
        self.count += 1
        heapq.heappush(self.heap, (time_s, self.count, what, where))

    def _plan(self, build: Callable[[PlanRequest], Plan], group: tuple[str, ...]) -> Plan:
        chance = random.Random(0)
        return build(PlanRequest(group, self.names, self.rates, {}, self.setting.chunks, chance))

    def _owners(self, plan: Plan) -> list[int]:
        owners = [0] * self.setting.chunks
        for block in plan.blocks:
            for chunk in block.indexes():
                owners[chunk] = self.names.index(block.aggregator)
        return owners


def main() -> None:
    """Print one line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=60)
    parser.add_argument("--p", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--model-mb", type=float, nargs="+", default=[180.0])
    parser.add_argument("--chunks", type=int, default=600)
    parser.add_argument("--compute", default="t1", help="t1 or t2")
    parser.add_argument("--factor", type=float, nargs="+", default=[1.0], help="of compute times")
    parser.add_argument("--slowest", type=float, nargs="+", default=[1.0])
    parser.add_argument("--window-s", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    line = "{:>3} {:>6} {:>6} {:>7} {:>8} {:>12} {:>6} {:>11} {:>10}\n"
    titles = ("p", "MB", "factor", "slowest", "blocking", "non-blocking", "ratio")
    sys.stdout.write(line.format(*titles, "waiting, %", "in vain, %"))
    for p in given.p:
        for model_mb in given.model_mb:
            for factor in given.factor:
                for slowest in given.slowest:
                    found = []
                    for seed in range(1, given.seeds + 1):
                        pair = [
                            Training(
                                Setting(
                                    given.sites, p, blocking, model_mb, given.chunks,
                                    given.compute, factor, slowest, given.window_s, seed,
                                )
                            )
                            for blocking in (True, False)
                        ]  # fmt: skip
                        found.append((*(each.run() for each in pair), *pair))
                    before, after = (statistics.mean(row[i] for row in found) for i in (0, 1))
                    waiting = statistics.mean(
                        (row[2].waited_s + len(row[2].ready) * given.window_s)
                        / (given.sites * given.window_s)
                        for row in found
                    )
                    vain = sum(row[3].vain for row in found) / sum(row[3].sent for row in found)
                    texts = (p, f"{model_mb:g}", f"{factor:g}", f"{slowest:g}", f"{before:.1f}")
                    ratio = f"{after / before:.3f}"
                    shares = f"{100 * waiting:.1f}", f"{100 * vain:.1f}"
                    sys.stdout.write(line.format(*texts, f"{after:.1f}", ratio, *shares))
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
