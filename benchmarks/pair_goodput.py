"""Measure what TCP gets of one long path, by iperf3: with losses or without, one flow or several.

    python benchmarks/pair_goodput.py --connections 1,4 --vary 'topology.loss=0 %,0.02 %'
    python benchmarks/pair_goodput.py --vary network.congestion_control=cubic,bbr

It carries out a comparison of `scenarios/lossy_pair.yaml` as `trunkline compare` does, and uses
finished runs of the same folder again. A row is a cell of the comparison. Its number is the goodput
that iperf3 reports at its receiver, all connections together: the mean over the trials, whose seeds
draw other losses, and half of its 95 % interval.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cells

from trunkline.harness.study import comparison

FILE = Path(__file__).parents[1] / "scenarios" / "lossy_pair.yaml"
FOLDER = Path("comparisons/pair_goodput")
CONNECTIONS = "workload.command.n2[8]"
"""The argument of iperf3's option -P in the scenario."""
GOODPUT = re.compile(r"([\d.]+) Mbits/sec +receiver$", re.MULTILINE)


def read_goodput_mbps(output: str) -> float:
    """The goodput in the output of an iperf3 client; its last line has the sum of all flows."""
    return float(GOODPUT.findall(output)[-1])


def read(run_dir: Path) -> float:
    """The goodput of a run whose only client of iperf3 is at one of its sites, in Mbit/s."""
    outputs = [path.read_text() for path in sorted((run_dir / "log").glob("*.out"))]
    client = next(output for output in outputs if "Connecting to host" in output)
    return read_goodput_mbps(client)


def main() -> None:
    """Run what is missing, and write the table."""
    parser = cells.make_parser(__doc__, FOLDER)
    parser.add_argument("--connections", default="1", metavar="N,N,...", help="of iperf3's client")
    arguments = parser.parse_args()
    arguments.vary.append(f"{CONNECTIONS}={arguments.connections}")
    keys, found = cells.run(FILE, arguments)
    rows = [
        [*(f"`{value}`" for value in cell.values), cells.write([*map(read, cell.runs)], 1)]
        for cell in found
    ]
    titles = ["connections" if key == CONNECTIONS else comparison.describe_key(key) for key in keys]
    sys.stdout.write(cells.write_table([*titles, "Mbit/s"], rows))


if __name__ == "__main__":
    main()
