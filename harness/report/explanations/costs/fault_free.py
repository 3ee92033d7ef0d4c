"""Runs of the fluid model that go on as a run would have without its faults (pure).

Until the first fault, a run of the model is the real one: each site is in a task for as long as the
log says. Later tasks take longer than in the model, by shares that are drawn from those of the real
run. Small differences decide which groups form, and plans of other groups take other times. So one
run of the model says little where plans differ much; several tell the mean and the spread.

A task's share is what it took longer than its plan needs on the links, less what faults and other
tasks took. What it lost to connections that were made anew counts for a part, which differs between
the runs: without the faults they would have been older, but perhaps cold all the same. Each run
draws from a sample of the tasks, so the spread also has what few tasks leave open.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from trunkline.agents.events.task_events import TaskFinished
from trunkline.harness.fluid import fluid_run
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.settings import Scenario

LEAST_TASKS = 5
"""So many tasks after the first fault tell how much longer tasks take than in the model."""


@dataclass(frozen=True, slots=True)
class Excess:
    """By which share a task took longer than in the model: at `least`, and at `most`.

    The difference are connections that were made anew.
    """

    least: float
    most: float


@dataclass(slots=True)
class Lasting:
    """How long sites are in tasks in one run of the model.

    Attributes:
        measured_s: how long they were, by task and site, in tasks that began before the first
            fault, less what faults took of these.
        excesses: one of them is drawn for each other task.
        cold: the share of what new connections took that counts.
    """

    measured_s: dict[tuple[int, str], float]
    excesses: Sequence[Excess]
    cold: float
    random: random.Random
    drawn: dict[int, float] = field(default_factory=dict)

    def last(self, task: int, site: str, took_s: float) -> float:
        """How long a site is in a task that would take so long."""
        if (known_s := self.measured_s.get((task, site))) is not None:
            return known_s
        if not self.excesses:
            return took_s
        if task not in self.drawn:
            found = self.random.choice(self.excesses)
            self.drawn[task] = found.least + self.cold * (found.most - found.least)
        return took_s * (1 + self.drawn[task])


def predict_runs(
    data: RunData,
    plain: Scenario,
    found: Iterable[Explanation],
    excesses: Sequence[Excess],
    count: int,
    fault_ns: int,
) -> Iterator[History]:
    """So many runs of a scenario without its timeline, which go on from the first fault."""
    share, topology = payload_share(plain.network.mtu), plain.topology
    links = tuple(replace(link, rate_mbps=share * link.rate_mbps) for link in topology.links)
    plain = replace(plain, topology=replace(topology, links=links))
    measured_s = _measure_until(data.history, found, fault_ns)
    for number in range(count):
        draw = random.Random(number)
        some = [draw.choice(excesses) for _ in excesses]
        lasting = Lasting(measured_s, some, (number + 0.5) / count, draw)
        yield History.of(fluid_run.predict_events(plain, last=lasting.last))


def _measure_until(
    history: History, found: Iterable[Explanation], fault_ns: int
) -> dict[tuple[int, str], float]:
    """How long sites were in tasks that began before the first fault, less what faults took."""
    took_s = {
        each.task.number: sum(cost.longer_s for cost in each.costs.values()) for each in found
    }
    measured_s: dict[tuple[int, str], float] = {}
    for task in history.tasks:
        if task.outcome != "completed" or task.started.t_ns >= fault_ns:
            continue
        for event in task.all(TaskFinished):
            least_s = (min(event.t_ns, fault_ns) - task.started.t_ns) / 1e9
            own_s = (event.t_ns - task.started.t_ns) / 1e9 - took_s.get(task.number, 0.0)
            measured_s[task.number, event.site] = max(least_s, own_s)
    return measured_s


def list_excesses(data: RunData, found: Iterable[Explanation], fault_ns: int) -> list[Excess]:
    """By how much tasks after the first fault took longer than in the model; none of too few."""
    explained = {each.task.number: each for each in found}
    tasks = data.tables["tasks"].dropna(subset=["duration_s", "estimate_s"])
    share = payload_share(data.scenario.network.mtu)
    excesses: list[Excess] = []
    columns = tasks[["task", "start_s", "duration_s", "estimate_s", "latency_s"]]
    for number, start_s, duration_s, estimate_s, latency_s in columns.to_numpy(float):
        each = explained.get(int(number))
        if start_s <= fault_ns / 1e9 or (each is not None and each.is_abandoned):
            continue
        least_s, most_s = (0.0, 0.0) if each is None else _list_taken(each)
        own_s, needed_s = duration_s - latency_s, estimate_s / share
        most, least = (float((own_s - s) / needed_s - 1) for s in (least_s, most_s))
        excesses.append(Excess(max(0.0, least), max(0.0, most)))
    return excesses if len(excesses) >= LEAST_TASKS else []


def _list_taken(found: Explanation) -> tuple[float, float]:
    """What faults and other tasks took of a task, without and with new connections, in seconds."""
    taken_s = sum(
        part.seconds
        for part in found.parts
        if part.fault is not None or part.cause == "other tasks"
    )
    new_s = sum(
        part.seconds
        for part in found.parts
        if part.fault is None and part.cause == "cold start" and part.text
    )
    return taken_s, taken_s + new_s
