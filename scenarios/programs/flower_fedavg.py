"""FedAvg of Flower: the app for server and clients, and what submits it with `flwr run`.

Each client draws the model towards a number of its own, so the model is the mean of those who took
part.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

ROUNDS, ROUND_TIMEOUT_S, COMPUTE_S, NUMBERS = 3, 20.0, 1.0, 250_000

APP = """
[project]
name = "fedavg"
version = "1.0.0"
dependencies = []
[tool.flwr.app]
publisher = "trunkline"
[tool.flwr.app.components]
serverapp = "flower_fedavg:server"
clientapp = "flower_fedavg:client"
"""

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Go half of the way to this client's number."""
    (model,) = message.content["arrays"].to_numpy_ndarrays()
    time.sleep(COMPUTE_S)
    model = model + 0.5 * (int(context.node_config["target"]) - model)
    metrics = MetricRecord({"num-examples": 1})
    content = {"arrays": ArrayRecord([model]), "metrics": metrics}
    return Message(RecordDict(content), reply_to=message)


@server.main()
def serve(grid: Grid, _context: Context) -> None:
    """Average the clients' models, with those that reply in time."""

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        (model,) = arrays.to_numpy_ndarrays()
        print(f"round {number}: the model is {model.mean():.4f}", flush=True)
        return MetricRecord({"model": float(model.mean())})

    start = ArrayRecord([np.zeros(NUMBERS, dtype=np.float32)])
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=3)
    config = ConfigRecord({})
    strategy.start(grid, start, ROUNDS, ROUND_TIMEOUT_S, config, config, evaluate)


def submit() -> None:
    """Make an app folder of this file, and run it."""
    home = os.environ["FLWR_HOME"] = tempfile.mkdtemp()
    folder = Path(home, "app")
    folder.mkdir()
    shutil.copy(__file__, folder)
    (folder / "pyproject.toml").write_text(APP)
    where = '[superlink]\ndefault = "wan"\n[superlink.wan]\naddress = "n1:8000"\ninsecure = true\n'
    Path(home, "config.toml").write_text(where)
    os.execlp("flwr", "flwr", "run", str(folder), "--stream")


if __name__ == "__main__":
    submit()
