"""Measure the effect of offloads and packet size on accuracy and on the cost of a run.

    python benchmarks/packets.py

For each combination of `network.offloads` and `network.mtu`, in the embedded kernel with the
virtual clock, it measures the worst errors of `trunkline bench fidelity` on six links, and the time
of a synchronization over a full mesh with and without random loss. The cost is that of the run
without loss: the guest's processor seconds per GB on its links, including start and end of the run.
The host may be busy.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import pandas as pd
from scale import Meter

from trunkline.harness.live.live_state import Progress
from trunkline.harness.measure import self_check
from trunkline.harness.measure.judge import find_worst
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load, parse

LINKS = """
name: packets
topology:
  builder: explicit
  sites: [hub, slow, fast, lossy]
  links:
  - {src: hub, dst: slow, rate: 20 Mbit/s, delay: 30 ms}
  - {src: slow, dst: hub, rate: 20 Mbit/s, delay: 30 ms}
  - {src: hub, dst: fast, rate: 1 Gbit/s, delay: 1 ms}
  - {src: fast, dst: hub, rate: 1 Gbit/s, delay: 1 ms}
  - {src: hub, dst: lossy, rate: 100 Mbit/s, delay: 10 ms, loss: 1 %}
  - {src: lossy, dst: hub, rate: 100 Mbit/s, delay: 10 ms, loss: 1 %}
workload: {kind: synthetic}
stop: {rounds: 1}
"""
MESH = """
topology: {builder: full_mesh, sites: 6, rates: 200 Mbit/s, delays: 20 ms}
workload: {kind: synthetic, model: 20 MB, compute: 0.5 s}
scheme: {policy: bsp, plan: a2a}
stop: {tasks: 6}
outputs: {plots: false}
"""
COLD_TASKS = 2
LOSS = "topology.loss=0.1 %"
OFFLOADS = ("off", "on")
MTUS = (1500, 9000)
"""Packets in wide-area networks are not larger; offloads show the effect of 64 KB at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one combination. Task times are means of the warm tasks.

    `goodput_error_percent` is the worst error of links without loss, relative to the rate minus
    headers. `beyond` names the quantities whose errors exceed their bars.
    """

    offloads: str
    mtu: int
    goodput_error_percent: float
    beyond: str
    task_s: float
    lossy_task_s: float
    carried_gb: float
    cpu_s_per_gb: float


def main() -> None:
    """Measure every combination; print the rows as CSV."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--offloads", nargs="+", default=OFFLOADS, choices=OFFLOADS)
    parser.add_argument("--mtus", type=int, nargs="+", default=MTUS, metavar="BYTES")
    arguments = parser.parse_args()
    writer = csv.DictWriter(sys.stdout, [*Row.__dataclass_fields__])
    writer.writeheader()
    for row in measure_all(arguments.offloads, arguments.mtus):
        writer.writerow({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()})
        sys.stdout.flush()


def measure_all(all_offloads: list[str], mtus: list[int]) -> Iterator[dict[str, str | int | float]]:
    """A row for each combination."""
    for offloads, mtu in product(all_offloads, mtus):
        changes = [f"network.offloads={str(offloads == 'on').lower()}", f"network.mtu={mtu}"]
        with tempfile.TemporaryDirectory() as folder:
            goodput_error, beyond = measure_links(Path(folder), changes)
            task_s, carried_gb, cpu_s = measure_sync(Path(folder, "clean"), changes)
            lossy_task_s, _, _ = measure_sync(Path(folder, "lossy"), [*changes, LOSS])
        yield asdict(
            Row(
                offloads=offloads,
                mtu=mtu,
                goodput_error_percent=goodput_error,
                beyond=beyond,
                task_s=task_s,
                lossy_task_s=lossy_task_s,
                carried_gb=carried_gb,
                cpu_s_per_gb=cpu_s / carried_gb,
            )
        )


def measure_links(home: Path, changes: list[str]) -> tuple[float, str]:
    """The worst goodput error in percent, and the quantities whose errors exceed their bars."""
    scenario = parse(LINKS, "packets", changes)
    folder = RunFolder(home / "links")
    folder.prepare("tables", "plots")
    found = self_check.check(scenario, folder, lambda *_: None, with_foreign=False)
    goodput = find_worst(row for row in found.readings if row.quantity == "goodput")
    missed = [row.quantity for row in found.readings if row.outcome not in ("pass", None)]
    assert goodput is not None
    assert goodput.error is not None
    return goodput.error, " ".join(dict.fromkeys(missed))


def measure_sync(home: Path, changes: list[str]) -> tuple[float, float, float]:
    """Run the mesh; return the mean seconds of a warm task, GB on links, and processor seconds."""
    home.mkdir()
    source = home / "mesh.yaml"
    source.write_text(MESH)
    meter = Meter()

    def look(_: Progress) -> None:
        meter.look()

    meter.start()
    try:
        result = runner.run(load(source, changes), source, home / "runs", look)
    finally:
        cpu_s = meter.look()
        meter.ended.set()
        meter.join()
    if result.verdict.outcome != "pass":
        raise RuntimeError(f"{changes}: {result.verdict.outcome}: {result.error}")
    tables = result.run_dir / "tables"
    tasks = pd.read_csv(tables / "tasks.csv")["duration_s"]
    carried_bytes = pd.read_csv(tables / "links.csv")["interface_bytes"].sum()
    return float(tasks[COLD_TASKS:].mean()), carried_bytes / 1e9, cpu_s


if __name__ == "__main__":
    main()
