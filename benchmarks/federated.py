"""Measure what federated clients cost in the embedded kernel, one process for each of them.

    python benchmarks/federated.py --clients 16 32 64 128

Each row is a run of scenarios/paper/r2sp/federated.yaml with so many clients around one server.
Times are real seconds from the start of the command: `ready_s` until all agents are connected and
compute, `real_s` until the run has been judged. Memory is the largest sum of the proportional set
sizes (PSS) of the guest's processes: its kernel, its buffers and all models. Processor time is that
of the same processes. `virtual_s` is the time of the run's clock. On a busy machine (`load_average`
of one minute), processor times are more reliable than real times.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from scale import Meter

from trunkline.harness.live.live_state import Progress
from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "paper" / "r2sp" / "federated.yaml"


TITLES = (
    *("clients", "agents ready, real s", "whole run, real s", "processor s", "memory, MB"),
    *("virtual s", "real s per virtual s", "rounds", "time of a pull, s", "load"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """The costs and the results of one run."""

    clients: int
    ready_s: float
    real_s: float
    processor_s: float
    memory_mb: int
    virtual_s: float
    real_per_virtual_s: float
    rounds: float
    pull_s: float
    load_average: float


def main() -> None:
    """Run every number of clients; print the rows as a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[16, 32, 64, 128])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    arguments = parser.parse_args()
    sys.stdout.write(f"| {' | '.join(TITLES)} |\n|{' --- |' * len(TITLES)}\n")
    for clients in arguments.clients:
        row = measure(clients, arguments.changes)
        values = (f"{value:.4g}" for value in asdict(row).values())
        sys.stdout.write(f"| {' | '.join(values)} |\n")
        sys.stdout.flush()


def measure(clients: int, changes: Sequence[str] = ()) -> Row:
    """Run the scenario with so many clients. Raises RuntimeError if the run does not pass."""
    meter = Meter()
    begun_s = time.monotonic()
    ready: list[float] = []

    def heard(progress: Progress) -> None:
        if progress.message is None and not ready:
            ready.extend((time.monotonic() - begun_s, progress.virtual_s))

    scenario = load(SCENARIO, [f"topology.sites={clients + 1}", "outputs.plots=false", *changes])
    with tempfile.TemporaryDirectory() as folder:
        meter.start()
        try:
            result = runner.run(scenario, SCENARIO, Path(folder), heard)
        finally:
            meter.ended.set()
            meter.join()
        real_s = time.monotonic() - begun_s
        if result.verdict.outcome != "pass":
            raise RuntimeError(f"{clients} clients: {result.verdict.outcome}: {result.error}")
        table = pd.read_csv(result.run_dir / "tables" / "run.csv").iloc[0]
    ready_s, ready_virtual_s = ready
    return Row(
        clients=clients,
        ready_s=ready_s,
        real_s=real_s,
        processor_s=sum(meter.cpu_s.values()),
        memory_mb=meter.peak_kb >> 10,
        virtual_s=table["window_s"],
        real_per_virtual_s=(real_s - ready_s) / (table["window_s"] - ready_virtual_s),
        rounds=table["rounds"],
        pull_s=table["pull_s"],
        load_average=os.getloadavg()[0],
    )


if __name__ == "__main__":
    main()
