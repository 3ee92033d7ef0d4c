"""The trace of a run is of the published format, and has what the tables have."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from finished_runs import make_agents_run, make_programs_run
from trace_format import find_errors

from trunkline.agents.events.task_events import Sent
from trunkline.harness.export.run_files import RunFiles
from trunkline.harness.export.trace import make_trace

Trace = dict[str, Any]


@pytest.fixture(scope="module")
def agents(tmp_path_factory) -> tuple[Path, Trace]:
    return export(make_agents_run(tmp_path_factory.mktemp("agents")))


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> tuple[Path, Trace]:
    return export(make_programs_run(tmp_path_factory.mktemp("programs")))


def export(folder: Path) -> tuple[Path, Trace]:
    return folder, json.loads(json.dumps(make_trace(RunFiles(folder)), allow_nan=False))


def read(folder: Path, table: str) -> pd.DataFrame:
    return pd.read_csv(folder / "tables" / f"{table}.csv")


def find(trace: Trace, **values: Any) -> list[dict[str, Any]]:
    found = trace["traceEvents"]
    return [event for event in found if values.items() <= event.items()]


def name_tracks(trace: Trace) -> dict[tuple[int, int], str]:
    named = find(trace, ph="M", name="thread_name")
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in named}


def test_traces_keep_to_the_published_format(agents, programs) -> None:
    assert find_errors(agents[1]) == []
    assert find_errors(programs[1]) == []


def test_the_validator_refuses_what_viewers_refuse(agents) -> None:
    changes: list[tuple[str, dict[str, Any], str]] = [
        ("X", {"dur": -1.0}, "dur: expected 0 or more"),
        ("X", {"tid": 99_999}, "on a thread without a name"),
        ("X", {"ts": "0"}, "ts: wrong or missing"),
        ("i", {"s": "all"}, "s: expected g, p or t"),
        ("C", {"args": {"loss": "1"}}, "args: expected numbers"),
        ("t", {"ts": 1e12}, "in no slice"),
        ("f", {"id": 999}, "wrong phases"),
        ("M", {"args": {}}, "args: wrong for this metadata"),
        ("X", {"ph": "?"}, "unknown phase"),
    ]
    for phase, change, problem in changes:
        spoilt = json.loads(json.dumps(agents[1]))
        find(spoilt, ph=phase)[0].update(change)
        assert [error for error in find_errors(spoilt) if problem in error], (phase, change)


def test_the_validator_refuses_slices_that_overlap_on_a_thread(agents) -> None:
    spoilt = json.loads(json.dumps(agents[1]))
    tid = find(spoilt, ph="X", cat="site")[0]["tid"]
    first, second = find(spoilt, cat="site", tid=tid)[:2]
    first["dur"] = second["ts"] + second["dur"] / 2 - first["ts"]
    assert [error for error in find_errors(spoilt) if "overlaps another" in error]


def test_each_task_is_a_slice_as_in_the_table(agents, programs) -> None:
    for folder, trace in (agents, programs):
        tasks = read(folder, "tasks").set_index("task")
        slices = {event["args"]["task"]: event for event in find(trace, cat="task", ph="X")}
        assert list(slices) == list(tasks.index)
        for task, event in slices.items():
            row = tasks.loc[task]
            assert event["ts"] == pytest.approx(row["start_s"] * 1e6, abs=0.5)
            if pd.notna(row["duration_s"]):
                assert event["dur"] == pytest.approx(row["duration_s"] * 1e6, abs=1)
                assert event["args"]["outcome"] == row["outcome"]


def test_transfers_are_slices_on_the_tracks_of_their_links(agents) -> None:
    folder, trace = agents
    links, tracks = read(folder, "links"), name_tracks(trace)
    carried = Counter[str]()
    slices = find(trace, cat="transfer", ph="X")
    for event in slices:
        carried[tracks[event["pid"], event["tid"]].partition(" (")[0]] += event["args"]["bytes"]
    assert len(slices) == len(RunFiles(folder).history.all(Sent)) == 9
    names = links["src"] + " -> " + links["dst"]
    assert carried == {name: size for name, size in zip(names, links["bytes"], strict=True) if size}
    assert {*names} <= {*tracks.values()}


def test_a_flow_joins_a_task_with_all_its_slices(agents, programs) -> None:
    _, trace = agents
    for task in (0, 1, 2):
        points = find(trace, cat="task", id=task)
        assert len(points) == len({(p["pid"], p["tid"], p["ts"]) for p in points})
        places = {(e["pid"], e["tid"], e["ts"]) for e in find(trace, ph="X")}
        assert {(p["pid"], p["tid"], p["ts"]) for p in points} <= places
        transfers = [
            e for e in find(trace, cat="transfer") if e["name"].startswith(f"task {task} ")
        ]
        through = {(p["pid"], p["tid"], p["ts"]) for p in points}
        assert {(e["pid"], e["tid"], e["ts"]) for e in transfers} <= through
    assert "".join(point["ph"] for point in find(programs[1], cat="task", id=0)) == "stf"


def test_faults_are_instants_where_the_table_has_a_time(agents) -> None:
    folder, trace = agents
    faults = read(folder, "faults")
    times_s = [*faults["start_s"].dropna(), *faults["end_s"].dropna()]
    instants = find(trace, ph="i")
    assert sorted(event["ts"] for event in instants) == pytest.approx(
        sorted(t * 1e6 for t in times_s)
    )
    assert [event["name"] for event in instants] == [
        "outage oslo rome for 100 ms",
        "end of outage oslo rome for 100 ms",
        "heal",
    ]


def test_evaluations_are_points_of_curves(agents) -> None:
    folder, trace = agents
    accuracy = read(folder, "accuracy")
    points = find(trace, ph="C", name="accuracy_percent")
    assert [p["args"]["value"] for p in points] == accuracy["accuracy_percent"].tolist()
    assert [p["ts"] for p in points] == pytest.approx([*(accuracy["t_s"] * 1e6)])


def test_programs_have_tracks_of_their_steps_and_calls(programs) -> None:
    folder, trace = programs
    assert len(find(trace, cat="step")) == len(read(folder, "steps")) == 6
    assert len(find(trace, cat="step", name="before its first step")) == 3
    assert len(find(trace, cat="call")) == len(read(folder, "calls")) == 3
    assert len(find(trace, cat="program")) == len(read(folder, "programs")) == 2
    assert {*name_tracks(trace).values()} >= {
        "tasks", "n1", "n2",
        "n1: computing", "n1: computing (2)", "n1: synchronizations",
        "n1: steps of process 2", "n1: steps of process 3",
        "n1: calls of process 2, thread 0", "n1: calls of process 3, thread 0",
    }  # fmt: skip
    (send,) = find(trace, cat="call", name="send")
    assert (send["ts"], send["dur"], send["args"]["outcome"]) == (360e3, 640e3, "unfinished")


def test_links_of_programs_are_curves_of_what_interfaces_counted(programs) -> None:
    _, trace = programs
    points = [(event["ts"], event["args"]["Mbit/s"]) for event in find(trace, name="n1 -> n2")]
    assert points == [(0.0, 16.0), (500e3, 32.0)]
    assert find(trace, name="n2 -> n1") == []
