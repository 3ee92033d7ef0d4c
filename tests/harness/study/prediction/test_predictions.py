"""Predictions: the tables of a run from the fluid model, and never the verdict of a run."""

import json
import math
import re
import shlex
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trunkline.agents.events.event_writing import to_line
from trunkline.agents.planning.fluid.completion_times import estimate
from trunkline.harness.commands import main
from trunkline.harness.fluid import fluid_run, mixing
from trunkline.harness.record.history import History
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.report.parts.report_parts import make_tables
from trunkline.harness.runs.run_pool import Finished
from trunkline.harness.runs.run_process import RECORD, hash_log, make_record
from trunkline.harness.scenario import failover_timeouts
from trunkline.harness.scenario.loading import load, parse
from trunkline.harness.study import comparison_runs
from trunkline.harness.study.grid import read_axes
from trunkline.harness.study.prediction import predictions

SCENARIOS = Path(__file__).parents[4] / "scenarios"

THREE = """\
name: three
topology: {builder: full_mesh, sites: 3, rates: n2}
workload: {kind: synthetic, model: 1 MB, compute: 0.1 s}
scheme: {policy: preduce, plan: crew, p: 2}
stop: {tasks: 3}
"""


FAR = """\
topology:
  builder: full_mesh
  sites: 5
  rates: 80 Mbit/s
  delays: 1 ms
  overrides: [{link: n1 <-> n2, delay: 300 ms}, {link: n1 <-> n3, delay: 200 ms}]
workload: {kind: synthetic, model: 100 kB, compute: [50 ms, 150 ms]}
stop: {time: 6 s}
"""


@pytest.fixture
def three(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("three.yaml").write_text(THREE)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("partial_reduce", ["workload.compute=t1", "stop={time: 6 s}"]),
        ("partial_reduce", ["warm_up={tasks: 3}", "scheme.scatter=non-blocking", "stop.tasks=9"]),
        ("partial_reduce", ["scheme={name: ad-psgd, chunk: 1 MB}", "stop={tasks: 12}"]),
        ("parameter_servers", ["stop.time=2 s"]),
        ("parameter_servers", ["scheme.name=r2sp", "stop.time=2 s"]),
        ("round_robin", ["stop.time=4 s"]),
        ("overlap", []),
        ("sparse_overlay", []),
        ("awareness", []),
    ],
)
def test_tables_agree_with_the_numbers_of_the_model(name, overrides):
    scenario = load(SCENARIOS / f"{name}.yaml", overrides)
    history = History.of(fluid_run.predict_events(scenario, delays=False))
    row = make_tables(scenario, history)["run"].iloc[0]
    expected = asdict(fluid_run.predict(scenario))
    assert math.isfinite(expected["task_s"]) and expected["rounds"] > 0
    # The table has the pulls before updates, the model all of them.
    for key in expected.keys() - {"pull_s"}:
        if not math.isnan(expected[key]):
            assert float(row[key]) == pytest.approx(expected[key], rel=1e-6), key


@pytest.mark.parametrize("plan", ["crew", "ring", "star", "a2a"])
def test_a_task_that_has_the_overlay_to_itself_is_predicted_as_it_is_expected(plan):
    # Both let each site begin when the controller's message reaches it.
    changes = ["scheme.policy=bsp", f"scheme.plan={plan}", "stop={tasks: 3}"]
    scenario = load(SCENARIOS / "quickstart.yaml", ["workload={kind: synthetic}", *changes])
    topology, centre = scenario.topology, scenario.controller_site
    told_s = {site: topology.path_delay_ms(centre, site) / 1e3 for site in topology.site_names}
    links = topology.rates_mbps(), scenario.scheme.chunk_bytes, scenario.model_bytes
    tasks = History.of(fluid_run.predict_events(scenario)).tasks
    assert len(tasks) == 3 and max(told_s.values()) > 0.05
    for task in tasks:
        expected_s = estimate(task.plan, *links, topology.overlay.delays_ms(), told_s=told_s)
        assert task.duration_s == pytest.approx(expected_s)


@pytest.mark.parametrize(
    "scheme",
    [
        "{policy: preduce, p: 3, plan: crew}",
        "{policy: preduce, p: 3, plan: crew, scatter: non-blocking}",
        "{name: ad-psgd}",
        "{name: ps-asp}",
        "{name: r2sp}",
        "{name: eager-reduce}",
        "{policy: bsp, plan: a2a, barrier: false}",
    ],
)
def test_sites_contribute_and_finish_when_they_have_heard_of_a_task(scheme):
    # The controller's messages to two sites take longer than chunks from one to the other.
    made = parse(FAR, "far.yaml", [f"scheme={scheme}"], 1)
    tasks = make_tables(made, History.of(fluid_run.predict_events(made)))["members"]
    heard = tasks.dropna(subset=["joined_s"])
    assert len(heard) > 10
    assert not (heard["contributed_s"] < heard["joined_s"]).any()
    assert not (heard["finished_s"] < heard["joined_s"]).any()
    assert (tasks["finished_s"].isna() | tasks["joined_s"].notna()).all()


def test_quickstart_is_predicted_as_near_as_its_warm_tasks_are_to_their_estimate():
    # README.md, the table of plans: CREW's warm tasks take 0.538 +- 0.015 s, of 0.526 s expected.
    scenario = load(SCENARIOS / "quickstart.yaml", ["stop.tasks=24"])
    found = predictions.predict_numbers(scenario)
    assert found["task_s"] == pytest.approx(0.526, rel=0.05)


def test_a_prediction_has_the_files_of_a_run_and_says_what_it_is(three, capsys):
    assert main.main(["predict", "three.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "This is a prediction by the fluid model, not a run" in shown and "pass" not in shown
    assert "predicted / expected" in shown
    folder = three / "predictions" / "three" / "latest"
    verdict = json.loads((folder / "verdict.json").read_text())
    assert verdict["verdict"] == "prediction" and verdict["checks"] == []
    assert "no packets, no TCP" in verdict["remarks"][0]
    page = (folder / "report.html").read_text()
    assert "not a run: no packets, no TCP" in page and "✓ pass" not in page
    assert "predicted by the fluid model" in page
    assert len(pd.read_csv(folder / "tables" / "tasks.csv")) == 3
    assert {file.name for file in (folder / "plots").glob("*.png")} >= {"gantt.png", "links.png"}
    assert main.main(["report", str(folder), "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("prediction")
    assert main.main(["explain", str(folder)]) == 64
    assert "this is a prediction" in capsys.readouterr().err


def test_the_same_seed_gives_the_same_prediction():
    def lines(seed):
        scenario = parse(THREE, "three.yaml", [], seed)
        return list(map(to_line, fluid_run.predict_events(scenario)))

    assert lines(1) == lines(1) != lines(2)


@pytest.mark.parametrize(
    ("name", "overrides", "words"),
    [
        ("gloo_allreduce", [], "workload.kind: program"),
        ("outage", [], "timeline[0]: outage: the model knows setlink, redraw and trace"),
        ("partial_reduce", ["capture.links=all"], "capture.links: the model has no packets"),
        ("quickstart", ["stop={accuracy: 80 %}"], "stop: the model trains nothing"),
    ],
)
def test_what_the_model_cannot_do_is_refused_before_anything_starts(
    tmp_path, monkeypatch, capsys, name, overrides, words
):
    monkeypatch.chdir(tmp_path)
    changes = [word for change in overrides for word in ("--set", change)]
    for more in ([], ["--trials", "2"]):
        assert main.main(["predict", str(SCENARIOS / f"{name}.yaml"), *changes, *more]) == 64
        assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_varied_predictions_are_compared_as_runs_are(three, capsys):
    command = ["predict", "three.yaml", "--vary", "scheme.plan=crew,ring", "--trials", "2"]
    assert main.main(command) == 0
    out = capsys.readouterr().out
    assert "These are predictions by the fluid model, not runs" in out
    folder = three / "comparisons" / "three-predicted"
    trials = pd.read_csv(folder / "tables" / "trials.csv")
    assert set(trials["verdict"]) == {"prediction"} and len(trials) == 4
    cells = pd.read_csv(folder / "tables" / "cells.csv")
    assert list(cells["prediction"]) == [2, 2] and list(cells["pass"]) == [0, 0]
    ring = [parse(THREE, "three.yaml", ["scheme.plan=ring"], seed) for seed in (1, 2)]
    means = [predictions.predict_numbers(each)["task_s"] for each in ring]
    assert cells["task_s"][1] == pytest.approx(np.mean(means), abs=1e-6)
    page = (folder / "comparison.html").read_text()
    code = re.search("<code>(.*?)</code>", page)
    assert code is not None
    assert re.sub("<[^>]*>", "", code[1]) == shlex.join(["trunkline", *command])
    assert "All runs: 3 sites, 6 directed links, policy preduce, predicted by" in page
    assert "not runs; nothing is judged" in page
    assert "Predicted by the fluid model, not run: 2 variants, 4 trials." in page
    assert "predicted / expected" in page and "trunkline predict" in page
    assert "measured" not in page and "that passed" not in page
    began = (folder / "runs").stat().st_mtime_ns
    assert main.main(command) == 0 and (folder / "runs").stat().st_mtime_ns == began


def test_a_comparison_shows_predictions_beside_what_it_measured(three, capsys):
    def run_slowly(jobs, runs_dir, at_once, on_finished, on_running):
        """Runs that pass, and take twice as long as predicted."""
        for job in jobs:
            folder = RunFolder(runs_dir / job.name / "20260101-000000")
            scenario = parse(job.text, job.file, job.overrides, job.seed)
            numbers = predictions.predict_numbers(scenario)
            row = {"task_s": 2 * numbers["task_s"], "rounds": numbers["rounds"], "by_hand": ""}
            folder.write_table("run", pd.DataFrame([row]))
            folder.write_json("verdict.json", {"verdict": "pass"})
            folder.write_text("events.jsonl", "")
            record = make_record(job.identity, hash_log(folder.path), None)
            folder.write_json(RECORD, record)
            on_finished(Finished(job, "pass", folder.path, None))

    kind = replace(comparison_runs.RUNS, check_machine=lambda _: None, carry_out=run_slowly)
    axes = read_axes(["scheme.plan=crew,ring"])
    spec = comparison_runs.plan("three.yaml", axes, 2, kind=kind)
    spec = replace(spec, predicted=predictions.predict_beside(spec, 1, lambda *now: None))
    # The folders have no log that a page could be made of.
    (three / "out").mkdir()
    original, comparison_runs._write_page = comparison_runs._write_page, lambda *_: None
    try:
        comparison_runs.run(spec, three / "out", 1, lambda sweep: None)
    finally:
        comparison_runs._write_page = original
    cells = pd.read_csv(three / "out" / "tables" / "cells.csv")
    assert cells["task_s_over_prediction"].tolist() == pytest.approx([2.0, 2.0], abs=1e-4)
    assert cells["task_s"].tolist() == pytest.approx(
        (2 * cells["predicted_task_s"]).tolist(), abs=3e-6
    )
    assert cells["rounds_over_prediction"].tolist() == pytest.approx([1.0, 1.0])


def test_a_comparison_without_any_prediction_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scenario = str(SCENARIOS / "gloo_allreduce.yaml")
    assert main.main(["compare", scenario, "--trials", "1", "--beside-prediction"]) == 64
    assert "can predict none of the trials" in capsys.readouterr().err


def test_thousands_of_clients_are_predicted():
    clients = SCENARIOS / "paper" / "r2sp" / "federated.yaml"
    scenario = load(clients, ["topology.sites=2001", "scheme.name=fl-bsp", "stop.time=10 s"])
    found = predictions.predict_numbers(scenario)
    # The first three quarters push 1.6 Mbit each at once, over 100 Mbit/s and 10 ms.
    assert found["push_s"] == pytest.approx(1500 * 1.6 / 100 + 0.01)


def test_rho_of_many_sites_is_that_of_all_eigenvalues(monkeypatch):
    sites = [f"n{number}" for number in range(12)]
    draw = np.random.default_rng(1)
    groups = [dict.fromkeys(draw.choice(sites, 4, replace=False), 1.0) for _ in range(30)]
    groups += [{"n0": 2.0, "n1": 1.0}]
    exact = mixing.compute_rho(groups, sites)
    monkeypatch.setattr(mixing, "MANY_SITES", 5)
    assert mixing.compute_rho(groups, sites) == pytest.approx(exact, abs=1e-8)
    assert mixing.compute_rho([dict.fromkeys(sites, 1.0)], sites) == 0.0


@pytest.mark.parametrize("name", ["internet2_ring", "os3e", "racks", "access_links"])
def test_the_longest_round_trip_needs_the_farthest_leaves_only(monkeypatch, name):
    topology = load(SCENARIOS / f"{name}.yaml").topology
    exact = failover_timeouts.find_longest_round_trip_ms(topology)
    monkeypatch.setattr(failover_timeouts, "MANY_SITES", 0)
    assert failover_timeouts.find_longest_round_trip_ms(topology) == pytest.approx(exact)
