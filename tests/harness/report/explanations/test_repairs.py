"""What held a task up before a fault, from a log that was written down by hand."""

from __future__ import annotations

import pytest

from trunkline.agents.events.causes import SiteLost
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted, LinkChanged
from trunkline.agents.events.task_events import (
    Contributed,
    Received,
    Sent,
    TaskAbandoned,
    TaskHalted,
    TaskStarted,
)
from trunkline.agents.planning.plan import Block, Plan
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.repairs import divide_before
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.time_parts import Part
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

MS = 1_000_000
GROUP = "bern", "kyiv", "oslo"
MESH = Topology(
    "mesh", tuple(map(Site, GROUP)), tuple(Link(a, b, 10.0) for a in GROUP for b in GROUP if a != b)
)
BLOCK = Block(((0, 4),), "bern", (("kyiv", "bern"),), (("bern", "oslo"),))
PLAN = Plan(("bern", "kyiv"), ("oslo",), 4, (BLOCK,)).to_json()
HALF = 500_000


def divide(rate_mbps: float) -> list[Part]:
    """The time of a task of 1 MB from 1 s until a kill at 5.5 s.

    kyiv sends 1 MB to bern until 4.24 s, as that link has this rate from 1.2 to 4.2 s. Then bern
    sends half of the sum to oslo.
    """
    weights = dict.fromkeys(GROUP, 1.0)
    names, sizes = ("", "", GROUP, weights, 1.0), (10**6, 250_000)
    end_ns, kill_ns = 4240 * MS, 5500 * MS
    ways, slow = ("kyiv -> bern",), (0.0, 0.0, 0.0, ())
    events = [
        TaskStarted(1000 * MS, "controller", 0, *names, *sizes, PLAN),
        Contributed(1000 * MS, "kyiv", 0, 0, "", (), 1.0),
        Contributed(1000 * MS, "bern", 0, 0, "", (), 1.0),
        FaultStarted(1200 * MS, "runner", 0, "setlink", "setlink kyiv bern", ways),
        LinkChanged(1200 * MS, "runner", "kyiv", "bern", rate_mbps, *slow),
        LinkChanged(4200 * MS, "runner", "kyiv", "bern", 10.0, *slow),
        FaultEnded(4200 * MS, "runner", 0),
        FaultStarted(kill_ns, "runner", 1, "kill", "kill kyiv", ("kyiv",)),
        TaskHalted(5510 * MS, "controller", 0, SiteLost("kyiv"), GROUP),
        TaskAbandoned(6000 * MS, "controller", 0, SiteLost("kyiv")),
        Sent(6000 * MS, "kyiv", 0, "bern", "in", 2 * HALF, 4, 1000 * MS, end_ns),
        Received(6000 * MS, "bern", 0, "kyiv", "in", 2 * HALF, 4, 1000 * MS, end_ns),
        Sent(6000 * MS, "bern", 0, "oslo", "out", HALF, 2, end_ns, kill_ns),
        Received(6000 * MS, "oslo", 0, "bern", "out", HALF, 2, end_ns, kill_ns),
    ]
    run = Run(History.of(events), MESH, 1500, "oslo", timeout_ns=1500 * MS)
    steps, parts = divide_before(run, run.history.tasks[0], (1000 * MS, kill_ns), 1)
    assert [(step.src, step.site) for step in steps] == [
        ("", "kyiv"),
        ("kyiv", "bern"),
        ("bern", "oslo"),
    ]
    assert steps[-1].start_ns == steps[-2].end_ns
    assert sum(part.seconds for part in parts) == pytest.approx(4.5)
    return list(parts)


@pytest.mark.parametrize(("rate_mbps", "lost_s"), [(2.0, 3.0 * (1 - 2 / 10)), (10.0, 0.0)])
def test_a_sender_that_waited_for_a_slowed_link_lost_what_that_took(
    rate_mbps: float, lost_s: float
) -> None:
    """bern sent nothing until 4.24 s, so TCP on its link to oslo took only what followed."""
    parts = divide(rate_mbps)
    slow_s = sum(part.seconds for part in parts if part.fault == 0)
    assert slow_s == pytest.approx(lost_s, abs=0.01)
    needed_s = HALF * 8e-6 / 10.0
    of_tcp = [part for part in parts if part.cause in ("cold start", "queueing", "unexplained")]
    assert sum(part.seconds for part in of_tcp) <= 5.5 - 4.24 - needed_s
    own_s = sum(part.seconds for part in parts if part.cause == "before the fault")
    assert own_s == pytest.approx(4.24 - 1.0 - lost_s, abs=0.05)
