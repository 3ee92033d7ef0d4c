"""Every figure is a sound comparison, and the command shows claim, fluid model and measurement."""

import contextlib
import os
from pathlib import Path
from typing import get_args, get_type_hints

import pandas as pd
import pytest

from trunkline.harness.commands import main
from trunkline.harness.commands.verbs import compare as comparing
from trunkline.harness.fluid import fluid_run
from trunkline.harness.report.tables.run_table import RunRow
from trunkline.harness.runs import provenance
from trunkline.harness.scenario.loading import parse
from trunkline.harness.study import (
    comparison,
    comparison_runs,
    grid,
    model_figures,
    papers,
    rack_step,
    reproduction,
)
from trunkline.workloads.layered.model import find_names

SCENARIOS = Path(__file__).parents[3] / "scenarios"
FIGURES = papers.find_figures()
MODEL_FIGURES = [name for name in FIGURES if isinstance(FIGURES[name], papers.ModelFigure)]

SMALL = (
    *("--set", "topology.rates=8 Mbit/s", "--set", "topology.rate_factor=1"),
    *("--set", "topology.sites=4", "--set", "workload.model=1 MB", "--set", "scheme.chunk=10 kB"),
    *("--set", "stop.tasks=1", "--set", "scheme.p=2"),
)


@pytest.fixture
def libraries(tmp_path_factory, monkeypatch):
    """The programs of libraries that figures start, which only the extra `gallery` installs."""
    folder = tmp_path_factory.mktemp("libraries")
    Path(folder, "torchft_lighthouse").touch(0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{folder}")


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", FIGURES)
def test_every_cell_of_a_figure_is_a_valid_scenario_and_its_metric_is_measured(name):
    found = FIGURES[name]
    figure = found.measured if isinstance(found, papers.ModelFigure) else found
    asked = comparison_runs.plan(SCENARIOS / figure.scenario, grid.read_axes(figure.vary), 1)
    assert len(asked.trials) > 1
    job = asked.trials[0].job
    expects = parse(job.text, job.file, job.overrides, job.seed).expect
    expected = {comparison.EXPECTATIONS} if expects else set()
    assert figure.metric in {*RunRow.columns(), *expected}


@pytest.mark.parametrize("words", [[], ["--list"]])
def test_the_list_has_every_figure(words, capsys):
    assert main.main(["reproduce", *words]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(FIGURES)


def test_an_unknown_figure_is_bad_usage(capsys):
    assert main.main(["reproduce", "crew/99"]) == 64
    assert "did you mean crew/9? expected one of crew/4" in capsys.readouterr().err


def test_measurement_stands_beside_the_fluid_model(monkeypatch, capsys, tmp_path):
    def carry_out(asked, folder, arguments, there):
        (tmp_path / "plots").mkdir()
        (tmp_path / "tables").mkdir()
        rows = []
        for number, trial in enumerate(asked.trials, 1):
            row = {**dict(trial.cell.values), "trial": 0, "seed": 1, "verdict": "pass"}
            row |= {"task_s": 2.0 * number, "estimate_s": 1.0, "latency_s": 0.0}
            rows.append({**row, "run": "x", "error": ""})
        return pd.DataFrame(rows)

    monkeypatch.setattr(comparing, "carry_out", carry_out)
    command = ["reproduce", "crew/4", "--trials", "1", "--out", str(tmp_path), *SMALL]
    command += ["--vary", "scheme.pipelined=true"]
    assert main.main(command) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"claim {FIGURES['crew/4'].claim}" in lines
    # Of four equal sites two use their own links alone, or all: n / p times as many.
    assert "{plan: opr} true 8 4 1 2" in lines
    assert (tmp_path / "plots" / "task_s.png").exists()
    assert len(pd.read_csv(tmp_path / "tables" / "fluid.csv")) == 9


def test_the_fluid_model_alone_measures_nothing(capsys, tmp_path):
    command = ["reproduce", "crew/4", "--trials", "2", "--fluid", "--out", str(tmp_path), *SMALL]
    command += ["--vary", "scheme.pipelined=true"]
    assert main.main(command) == 0
    assert "{plan: opr} true 1 2" in " ".join(capsys.readouterr().out.split())
    assert [path.name for path in tmp_path.rglob("*.*")] == ["fluid.csv"]


def test_a_trial_is_predicted_once_by_the_same_code(monkeypatch, capsys, tmp_path):
    predicted = []

    class Here:  # the pool's processes would not tell how many trials they predict
        def map(self, function, trials):
            predicted.append(len(trials))
            return map(function, trials)

    @contextlib.contextmanager
    def stay_here(count):
        yield Here()

    monkeypatch.setattr(reproduction, "worker_processes", stay_here)
    command = ["reproduce", "crew/4", "--fluid", "--out", str(tmp_path), *SMALL]
    for words in (["1"], ["2"], ["2"], ["2", "--set=workload.compute=2 s"]):
        assert main.main([*command, "--vary=scheme.pipelined=true", "--trials", *words]) == 0
    shown = capsys.readouterr().out.split("claim")
    assert shown[2] == shown[3]
    hash_code, name = provenance.hash_code, fluid_run.__name__
    monkeypatch.setattr(
        provenance, "hash_code", lambda of: hash_code(of)[:: -1 if name in of else 1]
    )
    assert main.main([*command, "--vary=scheme.pipelined=true", "--trials=2"]) == 0
    assert predicted == [9, 9, 0, 18, 18]


def test_a_column_that_the_fluid_model_does_not_predict_is_named(capsys, tmp_path):
    small = ("--set=stop.time=3 s", "--vary=scheme.batch=null")
    command = ["reproduce", "r2sp/table3", "--fluid", "--trials=1", f"--out={tmp_path}", *small]
    assert main.main(command) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "fluid unknown: the model does not predict wait_s; this is update_s" in said
    assert "fluid time per update (s)" in said
    assert main.main([*command, "--set=timeline=[{at: 1 s, do: outage n1 n1-gw}]"]) == 0
    assert "fluid  unknown: the model cannot predict this scenario\n" in capsys.readouterr().out


def test_what_a_figure_varies_can_be_varied_otherwise(capsys, tmp_path):
    command = ["reproduce", "crew/6", "--trials", "1", "--fluid", "--out", str(tmp_path)]
    small = ["--set", "topology.sites=4", "--set", "stop.time=2 s", "--set", "scheme.chunk=20 kB"]
    assert main.main([*command, *small, "--vary", "scheme.p=2"]) == 0
    lines = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert lines[-2:] == [["blocking", "2"], ["non-blocking", "2"]]
    assert main.main([*command, *small, "--set", "scheme.p=2"]) == 64
    assert "--set scheme.p is varied" in capsys.readouterr().err


def test_a_figure_is_all_of_its_panels(capsys, tmp_path):
    small = ["--set=stop.time=10 s", "--vary=topology.sites=5", "--vary=workload.model=168 kB"]
    command = ["reproduce", "netstorm/19", "--trials=1", "--fluid", f"--out={tmp_path}", *small]
    assert main.main(command) == 0
    claims = [line for line in capsys.readouterr().out.splitlines() if line.startswith("claim")]
    assert claims == [f"claim  {FIGURES[f'netstorm/{panel}'].claim}" for panel in ("19a", "19b")]
    found = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.*"))
    assert found == [Path(panel, "tables", "fluid.csv") for panel in "ab"]


def test_a_name_with_panels_means_all_of_them(capsys, tmp_path):
    command = ["reproduce", "diloco/utilization", "--trials=1", "--fluid", f"--out={tmp_path}"]
    assert main.main(command) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    # 5 steps of 0.1 s; 2 x 8 x 1.002 Mbit / 50 Mbit/s x 2/3, and one latency
    for delay_ms in (5, 150):
        expected = 100 * 0.5 / (0.5 + 2 * 8 * 1.002 / 50 * 2 / 3 + delay_ms / 1e3)
        (row,) = [line for line in lines if line[:5] == ["50", "Mbit/s", "5", str(delay_ms), "ms"]]
        assert float(row[5]) == pytest.approx(expected, rel=1e-2)
    found = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.*"))
    assert found == [Path(panel, "tables", "fluid.csv") for panel in ("rate", "rtt")]


@pytest.mark.usefixtures("libraries")
def test_a_map_has_no_prediction_and_ends_well_if_trials_only_missed(monkeypatch, capsys, tmp_path):
    def carry_out(asked, folder, arguments, there):
        rows = []
        for trial in asked.trials:
            row = {**dict(trial.cell.values), "trial": 0, "seed": 1, "task_s": 1.0}
            row |= {"estimate_s": 1.0, "latency_s": 0.0, "run": "x", "error": ""}
            is_short = dict(trial.cell.values)["workload.env.TIMEOUT"] == "1"
            row |= {"verdict": "fail", "expectations": "missed"} if is_short else {}
            rows.append({"verdict": "pass", "expectations": "met", **row})
        return pd.DataFrame(rows)

    monkeypatch.setattr(comparing, "carry_out", carry_out)
    assert main.main(["reproduce", "torchft/timeouts-rtt", "--trials=1", f"--out={tmp_path}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["1", *["0", "of", "1"] * 4] for line in lines)
    assert any(line.split() == ["2", *["1", "of", "1"] * 4] for line in lines)


def test_a_figure_that_has_no_panels_is_alone_though_others_begin_with_its_name(capsys, tmp_path):
    assert {"r2sp/16", "r2sp/16-pushes", "r2sp/8", "r2sp/8b"} <= FIGURES.keys()
    command = ["reproduce", "r2sp/16", "--fluid", "--trials=1", f"--out={tmp_path}"]
    assert main.main([*command, "--set=topology.sites=9", "--set=stop.time=20 s"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]
    assert capsys.readouterr().out.count("claim  ") == 1


def test_what_is_wrong_with_any_panel_is_said_before_the_first_one_is_run(capsys, tmp_path):
    command = ["reproduce", "netstorm/19", "--fluid", f"--out={tmp_path}", "--set=topology.sites=5"]
    assert main.main(command) == 64
    said = capsys.readouterr()
    assert "--set topology.sites is varied" in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", MODEL_FIGURES)
def test_every_cell_of_a_predicted_figure_is_a_valid_setting_and_its_first_one_has_the_metric(name):
    figure = FIGURES[name]
    trials = model_figures.plan(figure, grid.read_axes(figure.vary), 1)
    assert len(trials) > 1
    assert figure.metric in comparison.METRICS
    table = model_figures.predict(figure, trials[:1], lambda *now: None)
    assert table[figure.metric].notna().all()


def test_a_figure_that_is_predicted_only_shows_its_claim_and_a_ratio_for_each_cell(
    capsys, tmp_path
):
    small = ["--trials", "1", "--vary", "workload.model=dfn", "--vary", "scheme.plan=oos,naive"]
    rates = ["--set", "topology.intra_rate=2 Gbit/s", "--set", "topology.startup=0 s"]
    command = ["reproduce", "owl/7", "--fluid", "--out", str(tmp_path), *small, *rates]
    assert main.main(command) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"claim {FIGURES['owl/7'].claim}" in lines
    table = pd.read_csv(tmp_path / "tables" / "fluid.csv", index_col="scheme.plan")
    # 25 475 368 parameters of 4 bytes go to two workers over 1 Gbit/s. 5.001e9 multiplications and
    # as many additions take 128 samples 0.128 s at 10 Tflop/s, and twice that backward.
    assert table.update_s["naive"] == pytest.approx(2 * 0.815212 + 3 * 0.128030, abs=1e-5)
    ratio = f"{table.update_s['naive'] / table.update_s['oos']:.3g}"
    assert f"naive dfn {table.update_s['naive']:.3g} {ratio}" in lines


def test_a_step_that_is_pushed_takes_longer_by_the_push_and_waits_less(tmp_path):
    small = ["--trials", "1", "--vary", "workload.model=dfn", "--vary", "scheme.plan=naive"]
    command = ["reproduce", "owl/8", "--fluid", "--quiet", "--out", str(tmp_path), *small]
    assert main.main([*command, "--vary", "scheme.push=0 s,1 s"]) == 0
    first, second = pd.read_csv(tmp_path / "tables" / "fluid.csv").to_dict("records")
    assert second["update_s"] == pytest.approx(first["update_s"] + 1)
    waiting = [each["waiting_percent"] * each["update_s"] for each in (first, second)]
    assert waiting[0] == pytest.approx(waiting[1])


def test_every_table_of_a_network_can_be_the_model_of_a_step():
    assert get_args(get_type_hints(rack_step.Layered)["model"]) == find_names()


def test_owls_order_holds_at_100_workers(tmp_path):
    command = ["reproduce", "owl/7", "--fluid", "--quiet", "--trials", "1", "--out", str(tmp_path)]
    assert main.main(command) == 0
    table = pd.read_csv(tmp_path / "tables" / "fluid.csv")
    for _, cells in table.groupby("workload.model"):
        times = cells.set_index("scheme.plan").update_s
        assert [*times.sort_values().index] == ["oos", "owl", "ipart", "overlap", "naive"]
        assert times["owl"] < 1.1 * times["oos"]
        assert times["naive"] > 1.5 * times["owl"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--set", "topology.server_rates=1"], "topology.server_rates: 1: unknown key: "),
        (["--fluid", "--set", "scheme.plan=owl"], "--set scheme.plan is varied, too"),
        (["--fluid", "--set", "topology.racks=0"], "topology.racks: 0: expected"),
        (["--fluid", "--set", "topology.rack=3"], "topology.rack: 3: unknown key: "),
        (["--fluid", "--set", "topology.startup=2"], "topology.startup: 2: "),
        (["--fluid", "--vary", "scheme.plan=owl-c"], "scheme.plan: owl-c: did you mean owl-a?"),
    ],
)
def test_a_wrong_setting_of_a_predicted_figure_is_refused(more, said, capsys, tmp_path):
    assert main.main(["reproduce", "owl/7", "--out", str(tmp_path / "out"), *more]) == 64
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
