"""Whole runs inside the embedded kernel: every plan, the same events twice, faults, strangers."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from burning import all_processors_busy
from inside import run_all
from strangers import call_in_vain

from trunkline.agents import registry
from trunkline.harness.kernel import build
from trunkline.harness.report import outputs
from trunkline.harness.runs import reference_logs
from trunkline.harness.scenario.loading import parse, resolve

ROOT = Path(__file__).parents[3]
MESH = "{builder: full_mesh, sites: 4, rates: n2, delays: 20 ms}"
OVERLAY = "{builder: internet2, sites: 6}"
"""Sites are up to three hops apart."""

SMALL = """
name: small
topology: %s
workload: {kind: synthetic, model: 400 kB, compute: [0.05 s, 0.2 s], slowdown: {n2: 2.0}}
scheme: {policy: %s, plan: %s, chunk: 64 KiB}
stop: {tasks: 3}
outputs: {plots: false}
"""
ALONE = SMALL + "agents: {per_process: 1}\n"
APART = ("a2a", "crew")
"""The plans that are carried out by a process for each agent; no plan knows of processes."""

TIMELINE = """
timeline:
- {do: redraw rate=20..155 Mbit/s every 500 ms}
- {at: 0.3 s, do: outage n1 n2 for 200 ms}
- {at: 0.6 s, do: pause n3 for 300 ms}
- {at: 1 s, do: outage n3 n4 carrier for 300 ms}
"""


FORMS = {"one process each": "agents: {per_process: 1}\n", "one process": ""}
"""How agents are spread over processes."""

UNTIL_THE_STOP = """
timeline:
- {at: 1 s, do: kill n3}
- {at: 1.2 s, do: outage n1 n2}
- {at: 90 s, do: outage n1 n4}
failover: {timeout: 1 s}
"""

OUTAGE = (ROOT / "scenarios/outage.yaml").read_text() + "outputs: {plots: false}\n"
for shown, ours in {
    "model: 4 MB, compute: 0.2 s": "model: 1 MB, compute: 0.5 s",
    "rates: 40 Mbit/s": "rates: 10 Mbit/s",
    "time: 50 s": "time: 37 s",
    "3 s, do: outage n1 n3 for 5 s": "2 s, do: outage n1 n3 for 4 s",
    "11 s, do: kill n4 for 6 s": "8 s, do: kill n4 for 4 s",
    "20 s, do: kill controller for 8 s": "14 s, do: kill controller for 6 s",
    "32 s, do: pause n5 for 4 s": "23 s, do: pause n5 for 4 s",
    "39 s, do: isolate n2 for 4 s": "29 s, do: isolate n2 for 4 s",
}.items():
    assert shown in OUTAGE
    OUTAGE = OUTAGE.replace(shown, ours)
"""The scenario that users are shown, with fewer and smaller tasks on slower links, and less time
between its faults, which come one after the other."""


def folder(home: Path, name: str, text: str) -> Path:
    run_dir = home / name
    (run_dir / "log").mkdir(parents=True)
    (run_dir / "resolved.yaml").write_text(resolve(parse(text, "test.yaml")))
    return run_dir


def test_the_solver_of_a_plan_is_there_before_agents_are_forked(tmp_path):
    file = folder(tmp_path, "small", SMALL % (MESH, "preduce", "crew")) / "resolved.yaml"
    program = (
        "import sys\n"
        "from trunkline.harness.session import run_session\n"
        f"scenario = run_session.load({str(file)!r})\n"
        "assert 'scipy.optimize' not in sys.modules\n"
        "run_session._import_planner(scenario)\n"
        "assert 'scipy.optimize' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(("kind", "expected"), [("synthetic", "False"), ("training", "True")])
def test_the_random_numbers_of_numpy_are_there_before_agents_are_forked(tmp_path, kind, expected):
    """Else each agent imports them in its run, and one seed has several logs on a busy machine."""
    workload = f"workload: {{kind: {kind}, compute: 0.1 s}}"
    text = re.sub("workload: .*", workload, SMALL % (MESH, "preduce", "ring"))
    file = folder(tmp_path, "small", text) / "resolved.yaml"
    program = (
        "import sys\n"
        "from trunkline.harness.session import run_session\n"
        f"workload = run_session.load({str(file)!r}).workload\n"
        "workload.module.preload = lambda **_: None\n"
        "run_session._preload(workload)\n"
        "print('numpy.random._generator' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == f"{expected}\n"


@pytest.fixture
def home(embedded, make_once) -> Path:
    """The folder of the runs that share a guest; each has ended well, and left no process."""

    def carry_out(home: Path) -> None:
        for name, text in list_runs():
            folder(home, name, text)
        names = sorted(path.name for path in home.iterdir())
        done = embedded.call(run_all, str(home), names, visible=[home], timeout_s=1800)
        assert done == {"codes": dict.fromkeys(names, 0), "left": []}

    return make_once(carry_out)


def list_runs() -> Iterator[tuple[str, str]]:
    """The names and scenarios of these runs."""
    for plan in registry.plans():
        yield f"overlay {plan}", SMALL % (OVERLAY, "bsp", plan)
        yield f"mesh {plan}", (ALONE if plan in APART else SMALL) % (MESH, "preduce", plan)
    text = SMALL.replace("plan:", "pipelined: false, plan:")
    yield "overlay whole", text % (OVERLAY, "bsp", "crew")
    text = SMALL + "network: {connections: 3}\n"
    yield "mesh lanes", text % (MESH, "preduce", "ring")
    early = "scatter: non-blocking, p: 2, weights: dynamic, decay: 0.123, plan:"
    text = SMALL.replace("plan:", early).replace("tasks: 3", "tasks: 12")
    yield "mesh early", text % (MESH, "preduce", "crew")
    until_the_stop = SMALL % (MESH, "preduce, p: 2", "crew") + UNTIL_THE_STOP
    timed = until_the_stop.replace("tasks: 3", "time: 5 s")
    measured = "rates: measured, awareness: {probe_count: 2, sync: 100 ms}, chunk:"
    text = SMALL.replace("tasks: 3", "tasks: 12").replace("chunk:", measured)
    clocks = "clocks: {n2: {offset: 9 ms, drift: 80 ppm}}\n"
    for form, how in FORMS.items():
        yield f"timeline {form}", text % (MESH, "bsp", "ring") + TIMELINE + clocks + how
        yield f"outage {form}", OUTAGE + how
        yield f"tasks {form}", until_the_stop.replace("tasks: 3", "tasks: 20") + how
        yield f"time {form}", timed + how
        yield f"controller {form}", timed.replace("kill n3", "kill controller") + how


def read_passed(run_dir: Path) -> list[dict[str, Any]]:
    """The events of a run, whose verdict is pass."""
    verdict = outputs.build(run_dir)
    assert (verdict.outcome, verdict.problems) == ("pass", ()), run_dir.name
    return [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]


def test_every_plan_passes_on_an_overlay_that_lacks_links(home):
    for name in (*registry.plans(), "whole"):
        read_passed(home / f"overlay {name}")


def test_every_plan_passes_on_a_mesh(home):
    for name in (*registry.plans(), "lanes"):
        read_passed(home / f"mesh {name}")
    events = read_passed(home / "mesh early")
    assert {"early", "in"} <= {event["phase"] for event in events if event["event"] == "sent"}
    assert any(event["event"] == "discarded" for event in events)
    running = [{"task_started": 1, "task_completed": -1}.get(event["event"], 0) for event in events]
    assert max(itertools.accumulate(running)) == 2


PROGRAM = """
topology: {builder: full_mesh, sites: 2, rates: n2, delays: 20 ms}
workload:
  kind: program
  command:
  - sh
  - -c
  - |
    mkdir -p "$TRUNKLINE_RESULTS"
    readlink -f "$TRUNKLINE_RESULTS" "$PWD"
    number=$(od -An -N4 -tu4 /dev/urandom)
    echo "{\\"event\\": \\"round_finished\\", \\"rounds\\": $number}" >> "$TRUNKLINE_REPORTS"
    python3 -c 'import asyncio, email.mime.text, numpy, xml.dom.minidom'
    ping -c 3 -q "n$((2 - $TRUNKLINE_RANK))"
stop: {exit: all}
outputs: {plots: false}
"""


@pytest.mark.parametrize("name", ["training", "gloo", "program"])
def test_the_same_seed_gives_the_same_events_wherever_and_whenever_it_runs(
    embedded, tmp_path, name
):
    """Another folder, place of installation, home and environment, and both processors busy.

    There is no bytecode at that place, so that modules are compiled, some of them after the start.
    The log is the known one, or else that of a run here.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as away:  # the guest does not hide this folder
        far = Path(away) / ("far" * 30) / "trunkline"
        for folder in ("agents", "harness", "scenarios", "topologies", "workloads", "src"):
            bytecode = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / folder, far / folder, symlinks=True, ignore=bytecode)
        others = {"HOME": str(tmp_path), "TZ": "Asia/Tokyo", "LC_ALL": "C", "FILLER": "x" * 5000}
        with all_processors_busy():
            far_log = command_line_run(far, far.parent / "a long name of a folder", name, others)
    known = reference_logs.read_hashes(name) if is_known(name) else None
    if known is None:
        near_log = command_line_run(ROOT, tmp_path / "near", name, {"HOME": "/root"})
        known = reference_logs.hash_lines(near_log)
    assert reference_logs.find_difference(far_log, known) is None
    if name == "program":
        assert sum('"round_finished"' in line for line in far_log) == 2


def is_known(name: str) -> bool:
    """Whether the log must be that of all machines."""
    compared = name not in reference_logs.NEEDS_AVX2 or reference_logs.has_avx2()
    return name in reference_logs.NAMES and compared and not reference_logs.find_other_versions()


def command_line_run(root: Path, where: Path, name: str, variables: dict[str, str]) -> list[str]:
    """The event log of `trunkline run`, as installed in `root`."""
    where.mkdir(parents=True)
    file = root / "scenarios/reference" / f"{name}.yaml"
    if name == "program":
        file = where / "program.yaml"
        file.write_text(PROGRAM)
    command = [sys.executable, "-m", "trunkline.harness.commands.main", "run", str(file), "--quiet"]
    cache = {"XDG_CACHE_HOME": str(build.path().parents[3]), "PATH": os.environ["PATH"]}
    path = {"PYTHONPATH": str(root / "src")}
    subprocess.run(command, cwd=where, env={**cache, **path, **variables}, check=True, timeout=600)
    return (where / "runs" / name / "latest" / "events.jsonl").read_text().splitlines()


in_both_forms = pytest.mark.parametrize("form", FORMS)


@in_both_forms
def test_a_run_with_a_timeline_passes(home, form):
    events = read_passed(home / f"timeline {form}")
    started = next(event["t_ns"] for event in events if event["event"] == "task_started")
    begun = {e["verb"]: e["t_ns"] - started for e in events if e["event"] == "fault_started"}
    assert begun["pause"] == pytest.approx(600_000_000, abs=20_000)  # reading clocks takes time
    assert [e["event"] for e in events].count("fault_ended") == 4
    assert {"rate_measured", "plans_updated"} <= {e["event"] for e in events}
    errors_ms = pd.read_csv(home / f"timeline {form}/tables/clocks.csv")["error_ms"].abs()
    assert errors_ms.median() < 0.5


@in_both_forms
def test_agents_survive_an_outage_a_crash_a_pause_and_the_loss_of_the_controller(home, form):
    events = read_passed(home / f"outage {form}")
    said = {(event["event"], event["site"]) for event in events}
    assert {("link_lost", "n3"), ("controller_lost", "n4"), ("task_completed", "backup")} <= said
    lost = {event["worker"] for event in events if event["event"] == "worker_lost"}
    assert lost >= {"n2", "n3", "n4", "n5"}
    rounds = [event for event in events if event["event"] == "round_finished"]
    late = rounds[-1]["t_ns"] - 10e9
    assert {event["site"] for event in rounds if event["t_ns"] > late} == {
        f"n{k}" for k in range(1, 6)
    }


@in_both_forms
def test_faults_without_an_end_are_undone_at_the_stop_so_that_every_site_ends(home, form):
    """By `stop.time` or by the number of tasks, with n3 and also with the only controller dead."""
    killed = {"tasks": "n3", "time": "n3", "controller": "controller"}
    for name, who in killed.items():
        events = read_passed(home / f"{name} {form}")
        by_kind = {kind: [e for e in events if e["event"] == kind] for kind in KINDS}
        assert [(e["who"], e["do"]) for e in by_kind["agent_changed"]] == [
            (who, "kill"),
            (who, "restart"),
        ]
        assert [e["fault"] for e in by_kind["fault_ended"]] == [0, 1]
        ended = [(e["who"], e["code"]) for e in by_kind["agent_exited"] if e["fault"] is None]
        assert sorted(ended) == [(each, 0) for each in ("controller", "n1", "n2", "n3", "n4")]
        restarted_s = by_kind["agent_changed"][1]["t_ns"] / 1e9
        if name == "tasks":
            assert restarted_s == pytest.approx(by_kind["stopping"][0]["t_ns"] / 1e9, abs=1e-3)
        else:
            assert restarted_s == pytest.approx(5, abs=1e-3)


KINDS = ("agent_changed", "agent_exited", "fault_ended", "stopping")


def test_strangers_in_a_site_change_nothing_in_a_run(embedded, tmp_path):
    """They call every agent from its first moment on: none is let in, all are named in the log."""
    text = SMALL.replace("tasks: 3", "tasks: 6") % (MESH, "bsp", "crew")
    dirs = {name: folder(tmp_path, name, text) for name in ("quiet", "loud")}
    done = embedded.call(call_in_vain, str(tmp_path), *dirs, visible=[tmp_path])
    assert done == {"codes": {"quiet": 0, "loud": 0}, "left": []}
    results = {}
    for name, run_dir in dirs.items():
        verdict = outputs.build(run_dir)
        assert (verdict.outcome, verdict.problems) == ("pass", ())
        events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
        finished = [event for event in events if event["event"] == "task_finished"]
        results[name] = {(event["task"], event["site"]): event["digest"] for event in finished}
        assert not [event for event in events if event["event"] == "link_lost"]
        refused = [event for event in events if event["event"] == "caller_refused"]
    assert len(results["quiet"]) == 24
    assert results["loud"] == results["quiet"]
    assert {event["site"] for event in refused} == {"n1", "n2", "n3", "n4", "controller"}
    assert all(max(e["count"] for e in refused if e["site"] == who) >= 16 for who in ("n1", "n3"))
    reasons = " ".join(event["reason"] for event in refused)
    for reason in (
        "without proof", "of run 'another'", "an old call of n1 again", "not a version",
        "a control frame of 16777216 bytes", "a chunk on a control", "first frame is not a hello",
    ):  # fmt: skip
        assert reason in reasons
