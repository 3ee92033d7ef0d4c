"""The command `trunkline export`: files, and what it says of wrong words."""

import gzip
import importlib.util
import json
from pathlib import Path

import pandas as pd
import pytest
from finished_runs import make_agents_run, make_programs_run
from trace_format import find_errors

import trunkline
from trunkline.harness.commands import main
from trunkline.harness.commands.verbs import export


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> str:
    return str(make_agents_run(tmp_path_factory.mktemp("runs") / "three" / "latest"))


def run(capsys, *words: str) -> tuple[int, str]:
    """The exit code, and what was printed."""
    code = main.main(["export", *words])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_a_trace_is_written_as_json_and_compressed_and_always_the_same(
    run_dir: str, tmp_path: Path, capsys
) -> None:
    file, small, again = tmp_path / "a.json", tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    assert run(capsys, run_dir, "--perfetto", str(file)) == (0, f"{file}\n")
    assert find_errors(json.loads(file.read_text())) == []
    for each in (small, again):
        assert run(capsys, run_dir, "--perfetto", str(each))[0] == 0
    assert gzip.decompress(small.read_bytes()) == file.read_bytes()
    assert small.read_bytes() == again.read_bytes()


def test_the_latest_run_of_a_scenario_is_found_by_its_name(
    run_dir: str, tmp_path: Path, capsys
) -> None:
    file = tmp_path / "a.json"
    words = ("three", "--runs", str(Path(run_dir).parents[1]), "--perfetto", str(file))
    assert run(capsys, *words) == (0, f"{file}\nthree: {Path(run_dir).resolve()}\n")


def test_wrong_words_are_refused_before_anything_is_written(
    run_dir: str, tmp_path: Path, capsys
) -> None:
    (tmp_path / "there.json").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    (tmp_path / "empty.run").mkdir()
    (tmp_path / "empty.run" / "events.jsonl").write_text("")
    refused = {
        (run_dir,): "expected --perfetto, --tensorboard or --parquet",
        ("nothing", "--perfetto", "a.json"): "nothing: no such run: expected a run's folder",
        (str(tmp_path / "empty.run"), "--perfetto", str(tmp_path / "a.json")): "has no events",
        (run_dir, "--perfetto", str(tmp_path / "no" / "a.json")): "there is no folder",
        (run_dir, "--perfetto", str(tmp_path / "there.json")): "a name that no file has yet",
        (run_dir, "--perfetto", str(tmp_path / "full")): "a name that no file has yet",
        (run_dir, "--tensorboard", str(tmp_path / "full")): "an empty folder, or a new one",
        (run_dir, "--parquet", str(tmp_path / "there.json")): "an empty folder, or a new one",
    }
    for words, problem in refused.items():
        code, said = run(capsys, *words)
        assert (code, problem in said) == (64, True), said
    assert (tmp_path / "there.json").read_text() == "mine"
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize(
    ("name", "package"), [("tensorboard", "tensorboard"), ("parquet", "pyarrow")]
)
def test_a_missing_package_is_named_with_the_extra_that_has_it(
    run_dir: str, tmp_path: Path, capsys, monkeypatch, name: str, package: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(export, "find_spec", lambda each: None if each == package else find(each))
    code, said = run(capsys, run_dir, f"--{name}", str(tmp_path / "new"))
    assert code == 64
    assert (
        f"needs the package {package}; nothing was written; remedy: pip install 'trunkline[{name}]'"
        in said
    )
    assert not (tmp_path / "new").exists()


def test_several_formats_are_written_at_once(run_dir: str, tmp_path: Path, capsys) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'trunkline[parquet]'")
    words = ("--perfetto", str(tmp_path / "a.json"), "--parquet", str(tmp_path / "tables"))
    code, said = run(capsys, run_dir, *words)
    assert (code, said) == (0, f"{tmp_path / 'a.json'}\n{tmp_path / 'tables'}\n")


@pytest.mark.parametrize("make", [make_agents_run, make_programs_run])
def test_parquet_has_the_tables_with_their_types(make, tmp_path: Path, capsys) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'trunkline[parquet]'")
    folder = make(tmp_path / "run")
    assert run(capsys, str(folder), "--parquet", str(tmp_path / "tables"))[0] == 0
    tables = trunkline.open_run(folder)
    files = {file.stem: pd.read_parquet(file) for file in (tmp_path / "tables").iterdir()}
    assert {*files} == {*tables}
    for name, table in files.items():
        pd.testing.assert_frame_equal(table, tables[name])
