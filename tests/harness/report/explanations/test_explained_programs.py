"""`trunkline explain` of runs of programs, with timed calls and without."""

import json
from pathlib import Path

import pytest
from finished_runs import make_programs_run

from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted
from trunkline.harness.commands import main
from trunkline.harness.report import outputs

MS = 10**6


@pytest.fixture
def timed(tmp_path: Path) -> Path:
    return make_programs_run(tmp_path / "mine" / "first")


@pytest.fixture
def untimed(timed: Path) -> Path:
    """The same run without calls, and with a fault."""
    scenario = timed / "resolved.yaml"
    scenario.write_text(scenario.read_text().replace(", time_calls: true", ""))
    log = timed / "events.jsonl"
    lines = [line for line in log.read_bytes().splitlines(True) if b'"call_' not in line]
    pause = FaultStarted(600 * MS, "runner", 0, "pause", "pause n2 for 200 ms", ("n2",))
    faults = [to_line(pause), to_line(FaultEnded(800 * MS, "runner", 0))]
    log.write_bytes(b"".join([*lines[:-4], *faults, *lines[-4:]]))
    outputs.build(timed)
    return timed


def explain(capsys: pytest.CaptureFixture[str], *words: str) -> list[list[str]]:
    assert main.main(["explain", *words]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_programs_without_timed_calls_are_explained_as_far_as_is_known(capsys, untimed) -> None:
    said = explain(capsys, str(untimed))
    text = [" ".join(line) for line in said]
    assert text[0] == "No call was timed, so nothing says how the programs spent their time."
    assert text[1].startswith("workload.time_calls: true times the calls of torch.distributed")
    heads = ["program", "started", "ended", "how", "processes", "sent", "received"]
    assert said[2] == heads
    assert text[3] == "n1 0.000 s 1.000 s exit code 0 1 3 MB 0 B"
    assert text[4] == "n2 0.000 s 1.000 s exit code 0 1 0 B 3 MB"
    assert text[-1] == "Fault 0 (pause n2 for 200 ms) began at 0.600 s until 0.800 s."


def test_what_is_known_without_timed_calls_is_an_object_too(capsys, untimed) -> None:
    assert main.main(["explain", str(untimed), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["timed"] is False
    assert [(row["program"], row["end_s"], row["signal"]) for row in found["programs"]] == [
        ("n1", 1.0, None), ("n2", 1.0, None),
    ]  # fmt: skip
    assert [row["bytes_sent"] for row in found["sites"]] == [3_000_000, 0]
    assert [row["text"] for row in found["faults"]] == ["pause n2 for 200 ms"]


def test_programs_that_make_no_call_are_not_told_to_time_calls(capsys, untimed) -> None:
    scenario = untimed / "resolved.yaml"
    scenario.write_text(scenario.read_text().replace("exit 0]", "exit 0], time_calls: true"))
    outputs.build(untimed)
    first, *others = explain(capsys, str(untimed))
    assert " ".join(first[:7]) == "The programs made no call of torch.distributed,"
    assert not any("workload.time_calls:" in line for line in others)


def test_timed_programs_have_a_row_each(capsys, timed) -> None:
    said = [" ".join(line) for line in explain(capsys, str(timed))]
    assert "0.133 s of a program's time, on average, passed before its first step." in said
    rows = said[-3:]
    assert [row.rpartition(" 1 ")[0] for row in rows] == ["n1 (process 2)", "n1 (process 3)", "n2"]
    assert main.main(["explain", str(timed), "--json"]) == 0
    programs = json.loads(capsys.readouterr().out)["programs"]
    assert [row["before_s"] for row in programs] == pytest.approx([0.1, 0.15, 0.15])


def test_a_call_that_a_program_never_began_is_named(capsys, timed) -> None:
    """In what `explain` prints, as an object, and on the page."""
    log = timed / "events.jsonl"
    lines = [line for line in log.read_bytes().splitlines(True) if b'"call_finished"' not in line]
    kept = [line for line in lines if not (b'"call_started"' in line and b'"site": "n2"' in line)]
    assert len(kept) == len(lines) - 1
    log.write_bytes(b"".join(kept))
    outputs.build(timed)
    said = "n2 never began all_reduce number 0, in which n1 waited from 0.3 s on."
    assert said in [" ".join(line) for line in explain(capsys, str(timed))]
    assert said in (timed / "report.html").read_text()
    assert main.main(["explain", str(timed), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["waited_for"] == {"n2": pytest.approx(0.7)}
    assert found["hangs"] == [
        {"call": "all_reduce", "number": 0, "missing": ["n2"], "waiting": ["n1"],
         "start_s": 0.3, "end_s": 1.0},
    ]  # fmt: skip
