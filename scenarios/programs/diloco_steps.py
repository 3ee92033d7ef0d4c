"""DiLoCo on Gloo: every site trains for some inner steps, then all average what they changed.

The outer optimizer is SGD with Nesterov momentum. Nothing fails here; see torchft_diloco.py.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss

INNER_STEPS = int(os.environ.get("INNER_STEPS", "10"))
"""Between two rounds."""

ROUNDS = 5
WIDTH = 500
"""The model has about its square of parameters, here 1 MB."""


def main() -> None:
    """Train for some rounds, and write the loss after each."""
    torch.set_num_threads(1)
    torch.manual_seed(1)  # the same model everywhere
    dist.init_process_group("gloo")
    teacher, model = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(2))
    weights = list(model.parameters())
    inner = torch.optim.AdamW(weights, 3e-3)
    agreed = [weight.detach().clone() for weight in weights]
    outer = torch.optim.SGD(agreed, 0.7, momentum=0.9, nesterov=True)
    random = torch.Generator().manual_seed(int(os.environ["RANK"]))
    for done in range(1, ROUNDS + 1):
        for _ in range(INNER_STEPS):
            inputs = torch.randn(16, WIDTH, generator=random)
            loss = mse_loss(model(inputs), teacher(inputs).detach())
            inner.zero_grad()
            loss.backward()
            inner.step()
        with torch.no_grad():
            change = torch.cat([(a - w).flatten() for a, w in zip(agreed, weights, strict=True)])
            dist.all_reduce(change, dist.ReduceOp.AVG)  # the outer gradient
            sizes = [weight.numel() for weight in weights]
            for a, part in zip(agreed, change.split(sizes), strict=True):
                a.grad = part.view_as(a)
            outer.step()
            for a, weight in zip(agreed, weights, strict=True):
                weight.copy_(a)
        print(f"round {done}, loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
