"""Measure how often OWL's Algorithm 2 chooses a wrong number of communication groups.

    python benchmarks/owl_groups.py --networks 60
    python benchmarks/owl_groups.py --networks 8 --write networks
    trunkline compare networks/owl3.yaml --vary scheme.groups=null,1,2,3,4

Each network is random: racks of workers around a server, and a model of bases with parallel
branches. A run with each number of groups is simulated in the fluid model of a run, with delays.
The number with the shortest step, on average over the workers, is right. A choice is wrong if its
step takes 0.1 % longer.
`whole messages` is a choice by the model of `agents/distribution/step.py`, `chunks` that of the
plan `owl`. With `--write` the scenarios of the networks are written, and nothing is simulated.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import cells

from trunkline.agents.control.planner import make_request
from trunkline.agents.distribution import owl
from trunkline.agents.distribution.grouping import group_evenly
from trunkline.agents.distribution.handout_plan import measure_cluster
from trunkline.agents.distribution.step import compute_forward_end
from trunkline.agents.plans import owl as owl_plan
from trunkline.agents.plans.ps import find_shards
from trunkline.harness.fluid import fluid_run
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.loading import load

TITLES = ("choice by the model of", "wrong", "mean loss, %", "worst loss, %")
WRONG = 1.001


@dataclass(frozen=True, slots=True)
class Choices:
    """The time of a step with each number of groups, and what two models choose."""

    step_s: dict[int, float]
    whole: int
    chunks: int

    def compute_losses(self) -> tuple[float, float]:
        """The times with both choices over the best one."""
        best_s = min(self.step_s.values())
        return self.step_s[self.whole] / best_s, self.step_s[self.chunks] / best_s


def make_scenario(seed: int) -> tuple[str, str]:
    """The text of a scenario, and of its table of branches."""
    rng = random.Random(f"owl's groups {seed}")
    switches = rng.random() < 0.5
    uplink = f", server_rate: {rng.randint(20, 200)} Mbit/s" if switches else ""
    rows = ["base,branch,parameter_bytes,forward_us,backward_us"]
    bases = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
    bases[rng.randrange(len(bases))] = rng.randint(2, 5)
    for base, branches in enumerate(bases):
        for branch in range(branches):
            size, forward_us = 4 * rng.randint(5_000, 100_000), rng.choice([0, 300, 1000, 3000])
            rows.append(f"base{base},branch{branch},{size},{forward_us},{2 * forward_us}")
    return (
        f"""\
topology:
  {{builder: racks, racks: {rng.randint(1, 3)}, sites_per_rack: {rng.randint(2, 5)}, server: true,
  intra_rate: {rng.randint(50, 200)} Mbit/s, alpha: {rng.choice([0.2, 0.5, 1.0])},
  switches: {str(switches).lower()}{uplink}}}
workload: {{kind: layered, table: owl{seed}.csv, batch: {rng.choice([1, 8, 32])}}}
scheme: {{policy: ps, plan: owl, servers: [server], chunk: {rng.choice([16, 64])} KiB}}
stop: {{rounds: 2}}
""",
        "\n".join(rows) + "\n",
    )


def write_network(seed: int, folder: Path) -> Path:
    """Write the files of a network; returns the scenario."""
    text, table = make_scenario(seed)
    (folder / f"owl{seed}.csv").write_text(table)
    file = folder / f"owl{seed}.yaml"
    file.write_text(text)
    return file


def try_network(file: Path) -> Choices:
    """The steps and choices of a network."""
    scenario = load(file, seed=1)
    settings = planning.controller_settings(scenario)
    everywhere = settings.sites, settings.rates_mbps
    request = make_request(settings, *everywhere, random.Random(0))
    layers = request.layers
    assert layers is not None
    cluster = measure_cluster(request, find_shards(request))

    def end_whole(count: int) -> float:
        made = owl.build(layers, cluster.workers, count, group_evenly, owl.centralize)
        return compute_forward_end(layers, made, cluster)

    counts = owl.count_groups(layers, cluster.workers)
    chunks = int(owl_plan.describe_choice(request).split()[0])
    step_s = {count: simulate(file, count) for count in counts}
    return Choices(step_s, min(counts, key=end_whole), chunks)


def simulate(file: Path, groups: int) -> float:
    """The time of a step with so many groups, in seconds."""
    scenario = load(file, [f"scheme.groups={groups}"], seed=1)
    found = fluid_run.predict(scenario, delays=True)
    assert found is not None
    return found.step_s


def main() -> None:
    """Try all networks; print the table and, on standard error, a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", type=int, default=60, metavar="N")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="only write the scenarios")
    arguments = parser.parse_args()
    if arguments.write is not None:
        arguments.write.mkdir(parents=True, exist_ok=True)
        for seed in range(arguments.networks):
            write_network(seed, arguments.write)
        return
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.networks):
            found = try_network(write_network(seed, Path(folder)))
            losses.append(found.compute_losses())
            steps = ", ".join(f"{count}: {s:.4f} s" for count, s in found.step_s.items())
            chosen = f"whole messages {found.whole}, chunks {found.chunks}"
            sys.stderr.write(f"network {seed}: {steps}; {chosen}\n")
    rows = [
        summarize(name, [each[index] for each in losses])
        for index, name in enumerate(("whole messages", "chunks"))
    ]
    sys.stdout.write(cells.write_table(TITLES, rows))


def summarize(name: str, losses: list[float]) -> list[str]:
    """The row of a model, from the times with its choices over the best ones."""
    mean, worst = (100 * (value - 1) for value in (sum(losses) / len(losses), max(losses)))
    wrong = sum(loss > WRONG for loss in losses)
    return [name, f"{wrong} of {len(losses)}", f"{mean:.2f}", f"{worst:.1f}"]


if __name__ == "__main__":
    main()
