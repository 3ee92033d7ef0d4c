"""FedAvg of NVFlare: what each client trains, and, with an admin's kit, what submits the job.

Each client draws the model towards a number of its own, so the model is the mean of those who took
part.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from nvflare import client as flare
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.recipe import ProdEnv

ROUNDS, COMPUTE_S, NUMBERS = 4, 1.0, 250_000
TARGETS = {"n2": 1.0, "n3": 2.0, "n4": 6.0}


def train() -> None:
    """Go half of the way to this client's number, as often as the server asks."""
    flare.init()
    site = flare.get_site_name()
    while flare.is_running():
        task = flare.receive()
        model = task.params["numpy_key"]
        print(f"{site}: round {task.current_round}: the model is {model.mean():.4f}", flush=True)
        time.sleep(COMPUTE_S)
        model = model + 0.5 * (TARGETS[site] - model)
        flare.send(flare.FLModel(params={"numpy_key": model}))


def submit(kit: str) -> None:
    """Have the server carry out the job, and wait for the model."""
    np.save("/tmp/model.npy", np.zeros(NUMBERS, dtype=np.float32))
    recipe = NumpyFedAvgRecipe(
        initial_ckpt="/tmp/model.npy",
        min_clients=len(TARGETS),
        num_rounds=ROUNDS,
        train_script=__file__,
    )
    job = recipe.execute(ProdEnv(kit, login_timeout=20.0, username="admin@gallery.org"))
    result = job.get_result(timeout=120.0)
    print(f"n1: {job.get_status()}, {result}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        submit(sys.argv[1])
    else:
        train()
