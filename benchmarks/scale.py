"""Measure set-up time, memory and real time over the number of sites, in the embedded kernel.

    python benchmarks/scale.py --sites 5 10 20 40 60 --plot docs/scale.png

Each size is a full mesh at 100 Mbit/s and 30 ms with a small synthetic model and bulk-synchronous
rounds over a star. Times count from the start of the command: `network_s` until all links are
created and shaped, `ready_s` until all agents are connected and compute. Memory is the largest sum
of the proportional set sizes (PSS) of the guest's processes, including its kernel, its buffers and
all models. Processor time is that of the same processes. On a busy machine (`load_average` of one
minute), processor times are more reliable than real times, but also affected: caches are shared.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trunkline.harness.live.live_state import Progress
from trunkline.harness.processes.ownership import VARIABLE, Owner
from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load

SCENARIO = """
topology: {{builder: full_mesh, sites: {sites}, rates: 100 Mbit/s, delays: 30 ms}}
workload: {{kind: synthetic, model: 1 MB, compute: 0.5 s}}
scheme: {{policy: bsp, plan: star, chunk: 256 KiB}}
stop: {{tasks: {tasks}}}
outputs: {{plots: false}}
"""
PERIOD_S = 2.0


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one size; processor time is that of the guest's processes."""

    sites: int
    links: int
    network_s: float
    network_cpu_s: float
    ready_s: float
    ready_cpu_s: float
    memory_mb: int
    virtual_s: float
    real_per_virtual_s: float
    cpu_per_virtual_s: float
    load_average: float


@dataclass(eq=False)
class Meter(threading.Thread):
    """Watches all processes of this owner: their processor seconds and peak memory."""

    tag: bytes = field(default_factory=lambda: f"{VARIABLE}={Owner.me().tag}".encode())
    cpu_s: dict[int, float] = field(default_factory=dict)
    peak_kb: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        threading.Thread.__init__(self, daemon=True)

    def run(self) -> None:
        """Look every PERIOD_S seconds until `ended` is set."""
        while not self.ended.wait(PERIOD_S):
            self.look()

    def look(self) -> float:
        """Update the values; return the processor seconds of all processes, ended ones too."""
        total_kb = 0
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                if self.tag not in (process / "environ").read_bytes().split(b"\0"):
                    continue
                used = (process / "schedstat").read_text().split()[0]
                self.cpu_s[int(process.name)] = int(used) / 1e9
                rollup = (process / "smaps_rollup").read_text()
                total_kb += int(rollup.partition("\nPss:")[2].split()[0])
        self.peak_kb = max(self.peak_kb, total_kb)
        return sum(self.cpu_s.values())


def main() -> None:
    """Measure every size; print the rows as a Markdown table, and draw them with `--plot`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, nargs="+", default=[5, 10, 20, 40, 60])
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--plot", type=Path, help="where to draw the rows")
    arguments = parser.parse_args()
    names = [*Row.__dataclass_fields__]
    sys.stdout.write(f"| {' | '.join(names)} |\n|{' --- |' * len(names)}\n")
    rows = []
    for sites in arguments.sites:
        rows.append(measure(sites, arguments.tasks))
        values = (f"{value:.4g}" for value in asdict(rows[-1]).values())
        sys.stdout.write(f"| {' | '.join(values)} |\n")
        sys.stdout.flush()
        if arguments.plot:
            draw(rows, arguments.plot)


def measure(sites: int, tasks: int) -> Row:
    """Run one size. Raises RuntimeError if the run does not pass."""
    meter = Meter()
    begun_s = time.monotonic()
    seen: dict[str, tuple[float, float, float]] = {}

    def heard(progress: Progress) -> None:
        at = f"{progress.tasks} tasks" if progress.message is None else progress.message
        if at not in seen:  # a look costs time
            seen[at] = (time.monotonic() - begun_s, meter.look(), progress.virtual_s)

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "scale.yaml")
        source.write_text(SCENARIO.format(sites=sites, tasks=tasks))
        scenario = load(source)
        meter.start()
        try:
            result = runner.run(scenario, source, Path(folder, "runs"), heard)
        finally:
            meter.ended.set()
            meter.join()
    if result.verdict.outcome != "pass":
        raise RuntimeError(f"{sites} sites: {result.verdict.outcome}: {result.error}")
    network_s, network_cpu_s, _ = seen["starting the agents"]
    ready_s, ready_cpu_s, ready_virtual_s = seen["0 tasks"]
    last_s, last_cpu_s, last_virtual_s = seen[f"{tasks} tasks"]
    took_s = last_virtual_s - ready_virtual_s
    return Row(
        sites=sites,
        links=sites * (sites - 1) // 2,
        network_s=network_s,
        network_cpu_s=network_cpu_s,
        ready_s=ready_s,
        ready_cpu_s=ready_cpu_s,
        memory_mb=meter.peak_kb >> 10,
        virtual_s=took_s,
        real_per_virtual_s=(last_s - ready_s) / took_s,
        cpu_per_virtual_s=(last_cpu_s - ready_cpu_s) / took_s,
        load_average=os.getloadavg()[0],
    )


def draw(rows: list[Row], path: Path) -> None:
    """Draw three small charts over the number of sites."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    panels: list[tuple[str, list[tuple[str, str]]]] = [
        (
            "set-up, s",
            [
                ("ready_s", "agents ready, real"),
                ("ready_cpu_s", "agents ready, processor"),
                ("network_cpu_s", "network up, processor"),
            ],
        ),
        ("memory, MB", [("memory_mb", "guest")]),
        (
            "s per virtual second",
            [("real_per_virtual_s", "real"), ("cpu_per_virtual_s", "processor")],
        ),
    ]
    ax: Any
    for ax, (title, lines) in zip(axes, panels, strict=True):
        for name, label in lines:
            ax.plot([r.sites for r in rows], [getattr(r, name) for r in rows], "o-", label=label)
        ax.set(title=title, xlabel="sites", ylim=(0, 1.3 * ax.get_ylim()[1]))  # for the legend
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
