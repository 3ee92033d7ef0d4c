"""TensorBoard's own reader gives the values of the tables; Parquet has the tables themselves."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from finished_runs import make_agents_run, make_programs_run

from trunkline.harness.export import curves
from trunkline.harness.export.exported_files import write_parquet, write_tensorboard
from trunkline.harness.export.run_files import RunFiles


@pytest.fixture(scope="module")
def agents(tmp_path_factory) -> RunFiles:
    return RunFiles(make_agents_run(tmp_path_factory.mktemp("agents")))


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> RunFiles:
    return RunFiles(make_programs_run(tmp_path_factory.mktemp("programs")))


def read_curves(data: RunFiles, folder: Path) -> dict[str, pd.DataFrame]:
    """All points by curve, as TensorBoard reads them."""
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="needs tensorboard: pip install 'trunkline[tensorboard]'",
    )
    write_tensorboard(data, folder)
    read = accumulators.EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {curve: pd.DataFrame(read.Scalars(curve)) for curve in read.Tags()["scalars"]}


def check(found: pd.DataFrame, times_s: pd.Series, values: pd.Series) -> None:
    known = times_s.notna() & values.notna()
    order = times_s[known].argsort(kind="stable")
    at_s = times_s[known].iloc[order]
    assert found["wall_time"].tolist() == pytest.approx(at_s.tolist(), abs=1e-9)
    assert found["step"].tolist() == [round(t_s * 1e6) for t_s in at_s]
    assert found["value"].tolist() == values[known].iloc[order].astype("float32").tolist()


def test_tensorboard_reads_the_values_of_the_tables(agents: RunFiles, tmp_path: Path) -> None:
    found = read_curves(agents, tmp_path)
    accuracy, tasks = agents.tables["accuracy"], agents.tables["tasks"]
    assert len(accuracy) == 3
    check(found["accuracy/accuracy_percent"], accuracy["t_s"], accuracy["accuracy_percent"])
    check(found["accuracy/loss"], accuracy["t_s"], accuracy["loss"])
    check(found["tasks/duration_s"], tasks["end_s"], tasks["duration_s"])
    assert len(found["tasks/duration_s"]) == 3


def test_rates_add_up_to_the_bytes_of_the_table_of_links(agents: RunFiles, tmp_path: Path) -> None:
    found = read_curves(agents, tmp_path)
    links = agents.tables["links"]
    step_s = agents.history.active_end_ns / 1e9 / 200
    used = links[links["bytes"] > 0]
    assert {*found} >= {f"links/mbps/{row.src} -> {row.dst}" for row in used.itertuples()}
    for row in used.itertuples():
        curve = found[f"links/mbps/{row.src} -> {row.dst}"]
        assert len(curve) == 200
        assert curve["value"].sum() * step_s * 1e6 / 8 == pytest.approx(row.bytes, rel=1e-6)
    for site, sent in links.groupby("src")["bytes"].sum().items():
        rate_mbps = found[f"sites/out_mbps/{site}"]["value"]
        assert rate_mbps.sum() * step_s * 1e6 / 8 == pytest.approx(sent, rel=1e-6)


def test_steps_and_calls_of_programs_are_curves(programs: RunFiles, tmp_path: Path) -> None:
    found = read_curves(programs, tmp_path)
    steps, calls = programs.tables["steps"], programs.tables["calls"]
    for column in ("duration_s", "computing_s", "waiting_s", "moving_s", "held_s", "rest_s"):
        for program, own in steps.groupby("program"):
            check(found[f"steps/{column}/{program}"], own["start_s"], own[column])
    for (call, site), own in calls[calls["duration_s"].notna()].groupby(["call", "site"]):
        check(found[f"calls/duration_s/{call}/{site}"], own["start_s"], own["duration_s"])
    assert not [curve for curve in found if curve.startswith("accuracy")]


def test_of_many_links_those_that_carried_most_have_curves(
    agents: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "MAX_LINKS", 2)
    links = agents.tables["links"].sort_values("bytes", ascending=False, kind="stable")[:2]
    points = curves.list_points(agents)
    shown = {point.curve for point in points if point.curve.startswith("links/")}
    assert shown == {f"links/mbps/{row.src} -> {row.dst}" for row in links.itertuples()}
    assert np.all(np.diff([point.t_s for point in points]) >= 0)


def test_parquet_has_every_table_with_its_types(programs: RunFiles, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'trunkline[parquet]'")
    write_parquet(programs, tmp_path / "new")
    files = {file.stem: file for file in (tmp_path / "new").glob("*.parquet")}
    assert files.keys() == programs.tables.keys()
    for name, table in programs.tables.items():
        pd.testing.assert_frame_equal(pd.read_parquet(files[name]), table)
