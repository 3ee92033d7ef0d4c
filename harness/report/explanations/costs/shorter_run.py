"""How much earlier the last task of a run would have ended without its faults (pure).

Until the first fault, the run is the one without faults. From then on the fluid model tells how it
would have gone on: its policy forms the groups that would have formed, and compute times are those
of the run. The model has no TCP, so its links carry less: headers take their share, and tasks of
the log that began later and that no fault touched tell if more was missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace

from trunkline.agents.events.round_events import Ready
from trunkline.agents.events.task_events import Sent
from trunkline.harness.fluid import fluid_run
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.run_data import RunData

MOST_CHUNKS = 200_000
"""A run that sent more is not predicted: the model takes some 30 µs for each."""


LEAST_TASKS = 5
"""So many tasks without faults tell how much less than their rates links carried."""


@dataclass(frozen=True, slots=True)
class Shorter:
    """The prediction of a run without its faults.

    Attributes:
        earlier_s: by how much its last task ends earlier, in seconds, at least 0.
        share: of their rates, what its links carry.
    """

    earlier_s: float
    share: float


def predict_shorter(data: RunData, found: Iterable[Explanation]) -> Shorter | None:
    """Predict a run without its faults; None if the model cannot.

    `found` are explanations of the tasks that lost most time.
    """
    history, plain = data.history, replace(data.scenario, timeline=())
    chunks = sum(sent.chunks for sent in history.all(Sent))
    if chunks > MOST_CHUNKS or any(fluid_run.list_obstacles(plain)):
        return None
    fault_ns = min((each.started.t_ns for each in history.faults), default=history.end_ns)
    share, topology = _find_share(data, found, fault_ns), plain.topology
    links = tuple(replace(link, rate_mbps=share * link.rate_mbps) for link in topology.links)
    events = fluid_run.predict_events(replace(plain, topology=replace(topology, links=links)))
    measured_s, predicted_s = _list_ends(history), _list_ends(History.of(events))
    before = bisect_right(measured_s, fault_ns / 1e9 - _find_begin(history))
    later_s = measured_s[before - 1] - predicted_s[before - 1] if before else 0.0
    return Shorter(max(0.0, measured_s[-1] - predicted_s[-1] - later_s), share)


def _find_share(data: RunData, found: Iterable[Explanation], fault_ns: int) -> float:
    """What links carried of their rates in tasks after the first fault that none touched."""
    share = payload_share(data.scenario.network.mtu)
    touched = [each.task.number for each in found if each.costs or each.is_abandoned]
    tasks = data.tables["tasks"].dropna(subset=["duration_s", "estimate_s"])
    usual = tasks[~tasks["task"].isin(touched) & (tasks["start_s"] > fault_ns / 1e9)]
    if len(usual) < LEAST_TASKS:
        return share
    shares = usual["estimate_s"] / (usual["duration_s"] - usual["latency_s"])
    return min(share, float(shares.median()))


def _list_ends(history: History) -> list[float]:
    """When tasks ended, in seconds after the first site was ready, in order."""
    begin_s = _find_begin(history)
    return sorted(task.end_ns / 1e9 - begin_s for task in history.tasks if task.end_ns is not None)


def _find_begin(history: History) -> float:
    """When the first site was ready, in seconds."""
    return min((ready.t_ns for ready in history.all(Ready)), default=0) / 1e9
