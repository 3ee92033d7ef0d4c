"""What a run of the protocol's model is about, drawn at random, and the agents of the run."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from overlays import ladder, mesh

from trunkline.agents import registry
from trunkline.agents.control.controller import Controller
from trunkline.agents.planning.plan import send_on_whole
from trunkline.agents.plans import crew
from trunkline.agents.site.worker import Worker
from trunkline.agents.wire.agent_settings import ControllerSettings, WorkerSettings
from trunkline.agents.wire.failover import Failover

CHUNK_BYTES = 1024
FAILOVER = Failover(beat_s=1.0, timeout_s=2.0, replans=1)
CONTROLLERS = ("controller", "backup")


@dataclass(frozen=True)
class Setting:
    """What one run of the model is about; drawn from the seed unless a test gives it."""

    sites: tuple[str, ...]
    rates: dict[tuple[str, str], float]
    plan: str
    policy: Any
    elements: int
    whole: bool
    early: bool
    backup: bool
    rounds: int | None
    task_s: float
    faults: int
    steps: int
    pipelined: bool = True

    @staticmethod
    def draw(rng: random.Random) -> Setting:
        sites = tuple(f"s{rank}" for rank in range(rng.choice((2, 3, 3, 4))))
        policies = registry.policies()
        everyone = policies["bsp"].create(sites, barrier=rng.random() < 0.7)
        weights = rng.choice(("constant", "dynamic"))
        some = policies["preduce"].create(sites, p=rng.randint(2, len(sites)), weights=weights)
        plan = rng.choice(("crew", "crew", "ring", "ring", "fapt", "a2a", "ps"))
        chunks = rng.randint(1, 4)
        return Setting(
            sites=sites,
            rates=ladder(sites) if len(sites) == 4 and rng.random() < 0.5 else mesh(sites, 1.0),
            plan=plan,
            policy=rng.choice((everyone, some)),
            elements=256 * chunks - rng.choice((0, 100)),
            whole=rng.random() < 0.5,
            early=plan == "crew" and rng.random() < 0.4,
            backup=rng.random() < 0.5,
            rounds=rng.choice((1, 2, 4, 6, None)),
            task_s=rng.choice((6.0, 60.0, 60.0)),
            faults=rng.choice((0, 2, 4, 6, 8, 10)),
            steps=rng.choice((200, 400, 600)),
        )


@dataclass
class Numbers:
    """A workload of small whole numbers, whose sums are exact, or of random floats."""

    rank: int
    elements: int
    whole: bool
    durations: Callable[[], float]

    def __post_init__(self):
        self.model = np.zeros(self.elements, np.float32)

    def compute(self, iteration):
        self.model[:] = contribution(self.rank, iteration, self.elements, self.whole)
        return self.durations()

    def contribution(self):
        return self.model

    def install(self, result):
        self.model[:] = result

    def evaluate(self):
        return None


@functools.cache
def contribution(rank: int, iteration: int, elements: int, whole: bool) -> np.ndarray:
    rng = np.random.default_rng([rank, iteration])
    drawn = rng.integers(1, 255, elements) if whole else rng.random(elements)
    return drawn.astype(np.float32)


class Now:
    def now_ns(self):
        return round(asyncio.get_running_loop().time() * 1e9)

    async def compute(self, work):
        await asyncio.sleep(work())


@dataclass(frozen=True)
class Past:
    """What a worker that is started again knows of the one before."""

    lives: int
    first_iteration: int


def make_worker(setting, site, controllers, past, durations, log, reach) -> Worker:
    settings = WorkerSettings(
        site=site,
        sites=setting.sites,
        chunk_bytes=CHUNK_BYTES,
        rounds=setting.rounds,
        neighbours=tuple(b for a, b in setting.rates if a == site),
        controllers=controllers,
        failover=FAILOVER,
        first_iteration=past.first_iteration,
        lives=past.lives,
    )
    rank = setting.sites.index(site)
    numbers = Numbers(rank, setting.elements, setting.whole, durations)
    return Worker(settings, numbers, Now(), log, reach)


def make_controller(setting, name, log, next_task) -> Controller:
    settings = ControllerSettings(
        sites=setting.sites,
        rates_mbps=setting.rates,
        delays_ms=dict.fromkeys(setting.rates, 10.0),
        model_bytes=setting.elements * 4,
        chunk_bytes=CHUNK_BYTES,
        seed=7,
        policy_name="policy",
        plan_name=setting.plan,
        task_s=setting.task_s,
        failover=FAILOVER,
        rank=CONTROLLERS.index(name),
        next_task=next_task,
    )
    build = registry.plans()[setting.plan].build
    if not setting.pipelined:
        build = send_on_whole(build)
    default = crew.default if setting.early else None
    return Controller(settings, setting.policy, build, Now().now_ns, log, default)
