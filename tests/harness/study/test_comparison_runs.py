"""A comparison runs what is missing, keeps what is finished and hides nothing that went wrong."""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from trunkline.agents import registry
from trunkline.harness.commands import main
from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.config.paths import PACKAGE
from trunkline.harness.kernel import KernelError
from trunkline.harness.live import progress
from trunkline.harness.live.sweep_progress import Running
from trunkline.harness.record.run_folder import RunFolder, StoreError
from trunkline.harness.runs import finished_runs, provenance, run_pool
from trunkline.harness.runs.run_pool import Finished, Job
from trunkline.harness.scenario.loading import load, parse, resolve
from trunkline.harness.study import comparison, comparison_runs, comparison_shares, earlier_tables
from trunkline.harness.study.grid import GridError, read_axes

ROOT = Path(__file__).parents[3]

SCENARIO = """\
name: three
topology: {builder: full_mesh, sites: 3, rates: n2}
workload: {kind: synthetic, model: 1 MB, compute: 0.1 s}
scheme: {policy: preduce, plan: crew, p: 2}
stop: {tasks: 3}
"""

FAKE = """
import hashlib, json, os, sys, time
from pathlib import Path

job = json.load(sys.stdin)
with open({log!r}, "a") as log:
    print(job["name"], job["seed"], *job["overrides"], file=log)
plan = job["overrides"][0].partition("=")[2]
if plan == "ps":
    print("no kernel, no nothing")
    sys.exit(3)
if plan == "a2a":
    print(json.dumps({{"share": 0.5}}), flush=True)
    time.sleep(600)
folder = Path(job["runs_dir"], job["name"], "20260101-000000")
(folder / "tables").mkdir(parents=True)
(folder / "tables" / "run.csv").write_text(
    "task_s,rounds,by_hand\\n"
    f"{{job['seed']}}.5,3,{{'ended at 1.000 s' if plan == 'fapt' else ''}}\\n"
)
verdict = "fail" if plan == "ring" else "pass"
checks = [{{"name": "bytes", "outcome": verdict, "detail": "few"}}]
(folder / "verdict.json").write_text(json.dumps({{"verdict": verdict, "checks": checks}}))
(folder / "events.jsonl").write_text("{{}}\\n{{}}\\n")
log, judged_by = hashlib.sha256(b"{{}}\\n{{}}\\n").hexdigest(), {judged_by!r}
record = {{"identity": job["identity"], "log": log, "judged_by": judged_by, "error": None}}
(folder / "run.json").write_text(json.dumps(record))
print(json.dumps({{"run_dir": str(folder), "outcome": verdict, "error": None}}))
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "three.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Replaces runs by a program that only pretends; tells what was run since the last call."""
    log, fake = tmp_path / "started", tmp_path / "fake.py"
    log.touch()
    fake.write_text(FAKE.format(log=str(log), judged_by=provenance.hash_code(provenance.REPORT)))
    monkeypatch.setattr(run_pool, "PROGRAM", (sys.executable, str(fake)))
    monkeypatch.setattr(comparison_runs, "_write_page", lambda *_: None)  # which reads whole runs

    def started():
        lines = log.read_text().splitlines()
        log.write_text("")
        return lines

    return started


def run(path, *vary, trials=1, folder=None, at_once=1, on_progress=lambda sweep: None):
    asked = comparison_runs.plan(path, read_axes(vary), trials)
    return comparison_runs.run(asked, folder or path.parent / "out", at_once, on_progress)


def test_what_the_machine_lacks_is_said_before_the_first_run(scenario, started, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(KernelError, match=r"^programs: grep not found"):
        run(scenario, "scheme.plan=crew,ring")
    assert started() == []
    assert not (scenario.parent / "out").exists()


def test_every_cell_has_the_same_seeds(scenario):
    asked = comparison_runs.plan(
        scenario, read_axes(["scheme.plan=crew,ring"]), 2, ["scheme.p=3"], 5
    )
    assert [(str(t.cell), t.number, t.job.seed, t.job.overrides) for t in asked.trials] == [
        ("scheme.plan=crew", 0, 5, ("scheme.p=3", "scheme.plan=crew")),
        ("scheme.plan=crew", 1, 6, ("scheme.p=3", "scheme.plan=crew")),
        ("scheme.plan=ring", 0, 5, ("scheme.p=3", "scheme.plan=ring")),
        ("scheme.plan=ring", 1, 6, ("scheme.p=3", "scheme.plan=ring")),
    ]


def test_shares_carry_out_each_trial_once_and_the_whole_command_writes_the_tables(
    scenario, started
):
    spec = comparison_runs.plan(scenario, read_axes(["scheme.plan=crew,ring"]), 2)
    folder = scenario.parent / "out"
    for number, trials in ((1, ["crew-seed1", "crew-seed2"]), (2, ["ring-seed1", "ring-seed2"])):
        for names in (trials, []):
            done = comparison_shares.run_share(spec, folder, (number, 2), 1, lambda sweep: None)
            assert done == (2, 0)
            assert [line.split()[0].rpartition("-")[0] for line in started()] == names
    assert not (folder / "tables").exists()
    table = run(scenario, "scheme.plan=crew,ring", trials=2)
    assert started() == []
    assert list(table["verdict"]) == ["pass", "pass", "fail", "fail"]


def test_a_share_that_was_killed_is_counted_in_the_table(scenario, started):
    spec = comparison_runs.plan(scenario, read_axes(["scheme.plan=crew,ring"]), 1)
    folder = scenario.parent / "out"

    def be_killed(jobs, runs_dir, at_once, on_finished, on_running):
        on_running([Running(job.identity) for job in jobs])
        raise MemoryError

    lost = replace(spec, kind=replace(spec.kind, carry_out=be_killed))
    with pytest.raises(MemoryError):
        comparison_shares.run_share(lost, folder, (2, 2), 1, lambda sweep: None)
    for number in (1, 2):
        comparison_shares.run_share(spec, folder, (number, 2), 1, lambda sweep: None)
    assert list(run(scenario, "scheme.plan=crew,ring")["tries"]) == [1, 2]


def test_shares_go_on_beside_each_other_but_not_beside_the_whole_command(scenario, started):
    spec = comparison_runs.plan(scenario, read_axes(["scheme.plan=crew,ring"]), 1)
    folder = scenario.parent / "out"
    folder.mkdir()
    with finished_runs.lock(folder, "1-of-2"):
        assert comparison_shares.run_share(spec, folder, (2, 2), 1, lambda sweep: None) == (1, 0)
        with pytest.raises(StoreError, match="another comparison is using it"):
            comparison_shares.run_share(spec, folder, (1, 2), 1, lambda sweep: None)
        with pytest.raises(StoreError, match="another comparison is using it"):
            run(scenario, "scheme.plan=crew,ring")


def test_progress_begins_with_the_planning_and_counts_trials_that_were_done_before(
    scenario, started
):
    planned, heard = [], []
    axes = read_axes(["scheme.plan=crew,ring"])
    comparison_runs.plan(scenario, axes, 2, on_progress=lambda *now: planned.append(now))
    assert planned == [(1, 4), (2, 4), (3, 4), (4, 4)]
    run(scenario, "scheme.plan=crew,ring")
    on_progress = lambda sweep: heard.append(sweep.describe())  # noqa: E731
    run(scenario, "scheme.plan=crew,ring", on_progress=on_progress)
    assert heard == [
        "1 of 2 done (1 from before)",
        "2 of 2 done (2 from before, 1 failed)",
        "2 of 2 done (2 from before, 1 failed)",
    ]


def test_all_cells_are_read_before_any_runs(scenario, started):
    with pytest.raises(ScenarioErrors) as refused:
        run(scenario, "scheme.plan=crew,fapt,bkd", "scheme.p=2,4,9")
    assert str(refused.value).splitlines() == [
        "--vary scheme.p=4: scheme.p: 4: expected 2 to 3, the number of sites "
        "(with scheme.plan=crew scheme.p=4 and 1 more)",
        "--vary scheme.p=9: scheme.p: 9: expected 2 to 3, the number of sites "
        "(with scheme.plan=crew scheme.p=9 and 1 more)",
        "--vary scheme.plan=bkd: scheme.plan: bkd: did you mean bkt? expected one of "
        f"{', '.join(registry.plans())} (with scheme.plan=bkd scheme.p=2 and 2 more)",
    ]
    assert started() == []


def test_a_problem_names_its_only_cell_once(scenario):
    with pytest.raises(ScenarioErrors) as refused:
        run(scenario, "scheme.plan=crw,ring")
    said = str(refused.value)
    assert said.startswith("--vary scheme.plan=crw: scheme.plan: crw: did you mean crew? expected ")
    assert "(with " not in said


def test_another_scenario_beside_runs_as_it_is_with_the_same_seeds_and_network(scenario):
    other = scenario.with_name("other.yaml")
    program = "{kind: program, command: [sleep, 1]}"
    network = "topology: {builder: full_mesh, sites: 3, rates: n2}"
    other.write_text(f"{network}\nworkload: {program}\nseed: 9\n")
    shared, own = "topology.delays=1 ms", "scheme.p=3"
    asked = comparison_runs.plan(
        scenario, read_axes(["scheme.plan=crew,ring"]), 1, [shared, own], 5, False, [other]
    )
    assert [(str(t.cell), t.job.file, t.job.seed, t.job.overrides) for t in asked.trials] == [
        ("scheme.plan=crew", str(scenario), 5, (shared, own, "scheme.plan=crew")),
        ("scheme.plan=ring", str(scenario), 5, (shared, own, "scheme.plan=ring")),
        ("scheme.plan=other", str(other), 5, (shared,)),
    ]
    assert (asked.keys, asked.elsewhere) == (("scheme.plan",), ())
    other.write_text(f"topology: internet2\nworkload: {program}\n")
    asked = comparison_runs.plan(scenario, (), 1, beside=[other])
    assert [str(t.cell) for t in asked.trials] == ["scenario=three", "scenario=other"]
    assert (asked.keys, asked.elsewhere) == (("scenario",), ("other",))
    with pytest.raises(GridError, match="files of different names"):
        comparison_runs.plan(scenario, (), 1, beside=[scenario.parent / "x" / "three.yaml"])


def test_a_program_that_changed_is_run_again(scenario):
    (scenario.parent / "mine.py").write_text("1")
    (scenario.parent / "beside.py").write_text("1")
    text = SCENARIO.partition("workload:")[0] + (
        "workload: {kind: program, command: [python3, mine.py]}"
    )
    seen = set()
    for name in ("mine.py", "beside.py", "else.txt"):
        seen.add(provenance.identify_run(parse(text, str(scenario))))
        (scenario.parent / name).write_text("2")
    seen.add(provenance.identify_run(parse(text, str(scenario))))
    assert len(seen) == 3


def test_what_is_wrong_with_the_file_itself_is_said_once(scenario):
    scenario.write_text(SCENARIO.replace("tasks: 3", "tasks: none"))
    with pytest.raises(ScenarioErrors) as refused:
        comparison_runs.plan(scenario, read_axes(["scheme.plan=crew,ring"]), 3)
    assert str(refused.value) == f"{scenario}:5: stop.tasks: none: expected a whole number"


def test_the_same_comparison_again_runs_nothing_and_a_larger_one_only_what_is_new(
    scenario, started
):
    first = run(scenario, "scheme.plan=crew,opr")
    assert len(started()) == 2
    assert run(scenario, "scheme.plan=crew,opr").equals(first)
    assert started() == []
    run(scenario, "scheme.plan=crew,opr,star", trials=2)
    assert [line.split()[1:] for line in started()] == [
        ["1", "scheme.plan=star"],
        ["2", "scheme.plan=crew"],
        ["2", "scheme.plan=opr"],
        ["2", "scheme.plan=star"],
    ]


def test_a_changed_scenario_or_code_is_run_again_and_a_new_description_is_not(
    scenario, started, monkeypatch
):
    run(scenario, "scheme.plan=crew")
    scenario.write_text(SCENARIO + "description: better\noutputs: {plots: false}\n")
    started()
    run(scenario, "scheme.plan=crew")
    assert started() == []
    scenario.write_text(SCENARIO.replace("0.1 s", "0.2 s"))
    run(scenario, "scheme.plan=crew")
    assert len(started()) == 1
    monkeypatch.setattr(provenance, "hash_code", lambda entries: "another")
    monkeypatch.setattr(finished_runs, "judge_again", lambda run_dir: None)
    run(scenario, "scheme.plan=crew")
    assert len(started()) == 1


def test_a_half_finished_run_is_removed_and_done_again(scenario, started, tmp_path):
    trials = run(scenario, "scheme.plan=crew")
    run_dir = tmp_path / "out" / trials["run"][0]
    (run_dir / "run.json").unlink()
    run_dir.rename(run_dir.with_name("20250101-000000"))
    started()
    again = run(scenario, "scheme.plan=crew")
    assert len(started()) == 1
    assert again.equals(trials)
    assert [path.name for path in run_dir.parent.iterdir()] == [run_dir.name]


@pytest.mark.parametrize("damaged", [b"{}\n{", b"{}\n", b"{}\n{}\n\0", None])
def test_a_run_whose_log_was_damaged_is_done_again(scenario, started, tmp_path, damaged):
    log = tmp_path / "out" / run(scenario, "scheme.plan=crew")["run"][0] / "events.jsonl"
    whole = log.read_bytes()
    log.unlink() if damaged is None else log.write_bytes(damaged)
    started()
    run(scenario, "scheme.plan=crew")
    assert len(started()) == 1
    assert log.read_bytes() == whole


def test_failures_and_errors_stand_in_the_table(scenario, started):
    trials = run(scenario, "scheme.plan=crew,ring,ps", at_once=3)
    assert list(trials["verdict"]) == ["pass", "fail", "error"]
    assert list(trials["error"]) == [
        "", "bytes: few", "the run's process ended with 3: no kernel, no nothing"
    ]  # fmt: skip
    assert trials["task_s"].tolist()[:2] == [1.5, 1.5]
    cells = pd.read_csv(scenario.parent / "out" / "tables" / "cells.csv")
    assert cells["task_s"].isna().tolist() == [False, True, True]


def test_a_trial_that_somebody_took_a_hand_in_shows_nothing_of_its_cell(scenario, started):
    trials = run(scenario, "scheme.plan=crew,fapt")
    assert list(trials["verdict"]) == ["pass", "unknown"]
    assert list(trials["error"]) == ["", "by hand: ended at 1.000 s"]
    cells = pd.read_csv(scenario.parent / "out" / "tables" / "cells.csv")
    assert cells["task_s"].isna().tolist() == [False, True]


def test_the_tables_have_the_labels(scenario, started):
    spec = comparison_runs.plan(scenario, read_axes(["scheme.plan=crew,ring"]), 2)
    spec = replace(spec, labels=("mine, first", "other"))
    folder = scenario.parent / "out"
    comparison_runs._write_tables(spec, RunFolder(folder), {})
    cells = pd.read_csv(folder / "tables" / "cells.csv")
    trials = pd.read_csv(folder / "tables" / "trials.csv")
    assert cells["label"].tolist() == ["mine, first", "other"]
    assert trials["label"].tolist() == ["mine, first"] * 2 + ["other"] * 2
    assert not earlier_tables.is_of_others(spec, folder)


def test_an_error_is_tried_again_and_a_failure_is_not(scenario, started):
    run(scenario, "scheme.plan=crew,ring,ps")
    started()
    run(scenario, "scheme.plan=crew,ring,ps")
    assert [line.split()[-1] for line in started()] == ["scheme.plan=ps"]


def test_ctrl_c_ends_what_runs_and_keeps_what_is_finished(scenario, started, monkeypatch):
    pages = []
    monkeypatch.setattr(comparison_runs, "_write_page", lambda *shown: pages.append(shown))

    def interrupt(sweep):
        if sweep.done == 1 and sweep.share >= 0.75:  # the other one says that it goes on
            raise KeyboardInterrupt

    stale = scenario.parent / "out" / "plots" / "rounds.pdf"
    stale.parent.mkdir(parents=True)
    stale.write_text("of an earlier comparison")
    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(scenario, "scheme.plan=crew,a2a", at_once=2, on_progress=interrupt)
    assert time.monotonic() - began_s < run_pool.GRACE_S
    table = pd.read_csv(scenario.parent / "out" / "tables" / "trials.csv")
    assert list(table["verdict"]) == ["pass", "missing"]
    assert not stale.exists()
    [(_, _, trials, *_)] = pages
    problems = list(comparison.list_problems(trials, ["scheme.plan"]))
    assert problems == ["1 of 2 trials have not ended: the same command continues"]
    started()
    assert comparison_runs.find_finished(
        comparison_runs.plan(scenario, read_axes(["scheme.plan=crew,a2a"]), 1),
        scenario.parent / "out",
    ).keys() == {
        comparison_runs.plan(scenario, read_axes(["scheme.plan=crew"]), 1).trials[0].job.identity
    }


def test_ctrl_c_says_what_is_kept_and_how_to_continue(
    scenario, started, capsys, monkeypatch, tmp_path
):
    def interrupt(jobs, runs_dir, at_once, on_finished, on_running):
        real(list(jobs)[:finished], runs_dir, at_once, on_finished, on_running)
        raise KeyboardInterrupt

    real, finished = run_pool.run, 0
    monkeypatch.setattr(run_pool, "run", interrupt)
    arguments = [scenario, "--vary", "scheme.plan=crew,opr", "--trials", 2]
    code, _, err = command(*arguments, "--out", tmp_path / "out", capsys=capsys)
    assert code == 130
    assert err.splitlines()[-2:] == [
        "none of the 4 trials has finished yet; the same command starts them again",
        "trunkline: interrupted",
    ]
    finished = 1
    code, _, err = command(*arguments, "--out", tmp_path / "out", capsys=capsys)
    assert code == 130
    assert err.splitlines()[-2:] == [
        f"1 of 4 trials are kept in {tmp_path}/out; its page and tables show these trials; the "
        "same command continues",
        "trunkline: interrupted",
    ]


def test_a_comparison_says_that_and_why_it_does_not_use_its_finished_runs(
    scenario, started, capsys, monkeypatch, tmp_path
):
    def compare(*more) -> str:
        arguments = [scenario, "--vary", "scheme.plan=crew,opr", "--trials", 2, *more]
        return command(*arguments, "--out", tmp_path / "o", capsys=capsys)[2]

    again = "trunkline: 4 of 4 trials are carried out again: "
    since = f" changed since their runs, which stay in {tmp_path}/o/runs"
    replaced = "its tables and figures are those of other variants, trials or settings and are re"
    for _ in range(2):
        assert not {"again", "replaced"} & {*compare().split()}
    resolved = resolve(load(scenario, ["scheme.plan=crew"]))
    for run_dir in (tmp_path / "o" / "runs").glob("*/*"):
        (run_dir / "resolved.yaml").write_text(resolved)
    old = scenario.read_text()
    scenario.write_text(old.replace("0.1 s", "0.2 s"))
    edited = f"{again}workload.compute (100 ms -> 200 ms){since}\n"
    assert edited in compare("--dry-run")
    changed = compare()
    assert edited in changed and replaced in changed
    assert "again" not in (same := compare()) and replaced not in same
    scenario.write_text(old)
    assert replaced.replace(" are re", " would be re") in compare("--dry-run")
    assert "again" not in (former := compare()) and replaced in former
    monkeypatch.setattr(provenance, "hash_code", lambda entries: "another")
    assert f"{again}Trunkline, its kernel, Python, a package, a file that " in compare()
    assert len(started()) == 12


def test_the_share_that_is_done_includes_trials_that_were_done_before(
    scenario, started, capsys, monkeypatch, tmp_path
):
    shares = []

    @contextlib.contextmanager
    def live(console, *clock):
        yield lambda share, text: shares.append((round(share, 3), text.partition(",")[0]))

    monkeypatch.setattr(progress, "live", live)
    for trials in (1, 4):
        vary = ["--vary", "scheme.plan=crew,opr", "--trials", trials]
        command(scenario, *vary, "--out", tmp_path / "out", capsys=capsys)
    later = shares[shares.index((1.0, "8 of 8 trials planned")) + 1 :]
    assert later[:2] == [
        (0.125, "1 of 8 done (1 from before)"),
        (0.25, "2 of 8 done (2 from before)"),
    ]
    assert later[-1] == (1.0, "8 of 8 done (2 from before)")
    assert all(share >= 0.25 for share, _ in later[1:])


def test_variants_whose_first_two_trials_are_identical_are_told_before_the_others_run(
    scenario, started, tmp_path
):
    told = []

    def on_identical(lines):
        told.append((len(started()), lines))

    axes = read_axes(["scheme.plan=crew,opr"])
    spec = comparison_runs.plan(scenario, axes, 3)
    quiet = lambda sweep: None  # noqa: E731
    comparison_runs.run(spec, tmp_path / "out", 1, quiet, on_identical)
    assert told == []  # the pretended task times are the seeds
    fake = tmp_path / "fake.py"
    seed = "{1 if plan == 'opr' else job['seed']}"
    fake.write_text(fake.read_text().replace("{job['seed']}", seed))
    started()
    comparison_runs.run(spec, tmp_path / "same", 1, quiet, on_identical)
    line = "scheme.plan=opr: its 2 trials have identical results: nothing in it depends on the seed"
    assert told == [(4, [line])]
    comparison_runs.run(
        comparison_runs.plan(scenario, axes, 2), tmp_path / "two", 1, quiet, on_identical
    )
    assert len(told) == 1


def test_a_comparison_with_fewer_cells_or_trials_would_replace_tables(scenario, started, tmp_path):
    folder = tmp_path / "out"
    whole = comparison_runs.plan(scenario, read_axes(["scheme.plan=crew,opr"]), 2)
    assert not earlier_tables.is_of_others(whole, folder)
    run(scenario, "scheme.plan=crew,opr", trials=2)
    assert not earlier_tables.is_of_others(whole, folder)
    more = comparison_runs.plan(scenario, read_axes(["scheme.plan=crew,opr"]), 3)
    assert not earlier_tables.is_of_others(more, folder)
    for axes, trials in ((["scheme.plan=crew,opr"], 1), (["scheme.plan=crew"], 2), ([], 2)):
        fewer = comparison_runs.plan(scenario, read_axes(axes), trials)
        assert earlier_tables.is_of_others(fewer, folder)


def test_a_run_is_the_same_whether_a_file_or_a_command_gave_its_values(scenario):
    given = parse(SCENARIO, "three.yaml", ["scheme.plan=crew"])
    assert provenance.identify_run(given) == provenance.identify_run(parse(SCENARIO, "three.yaml"))


def test_two_comparisons_do_not_share_a_folder(scenario, started):
    def again(sweep):
        with pytest.raises(StoreError, match="another comparison is using it"):
            run(scenario, "scheme.plan=crew")

    run(scenario, "scheme.plan=crew", on_progress=again)


def find_children(pid):
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_runs_die_with_whoever_started_them(tmp_path, started):
    program = (
        "import sys; from pathlib import Path; "
        "from trunkline.harness.runs import run_pool as pool\n"
        f"pool.PROGRAM = {run_pool.PROGRAM!r}\n"
        "job = pool.Job('x', 'x.yaml', '', ('scheme.plan=a2a',), 1, '')\n"
        "show = lambda running: print(*(each.share for each in running), flush=True)\n"
        f"pool.run([job], Path({str(tmp_path)!r}), 1, print, show)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    while parent.stdout.readline().strip() != "0.5":
        pass
    [starter] = find_children(parent.pid)
    [child] = find_children(starter)
    watch = os.pidfd_open(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    ended, _, _ = select.select([watch], [], [], 20)
    os.close(watch)
    assert ended


def test_jobs_are_told_apart_by_what_they_are_called(tmp_path, started):
    done: list[Finished] = []
    jobs = [Job(name, "x.yaml", "", ("p=crew",), 1, name) for name in ("a", "b", "c")]
    run_pool.run(jobs, tmp_path, 2, done.append, lambda running: None)
    assert sorted(result.job.name for result in done) == ["a", "b", "c"]
    assert {str(result.run_dir) for result in done} == {
        str(tmp_path / name / "20260101-000000") for name in ("a", "b", "c")
    }


def test_the_code_of_a_run_is_all_that_its_session_imports_and_not_the_command_line():
    files = {str(path.relative_to(PACKAGE)) for path in provenance.find_imports(provenance.SESSION)}
    assert {
        "harness/session/run_session.py",
        "harness/session/agent_children.py",
        "harness/kernel/guest.py",
    } <= files
    after = ("harness/checks/", "harness/commands/", "harness/report/", "harness/study/")
    assert not [file for file in files if file.startswith(after)]


def test_a_runs_identity_is_its_content():
    one = parse(SCENARIO, "x.yaml")
    assert provenance.identify_run(one) == provenance.identify_run(
        parse("# !\n" + SCENARIO, "y.yaml")
    )
    assert provenance.identify_run(one) != provenance.identify_run(
        parse(SCENARIO, "x.yaml", seed=2)
    )


def test_a_run_is_of_its_own_plan_and_policy_and_of_no_others():
    scenario = parse(SCENARIO, "x.yaml", ["scheme.plan=opr"])
    imported = provenance.find_imports(provenance.list_entries(scenario))
    files = {str(path.relative_to(PACKAGE)) for path in imported}
    assert {"agents/plans/opr.py", "agents/plans/crew.py", "agents/planning/plan.py"} <= files
    assert "agents/policies/preduce.py" in files and "agents/policies/bsp.py" not in files
    assert not {f"agents/plans/{name}.py" for name in ("blink", "ring", "toa")} & files


def command(*arguments, capsys):
    code = main.main(["compare", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_command_lists_runs_and_reports(scenario, started, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    vary = ["--vary", "scheme.plan=crew,opr", "--trials", 2]
    code, out, _ = command(scenario, *vary, "--dry-run", capsys=capsys)
    assert code == 0
    assert out.splitlines() == [
        "to do  scheme.plan=crew  seed 1",
        "to do  scheme.plan=crew  seed 2",
        "to do  scheme.plan=opr  seed 1",
        "to do  scheme.plan=opr  seed 2",
        "4 trials, 0 of them done, in comparisons/three",
    ]
    code, out, _ = command(scenario, *vary, "--jobs", 2, capsys=capsys)
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["plan", "trials"], ["crew", "2"], ["opr", "2"], ["the", "same"],
        ["results", "comparisons/three"], ["figures", "comparisons/three/plots"],
    ]  # fmt: skip
    plots = [file.stem for file in (tmp_path / "comparisons/three/plots").glob("*.pdf")]
    assert out.endswith(f"(PDF, PNG, SVG of {', '.join(sorted(plots))})\n")
    assert (tmp_path / "comparisons/three/plots/task_s.png").exists()


@pytest.mark.parametrize(
    ("plan", "code", "said"),
    [("ring", 1, "fail: scheme.plan=ring seed 1: bytes: few: {out}/runs/ring"),
     ("ps", 70, "error: scheme.plan=ps seed 1: the run's process ended")]
)  # fmt: skip
def test_the_exit_code_is_that_of_the_worst_trial(
    plan, code, said, scenario, started, capsys, tmp_path
):
    arguments = [scenario, "--vary", f"scheme.plan=crew,{plan}", "--trials", 1]
    arguments += ["--out", tmp_path / "out"]
    got, out, _ = command(*arguments, capsys=capsys)
    assert got == code
    assert said.format(out=tmp_path / "out") in out
    assert command(*arguments, "--quiet", capsys=capsys)[1].split()[0] == said.partition(":")[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--vary", "seed=1,2"], "--vary seed=1,2: the seed is not allowed here"),
        (["--set", "backend=host", "--jobs", "2"], "--jobs 2: expected 1 with the real clock"),
        (["--jobs", "0"], "0: expected 1 or more"),
    ],
)
def test_bad_usage_is_refused(arguments, said, scenario, capsys):
    code, _, err = command(scenario, *arguments, capsys=capsys)
    assert code == 64
    assert said in err


def test_a_real_run_is_found_again_and_judged_again_by_newer_code(
    scenario, tmp_path, embedded, monkeypatch
):
    scenario.write_text(SCENARIO.replace("tasks: 3", "tasks: 1"))
    trials = run(scenario, "scheme.plan=crew")
    assert list(trials["verdict"]) == ["pass"], trials["error"][0]
    assert "Table of means" in (tmp_path / "out" / "comparison.html").read_text()
    run_dir = tmp_path / "out" / trials["run"][0]
    record = run_dir / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "judged_by": "older"}))
    (run_dir / "tables" / "run.csv").write_text("task_s\n0\n")
    monkeypatch.setattr(run_pool, "PROGRAM", ("false",))
    assert run(scenario, "scheme.plan=crew").equals(trials)
