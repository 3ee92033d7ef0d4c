"""All-reduces of mpi4py, each timed and its sum checked."""

from __future__ import annotations

import argparse
import os

import numpy as np
from mpi4py import MPI


def main() -> None:
    """Reduce one vector as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1.0, help="size of the vector")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    world = MPI.COMM_WORLD
    rank, sites = world.Get_rank(), world.Get_size()
    mine = np.empty(round(arguments.megabytes * 1e6) // 8)
    found = np.empty_like(mine)
    for number in range(arguments.rounds):
        mine.fill(rank + 1)
        world.Barrier()
        start_s = MPI.Wtime()
        world.Allreduce(mine, found, MPI.SUM)
        took_s = MPI.Wtime() - start_s
        if not (found == sites * (sites + 1) / 2).all():
            raise SystemExit(f"wrong sum: {found.min()} to {found.max()}")
        print(f"rank {rank} at {os.uname().nodename}: {number}: {took_s:.3f} s", flush=True)


if __name__ == "__main__":
    main()
