"""What sites did with their time, and what tasks need of the network (pure)."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import pandas as pd

from trunkline.agents.planning.plan import Directed
from trunkline.harness.background.flows import Flow, leave_rates, list_flows
from trunkline.harness.config.units import count_of
from trunkline.harness.record.history import Task
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.settings import Scenario

NEARLY = 0.95
"""A link limits a plan, too, if it needs this share of the time of the busiest one."""

TIMES = ("compute_s", "wait_s", "sync_s")
"""The columns of the table of workers that have the time of a site."""


@dataclass(frozen=True, slots=True)
class SiteTimes:
    """The mean time of so many `sites`, in seconds: in tasks, computing, and waiting for a group.

    They are the sites that did rounds: a server does none of this.
    """

    compute_s: float
    wait_s: float
    sync_s: float
    sites: int

    @classmethod
    def of(cls, workers: pd.DataFrame) -> SiteTimes | None:
        """The means of a table of workers; None if sites did nothing."""
        at_work = workers[workers["site"].isin(list_at_work(workers))]
        if at_work.empty:
            return None
        compute_s, wait_s, sync_s = (float(at_work[name].mean()) for name in TIMES)
        return cls(compute_s, wait_s, sync_s, len(at_work))

    @property
    def shares(self) -> dict[str, float]:
        """The shares of this time, which add up to 1."""
        whole_s = self.compute_s + self.wait_s + self.sync_s
        parts_s = {"computing": self.compute_s, "waiting": self.wait_s, "in_tasks": self.sync_s}
        return {what: seconds / whole_s for what, seconds in parts_s.items()}

    def describe(self) -> str:
        """A sentence that says whether the network or computing took more time."""
        share = {what: f"{100 * each:.0f} %" for what, each in self.shares.items()}
        first, second = "The network", "computing"
        if self.sync_s < self.compute_s:
            first, second = "Computing", "the network"
        who = f"each of {self.sites} sites" if self.sites > 1 else "the only site that did rounds"
        return (
            f"{first} took more time than {second}: on average, {who} was in tasks for "
            f"{self.sync_s:.3f} s ({share['in_tasks']}), computed for {self.compute_s:.3f} s "
            f"({share['computing']}), and waited for a group for {self.wait_s:.3f} s "
            f"({share['waiting']})."
        )


def list_at_work(workers: pd.DataFrame) -> list[str]:
    """The sites that computed, waited for a group or were in tasks."""
    return [*workers[workers[[*TIMES]].sum(axis="columns") > 0]["site"]]


@dataclass(frozen=True, slots=True)
class Needs:
    """What plans of tasks need of the network.

    Attributes:
        duration_s, bytes_s, propagation_s: how long a completed task took, and what its bytes at
            the links' rates and propagation need by its plan, on average.
        link: the link that needs most time in most plans; None if plans put no bytes on links.
        rate_mbps: its rate in the scenario.
        limits: in how many plans it does, of those of `plans` tasks.
        alike: how many other links need about as much time in most of these plans.
    """

    duration_s: float
    bytes_s: float
    propagation_s: float
    plans: int
    link: Directed | None = None
    rate_mbps: float = 0.0
    limits: int = 0
    alike: int = 0

    @classmethod
    def of(cls, data: RunData) -> Needs | None:
        """The needs of the tasks of a run that have ended; None if none was completed."""
        table = data.tables["tasks"]
        done = table[table["outcome"] == "completed"]
        means = done[["duration_s", "estimate_s", "latency_s"]].dropna().mean()
        if means.isna().any():
            return None
        ended = [task for task in data.history.tasks if task.end_ns is not None]
        took_s, bytes_s, propagation_s = (float(mean) for mean in means)
        found = cls(took_s, bytes_s, propagation_s, len(ended))
        limiting = [*_list_limiting(data.scenario, ended)]
        counted = Counter(hop for busiest in limiting for hop in busiest)
        if not counted:
            return found
        link = min(counted, key=lambda hop: (-counted[hop], hop))
        own = [busiest for busiest in limiting if link in busiest]
        others = Counter(hop for busiest in own for hop in busiest if hop != link)
        alike = sum(2 * count > len(own) for count in others.values())
        rate_mbps = data.scenario.topology.link(*link).rate_mbps
        return replace(found, link=link, rate_mbps=rate_mbps, limits=len(own), alike=alike)

    def describe(self) -> str:
        """Sentences on what a task needs, and on the link that limits most."""
        decide = ", so delays decide more than rates" if self.propagation_s > self.bytes_s else ""
        text = (
            f"A completed task took {self.duration_s:.3f} s on average; at the links' rates its "
            f"bytes need {self.bytes_s:.3f} s, and propagation takes {self.propagation_s:.3f} s"
            f"{decide}."
        )
        if self.link is None:
            return text
        which = f"In {self.limits} of {self.plans} plans"
        if self.limits == self.plans:
            which = "In all plans"
        others = f" and {count_of(self.alike, 'other link')}" if self.alike else ""
        need = "need most time for their" if self.alike else "needs most time for its"
        rarely = "; no link does more often" if 2 * self.limits < self.plans else ""
        where = " -> ".join(self.link)
        return (
            f"{text} {which}, {where} ({self.rate_mbps:.4g} Mbit/s){others} {need} bytes{rarely}."
        )


def _list_limiting(scenario: Scenario, tasks: Iterable[Task]) -> Iterator[frozenset[Directed]]:
    """The links that need most time, or nearly so, in the plan of each task."""
    topology, flows = scenario.topology, list_flows(scenario.background)
    rates_mbps = topology.rates_mbps()
    known: dict[Hashable, frozenset[Directed]] = {}

    @functools.cache
    def leave_mbps(active: tuple[Flow, ...]) -> dict[Directed, float]:
        return leave_rates(rates_mbps, topology, active)

    def find(task: Task, active: tuple[Flow, ...]) -> frozenset[Directed]:
        left_mbps = leave_mbps(active)
        planned = Counter[Directed]()
        for block in task.plan.blocks:
            size = task.cut.size_of(block.chunks)
            for edge in (*block.in_edges, *block.out_edges):
                for ends in pairwise(edge):
                    planned.update(dict.fromkeys(pairwise(topology.path(*ends)), size))
        times = {hop: size / max(left_mbps[hop], 1e-9) for hop, size in planned.items()}
        most = max(times.values(), default=0.0)
        return frozenset(hop for hop in times if most and times[hop] >= NEARLY * most)

    for task in tasks:
        started = task.started
        active = tuple(flow for flow in flows if flow.is_active(started.t_ns / 1e9))
        sizes = started.bytes, started.chunk_bytes, started.tensor_bytes
        key = json.dumps(started.forest), sizes, active
        if key not in known:
            known[key] = find(task, active)
        yield known[key]
