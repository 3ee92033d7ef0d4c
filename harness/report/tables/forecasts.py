"""How long tasks are expected to take, and can take at least, on a scenario's overlay (pure)."""

from __future__ import annotations

import functools
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from trunkline.agents.events.event import BACKUP
from trunkline.agents.events.task_events import TaskStarted
from trunkline.agents.planning.bound import SmallestCuts
from trunkline.agents.planning.fluid.completion_times import estimate
from trunkline.agents.planning.fluid.fluid_links import Paths
from trunkline.agents.planning.plan import Directed, Edge, Plan
from trunkline.harness.background.flows import Flow, leave_rates, list_flows
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.history import Sync
from trunkline.harness.scenario.settings import Scenario


@dataclass(frozen=True, slots=True)
class Forecast:
    """A task's expected duration: the fluid estimate of its plan, and the bound of any plan.

    `latency_s` is what propagation adds to the estimate: that of every hop of every chunk, and that
    of the controller's message that starts the task, which reaches each site at another time.
    """

    estimate_s: float
    bound_s: float
    latency_s: float


def make_forecaster(scenario: Scenario) -> Callable[[TaskStarted], Forecast]:
    """A function that forecasts a task's duration on the scenario's overlay from its plan.

    Estimate and bound count payload, so rates are reduced to the share that TCP's payload gets. The
    estimate also leaves each flow of background traffic its mean rate.
    """
    flows = list_flows(scenario.background)
    topology, share = scenario.topology, payload_share(scenario.network.mtu)
    discipline, bounds = scenario.scheme.discipline, scenario.scheme.bounds
    rates_mbps = {link: rate * share for link, rate in topology.rates_mbps().items()}
    paths = topology.overlay_paths()
    delays_ms = topology.overlay.delays_ms()
    cuts = SmallestCuts(rates_mbps)
    known_s: dict[Hashable, tuple[float, ...]] = {}

    @functools.cache
    def left_mbps(active: tuple[Flow, ...]) -> dict[Directed, float]:
        left = leave_rates(topology.rates_mbps(), topology, active)
        return {link: rate * share for link, rate in left.items()}

    @functools.lru_cache(maxsize=4096)  # most tasks of a run share few plans
    def of_plan(
        forest: str,
        chunk_bytes: int,
        model_bytes: int,
        tensor_bytes: tuple[int, ...],
        active: tuple[Flow, ...],
        centre: str,
    ) -> Forecast:
        plan = Plan.from_json(json.loads(forest))
        sizes, left = (chunk_bytes, model_bytes), left_mbps(active)
        told_s = {site: topology.path_delay_ms(centre, site) / 1e3 for site in plan.participants()}
        if bounds is None:
            alike = _outline(plan, left, delays_ms, paths, told_s)
        else:
            alike = forest, active, centre
        key = sizes, tensor_bytes, alike
        if key not in known_s:
            known_s[key] = tuple(
                estimate(plan, left, *sizes, waits, discipline, bounds, tensor_bytes, paths, told)
                for waits, told in ((None, None), (delays_ms, told_s))
            )
        fluid_s, delayed_s = known_s[key]
        return Forecast(
            estimate_s=fluid_s,
            bound_s=cuts.bound(plan, model_bytes),
            latency_s=delayed_s - fluid_s,
        )

    def forecast(started: TaskStarted) -> Forecast:
        sizes = started.chunk_bytes, started.bytes, started.tensor_bytes
        active = tuple(flow for flow in flows if flow.is_active(started.t_ns / 1e9))
        backup = scenario.failover.backup if started.site == BACKUP else None
        centre = backup or scenario.controller_site
        return of_plan(json.dumps(started.forest), *sizes, active, centre)

    return forecast


def _outline(
    plan: Plan,
    rates_mbps: Mapping[Directed, float],
    delays_ms: Mapping[Directed, float],
    paths: Paths | None,
    told_s: Mapping[str, float],
) -> Hashable:
    """A plan without names of sites: plans with equal ones take equal times, to the last bit.

    A site or link is the number of its first use. Many clients of a server differ in nothing else.
    Auxiliary paths may use more links than the plan, and so need more than this.
    """
    sites = defaultdict[str, int](itertools.count().__next__)
    hops: dict[Directed, int] = {}
    links = {
        link: None
        for block in plan.blocks
        for edge in (*block.in_edges, *block.out_edges)
        for link in itertools.pairwise(edge)
    }

    def number(edges: Iterable[Edge]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(sites[site] for site in edge) for edge in edges)

    return (
        number([plan.contributors, plan.receivers]),
        tuple(
            (
                *(block.chunks, sites[block.aggregator], block.whole, block.pipelined),
                *(number(block.in_edges), number(block.out_edges)),
            )
            for block in plan.blocks
        ),
        tuple((sites[site], chunks) for site, chunks in plan.shards.items()),
        tuple(
            (
                delays_ms[link],
                tuple(
                    (hops.setdefault(hop, len(hops)), rates_mbps[hop])
                    for hop in (paths[link] if paths is not None else (link,))
                ),
            )
            for link in links
        ),
        tuple((sites[site], time_s) for site, time_s in told_s.items()),
    )


def make_sync_bound(scenario: Scenario) -> Callable[[Sync], float | None]:
    """A function that gives an all-reduce's lower bound in seconds; None for other operations."""
    share = payload_share(scenario.network.mtu)
    rates_mbps = {link: rate * share for link, rate in scenario.topology.rates_mbps().items()}
    cuts = SmallestCuts(rates_mbps)

    @functools.cache
    def of_group(group: frozenset[str], size: int) -> float:
        sites = tuple(sorted(group))
        return cuts.bound(Plan(sites, sites, 1, ()), size)

    def of_sync(sync: Sync) -> float | None:
        if sync.operation != "allreduce" or not sync.bytes:
            return None
        return of_group(frozenset(sync.begun_ns), sync.bytes)

    return of_sync
