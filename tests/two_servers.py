"""A run of two servers and two workers, written down by hand, with real vectors.

The controller is at oslo. oslo and rome hold one half of the model each. kyiv and bern push an
update of iteration 0 (tasks 0 and 1), which the servers merge with a momentum of 0.5, and pull the
model (tasks 2 and 3).

In a second run no site uses the servers: kyiv and bern add up their updates. In task 0, bern still
computes.
"""

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from hand_made import make_scenario

from trunkline.agents.events import event_reading
from trunkline.agents.events.causes import RoundsDone
from trunkline.agents.policies.policy import Traits
from trunkline.harness.checks.model_replay import Source, replay
from trunkline.harness.checks.rules import Rules
from trunkline.harness.record.history import History
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology
from trunkline.workloads.base import Vector, digest, fingerprint

Line = dict[str, Any]

SERVERS, WORKERS = ("oslo", "rome"), ("kyiv", "bern")
SITES = (*SERVERS, *WORKERS)
ELEMENTS, CHUNK_BYTES = 8, 8
SHARDS = {"oslo": [[0, 2]], "rome": [[2, 4]]}
HALVES = {"oslo": slice(0, 4), "rome": slice(4, 8)}
TOPOLOGY = Topology(
    "two",
    tuple(Site(name) for name in SITES),
    tuple(Link(a, b, 8.0, 10.0) for a in SITES for b in SITES if a != b),
)
MOMENTUM, SCALE = 0.5, 0.5

ROUNDS_DONE = asdict(RoundsDone(within_reach=False, excluded=False))


def pattern(site: str, iteration: int) -> Vector:
    return np.arange(1, ELEMENTS + 1, dtype=np.float32) + 10 * WORKERS.index(site) + iteration


def describe(vector: Vector) -> tuple[str, tuple[float, ...]]:
    return digest(vector), fingerprint(vector, CHUNK_BYTES)


SOURCE = Source(ELEMENTS, pattern, describe, lambda weights: True, WORKERS, gives_updates=True)
RULES = Rules(
    make_scenario(TOPOLOGY, task_s=2.0, servers=SERVERS),
    traits=Traits(gives="update"),
    replay=lambda history: replay(history, SOURCE),
)


def _described(vector: Vector) -> Line:
    return dict(zip(("digest", "fingerprint"), describe(vector), strict=True))


def make_log() -> list[Line]:
    """The good log."""
    run = _Run()
    for site in SERVERS:
        run.say(1, site, "server_began", **_described(run.models[site]))
    for worker in WORKERS:
        run.compute(worker)
    run.push(0, "kyiv", 210, 300)
    run.push(1, "bern", 280, 350)
    run.pull(2, "kyiv", 320, 400)
    run.pull(3, "bern", 370, 450)
    run.say(450, "controller", "stopping", cause=ROUNDS_DONE)
    run.say(480, "runner", "run_finished", cause=ROUNDS_DONE, links=[])
    return sorted(run.log, key=lambda line: line["t_ns"])


class _Run:
    def __init__(self) -> None:
        self.log: list[Line] = []
        self.models = {site: np.zeros(ELEMENTS, np.float32) for site in SITES}
        self.steps: dict[str, Vector] = {}
        self.versions = dict.fromkeys(SITES, 0)

    def say(self, t_ms: float, site: str, event: str, **values: Any) -> None:
        self.log.append({"t_ns": int(t_ms * 1e6), "site": site, "event": event, **values})

    def compute(self, site: str) -> None:
        self.say(100, site, "compute_started", iteration=0)
        self.say(190, site, "compute_finished", iteration=0)
        self.say(190, site, "ready", iteration=0)

    def start(
        self, task: int, t_ms: int, worker: str, weights: Line, blocks: list[Line], roles: Line
    ) -> None:
        scale = SCALE if worker in weights else 1.0
        forest = {
            "contributors": list(weights),
            "receivers": roles["receivers"],
            "chunk_count": 4,
            "blocks": blocks,
            "shards": SHARDS,
        }
        named = {"policy": "ps", "plan": "ps", "group": [worker, *SERVERS]}
        size = {"bytes": 4 * ELEMENTS, "chunk_bytes": CHUNK_BYTES, "tensor_bytes": []}
        rest = {"weights": weights, "scale": scale, "forest": forest, "version": 1, "roles": roles}
        self.say(t_ms, "controller", "task_started", task=task, **named, **size, **rest)
        for site in (worker, *SERVERS):
            self.say(t_ms + self.delay(site), site, "task_joined", task=task, unchanged=False)

    def delay(self, site: str) -> int:
        return 0 if site == "oslo" else 10

    def give(self, t_ms: int, site: str, task: int, vector: Vector, weight: float) -> None:
        shown = {"task": task, "iteration": 0, **_described(vector), "weight": weight}
        self.say(t_ms + self.delay(site), site, "contributed", **shown)

    def push(self, task: int, worker: str, t_ms: int, done_ms: int) -> None:
        blocks = [
            {"chunks": SHARDS[site], "aggregator": site, "in": [[worker, site]], "out": []}
            for site in SERVERS
        ]
        roles = {"receivers": list(SERVERS), "passive": list(SERVERS)}
        roles |= {"keep": 1.0, "momentum": MOMENTUM, "then": "wait"}
        self.start(task, t_ms, worker, {worker: 1.0}, blocks, roles)
        update = pattern(worker, 0)
        self.give(t_ms, worker, task, update, 1.0)
        for site in SERVERS:
            # The servers join the second push before they have merged the first one.
            self.give(t_ms, site, task, np.zeros(ELEMENTS, np.float32), 0.0)
        for site in SERVERS:
            self.merge(done_ms, site, task, update)
        self.say(done_ms + 15, "controller", "task_completed", task=task, without=[])
        self.say(done_ms + 25, worker, "contribution_taken", task=task)

    def merge(self, t_ms: int, site: str, task: int, update: Vector) -> None:
        result = np.zeros(ELEMENTS, np.float32)
        result[HALVES[site]] = update[HALVES[site]] * np.float32(SCALE)
        self.merge_result(t_ms, site, task, result)

    def merge_result(self, t_ms: int, site: str, task: int, result: Vector) -> None:
        step = result
        if site in self.steps:
            step = np.float32(MOMENTUM) * self.steps[site] + result
        base, model = self.models[site], self.models[site] + step
        self.steps[site], self.models[site] = step, model
        self.versions[site] += 1
        self.say(t_ms, site, "task_finished", task=task, **_described(result))
        was = dict(zip(("base", "base_fingerprint"), describe(base), strict=True))
        shown = {"version": self.versions[site], **was, "step": describe(step)[1]}
        self.say(t_ms, site, "model_merged", task=task, **shown, **_described(model))

    def pull(self, task: int, worker: str, t_ms: int, done_ms: int) -> None:
        blocks = [
            {"chunks": SHARDS[site], "aggregator": site, "in": [], "out": [[site, worker]]}
            for site in SERVERS
        ]
        roles = {"receivers": [worker], "passive": list(SERVERS)}
        roles |= {"keep": 0.0, "momentum": 0.0, "then": "proceed"}
        self.start(task, t_ms, worker, dict.fromkeys(SERVERS, 1.0), blocks, roles)
        self.give(t_ms, worker, task, self.models[worker], 0.0)
        whole = np.zeros(ELEMENTS, np.float32)
        for site in SERVERS:
            version = 1 if t_ms < 350 else 2
            model = self.find_version(site, version)
            whole += model
            self.give(t_ms, site, task, model, 1.0)
            self.log[-1]["iteration"] = version
        self.say(done_ms, worker, "task_finished", task=task, **_described(whole))
        self.say(done_ms, worker, "round_finished", rounds=1)
        self.say(done_ms, worker, "worker_finished", rounds=1)
        self.say(done_ms + 15, "controller", "task_completed", task=task, without=[])
        for site in SERVERS:
            self.say(done_ms + 15 + self.delay(site), site, "contribution_taken", task=task)

    def add_up(self, task: int, t_ms: int, updates: dict[str, Vector], passive: list[str]) -> None:
        """Add the mean of updates to every model, with momentum."""
        block = {"chunks": [[0, 4]], "aggregator": "kyiv"}
        block |= {"in": [["bern", "kyiv"]], "out": [["kyiv", "bern"]]}
        roles = {"receivers": list(WORKERS), "passive": passive}
        roles |= {"keep": 1.0, "momentum": MOMENTUM, "then": "proceed"}
        weights = dict.fromkeys(WORKERS, 1.0)
        forest = {"contributors": list(WORKERS), "receivers": list(WORKERS), "chunk_count": 4}
        forest |= {"blocks": [block]}
        named = {"policy": "eager_reduce", "plan": "ps", "group": list(WORKERS)}
        size = {"bytes": 4 * ELEMENTS, "chunk_bytes": CHUNK_BYTES, "tensor_bytes": []}
        rest = {"weights": weights, "scale": SCALE, "forest": forest, "version": 1, "roles": roles}
        self.say(t_ms, "controller", "task_started", task=task, **named, **size, **rest)
        for site in WORKERS:
            self.say(t_ms + 10, site, "task_joined", task=task, unchanged=False)
            self.give(t_ms, site, task, updates[site], 1.0)
            self.log[-1]["iteration"] = task if site == "kyiv" else 0
        result = (updates["kyiv"] + updates["bern"]) * np.float32(SCALE)
        for site in WORKERS:
            self.merge_result(t_ms + 90, site, task, result)
        self.say(t_ms + 110, "controller", "task_completed", task=task, without=[])

    def find_version(self, site: str, version: int) -> Vector:
        """The model of a server after its first pushes."""
        model = np.zeros(ELEMENTS, np.float32)
        step = np.zeros(ELEMENTS, np.float32)
        for worker in WORKERS[:version]:
            result = np.zeros(ELEMENTS, np.float32)
            result[HALVES[site]] = pattern(worker, 0)[HALVES[site]] * np.float32(SCALE)
            step = np.float32(MOMENTUM) * step + result
            model = model + step
        return model


def make_sums_log() -> list[Line]:
    """The good log of the second run, in which the servers have nothing to do."""
    run = _Run()
    for site in SERVERS:
        run.say(1, site, "server_began", **_described(run.models[site]))
    for site, t_ms in (("kyiv", 190), ("bern", 500)):
        run.say(100, site, "compute_started", iteration=0)
        run.say(t_ms, site, "compute_finished", iteration=0)
        run.say(t_ms, site, "ready", iteration=0)
    run.add_up(0, 210, {"kyiv": pattern("kyiv", 0), "bern": 0 * pattern("bern", 0)}, ["bern"])
    run.say(300, "kyiv", "round_finished", rounds=1)
    run.say(300, "kyiv", "compute_started", iteration=1)
    run.say(400, "kyiv", "compute_finished", iteration=1)
    run.say(400, "kyiv", "ready", iteration=1)
    run.add_up(1, 520, {"kyiv": pattern("kyiv", 1), "bern": pattern("bern", 0)}, [])
    for site, rounds in (("kyiv", 2), ("bern", 1)):
        run.say(610, site, "round_finished", rounds=rounds)
        run.say(610, site, "worker_finished", rounds=rounds)
    run.say(650, "controller", "stopping", cause=ROUNDS_DONE)
    run.say(680, "runner", "run_finished", cause=ROUNDS_DONE, links=[])
    return sorted(run.log, key=lambda line: line["t_ns"])


LOG, SUMS_LOG = make_log(), make_sums_log()


SUMS_RULES = replace(
    RULES,
    traits=Traits(gives="update", promises=()),
    replay=lambda history: replay(history, replace(SOURCE, accumulates=True)),
)


def history(*changes: Any, of: list[Line] | None = None) -> History:
    """The good history, with these changes made to it (see `three_sites`)."""
    log = [json.loads(json.dumps(line)) for line in of or LOG]
    for change in changes:
        log = change(log)
    return History.of(event_reading.read(map(json.dumps, log)))
