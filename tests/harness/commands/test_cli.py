"""The command line: what it prints, and the exit code of every way a command can end."""

import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml
from rich.console import Console

from trunkline.harness import runs
from trunkline.harness.checks.verdict import Check, Verdict
from trunkline.harness.commands import main, terminal
from trunkline.harness.commands.verbs import find_verbs, list_
from trunkline.harness.config import units
from trunkline.harness.kernel import KernelError, build
from trunkline.harness.live import progress
from trunkline.harness.live.live_state import Progress
from trunkline.harness.processes.fork import fork
from trunkline.harness.processes.ownership import Owner
from trunkline.harness.scenario import extensions
from trunkline.harness.scenario.loading import parse
from trunkline.harness.scenario.settings import Stop

ROOT = Path(__file__).parents[3]
QUICKSTART = str(ROOT / "scenarios" / "quickstart.yaml")
RING = str(ROOT / "scenarios" / "internet2_ring.yaml")

TASKS_CSV = """\
task,plan,policy,group,bytes,start_s,end_s,duration_s,estimate_s,latency_s,bound_s,outcome
1,crew,preduce,a b c,1000,0.0,2.0,2.0,1.5,0.5,1.0,completed
2,crew,preduce,a b d,1000,1.0,5.0,4.0,1.5,0.5,1.0,completed
3,crew,preduce,a c d,1000,5.0,,,1.5,0.5,1.0,abandoned
"""
ACCURACY_CSV = """\
t_s,task,site,accuracy_percent,loss,samples
2.0,1,a,61.25,1.1,10000
5.0,2,a,81.5,0.6,10000
"""


@pytest.fixture
def run_dir(tmp_path):
    path = tmp_path / "runs" / "quickstart" / "20260101-000000"
    (path / "tables").mkdir(parents=True)
    (path / "tables" / "tasks.csv").write_text(TASKS_CSV)
    (path / "tables" / "accuracy.csv").write_text(ACCURACY_CSV)
    (path / "events.jsonl").write_text("")
    (path / "verdict.json").write_text('{"verdict": "pass", "checks": []}')
    (path.parent / "latest").symlink_to(path.name)
    return path


@pytest.fixture
def runner(monkeypatch, run_dir):
    """A runner that is told how to end, and remembers what it was asked for."""
    fake = SimpleNamespace(outcome="pass", error=None, ended_by=None, asked=None)

    def run(scenario, source_path, runs_dir, on_progress, on_folder):
        on_folder(run_dir)
        fake.asked = (scenario, source_path, runs_dir)
        on_progress(Progress(message="building the network"))
        if fake.error:
            raise fake.error
        on_progress(Progress(12.5, 6, 2, 30_000_000, 61.25))
        verdict = Verdict.of([Check("bytes are right", fake.outcome, "2 tasks [a, b]", "tasks", 2)])
        return SimpleNamespace(verdict=verdict, run_dir=run_dir, error=fake.ended_by)

    fake.run = run
    monkeypatch.setitem(sys.modules, "trunkline.harness.runs.runner", fake)
    monkeypatch.setattr(runs, "runner", fake, raising=False)
    return fake


@pytest.fixture(autouse=True)
def _signals_as_before():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("outcome", "code"), [("pass", 0), ("unknown", 2), ("fail", 1)])
def test_the_exit_code_of_a_run_is_its_verdict(runner, outcome, code, capsys):
    runner.outcome = outcome
    assert main.main(["run", QUICKSTART, "--quiet"]) == code
    assert capsys.readouterr().out.startswith(f"{outcome}  ")


def test_a_run_that_was_cut_short_is_never_a_pass(runner, capsys):
    runner.ended_by = "the agent of tokyo was killed by signal 9"
    assert main.main(["run", QUICKSTART, "--quiet"]) == 1
    assert "trunkline: the agent of tokyo was killed by signal 9" in capsys.readouterr().err


def test_a_run_gets_the_scenario_as_changed_on_the_command_line(runner, tmp_path):
    arguments = ["run", QUICKSTART, "--set", "scheme.plan=ring", "--set", "scheme.p=4"]
    assert main.main([*arguments, "--seed", "5", "--runs", str(tmp_path)]) == 0
    scenario, source_path, runs_dir = runner.asked
    assert scenario.scheme.plan.kind == "ring"
    assert scenario.scheme.policy.options["p"] == 4
    assert scenario.seed == 5
    assert (source_path, runs_dir) == (Path(QUICKSTART), tmp_path)


def test_a_bound_without_delays_that_is_much_less_than_all_tasks_has_no_ratio(
    runner, run_dir, capsys
):
    table = run_dir / "tables" / "tasks.csv"
    rows = [line.split(",") for line in table.read_text().splitlines()]
    place = rows[0].index("bound_s")
    for row in rows[1:]:
        row[place] = "0.01"
    table.write_text("".join(f"{','.join(row)}\n" for row in rows))
    main.main(["run", QUICKSTART])
    said = "bound      10 ms on average, without delays; tasks took over 100 times as long"
    assert said in [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_run_ends_with_a_summary_from_its_tables(runner, run_dir, capsys):
    runner.outcome = "fail"
    assert main.main(["run", QUICKSTART]) == 1
    output = capsys.readouterr()
    assert [line.rstrip() for line in output.out.splitlines()] == [
        "tasks      2 completed, 1 not",
        "task time  3 s on average (2 s to 4 s)",
        "expected   2 s on average, 500 ms of it latency; "
        "measured / expected: median 1.50, mean 1.50; see: "
        "trunkline explain",
        "bound      1 s on average, without delays; measured / bound: median 3.00, mean 3.00",
        "accuracy   81.5 % after 5 s",
        "verdict    fail",
        "           bytes are right: 2 tasks [a, b]",
        "checks     0 of 1 checks passed; 2 objects judged, 0 excused",
        f"results    {run_dir}",
    ]
    assert output.err == (
        "  0% building the network\n"
        " 77% 12.5 s of 300 s, rounds 6, tasks 2, 30 MB, accuracy 61.2 % of 80 %\n"
    )


def test_a_run_without_tables_still_shows_its_verdict(runner, run_dir, capsys):
    (run_dir / "tables" / "tasks.csv").unlink()
    (run_dir / "tables" / "accuracy.csv").unlink()
    runner.outcome = "fail"
    assert main.main(["run", QUICKSTART]) == 1
    assert "verdict  fail" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KernelError("no kernel; remedy: build it"), 70, "trunkline: no kernel; remedy: build it"),
        (ZeroDivisionError("by zero"), 70, "trunkline: internal error: ZeroDivisionError: by zero"),
        (KeyboardInterrupt(), 130, "trunkline: interrupted"),
        (main.Terminated(15), 143, "trunkline: terminated"),
    ],
)
def test_a_run_that_cannot_end_says_why_without_a_traceback(runner, error, code, text, capsys):
    runner.error = error
    assert main.main(["run", QUICKSTART]) == code
    err = capsys.readouterr().err
    assert text in err
    assert "Traceback" not in err
    assert ("Please report" in err) == isinstance(error, ZeroDivisionError)


def test_an_interrupted_run_names_the_folder_of_its_events(runner, run_dir, capsys):
    runner.error = KeyboardInterrupt()
    (run_dir / "events.jsonl").unlink()
    assert main.main(["run", QUICKSTART]) == 130
    assert capsys.readouterr().err.endswith(
        f"trunkline: the run had no events yet: what it printed is in {run_dir}/log\n"
        "trunkline: interrupted\n"
    )
    (run_dir / "events.jsonl").write_text('{"event": "x"}\n')
    assert main.main(["run", QUICKSTART]) == 130
    assert capsys.readouterr().err.endswith(
        f"trunkline: the events until then are in {run_dir}; `trunkline report {run_dir}` makes "
        "tables and figures of them\ntrunkline: interrupted\n"
    )


def test_an_interrupted_run_that_has_left_nothing_says_so(runner, run_dir, capsys):
    runner.error = KeyboardInterrupt()
    shutil.rmtree(run_dir)
    assert main.main(["run", QUICKSTART]) == 130
    assert (
        "trunkline: the run had no events yet: nothing of it is kept\n" in capsys.readouterr().err
    )


def test_a_run_without_events_is_named_as_such(run_dir, capsys):
    (run_dir / "events.jsonl").unlink()
    (run_dir / "scenario.yaml").touch()
    for name in (str(run_dir), "quickstart"):
        assert main.main(["report", name, "--runs", str(run_dir.parents[1])]) == 64
        said = capsys.readouterr().err
        assert said.endswith(": this run has no events: expected one that began\n")


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_progress_that_cannot_be_printed_does_not_end_a_run(runner, run_dir, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", Full())
    assert main.main(["run", QUICKSTART]) == 0
    assert "verdict    pass" in capsys.readouterr().out


def test_a_verdict_that_cannot_be_printed_is_told(runner, run_dir, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Full())
    assert main.main(["run", QUICKSTART, "--quiet"]) == 70
    assert capsys.readouterr().err.endswith(
        "trunkline: standard output: cannot be written: No space left on device; remedy: free some "
        "space, or choose another file\n"
        f"the run is over: its verdict is pass, in {run_dir}\n"
    )


def test_the_traceback_is_shown_to_who_asks_for_it(runner, monkeypatch, capsys):
    monkeypatch.setenv("TRUNKLINE_DEBUG", "1")
    runner.error = ZeroDivisionError("by zero")
    assert main.main(["run", QUICKSTART]) == 70
    assert "Traceback" in capsys.readouterr().err


SIGNALLED = """
import sys, signal, types
from trunkline.harness import runs
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
def run(*_, on_folder):
    try:
        print("running", flush=True)
        while True:
            signal.pause()
    finally:
        print("cleaned up", flush=True)
runs.runner = sys.modules["trunkline.harness.runs.runner"] = types.SimpleNamespace(run=run)
from trunkline.harness.commands import main as cli
sys.exit(cli.main(["run", sys.argv[1], "--quiet"]))
"""


@pytest.mark.parametrize(
    ("number", "code", "text"),
    [
        (signal.SIGINT, 130, "trunkline: interrupted\n"),
        (signal.SIGTERM, 143, "trunkline: terminated\n"),
    ],
)
def test_a_signal_ends_a_run_cleanly(number, code, text):
    with subprocess.Popen(
        [sys.executable, "-c", SIGNALLED, RING],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (code, "cleaned up\n", text)


def test_validate_names_every_problem_of_every_file(tmp_path, capsys):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("topology: star\nworkload: synthetic\nseed: x\nstop: {rounds: 0}\n")
    assert main.main(["validate", RING, str(wrong), str(tmp_path / "none.yaml")]) == 64
    assert capsys.readouterr().out.splitlines() == [
        f"{RING}: ok",
        f"{wrong}:3: seed: x: expected a whole number",
        f"{wrong}:4: stop.rounds: 0: expected 1 or more",
        f"{tmp_path / 'none.yaml'}: cannot read: no such file or directory "
        "(see: trunkline list scenarios)",
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", RING, "--set", "scheme.p=3"], "--set scheme.p=3: scheme.p: 3: unknown key"),
        (
            ["run", "quikstart"],
            "quikstart: cannot read: no such file or directory: did you mean qu",
        ),
        (["run", "none.yaml"], "none.yaml: cannot read: no such file or directory"),
        (["run"], "the following arguments are required: FILE (see: trunkline run --help)"),
        (["run", RING, "--seed", "x"], "argument --seed: x: expected a whole number"),
        (["run", RING, "--sed", "1"], "unrecognized arguments: --sed 1: did you mean --seed? (see"),
        (
            ["run", RING, "--trials", "3"],
            "unrecognized arguments: --trials 3: did you mean --trials of `trunkline compare`? "
            "(see: trunkline run --help)",
        ),
        (
            ["explain", "ring", "7"],
            "unrecognized arguments: 7: did you mean --task 7? (see: trunkline explain --help)",
        ),
        (["run", RING, "--zz"], "unrecognized arguments: --zz (see: trunkline run --help)"),
        (["--zz"], "unrecognized arguments: --zz (see: trunkline --help)"),
        (["run", RING, "--pcap", "n1-n99"], "--pcap: "),
        (["shell", RING, "--pcap", "n1-n99"], "--pcap: "),
        (["run", RING, "--on="], "'' is not an address: expected [USER@]HOST[:PORT] with a port"),
        (["run", RING, "--on", "a:99999"], "'a:99999' is not an address: expected [USER@]HOST["),
        (["run", RING, "--on=-oX@host"], "'-oX@host' is not an address: expected [USER@]HOST["),
        (["attach", "host:0"], "'host:0' is not an address: expected [USER@]HOST[:PORT]"),
        (["run", "x" * 10**5], "xxx...: cannot read: "),
        (["run", RING, "--seed", "x" * 10**5], "argument --seed: xxxxx"),
        (["rum", RING], "invalid choice: 'rum': did you mean run? expected one of attach, "),
        (["list", "plan"], "invalid choice: 'plan': did you mean plans? expected one of top"),
        (["report", "nothing"], "nothing: no such run: expected a run's folder, or"),
        (["report", str(ROOT / "tests"), "--out", "x"], "tests: no such run"),
        (["explain", "x", "--task", "abc"], "--task: abc: expected a whole number, or all"),
        (["report", "nothing", "--width", "1"], "argument --width: 1: expected 2 to 20"),
    ],
)
def test_bad_usage_is_64_and_says_what_is_allowed(arguments, text, capsys):
    assert main.main(arguments) == 64
    said = capsys.readouterr().err
    assert text in said
    assert len(said) < 1500


def test_attach_to_a_run_on_this_machine_that_has_ended_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "mine" / "20260101-000000"
    folder.mkdir(parents=True)
    (folder / "resolved.yaml").touch()
    for named, said in (("mine", "none is running"), (str(folder), "this run has ended")):
        assert main.main(["attach", named]) == 64
        assert said in capsys.readouterr().err


def test_show_lists_sites_and_links_with_both_directions(capsys):
    assert main.main(["show", QUICKSTART]) == 0
    out = capsys.readouterr().out
    assert "gcp:us-central1" in out
    row = next(line for line in out.splitlines() if "tokyo" in line and "iowa" in line)
    cells = [cell.strip() for cell in row.split("│")[1:5]]
    assert cells == ["iowa", "tokyo", "52.64 Mbit/s", "171.9 Mbit/s"]
    lines = [line.rstrip() for line in out.splitlines()]
    assert {"full_mesh: 9 sites", "full_mesh: 72 directed links"} <= {*lines}
    assert "sum of rates out" in out and "configured rates\n" in "\n".join(lines)
    assert lines[-1] == "x / y: x from a to b, y from b to a"
    assert "policy      preduce  p: 3" in out


def test_show_explains_values_of_two_directions_only_where_there_are_any(tmp_path, capsys):
    scenario = tmp_path / "mine.yaml"
    scenario.write_text(
        "topology: {builder: full_mesh, sites: 3, rates: 8 Mbit/s}\n"
        "workload: {kind: synthetic, model: 1 MB}\nscheme: {policy: bsp, plan: ring}\n"
        "stop: {tasks: 1}\n"
    )
    assert main.main(["show", str(scenario)]) == 0
    assert "x / y" not in capsys.readouterr().out


def test_show_names_the_servers_and_what_depends_on_the_number_of_sites(capsys):
    assert main.main(["show", str(ROOT / "scenarios" / "round_robin.yaml")]) == 0
    out = capsys.readouterr().out
    assert "servers     n9\n" in "".join(f"{line.rstrip()}\n" for line in out.splitlines())
    assert "at_once: 1, share: 0.125" in out
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in out.splitlines()]
    assert ["7", "n8", "worker"] in rows and ["8", "n9", "server"] in rows


def test_show_predicts_a_run_by_the_fluid_model(tmp_path, capsys):
    file = tmp_path / "pair.yaml"
    file.write_text(
        "topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 100 ms}\n"
        "workload: {kind: synthetic, model: 1 MB, compute: 1 s}\n"
        "scheme: {policy: bsp, plan: a2a, chunk: 100 kB}\n"
        "stop: {rounds: 3}\n"
    )
    assert main.main(["show", str(file), "--fluid"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        ["task_s", "1.2", "s"],
        ["rounds", "3"],
        ["window_s", "6.7", "s"],
        ["update_s", "2.233", "s"],
        ["rho", "0"],
        ["samples_per_s", "28.66"],
    ]
    override = ["--set", "timeline=[{at: 1 s, do: kill n1}]"]
    assert main.main(["show", str(file), "--fluid", *override]) == 64
    assert "the fluid model cannot predict this scenario: expected" in capsys.readouterr().err


def test_show_tells_the_groups_that_owl_chooses(capsys):
    def show(*more):
        assert main.main(["show", "scenarios/paper/owl/racks.yaml", *more]) == 0
        return capsys.readouterr().out

    said = "2 communication groups of a rack, chosen by Algorithm 2\n"
    assert said in re.sub(" +\n", "\n", show())
    assert show("--fluid").endswith(f"\nplan           {said}")
    assert "Algorithm 2" not in show("--set", "scheme.groups=2")


def test_show_as_yaml_is_a_scenario_that_gives_itself(tmp_path, capsys):
    assert main.main(["show", QUICKSTART, "--format", "yaml"]) == 0
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(capsys.readouterr().out)
    assert main.main(["show", str(resolved), "--format", "yaml"]) == 0
    assert capsys.readouterr().out == resolved.read_text()


def test_schema_prints_json(capsys):
    assert main.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Trunkline scenario"


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("topologies", "full_mesh"),
        ("plans", "crew"),
        ("policies", "preduce"),
        ("workloads", "training"),
        ("schemes", "netstorm-lite"),
        ("faults", "outage"),
        ("scenarios", "scenarios/quickstart.yaml"),
    ],
)
def test_list_says_what_each_thing_is_in_one_line(what, name, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main.main(["list", what]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert len(lines[name]) > 10


def test_list_alone_has_a_line_for_each_kind(tmp_path, capsys):
    (tmp_path / "mine" / "20260101-000000").mkdir(parents=True)
    assert main.main(["list", "--runs", str(tmp_path)]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert tuple(lines) == list_.LISTS
    assert "crew" in lines["plans"].split(", ")
    assert lines["runs"].startswith("1: ")


def test_new_writes_a_scenario_that_runs_and_whose_comments_are_right(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    assert main.main(["new", str(path)]) == 0
    text = path.read_text()
    schema = json.loads((tmp_path / "trunkline.schema.json").read_text())
    assert text.startswith("# yaml-language-server: $schema=trunkline.schema.json\n")
    jsonschema.validate(yaml.safe_load(text), schema)
    assert parse(text, str(path)).stop.tasks == 20
    uncommented = re.sub(r"(?m)^(  )?# ?(timeline|loss|queue|chunk|time|  - )", r"\1\2", text)
    full = parse(uncommented, str(path))
    assert (len(full.timeline), full.stop.time_s, full.scheme.chunk_bytes) == (2, 60.0, 262144)

    assert main.main(["new", str(tmp_path / "my first.yaml")]) == 0
    assert f"then: trunkline run '{tmp_path}/my first.yaml'\n" in capsys.readouterr().out
    assert main.main(["new", str(path)]) == 64
    assert "expected a name that no file has yet" in capsys.readouterr().err
    assert path.read_text() == text
    assert main.main(["new", str(tmp_path / "mine")]) == 64
    assert main.main(["new", str(tmp_path / "none" / "mine.yaml")]) == 64
    assert "cannot be written: no such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("runs", "jobs", "load", "text"),
    [
        (216, 1, 1.2, "216 runs, 1 at once; 7 of 8 processors are free (--jobs 7)"),
        (3, 1, 0.0, "3 runs, 1 at once; 8 of 8 processors are free (--jobs 3)"),
        (216, 8, 0.1, "216 runs, 8 at once; 8 of 8 processors are free"),
        (216, 1, 20.0, "216 runs, 1 at once; 0 of 8 processors are free"),
    ],
)
def test_many_runs_begin_with_the_number_of_free_processors(runs, jobs, load, text):
    assert terminal.advise_jobs(runs, jobs, 8, load) == text


def test_a_list_of_nothing_says_so(tmp_path, capsys):
    assert main.main(["list", "runs", "--runs", str(tmp_path)]) == 0
    assert tuple(capsys.readouterr()) == ("", f"trunkline: there are no runs in {tmp_path}\n")


def test_list_runs_shows_each_run_once_with_what_it_ran(run_dir, capsys):
    header = {"t_ns": 0, "policy": "preduce", "plan": "crew", "seed": 3}
    (run_dir / "events.jsonl").write_text(json.dumps(header) + "\n")
    (run_dir / "tables" / "run.csv").write_text(
        "tasks,abandoned,task_s,by_hand\n2,1,3.0,outage n1 n2\n"
    )
    (run_dir / "tables" / "faults.csv").write_text("fault,start_s\n0,1.5\n1,\n")
    changes = ["scheme.p=4", "stop.time=9 s"]
    (run_dir / "environment.json").write_text(json.dumps({"overrides": changes}))
    unfinished = run_dir.parent / "20260102-000000"
    unfinished.mkdir()
    command = ["list", "runs", "--runs", str(run_dir.parents[1])]
    assert main.main(command) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{run_dir}  2026-01-01 00:00  pass      preduce, crew, seed 3, 2 tasks, 3.000 s each,"
        " 1 fault, by hand  --set scheme.p=4  --set 'stop.time=9 s'",
        f"{unfinished}  2026-01-02 00:00  not finished",
    ]
    assert main.main([*command, "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "folder": str(run_dir),
        "began": "2026-01-01T00:00:00",
        "verdict": "pass",
        "policy": "preduce",
        "plan": "crew",
        "seed": 3,
        "tasks": 2,
        "task_s": 3.0,
        "faults": 1,
        "by_hand": True,
        "overrides": changes,
    }
    assert second["verdict"] == "not finished"
    assert second["task_s"] is None
    (run_dir / "verdict.json").write_text("[]")
    (run_dir / "events.jsonl").write_text("[]\n")
    (run_dir / "tables" / "run.csv").write_text("tasks,task_s\n0,\n")
    assert main.main(command) == 0
    assert capsys.readouterr().out.startswith(
        f"{run_dir}  2026-01-01 00:00  not finished  0 tasks, 1 fault  --set scheme.p=4"
    )
    for table in ("run", "faults"):
        (run_dir / "tables" / f"{table}.csv").write_text("tasks,task_s\nmany,long\n")
    assert main.main(command) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert "task" not in line.removeprefix(str(run_dir)) and "--set scheme.p=4" in line


def test_only_runs_are_listed_as_json(capsys):
    assert main.main(["list", "plans", "--json"]) == 64
    assert capsys.readouterr().err == "trunkline: --json: only with runs\n"


def test_a_scenario_is_found_by_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main(["validate", "quickstart", "paper/crew/f4"]) == 64
    assert capsys.readouterr().out.splitlines()[0] == f"{QUICKSTART}: ok"
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "mine.yaml").write_text(Path(RING).read_text())
    assert main.main(["validate", "mine", "scenarios/mine.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == ["scenarios/mine.yaml: ok"] * 2


def test_validate_and_show_have_notes_about_the_file_of_a_network(tmp_path, capsys):
    note = "1 link has no reverse in the file, so it stands for both directions: a -> b"
    (tmp_path / "links.csv").write_text("src,dst,rate,delay\na,b,1,1\n")
    scenario = tmp_path / "mine.yaml"
    scenario.write_text(
        "topology: {builder: file, file: links.csv}\n"
        "workload: synthetic\nscheme: allreduce\nstop: {rounds: 1}\n"
    )
    assert main.main(["validate", str(scenario)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{scenario}: ok", f"{scenario}: note: {note}"]
    assert main.main(["show", str(scenario)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"notes {note} workload" in shown


def test_validate_names_programs_that_this_machine_lacks(tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "topology: {builder: full_mesh, sites: 3, rates: 10 Mbit/s}\n"
        "workload:\n"
        "  kind: program\n"
        "  command: {n1: [pyton3, x.py], n2: [python3, none.py], n3: [python3, here.py]}\n"
        "stop: {time: 1 s}\n"
    )
    (tmp_path / "here.py").touch()
    assert main.main(["validate", str(file)]) == 64
    assert capsys.readouterr().out.splitlines() == [
        f"{file}:4: workload.command.n1: pyton3: expected a program in PATH, or a path from "
        f"{tmp_path} (did you mean python3?)",
        f"{file}:4: workload.command.n2: none.py: expected a file in {tmp_path}",
    ]
    assert main.main(["run", str(file), "--set", "workload.folder=none"]) == 64
    said = capsys.readouterr().err
    assert said.startswith("--set workload.folder=none: workload.folder: /")
    assert said.endswith(": expected a folder that exists\n")


def test_checks_of_the_user_that_this_machine_lacks_are_named_before_anything_starts(
    tmp_path, capsys
):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "topology: {builder: full_mesh, sites: 3, rates: 10 Mbit/s}\n"
        "workload: {kind: synthetic}\n"
        "stop: {time: 1 s}\n"
        "expect:\n"
        "- {check: [jugde, x.py]}\n"
        "- {check: [python3, none.py]}\n"
        "- {check: [python3, none.py], folder: none}\n"
        "- {check: [./here.sh]}\n"
    )
    (tmp_path / "here.sh").touch(0o755)
    said = [
        f"{file}:5: expect[0].check: jugde: expected a program in PATH, or a path from {tmp_path}",
        f"{file}:6: expect[1].check: none.py: expected a file in {tmp_path}",
    ]
    assert main.main(["validate", str(file)]) == 64
    found = capsys.readouterr().out.splitlines()
    assert found[:2] == said
    assert found[2].startswith(f"{file}:7: expect[2].folder: /")
    assert found[2].endswith(": expected a folder that exists")
    for more in ([], ["--on", "nowhere.invalid"]):
        assert main.main(["run", str(file), *more]) == 64
        assert capsys.readouterr().err.splitlines() == found


def test_validate_names_modules_to_preload_that_this_machine_lacks(tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "topology: {builder: full_mesh, sites: 2, rates: 10 Mbit/s}\n"
        "workload:\n"
        "  kind: program\n"
        "  command: [python3, here.py]\n"
        "  preload: [os.path, sys, xml.dom, pathlib, email.nowhere]\n"
        "stop: {time: 1 s}\n"
    )
    (tmp_path / "here.py").touch()
    assert main.main(["validate", str(file)]) == 64
    missing = "expected what can be imported: No module named 'email.nowhere'"
    assert capsys.readouterr().out == f"{file}:5: workload.preload: email.nowhere: {missing}\n"


def test_validate_changes_scenarios_before_it_reads_them(capsys):
    assert main.main(["validate", RING, QUICKSTART, "--set", "scheme.p=3"]) == 64
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("--set scheme.p=3: scheme.p: 3: unknown key")
    assert second == f"{QUICKSTART}: ok"


def test_no_more_than_a_hundred_problems_are_listed(tmp_path, capsys):
    wrong = tmp_path / "wrong.yaml"
    lines = "".join(f"wrong{number}: 1\n" for number in range(120))
    wrong.write_text("topology: internet2\nworkload: synthetic\nstop: {rounds: 1}\n" + lines)
    assert main.main(["validate", str(wrong)]) == 64
    said = capsys.readouterr().out.splitlines()
    assert (len(said), said[-1]) == (101, "and 20 more problems")


def test_without_a_command_all_commands_are_listed(capsys):
    assert main.main([]) == 64
    out = capsys.readouterr().out
    assert all(f"\n    {name}" in out for name in find_verbs())


def test_a_run_that_goes_on_is_not_judged(run_dir, capsys):
    (run_dir / "verdict.json").unlink()
    (run_dir / "environment.json").write_text(json.dumps({"owner": Owner.me().tag}))
    assert main.main(["report", str(run_dir)]) == 64
    assert "this run is running" in capsys.readouterr().err
    assert not (run_dir / "verdict.json").exists()


def test_a_page_of_several_runs_takes_no_other_files_place(run_dir, capsys):
    log = run_dir / "events.jsonl"
    before = log.read_bytes()
    assert main.main(["report", str(run_dir), str(run_dir), "--out", str(log)]) == 64
    assert "expected a name that ends in .html" in capsys.readouterr().err
    assert log.read_bytes() == before


@pytest.mark.parametrize("by_name", [True, False])
def test_report_judges_a_run_again(by_name, run_dir, monkeypatch, capsys):
    from trunkline.harness.runs import user_checks

    verdict = Verdict.of([Check("bytes are right", "unknown", "nothing was sent", "tasks", 0)])
    seen = []
    monkeypatch.setattr(
        user_checks, "judge_run", lambda path, width: seen.append(path.resolve()) or verdict
    )
    runs = str(run_dir.parents[1])
    name = "quickstart" if by_name else str(run_dir)
    assert main.main(["report", name, "--runs", runs, "--quiet"]) == 2
    assert seen == [run_dir.resolve()]
    assert capsys.readouterr().out.startswith("unknown  ")


def test_a_page_that_cannot_be_written_names_the_option(run_dir, monkeypatch, capsys):
    from trunkline.harness.record.run_folder import StoreError
    from trunkline.harness.report import outputs

    def refuse(folders, file, labels):
        raise StoreError(f"{file}: cannot be written: no; choose another folder")

    monkeypatch.setattr(outputs, "compare", refuse)
    assert main.main(["report", str(run_dir), str(run_dir), "--out", "/proc/x.html"]) == 70
    assert "--out /proc/x.html: /proc/x.html: cannot be written" in capsys.readouterr().err


def test_a_misspelt_run_is_guessed_before_anything_long_is_imported(run_dir):
    python = [sys.executable, "-X", "importtime", "-m", "trunkline.harness.commands.main"]
    command = [*python, "explain", "quikstart", "--runs", str(run_dir.parents[1])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "quikstart: no such run: did you mean quickstart? expected a run's" in done.stderr
    assert "pandas" not in done.stderr


@pytest.mark.parametrize("name", ["läbs & co", "läbs & co.yaml", "scenarios/läbs & co.yaml"])
def test_a_run_is_found_by_the_file_of_its_scenario_whatever_its_letters(name, tmp_path):
    nameless = Path(RING).read_text().replace("name: ", "# ")
    latest = tmp_path / parse(nameless, "läbs & co.yaml").name / "latest"
    latest.mkdir(parents=True)
    (latest / "events.jsonl").touch()
    assert terminal.find_run(name, tmp_path) == tmp_path / "labs-co/latest"


@pytest.mark.parametrize("name", ["comparisons/my", "bogus/my", "runs/nothing/my", "/my"])
def test_a_path_that_is_no_run_is_not_the_run_of_a_scenario_with_its_last_part(
    name, tmp_path, monkeypatch
):
    """A folder with many runs tells one of them, and a folder of one run finds the latest."""
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/my/1", "comparisons/my/runs/a-seed1/1", "comparisons/my/runs/b-seed1/1"):
        Path(folder).mkdir(parents=True)
        Path(folder, "events.jsonl").touch()
        Path(folder).with_name("latest").symlink_to("1")
    with pytest.raises(terminal.UsageError, match=f"^{name}: no such run: ") as refused:
        terminal.find_run(name, Path("runs"))
    if name == "comparisons/my":
        trial = "comparisons/my/runs/a-seed1"
        assert f"expected one of them, such as {trial}, and 1 more" in str(refused.value)
        assert terminal.find_run(trial, Path("runs")) == Path(trial, "latest")


def test_a_folder_of_runs_tells_the_newest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, age_s in (("a/3", 9), ("a/1", 8), ("a/2", 7), ("a/4", 6), ("b/1", 5)):
        log = Path("copied", folder, "events.jsonl")
        log.parent.mkdir(parents=True)
        log.touch()
        os.utime(log, (time.time() - age_s,) * 2)
    newest = "expected one of them; the newest: copied/a/4, copied/a/2, copied/a/1"
    with pytest.raises(terminal.UsageError, match=f"{newest}$"):
        terminal.find_run("copied/a", Path("runs"))
    for scenario in ("a", "b"):
        Path("copied", scenario, "latest").symlink_to("1")
    with pytest.raises(terminal.UsageError, match=r"newest: copied/b/latest, copied/a/latest$"):
        terminal.find_run("copied", Path("runs"))


def test_a_scenario_whose_only_run_has_not_ended_names_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs/my/1").mkdir(parents=True)
    Path("runs/my/1/events.jsonl").touch()
    with pytest.raises(terminal.UsageError) as refused:
        terminal.find_run("my", Path("runs"))
    why = "none of its runs has ended as it should: expected one by its folder, such as runs/my/1"
    assert str(refused.value) == f"my: no such run: {why}"


def test_a_name_says_which_run_it_stands_for_and_a_folder_does_not(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("runs/my/1").mkdir(parents=True)
    Path("runs/my/1/events.jsonl").touch()
    Path("runs/my/latest").symlink_to("1")
    terminal.find_run("my", Path("runs"))
    assert capsys.readouterr() == ("", "my: runs/my/1\n")
    terminal.find_run("runs/my/latest", Path("runs"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ([4, 5, 6], "4 to 6\n"),
        ([1, 3], "1 or 3\n"),
        ([0, 1, 2, 4, 1000005, 1000006], "0 to 2, 4 or 1000005 to 1000006\n"),
        (range(0, 40, 2), "0, 2, 4, 6, ... or 38\n"),
    ],
)
def test_a_task_that_did_not_end_is_answered_with_the_ranges_of_those_that_did(
    ended, said, run_dir, monkeypatch, capsys
):
    from trunkline.harness.report import outputs

    tasks = [SimpleNamespace(number=number, duration_s=1.0) for number in ended]
    data = SimpleNamespace(
        scenario=SimpleNamespace(runs_programs=False),
        tables={"tasks": None},
        history=SimpleNamespace(tasks=tasks, is_predicted=False),
    )
    monkeypatch.setattr(outputs, "read", lambda folder: data)
    tasks.append(SimpleNamespace(number=98, duration_s=None))
    for number, why in (("-1", ""), ("99", ""), ("98", "this task has not ended: ")):
        assert main.main(["explain", str(run_dir), "--task", number]) == 64
        assert capsys.readouterr().err == f"trunkline: --task {number}: {why}expected {said}"


def test_report_shows_several_runs_on_one_page(run_dir, tmp_path, monkeypatch, capsys):
    from trunkline.harness.report import outputs

    seen = []
    monkeypatch.setattr(
        outputs, "compare", lambda folders, file, labels: seen.append((folders, file))
    )
    named = [str(run_dir), str(run_dir), "--label", "a"]
    for labels, said in (
        (["a", "b", "b"], "--label a a b b: expected 2 names, one for each run"),
        (["a"], "--label a a: expected different names"),
        ([" "], "--label a ' ': expected names that are not empty"),
    ):
        given = [word for label in labels for word in ("--label", label)]
        assert main.main(["report", *named, *given]) == 64
        assert said in capsys.readouterr().err
    assert main.main(["report", *named[1:]]) == 64
    assert "--label a: only with several runs" in capsys.readouterr().err
    command = ["report", str(run_dir), "quickstart", "--runs", str(run_dir.parents[1])]
    assert main.main([*command, "--out", str(tmp_path / "page.html")]) == 0
    assert seen == [([run_dir, run_dir.parent / "latest"], tmp_path / "page.html")]
    assert capsys.readouterr().out == f"2 runs compared in {tmp_path}/page.html\n"


@pytest.fixture
def tab(tmp_path):
    """What Tab offers for a command line, by the protocol of argcomplete.

    A fork of this process answers, or a `process` of its own, which imports everything again.
    """

    def complete(env):
        os.chdir(ROOT)
        os.environ.update(env)
        return main.main([])

    def offer(line, process=False):
        answer = tmp_path / "answer"
        env = {
            **os.environ,
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_SHELL": "bash",
            "_ARGCOMPLETE_COMP_WORDBREAKS": "=:",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        if process:
            command = [sys.executable, "-m", "trunkline.harness.commands.main"]
            subprocess.run(command, cwd=ROOT, env=env, check=True)
        else:
            assert fork(lambda: complete(env)).wait() == 0
        return answer.read_text().split("\n")

    return offer


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("trunkline rep", ["report", "reproduce"]),
        ("trunkline list pl", ["plans "]),
        ("trunkline run --s", ["--set", "--seed", "--ssh-config"]),
        ("trunkline run quick", ["quickstart "]),
        ("trunkline kernel b", ["build "]),
        ("trunkline new quick", [""]),
        ("trunkline show --format ''", ["tables", "yaml"]),
        ("trunkline run x.yaml --set scheme.pl", ["scheme.plan="]),
        ("trunkline compare x.yaml --vary scheme.scatter=", ["blocking", "non-blocking"]),
        ("trunkline run x.yaml --set scheme.plan=cr", ["crew "]),
        ("trunkline run x.yaml --set stop.ti", ["stop.time="]),
    ],
)
def test_tab_completes_commands_scenarios_and_settings(line, words, tab):
    assert tab(line) == words


def test_tab_completes_runs_by_the_name_of_their_scenario(run_dir, tab):
    runs = run_dir.parents[1]
    assert tab(f"trunkline report --runs {runs} q", process=True) == ["quickstart "]
    assert str(run_dir) in tab(f"trunkline report --runs {runs} {runs}/q")


def test_the_script_of_completion_is_one_that_bash_understands(capsys):
    assert main.main(["completion"]) == 0
    script = capsys.readouterr().out
    assert "trunkline" in script
    subprocess.run(["bash", "-n", "-c", script], check=True)


@pytest.mark.parametrize(
    ("words", "spared"),
    [
        (
            ["validate", RING],
            {"asyncio", "networkx", "numpy.linalg", "rich", "scipy", "trunkline.agents.wire.link"},
        ),
        (["validate", QUICKSTART], {"numpy.linalg", "scipy"}),
        (["list", "plans"], {"asyncio", "networkx", "rich", "scipy"}),
        (["list", "runs"], {"asyncio", "networkx", "rich", "numpy", "pydantic"}),
        (["--help"], {"asyncio", "networkx", "rich", "numpy", "pydantic", "yaml"}),
    ],
)
def test_quick_commands_import_nothing_that_is_slow_to_load(words, spared):
    program = (
        "import sys; from trunkline.harness.commands.main import main; main(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, *words]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {*told.stderr.split()} & {*spared, "pandas", "torch", "matplotlib"}


def test_every_command_shows_what_it_is_for(capsys):
    for verb, module in find_verbs().items():
        assert main.main([verb, "--help"]) == 0
        told = capsys.readouterr().out
        assert module.EPILOG.splitlines()[-1] in told
        assert len(told.splitlines()) > 8


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (1001.0, units.TIME_S, "16.68 min"),
        (0.0123456, units.TIME_S, "12.35 ms"),
        (563_454_480, units.SIZE_BYTES, "563.5 MB"),
        (0.0, units.RATE_MBPS, "0 Mbit/s"),
    ],
)
def test_quantities_are_short_for_people(value, dimension, text):
    assert progress.short(value, dimension) == text


def test_kernel_path_is_one_line(capsys):
    assert main.main(["kernel", "path"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_kernel_status_names_a_damaged_kernel_and_the_command_that_mends_it(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel = build.cached_path()
    monkeypatch.setattr(build.prebuilt, "find", lambda: None)
    kernel.parent.mkdir(parents=True)
    kernel.touch()
    kernel.with_name("linux.sha256").write_text("0" * 64 + "  linux\n")
    assert main.main(["kernel", "status"]) == 1
    output = capsys.readouterr().out
    assert output.startswith(f"damaged: it differs from its checksum  {kernel}\n")
    assert "remedy: trunkline kernel build\n" in output


def test_help_and_version_end_well(capsys):
    assert main.main(["--help"]) == 0
    assert "trunkline run scenarios/quickstart.yaml" in capsys.readouterr().out
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("trunkline ")


def test_output_that_nobody_reads_is_no_error():
    command = [sys.executable, "-m", "trunkline.harness.commands.main", "schema"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
    assert (process.returncode, err) == (141, "")


@pytest.mark.parametrize(
    ("now", "stop", "share"),
    [
        (Progress(), Stop(rounds=10), 0.0),
        (Progress(rounds=20), Stop(rounds=10), 0.5),
        (Progress(virtual_s=10, tasks=9), Stop(time_s=100, tasks=10), 0.9),
        (Progress(accuracy_percent=60), Stop(accuracy_percent=80), 0.75),
        (Progress(), Stop(accuracy_percent=80), 0.0),
        (Progress(tasks=12), Stop(tasks=10), 1.0),
        (Progress(tasks=7, abandoned=3), Stop(tasks=10), 1.0),
        (Progress(ended=3), Stop(exit="all"), 0.75),
        (Progress(ended=3), Stop(exit=("client", "n1")), 0.75),
        (Progress(message="starting"), Stop(exit="all"), None),
        (Progress(virtual_s=9.0, ended=0), Stop(exit=("client",)), None),
        (Progress(virtual_s=9.0, ended=0), Stop(exit=("client",), time_s=10.0), 0.9),
    ],
)
def test_the_bar_follows_the_stop_condition_that_is_nearest(now, stop, share):
    assert progress.fraction(now, stop, workers=4) == share


def test_progress_names_every_number_and_what_it_runs_towards():
    now = Progress(12.34, 30, 9, 123_456_789, 61.25)
    stop = Stop(time_s=300, rounds=10, tasks=20, accuracy_percent=80)
    assert progress.describe(now, stop, workers=4) == (
        "12.3 s of 300 s, rounds 30 of 40 (4 sites), tasks 9 of 20, 123.5 MB, "
        "accuracy 61.2 % of 80 %"
    )


def test_progress_of_programs_has_the_time_and_how_many_have_ended():
    assert progress.describe(Progress(2.5, ended=1), Stop(exit="all"), 3) == (
        "2.5 s, programs ended 1 of 3, 0 B on the links"
    )
    assert progress.describe(Progress(2.5, ended=1), Stop(exit=("client", "n1")), 3) == (
        "2.5 s, programs ended 1 of 3 (client, n1), 0 B on the links"
    )
    many = Stop(exit=tuple(f"n{number}" for number in range(1, 12)))
    assert "of 11 (n1, n2, n3, n4, n5, n6, n7, n8 and 3 more), " in progress.describe(
        Progress(2.5, ended=1), many, 11
    )
    now = Progress(2.5, rounds=4, tasks=2, ended=0)
    assert progress.describe(now, Stop(time_s=5), 3) == (
        "2.5 s of 5 s, programs ended 0, 0 B on the links, rounds 4, tasks 2"
    )


def test_a_run_of_which_nobody_knows_how_much_is_done_shows_no_percentage_until_somebody_does():
    times = iter([0.0, 10.0, 20.0])
    screen = io.StringIO()
    with progress.live(Console(file=screen, width=40), lambda: next(times)) as show:
        for share, text in [(None, "1 s, ended 0 of 2"), (None, "2 s"), (0.5, "3 s")]:
            show(share, text)
    assert screen.getvalue() == " ... 1 s, ended 0 of 2\n ... 2 s\n 50% 3 s\n"
    for share, words in ((None, "... 2 s"), (0.5, " 50 % 2 s")):
        screen = io.StringIO()
        with progress.live(Console(file=screen, force_terminal=True, width=60)) as show:
            show(None, "1 s")
            show(share, "2 s")
        assert words in screen.getvalue() and ("%" in screen.getvalue()) is (share is not None)


def test_validate_refuses_folders_that_do_not_exist_and_runs_that_kept_no_charges(tmp_path, capsys):
    scenario = tmp_path / "mine.yaml"
    scenario.write_text(
        "topology: {builder: full_mesh, sites: 2, rates: 50 Mbit/s}\n"
        "workload: {kind: program, command: [sleep, 1], charge: {replay: kept}}\n"
        "files: {writable: [kept, results]}\n"
    )
    (tmp_path / "kept").mkdir()
    assert main.main(["validate", str(scenario)]) == 64
    charges, folder = sorted(capsys.readouterr().out.splitlines())
    assert charges.startswith(f"{scenario}:2: workload.charge.replay: /")
    assert charges.endswith(
        ": expected the folder of a run with charge: {record: true}, which has charges.txt"
    )
    assert folder.startswith(f"{scenario}:3: files.writable[1]: /")
    assert folder.endswith(": expected a folder that exists: make it first")
    (tmp_path / "results").mkdir()
    (tmp_path / "kept" / "charges.txt").touch()
    assert main.main(["validate", str(scenario)]) == 0


def test_without_a_terminal_there_is_a_line_every_few_seconds_and_fewer_later():
    times = iter([0.0, 1.0, 2.9, 3.0, 7.0, 1000.0, 1040.0, 1060.0, 1061.0, 1062.0])
    screen = io.StringIO()
    with progress.live(Console(file=screen, width=40), lambda: next(times)) as show:
        for share, text in [(0, "a"), (0.1, "b"), (0.2, "c"), (0.5, "d"), (0.6, "d")]:
            show(share, text)
        for share, text in [(0.7, "e"), (0.8, "f"), (0.9, "g"), (0.95, "h"), (1, "the end")]:
            show(share, text)
    assert screen.getvalue() == "  0% a\n 50% d\n 70% e\n 90% g\n100% the end\n"


def test_on_a_terminal_there_is_one_line_that_goes_away():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, color_system=None)
    with progress.live(console) as show:
        show(0.5, "12 s")
    assert " 50 % 12 s" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-m", "trunkline", "show", QUICKSTART]
    shown = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    shown.stdout.close()
    assert shown.stderr.read() == b""
    assert shown.wait() == 128 + signal.SIGPIPE
    shown.stderr.close()


def test_extensions_are_listed_without_being_imported():
    for kind in ("topologies", "plans", "policies", "workloads"):
        imported = getattr(extensions.discover(), kind)
        assert extensions.summarize_kind(kind) == {
            name: extensions.summarize(module) for name, module in sorted(imported.items())
        }
    python = [sys.executable, "-X", "importtime", "-m", "trunkline.harness.commands.main"]
    done = subprocess.run([*python, "list", "plans"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "numpy" not in done.stderr
