"""Measure every plan's task times relative to estimate and bound, in the embedded kernel.

    python benchmarks/efficiency.py                                   nine sites, 50 MB, all plans
    python benchmarks/efficiency.py --sites 9 16 --sizes 20 200 --plans crew ring --csv out.csv

The network is a full mesh with CREW's N2 rates and 30 ms. The same few sites synchronize again and
again, one task at a time, and all sites help. The first task has cold connections; "warm" is the
median of the later half. `optimum` is the time of the busiest link with the best shares for CREW's
stars and infinitely small chunks, which `split: pipelined` approaches.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import pandas as pd

from trunkline.agents import registry
from trunkline.agents.plans.crew import solve_pipelined
from trunkline.harness.commands.terminal import parse_count
from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.network.interface import payload_share
from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load
from trunkline.harness.scenario.settings import Scenario

ROOT = Path(__file__).resolve().parents[1]

GROUP = {9: 5, 16: 4}
"""Number of sites -> how many of them synchronize: about half, and the paper's (16, 4)."""

SCENARIO = """
seed: 1
topology: {{builder: full_mesh, sites: {sites}, rates: n2, delays: 30 ms}}
workload: {{kind: synthetic, model: {size} MB, compute: 0.5 s, slowdown: {{{idle}}}}}
scheme: {{policy: preduce, p: {group}, plan: {plan}}}
stop: {{tasks: {tasks}}}
limits: {{run: 10 h, task: 1 h}}
failover: {{heartbeat: 60 s, timeout: 240 s}}
outputs: {{plots: false}}
"""
IDLE_FACTOR = 4000
"""Sites outside the group compute so many times longer that they never join a task.

The run lasts until they have finished. That is why the scenario has a long heartbeat: frequent
signs of life would cost more than the tasks.
"""


TITLES = (
    *("plan", "sites", "model", "warm task, s", "cold / expected"),
    *("warm / expected", "warm / estimate", "warm / bound", "warm / optimum"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One plan: the seconds of a warm task, and ratios of measured times to other times."""

    sites: int
    group: int
    model_mb: int
    plan: str
    warm_s: float
    cold_by_expected: float
    warm_by_expected: float
    warm_by_estimate: float
    warm_by_bound: float
    warm_by_optimum: float


def main() -> None:
    """Measure all combinations; print each row of a Markdown table at once."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, nargs="+", default=[9], choices=sorted(GROUP))
    plans = sorted(registry.plans())
    parser.add_argument(
        "--sizes", type=parse_count, nargs="+", default=[50], help="of the model, in MB"
    )
    parser.add_argument("--plans", nargs="+", default=plans, choices=plans)
    parser.add_argument("--tasks", type=parse_count, default=4)
    parser.add_argument("--set", action="append", default=[], metavar="KEY.PATH=VALUE")
    parser.add_argument("--csv", type=Path, help="where to write the rows")
    arguments = parser.parse_args()
    rows = []
    _say(f"| {' | '.join(TITLES)} |")
    _say("|" + " --- |" * len(TITLES))
    for sites in arguments.sites:
        for size_mb in arguments.sizes:
            for plan in arguments.plans:
                row = measure(sites, size_mb, plan, arguments.tasks, arguments.set)
                rows.append(row)
                _show(row)
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*Row.__dataclass_fields__])
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)


def measure(sites: int, size_mb: int, plan: str, tasks: int, changes: list[str]) -> Row:
    """Run one plan with a model of `size_mb` MB. Raises RuntimeError if the run does not pass."""
    group = GROUP[sites]
    idle = ", ".join(f"n{rank}: {IDLE_FACTOR}" for rank in range(group + 1, sites + 1))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "efficiency.yaml")
        source.write_text(
            SCENARIO.format(
                sites=sites, size=size_mb, plan=plan, group=group, tasks=tasks, idle=idle
            )
        )
        try:
            scenario = load(source, changes)
        except ScenarioErrors as errors:
            raise SystemExit(str(errors)) from None
        result = runner.run(scenario, source, Path(folder, "runs"), lambda _: None)
        if result.verdict.outcome != "pass":
            raise RuntimeError(f"{plan}: {result.verdict.outcome}: {result.error}")
        table = pd.read_csv(result.run_dir / "tables" / "tasks.csv")
    warm = table[len(table) // 2 :]
    expected_s = table["estimate_s"] + table["latency_s"]
    by_expected = table["duration_s"] / expected_s
    optimum = _compute_optimum_s(scenario, table["group"][0].split(), size_mb * 1e6)
    return Row(
        sites=sites,
        group=group,
        model_mb=size_mb,
        plan=plan,
        warm_s=median(warm["duration_s"]),
        cold_by_expected=by_expected[0],
        warm_by_expected=median(by_expected[warm.index]),
        warm_by_estimate=median(warm["duration_s"] / warm["estimate_s"]),
        warm_by_bound=median(warm["duration_s"] / warm["bound_s"]),
        warm_by_optimum=median(warm["duration_s"]) / optimum,
    )


def _compute_optimum_s(scenario: Scenario, group: list[str], model_bytes: float) -> float:
    """The seconds of the busiest link with the shares of `solve_pipelined`."""
    share = payload_share(scenario.network.mtu)
    names = scenario.topology.site_names
    rates = {(at.src, at.dst): at.rate_mbps * share for at in scenario.topology.links}
    shares = solve_pipelined(names, group, rates)
    busiest = max(
        (shares[dst] * (src in group) + shares[src] * (dst in group)) / rate
        for (src, dst), rate in rates.items()
    )
    return busiest * model_bytes * 8e-6


def _show(row: Row) -> None:
    ratios = (
        row.cold_by_expected,
        row.warm_by_expected,
        row.warm_by_estimate,
        row.warm_by_bound,
        row.warm_by_optimum,
    )
    cells = [row.plan, f"{row.group} of {row.sites}", f"{row.model_mb} MB", f"{row.warm_s:.2f}"]
    _say(f"| {' | '.join([*cells, *(f'{ratio:.2f}' for ratio in ratios)])} |")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
