"""How tasks went without some of the faults of a run, as the command and the page show it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from finished_runs import make_agents_run

from trunkline.harness.commands import listings, main
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations import explained_tasks
from trunkline.harness.report.explanations.costs.measured_costs import (
    TASK_TITLES,
    Measured,
    Outcome,
)

OUTAGE = "outage oslo rome for 100 ms at 0.1 s"
ROWS = {
    0: [
        ("no fault", "0.050", "0.250", "0.300", "completed"),
        (f"also {OUTAGE}", "0.210", "1.270", "1.480", "completed"),
    ],
    1: [
        ("no fault", "1.510", "0.780", "2.290", "a task of oslo, rome"),
        (f"also {OUTAGE}", "1.510", "0.780", "2.290", "completed"),
    ],
    2: [
        ("no fault", "", "", "", "no such task ended"),
        (f"also {OUTAGE}", "2.400", "2.000", "4.400", "abandoned"),
    ],
}
"""What the tables of the tasks of `run_dir` have."""


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run that was measured. Without its outage, task 0 was earlier, and there was no task 2."""
    folder = make_agents_run(tmp_path / "run")
    whole = Outcome.of(1, outputs.read(folder))
    first, second, third = (whole.tasks[number] for number in range(3))
    tasks = {
        0: replace(first, start_s=0.05, duration_s=0.25),
        1: replace(second, group=("oslo", "rome")),
        5: third,
    }
    plain = replace(whole, entries=0, times=replace(whole.times, sync_s=0.1), tasks=tasks)
    measured = Measured((OUTAGE,), (plain, whole), ((0,),), own=whole.tasks)
    (folder / outputs.MEASURED).write_text(json.dumps(measured.to_json()))
    assert outputs.read(folder).measured == measured
    return folder


@pytest.mark.parametrize(
    ("number", "durations_s"), [(0, [0.25, 1.27]), (1, [0.78, 0.78]), (2, [None, 2.0])]
)
def test_the_explanation_of_a_task_tells_how_it_went_without_faults(
    run_dir: Path, capsys, number: int, durations_s: list[float | None]
) -> None:
    assert main.main(["explain", str(run_dir), "--task", str(number)]) == 0
    lines = [re.split(r" {2,}", line.rstrip()) for line in capsys.readouterr().out.splitlines()]
    place = lines.index([*TASK_TITLES])
    assert lines.index(["took (s)", "share", "cause"]) < place
    assert lines[place + 1 : place + 3] == [[*filter(None, row)] for row in ROWS[number]]
    assert main.main(["explain", str(run_dir), "--task", str(number), "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["measured"]
    assert [None if run is None else run["duration_s"] for run in runs] == durations_s


def test_what_is_not_known_is_null_in_json(run_dir: Path, capsys, monkeypatch) -> None:
    """JSON has no NaN."""
    monkeypatch.setattr(explained_tasks, "list_expected", lambda tasks: [math.nan] * len(tasks))
    assert main.main(["explain", str(run_dir), "--task", "all", "--json"]) == 0
    said = capsys.readouterr().out
    assert "NaN" not in said
    assert {json.loads(line)["expected_s"] for line in said.splitlines()} == {None}


def test_a_run_that_is_running_is_read_so_far_and_not_measured(
    run_dir: Path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(listings, "is_running", lambda folder: True)
    assert main.main(["explain", str(run_dir)]) == 0
    assert capsys.readouterr().out.startswith("This run is running: it was read at ")
    assert main.main(["explain", str(run_dir), "--measure"]) != 0
    said = capsys.readouterr().err
    assert f"--measure: {run_dir}: this run is running: expected one that has ended" in said


def test_the_page_has_these_tables_of_the_tasks_that_it_explains(run_dir: Path) -> None:
    outputs.write_page_again(run_dir)
    page = (run_dir / "report.html").read_text()
    tables = re.findall(
        r"Task (\d+) without some of the faults<.*?<table.*?>(.*?)</table>", page, re.DOTALL
    )
    assert [number for number, _ in tables] == ["2"]  # the other tasks are as expected
    rows = re.findall(r"<tr.*?>(.*?)</tr>", tables[0][1], re.DOTALL)
    cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    texts = [tuple(re.sub("<.*?>", "", cell) for cell in row) for row in cells]
    assert texts == [TASK_TITLES, *ROWS[2]]


def test_a_run_that_was_not_measured_has_no_such_table(run_dir: Path, capsys) -> None:
    (run_dir / outputs.MEASURED).unlink()
    assert main.main(["explain", str(run_dir), "--task", "0"]) == 0
    assert "began (s)" not in capsys.readouterr().out
    outputs.write_page_again(run_dir)
    assert "without some of the faults" not in (run_dir / "report.html").read_text()


def test_the_times_of_sites_without_faults_are_those_of_the_first_run(
    run_dir: Path, capsys
) -> None:
    data = outputs.read(run_dir)
    assert data.measured is not None
    times = data.measured.outcomes[0].times
    assert main.main(["explain", str(run_dir)]) == 0
    said = capsys.readouterr().out
    assert "Because of faults, the network took more time than computing: " in said
    without = f" Without faults, a site was in tasks for {times.sync_s:.3f} s, computed for "
    assert (
        f"{without}{times.compute_s:.3f} s, and waited for {times.wait_s:.3f} s (measured)." in said
    )


def test_a_task_that_the_run_with_all_faults_did_not_have_is_explained_all_the_same(
    tmp_path: Path, capsys
) -> None:
    """Typed faults, or an end by hand: then the last outcome is another run than this one."""
    folder = make_agents_run(tmp_path / "run")
    whole = Outcome.of(1, outputs.read(folder))
    last = replace(whole, tasks={n: each for n, each in whole.tasks.items() if n != 2})
    measured = Measured((OUTAGE,), (replace(whole, entries=0), last), ((0,),))
    (folder / outputs.MEASURED).write_text(json.dumps(measured.to_json()))
    outputs.write_page_again(folder)
    assert main.main(["explain", str(folder), "--task", "2"]) == 0
    assert "no such task ended" in capsys.readouterr().out
    assert main.main(["explain", str(folder), "--task", "2", "--json"]) == 0
    without, with_all = json.loads(capsys.readouterr().out)["measured"]
    assert (without["task"], with_all) == (2, None)
