"""Checks the rules between the sections of a scenario, and the bounds of `network:` (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trunkline.agents.policies import random_draws
from trunkline.harness.config import units
from trunkline.harness.config.document import MISSING, Document, KeyPath, list_choices
from trunkline.harness.faults.fault_types import SetLink
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.network.interface import ETHERNET_HEADER_BYTES, NetworkOptions
from trunkline.harness.scenario.scheme_settings import Component, Scheme
from trunkline.harness.scenario.settings import Evaluations, Stop, WarmUp
from trunkline.topologies.model import Topology
from trunkline.workloads.base import ELEMENT_BYTES
from trunkline.workloads.program_roles import find_programs, list_targets

MIN_CHUNK_BYTES = 1024
MAX_CHUNK_BYTES = 64 * 2**20

CONGESTION_CONTROLS = ("cubic", "reno", "bbr")
"""The algorithms of the embedded kernel."""

MTU_BYTES = range(576, 9001)
INITIAL_WINDOW_PACKETS = range(1, 1001)
CONNECTIONS = range(1, 17)

ROUNDING = 1e-12
"""Relative: 0.3 s divided by 0.1 s is 3, but for the rounding of floats."""

OWN_EVALUATIONS = "programs evaluate their models themselves, and report evaluated"
"""Why nothing evaluates the models of programs."""

INSTEAD_OF_STOP: Mapping[str, str] = {
    "accuracy": "They can exit at it; expect: {accuracy: ...} judges what they reported",
    "loss": "They can exit at it",
    "without_progress": "They can exit then",
}
"""What to do in a run of programs in place of these keys of `stop`, which need evaluations."""


def check_sites(source: Document, sites: Sequence[str]) -> None:
    """Note sites that other sections name, and that do not exist."""
    clocks = source.get(("clocks",))
    paths: tuple[KeyPath, ...] = (("controller", "site"), ("failover", "backup"))
    named = [(path, source.get(path)) for path in paths]
    named += [(("clocks", site), site) for site in clocks] if isinstance(clocks, dict) else []
    for path, site in named:
        if sites and isinstance(site, str) and site not in sites:
            source.refuse(path, list_choices(sites, site))


def check_programs(
    source: Document, stop: Any, sites: Sequence[str], workload: Component | None, module: Any
) -> None:
    """Note keys that only agents understand, and programs to wait for that no site runs.

    Args:
        source: the document, whose workload runs programs.
        stop: its stop condition; another value if it is wrong.
        sites: the names of the sites.
        workload: the programs; None if they are wrong.
        module: the module of the workload.
    """
    kind = source.get(("workload", "kind"))
    for key in ("scheme", "controller", "clocks", "agents"):
        if key in source.data:
            source.refuse((key,), f"not with workload {kind}, which has no agents")
    for key in ("rounds", "tasks"):
        if source.get(("stop", key)) not in (MISSING, None):
            source.refuse(("stop", key), f"expected exit or time with workload {kind}")
    for key, instead in INSTEAD_OF_STOP.items():
        if source.get(("stop", key)) not in (MISSING, None):
            allowed = f"expected exit or time with workload {kind}: {OWN_EVALUATIONS}"
            source.refuse(("stop", key), f"{allowed}. {instead}")
    if "evaluation" in source.data:
        source.refuse(("evaluation",), f"not with workload {kind}: {OWN_EVALUATIONS}")
    if source.data.get("warm_up"):
        source.refuse(("warm_up",), "only with a policy and a plan")
    chosen = stop.exit if isinstance(stop, Stop) else None
    if workload and sites and source.is_sound("workload") and isinstance(chosen, tuple):
        placed = module.place_programs(sites, workload.options)
        roles = [each.role for each in placed.values() if each.role]
        for index, name in enumerate(chosen):
            if not find_programs(placed, name):
                known = dict.fromkeys([*list_targets(placed), *roles])
                source.refuse(("stop", "exit", index), list_choices(known, name))


def check_virtual_time(source: Document, basics: Mapping[str, Any]) -> None:
    """Note keys of programs that only a virtual clock understands."""
    if basics["backend"] == "embedded" and basics["clock"] != "real":
        return
    for key in ("charge", "poll"):  # a resolved scenario has their defaults
        if source.get(("workload", key)) not in (MISSING, {}, None):
            source.refuse(("workload", key), "only with a virtual clock")


def check_stop(
    source: Document,
    basics: Mapping[str, Any],
    workload: Component | None,
    workloads: Mapping[str, Any],
) -> None:
    """Note stop conditions of agents that can never be met, or have another unit than the warm-up.

    Args:
        source: the document.
        basics: the values of its other sections.
        workload: what the sites compute; None if it is wrong.
        workloads: the modules of all kinds of workloads, by name.
    """
    stop = basics["stop"]
    if not isinstance(stop, Stop):
        return
    if stop.exit is not None:
        source.refuse(("stop", "exit"), "only if sites run programs")
    _check_warm_up(source, basics["warm_up"], stop)
    given = source.data["stop"]
    # A resolved scenario has all keys, and the default in a row.
    is_resolved = {"accuracy", "loss"} <= {*given} and stop.in_a_row == Stop(rounds=1).in_a_row
    if "in_a_row" in given and not (stop.has_target or is_resolved):
        source.refuse(("stop", "in_a_row"), "only with stop: accuracy or loss")
    if workload and not workload.module.EVALUATES:
        able = [name for name, module in workloads.items() if module.EVALUATES]
        allowed = f"only with workload {', '.join(able)}; {workload.kind} has no accuracy"
        if workload.kind.endswith(".py"):
            allowed += ": it does not say EVALUATES = True"
        for key in INSTEAD_OF_STOP:
            if source.get(("stop", key)) not in (MISSING, None):
                source.refuse(("stop", key), allowed)
        if "evaluation" in source.data:
            source.refuse(("evaluation",), allowed)
    elif stop.is_evaluated:
        _check_evaluations(source, stop, basics)


def _check_evaluations(source: Document, stop: Stop, basics: Mapping[str, Any]) -> None:
    """Note a condition that can never hold: there are fewer evaluations than it needs."""
    ends_s, every_s = list_ends_s(basics), basics["evaluation"].every_s
    key = min(ends_s, key=ends_s.__getitem__)
    end, every = (units.render(each, units.TIME_S) for each in (ends_s[key], every_s))
    count = math.floor(ends_s[key] / every_s * (1 + ROUNDING))
    if not count and source.get(("evaluation", "every")) is MISSING:
        path = tuple(key.partition(" ")[0].split("."))
        allowed = f"expected {every} or more, or evaluation: every less: no model is evaluated"
        source.refuse(path, allowed, end)
    elif not count:
        allowed = f"expected up to {end}: no model is evaluated before {key}"
        source.refuse(("evaluation", "every"), allowed)
    else:
        made = f"before the end of the run: with evaluation: every {every}, there are {count} until"
        made += f" {key}, {end}"
        if stop.has_target and count < stop.in_a_row:
            allowed = f"expected as many evaluations {made}"
            source.refuse(("stop", "in_a_row"), allowed, str(stop.in_a_row))
        if stop.without_progress is not None and count <= stop.without_progress:
            allowed = f"expected more evaluations than this {made}"
            source.refuse(("stop", "without_progress"), allowed)


def choose_evaluated(
    source: Document, given: Evaluations, scheme: Scheme, workload: Component
) -> Evaluations:
    """Which model is evaluated, by default as the policy has one; nothing without an accuracy."""
    if not workload.module.EVALUATES:
        return given
    uses_servers = random_draws.uses_servers(scheme.policy.module.create)
    if given.of is None:
        return replace(given, of="server" if uses_servers else "average")
    if given.of == "server" and not uses_servers:
        allowed = f"expected average or member: policy {scheme.policy.kind} uses no servers"
        source.refuse(("evaluation", "of"), allowed)
    return given


def list_ends_s(basics: Mapping[str, Any]) -> dict[str, float]:
    """When a run ends at the latest, in its own time: by the keys that say so."""
    stop, warm_up_s = basics["stop"], basics["warm_up"].time_s
    ends_s = {"limits.run": basics["limits"].run_s}
    if isinstance(stop, Stop) and stop.time_s is not None:
        key = "stop.time" if warm_up_s is None else "stop.time after warm_up.time"
        ends_s[key] = stop.time_s + (warm_up_s or 0.0)
    return ends_s


def check_limits(source: Document, basics: Mapping[str, Any]) -> None:
    """Note clocks, timeouts and budgets that contradict each other."""
    limits, stop, failover = basics["limits"], basics["stop"], basics["failover"]
    if basics["backend"] == "host" and basics["clock"] == "virtual":
        source.refuse(("clock",), "expected real with backend host; virtual needs embedded")
    least_s = 2 * (failover.heartbeat_s or 0.0)
    if (failover.timeout_s or math.inf) < least_s:
        least = units.render(least_s, units.TIME_S)
        source.refuse(("failover", "timeout"), f"expected twice the heartbeat, {least}, or more")
    if limits.task_s > limits.run_s:
        run = units.render(limits.run_s, units.TIME_S)
        source.refuse(("limits", "task"), f"expected up to limits.run, {run}")
    warm_up_s = basics["warm_up"].time_s or 0.0
    if isinstance(stop, Stop) and stop.time_s and stop.time_s + warm_up_s > limits.run_s:
        run = units.render(limits.run_s - warm_up_s, units.TIME_S)
        less = " minus the warm-up" if warm_up_s else ""
        source.refuse(("stop", "time"), f"expected up to limits.run{less}, {run}")


def check_network(source: Document, basics: Mapping[str, Any], topology: Topology | None) -> None:
    """Note values of `network:` out of their bounds, and two controllers at one site."""
    network: NetworkOptions = basics["network"]
    if topology:
        site = basics["controller"].site or topology.site_names[0]
        if basics["failover"].backup == site:
            allowed = f"expected a site other than the controller's, {site}"
            source.refuse(("failover", "backup"), allowed)
    algorithm = network.congestion_control
    if algorithm not in CONGESTION_CONTROLS:
        allowed = list_choices(CONGESTION_CONTROLS, algorithm)
        source.refuse(("network", "congestion_control"), allowed)
    for key, value, limits in (
        ("mtu", network.mtu, MTU_BYTES),
        ("initial_window", network.initial_window, INITIAL_WINDOW_PACKETS),
        ("connections", network.connections, CONNECTIONS),
    ):
        if value not in limits:
            source.refuse(("network", key), f"expected {limits[0]} to {limits[-1]}")
    if topology and network.mtu in MTU_BYTES:
        tightest = min(topology.links, key=topology.queue_bytes)
        room = topology.queue_bytes(tightest) - ETHERNET_HEADER_BYTES
        if network.mtu > room:
            where = f"the queue of {tightest.src} -> {tightest.dst}"
            source.refuse(("network", "mtu"), f"expected up to {room}, to fit {where}")
    if basics["backend"] == "host" and network.hystart is not True:
        allowed = "expected true with backend host; other values need embedded"
        source.refuse(("network", "hystart"), allowed)


def check_correlation(
    source: Document, topology: Topology | None, timeline: Sequence[Entry]
) -> None:
    """Note correlations of links, for which the host's kernel changes the shares of packets."""
    allowed = "correlation needs backend embedded: other kernels change the shares of packets"
    if topology and any(link.correlation_percent for link in topology.links):
        source.refuse(("topology",), allowed, "")
    for entry in timeline:
        if isinstance(entry.fault, SetLink) and entry.fault.correlation_percent:
            source.refuse(("timeline",), allowed, "")
            break


def check_chunk(source: Document, chunk_bytes: int, model_bytes: int | None) -> None:
    """Note a size of chunks that is out of bounds; the size of the model is None if unknown."""
    path = ("scheme", "chunk")
    if chunk_bytes == model_bytes:
        return
    low, high = (units.render(n, units.SIZE_BYTES) for n in (MIN_CHUNK_BYTES, MAX_CHUNK_BYTES))
    if not MIN_CHUNK_BYTES <= chunk_bytes <= MAX_CHUNK_BYTES or chunk_bytes % ELEMENT_BYTES:
        allowed = f"expected {low} to {high} in steps of {ELEMENT_BYTES} B (one float32)"
        source.refuse(path, allowed)
    elif model_bytes is not None and chunk_bytes > model_bytes:
        whole = units.render(model_bytes, units.SIZE_BYTES)
        source.refuse(path, f"expected up to the whole model, {whole}")


def _check_warm_up(source: Document, warm_up: WarmUp, stop: Stop) -> None:
    """A condition of another unit could not be counted from the end of the warm-up."""
    unit = warm_up.unit
    if unit is None:
        return
    given = {"rounds": stop.rounds, "tasks": stop.tasks, "time": stop.time_s}
    others = [key for key, value in given.items() if value is not None and key != unit]
    if others:
        allowed = f"only with stop: {unit}, accuracy, loss or without_progress"
        allowed += f"; stop has {', '.join(others)}"
        source.refuse(("warm_up", unit), allowed)
