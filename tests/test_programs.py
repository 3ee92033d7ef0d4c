"""Other people's programs inside the embedded kernel: what they find, and every way they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_session import leftovers

from harness import programs, report, session
from harness.program_output import report as report_of
from harness.scenario import parse, resolve
from workloads.program import Program

ROOT = Path(__file__).parents[1]
SCENARIO = """
name: programs
topology: {builder: full_mesh, sites: 3, rates: 100 Mbit/s, delays: 20 ms}
outputs: {plots: false}
workload:
  kind: program
"""


def folder(home: Path, name: str, text: str) -> Path:
    """A run's folder; `text` goes on where the workload's options begin."""
    run_dir = home / name
    (run_dir / "log").mkdir(parents=True)
    scenario = parse(SCENARIO + text, str(home / "test.yaml"))
    (run_dir / "resolved.yaml").write_text(resolve(scenario))
    return run_dir


def shell(script: str) -> str:
    return f"  command: [sh, -c, {json.dumps(script)}]\n"


def by_site(**scripts: str) -> str:
    return (
        f"  command: {json.dumps({site: ['sh', '-c', text] for site, text in scripts.items()})}\n"
    )


def verdict_of(run_dir: Path) -> tuple[str, str]:
    verdict = report.build(run_dir)
    return verdict.outcome, "; ".join(verdict.problems)


def events_of(run_dir: Path, *kinds: str) -> list[dict]:
    lines = (run_dir / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] in kinds]


def output(run_dir: Path, site: str, stream: str = "out") -> str:
    return (run_dir / "log" / f"{site}.{stream}").read_text()


def run_all(home: str, names: list[str]) -> dict:
    """Inside: run each folder's session; code, seconds of virtual time and what is left, by name.

    Programs may print 10 000 bytes.
    """
    programs.OUTPUT_LIMIT_BYTES = 10_000
    done = {}
    for name in names:
        start = time.monotonic()
        code = session.main(Path(home) / name)
        done[name] = [code, round(time.monotonic() - start, 1), leftovers()]
    return done


WHO = """
echo $TRUNKLINE_SITE $TRUNKLINE_RANK $TRUNKLINE_WORLD_SIZE $TRUNKLINE_SITES $TRUNKLINE_ADDRESSES
echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $MASTER_PORT $TRUNKLINE_CLOCK $COLOUR
hostname; getent hosts n3; pwd; cat; ping -c 1 -q n3 | tail -1
"""
REPORT = """
say() { echo "{\\"event\\": $1}" > $TRUNKLINE_REPORTS; }
sleep 0.5; say '"sync_started", "task": 0, "bytes": 12500000, "operation": "allreduce"'
sleep 1.5; say '"sync_finished", "task": 0'
say '"evaluated", "task": 0, "accuracy_percent": 50, "loss": 1, "samples": 10'
"""
TIMELINE = """
timeline:
- {at: 0.5 s, do: pause n1 for 3 s}
- {at: 1.5 s, do: outage n2 n3 for 2 s}
"""
DAEMON = "setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000' >/dev/null 2>&1 &"


def test_what_programs_find_and_say_and_how_they_end(embedded, tmp_path):
    every = {
        "who": shell(WHO) + "  env: {COLOUR: 7}\n",
        "client and server": by_site(n1="iperf3 -s -1", n3="sleep 1; iperf3 -c n1 -t 2 -J"),
        "reports": shell(REPORT),
        "daemon": shell(f"{DAEMON} exit 0"),
        "closed": shell("exec <&- >&- 2>&-; sleep 2; exit 0"),
        "chatty": shell("head -c 100000 /dev/zero | tr '\\0' x; echo complaint >&2"),
        "timeline": by_site(n1="for i in 1 2 3 4 5; do sleep 0.4; done", n2="ping -c 5 -q n3")
        + TIMELINE,
        "time": shell("sleep 1000") + "stop: {time: 3 s}\n",
        "some": by_site(n1="sleep 1000", n2="sleep 2") + "stop: {exit: [n2]}\n",
        "stubborn": by_site(n1="trap '' TERM; sleep 1000; sleep 1000", n2="sleep 2")
        + "stop: {exit: [n2]}\n",
        "polite": by_site(n1="trap 'exit 5' TERM; while :; do sleep 1; done", n2="sleep 2")
        + "stop: {exit: [n2]}\n",
    }
    for name, text in every.items():
        folder(tmp_path, name, text)
    done = embedded.call(run_all, str(tmp_path), list(every), visible=[tmp_path], timeout_s=500)
    assert {name: (code, left) for name, (code, _, left) in done.items()} == dict.fromkeys(
        every, (0, [])
    )
    assert {name: verdict_of(tmp_path / name) for name in every} == dict.fromkeys(
        every, ("pass", "")
    )

    who = output(tmp_path / "who", "n2").splitlines()
    assert who[:2] == [
        "n2 1 3 n1,n2,n3 10.0.0.1,10.0.0.2,10.0.0.3",
        "1 3 0 10.0.0.1 29500 virtual 7",
    ]
    assert who[2:5] == ["n2", "10.0.0.3        n3", str(tmp_path)]
    assert who[5].startswith("rtt min/avg/max/mdev = 40.")

    rate = json.loads(output(tmp_path / "client and server", "n3"))["end"]["sum_sent"]
    assert 50e6 < rate["bits_per_second"] < 100e6
    table = (tmp_path / "reports" / "tables" / "tasks.csv").read_text().splitlines()[1].split(",")
    assert table[:5] == ["0", "allreduce", "program", "n1 n2 n3", "12500000"]
    assert 1.5 <= float(table[8]) < 1.51
    assert float(table[11]) == pytest.approx(12.5e6 * 8 / 200e6 / 1448 * 1514, rel=1e-4)
    assert "50.0" in (tmp_path / "reports" / "tables" / "accuracy.csv").read_text()
    chatty = output(tmp_path / "chatty", "n1")
    assert chatty == "x" * 10_000 + "\n[trunkline: too much; the rest is dropped]\n"
    assert output(tmp_path / "chatty", "n1", "err") == "complaint\n"

    seconds = {name: took for name, (_, took, _) in done.items()}
    assert (seconds["time"], seconds["some"], seconds["polite"]) == (3.0, 2.0, 2.0)
    assert 4.7 <= seconds["timeline"] <= 5.1  # a stopped sleep ends at once, or begins anew
    assert "5 packets transmitted, 3 received" in output(tmp_path / "timeline", "n2")
    assert seconds["stubborn"] == 2.0 + programs.GRACE_S
    exits = events_of(tmp_path / "polite", "agent_exited")
    assert [(each["who"], each["code"], each["asked"]) for each in exits] == [
        ("n2", 0, False),
        ("n1", 5, True),
    ]


def bad(embedded, home: Path, every: dict[str, str]) -> dict[str, tuple[str, str]]:
    for name, text in every.items():
        folder(home, name, text)
    done = embedded.call(run_all, str(home), list(every), visible=[home], timeout_s=500)
    assert {name: (code, left) for name, (code, _, left) in done.items()} == dict.fromkeys(
        every, (1, [])
    )
    return {name: verdict_of(home / name) for name in every}


def test_programs_that_fail_fail_the_run_and_are_named(embedded, tmp_path):
    (tmp_path / "no-program").write_text("nothing")
    (tmp_path / "no-program").chmod(0o755)
    rest = "sleep 1000"
    found = bad(
        embedded,
        tmp_path,
        {
            "code": by_site(n1=rest, n2=f"{DAEMON} exit 3", n3=rest),
            "signal": by_site(n1=rest, n2="kill -SEGV $$"),
            "broken": "  command: [./no-program]\n",
            "budget": shell(rest) + "limits: {run: 2 s, task: 1 s}\n",
            "no report": shell("echo nonsense > $TRUNKLINE_REPORTS; echo 1 > $TRUNKLINE_REPORTS"),
            "half a task": shell(
                """echo '{"event": "sync_started", "task": 4}' > $TRUNKLINE_REPORTS; exit 1"""
            ),
        },
    )
    assert {outcome for outcome, _ in found.values()} == {"fail"}
    said = {name: problems for name, (_, problems) in found.items()}
    assert said["code"] == ("every program exited cleanly: the program of n2 exited with code 3")
    assert "the program of n2 was ended by signal 11" in said["signal"]
    assert f"n1: cannot run ./no-program in {tmp_path}: Exec format error" in said["broken"]
    assert "the program of n1 exited 0 times" in said["budget"]
    (last,) = events_of(tmp_path / "budget", "run_finished")
    assert last["reason"] == "the run exceeded its 2 s"
    assert said["no report"].count("n1: a wrong report: b'nonsense': allowed is a JSON object") == 1
    assert "task 4: n1 began it 1 times, ended it 0" in said["half a task"]


def cannot_start(home: str) -> list:
    """Inside: a command that is nowhere, a module that is nowhere, a log that is a folder."""
    (Path(home) / "log" / "log" / "n2.out").mkdir()
    names = ("command", "module", "log")
    return [[session.main(Path(home) / name) for name in names], leftovers()]


def test_programs_that_cannot_start_are_refused_with_a_reason(embedded, tmp_path):
    folder(tmp_path, "command", "  command: {n1: [echo], n2: [./nowhere]}\n")
    folder(tmp_path, "module", "  command: [python3, x.py]\n  preload: [nowhere]\n")
    folder(tmp_path, "log", shell("exit 0"))
    said = embedded.script(
        f"import sys; sys.path[:0] = [{str(ROOT / 'tests')!r}]; import json, test_programs;"
        f"print(json.dumps(test_programs.cannot_start({str(tmp_path)!r})))",
        visible=[tmp_path],
    ).output.splitlines()
    assert json.loads(said[-1]) == [[1, 1, 1], []]
    assert [json.loads(line)["error"] for line in said if "error" in line] == [
        f"workload.command.n2: './nowhere': a program in PATH, or a path from {tmp_path}",
        "workload.preload: 'nowhere': what can be imported: No module named 'nowhere'",
        f"[Errno 21] Is a directory: '{tmp_path}/log/log/n2.out'",
    ]


def end_a_session(home: str) -> list:
    """Inside: a session is terminated, another one killed, while their programs run."""
    left = []
    for name, number in (("terminated", signal.SIGTERM), ("killed", signal.SIGKILL)):
        command = [sys.executable, "-m", "harness.session", str(Path(home) / name)]
        session_process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not any("sleep 1000" in each for each in leftovers()):
            time.sleep(0.1)
        os.kill(session_process.pid, number)
        session_process.wait()
        time.sleep(1)
        left.append(leftovers())
    return left


def test_whatever_ends_the_session_ends_the_programs_and_their_daemons(embedded, tmp_path):
    for name in ("terminated", "killed"):
        folder(tmp_path, name, shell(f"{DAEMON} sleep 1000"))
    assert embedded.call(end_a_session, str(tmp_path), visible=[tmp_path], timeout_s=500) == [
        [],
        [],
    ]
    (last,) = events_of(tmp_path / "terminated", "run_finished")
    assert last["reason"] == "ended by KeyboardInterrupt"


PYTHON = """
import os, sys, threading, time
already = "fractions" in sys.modules
import beside
threading.Thread(target=lambda: (time.sleep(1), print("thread", flush=True))).start()
print(__name__, sys.argv, already, beside.VALUE, os.environ["RANK"])
if os.environ["RANK"] == "1":
    time.sleep(2)
    sys.exit("enough")
"""


def test_a_preloaded_file_runs_as_it_would_by_itself(embedded, tmp_path):
    (tmp_path / "mine.py").write_text(PYTHON)
    (tmp_path / "beside.py").write_text("VALUE = 5\n")
    for name, preload in (("warm", "[fractions]"), ("cold", "[]")):
        text = f"  command: [python3, mine.py, 3]\n  preload: {preload}\n"
        folder(tmp_path, name, text)
    done = embedded.call(
        run_all, str(tmp_path), ["warm", "cold"], visible=[tmp_path], timeout_s=500
    )
    assert {name: (code, left) for name, (code, _, left) in done.items()} == {
        "warm": (1, []),
        "cold": (1, []),
    }
    for name, already in (("warm", True), ("cold", False)):
        for rank, site in enumerate(("n1", "n2", "n3")):
            line = f"__main__ ['mine.py', '3'] {already} 5 {rank}"
            assert output(tmp_path / name, site) in (f"{line}\nthread\n", f"thread\n{line}\n")
        assert output(tmp_path / name, "n2", "err") == "enough\n"
        exits = events_of(tmp_path / name, "agent_exited")
        assert {each["who"]: each["code"] for each in exits} == {"n1": 0, "n2": 1, "n3": 0}


GLOO = """
name: gloo
topology: {builder: full_mesh, sites: 3, rates: 100 Mbit/s, delays: 20 ms}
outputs: {plots: false}
workload:
  kind: program
  folder: programs
  command: [python3, gloo_allreduce.py, --megabytes, 1, --rounds, 2]
  preload: [torch.distributed]
"""


def test_gloo_reduces_over_the_network_and_reports_its_tasks(embedded, tmp_path):
    run_dir = tmp_path / "gloo"
    (run_dir / "log").mkdir(parents=True)
    scenario = parse(GLOO, str(ROOT / "scenarios" / "gloo.yaml"))
    (run_dir / "resolved.yaml").write_text(resolve(scenario))
    done = embedded.call(run_all, str(tmp_path), ["gloo"], visible=[tmp_path], timeout_s=500)
    assert done["gloo"][::2] == [0, []], output(run_dir, "n1", "err")
    assert verdict_of(run_dir) == ("pass", "")
    assert len(events_of(run_dir, "sync_finished")) == 6


def test_a_report_becomes_an_event_of_its_site_at_its_time():
    line = b'{"event": "sync_finished", "task": 3, "monotonic_ns": 700, "site": "n9"}'
    assert report_of(line, "n2", 500, 900) == {
        "event": "sync_finished", "task": 3, "site": "n2", "t_ns": 200,
    }  # fmt: skip
    assert report_of(line.replace(b', "monotonic_ns": 700', b""), "n2", 500, 900)["t_ns"] == 400


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b"nonsense", "b'nonsense': allowed is a JSON object in one line"),
        (b"[1]", r"b'\[1\]': allowed is a JSON object in one line"),
        (b"\xff", r"b'\\xff': allowed is a JSON object in one line"),
        (b'{"event": "task_started"}', "event: 'task_started': allowed are compute_started, "),
        (b'{"event": "sync_finished"}', "task: missing: sync_finished needs "),
        (b'{"event": "sync_finished", "task": "x"}', "task: 'x': allowed is a whole number"),
        (
            b'{"event": "sync_finished", "task": 1, "monotonic_ns": 1000}',
            "monotonic_ns: 1000: allowed is a time of the monotonic clock since the run's start",
        ),
        (
            b'{"event": "sync_finished", "task": 1, "monotonic_ns": 499}',
            "monotonic_ns: 499: allowed is a time of the monotonic clock since the run's start",
        ),
    ],
)
def test_a_report_that_is_none_is_refused_with_the_reason(line, wrong):
    with pytest.raises(ValueError, match=wrong):
        report_of(line, "n2", 500, 900)


def test_a_scenarios_variables_come_last():
    scenario = parse(SCENARIO + shell("exit 0"), "x.yaml")
    program = Program(("true",), Path(), {"RANK": "seven"}, ())
    found = programs.environment(scenario, {"n1": "10.0.0.1", "n3": "10.0.0.3"}, "n3", program)
    assert (found["RANK"], found["TRUNKLINE_RANK"], found["WORLD_SIZE"]) == ("seven", "1", "2")
