"""Averaging by hivemind: each peer goes towards a number, and averages with those it finds.

A peer that joins gets the model from another one.
"""

from __future__ import annotations

import argparse
import socket
import time
from pathlib import Path

import torch
from hivemind import DHT, DecentralizedAverager

NUMBERS, COMPUTE_S = 125_000, 1.0


def main() -> None:
    """Take part in rounds until the run ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=float, required=True, help="this peer's number")
    parser.add_argument("--first", type=Path, required=True, help="file with the first's address")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    site = socket.gethostname()
    peers = arguments.first.read_text().split() if arguments.first.exists() else []
    listen = f"/ip4/{socket.gethostbyname(site)}/tcp/31330"
    dht = DHT(peers, start=True, host_maddrs=[listen], auto_nat=False, nat_port_map=False)
    if not peers:
        arguments.first.write_text("\n".join(map(str, dht.get_visible_maddrs())))
    averager = DecentralizedAverager(
        [torch.zeros(NUMBERS)],
        dht,
        start=True,
        prefix="gallery",
        target_group_size=4,
        min_matchmaking_time=3.0,
        request_timeout=1.5,
        next_chunk_timeout=5.0,
        allreduce_timeout=20.0,
    )
    print(f"{site}: {dht.peer_id} listens", flush=True)
    state = averager.load_state_from_peers(timeout=20) if peers else None
    with averager.get_tensors() as (model,):
        if state is not None:
            model[...] = state[1][0]
            print(f"{site}: joins with the model {model.mean():.4f}", flush=True)
    while True:
        time.sleep(COMPUTE_S)
        with averager.get_tensors() as (model,):
            model += 0.5 * (arguments.target - model)
        found = averager.step(gather=site, timeout=60)
        with averager.get_tensors() as (model,):
            names = " ".join(sorted(found.values()))
            print(f"{site}: averaged with {names}: {model.mean():.4f}", flush=True)


if __name__ == "__main__":
    main()
