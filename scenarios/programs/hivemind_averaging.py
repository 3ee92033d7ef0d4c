"""Averaging by hivemind: each peer goes towards a number, and averages with those it finds.

A peer that joins gets the model from another one. With --rounds all peers know each other before
they begin, and each one begins every round with its number, so that the mean says whether the round
had all parts of all peers.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from pathlib import Path

import torch
from hivemind import DHT, DecentralizedAverager

NUMBERS, COMPUTE_S = 125_000, 1.0
MATCHMAKING_S = float(os.environ.get("MATCHMAKING", "3"))
AVERAGING_S = float(os.environ.get("AVERAGING", "20"))
CHUNK_S = min(AVERAGING_S, float(os.environ.get("CHUNK", "5")))


def main() -> None:
    """Take part in rounds until the run ends, or in some that are judged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=float, required=True, help="this peer's number")
    parser.add_argument("--first", type=Path, required=True, help="file with addresses")
    parser.add_argument("--peers", type=int, default=4, help="a group of so many is complete")
    parser.add_argument("--rounds", type=int, help="give up in the first one that loses something")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    site = socket.gethostname()
    peers = arguments.first.read_text().split() if arguments.first.exists() else []
    listen = f"/ip4/{socket.gethostbyname(site)}/tcp/31330"
    dht = DHT(peers, start=True, host_maddrs=[listen], auto_nat=False, nat_port_map=False)
    if not peers or arguments.rounds is not None:
        with arguments.first.open("a") as file:
            print(*dht.get_visible_maddrs(), file=file)
    averager = DecentralizedAverager(
        [torch.zeros(NUMBERS)],
        dht,
        start=True,
        prefix="gallery",
        target_group_size=arguments.peers,
        min_matchmaking_time=MATCHMAKING_S,
        request_timeout=MATCHMAKING_S / 2,
        next_chunk_timeout=CHUNK_S,
        allreduce_timeout=AVERAGING_S,
    )
    print(f"{site}: {dht.peer_id} listens", flush=True)
    if arguments.rounds is not None:
        while len(arguments.first.read_text().splitlines()) < arguments.peers:
            time.sleep(0.1)
        judge_rounds(averager, site, arguments)
        averager.shutdown()
        dht.shutdown()
        return
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


def judge_rounds(averager: DecentralizedAverager, site: str, arguments: argparse.Namespace) -> None:
    """Take part in rounds, all of which shall be whole."""
    for number in range(arguments.rounds):
        time.sleep(COMPUTE_S)
        lost = lose_parts(averager, arguments)
        print(f"{site}: round {number} {f'lost {lost}' if lost else 'is whole'}", flush=True)
        if lost:
            sys.exit(f"{site}: a round lost {lost}")
    time.sleep(AVERAGING_S)  # others may still need this peer


def lose_parts(averager: DecentralizedAverager, arguments: argparse.Namespace) -> str:
    """Average once; returns what was lost, in words."""
    with averager.get_tensors() as (model,):
        model[...] = arguments.target
    try:
        found = averager.step(gather=arguments.target, timeout=60, allow_retries=False)
    except Exception as error:  # as hivemind's Optimizer does
        return f"all, by {type(error).__name__}"
    if len(found) < arguments.peers:
        return f"{arguments.peers - len(found)} of {arguments.peers} peers"
    with averager.get_tensors() as (model,):
        wrong = (model - sum(found.values()) / len(found)).abs().max().item()
    return "parts of a peer" if wrong > 1e-3 else ""


if __name__ == "__main__":
    main()
