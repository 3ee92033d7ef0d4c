"""Make the tables in `data/` from the published shapes of networks.

    python -m trunkline.workloads.layered.make_tables

Parameters are exact, 4 bytes each. Times are computed, not measured: operations over the speed of
one device.
"""

from __future__ import annotations

from pathlib import Path

from trunkline.workloads.layered.layer_shapes import NETWORKS, Cost
from trunkline.workloads.layered.model import COLUMNS

PARAMETER_BYTES = 4
"""The size of a parameter in single precision."""

DEVICE_FLOPS = 10e12
"""Operations per second: a third of the peak of the GeForce RTX 3080, 29.8e12 in single precision.

The paper uses that card, and gives no times of layers. The third is our assumption. All times are
in proportion to it.
"""

BACKWARD_FACTOR = 2
"""Backward over forward operations: gradients by the inputs, and gradients by the weights."""


def make(name: str) -> str:
    """The table of a network in NETWORKS, with the times of one sample in microseconds."""
    lines = [
        f"# {name}, made by make_tables.py: times at {DEVICE_FLOPS / 1e12:g} Tflop/s, one sample",
        ",".join(COLUMNS),
    ]
    lines += [
        f"{base},{branch},{_format_cost(cost)}"
        for base, branches in NETWORKS[name]()
        for branch, cost in branches.items()
    ]
    return "\n".join(lines) + "\n"


def _format_cost(cost: Cost) -> str:
    forward_us = 1e6 * cost.operations / DEVICE_FLOPS
    size = PARAMETER_BYTES * cost.parameters
    return f"{size},{forward_us:.4f},{BACKWARD_FACTOR * forward_us:.4f}"


def main() -> None:
    """Write every table."""
    folder = Path(__file__).parent / "data"
    for name in NETWORKS:
        (folder / f"{name}.csv").write_text(make(name))


if __name__ == "__main__":
    main()
