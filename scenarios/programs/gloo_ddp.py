"""The training workload's network, trained by torch's DistributedDataParallel on Gloo.

Each step all sites compute gradients on batches of their own and DDP averages them; Trunkline's own
scenarios average models after some local steps instead. torchrun starts this file as well.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from trunkline import program
from trunkline.workloads.learning import datasets, models
from trunkline.workloads.learning.shards import deal
from trunkline.workloads.training import PIXEL_DEVIATION, PIXEL_MEAN, evaluate

FLOAT_BYTES = 4


def main() -> None:
    """Join the others, then take as many steps as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=32, help="samples at each site")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--seconds", type=float, default=0.1, help="modelled time of a step")
    parser.add_argument("--evaluate-every", type=int, default=10, help="steps")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, sites = dist.get_rank(), dist.get_world_size()
    data = datasets.load()
    rng = np.random.default_rng((arguments.seed, rank))
    same = np.ones(sites)
    shard = deal("iid", data.train_labels, same, np.random.default_rng(arguments.seed))[rank]
    module = models.cnn(8, 640, arguments.seed)
    size_bytes = FLOAT_BYTES * sum(parameter.numel() for parameter in module.parameters())
    model = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(model.parameters(), arguments.learning_rate, momentum=0.9)
    for step in range(arguments.steps):
        batch = rng.choice(shard, arguments.batch)
        pixels = (data.train_images[batch, None].astype(np.float32) - PIXEL_MEAN) / PIXEL_DEVIATION
        labels = torch.from_numpy(data.train_labels[batch].astype(np.int64))
        with program.computing(step, arguments.seconds):
            loss = cross_entropy(model(torch.from_numpy(pixels)), labels)
        with program.sync(step, size_bytes):
            optimizer.zero_grad()
            loss.backward()  # DDP averages gradients meanwhile
        optimizer.step()
        program.report("round_finished", rounds=step + 1)
        if rank == 0 and (step + 1) % arguments.evaluate_every == 0:
            found = evaluate(module, data.test_images, data.test_labels)
            program.report(
                "evaluated",
                task=step,
                accuracy_percent=found.accuracy_percent,
                loss=found.loss,
                samples=found.samples,
            )
            print(f"step {step}: accuracy {found.accuracy_percent:.1f} %", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
