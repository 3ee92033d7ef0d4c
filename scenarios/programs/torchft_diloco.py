"""DiLoCo of torchft: each site is a replica group of one process, and they average every 5 steps.

A site that comes back gets the model from one that has it. A round that fails is taken back.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torchft.local_sgd import DiLoCo
from torchft.manager import Manager
from torchft.process_group import ProcessGroupGloo


def main() -> None:
    """Take part in rounds until there were as many as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    limit_s = float(os.environ.get("TIMEOUT", "5"))
    parser.add_argument("--timeout", type=float, default=limit_s, help="of an averaging, seconds")
    parser.add_argument("--inner", type=int, default=5, help="steps between rounds")
    parser.add_argument("--strict", action="store_true", help="give up when a round fails")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    site = os.environ["TRUNKLINE_SITE"]
    teacher, model = (torch.nn.Linear(500, 500) for _ in range(2))
    store = dist.TCPStore(  # type: ignore[attr-defined]
        site, 0, is_master=True, wait_for_workers=False
    )
    timeout = timedelta(seconds=arguments.timeout)
    manager = Manager(
        ProcessGroupGloo(timeout),
        model.load_state_dict,
        model.state_dict,
        min_replica_size=2,
        use_async_quorum=False,
        timeout=timeout,
        quorum_timeout=timedelta(seconds=30),
        replica_id=site,
        hostname=site,
        store_addr=site,
        store_port=store.port,
        rank=0,
        world_size=1,
        lighthouse_addr=os.environ["TORCHFT_LIGHTHOUSE"],
    )
    inner = torch.optim.AdamW(model.parameters(), 3e-3)
    outer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.5, nesterov=True)
    random = torch.Generator().manual_seed(int(os.environ["RANK"]))
    step = 0
    with DiLoCo(manager, [model], inner, outer, arguments.inner):
        while manager.current_step() < arguments.rounds:
            inputs = torch.randn(64, 500, generator=random)
            loss = mse_loss(model(inputs), teacher(inputs).detach())
            inner.zero_grad()
            loss.backward()
            inner.step()  # every fifth time it averages with the others
            step += 1
            if step % arguments.inner == 0:
                done, with_ = manager.current_step(), manager.num_participants()
                kept = "failed" if manager.errored() else f"round {done} with {with_} sites"
                print(f"{site}: {kept}, loss {loss.item():.4f}", flush=True)
                if arguments.strict and kept == "failed":
                    sys.exit(f"{site}: a round failed")
    manager.shutdown(wait=False)
    print(f"{site}: done", flush=True)


if __name__ == "__main__":
    main()
