"""Measure what a prediction costs, by the number of sites.

    python benchmarks/predict_scale.py --clients 60 300 1000 5000 --mesh 60 200

A row is `trunkline predict` in a process of its own: clients of
scenarios/paper/r2sp/federated.yaml around one server, or scenarios/partial_reduce.yaml as a full
mesh. The times are processor seconds: to load the scenario, for the model itself, and to write the
tables, the figures and the page. Memory is the largest resident size of the process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from trunkline.harness.fluid import fluid_run
from trunkline.harness.scenario.loading import load
from trunkline.harness.study.prediction import predictions

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
STAR, MESH = SCENARIOS / "paper" / "r2sp" / "federated.yaml", SCENARIOS / "partial_reduce.yaml"

TITLES = (
    *("network", "sites", "links", "virtual s", "events", "loading, s", "model, s", "whole, s"),
    "memory, MB",
)


def main() -> None:
    """Predict every network; print the rows as a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, nargs="*", default=[60, 300, 1000, 5000])
    parser.add_argument("--mesh", type=int, nargs="*", default=[60, 200])
    arguments = parser.parse_args()
    networks = [("star", STAR, clients + 1) for clients in arguments.clients]
    networks += [("full mesh", MESH, sites) for sites in arguments.mesh]
    sys.stdout.write(f"| {' | '.join(TITLES)} |\n|{' --- |' * len(TITLES)}\n")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as processes:
        for network in networks:
            row = processes.submit(measure, *network).result()
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()


def measure(name: str, file: Path, sites: int) -> tuple[str, ...]:
    """Predict a scenario with so many sites; the texts of its row."""
    scenario = load(file, [f"topology.sites={sites}"])
    loaded_s = time.process_time()
    events = fluid_run.predict_events(scenario)
    modelled_s = time.process_time()
    virtual_s = events[-1].t_ns / 1e9
    del events
    again_s = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        made = predictions.predict(scenario, file, Path(folder))
        count = made.run_dir.joinpath("events.jsonl").read_bytes().count(b"\n")
    model_s = modelled_s - loaded_s
    whole_s = loaded_s + time.process_time() - again_s
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    numbers = (virtual_s, count, loaded_s, model_s, whole_s, memory_mb)
    texts = (f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in numbers)
    return (name, f"{sites}", f"{len(scenario.topology.links)}", *texts)


if __name__ == "__main__":
    main()
