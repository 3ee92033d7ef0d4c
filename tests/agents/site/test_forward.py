"""The forward computation of a worker, on a clock that goes on whenever it is read."""

import asyncio

import numpy as np

from trunkline.agents.events.round_events import BranchArrived, BranchComputed
from trunkline.agents.site.forward import Forward
from trunkline.workloads.layered.model import Base, Branch, LayeredModel

MODEL = LayeredModel(
    tuple(Base(name, (Branch("all", 4, 0.05, 0.1),)) for name in ("first", "second"))
)


class Ticking:
    t_ns = 0

    def now_ns(self):
        self.t_ns += 1000
        return self.t_ns

    async def compute(self, work):
        self.t_ns += round(1e9 * work())
        await asyncio.sleep(0)


class Workload:
    def layers(self, iteration, batch=None):
        return MODEL


def test_no_branch_begins_before_its_arrival_in_the_log():
    clock, events = Ticking(), []

    def log(kind, *values):
        events.append(kind(clock.now_ns(), "n1", *values))

    async def play():
        forward = Forward(Workload(), (range(1), range(1, 2)), clock, log, lambda _: None)
        forward.begin(1, None, 7)
        for chunk in range(2):
            forward.arrive(7, chunk, slice(chunk, chunk + 1), np.zeros(1, np.float32))
            for _ in range(4):
                await asyncio.sleep(0)
        await forward.finish(1, None, lambda: None)

    asyncio.run(play())
    arrived_ns = {e.branch: e.t_ns for e in events if isinstance(e, BranchArrived)}
    start_ns = {e.branch: e.start_ns for e in events if isinstance(e, BranchComputed)}
    assert sorted(start_ns) == sorted(arrived_ns) == [0, 1]
    assert all(start_ns[branch] >= arrived_ns[branch] for branch in start_ns)
