"""Other people's programs inside the embedded kernel: what they find, and every way they end.

Booting a guest and starting sessions is dear, so all runs here share one guest.
"""

import csv
import dataclasses
import json
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import inside
import pytest
from rich.console import Console

from trunkline.agents.events.round_events import SyncFinished
from trunkline.harness.live.progress import summary
from trunkline.harness.report import outputs
from trunkline.harness.scenario.loading import parse, resolve
from trunkline.harness.session import program_init, supervisor
from trunkline.harness.session.program_output import FLOOD_LINES, FLOOD_NS, Output
from trunkline.harness.session.program_output import report as report_of
from trunkline.workloads.program_roles import Program

ROOT = Path(__file__).parents[3]
SCENARIO = """
name: programs
topology: {builder: full_mesh, sites: 3, rates: 100 Mbit/s, delays: 20 ms}
outputs: {plots: false}
workload:
  kind: program
"""


PLAIN = Program("n1", "", ("true",), Path(), {}, sites=("n1",))


@dataclass(frozen=True)
class Runs:
    """The runs of this file: where they are, and what was seen of them inside."""

    home: Path
    seen: Mapping[str, tuple[int, float, list[str], list[str]]]

    def code(self, name: str) -> int:
        return self.seen[name][0]

    def seconds(self, name: str) -> float:
        return self.seen[name][1]

    def said(self, name: str) -> list[dict]:
        return [json.loads(line) for line in self.seen[name][3]]

    def verdict(self, name: str) -> tuple[str, str]:
        verdict = outputs.build(self.home / name)
        return verdict.outcome, "; ".join(verdict.problems)

    def events(self, name: str, *kinds: str) -> list[dict]:
        lines = (self.home / name / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] in kinds]

    def output(self, name: str, site: str, stream: str = "out") -> str:
        return (self.home / name / "log" / f"{site}.{stream}").read_text()

    def table(self, name: str, table: str) -> list[str]:
        tables = self.home / name / "tables"
        if not tables.exists():
            outputs.build(self.home / name)
        return (tables / f"{table}.csv").read_text().splitlines()


def shell(script: str) -> str:
    return f"  command: [sh, -c, {json.dumps(script)}]\n"


def by_site(**scripts: str) -> str:
    return (
        f"  command: {json.dumps({site: ['sh', '-c', text] for site, text in scripts.items()})}\n"
    )


WHO = """
echo $TRUNKLINE_SITE $TRUNKLINE_RANK $TRUNKLINE_WORLD_SIZE $TRUNKLINE_SITES $TRUNKLINE_ADDRESSES
echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $MASTER_PORT $TRUNKLINE_CLOCK $COLOUR
hostname; getent hosts n3; pwd; cat; ping -c 1 -q n3 | tail -1
say() { echo "{\\"event\\": $1}" > $TRUNKLINE_REPORTS; }
sleep 0.5; say '"sync_started", "task": 0, "bytes": 12500000, "operation": "allreduce"'
sleep 1.5; say '"sync_finished", "task": 0'
say '"evaluated", "task": 0, "accuracy_percent": 50, "loss": 1, "samples": 10'
"""
CHATTY = "head -c 100000 /dev/zero | tr '\\0' x; echo complaint >&2"
DAEMON = "setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000' >/dev/null 2>&1 &"
REST = "sleep 1000"
CONNECTING = """
import socket, time
while True:
    socket.socket().connect_ex(("n3", 9))
    time.sleep(0.01)
"""
SENDING = """
import socket, time
for _ in range(20):
    socket.socket(type=socket.SOCK_DGRAM).sendto(bytes(600), ("n2", 9))
    time.sleep(0.01)
"""
TIMELINE = """
timeline:
- {at: 0.5 s, do: pause n1 for 3 s}
- {at: 1.5 s, do: outage n2 n3 for 2 s}
"""
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
GOOD = {
    "who": shell(WHO) + "  env: {COLOUR: 7}\n",
    "daemon": by_site(n1=f"{DAEMON} exit 0", n2="exec <&- >&- 2>&-; sleep 2; exit 0", n3=CHATTY),
    "timeline": by_site(n1="for i in 1 2 3 4 5; do sleep 0.4; done", n2="ping -c 5 -q n3")
    + TIMELINE,
    "datagrams": by_site(n1=f"exec python3 -c '{SENDING}'", n2="sleep 1"),
    "time": by_site(n1=f"exec python3 -c '{CONNECTING}'") + "stop: {time: 3 s}\n",
    "some": by_site(
        n1="trap '' TERM; sleep 1000; sleep 1000",
        n2="sleep 2",
        n3="trap 'exit 5' TERM; while :; do sleep 1; done",
    )
    + "stop: {exit: [n2]}\n",
}
SAME_NAME = f"/tmp/trunkline-test-{os.getpid()}"
TRY = f"""
set -C
echo once > {SAME_NAME} && echo once > /dev/shm/same && echo temporary
echo mine > $TRUNKLINE_RESULTS/file && echo results
for file in kept made/kept; do rm -f $file; echo x > new; echo x > made/new; done 2>&1 | sort -u
"""
SERVER = """
import socket, time
time.sleep(1)
with socket.create_server(("", 29510)):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        question = b"\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\2n2\\0\\0\\1\\0\\1"
        asking.sendto(question, ("127.0.0.1", 53))
        print(socket.inet_ntoa(asking.recv(512)[-4:]), flush=True)
    time.sleep(1000)
"""
CLIENT = """
echo $TRUNKLINE_ROLE $TRUNKLINE_ATTEMPT $RANK $WORLD_SIZE $TRUNKLINE_SITE_RANK $COLOUR $*
ping -c 1 -q -s 1000 n1 >/dev/null
sleep 4
[ $TRUNKLINE_SITE$TRUNKLINE_ATTEMPT != n20 ] || exit 4
"""
LIVES = f"""
  programs:
    server: {{sites: [n1], command: [python3, server.py], ready: {{port: 29510}}, exit: any}}
    client:
      command: [sh, -c, {json.dumps(CLIENT)}, client]
      after: [server]
      start: {{n3: 2 s}}
      arguments: {{n3: [more]}}
      env: {{COLOUR: {{n2: red}}}}
      restart: {{after: 500 ms, at_most: 1}}
      exit: [0, 4]
stop: {{exit: [client]}}
timeline:
- {{at: 3 s, do: kill n3 for 1 s}}
- {{at: 3 s, do: pause n2 for 1 s}}
- {{at: 4 s, do: leave n1.client for 1 s}}
- {{at: 7 s, do: kill n1.server}}
"""
GOOD |= {"lives": LIVES, "lives again": LIVES}
GOOD["restarts"] = (
    shell("echo no >&2; [ $TRUNKLINE_SITE = n3 ] || exit 1")
    + "  exit: [0, 1]\n  restart: {at_most: 3}\n"
)
GOOD["private"] = by_site(n2=TRY)
GOOD["again"] = GOOD["private"]
GOOD["named"] = by_site(n2=TRY) + "files: {writable: [made]}\n"
GOOD["open"] = by_site(n2="echo x > $PWD/shared && ls made") + "files: {private: false}\n"
IDLE = {
    **dict.fromkeys(("daemon", "some"), "n1 n2 n3"),
    **dict.fromkeys(("private", "again", "named", "open"), "n2"),
    "restarts": "n1 n2 n3",
    **dict.fromkeys(("timeline", "time"), "n1"),
    "datagrams": "n1 n2",
}
"""The sites whose programs send nothing and report nothing: such runs prove nothing."""

BAD = {
    "read-only": by_site(n1="echo x > new"),
    "given up": by_site(n1="sleep 4; echo enough >&2; exit 3")
    + "  restart: {after: 1 s, at_most: 1}\n",
    "code": by_site(n1=REST, n2=f"{DAEMON} exit 3"),
    "signal": by_site(n2="kill -SEGV $$"),
    "flood": by_site(n1="exec yes"),
    "broken": "  command: {n1: [./no-program]}\n",
    "unready": "  programs: {n: {command: [sh, -c, echo no; sleep 1000], "
    "ready: {line: yes, within: 1 s}}, m: {command: [echo], after: [n]}}\n",
    "budget": by_site(n1=REST) + "limits: {run: 2 s, task: 1 s}\n",
    "reports": by_site(
        n1="echo nonsense > $TRUNKLINE_REPORTS; echo 1 > $TRUNKLINE_REPORTS",
        n2="""echo '{"event": "sync_started", "task": 4}' > $TRUNKLINE_REPORTS; exit 1""",
    ),
    "preloaded": "  command: {n1: [python3, mine.py, 3], n2: [python3, mine.py, 3]}\n"
    "  preload: [fractions]\n",
}
REFUSED = {
    "command": "  command: {n1: [echo], n2: [./nowhere]}\n",
    "module": "  command: [python3, mine.py]\n  preload: [nowhere]\n",
    "log": by_site(n2="exit 0"),
}
ENDED = {"terminated": signal.SIGTERM, "killed": signal.SIGKILL}
GLOO = """
name: gloo
topology: {builder: full_mesh, sites: 2, rates: 100 Mbit/s, delays: 20 ms}
outputs: {plots: false}
workload:
  kind: program
  folder: programs
  command: [python3, gloo_allreduce.py, --megabytes, 0.2, --rounds, 2]
  preload: [torch.distributed]
"""


CALLS = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(50_000))
dist.all_reduce(torch.ones(50_000), async_op=True).wait()
if rank == 0:
    dist.send(torch.ones(1000), 1)
else:
    dist.recv(torch.ones(1000), 0)
"""
DONE = 'print("done")\n'
TIMED = f"""{CALLS}
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torch.nn.Linear(100_000, 1, bias=False))
for _ in range(2):
    model(torch.ones(1, 100_000)).sum().backward()
{DONE}"""
HUNG = """
import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
for step in range(3):
    if step == 2 and dist.get_rank() == 1:
        time.sleep(1000)
    dist.all_reduce(torch.ones(1000))
"""
TIMED_SCENARIO = """
name: timed
topology: {builder: full_mesh, sites: 2, rates: 100 Mbit/s, delays: 20 ms}
outputs: {plots: false}
workload:
  kind: program
  command: {n1: [python3, timed.py], n2: [python3, timed.py]}
  preload: [torch.distributed, torch.nn.parallel]
  time_calls: true
"""
UNLOADED = TIMED_SCENARIO.replace("[python3, timed.py]", "[sh, -c, python3 calls.py]").replace(
    "  preload: [torch.distributed, torch.nn.parallel]\n", ""
)
"""To import what DistributedDataParallel needs takes more than half of the time of such a run."""

HUNG_SCENARIO = TIMED_SCENARIO.replace("timed.py", "hung.py") + "stop: {time: 60 s}\n"
WHOLE = {"gloo": GLOO, "timed": TIMED_SCENARIO, "unloaded": UNLOADED, "hung": HUNG_SCENARIO}


@pytest.fixture(scope="module")
def runs(embedded, tmp_path_factory):
    home = tmp_path_factory.mktemp("programs")
    ended = {name: by_site(n1=f"{DAEMON} {REST}") for name in ENDED}
    for name, text in {**GOOD, **BAD, **REFUSED, **ended, **WHOLE}.items():
        (home / name / "log").mkdir(parents=True)
        file = ROOT / "scenarios" / "x.yaml" if name == "gloo" else home / "x.yaml"
        scenario = parse(text if name in WHOLE else SCENARIO + text, str(file))
        (home / name / "resolved.yaml").write_text(resolve(scenario))
    (home / "made").mkdir()
    for name in ("kept", "made/kept"):
        (home / name).write_text("kept")
    (home / "no-program").write_text("nothing")
    (home / "no-program").chmod(0o755)
    (home / "mine.py").write_text(PYTHON)
    (home / "timed.py").write_text(TIMED)
    (home / "calls.py").write_text(CALLS + DONE)
    (home / "hung.py").write_text(HUNG)
    (home / "server.py").write_text(SERVER)
    (home / "beside.py").write_text("VALUE = 5\n")
    (home / "log" / "log" / "n2.out").mkdir()
    names = [*GOOD, *BAD, *REFUSED]
    options = {"visible": [home], "timeout_s": 500}
    seen = embedded.call(inside.run_programs, str(home), names, list(WHOLE), ENDED, **options)
    return Runs(home, seen)


def test_no_program_is_left_however_a_run_ends(runs):
    assert {name: left for name, (_, _, left, _) in runs.seen.items()} == {
        name: [] for name in runs.seen
    }


@pytest.mark.parametrize("name", ["private", "again"])
def test_a_private_run_has_its_own_temporary_files_and_cannot_change_those_of_the_user(runs, name):
    """Two runs take the same temporary name, one after the other; neither leaves it behind."""
    said = runs.output(name, "n2").splitlines()
    assert said[:2] == ["temporary", "results"]
    assert {line.split(": ")[-1] for line in said[2:]} == {"Read-only file system"}
    assert not Path(SAME_NAME).exists()
    assert (runs.home / name / "results" / "n2" / "file").read_text() == "mine\n"
    assert (runs.home / "kept").read_text() == "kept"


def test_a_private_run_may_write_the_folders_that_the_scenario_names(runs):
    assert (runs.home / "kept").exists()
    assert not (runs.home / "made" / "kept").exists()
    assert (runs.home / "made" / "new").read_text() == "x\n"
    assert not (runs.home / "new").exists()


def test_a_run_that_is_not_private_shares_all_files(runs):
    assert (runs.home / "shared").read_text() == "x\n"


@pytest.mark.parametrize("name", [*GOOD, *WHOLE])
def test_a_run_whose_programs_end_well_passes_if_they_took_part(runs, name):
    assert runs.code(name) == 0, runs.said(name)
    outcome, problems = runs.verdict(name)
    idle = IDLE.get(name, "").split()
    assert outcome == ("unknown" if idle else "pass"), problems
    named = re.findall(r": ([\w, ]+) took no part", problems)
    assert named == ([", ".join(idle)] if idle else [])
    assert problems.startswith("every site took part: " if idle else "")


def test_programs_find_who_and_where_they_are(runs):
    who = runs.output("who", "n2").splitlines()
    assert who[:2] == [
        "n2 1 3 n1,n2,n3 10.0.0.1,10.0.0.2,10.0.0.3",
        "1 3 0 10.0.0.1 29500 virtual 7",
    ]
    assert who[2:5] == ["n2", "10.0.0.3        n3", str(runs.home)]
    assert who[5].startswith("rtt min/avg/max/mdev = 40.")


def test_what_programs_report_is_in_the_tables(runs):
    assert runs.verdict("who")[0] == "pass"
    names, values = (line.split(",") for line in runs.table("who", "tasks")[:2])
    task = dict(zip(names, values, strict=True))
    assert [task["plan"], task["policy"], task["group"]] == ["allreduce", "program", "n1 n2 n3"]
    assert (task["task"], task["bytes"]) == ("0", "12500000")
    assert 1.5 <= float(task["duration_s"]) < 1.55
    assert float(task["bound_s"]) == pytest.approx(12.5e6 * 8 / 200e6 / 1448 * 1514, rel=1e-4)
    assert "50.0" in runs.table("who", "accuracy")[1]


def test_connections_that_are_refused_move_no_data(runs):
    """Each attempt is a packet in both directions."""
    *_, end = runs.events("time", "run_finished")
    assert min(link["packets"] for link in end["links"] if link["bytes"]) > 50
    quiet = runs.events("time", "site_quiet")
    assert [(each["who"], each["since_ns"]) for each in quiet] == [("n1", 0), ("n2", 0), ("n3", 0)]


def test_output_is_kept_up_to_a_limit(runs):
    assert runs.output("daemon", "n3") == (
        "x" * 10_000 + "\n[trunkline: too much; the rest is dropped]\n"
    )
    assert runs.output("daemon", "n3", "err") == "complaint\n"


def test_a_timeline_pauses_a_program_and_cuts_a_link(runs):
    assert 4.7 <= runs.seconds("timeline") <= 5.2  # a stopped sleep ends at once, or begins anew
    assert "5 packets transmitted, 3 received" in runs.output("timeline", "n2")


def test_programs_that_need_not_end_are_told_to_and_killed_if_they_do_not(runs):
    assert 3.0 <= runs.seconds("time") <= 3.1  # a run begins at a full tenth of a second
    assert 2.0 <= runs.seconds("some") - supervisor.GRACE_S <= 2.1
    exits = runs.events("some", "agent_exited")
    assert [(each["who"], each["code"], each["signal"], each["asked"]) for each in exits] == [
        ("n2", 0, 0, False),
        ("n3", 5, 0, True),
        ("n1", 0, 9, True),
    ]
    assert exits[1]["t_ns"] < 2.1e9


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("code", "every program exited cleanly: the program of n2 exited with code 3"),
        ("given up", "the program of n1 exited with code 3 after restart 1 of 1 (restart.at_most)"),
        ("signal", "the program of n2 was ended by signal 11"),
        ("broken", "n1: cannot run ./no-program in {home}: Exec format error"),
        (
            "flood",
            "n1: wrote more than 500000 lines within 1 s of the run's time: ",
        ),
        ("read-only", "n1: it could not write a file (see its .err in log/): expected /tmp, "),
        (
            "budget",
            "the program at n1 did not exit; stop: {{exit: [...]}} can name those for which a run "
            "waits",
        ),
        (
            "budget",
            "the log has no stopping event: the run took longer than the 2 s of limits.run",
        ),
        ("reports", "n1: a wrong report: b'nonsense': expected a JSON object"),
        ("reports", "task 4: n2 began it 1 times, ended it 0"),
        ("preloaded", "the program of n2 exited with code 1"),
        ("unready", "n1: n1.n: expected to write a line like 'yes' within 1 s"),
    ],
)
def test_a_program_that_fails_fails_the_run_and_is_named(runs, name, problem):
    assert runs.code(name) == 1
    outcome, problems = runs.verdict(name)
    assert outcome == "fail"
    assert problems.count(problem.format(home=runs.home)) == 1


def test_programs_of_roles_live_as_the_scenario_and_its_faults_say(runs):
    starts = runs.events("lives", "program_started", "program_ready")
    told = [(each["who"], each["attempt"], round(each["t_ns"] / 1e9, 2)) for each in starts]
    assert told == [
        ("n1.server", 0, 0.0),
        ("n1.server", 0, told[1][2]),
        ("n1.client", 0, told[1][2]),
        ("n2.client", 0, told[1][2]),
        ("n3.client", 0, 2.0),
        ("n3.client", 1, 4.0),
        ("n1.client", 1, 5.0),
        ("n2.client", 1, told[7][2]),
    ]
    assert 1.0 <= told[1][2] < 1.1
    by_fault = {
        each["who"]: (each["fault"], each["signal"], each["asked"])
        for each in runs.events("lives", "agent_exited")
        if "fault" in each
    }
    assert by_fault == {
        "n3.client": (0, 9, False),
        "n1.client": (2, 15, True),
        "n1.server": (3, 9, False),
    }
    assert runs.output("lives", "n1.server") == "10.0.0.2\n"
    lines = runs.output("lives", "n3.client").splitlines()
    assert lines[0] == "client 0 2 3 2 more"
    assert re.fullmatch(r"\[trunkline: started again at 4\.0000\d\d s, attempt 1\]", lines[1])
    assert lines[2] == "client 1 2 3 2 more"
    assert runs.output("lives", "n2.client").startswith("client 0 1 3 1 red\n")
    rows = csv.DictReader(runs.table("lives", "programs"))
    assert [(row["program"], row["processes"], row["exit_code"]) for row in rows] == [
        ("n1.server", "1", ""),
        ("n1.client", "2", "0"),
        ("n2.client", "2", "0"),
        ("n3.client", "2", "0"),
    ]


def test_a_program_that_fails_at_once_is_started_again_later_each_time_and_then_given_up(runs):
    starts = runs.events("restarts", "program_started")
    told = {who: [e["t_ns"] / 1e9 for e in starts if e["who"] == who] for who in ("n1", "n3")}
    assert told == {"n1": pytest.approx([0.0, 1.0, 3.0, 7.0], abs=0.01), "n3": [0.0]}
    *_, last = runs.output("restarts", "n1", "err").splitlines()
    *_, after = last.partition(" s, ")
    assert last.startswith("[trunkline: not started again at 7.0")
    assert after == "after restart 3 of 3 (restart.at_most)]"
    assert "not started" not in runs.output("restarts", "n3", "err")
    rows = csv.DictReader(runs.table("restarts", "programs"))
    assert [row["given_up"] for row in rows] == ["True", "True", "False"]
    console = Console(width=200, file=StringIO())
    console.print(summary(runs.home / "restarts", outputs.read(runs.home / "restarts").verdict))
    assert "given up after all restarts: n1, n2" in console.file.getvalue()


def test_a_run_with_kills_and_restarts_repeats_byte_for_byte(runs):
    first, again = (runs.home / name / "events.jsonl" for name in ("lives", "lives again"))
    assert first.read_bytes() == again.read_bytes()


def test_the_last_line_of_its_errors_is_told_with_a_failure(runs):
    assert runs.said("preloaded")[-1] == {"error": "the program of n2 exited with code 1: enough"}
    how = "exited with code 3 after restart 1 of 1 (restart.at_most)"
    assert runs.said("given up")[-1] == {"error": f"the program of n1 {how}: enough"}


def test_a_run_over_its_budget_says_so(runs):
    (last,) = runs.events("budget", "run_finished")
    assert last["reason"] == "the run took longer than the 2 s of limits.run"
    assert "the log has a gap" not in runs.verdict("budget")[1]


def test_programs_that_cannot_start_are_refused_with_a_reason(runs):
    where = "expected a program in PATH, or a path from "
    module = "workload.preload: 'nowhere': expected what can be imported: No module named 'nowhere'"
    assert [runs.said(name)[-1] for name in REFUSED] == [
        {"refused": f"workload.command.n2: './nowhere': {where}{runs.home}"},
        {"refused": module},
        {"error": f"[Errno 21] Is a directory: '{runs.home}/log/log/n2.out'"},
    ]


def test_whatever_ends_the_session_ends_the_programs_and_their_daemons(runs):
    assert (runs.code("terminated"), runs.code("killed")) == (inside.INTERRUPTED, -signal.SIGKILL)
    (last,) = runs.events("terminated", "run_finished")
    assert last["reason"] == "interrupted"


def test_a_preloaded_file_runs_as_it_would_by_itself(runs):
    for rank, site in enumerate(("n1", "n2")):
        line = f"__main__ ['mine.py', '3'] True 5 {rank}"
        assert runs.output("preloaded", site) in (f"{line}\nthread\n", f"thread\n{line}\n")
    assert runs.output("preloaded", "n2", "err") == "enough\n"
    exits = runs.events("preloaded", "agent_exited")
    assert {each["who"]: each["code"] for each in exits} == {"n1": 0, "n2": 1}


def test_gloo_reduces_over_the_network_and_reports_its_tasks(runs):
    assert len(runs.events("gloo", "sync_finished")) == 4


@pytest.mark.parametrize("name", ["timed", "unloaded"])
def test_calls_are_timed_in_programs_that_do_not_know_it(runs, name):
    """Once in a program that Trunkline's own Python runs, once in one that a shell starts."""
    assert runs.output(name, "n2") == "done\n"
    assert runs.verdict(name) == ("pass", "")
    rows = [row for row in runs.table(name, "calls")[1:] if row.startswith("n2,")]
    cells = [row.split(",") for row in rows]
    assert all(each[9] == "completed" for each in cells)
    told = [(each[5], int(each[6]), each[12], each[13]) for each in cells]
    assert told[:3] == [
        ("all_reduce", 200_000, "", "True"),
        ("all_reduce", 200_000, "", "False"),
        ("recv", 4000, "0", "True"),
    ]
    assert [each for each in told if each[0] == "all_reduce"][2:] == [
        ("all_reduce", 400_000, "", "False")
    ] * (2 if name == "timed" else 0)  # by DistributedDataParallel, in C++
    took_s = [float(each[8]) for each in cells if each[5] == "all_reduce"]
    assert min(took_s) > 0.036  # 20 ms there and back, or nearly, as n1 may be earlier


def test_a_program_that_never_begins_a_call_is_the_one_for_which_others_wait(runs):
    remarks = outputs.build(runs.home / "hung").remarks
    said = "n2 never began all_reduce number 2, in which n1 waited from "
    assert [remark for remark in remarks if remark.startswith(said)]
    rows = [row.split(",") for row in runs.table("hung", "steps")[1:]]
    (waiting, last, moving), (idle, _, _) = [(float(r[7]), r[12], float(r[8])) for r in rows]
    assert (waiting > 40, last, moving < 5, idle < 5) == (True, "n2", True, True), rows


def test_calls_are_not_timed_unless_asked(runs):
    assert runs.events("gloo", "call_started", "call_finished", "timing_stopped") == []
    assert runs.table("gloo", "programs")
    assert not (runs.home / "gloo" / "tables" / "calls.csv").exists()


def test_the_folder_that_times_calls_comes_before_the_programs_own_path():
    scenario = parse(SCENARIO + shell("exit 0"), "x.yaml")
    addresses = {"n1": "10.0.0.1"}
    program = dataclasses.replace(PLAIN, env={"PYTHONPATH": "/mine"}, time_calls=True)
    found = program_init.environment(scenario, addresses, program)
    assert found["PYTHONPATH"].endswith("workloads/calls:/mine")
    found = program_init.environment(
        scenario, addresses, dataclasses.replace(program, time_calls=False)
    )
    assert found["PYTHONPATH"] == "/mine"


def test_a_report_becomes_an_event_of_its_site_at_its_time():
    line = b'{"event": "sync_finished", "task": 3, "monotonic_ns": 700, "site": "n9"}'
    logged = report_of(line, "n2", 500, 900)
    assert logged.event == SyncFinished(200, "n2", 3)
    assert json.loads(logged.line) == {
        "event": "sync_finished", "task": 3, "site": "n2", "t_ns": 200,
    }  # fmt: skip
    untimed = line.replace(b', "monotonic_ns": 700', b"")
    assert report_of(untimed, "n2", 500, 900).event.t_ns == 400


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b"nonsense", "b'nonsense': expected a JSON object in one line"),
        (b"[1]", r"b'\[1\]': expected a JSON object in one line"),
        (b"\xff", r"b'\\xff': expected a JSON object in one line"),
        (b'{"event": "task_started"}', "event: 'task_started': expected one of compute_started, "),
        (b'{"event": "sync_finished"}', "task: missing: sync_finished needs "),
        (b'{"event": "sync_finished", "task": "x"}', "task: 'x': expected a whole number"),
        (
            b'{"event": "sync_finished", "task": 1, "monotonic_ns": 1000}',
            "monotonic_ns: 1000: expected a time of the monotonic clock since the run's start",
        ),
        (
            b'{"event": "sync_finished", "task": 1, "monotonic_ns": 499}',
            "monotonic_ns: 499: expected a time of the monotonic clock since the run's start",
        ),
    ],
)
def test_a_report_that_is_none_is_refused_with_the_reason(line, wrong):
    with pytest.raises(ValueError, match=wrong):
        report_of(line, "n2", 500, 900)


def test_a_scenarios_variables_come_last():
    scenario = parse(SCENARIO + shell("exit 0"), "x.yaml")
    program = dataclasses.replace(PLAIN, site="n3", sites=("n1", "n3"), env={"RANK": "seven"})
    addresses = {"n1": "10.0.0.1", "n3": "10.0.0.3"}
    found = program_init.environment(scenario, addresses, program)
    assert (found["RANK"], found["TRUNKLINE_RANK"], found["WORLD_SIZE"]) == ("seven", "1", "2")


def test_each_role_has_a_group_of_its_own_for_launchers():
    scenario = parse(SCENARIO + LIVES, "x.yaml")
    addresses = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}
    program = dataclasses.replace(
        PLAIN, site="n3", role="worker", sites=("n2", "n3"), site_rank=2, master_port=29501
    )
    found = program_init.environment(scenario, addresses, program, attempt=4)
    told = {name: value for name, value in found.items() if name.startswith(("PET", "MASTER"))}
    assert told == {
        "MASTER_ADDR": "10.0.0.2",
        "MASTER_PORT": "29501",
        "PET_MASTER_ADDR": "10.0.0.2",
        "PET_MASTER_PORT": "29501",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
    }
    told = {name: found[f"TRUNKLINE_{name}"] for name in ("ROLE", "ATTEMPT", "SITE_RANK", "SITES")}
    assert told == {"ROLE": "worker", "ATTEMPT": "4", "SITE_RANK": "2", "SITES": "n2,n3"}


def test_only_output_without_a_pause_is_a_flood():
    output, clock = Output(-1, 0), iter((5 * FLOOD_NS, 5 * FLOOD_NS + FLOOD_NS // 2))
    lines = b"\n" * (FLOOD_LINES // 2 + 1)
    said = [output.find_flood(lines, lambda: next(clock)) for _ in range(4)]
    assert said == ["", "", "", "more than 500000 lines within 1 s of the run's time"]
