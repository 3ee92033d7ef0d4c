"""How set-up time, memory and real time grow with the number of sites, in the embedded kernel.

    python benchmarks/scale.py --sites 5 10 20 40 60 --plot docs/scale.png

For each size: a full mesh at 100 Mbit/s and 30 ms, a small synthetic model, bulk-synchronous
rounds over a star. Set-up lasts from the command to the first round; memory is the guest's largest
proportional set; processor time is that of all the guest's processes. On a busy machine trust the
processor times, not the real ones.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness import runner
from harness.ownership import VARIABLE, Owner
from harness.progress import Progress
from harness.scenario import load

SCENARIO = """
topology: {{builder: full_mesh, sites: {sites}, rates: 100 Mbit/s, delays: 30 ms}}
workload: {{kind: synthetic, model: 1 MB, compute: 0.5 s}}
scheme: {{policy: bsp, plan: star, chunk: 256 KiB}}
stop: {{tasks: {tasks}}}
outputs: {{plots: false}}
"""
PERIOD_S = 0.5


@dataclass(frozen=True, slots=True)
class Row:
    """What one size took; processor time counts what the guest's processes used."""

    sites: int
    links: int
    setup_s: float
    setup_cpu_s: float
    memory_mb: int
    virtual_s: float
    real_per_virtual_s: float
    cpu_per_virtual_s: float


@dataclass(eq=False)
class Meter(threading.Thread):
    """Watches all processes of this owner: processor seconds and the peak of memory."""

    tag: bytes = field(default_factory=lambda: f"{VARIABLE}={Owner.me().tag}".encode())
    cpu_s: dict[int, float] = field(default_factory=dict)
    peak_kb: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        threading.Thread.__init__(self, daemon=True)

    def run(self) -> None:
        """Look twice a second until told to end."""
        while not self.ended.wait(PERIOD_S):
            self.look()

    def look(self) -> float:
        """Processor seconds of all processes so far, also of those that have ended."""
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
    """Measure every size, print the rows as CSV, draw them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, nargs="+", default=[5, 10, 20, 40, 60])
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--plot", type=Path, help="where to draw the rows")
    arguments = parser.parse_args()
    writer = csv.DictWriter(sys.stdout, [*Row.__dataclass_fields__])
    writer.writeheader()
    rows = []
    for sites in arguments.sites:
        rows.append(measured(sites, arguments.tasks))
        writer.writerow({k: round(v, 2) for k, v in asdict(rows[-1]).items()})
        sys.stdout.flush()
        if arguments.plot:
            draw(rows, arguments.plot)


def measured(sites: int, tasks: int) -> Row:
    """Run one size."""
    meter = Meter()
    begun_s = time.monotonic()
    ready: list[tuple[float, float, float]] = []
    last: list[tuple[float, float, float]] = []

    def heard(progress: Progress) -> None:
        if progress.message is None:
            last[:] = [(time.monotonic() - begun_s, meter.look(), progress.virtual_s)]
            ready[:] = ready or last

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
    (real_s, cpu_s, virtual_s), (end_s, end_cpu_s, end_virtual_s) = ready[0], last[0]
    took_s = end_virtual_s - virtual_s
    return Row(
        sites=sites,
        links=sites * (sites - 1) // 2,
        setup_s=real_s,
        setup_cpu_s=cpu_s,
        memory_mb=meter.peak_kb >> 10,
        virtual_s=took_s,
        real_per_virtual_s=(end_s - real_s) / took_s,
        cpu_per_virtual_s=(end_cpu_s - cpu_s) / took_s,
    )


def draw(rows: list[Row], path: Path) -> None:
    """Three small charts over the number of sites."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    panels: list[tuple[str, list[tuple[str, str]]]] = [
        ("set-up, s", [("setup_s", "real"), ("setup_cpu_s", "processor")]),
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
        ax.set(title=title, xlabel="sites", ylim=(0, None))
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
