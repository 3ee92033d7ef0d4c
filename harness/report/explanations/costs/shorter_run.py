"""How much earlier the last task of a run would have ended without its faults (pure).

The fluid model predicts the run without its timeline: its policy forms the groups that would have
formed, and compute times are those of the run. The model has no TCP, so its links are slowed by as
much as tasks that no fault touched took longer than estimated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from trunkline.agents.events.round_events import Ready
from trunkline.agents.events.task_events import Sent
from trunkline.harness.fluid import fluid_run
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.run_data import RunData

MOST_CHUNKS = 200_000
"""A run that sent more is not predicted: the model takes some 30 µs for each."""


@dataclass(frozen=True, slots=True)
class Shorter:
    """The prediction of a run without its faults.

    Attributes:
        earlier_s: by how much its last task ends earlier, in seconds, at least 0.
        share: of their rates, what its links carry.
        tasks: how many tasks that no fault touched say so.
    """

    earlier_s: float
    share: float
    tasks: int


def predict_shorter(data: RunData, found: Iterable[Explanation]) -> Shorter | None:
    """Predict a run without its faults; None if the model cannot.

    `found` are explanations of the tasks that lost most time.
    """
    history, tasks = data.history, data.tables["tasks"]
    plain = replace(data.scenario, timeline=())
    chunks = sum(sent.chunks for sent in history.all(Sent))
    if chunks > MOST_CHUNKS or any(fluid_run.list_obstacles(plain)):
        return None
    touched = [each.task.number for each in found if each.costs or each.is_abandoned]
    usual = tasks[~tasks["task"].isin(touched)].dropna(subset=["duration_s", "estimate_s"])
    share = 1.0
    if len(usual):
        moving_s = (usual["duration_s"] - usual["latency_s"]).sum()
        share = min(1.0, float(usual["estimate_s"].sum() / moving_s))
    topology = plain.topology
    links = tuple(replace(link, rate_mbps=share * link.rate_mbps) for link in topology.links)
    events = fluid_run.predict_events(replace(plain, topology=replace(topology, links=links)))
    earlier_s = _measure_s(history) - _measure_s(History.of(events))
    return Shorter(max(0.0, earlier_s), share, len(usual))


def _measure_s(history: History) -> float:
    """From when the first site was ready to the end of the last task."""
    begun_ns = min((ready.t_ns for ready in history.all(Ready)), default=0)
    return (max((task.end_ns or 0 for task in history.tasks), default=begun_ns) - begun_ns) / 1e9
