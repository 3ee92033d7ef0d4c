"""The process that starts those of many runs."""

from __future__ import annotations

import functools
import sys

from trunkline.harness.runs import provenance, run_pool, run_process, run_starter


def test_a_run_is_a_fork_until_a_file_of_trunkline_changes(monkeypatch):
    monkeypatch.setattr(run_process, "main", lambda: 3)
    begin = run_starter._import((), lambda: 7)
    assert begin() == 3
    monkeypatch.setattr(provenance, "hash_code", functools.cache(lambda entries: "another"))
    assert begin() == 7


def test_the_pool_asks_for_what_a_fork_can_carry_out():
    assert list(run_pool.PROGRAM) == run_starter.OWN


def test_the_end_of_the_starter_is_the_error_of_each_run(tmp_path, monkeypatch):
    monkeypatch.setattr(run_pool, "STARTER", (sys.executable, "-c", "raise SystemExit(5)"))
    jobs = [run_pool.Job(name, "x.yaml", "", (), 1, name) for name in "ab"]
    done: list[run_pool.Finished] = []
    run_pool.run(jobs, tmp_path, 2, done.append, lambda running: None)
    assert [(each.job.name, each.outcome) for each in done] == [("a", "error"), ("b", "error")]
    assert {(each.error or "").partition(":")[0] for each in done} == {"no run can start"}
