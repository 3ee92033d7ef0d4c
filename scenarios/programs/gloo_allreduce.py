"""All-reduces of torch.distributed on Gloo, each timed and its sum checked.

torchrun starts this file as well as Trunkline does; outside Trunkline it only prints the times.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist

from trunkline import program

FLOAT_BYTES = 4


def main() -> None:
    """Join the others, then reduce one tensor as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=50.0, help="size of the tensor")
    parser.add_argument("--rounds", type=int, default=5, help="how many all-reduces")
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank, sites = dist.get_rank(), dist.get_world_size()
    tensor = torch.empty(round(arguments.megabytes * 1e6) // FLOAT_BYTES)
    expected = sites * (sites + 1) / 2
    for number in range(arguments.rounds):
        tensor.fill_(rank + 1)
        dist.barrier()
        start_s = time.monotonic()
        with program.sync(number, tensor.numel() * FLOAT_BYTES):
            dist.all_reduce(tensor)
        print(f"all-reduce {number}: {time.monotonic() - start_s:.3f} s", flush=True)
        low, high = tensor.aminmax()
        if not low == high == expected:
            raise SystemExit(f"the sum is {low} to {high}, not {expected}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
