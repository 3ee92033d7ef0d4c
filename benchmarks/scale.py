"""Measure what runs cost over the number of sites, in the embedded kernel.

    python benchmarks/scale.py --sites 16 64 128 256 512 1000 2000 --forms 1 all
    python benchmarks/scale.py --shape full_mesh --sites 5 10 20 40 60 80 --forms 1 --rounds 2

Each row is a run with its verdict, tables and page. `star` is `scenarios/thousand.yaml`: a server
and so many federated clients. `full_mesh` has links of 100 Mbit/s and 30 ms, and bulk-synchronous
rounds of a model of 1 MB over a star. A form is a value of `agents.per_process`: with `1` each
agent has a process of its own, with `all` they share one.

Times count from the start of the command, those until the agents are `ready` (connected, and
computing) too. Processor times are those of all processes of the run: `kernel` of the guest's
kernel, which moves packets, `session` of the session, which builds the network, `agents` of the
agents and their controller, `judging` of reading the log, the verdict and the tables, `page` of the
page. Memory is the largest sum of the proportional set sizes (PSS) of the guest's processes with
its kernel, its buffers and all models. On a busy machine (`load`: the average of one minute)
processor times are more reliable than real times, but also affected: caches are shared.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trunkline.harness.live.live_state import Progress
from trunkline.harness.processes.ownership import VARIABLE, Owner
from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load

FULL_MESH = """
topology: {builder: full_mesh, sites: 3, rates: 100 Mbit/s, delays: 30 ms}
workload: {kind: synthetic, model: 1 MB, compute: 0.5 s}
scheme: {policy: bsp, plan: star, chunk: 256 KiB}
stop: {rounds: 5}
outputs: {plots: false}
"""
STAR = Path(__file__).resolve().parents[1] / "scenarios" / "thousand.yaml"
PERIOD_S = 0.5
LOOKS = 4
"""Memory, which costs more to read than times, is read at every fourth look."""

TITLES = {
    "sites": "sites",
    "links": "links",
    "form": "agents in a process",
    "network_s": "network up, real s",
    "ready_s": "ready, real s",
    "whole_s": "whole run, real s",
    "ready_cpu_s": "ready, processor s",
    "whole_cpu_s": "whole run, processor s",
    "kernel_cpu_s": "kernel",
    "session_cpu_s": "session",
    "agents_cpu_s": "agents",
    "judging_cpu_s": "judging",
    "page_cpu_s": "page",
    "memory_mb": "memory, MB",
    "virtual_s": "virtual s",
    "cpu_per_virtual_s": "processor s per virtual s",
    "load": "load",
}
"""The heads of the columns, by the fields of a row."""

PROCESS_MB = 25
"""What an agent with a process of its own takes."""


@dataclass(frozen=True, slots=True)
class Row:
    """The costs of one run: real seconds, processor seconds, MB."""

    sites: int
    links: int
    form: str
    network_s: float
    ready_s: float
    whole_s: float
    ready_cpu_s: float
    whole_cpu_s: float
    kernel_cpu_s: float
    session_cpu_s: float
    agents_cpu_s: float
    judging_cpu_s: float
    page_cpu_s: float
    memory_mb: int
    virtual_s: float
    cpu_per_virtual_s: float
    load: float


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
        looks = 0
        while not self.ended.wait(PERIOD_S):
            looks += 1
            self.look(with_memory=looks % LOOKS == 0)

    def look(self, with_memory: bool = True) -> float:
        """Update the values; return the processor seconds of all processes, ended ones too."""
        total_kb = 0
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                if self.tag not in (process / "environ").read_bytes().split(b"\0"):
                    continue
                used = (process / "schedstat").read_text().split()[0]
                self.cpu_s[int(process.name)] = int(used) / 1e9
                if not with_memory:
                    continue
                rollup = (process / "smaps_rollup").read_text()
                total_kb += int(rollup.partition("\nPss:")[2].split()[0])
        self.peak_kb = max(self.peak_kb, total_kb)
        return sum(self.cpu_s.values())

    def divide(self, before_s: Mapping[int, float]) -> tuple[float, float, float]:
        """The processor seconds of the guest's kernel, of the session and of all agents.

        The kernel starts first. The session has used most of `before_s`, before agents started.
        """
        kernel = min(before_s)
        session = max(before_s.keys() - {kernel}, key=lambda number: before_s[number])
        rest_s = sum(s for number, s in self.cpu_s.items() if number not in (kernel, session))
        return self.cpu_s[kernel], self.cpu_s[session], rest_s


@dataclass(slots=True)
class Moments:
    """When the steps of a run began: real, processor (guest), own processor and virtual seconds."""

    meter: Meter
    begun_s: float = field(default_factory=time.monotonic)
    own_s: float = field(default_factory=time.process_time)
    at: dict[str, tuple[float, float, float, float]] = field(default_factory=dict)
    before_agents_s: dict[int, float] = field(default_factory=dict)

    def note(self, progress: Progress) -> None:
        """Note the first moment of each step; a look at the processes costs time."""
        step = progress.message or "computing"
        if step == "starting the agents" and not self.before_agents_s:
            self.meter.look()
            self.before_agents_s = dict(self.meter.cpu_s)
        if step not in self.at:
            real_s = time.monotonic() - self.begun_s
            own_s = time.process_time() - self.own_s
            self.at[step] = (real_s, self.meter.look(), own_s, progress.virtual_s)


def main() -> None:
    """Measure every size; print the rows as a Markdown table, and draw them with `--plot`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", choices=("star", "full_mesh"), default="star")
    sizes = [16, 64, 128, 256, 512, 1000, 2000]
    parser.add_argument("--sites", type=int, nargs="+", default=sizes)
    parser.add_argument("--forms", nargs="+", choices=("1", "all"), default=["1", "all"])
    parser.add_argument("--rounds", type=int, help="rounds of each run")
    parser.add_argument("--columns", nargs="+", choices=TITLES, default=[*TITLES])
    parser.add_argument("--plot", type=Path, help="where to draw the rows")
    arguments = parser.parse_args()
    heads = [TITLES[name] for name in arguments.columns]
    say(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    rows = []
    for sites in arguments.sites:
        for form in arguments.forms:
            if form == "1" and sites * PROCESS_MB > find_memory_mb():
                say(f"{sites} sites with a process each need {sites * PROCESS_MB / 1e3:.3g} GB")
                continue
            changes = list_changes(arguments.shape, sites, form, arguments.rounds)
            row = measure(arguments.shape, form, changes)
            rows.append(row)
            cells = (describe(getattr(row, name)) for name in arguments.columns)
            say(f"| {' | '.join(cells)} |")
            if arguments.plot:
                draw(rows, arguments.plot)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def list_changes(shape: str, sites: int, form: str, rounds: int | None) -> Sequence[str]:
    """The changes that make a shape's scenario one of so many sites."""
    memory_gb = 4 + sites * (PROCESS_MB / 1e3 if form == "1" else 3e-3)
    changes = [
        *(f"topology.sites={sites + (shape == 'star')}", f"agents.per_process={form}"),
        *("outputs.plots=false", f"limits.memory={memory_gb:.0f} GiB"),
    ]
    return [*changes, *([] if rounds is None else [f"stop.rounds={rounds}"])]


def find_memory_mb() -> int:
    """The memory of this machine that may be used."""
    text = Path("/proc/meminfo").read_text()
    return int(text.partition("MemAvailable:")[2].split()[0]) >> 10


def describe(value: float | str) -> str:
    """A cell: four digits of a number."""
    return value if isinstance(value, str) else f"{value:.4g}"


def measure(shape: str, form: str, changes: Sequence[str]) -> Row:
    """Carry out one run. Raises RuntimeError if it does not pass."""
    meter = Meter()
    moments = Moments(meter)
    with measuring(meter), tempfile.TemporaryDirectory() as folder:
        source = STAR if shape == "star" else Path(folder, "full_mesh.yaml")
        if shape == "full_mesh":
            source.write_text(FULL_MESH)
        scenario = load(source, changes)
        result = runner.run(scenario, source, Path(folder, "runs"), moments.note)
    if result.verdict.outcome != "pass":
        raise RuntimeError(f"{changes}: {result.verdict.outcome}: {result.error}")
    own_s, whole_s = time.process_time() - moments.own_s, time.monotonic() - moments.begun_s
    at = moments.at
    network_s, _, _, _ = at["starting the agents"]
    ready_s, ready_cpu_s, before_s, ready_virtual_s = at["computing"]
    _, guest_s, judged_s, virtual_s = at["judging the run"]
    _, _, page_s, _ = at["writing the page"]
    kernel_s, session_s, agents_s = meter.divide(moments.before_agents_s)
    return Row(
        sites=len(scenario.topology.site_names),
        links=len(scenario.topology.links) // 2,
        form=form,
        network_s=network_s,
        ready_s=ready_s,
        whole_s=whole_s,
        ready_cpu_s=ready_cpu_s + before_s,
        whole_cpu_s=guest_s + own_s,
        kernel_cpu_s=kernel_s,
        session_cpu_s=session_s,
        agents_cpu_s=agents_s,
        judging_cpu_s=page_s - judged_s,
        page_cpu_s=own_s - page_s,
        memory_mb=meter.peak_kb >> 10,
        virtual_s=virtual_s - ready_virtual_s,
        cpu_per_virtual_s=(guest_s - ready_cpu_s) / (virtual_s - ready_virtual_s),
        load=os.getloadavg()[0],
    )


@contextlib.contextmanager
def measuring(meter: Meter) -> Iterator[None]:
    """Run the meter; a last look would find no process of the guest any more."""
    meter.start()
    try:
        yield
    finally:
        meter.ended.set()
        meter.join()


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
                ("network_s", "network up, real"),
            ],
        ),
        ("memory, MB", [("memory_mb", "guest")]),
        ("processor s per virtual s", [("cpu_per_virtual_s", "guest")]),
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
