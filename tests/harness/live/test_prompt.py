"""The shell and `inject`: a session typed through a pipe, replayed; and the parts of both."""

import contextlib
import json
import os
import re
import socket
import stat
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from command_line import command

from trunkline.agents.events.fault_events import AgentChanged, FaultEnded, FaultStarted
from trunkline.agents.events.round_events import ComputeStarted, Ready, SyncFinished
from trunkline.agents.events.run_events import AgentExited, ProgramsStarted, ProgramStarted
from trunkline.agents.events.task_events import TaskFinished, TaskStarted
from trunkline.harness.commands import main
from trunkline.harness.faults.fault_syntax import parse as parse_fault
from trunkline.harness.faults.fault_types import VERBS
from trunkline.harness.faults.timeline import Timeline
from trunkline.harness.live import channel, control_socket, prompt, status_lines, unknown_words
from trunkline.harness.live.control_socket import ControlSocket
from trunkline.harness.live.live_state import Progress, RunState
from trunkline.harness.live.prompt import PromptError
from trunkline.harness.live.request_queue import FOLDER, RequestQueue
from trunkline.harness.network import mininet_cli
from trunkline.harness.network.interface import LinkCounters
from trunkline.harness.scenario.loading import load, parse

ROOT = Path(__file__).parents[3]
SMALL = """
name: small
topology: {builder: full_mesh, sites: 4, rates: n2, delays: 20 ms}
workload: {kind: synthetic, model: 400 kB, compute: [0.05 s, 0.2 s]}
scheme: {policy: preduce, plan: ring, chunk: 64 KiB, p: 3}
stop: {time: 30 s}
outputs: {plots: false}
"""


def faults(run_dir: Path) -> list[tuple[str, int]]:
    """What happened in a run, and how many nanoseconds after its first task started."""
    log = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    start_ns = next(each["t_ns"] for each in log if each["event"] == "task_started")
    return [
        (each["text"], each["t_ns"] - start_ns) for each in log if each["event"] == "fault_started"
    ]


def lasted_ns(run_dir: Path, fault: int) -> int:
    log = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    start_ns, end_ns = (each["t_ns"] for each in log if each.get("fault") == fault)
    return int(end_ns - start_ns)


def check_replay(first: Path, again: Path) -> None:
    typed, replayed = faults(first), faults(again)
    assert typed.pop()[0] == "heal"  # of `exit`
    assert [fault for fault, _ in typed] == [
        "outage n1 n2 both blackhole",
        "setlink n1 n3 both rate=5Mbit/s",
        "outage n2 n4 both blackhole for 1 ms",
        "mend n1 n2",
    ]
    assert lasted_ns(first, 2) == pytest.approx(1_000_000, abs=20_000)  # though a command began
    assert [fault for fault, _ in replayed] == [fault for fault, _ in typed]
    for (_, then_ns), (_, now_ns) in zip(typed, replayed, strict=True):
        assert now_ns == pytest.approx(then_ns, abs=20_000)  # reading clocks takes time


def test_a_fault_for_a_time_is_over_after_a_step_of_this_time(embedded, tmp_path):
    """Its end is carried out and announced with the step, also where the next fault begins."""
    (tmp_path / "small.yaml").write_text(SMALL)
    lines = "step 1 s\noutage n1 n2 for 2 s\nstep 2 s\npause n3 for 1 s\nstep 1 s\n"
    with command(tmp_path, "shell", "small.yaml", "--quiet") as process:
        out, err = process.communicate(lines + "outage n1 n3 for 1 s\nstep 2 s\nstatus\nexit\n")
    assert process.returncode == 0, (out, err)
    for number, text in enumerate(("outage n1 n2", "pause n3", "outage n1 n3")):
        assert f"fault {number} ended: {text}" in out
    assert "active" not in out


def test_a_session_is_typed_injected_into_saved_and_replayed(embedded, tmp_path, capsys):
    (tmp_path / "small.yaml").write_text(SMALL + "capture: {links: [n1-n2]}\n")
    runs = str(tmp_path / "runs")
    with command(tmp_path, "shell", "small.yaml", "--quiet") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("step 1 s\noutage n1 n2  # they part\nn2 sleep 1000 &\nstatus\n")
        process.stdin.flush()
        said = {}
        while not said or "Mbit/s" not in said:
            line = process.stdout.readline()
            assert line, f"the session ended with {process.wait()}"
            about, _, text = line.rstrip().partition("  ")
            said[about] = text.strip()
        held = main.main(["inject", "small", "setlink n1 n3 rate=5Mbit/s", "--runs", runs])
        wrong = main.main(["inject", "small", "outage", "n1", "n9", "--runs", runs])
        early = str(tmp_path / "early.yaml")
        kept = main.main(["inject", "small", "save", early, "--runs", runs])
        injected = capsys.readouterr()
        again = main.main(["inject", "small", "save", early, "--runs", runs])
        process.stdin.write(
            "watch 1 s\nwatch\nwatch 1\noutage n2 n4 for 1 ms\nn1 ping -c1 n3\nmend n1 n2\n"
            "bogus\nnodes\nsh pwd\n"
        )
        process.stdin.write("x" * 5000 + "\n")
        process.stdin.write("n1 echo " + "y" * 200_000 + "\n")
        process.stdin.write("trace n1 n2 \0.csv\nsave small.yaml\nsave saved.yaml\n")
        process.stdin.write("save saved.yaml\nexit\nstatus  # too late\n")
        process.stdin.close()
        out, err = process.stdout.read(), process.stderr.read() if process.stderr else ""
    assert process.returncode == 0, err
    assert said["fault 0"].startswith("outage n1 n2 both blackhole, typed, active for 0.")
    assert said["n1 -> n2"] == "blackhole"
    assert said["time"].startswith("1.0")
    assert (held, wrong, kept, again) == (0, 64, 0, 64)
    assert "save small.yaml: this file exists: expected a new one\n" in err
    assert out.count("saved as saved.yaml; faults: ") == 2  # its own file may be saved again
    assert len(load(early).timeline) == 2
    assert injected.out.startswith("setlink n1 n3 both rate=5Mbit/s\ndone at 1.0")
    assert injected.err == "trunkline: n9: expected one of n2, n3, n4\n"
    assert "64 bytes from 10.0.0.3" in out
    assert "fault 2 ended: outage n2 n4 both blackhole for 1 ms\n" in out  # while a command ran
    assert "> nodes\navailable nodes are: \nn1 n2 n3 n4\n" in out
    assert f"> sh pwd\n{tmp_path}\n" in out
    assert max(map(len, out.splitlines())) < 1000
    assert (
        len(
            re.findall(
                r"^2\.\d s since the first task began; in all .*; fault: outage n1 n2 ",
                out,
                re.MULTILINE,
            )
        )
        == 2
    )
    assert "watch: 1: a unit is missing" in err
    assert "bogus: unknown: expected a verb (see: help) or a site: n1, n2, n3, n4\n" in err
    assert "a line of 200" in err and "bytes: expected at most 65536" in err
    assert max(map(len, err.splitlines())) < 1000
    assert "'\\x00.csv': cannot read: embedded null byte" in err
    assert err.endswith("status: not done: the run is over\n")
    assert "the run is ending: a stop was requested" in out
    assert out.splitlines()[-1].startswith("pass  ")

    first = tmp_path / "runs/small/latest"
    assert sorted(path.name for path in (first / "capture").iterdir()) == [
        "n1_n2.pcap",
        "n2_n1.pcap",
    ]
    assert not (first / FOLDER).exists()
    assert not (first / control_socket.LINK).is_symlink()
    assert main.main(["inject", str(first), "heal"]) == 64
    assert "this run has ended" in capsys.readouterr().err
    text = (tmp_path / "saved.yaml").read_text()
    assert "# not repeated: at 1 s: n2 sleep 1000 &\n" in text
    with command(tmp_path, "run", "saved.yaml", "--quiet") as process:
        assert process.wait() == 0
    check_replay(first, tmp_path / "runs/saved/latest")


@pytest.mark.skipif(os.geteuid() != 0, reason="builds namespaces: needs root")
def test_on_the_host_nothing_that_was_typed_at_a_site_lives_on(tmp_path):
    text = SMALL.replace("delays: 20 ms", "delays: 0 ms") + "backend: host\nclock: real\n"
    (tmp_path / "small.yaml").write_text(text)
    seconds = str(10**6 + os.getpid())
    with command(tmp_path, "shell", "small.yaml", "--quiet") as process:
        out, err = process.communicate(
            f"n1 sleep {seconds} &\nsh sleep {seconds} &\nn1 ping -c1 n2\nlink n1 n2 down\n"
            "step 1 s\nports\nlink n1 n2 up\nexit\n"
        )
    assert "64 bytes from 10.0.0.2" in out
    assert "> link n1 n2 down\noutage n1 n2 both carrier\n" in out
    assert "> link n1 n2 up\nmend n1 n2\n" in out
    assert "step: the clock runs: only a virtual clock stands still" in err
    assert "ports: there are no switches" in err
    commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    assert not [each for each in commands if seconds.encode() in each.split(b"\0")]


@pytest.mark.skipif(os.geteuid() != 0, reason="builds namespaces: needs root")
def test_a_command_has_no_input_and_may_end_the_shell_of_its_site(tmp_path):
    text = SMALL.replace("delays: 20 ms", "delays: 0 ms") + "backend: host\nclock: real\n"
    (tmp_path / "small.yaml").write_text(text)
    (tmp_path / "lines").write_text("n2 echo from the file\nsource lines\n")
    with command(tmp_path, "shell", "small.yaml", "--quiet") as process:
        out, err = process.communicate(
            'n1 cat; echo before n2 ; exit 3\nsh cat\nn1 echo "open\nn1 echo after\nsource lines\n'
            "source\nsource none\nn1 exec true\nexit\n",
            timeout=120,
        )
    ended = "site n1: the shell has ended; the next command there starts another one"
    quotes = "bash: unexpected EOF while looking for matching `\"'"
    said = [line for line in out.splitlines() if not line.startswith("trunkline> ")]
    assert [line for line in said if line != "exit"][:6] == [
        "before 10.0.0.2", ended, quotes, "after", "from the file", ended,
    ]  # fmt: skip
    assert err.splitlines() == [
        "source lines: not done: the file is being carried out already",
        "source: expected source FILE",
        "none: cannot be read: no such file or directory",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="builds namespaces: needs root")
def test_a_site_whose_name_is_a_verb_can_be_reached(tmp_path):
    text = SMALL.replace("delays: 20 ms", "delays: 0 ms") + "backend: host\nclock: real\n"
    (tmp_path / "small.yaml").write_text(text.replace("sites: 4", "sites: [exit, n2, n3]"))
    with command(tmp_path, "shell", "small.yaml", "--quiet") as process:
        out, err = process.communicate(
            "exit echo gone\nnoecho exit echo at n2\nexit\n", timeout=120
        )
    assert "exit is a verb here; noecho exit COMMAND: a command at the site\n" in out
    assert "\nat 10.0.0.2\n" in out
    assert err == "exit echo gone: exit: expected exit alone\n"


# -- the control socket ------------------------------------------------------------------------


@pytest.fixture
def program():
    """A program that notes what is done to it."""
    done: list[str] = []
    return SimpleNamespace(
        done=done,
        nudge=lambda: done.append("nudge"),
        pause=lambda: done.append("pause"),
        resume=lambda: done.append("resume"),
    )


def served(control: ControlSocket) -> None:
    """Have everything read that is there to be read, once."""
    for act in list(control.handles().values())[1:]:
        act()


def test_the_socket_of_a_run_is_its_owners_alone_however_long_the_name_of_its_folder(
    tmp_path, program, monkeypatch
):
    run_dir = tmp_path / ("long" * 30)
    run_dir.mkdir()
    with ControlSocket(run_dir) as control:
        control.began(program)
        assert stat.S_IMODE((run_dir / control_socket.LINK).stat().st_mode) == 0o700
        with control_socket.connect(run_dir) as mine:
            control._accept()
            assert len(control.handles()) == 2
            mine.sendall(b"no json\n")
            served(control)
            assert b"expected a JSON object per line" in mine.recv(1000)
        monkeypatch.setattr(control_socket.os, "geteuid", lambda: 12345)
        with control_socket.connect(run_dir) as stranger:
            control._accept()
            assert stranger.recv(1) == b""
    assert list(run_dir.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        control_socket.connect(run_dir)


def test_a_line_waits_until_the_session_takes_any_and_its_answer_finds_back(tmp_path, program):
    reader = RequestQueue(tmp_path / FOLDER)
    with ControlSocket(tmp_path) as control:
        control.began(program)
        with control_socket.connect(tmp_path) as sock:
            control._accept()
            sock.sendall(b'{"line": "heal", "cwd": "/"}\n')
            served(control)
            assert (reader.take(), program.done) == (None, [])
            control.relay({"open": True, "hold": False})
            assert reader.take() == {"line": "heal", "cwd": "/"}
            control.relay({"answer": 1, "done": True, "text": "", "t_s": 1.5})
            assert json.loads(sock.recv(1000)) == {"done": True, "text": "", "t_s": 1.5}
            sock.sendall(b'{"line": "n1 ping n2"}\n')
            served(control)
        served(control)
        assert reader.take() == {"line": "n1 ping n2"}
        assert reader.take() == {"interrupt": 2}  # who asked has gone
    assert program.done == ["nudge", "nudge", "nudge"]


def test_a_world_that_stands_still_is_frozen_until_the_next_line(tmp_path, program):
    ours, theirs = socket.socketpair()
    reader = RequestQueue(tmp_path / FOLDER)
    with ControlSocket(tmp_path, ours) as control:
        control.began(program)
        control.relay({"open": True, "hold": True})
        control.relay({"prompt": 0.0, "taken": 0})
        assert program.done == ["pause"]
        theirs.sendall(b'{"line": "step 1 s"}\n')
        served(control)
        assert program.done == ["pause", "resume"]
        control.relay({"prompt": 0.0, "taken": 0})  # said before the session saw the line
        assert program.done == ["pause", "resume"]
        assert reader.take() == {"line": "step 1 s"}
        theirs.close()
        served(control)
        assert reader.take() == {"interrupt": 1}
        assert reader.take() == {"line": "exit"}  # with its front end, the shell's run ends


def test_requests_are_taken_once_and_in_their_order(tmp_path):
    reader, writer = RequestQueue(tmp_path), RequestQueue(tmp_path)
    assert reader.take() is None
    assert [writer.put({"line": word}) for word in ("a", "ü")] == [1, 2]
    assert [reader.take(), reader.take(), reader.take()] == [{"line": "a"}, {"line": "ü"}, None]
    assert list(tmp_path.iterdir()) == []


# -- the front end -----------------------------------------------------------------------------


@pytest.fixture
def front():
    ours, theirs = socket.socketpair()
    yield prompt.Shell(parse(SMALL, "small.yaml"), channel.Channel(ours))
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyboardInterrupt(), ""),
        (BrokenPipeError(), ""),
        (RecursionError("too deep"), "RecursionError: too deep\n"),
    ],
)
def test_an_error_of_the_prompt_is_shown_and_fails_the_run(error, said, monkeypatch, capfd):
    def fail(self):
        raise error

    monkeypatch.setattr(prompt.Shell, "run", fail)
    expected = pytest.raises(PromptError) if said else contextlib.nullcontext()
    with expected, prompt.front_end(parse(SMALL, "small.yaml")) as sock:
        assert sock.recv(1) == b""  # it has ended
    assert capfd.readouterr().err.endswith(said)


def test_an_unexpected_error_of_a_command_is_shown(monkeypatch):
    def fail(self, line):
        raise ZeroDivisionError

    monkeypatch.setattr(mininet_cli._Cli, "onecmd", fail)
    net = MagicMock(hosts=[])
    started = mininet_cli.Command.start(net, "nodes")
    started.process.wait()
    assert started.read().endswith("ZeroDivisionError\n")
    assert not started.finish()


def test_a_command_for_finished_runs_is_named_at_the_prompt():
    told = unknown_words.explain_unknown("explain", ("paris", "tokyo"))
    assert told == "explain: not at this prompt: after the run, in a shell: trunkline explain RUN"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("outge", "did you mean outage? "),
        ("stauts", "did you mean status? "),
        ("h2", "did you mean tokyo? "),
        ("tokio", "did you mean tokyo? "),
        ("h3", ""),
        ("h0", ""),
        ("bogus", ""),
    ],
)
def test_an_unknown_word_at_the_prompt_gets_a_guess(word, hint):
    told = unknown_words.explain_unknown(word, ("paris", "tokyo"))
    assert told == f"{word}: unknown: {hint}expected a verb (see: help) or a site: paris, tokyo"


@pytest.mark.parametrize(
    ("mbps", "text"),
    [(0.0, "0"), (0.0123, "0.0123"), (1.0, "1.00"), (12.34, "12.3"), (1234.5, "1234")],
)
def test_rates_have_three_digits(mbps, text):
    assert status_lines.show_rate(mbps) == text


def test_a_silent_command_gets_a_line_of_progress_until_its_output_comes(monkeypatch, capsys):
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(channel, "WAIT_S", 0.01)
    shell = prompt.Shell(parse(SMALL, "small.yaml"), channel.Channel(ours))
    shell.interactive = True

    def refresh():  # the run answers once a line of progress was shown
        theirs.sendall(b'{"output": "1 Gbit/s\\n"}\n{"done": true, "text": ""}\n')
        return SimpleNamespace(describe=lambda: "3.0 s of 30 s")

    shell.glance = SimpleNamespace(refresh=refresh, console=SimpleNamespace(width=80))
    shell._ask("iperf n1 n2")
    clear = "\r\x1b[K"
    assert capsys.readouterr().out == f"{clear}iperf runs: 3.0 s of 30 s{clear}1 Gbit/s\n"
    ours.close()
    theirs.close()


def test_the_prompt_has_milliseconds(front):
    front.holds = True
    for at_s, text in ((2.0, "2 s> "), (16.00012, "16 s> "), (1234.5678, "1234.568 s> ")):
        front.channel.messages.append({"prompt": at_s})
        front._wait_for_prompt()
        assert front.prompt == text


def test_sh_runs_in_the_folder_of_the_user(tmp_path):
    net = MagicMock(hosts=[])
    net.__contains__.return_value = False
    for folder, said in ((tmp_path, f"{tmp_path}\n"), (tmp_path / "none", "not a folder")):
        started = mininet_cli.Command.start(net, "sh pwd", str(folder))
        started.process.wait()
        assert said in started.read()
        started.finish()


def test_words_are_completed(front):
    assert front.completenames("out") == ["outage ", "output "]
    assert front.completenames("st") == ["status ", "step "]
    assert front.completenames("n1") == ["n1 "]
    line = "setlink n1 n2 ra"
    assert front.completedefault("ra", line, len(line) - 2, len(line)) == ["rate="]
    line = "n1 ping n"
    assert front.completedefault("n", line, 8, 9) == ["n1 ", "n2 ", "n3 ", "n4 "]
    assert front.completedefault("he", "help he", 5, 7) == ["heal ", "help "]


def test_every_verb_has_help(front, capsys):
    for verb in (*VERBS, *prompt.SHELL_VERBS, *mininet_cli.verbs()):
        front.do_help(verb)
        said = capsys.readouterr()
        assert len(said.out) > 10
        assert said.err == ""
    front.do_help("")
    assert "faults        availability churn flap" in capsys.readouterr().out
    front.do_help("ports")
    assert "there is no such verb" in capsys.readouterr().err


def test_a_saved_session_is_a_scenario_that_ends_when_it_was_saved(tmp_path):
    timeline = [{"at": "1 s", "do": "outage n1 n2 both blackhole for 2 s"}]
    session = {"timeline": timeline, "end_s": 12.5, "notes": ["at 3 s: n1 ping n2"]}
    path = tmp_path / "mine.yaml"
    path.write_text(channel.session_scenario(parse(SMALL, "small.yaml"), "mine", session))
    scenario = load(path)
    assert (scenario.name, scenario.stop.time_s) == ("mine", 12.5)
    assert [entry.at_s for entry in scenario.timeline] == [1.0]
    assert path.read_text().startswith("# not repeated: at 3 s: n1 ping n2\n")


def test_a_saved_session_has_the_same_end_without_the_warm_up(tmp_path):
    text = SMALL + "warm_up: {tasks: 2}\n"
    session = {"timeline": [], "end_s": 12.5, "notes": []}
    path = tmp_path / "mine.yaml"
    began = parse(text, "small.yaml", ["stop={tasks: 5}"])
    path.write_text(channel.session_scenario(began, "mine", session))
    scenario = load(path)
    assert (scenario.stop.tasks, scenario.stop.time_s) == (7, 12.5)
    assert scenario.warm_up.unit is None
    assert path.read_text().startswith("# not repeated: the warm-up\n")


# -- status ------------------------------------------------------------------------------------


def test_ended_programs_are_steps_of_progress():
    state = RunState(parse(SMALL, "small.yaml").topology)
    state.update(AgentExited(10**9, "runner", "n1", code=0))
    assert state.progress().ended is None
    assert state.update(ProgramsStarted(2 * 10**9, "runner"))
    assert state.update(AgentExited(3 * 10**9, "runner", "n1", code=0))
    assert state.progress() == Progress(3.0, ended=1)


def test_status_says_who_waits_for_whom_and_what_is_out_of_order():
    topology = parse(SMALL, "small.yaml").topology
    state = RunState(topology)
    timeline = Timeline(topology)
    timeline.begin(parse_fault("setlink n1 -> n2 rate=5Mbit/s", topology), 0)
    timeline.begin(parse_fault("outage n3 n4 one-way", topology), 0)
    second = 10**9
    for event in (
        ComputeStarted(0, "n4", 1),
        Ready(second, "n3", 1),
        TaskStarted(second, "controller", 7, "", "", ("1", "2"), {}, 1.0, 0, 0, {}),
        FaultStarted(second, "runner", 0, "", "", ()),
        TaskStarted(second, "controller", 8, "", "", ("3", "4"), {}, 1.0, 0, 0, {}),
        TaskFinished(2 * second, "1", 7, "", ()),
        Ready(2 * second, "3", 2),
        AgentChanged(2 * second, "runner", "4", "kill", 1),
        AgentChanged(2 * second, "runner", "n4", "kill", 1),
    ):
        state.update(event)
    counted = {("n1", "n2"): LinkCounters(0, 0, 0)}, {("n1", "n2"): LinkCounters(250_000, 9, 0)}
    rates = status_lines.compute_rates_mbps(*counted, 2.0)
    assert status_lines.describe(
        state, 3 * second, timeline.active, timeline.changed, rates, 2.0
    ) == [
        ("done", "0 tasks, 0 rounds"),
        ("task 7", "1 2, for 2.0 s; waits for 2"),
        ("sites", "not begun: n1, n2"),
        ("sites", "waiting for a group: n3 (2.0 s)"),
        ("sites", "dead: n4"),
        ("fault 0", "setlink n1 n2 one-way rate=5Mbit/s, active for 2.0 s"),
        ("fault 1", "outage n3 n4 one-way blackhole, active for 0.0 s"),
        ("4", "dead"),
        ("n1 -> n2", f"rate 5 Mbit/s (as built {topology.link('n1', 'n2').rate_mbps:g} Mbit/s)"),
        ("n3 -> n4", "blackhole"),
        ("Mbit/s", "n1 -> n2 1.00 (over the last 2.0 s)"),
    ]
    assert status_lines.compute_rates_mbps(*counted, 0.0) == {}
    links = dict(status_lines.describe_links(topology, timeline.changed))
    assert len(links) == len(topology.links)
    built = f"{topology.link('n1', 'n2').rate_mbps:g} Mbit/s"
    assert links["n1 -> n2"] == f"rate 5 Mbit/s, delay 20 ms (as built: rate {built})"
    assert links["n2 -> n1"] == f"rate {topology.link('n2', 'n1').rate_mbps:g} Mbit/s, delay 20 ms"
    assert links["n3 -> n4"].endswith(" Mbit/s, delay 20 ms (blackhole)")


def test_status_lists_the_last_faults_that_are_over_and_those_that_were_typed():
    topology, second = parse(SMALL, "small.yaml").topology, 10**9
    state, timeline = RunState(topology), Timeline(topology)
    timeline.begin(parse_fault("outage n3 n4 one-way", topology), 0)
    state.update(TaskStarted(second, "controller", 0, "", "", ("n1",), {}, 1.0, 0, 0, {}))

    def start(number: int, text: str, asked: bool = False) -> None:
        state.update(FaultStarted((2 + number) * second, "runner", number, "", text, (), asked))

    def list_faults() -> list[tuple[str, str]]:
        lines = status_lines.describe(state, 9 * second, timeline.active, (), {}, 0.0)
        assert lines[-1] == ("Mbit/s", "not known yet: no time has passed")
        return [line for line in lines if line[0].startswith("fault")]

    start(0, "outage n3 n4 one-way blackhole", asked=True)
    active = [("fault 0", "outage n3 n4 one-way blackhole, typed, active for 7.0 s")]
    assert list_faults() == active
    start(1, "kill n2")
    start(2, "outage n1 n2 both blackhole for 3 s")
    state.update(FaultEnded(7 * second, "runner", 2))
    start(3, "mend n1 n2", asked=True)
    state.update(FaultEnded(5 * second, "runner", 3))
    past = [
        ("fault 1", "kill n2, at 2.0 s"),
        ("fault 2", "outage n1 n2 both blackhole for 3 s, over, from 3.0 s to 6.0 s"),
        ("fault 3", "mend n1 n2, typed, at 4.0 s"),
    ]
    assert list_faults() == [*past, *active]
    for number in (4, 5, 6):
        start(number, "kill n1")
    assert list_faults()[:2] == [("faults", "1 earlier fault, in the log"), past[1]]


def test_status_of_programs_counts_those_that_have_ended():
    programs = "{command: [sh], sites: [n1]}"
    text = f"""
    topology: {{builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 10 ms}}
    workload: {{kind: program, programs: {{a: {programs}, b: {{command: [sh]}}}}}}
    stop: {{exit: all}}
    """
    state = RunState.of(parse(text, "x.yaml"))
    for event in (
        ProgramsStarted(0, "runner"),
        *(ProgramStarted(0, "runner", who, 0) for who in ("n1.a", "n1.b", "n2.b")),
        AgentExited(9, "runner", "n1.a", code=0, signal=0, asked=False),
    ):
        state.update(event)
    assert status_lines.describe(state, 9, (), (), {}, 1.0)[0] == ("done", "1 of 3 programs ended")
    state.update(SyncFinished(10, "n2", 4))
    done = status_lines.describe(state, 10, (), (), {}, 1.0)[0]
    assert done == ("done", "1 of 3 programs ended, 5 synchronizations")


@pytest.mark.parametrize(("swallowed", "mbps"), [(5, 0.0), (2, 0.6), (9, 0.0)])
def test_a_rate_counts_what_arrives_and_not_what_a_blackhole_swallows(swallowed, mbps):
    before = {("n1", "n2"): LinkCounters(1000, 10, swallowed=3)}
    after = {("n1", "n2"): LinkCounters(251_000, 15, swallowed=3 + swallowed)}
    assert status_lines.compute_rates_mbps(before, after, 2.0) == {("n1", "n2"): mbps}
