"""Run scenarios on the stock kernel of Debian, in real time: its netem, its TCP, `backend: host`.

    python benchmarks/crosscheck/against_kernel.py scenarios/crosscheck/pair.yaml --out FOLDER

The kernel runs in an emulated machine whose clock counts instructions (`emulated_machine.py`), so
that real time is exact there. Each scenario becomes the folder of a run, and all runs are carried
out one after the other in one machine, by `guest_runs.py`. What is timed reads no file of this
machine: a first run that does not count brings all files that runs need into the machine's memory.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import emulated_machine
from against_ns3 import find_cache
from emulated_machine import KERNEL_PACKAGE

from trunkline.harness.config.paths import ROOT
from trunkline.harness.scenario.loading import load, parse, resolve
from trunkline.harness.scenario.settings import Scenario

CHANGES = ("backend=host", "clock=real")
PROCESSOR = "Nehalem"
LIMIT_S = 3500.0
GUEST = Path(__file__).with_name("guest_runs.py")
COMMAND = """
export HOME={home} PATH={path} PYTHONPATH={root}/src PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
cd {root}
exec {python} {guest} /tmp/results {names}
"""
WARM = """
topology: {builder: full_mesh, sites: 2, rates: 50 Mbit/s, delays: 1 ms, loss: 0.1 %}
workload: {kind: synthetic, model: 1 MB, compute: 100 ms}
scheme: {name: ps-bsp, servers: [n2]}
stop: {tasks: 4}
backend: host
clock: real
"""


def run(
    scenarios: Mapping[str, Scenario],
    out: Path,
    timeout_s: float = LIMIT_S,
    instruction_ns: int = 1,
    package: str = KERNEL_PACKAGE,
) -> None:
    """Run scenarios in one machine; each gets a folder of its name in `out`, which is empty.

    An instruction takes `instruction_ns` there, a power of two. The kernel is that of a `package`.

    Raises NotHereError of `emulated_machine`, and RuntimeError if the machine gives no result.
    """
    cache = find_cache()
    cache.mkdir(parents=True, exist_ok=True)
    machine = emulated_machine.prepare(cache, package)
    warm = parse(WARM, "warm.yaml")
    for name, scenario in {"warm": warm, **scenarios}.items():
        (out / name / "log").mkdir(parents=True)
        (out / name / "resolved.yaml").write_text(resolve(scenario))
    command = COMMAND.format(
        home=Path.home(),
        path=os.environ["PATH"],
        root=ROOT,
        python=sys.executable,
        guest=GUEST,
        names=" ".join(["warm", *scenarios]),
    )
    code, output = emulated_machine.run(
        machine, PROCESSOR, command, out, timeout_s, instruction_ns=instruction_ns
    )
    if code:
        raise RuntimeError(f"the runs ended with code {code}:\n{output[-4000:]}")


def main() -> None:
    """Run the scenarios of some files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenarios", nargs="+", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--out", type=Path, required=True, help="an empty folder")
    arguments = parser.parse_args()
    found: Sequence[Scenario] = [
        load(path, [*CHANGES, *arguments.changes]) for path in arguments.scenarios
    ]
    run({each.name: each for each in found}, arguments.out)


if __name__ == "__main__":
    main()
