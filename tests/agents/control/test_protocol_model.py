"""The promises of failover hold in any order of messages, losses and timers.

`tests/protocol_model.py` explores orders, one for each seed. To explore more of them:
`MODEL_SEEDS=20000:60000 pytest tests/agents/control/test_protocol_model.py`. A failure names its
seed, and the message ends with the steps that led to it.
"""

import os
import random
from dataclasses import replace

import pytest
from model_setting import Setting
from promises import BrokenPromiseError
from protocol_model import Model

BATCH = 50


def batches() -> list[range]:
    first, last = map(int, os.environ.get("MODEL_SEEDS", "0:600").split(":"))
    return [range(start, min(start + BATCH, last)) for start in range(first, last, BATCH)]


@pytest.mark.parametrize("seeds", batches(), ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_no_order_of_messages_losses_and_timers_breaks_a_promise(seeds):
    for seed in seeds:
        try:
            Model(seed).run()
        except Exception:
            explain(seed)


def test_no_order_breaks_a_promise_when_blocks_are_sent_on_whole():
    for seed in range(BATCH):
        setting = send_whole(seed)
        try:
            Model(seed, setting=setting).run()
        except Exception:
            explain(seed, setting)


def send_whole(seed: int) -> Setting:
    return replace(Setting.draw(random.Random(seed)), pipelined=False)


def explain(seed: int, setting: Setting | None = None) -> None:
    """Run a seed again and fail with its last steps."""
    model = Model(seed, trace=True, setting=setting)
    try:
        model.run()
    except Exception as error:
        steps = "\n".join([model.trace[0], "...", *model.trace[-80:]])
        raise BrokenPromiseError(f"seed {seed}: {error}\n{steps}") from error
    raise BrokenPromiseError(f"seed {seed} does not do the same again")
