"""`trunkline.open_run`: data frames of tables and rates, and what a notebook shows."""

import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from finished_runs import make_agents_run, make_programs_run

import trunkline
from trunkline.harness.report import outputs


@pytest.fixture(scope="module")
def agents(tmp_path_factory) -> Path:
    return make_agents_run(tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    return make_programs_run(tmp_path_factory.mktemp("programs"))


def test_tables_are_those_that_are_computed_from_the_log(agents: Path, programs: Path) -> None:
    for folder in (agents, programs):
        run, computed = trunkline.open_run(folder), outputs.read(folder).tables
        assert {*run} == {*computed}
        for name, table in computed.items():
            pd.testing.assert_frame_equal(run[name], table, rtol=0, atol=1e-6)


def test_a_finished_run_is_opened_without_reading_its_log_again(
    agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "read", lambda run_dir: pytest.fail("read again"))
    run = trunkline.open_run(str(agents))
    assert (run.verdict, len(run["tasks"])) == ("fail", 3)
    assert run.scenario["stop"]["time"] == "4.4 s"


def test_a_table_that_is_not_there_is_told_with_those_that_are(agents: Path) -> None:
    run = trunkline.open_run(agents)
    with pytest.raises(KeyError) as missing:
        run["taks"]
    assert str(missing.value) == (
        f"taks: no such table: did you mean tasks? expected one of {', '.join(run)}"
    )
    with pytest.raises(KeyError) as missing:
        run["duration_s"]
    assert str(missing.value) == (
        f"duration_s: no such table: it is a column of tasks: expected one of {', '.join(run)}"
    )
    assert "nothing" not in run
    assert run.get("nothing") is None


def test_a_run_that_was_not_judged_is_read_from_its_log(agents: Path, tmp_path: Path) -> None:
    for name in ("events.jsonl", "resolved.yaml"):
        (tmp_path / name).write_text((agents / name).read_text())
    run = trunkline.open_run(tmp_path)
    assert (run.verdict, len(run["tasks"])) == ("fail", 3)


def test_rates_have_a_column_per_directed_link(agents: Path) -> None:
    run = trunkline.open_run(agents)
    rates = run.link_rates(step_s=0.1)
    assert rates.columns.names == ["src", "dst"]
    assert rates.columns.tolist() == [*zip(run["links"]["src"], run["links"]["dst"], strict=True)]
    assert rates.index[:3].tolist() == pytest.approx([0.0, 0.1, 0.2])
    carried = (rates.sum() * 0.1 * 1e6 / 8).tolist()
    assert carried == pytest.approx(run["links"]["bytes"].tolist())
    assert len(run.link_rates()) == 200
    for wrong in (0, "a", math.nan):
        with pytest.raises(ValueError, match="expected a number of seconds, more than 0"):
            run.link_rates(step_s=wrong)
    with pytest.raises(ValueError, match=r"step_s=1e-07: expected .* or more: 1000000 steps"):
        run.activity(step_s=1e-7)


def test_activity_has_columns_per_site_that_add_up_to_the_table_of_workers(agents: Path) -> None:
    run = trunkline.open_run(agents)
    shares = run.activity(step_s=0.1)
    computing_s = shares.xs("computing", axis="columns", level="activity").sum() * 0.1
    workers = run["workers"].set_index("site")
    assert computing_s.to_dict() == pytest.approx(workers["compute_s"].to_dict(), abs=1e-6)
    assert shares.min(axis=None) >= 0
    assert shares.T.groupby(level="site").sum().max(axis=None) <= 1 + 1e-9


def test_processes_of_a_site_that_compute_at_once_count_once(programs: Path) -> None:
    shares = trunkline.open_run(programs).activity(step_s=0.5)
    assert shares["n1", "computing"].tolist() == pytest.approx([0.5, 0.0])


def test_programs_are_computing_or_in_a_call(programs: Path) -> None:
    run = trunkline.open_run(programs)
    shares = run.activity(step_s=0.5)
    assert {*shares.columns.get_level_values("activity")} == {"computing", "in a call"}
    called_s = shares.xs("in a call", axis="columns", level="activity").sum() * 0.5
    assert run["calls"].groupby("site")["duration_s"].sum().to_dict() == {"n1": 0.2, "n2": 0.11}
    unfinished_s = 0.5  # of n1, until the end of the run
    assert called_s[called_s > 0].to_dict() == pytest.approx({"n1": 0.2 + unfinished_s, "n2": 0.11})


def test_a_notebook_shows_verdict_numbers_and_tables_and_no_markup_of_others(agents: Path) -> None:
    run = trunkline.open_run(agents)
    shown = run._repr_html_()
    assert f"<b>{agents.parent.name}/{agents.name}</b>: fail" in shown
    assert "faults match the timeline: " in shown
    assert "<th>tasks</th><td>2</td>" in shown
    assert "tables (rows): tasks (3), members (6), " in shown
    assert repr(run).startswith(f"<Run {agents.parent.name}/{agents.name}: fail, tables tasks, ")
    assert run._ipython_key_completions_() == list(run)


def test_what_is_no_run_is_refused(agents: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such run: expected a run's folder, such as"):
        trunkline.open_run(tmp_path / "nothing")
    (tmp_path / "20260101-000000").mkdir()
    (tmp_path / "20260101-000000" / "scenario.yaml").write_text("")
    with pytest.raises(FileNotFoundError, match="this run has no events: expected one that began"):
        trunkline.open_run(tmp_path / "20260101-000000")
    (tmp_path / "latest").symlink_to(agents)
    with pytest.raises(FileNotFoundError, match="did you mean"):
        trunkline.open_run(tmp_path)


def test_the_name_of_a_scenario_is_answered_with_its_latest_run(
    tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "runs" / "mine" / "latest").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"mine: no such run: did you mean runs/mine/latest\?"
    ):
        trunkline.open_run("mine")
    for other in ("yours", "."):
        with pytest.raises(FileNotFoundError, match="no such run: expected a run's folder"):
            trunkline.open_run(other)


def test_the_package_imports_no_pandas_before_a_run_is_opened() -> None:
    code = "import sys, trunkline; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
