"""A fault cost a task no more than until another way had ended, from logs written down by hand."""

from __future__ import annotations

import pytest

from trunkline.agents.events.fault_events import FaultEnded, FaultStarted, LinkChanged
from trunkline.agents.events.task_events import (
    Contributed,
    Received,
    Sent,
    TaskCompleted,
    TaskFinished,
    TaskStarted,
)
from trunkline.agents.planning.plan import Block, Plan
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.explanation import Explanation, explain
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.told.explanation_text import describe_part, summarize
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

MS = 1_000_000
SITES = "bern", "kyiv", "oslo", "rome"
MESH = Topology(
    "mesh",
    tuple(map(Site, SITES)),
    tuple(Link(a, b, 10.0, 0.1) for a in SITES for b in SITES if a != b),
)
HALF = 500_000
SLOW_MBPS = 2.5


def make_log(
    slow_until_ms: int, other_until_ms: int, *touched: str, beside: bool = True
) -> History:
    """kyiv and rome push 0.5 MB each to bern, which takes 0.4 s at the links' rate.

    A fault slows kyiv's link down to a quarter, and names those that it `touched`. `beside` task 0,
    rome's link carries bytes of task 1.
    """
    block = Block(((0, 1),), "bern", (("kyiv", "bern"), ("rome", "bern")), ())
    plan = Plan(("kyiv", "rome"), ("bern",), 1, (block,)).to_json()
    other = Block(((0, 1),), "bern", (("rome", "bern"),), ())
    end_ms = max(slow_until_ms, other_until_ms)
    both_ns = other_until_ms * MS
    size = round((other_until_ms - 1000) * 1e-3 * 10e6 / 8 * 0.95) - HALF if beside else 0
    slow = (0.0, 0.0, 0.0, ())

    def start(number: int, group: tuple[str, ...], size: int, forest: object) -> TaskStarted:
        weights = dict.fromkeys(group, 1.0)
        names = "", "", group, weights, 1.0
        return TaskStarted(1000 * MS, "controller", number, *names, size, size, forest)  # type: ignore[arg-type]

    events = [
        FaultStarted(
            500 * MS, "runner", 0, "setlink", "setlink kyiv bern", ("kyiv -> bern", *touched)
        ),
        LinkChanged(500 * MS, "runner", "kyiv", "bern", SLOW_MBPS, 0.1, *slow[1:]),
        start(0, ("bern", "kyiv", "rome"), HALF, plan),
        start(1, ("bern", "rome"), size, Plan(("rome",), ("bern",), 1, (other,)).to_json()),
        *(Contributed(1000 * MS, site, 0, 0, "", (), 1.0) for site in ("kyiv", "rome")),
        *move("kyiv", 0, HALF, slow_until_ms * MS),
        *move("rome", 0, HALF, both_ns),
        *(move("rome", 1, size, both_ns) if size else ()),
        *(TaskFinished(end_ms * MS, site, 0, "", "") for site in ("bern", "kyiv", "rome")),
        TaskCompleted(end_ms * MS, "controller", 0),
        FaultEnded(end_ms * MS, "runner", 0),
    ]
    return History.of(sorted(events, key=lambda event: event.t_ns))


def move(src: str, task: int, size: int, end_ns: int) -> tuple[Sent, Received]:
    """The reports of bytes that moved from 1 s on."""
    flow = task, "in", size, 1, 1000 * MS, end_ns
    sent = Sent(end_ns, src, task, "bern", *flow[1:])
    return sent, Received(end_ns, "bern", task, src, *flow[1:])


def explain_log(
    slow_until_ms: int, other_until_ms: int, *touched: str, beside: bool = True
) -> tuple[Explanation, History]:
    """Why the first task took so long."""
    log = make_log(slow_until_ms, other_until_ms, *touched, beside=beside)
    run = Run(log, MESH, 1500, "bern", timeout_ns=1500 * MS)
    return explain(run, log.tasks[0], 0.4, None), log


@pytest.mark.parametrize(
    ("other_ms", "cost_s"), [(1200, 1.18), (1500, 1.1), (2100, 0.51), (2570, 0.04), (2700, 0.0)]
)
def test_a_fault_cost_no_more_than_until_another_way_had_ended(
    other_ms: int, cost_s: float
) -> None:
    """The slow push ends at 2.6 s, without its fault at 1.42 s; the other one at these times."""
    found, log = explain_log(2600, other_ms)
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.duration_s)
    assert found.taken_s.get(0, 0.0) == pytest.approx(cost_s, abs=0.012)
    beside = [part for part in found.parts if part.beside == 0]
    if not 1420 < other_ms < 2600:
        assert beside == []
        return
    (part,) = beside
    assert part.seconds == pytest.approx(1.182 - cost_s, abs=0.012)
    assert (part.cause, part.where, part.text) == ("other tasks", "rome -> bern", "1")
    said = describe_part(part, log)
    assert said.startswith("needed anyway, beside fault 0: rome -> bern carried bytes of task 1")


def test_tcp_s_rest_on_another_way_excuses_a_fault_unless_the_fault_touched_that_way() -> None:
    """rome's push ends at 2.1 s without bytes of others; it may have waited for the fault."""
    found, log = explain_log(2600, 2100, beside=False)
    (beside,) = (part for part in found.parts if part.beside == 0)
    assert (beside.cause, beside.where) == ("unexplained", "rome -> bern")
    said = summarize(found, log)
    assert " A rest that the log does not explain took 0.682 s on rome -> bern (perhaps " in said
    assert "), needed anyway beside fault 0. Fault 0 (setlink kyiv bern) took 0.500 s: kyiv" in said
    assert found.taken_s[0] == pytest.approx(0.5, abs=0.01)
    found, _ = explain_log(2600, 2100, "rome -> bern", beside=False)
    assert [part for part in found.parts if part.beside == 0] == []
    assert found.taken_s[0] == pytest.approx(1.18, abs=0.01)
