"""Runs that train and are evaluated at equal times, and stop when their target has held."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from inside import run_all

from trunkline.harness.report import outputs
from trunkline.harness.scenario.loading import parse, resolve

TEXT = """
name: small
topology: {builder: full_mesh, sites: 4, rates: 100 Mbit/s, delays: 5 ms}
workload: {kind: training, channels: 2, hidden: 16, local_steps: 4, compute: [80 ms, 120 ms]}
outputs: {plots: false}
"""
REDUCE = "scheme: {policy: preduce, plan: ring, p: 2, chunk: 4 KiB}\n"
SERVERS = "scheme: {name: r2sp, servers: [n1, n2], chunk: 4 KiB}\n"

RUNS = {
    "often": REDUCE + "stop: {time: 1 s}\nevaluation: {every: 150 ms}\n",
    "never": REDUCE + "stop: {time: 1 s}\nevaluation: {every: 1 h}\n",
    "target": REDUCE
    + "stop: {accuracy: 60 %, in_a_row: 2, time: 20 s}\nevaluation: {every: 0.3 s}\n",
    "servers": SERVERS + "stop: {loss: 1.5, in_a_row: 3}\nevaluation: {every: 500 ms}\n",
    # Connecting takes longer than until the first evaluation.
    "far": SERVERS + "stop: {time: 1 s}\nevaluation: {every: 100 ms}\n",
    "killed": REDUCE
    + "stop: {time: 3 s}\nevaluation: {every: 500 ms, of: member}\nagents: {per_process: all}\n"
    + "timeline: [{at: 400 ms, do: kill n1 for 700 ms}]\n",
}

NET = """
from torch import nn

def model(*, width: int):
    return nn.Sequential(
        nn.Conv2d(1, width, 5, stride=4), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.1), nn.Linear(36 * width, 10),
    )
"""
OWN = """
name: small
topology: {builder: full_mesh, sites: 4, rates: 100 Mbit/s, delays: 5 ms}
workload:
  kind: training
  model: net.py
  width: 4
  local_steps: 4
  schedule: {cosine: {iterations: 30, to: 0.1}, warm_up: 3}
  compute: [80 ms, 120 ms]
outputs: {plots: false}
"""
RUNS |= {
    "own": REDUCE + "stop: {accuracy: 65 %, in_a_row: 2, time: 20 s}\nevaluation: {every: 0.3 s}\n",
    # Servers add up what iterations change, in running means and variances, too.
    "changes": SERVERS + "stop: {time: 1.5 s}\nevaluation: {every: 500 ms}\n",
}
RUNS["own again"] = RUNS["own"]


def evaluated(lines: list[str]) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, lines) if event["event"] == "model_evaluated"]


GUESTS = (
    ("own", "often", "target", "servers", "far", "killed", "changes"),
    ("own again", "never"),
)
"""The runs of each guest, in their order: an equal one has read other pages, unless it is as late
in its guest, after equal ones."""


@pytest.fixture
def home(embedded, make_once) -> Path:
    """The folder of all runs, all of which pass."""

    def carry_out(home: Path) -> None:
        for name in itertools.chain.from_iterable(GUESTS):
            (home / name / "log").mkdir(parents=True)
            text = TEXT.replace("delays: 5 ms", "delays: 100 ms") if name == "far" else TEXT
            text = OWN if name in ("own", "own again", "changes") else text
            (home / name / "net.py").write_text(NET)
            resolved = resolve(parse(text + RUNS[name], str(home / name / "small.yaml")))
            (home / name / "resolved.yaml").write_text(resolved)
        for names in GUESTS:
            done = embedded.call(run_all, str(home), [*names], visible=[home])
            assert done == {"codes": dict.fromkeys(names, 0), "left": []}

    return make_once(carry_out)


def read(home: Path, *names: str) -> dict[str, list[str]]:
    """The logs of these runs, whose verdicts are pass."""
    for name in names:
        verdict = outputs.build(home / name)
        assert (verdict.outcome, verdict.problems) == ("pass", ()), name
    return {name: (home / name / "events.jsonl").read_text().splitlines() for name in names}


def test_evaluations_repeat_exactly_and_change_nothing_else(home: Path) -> None:
    own, again, often, never = read(home, "own", "own again", "often", "never").values()
    assert evaluated(own) == evaluated(again)
    assert [line for line in often if "model_evaluated" not in line] == never
    assert [(e["number"], e["t_ns"]) for e in evaluated(often)] == [
        (number, number * 150_000_000) for number in range(1, 7)
    ]


def test_a_run_stops_when_the_target_of_its_model_has_held(home: Path) -> None:
    logs = read(home, "target", "servers", "far", "killed")
    of_target = evaluated(logs["target"])
    (stop,) = (e for e in map(json.loads, logs["target"]) if e["event"] == "stopping")
    assert [e["accuracy_percent"] >= 60 for e in of_target[-3:]] == [False, True, True]
    assert 0 <= stop["t_ns"] - of_target[-1]["t_ns"] < 100_000
    assert stop["cause"] == {
        "what": "accuracy", "value": of_target[-1]["accuracy_percent"], "target": 60.0,
        "in_a_row": 2, "type": "target_reached",
    }  # fmt: skip
    table = pd.read_csv(home / "target" / "tables" / "run.csv")
    assert table["target_s"][0] * 1e9 == of_target[-2]["t_ns"]

    of_servers = evaluated(logs["servers"])
    assert {(e["of"], *(m["site"] for m in e["models"])) for e in of_servers} == {
        ("server", "n1", "n2")
    }
    assert [e["loss"] <= 1.5 for e in of_servers[-3:]] == [True] * 3
    assert of_servers[0]["loss"] > 1.5

    assert [e["number"] for e in evaluated(logs["far"])] == list(range(1, 11))
    who = [[m["site"] for m in e["models"]] for e in evaluated(logs["killed"])]
    assert who == [["n1"], ["n2"], ["n1"], ["n1"], ["n1"], ["n1"]]


def test_a_model_of_ones_own_trains_by_all_schemes_and_repeats_exactly(home: Path) -> None:
    own, again, changes = read(home, "own", "own again", "changes").values()
    assert own == again
    found = [e["accuracy_percent"] for e in evaluated(own)]
    assert min(found[-2:]) >= 65 > found[0]
    of_changes = evaluated(changes)
    assert [e["of"] for e in of_changes] == ["server"] * 3
    assert of_changes[-1]["loss"] < of_changes[0]["loss"]
