"""What faults cost a run, measured by runs without some of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trunkline.harness.commands import main
from trunkline.harness.record.history import History
from trunkline.harness.report import outputs
from trunkline.harness.runs import measured_faults, runner
from trunkline.harness.scenario.loading import parse

TEXT = """
name: faulty
topology: {builder: full_mesh, sites: 3, rates: 20 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 500 kB, compute: 0.2 s}
scheme: {policy: bsp, plan: ring}
timeline:
- {at: 3 s, do: setlink n1 n2 rate=10Mbit/s for 1 s}
- {at: 1 s, do: pause n2 for 1 s}
stop: {tasks: 6}
outputs: {plots: false}
"""


@pytest.fixture
def run_dir(embedded, make_once, tmp_path) -> Path:
    """A run with two faults."""

    def carry_out(home: Path) -> None:
        (home / "faulty.yaml").write_text(TEXT)
        scenario = parse(TEXT, str(home / "faulty.yaml"))
        runner.run(scenario, home / "faulty.yaml", home / "runs", lambda _: None)

    return next((make_once(carry_out) / "runs" / "faulty").glob("2*"))


def test_each_entry_costs_what_the_run_with_it_takes_longer(run_dir, capsys) -> None:
    """A pause of a second while a site computes or sends delays each later task by about that."""
    assert main.main(["explain", str(run_dir), "--measure"]) == 0
    captured = capsys.readouterr()
    first, head, *rows = (" ".join(line.split()) for line in captured.out.splitlines())
    assert first.startswith("Without faults, the last task ended ")
    assert head == "with last task ended (s) longer by (s) tasks completed"
    assert [row.rsplit(" ", 3)[0] for row in rows[1:]] == [
        "also pause n2 for 1 s at 1 s",
        "also setlink n1 n2 both rate=10Mbit/s for 1 s at 3 s",
    ]
    costs_s = [float(row.split()[-2]) for row in rows[1:]]
    assert 0.7 <= costs_s[0] <= 1.2
    assert 0.0 <= costs_s[1] <= 1.0
    assert "run 1 of 2: with no fault" in captured.err
    _, history = outputs.read_history(run_dir)
    with_all = measured_faults.Outcome.of(2, history)
    assert float(rows[-1].split()[-3]) == pytest.approx(with_all.ended_s, abs=1e-3)
    runs = sorted((run_dir / measured_faults.FOLDER / "faulty").glob("2*"))
    assert [len(outputs.read_history(each)[0].timeline) for each in runs] == [0, 1]


def test_many_entries_are_measured_together(run_dir, monkeypatch) -> None:
    asked: list[int] = []

    class Done:
        run_dir = Path()
        verdict = type("", (), {"outcome": "unknown"})

    def carry_out(scenario, source, runs_dir, on_progress):
        asked.append(len(scenario.timeline))
        return Done

    scenario, history = outputs.read_history(run_dir)
    monkeypatch.setattr(measured_faults.runner, "run", carry_out)
    monkeypatch.setattr(measured_faults.outputs, "read_history", lambda _: (scenario, history))
    many = replace(scenario, timeline=scenario.timeline * 5)
    found = measured_faults.measure(run_dir, many, history, lambda _: None)
    assert asked == [0]
    assert (found.longer_s, len(found.outcomes)) == (0.0, 2)
    _, table = measured_faults.describe(found)
    assert "no fault (verdict: unknown)" in next(iter(table.columns[0].cells))
    assert json.loads(json.dumps(measured_faults.to_json(found)))["outcomes"][0]["entries"] == 0


def test_what_cannot_be_measured_is_refused(run_dir, capsys, tmp_path) -> None:
    scenario, history = outputs.read_history(run_dir)
    plain = replace(scenario, timeline=())
    (why,) = measured_faults.list_problems(plain, history)
    assert why.startswith("the scenario has no timeline")
    typed = [replace(e, asked=True) if hasattr(e, "asked") else e for e in history.events]
    (why,) = measured_faults.list_problems(scenario, History.of(typed))
    assert why.startswith("faults were typed during this run")
    assert main.main(["explain", str(run_dir), "--measure", "--task", "1"]) == 64
    assert "--measure: expected without --task and --step" in capsys.readouterr().err
