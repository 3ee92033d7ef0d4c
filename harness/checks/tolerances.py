"""By how much times in a log may differ from what they should be (pure).

Tolerances of the network (rates, delays, queues) are where the network is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trunkline.agents.events.fault_events import CommandTyped
from trunkline.agents.events.run_events import ProgramsStarted
from trunkline.harness.record.history import History

CLOCK_NS = 100_000
"""Two events of one moment may be stamped this far apart: traffic is stamped with the time at which
its process woke up or logged an event, other events with the time at which they are logged. So an
agent's last event may be stamped this much after the moment at which its exit is noticed."""

HANDED_NS = 300
"""Each chunk that a site hands over takes a reading of its clock, and each reading takes time."""

CHANGED_NS = 1_000
"""Each change of a link that is logged takes readings of the clock."""

ROUNDED_NS = 1_000
"""Times of the log may be this much before the one that a policy was told: they are rounded."""

TIMER_S = 1e-3
"""A budget or the run's time may be over this much early, in seconds: timers are rounded."""

LOSS_NS = 1_000_000_000
"""A loss may be noticed this much later than after twice the timeout."""

COUNTED_NS = 25_000_000
"""On a virtual clock, counts at fixed times are at most this late; 3 ms were seen. Processes that
poll take time, and many may be due at once."""

BUDGET_SHARE, BUDGET_S = 0.01, 1.0
"""Allowed excess of a task's budget, relative and in seconds: giving up takes a few messages."""

TYPED_NS = 100_000_000
"""A typed command may delay agents and the runner for this long."""

STOP_SHARE = 0.002
"""A run may stop, or a policy wake, this much late, as a share: the kernel lets a wait last 0.1 %
longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerances:
    """What depends on the run's clock: on a virtual clock agents compute in no time.

    Attributes:
        step_ns: a step of the timeline happens at most this much after its time.
        worker_ns: a worker that has computed takes its next step within this time.
        follow_ns: an agent logs within this time what it does at once after another event. On a
            real clock the host may be busy, and models take time to digest.
        policy_ns: a controller logs an event for its policy within this time.
        tick_ns: an agent wakes within this time; waits of an agent with a process of its own end
            on the next millisecond.
        background_ns: background traffic may be sent this much later than by its schedule.
        arrival_ns: its packets arrive within the delay of their path with full queues and this.
        stop_ns: a run stops at most this much after its condition holds.
        target_ns: a run hears that its target is reached at most this much after the evaluation
            that reached it. Libraries that evaluate read the clock, which takes time.
        kill_ns: the exit of a killed agent is noticed at most this much after the kill.
        reaped_ns: a run is finished at most this much after its last process.
    """

    step_ns: int
    worker_ns: int
    follow_ns: int
    policy_ns: int
    tick_ns: int
    background_ns: int
    arrival_ns: int
    stop_ns: int
    target_ns: int
    kill_ns: int
    reaped_ns: int

    @classmethod
    def of(cls, history: History) -> Tolerances:
        """The tolerances of a run; without a header, those of a real clock.

        Programs and what users type may be any process in the run's kernel, and delay the runner.
        """
        clock = "real" if history.run is None else history.run.clock
        if clock == "virtual" and history.all(ProgramsStarted, CommandTyped):
            return WITH_OTHERS
        return BY_CLOCK[clock]


MS = 1_000_000

BY_CLOCK: Mapping[str, Tolerances] = {
    "virtual": Tolerances(
        step_ns=MS,
        worker_ns=MS // 10,
        follow_ns=MS // 10,
        policy_ns=MS // 10,
        tick_ns=2 * MS,
        background_ns=MS,
        arrival_ns=2 * MS,
        stop_ns=1_000 * MS,
        target_ns=10 * MS,
        kill_ns=MS,
        reaped_ns=20 * MS,
    ),
    "real": Tolerances(
        step_ns=500 * MS,
        worker_ns=100 * MS,
        follow_ns=10_000 * MS,
        policy_ns=100 * MS,
        tick_ns=2_000 * MS,
        background_ns=100 * MS,
        arrival_ns=1_000 * MS,
        stop_ns=2_000 * MS,
        target_ns=10_000 * MS,
        kill_ns=2_000 * MS,
        reaped_ns=10_000 * MS,
    ),
}

WITH_OTHERS = replace(BY_CLOCK["virtual"], step_ns=10 * MS, kill_ns=100 * MS, reaped_ns=500 * MS)
"""Those of a virtual clock in a kernel with processes that are not agents."""
