"""The output of `trunkline show` and `trunkline list`."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from trunkline.harness.background.flows import list_flows
from trunkline.harness.config import document, units
from trunkline.harness.config.options import render
from trunkline.harness.config.units import (
    RATE_MBPS,
    SHARE_PERCENT,
    SIZE_BYTES,
    TIME_MS,
    TIME_S,
    Dimension,
    short,
    split_name,
)
from trunkline.harness.faults.fault_syntax import write
from trunkline.harness.faults.fault_types import VERBS
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.processes.ownership import Owner
from trunkline.harness.scenario.extensions import discover, summarize
from trunkline.harness.scenario.reader import SCHEMES
from trunkline.harness.scenario.settings import Component, Scenario
from trunkline.topologies.model import Link, Topology

if TYPE_CHECKING:
    from trunkline.harness.study.fluid_run import Expectation

Line = tuple[str, str]
"""A name and its description."""

LINE_CHARACTERS = 100
"""The longest text of a timeline's entry: a trace may have thousands of letters."""


def describe_scenario(scenario: Scenario) -> Table:
    """A table of everything but the network, with a line per section."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    warms_up = scenario.warm_up.unit is not None
    rows = {
        "scenario": f"{scenario.name}: {scenario.description}".rstrip(": "),
        "where": f"{scenario.backend} kernel, {scenario.clock} clock, seed {scenario.seed}",
        "workload": _format_component(scenario.workload),
        **({} if scenario.runs_programs else _describe_scheme(scenario)),
        "network": _format_pairs(render(scenario.network, None)),
        "stop": _format_pairs(render(scenario.stop, None)),
        **({"warm-up": _format_pairs(render(scenario.warm_up, None))} if warms_up else {}),
        "failover": _format_pairs(render(scenario.failover, None)),
        "limits": _format_pairs(render(scenario.limits, None)),
        "timeline": "\n".join(map(_format_entry, scenario.timeline)) or "nothing",
        **({"background": _list_flows(scenario)} if scenario.background else {}),
    }
    for name, text in rows.items():
        table.add_row(name, text.replace("[", r"\["))
    return table


def describe_prediction(found: Expectation) -> str:
    """What the fluid model predicts, a value per line, without values that it does not know."""
    known = {name: value for name, value in asdict(found).items() if not math.isnan(value)}
    times = {name for name in known if name.endswith("_s") and not name.endswith("_per_s")}
    return "".join(
        f"{name:<13}  {value:.4g}{' s' if name in times else ''}\n" for name, value in known.items()
    )


def _describe_scheme(scenario: Scenario) -> dict[str, str]:
    """The lines about what the agents do."""
    scheme = scenario.scheme
    tensors = scenario.tensor_bytes
    return {
        "model": f"{short(scenario.model_bytes, SIZE_BYTES)} in {scenario.cut.count} chunks "
        f"of {'up to ' if tensors else ''}{units.render(scheme.chunk_bytes, SIZE_BYTES)}"
        f"{f', {len(tensors)} tensors' if tensors else ''}",
        "policy": _format_component(scheme.policy),
        "plan": _format_component(scheme.plan),
        "links": f"{scheme.discipline}, {scheme.scatter} scatter, "
        f"{scheme.rates} rates, configured to {scheme.rate_error_percent:g} %",
        "awareness": _format_pairs(render(scheme.awareness, None)) if scheme.awareness else "off",
        "auxiliary": _format_pairs(render(scheme.auxiliary, None)) if scheme.auxiliary else "off",
        "controller": f"at {scenario.controller_site}",
    }


def _list_flows(scenario: Scenario) -> str:
    """A line per flow of background traffic."""
    return "\n".join(
        f"{flow.src} -> {flow.dst}: {flow.entry.kind}, {short(flow.entry.mean_mbps, RATE_MBPS)}"
        for flow in list_flows(scenario.background)
    )


def list_sites(topology: Topology) -> Table:
    """A table of sites, with the total rates of their outgoing and incoming links."""
    table = Table("rank", "site", "region", "links", "out", "in", title=f"{topology.name}: sites")
    for rank, site in enumerate(topology.sites):
        near = topology.neighbours(site.name)
        out = sum(topology.link(site.name, other).rate_mbps for other in near)
        into = sum(topology.link(other, site.name).rate_mbps for other in near)
        table.add_row(
            str(rank),
            site.name,
            site.region,
            str(len(near)),
            short(out, RATE_MBPS),
            short(into, RATE_MBPS),
        )
    return table


def list_links(topology: Topology) -> Table:
    """A table of pairs of neighbours, with the values of both directions."""
    columns = ["a", "b", "rate a->b", "rate b->a", "delay", "jitter", "loss", "queue"]
    bursts = any(link.burst != 1.0 for link in topology.links)
    table = Table(*columns, *(["burst"] if bursts else ()), title=f"{topology.name}: links")
    for link in topology.links:
        if topology.rank(link.src) < topology.rank(link.dst):
            back = topology.link(link.dst, link.src)
            lengths = dict.fromkeys((f"{link.burst:g}", f"{back.burst:g}"))
            table.add_row(*_format_link(link, back), *([" / ".join(lengths)] if bursts else ()))
    return table


def _format_entry(entry: Entry) -> str:
    text = write(entry.fault)
    cut = text if len(text) <= LINE_CHARACTERS else f"{text[: LINE_CHARACTERS - 3]}..."
    return f"{short(entry.at_s, TIME_S)}: {cut}"


def list_extensions(kind: str) -> Iterator[Line]:
    """The topologies, plans, policies or workloads, with the first lines of their docstrings."""
    for name, module in getattr(discover(), kind).items():
        yield name, summarize(module)


def list_schemes() -> Iterator[Line]:
    """The schemes, each with the keys that it sets."""
    for name, values in SCHEMES.items():
        yield name, _format_pairs(dict(values))


def list_faults() -> Iterator[Line]:
    """The faults of timelines and of the shell, with the first lines of their help."""
    for verb, fault in VERBS.items():
        yield verb, (fault.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def list_scenarios(folder: Path) -> Iterator[Line]:
    """The scenario files below a folder, with their descriptions."""
    for path in sorted(folder.rglob("*.yaml")):
        data = document.read(path.read_text(encoding="utf-8", errors="replace"), str(path)).data
        if isinstance(data, dict) and "topology" in data:
            text = str(data.get("description", ""))
            yield str(path), text[:1].upper() + text[1:]


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in the folder of runs; a value that is not written yet is None.

    Attributes:
        verdict: the outcome, or that there is none yet.
        tasks: how many were completed.
        task_s: their mean duration, in seconds.
    """

    folder: str
    verdict: str
    policy: str | None
    plan: str | None
    seed: int | None
    tasks: int | None
    task_s: float | None


def list_runs(folder: Path) -> Iterator[ListedRun]:
    """Every run in the folder of runs, oldest first."""
    found = (path for path in folder.glob("*/*") if path.is_dir() and not path.is_symlink())
    for path in sorted(found, key=lambda path: (path.name, path.parent.name)):
        header = _read_header(path)
        policy, plan, seed = (header.get(key) for key in ("policy", "plan", "seed"))
        tasks, task_s = _read_tasks(path)
        yield ListedRun(str(path), _read_verdict(path), policy, plan, seed, tasks, task_s)


def describe_run(run: ListedRun) -> str:
    """The verdict, the scheme, the seed, and the tasks, as far as they are known."""
    parts = [
        *([f"{run.policy}, {run.plan}"] if run.policy else ()),
        *([f"seed {run.seed}"] if run.seed is not None else ()),
        *([f"{run.tasks} tasks"] if run.tasks is not None else ()),
        *([f"{short(run.task_s, TIME_S)} each"] if run.task_s is not None else ()),
    ]
    return f"{run.verdict:<8}  {', '.join(parts)}".rstrip()


def is_running(run_dir: Path) -> bool:
    """Whether the run's process is alive and there is no verdict yet."""
    owner = Owner.of_run(run_dir)
    return bool(owner and owner.alive()) and not (run_dir / "verdict.json").exists()


def _read_verdict(run_dir: Path) -> str:
    try:
        text = (run_dir / "verdict.json").read_text(encoding="utf-8")
        return str(json.loads(text)["verdict"])
    except (OSError, ValueError, KeyError, TypeError):
        return "running" if is_running(run_dir) else "not finished"


def _read_header(run_dir: Path) -> dict[str, Any]:
    """The first line of the event log, which says what was run; empty if there is none."""
    try:
        with (run_dir / "events.jsonl").open(encoding="utf-8") as log:
            header = json.loads(log.readline())
    except (OSError, ValueError):
        return {}
    return header if isinstance(header, dict) else {}


def _read_tasks(run_dir: Path) -> tuple[int | None, float | None]:
    """How many tasks were completed, and their mean duration in seconds."""
    try:
        with (run_dir / "tables" / "run.csv").open(encoding="utf-8", newline="") as table:
            row = next(csv.DictReader(table))
        return int(row["tasks"]), float(row["task_s"]) if row["task_s"] else None
    except (OSError, ValueError, KeyError, StopIteration):
        return None, None


def _format_component(component: Component) -> str:
    options = {}
    for name, value in component.options.items():
        key, dimension = split_name(name)
        options[key] = render(value, dimension)
    return f"{component.kind}  {_format_pairs(options)}".rstrip()


def _format_pairs(values: dict[str, object]) -> str:
    """Key and value of everything that is not None."""
    shown = (f"{k}: {document.show(v)}" for k, v in values.items() if v is not None)
    return ", ".join(shown)


def _format_link(link: Link, back: Link) -> list[str]:
    def both(there: float, here: float, dimension: Dimension) -> str:
        texts = [short(value, dimension) for value in (there, here)]
        return texts[0] if texts[0] == texts[1] else " / ".join(texts)

    return [
        link.src,
        link.dst,
        short(link.rate_mbps, RATE_MBPS),
        short(back.rate_mbps, RATE_MBPS),
        both(link.delay_ms, back.delay_ms, TIME_MS),
        both(link.jitter_ms, back.jitter_ms, TIME_MS),
        both(link.loss_percent, back.loss_percent, SHARE_PERCENT),
        both(link.queue_bytes or 0, back.queue_bytes or 0, SIZE_BYTES),
    ]
