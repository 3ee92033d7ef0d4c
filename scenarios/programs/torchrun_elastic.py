"""DistributedDataParallel under torchrun, which starts all sites again when their number changes.

Each site keeps the last step in a file. After a restart the sites go on from the latest one of all.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def resume(model: torch.nn.Module, kept: Path) -> int:
    """Take the model of the site that came furthest; return its number of steps."""
    steps = 0
    if kept.exists():
        saved = torch.load(kept)
        steps = saved["steps"]
        model.load_state_dict(saved["model"])
    found = [torch.zeros((), dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(found, torch.tensor(steps))
    furthest = max(range(len(found)), key=lambda rank: int(found[rank]))
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), furthest)
    return int(found[furthest])


def main() -> None:
    """Take steps until there are as many as asked, however often the sites start again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.5, help="modelled time of a step")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    site, kept = os.environ["TRUNKLINE_SITE"], Path(os.environ["TRUNKLINE_RESULTS"], "last.pt")
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    module = torch.nn.Linear(500, 500)
    steps = resume(module, kept)
    print(f"{site}: from step {steps} with {world} sites", flush=True)
    model = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for step in range(steps, arguments.steps):
        time.sleep(arguments.seconds)
        loss = model(torch.randn(8, 500)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.save({"steps": step + 1, "model": module.state_dict()}, kept.with_suffix(".new"))
        kept.with_suffix(".new").rename(kept)
    print(f"{site}: {arguments.steps} steps, loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
