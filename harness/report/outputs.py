"""Make the tables, figures, page and verdict of a finished run from its folder.

Tables, figures and verdict depend on `events.jsonl` and `resolved.yaml` alone: a later version can
make them again, and the verdict does not depend on the state of the run's own processes. The page
also shows `environment.json` and the original `scenario.yaml`.
"""

from __future__ import annotations

import functools
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from trunkline.agents.events import event_reading
from trunkline.agents.events.call_events import CallStarted
from trunkline.agents.events.event import BACKUP, CONTROLLER, Event
from trunkline.agents.events.event_reading import EventError
from trunkline.agents.events.task_events import TaskStarted
from trunkline.agents.planning.bound import bound
from trunkline.agents.planning.fluid import estimate
from trunkline.agents.planning.plan import Plan
from trunkline.agents.policies.policy import Policy, Traits
from trunkline.harness.background.flows import Flow, leave_rates, list_flows, schedule
from trunkline.harness.checks import judging, model_replay
from trunkline.harness.checks.model_replay import Replay, Source, replay
from trunkline.harness.checks.protocol import plan_checks
from trunkline.harness.checks.verdict import Check, Rules, Verdict
from trunkline.harness.network.capture import FOLDER as CAPTURES
from trunkline.harness.network.interface import (
    ETHERNET_HEADER_BYTES,
    NetworkOptions,
    payload_share,
)
from trunkline.harness.record.fitting import find_misfit
from trunkline.harness.record.history import History, Sync, Task
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.record.warm_up import Counted
from trunkline.harness.report import awareness_tables, tables
from trunkline.harness.report.background_tables import tabulate_background
from trunkline.harness.report.branches.branch_tables import tabulate_branches
from trunkline.harness.report.calls.call_tables import tabulate_calls
from trunkline.harness.report.faults.fault_table import tabulate_faults
from trunkline.harness.report.pages import programs_section
from trunkline.harness.report.pages.comparison import comparison_page
from trunkline.harness.report.pages.run_page import RunData, write_page
from trunkline.harness.report.program_tables import (
    leave_out_payload,
    tabulate_programs,
    tabulate_traffic,
)
from trunkline.harness.report.tables import Forecast
from trunkline.harness.report.updates.server_rates import tabulate_servers
from trunkline.harness.report.updates.update_tables import tabulate_updates
from trunkline.harness.scenario.failover_timeouts import make_failover
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.loading import load
from trunkline.harness.scenario.planning import create_driver, create_policy
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.model import Topology
from trunkline.workloads.base import (
    ELEMENT_BYTES,
    Order,
    Term,
    Vector,
    digest,
    fingerprint,
    gives_changes,
)
from trunkline.workloads.layered.model import LayeredModel

LAST_LINES, LAST_BYTES = 20, 4096
"""The end of a program's output that the page shows."""

CLOSE_UP_TASKS = 24
"""The tasks of the close-up Gantt chart, which a run of more than twice as many tasks gets."""


def build(run_dir: Path, width_in: float | None = None) -> Verdict:
    """Write a run's `tables/`, `plots/`, `verdict.json` and `report.html`; return the verdict.

    `width_in` is the width of the figures in inches; without it, figures have their default widths.
    Raises what `read` raises.
    """
    folder = RunFolder(run_dir)
    data = read(run_dir)
    for name, table in data.tables.items():
        folder.write_table(name, table)
    if data.scenario.outputs.plots or width_in is not None:
        _draw(folder, data, {} if width_in is None else {"width_in": width_in})
    folder.write_json("verdict.json", data.verdict.to_json())
    folder.write_text("report.html", write_page(data, _list_files(run_dir)))
    return data.verdict


def read(run_dir: Path) -> RunData:
    """Read a run folder and judge the run; write nothing.

    If a line of the log is not an event, or a plan is not valid, the verdict is `fail` and the
    history ends before it.
    Raises StoreError, and ScenarioErrors if `resolved.yaml` is not a valid scenario.
    """
    folder = RunFolder(run_dir)
    text = folder.read_text("events.jsonl")
    resolved = folder.read_text("resolved.yaml")
    scenario = load(run_dir / "resolved.yaml")
    history, unreadable = _read_history(text, scenario.topology)
    rules = make_rules(scenario)
    if unreadable is None:
        verdict = judging.judge(history, rules)
    else:
        verdict = Verdict.of([Check("the log is readable", "fail", str(unreadable), "lines", 1)])
    history = plan_checks.cut_at_wrong_plan(history, rules)
    return RunData(
        scenario=scenario,
        verdict=verdict,
        history=history,
        tables=_make_tables(scenario, history),
        environment=folder.read_json("environment.json", missing={}),
        given=folder.read_text("scenario.yaml", missing=""),
        resolved=resolved,
        outputs=_read_outputs(run_dir / "log", _list_program_sites(scenario) or ()),
    )


def compare(
    run_dirs: Sequence[Path],
    page_file: Path,
    cells: comparison_page.Cells | None = None,
    labels: Sequence[str] = (),
) -> None:
    """Write the page that compares runs; the first run is the baseline.

    With `cells`, the runs are the first trials of these cells. `labels` name the runs.

    Raises what `read` raises, and StoreError if the page cannot be written.
    """
    folders = [each.resolve() for each in run_dirs]
    text = comparison_page.write_page(folders, list(map(read, run_dirs)), cells, labels)
    RunFolder(page_file.parent).write_text(page_file.name, text)


def make_rules(scenario: Scenario) -> Rules:
    """The rules that the checks apply to a run of this scenario."""
    failover = make_failover(scenario)
    return Rules(
        topology=scenario.topology,
        task_s=scenario.limits.task_s,
        accuracy_percent=scenario.stop.accuracy_percent,
        expected_digest=_make_expected_digest(scenario),
        programs=_list_program_sites(scenario),
        detection_s=failover.patience_s,
        timeout_s=failover.timeout_s,
        controllers=_place_controllers(scenario),
        started=make_header(scenario),
        timeline=scenario.timeline,
        evaluates=scenario.workload.module.EVALUATES,
        frame_bytes=_count_frame_bytes(scenario),
        compute_s=_make_compute_s(scenario),
        layers=_make_layers(scenario),
        stop=scenario.whole_stop,
        barrier=bool(scenario.scheme.policy.options.get("barrier", True)),
        has_paths=scenario.scheme.auxiliary is not None,
        sends_early=scenario.scheme.scatter == "non-blocking",
        expected_input=_make_expected_input(scenario),
        servers=scenario.scheme.servers,
        promises=_read_traits(scenario).promises,
        gives_updates=_read_traits(scenario).gives == "update",
        replay=_make_replay(scenario),
        policy=_make_policy(scenario),
        keeps_windows=_keeps_windows(scenario.network),
        planner=None if scenario.runs_programs else lambda: create_driver(scenario).planner,
        flows=list_flows(scenario.background),
        schedule=functools.partial(schedule, seed=scenario.seed, mtu=scenario.network.mtu),
        time_calls=scenario.runs_programs and bool(scenario.workload.options.get("time_calls")),
        captured=scenario.capture.ends,
    )


def _keeps_windows(network: NetworkOptions) -> bool:
    """Whether a connection that was used sends a chunk at once: its window stays open."""
    is_cubic = network.congestion_control == "cubic"
    return is_cubic and network.connections == 1 and not network.slow_start_after_idle


def _count_frame_bytes(scenario: Scenario) -> int:
    """The bytes of the largest frame that an interface counts, with offloads of several at once."""
    return (65_536 if scenario.network.offloads else scenario.network.mtu) + ETHERNET_HEADER_BYTES


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

    def control_s(site: str) -> float:
        return topology.path_delay_ms(scenario.controller_site, site) / 1e3

    @functools.lru_cache(maxsize=4096)  # most tasks of a run share few plans
    def of_plan(
        forest: str,
        chunk_bytes: int,
        model_bytes: int,
        tensor_bytes: tuple[int, ...],
        active: tuple[Flow, ...],
    ) -> Forecast:
        plan = Plan.from_json(json.loads(forest))
        sizes = chunk_bytes, model_bytes
        left_mbps = leave_rates(topology.rates_mbps(), topology, active)
        left_mbps = {link: rate * share for link, rate in left_mbps.items()}
        fluid_s, delayed_s = (
            estimate(plan, left_mbps, *sizes, waits, discipline, bounds, tensor_bytes, paths)
            for waits in (None, delays_ms)
        )
        told_s = max(map(control_s, plan.participants()))
        return Forecast(
            estimate_s=fluid_s,
            bound_s=bound(plan, rates_mbps, model_bytes),
            latency_s=delayed_s - fluid_s + told_s,
        )

    def forecast(started: TaskStarted) -> Forecast:
        sizes = started.chunk_bytes, started.bytes, started.tensor_bytes
        active = tuple(flow for flow in flows if flow.is_active(started.t_ns / 1e9))
        return of_plan(json.dumps(started.forest), *sizes, active)

    return forecast


def make_sync_bound(scenario: Scenario) -> Callable[[Sync], float | None]:
    """A function that gives an all-reduce's lower bound in seconds; None for other operations."""
    share = payload_share(scenario.network.mtu)
    rates_mbps = {link: rate * share for link, rate in scenario.topology.rates_mbps().items()}

    @functools.cache
    def of_group(group: frozenset[str], size: int) -> float:
        sites = tuple(sorted(group))
        return bound(Plan(sites, sites, 1, ()), rates_mbps, size)

    def of_sync(sync: Sync) -> float | None:
        if sync.operation != "allreduce" or not sync.bytes:
            return None
        return of_group(frozenset(sync.begun_ns), sync.bytes)

    return of_sync


def _read_history(text: str, topology: Topology | None = None) -> tuple[History, EventError | None]:
    """The history up to the first line that is not an event, and the error of that line.

    With a topology, an event must fit it.
    """
    finished = '"run_finished"' in text  # lines are sorted only at the end of a run
    events: list[Event] = []
    unreadable = None
    try:
        read = event_reading.read_each(io.StringIO(text), ordered=finished)
        for number, event in enumerate(read, start=1):
            if topology is not None and (problem := find_misfit(event, topology)):
                raise EventError(f"events.jsonl:{number}: {problem}")
            events.append(event)
    except EventError as error:
        unreadable = error
    return History.of(sorted(events, key=lambda event: event.t_ns)), unreadable


def _list_program_sites(scenario: Scenario) -> tuple[str, ...] | None:
    """The sites that run the scenario's own programs; None if agents run."""
    if not scenario.runs_programs:
        return None
    kind = scenario.workload.module
    return tuple(kind.place_programs(scenario.topology.site_names, scenario.workload.options))


def _place_controllers(scenario: Scenario) -> dict[str, str]:
    """The site of each controller, by the name of the controller."""
    if scenario.runs_programs:
        return {}
    backup = scenario.failover.backup
    return {CONTROLLER: scenario.controller_site, **({BACKUP: backup} if backup else {})}


def _read_traits(scenario: Scenario) -> Traits:
    """What the policy declares about itself."""
    return Traits() if scenario.runs_programs else Traits.of(create_policy(scenario))


def _make_policy(scenario: Scenario) -> Callable[[int], Policy] | None:
    """A function that creates the policy for a term; None if programs run."""
    if scenario.runs_programs:
        return None
    return functools.partial(create_policy, scenario)


def _make_replay(scenario: Scenario) -> Callable[[History], Replay] | None:
    """A function that computes the vectors of a run again; it remembers the last run.

    None unless the workload's contributions have a closed form (`expected`) that only `commit` puts
    into its model.
    """
    kind = scenario.workload.module
    if not hasattr(kind, "expected") or not gives_changes(kind):
        return None
    elements, traits = scenario.model_bytes // ELEMENT_BYTES, _read_traits(scenario)

    def make_pattern(site: str, iteration: int) -> Vector:
        term = Term(scenario.worker_rank(site), iteration, 1.0)
        pattern: Vector = kind.expected(scenario.seed, [(((0, elements),), (term,))], 1.0, elements)
        return pattern

    source = Source(
        elements,
        make_pattern,
        lambda vector: (digest(vector), fingerprint(vector, scenario.scheme.chunk_bytes)),
        kind.is_exact,
        scenario.workers,
        traits.gives == "update",
        traits.accumulates,
    )
    last: list[tuple[History, Replay]] = []

    def of_run(history: History) -> Replay:
        if not last or last[0][0] is not history:
            last[:] = [(history, replay(history, source))]
        return last[0][1]

    return of_run


def _make_compute_s(scenario: Scenario) -> Callable[..., float] | None:
    """A function that gives the modelled seconds of a site's iteration, also of another batch.

    None unless the workload knows them before the run (`compute_times`).
    """
    if scenario.runs_programs or not hasattr(scenario.workload.module, "compute_times"):
        return None
    times = _make_times(scenario)
    return lambda site, iteration, *batch: float(times(site).time_s(iteration, *batch))


def _make_layers(scenario: Scenario) -> Callable[..., LayeredModel] | None:
    """A function that gives the branches of a site's iteration; None if it has none."""
    if scenario.layers is None:
        return None
    times = _make_times(scenario)
    return functools.cache(lambda site, iteration, *batch: times(site).layers(iteration, *batch))


def _make_times(scenario: Scenario) -> Callable[[str], Any]:
    """A function that gives what a workload knows of a site's iterations before the run."""

    @functools.cache
    def times(site: str) -> Any:
        place = scenario.worker_rank(site), scenario.workers, scenario.seed
        return scenario.workload.module.compute_times(*place, **scenario.workload.options)

    return times


def _make_expected_input(
    scenario: Scenario,
) -> Callable[[str, int], tuple[str, tuple[float, ...]]] | None:
    """A function that gives the digest and the fingerprint of a site's contribution.

    None unless the workload's contributions have a closed form (`expected`).
    """
    kind = scenario.workload.module
    if not hasattr(kind, "expected"):
        return None
    elements = scenario.model_bytes // ELEMENT_BYTES

    @functools.lru_cache(maxsize=256)
    def of_iteration(site: str, iteration: int) -> tuple[str, tuple[float, ...]]:
        term = Term(scenario.worker_rank(site), iteration, 1.0)
        model = kind.expected(scenario.seed, [(((0, elements),), (term,))], 1.0, elements)
        return digest(model), fingerprint(model, scenario.scheme.chunk_bytes)

    return of_iteration


def _make_expected_digest(scenario: Scenario) -> Callable[[Task], str | None] | None:
    """A function that gives the digest of a task's exact result.

    None unless the workload's contributions have a closed form (`expected`).
    """
    kind = scenario.workload.module
    if not hasattr(kind, "expected"):
        return None

    def of_task(task: Task) -> str | None:
        started = task.started
        terms = {
            event.site: Term(
                scenario.worker_rank(event.site),
                event.iteration,
                started.weights[event.site],
            )
            for event in task.inputs
        }
        elements = started.bytes // ELEMENT_BYTES
        parts: list[tuple[model_replay.Ranges, Order]] = [(((0, elements),), tuple(terms.values()))]
        if not kind.is_exact(started.weights.values()):
            parts = model_replay.find_orders(task, terms, elements)
        return (
            digest(kind.expected(scenario.seed, parts, started.scale, elements)) if parts else None
        )

    return of_task


def _read_outputs(folder: Path, sites: Sequence[str]) -> programs_section.Outputs:
    """The last LAST_LINES lines of what each program wrote, without streams that are empty."""
    found = {}
    for site in sites:
        for stream in programs_section.STREAMS:
            path = folder / f"{site}.{stream}"
            if path.exists():
                with path.open("rb") as file:
                    file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
                    lines = file.read().decode(errors="replace").splitlines()
                if lines:
                    found[site, stream] = "\n".join(lines[-LAST_LINES:])
    return found


def _make_tables(scenario: Scenario, history: History) -> dict[str, pd.DataFrame]:
    sites = scenario.topology.site_names
    counted = Counted.of(history, scenario.warm_up)
    tasks = tables.tabulate_tasks(
        history, make_forecaster(scenario), make_sync_bound(scenario), counted
    )
    flows = list_flows(scenario.background)
    paths = {"paths": tables.tabulate_paths(history)} if scenario.scheme.auxiliary else {}
    background = {"background": tabulate_background(history, flows)} if flows else {}
    at_servers = {}
    if servers := scenario.scheme.servers:
        at_servers = {
            "updates": tabulate_updates(history, servers),
            "servers": tabulate_servers(
                history, scenario.topology, servers, payload_share(scenario.network.mtu)
            ),
        }
    layers = scenario.layers
    branches = {"branches": tabulate_branches(history, layers)} if layers else {}
    made = {
        "workers": tables.tabulate_workers(history, sites),
        "links": tables.tabulate_links(history, scenario.topology, flows),
        "run": tables.tabulate_run(
            history,
            tasks,
            scenario.workers,
            **at_servers,
            **branches,
            samples=scenario.samples,
            counted=counted,
        ),
    }
    programs = {}
    members = {} if scenario.runs_programs else {"members": tables.tabulate_members(history)}
    if scenario.runs_programs:
        made = leave_out_payload(made)
        placed = scenario.workload.module.place_programs(sites, scenario.workload.options)
        programs = {
            "programs": tabulate_programs(history, placed),
            "traffic": tabulate_traffic(history),
        }
        if scenario.workload.options.get("time_calls") or history.all(CallStarted):
            programs["calls"] = tabulate_calls(history)
    return {
        "tasks": tasks,
        **members,
        **made,
        "accuracy": tables.tabulate_accuracy(history),
        "faults": tabulate_faults(history, scenario.timeline),
        **paths,
        **background,
        **at_servers,
        **branches,
        **programs,
        **(
            awareness_tables.tabulate_awareness(history, scenario)
            if scenario.scheme.awareness
            else {}
        ),
    }


def _list_files(run_dir: Path) -> list[str]:
    """The paths of a run folder's tables, figures and captures."""
    folders = (run_dir / "tables", run_dir / "plots", run_dir / CAPTURES)
    return sorted(
        str(file.relative_to(run_dir)) for folder in folders for file in folder.glob("*.*")
    )


def _draw(folder: RunFolder, data: RunData, width: Mapping[str, Any]) -> None:
    from trunkline.harness.report import (  # matplotlib takes a second to load
        awareness_plots,
        background_plots,
        plots,
    )
    from trunkline.harness.report.updates import update_plots

    scenario, history = data.scenario, data.history
    sites = scenario.topology.site_names
    tasks, accuracy = data.tables["tasks"], data.tables["accuracy"]
    begin_s = Counted.of(history, scenario.warm_up).begin_ns / 1e9
    plots.write(folder, "gantt", plots.draw_gantt(history, sites, warm_up_s=begin_s, **width))
    if len(tasks) > 2 * CLOSE_UP_TASKS:
        until_s = tasks["end_s"].fillna(tasks["start_s"])[:CLOSE_UP_TASKS].max()
        plots.write(
            folder,
            "gantt-start",
            plots.draw_gantt(history, sites, (0.0, until_s), begin_s, **width),
        )
    if len(tasks) or not scenario.runs_programs:
        plots.write(folder, "tasks", plots.draw_task_times(tasks, history.faults, **width))
    nodes = scenario.topology.node_names
    counted = ("tasks" if history.syncs else "the run") if scenario.runs_programs else ""
    figure = plots.draw_links(data.links, nodes, counted, **width)
    plots.write(folder, "links", figure)
    if flows := list_flows(scenario.background):
        figure = background_plots.draw_background(history, flows, scenario.clock, **width)
        plots.write(folder, "background", figure)
    updates = data.tables.get("updates")
    if updates is not None and len(updates) > 1:
        plots.write(folder, "updates", update_plots.draw_updates(updates, **width))
    if (servers := data.tables.get("servers")) is not None:
        figure = update_plots.draw_servers(servers, scenario.clock, history.faults, **width)
        plots.write(folder, "servers", figure)
    if len(accuracy):
        target = scenario.stop.accuracy_percent
        figure = plots.draw_accuracy(accuracy, target, scenario.clock, history.faults, **width)
        plots.write(folder, "accuracy", figure)
    probes = data.tables.get("probes")
    if probes is not None and len(probes):
        conditions = Conditions.of(history, scenario.topology)
        figure = awareness_plots.draw_estimates(
            probes, conditions, scenario.topology, history.active_end_ns / 1e9, **width
        )
        plots.write(folder, "probes", figure)
