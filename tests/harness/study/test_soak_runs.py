"""Soaking: seeds, random faults, and shrinking a failure to what causes it."""

import argparse
import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.harness.commands.verbs.soak import parse_kept
from trunkline.harness.faults.fault_types import Churn, Kill, Outage
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.kernel import KernelError
from trunkline.harness.runs.run_pool import Finished
from trunkline.harness.scenario.loading import parse, resolve
from trunkline.harness.study import soak_runs

SCENARIO = """
topology: {builder: full_mesh, sites: 3}
workload: {kind: synthetic, model: 1 MB}
scheme: {policy: bsp, plan: ring}
stop: {time: 20 s}
seed: 7
"""


def written(tmp_path, text=SCENARIO):
    path = tmp_path / "three.yaml"
    path.write_text(text)
    return path


def scenario_of(job):
    return parse(job.text, job.file, job.overrides, job.seed)


def test_runs_have_seeds_in_a_row_and_random_faults(tmp_path):
    asked = soak_runs.plan(written(tmp_path), 3)
    jobs = [asked.job(seed) for seed in asked.seeds]
    assert [job.seed for job in jobs] == [7, 8, 9]
    for job in jobs:
        (entry,) = scenario_of(job).timeline
        assert isinstance(entry.fault, Churn)
        assert entry.fault.controller_s == 30.0


def test_a_scenario_s_own_timeline_is_kept_unless_other_faults_are_asked_for(tmp_path):
    own = SCENARIO + "timeline: [{at: 2 s, do: outage n1 n2 for 1 s}]\n"
    path = written(tmp_path, own)
    asked = soak_runs.plan(path, 1, seed=1)
    assert scenario_of(asked.job(1)).timeline == (Entry(2.0, Outage("n1", "n2", for_s=1.0)),)
    asked = soak_runs.plan(path, 1, seed=1, churn="churn kills=5s")
    assert soak_runs.plan(path, 1, seed=1, churn="kills=5s") == asked
    assert scenario_of(asked.job(1)).timeline == (Entry(0.0, Churn(kills_s=5.0)),)


def test_faults_that_happened_are_written_out_in_place_of_what_caused_them(tmp_path):
    def fault(t_ns, number, text):
        verb = text.split()[0]
        words = {"fault": number, "verb": verb, "text": text, "targets": []}
        return {"t_ns": t_ns, "site": "runner", "event": "fault_started", **words}

    start = {"policy": "", "plan": "", "group": [], "weights": {}, "scale": 1.0, "task": 0}
    start |= {"bytes": 1, "chunk_bytes": 1, "forest": {}}
    log = [
        {"t_ns": 500, "site": "controller", "event": "task_started", **start},
        fault(600, 0, "churn kills=5s outages=3s"),
        fault(1_000_000_500, 1, "kill n1 for 2.5 s"),
        fault(1_250_000_500, 2, "outage n1 n2 both blackhole for 1 s"),
    ]
    topology = parse(SCENARIO, "three.yaml").topology
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    assert soak_runs.expand_faults(tmp_path, topology) == (
        Entry(1.0, Kill("n1", for_s=2.5)),
        Entry(1.25, Outage("n1", "n2", for_s=1.0)),
    )


@given(st.sets(st.integers(0, 19), max_size=4))
def test_what_remains_is_what_it_takes_to_fail(needed):
    entries = [Entry(float(n), Kill("n1")) for n in range(20)]

    def fails(some):
        return {int(entry.at_s) for entry in some} >= needed

    assert {int(entry.at_s) for entry in soak_runs.shrink(entries, fails, 1000)} == needed


def test_shrinking_stops_after_so_many_tries():
    entries = [Entry(float(n), Kill("n1")) for n in range(20)]
    asked = []
    kept = soak_runs.shrink(entries, lambda some: bool(asked.append(some)) or len(some) > 12, 3)
    assert len(asked) == 3
    assert len(kept) > 12


def test_a_shrunk_timeline_is_a_scenario_again(tmp_path):
    asked = soak_runs.plan(written(tmp_path), 1)
    scenario = scenario_of(asked.job(7))
    again = parse(resolve(scenario), "again.yaml")
    assert again.timeline == scenario.timeline


def test_what_a_failure_needs_is_found_by_running_it(tmp_path, monkeypatch):
    tried = []

    def run(jobs, runs_dir, at_once, on_finished, on_running):
        (job,) = jobs
        assert Path(job.file).read_text() == job.text
        timeline = parse(job.text, job.file).timeline
        tried.append(timeline)
        failed = any(isinstance(entry.fault, Kill) for entry in timeline)
        on_finished(Finished(job, "fail" if failed else "pass", None, None))

    monkeypatch.setattr(soak_runs.run_pool, "run", run)
    asked = soak_runs.plan(written(tmp_path), 1)
    cuts = [Entry(float(n), Outage("n1", "n2", for_s=0.5)) for n in range(4)]
    smaller = []
    found = soak_runs.minimize(
        asked, 7, [*cuts, Entry(9.0, Kill("n3"))], tmp_path, 40, smaller.append
    )
    assert found.timeline == (Entry(9.0, Kill("n3")),)
    assert [len(each.timeline) for each in smaller] == sorted({5, 3, 2, 1}, reverse=True)
    assert smaller[-1] == found
    assert soak_runs.minimize(asked, 7, cuts, tmp_path, 40, smaller.append) is None
    assert [path.name for path in tmp_path.iterdir()] == ["three.yaml"]


def test_what_the_machine_lacks_is_no_failure_of_a_run(tmp_path, monkeypatch):
    asked = soak_runs.plan(written(tmp_path), 1)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(KernelError, match=r"^programs: grep not found"):
        soak_runs.run(asked, tmp_path / "out", 1, lambda sweep: None)
    assert not (tmp_path / "out").exists()


def test_a_run_that_passes_leaves_a_row_and_no_folder(embedded, tmp_path):
    text = SCENARIO.replace("plan: ring", "plan: ring, chunk: 64 KiB").replace("20 s", "3 s")
    asked = soak_runs.plan(written(tmp_path, text), 1, churn="churn outages=0.5s lasting=0.1..0.2s")
    rows, failed = soak_runs.run(asked, tmp_path / "out", 1, lambda sweep: None)
    assert failed is None
    (row,) = rows.to_dict("records")
    assert (row["seed"], row["outcome"]) == (7, "pass")
    assert row["outages"] > 0
    assert row["completed"] == row["tasks"] > 0
    assert list((tmp_path / "out").glob("runs/*/*")) == []
    assert pd.read_csv(tmp_path / "out/tables/runs.csv")["seed"].tolist() == [7]


@pytest.mark.parametrize(("keep", "left"), [(0, []), (2, ["8", "9"]), (None, ["7", "8", "9"])])
def test_the_folders_of_the_last_runs_that_passed_are_kept(tmp_path, monkeypatch, keep, left):
    def run(jobs, runs_dir, at_once, on_finished, on_running):
        for job in jobs:
            folder = runs_dir / str(job.seed)
            folder.mkdir(parents=True)
            (folder / "events.jsonl").write_text("")
            on_finished(Finished(job, "pass", folder, None))

    monkeypatch.setattr(soak_runs.run_pool, "run", run)
    asked = soak_runs.plan(written(tmp_path), 3)
    soak_runs.run(asked, tmp_path / "out", 1, lambda sweep: None, keep)
    assert sorted(path.name for path in (tmp_path / "out/runs").iterdir()) == left


@pytest.mark.parametrize(("text", "kept"), [("all", None), ("failed", 0), ("12", 12)])
def test_which_runs_to_keep_is_a_word_or_a_number(text, kept):
    assert parse_kept(text) == kept


def test_other_words_for_which_runs_to_keep_are_refused():
    with pytest.raises(argparse.ArgumentTypeError, match="'some': expected all, failed, or a num"):
        parse_kept("some")


def test_totals_add_up_runs_and_what_happened_in_them():
    rows = pd.DataFrame(
        [
            {"seed": 1, "outcome": "pass", "error": "", "kills": 2, "tasks": 10},
            {"seed": 2, "outcome": "fail", "error": "x", "kills": 1, "tasks": 5},
        ]
    )
    assert soak_runs.sum_up(rows) == {"runs": 2, "passed": 1, "kills": 3, "tasks": 15}
