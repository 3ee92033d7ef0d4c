"""Agents whose processes do not end as they should."""

import asyncio

import pytest

from trunkline.harness.commands import main
from trunkline.harness.session.agent_main import run_with_callbacks


def test_an_error_in_what_an_agents_loop_calls_ends_the_agent():
    ended = []

    def break_down():
        raise ValueError("in a callback")

    async def agent():
        asyncio.get_running_loop().call_soon(break_down)
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("agent")

    with pytest.raises(ValueError, match="in a callback"):
        asyncio.run(run_with_callbacks(agent()))
    assert ended == ["agent"]


def test_an_agent_whose_process_exits_with_0_has_not_ended(embedded, tmp_path, capsys):
    (tmp_path / "leaves.py").write_text("""
import os
import numpy as np


class Leaves:
    def __init__(self, rank):
        self.rank = rank
        self.model = np.ones(1000, np.float32)

    def compute(self, iteration):
        if self.rank == 1 and iteration == 1:
            os._exit(0)
        return 0.01

    def contribution(self):
        return self.model

    def install(self, result):
        self.model[:] = result

    def evaluate(self):
        return None


def build(rank, sites, seed):
    return Leaves(rank)


def model_bytes():
    return 4000
""")
    scenario = tmp_path / "leaves.yaml"
    scenario.write_text("""
topology: {builder: full_mesh, sites: 2, rates: 10 Mbit/s, delays: 1 ms}
workload: {kind: leaves.py}
scheme: {policy: bsp, plan: a2a, chunk: 1 KiB}
stop: {rounds: 3}
limits: {task: 2 s, run: 5 s}
outputs: {plots: false}
""")
    assert main.main(["run", str(scenario), "--runs", str(tmp_path / "runs")]) == 1
    said = capsys.readouterr().err
    assert "n2: its process ended before its time, with exit code 0" in said
