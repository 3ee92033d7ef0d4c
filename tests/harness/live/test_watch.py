"""What a terminal shows of a run while it goes on, and that it is as before afterwards."""

import contextlib
import fcntl
import io
import os
import pty
import select
import signal
import struct
import sys
import termios
from pathlib import Path

import pytest
from rich.console import Console
from three_sites import LOG, SCENARIO

from trunkline.agents.events import event_reading
from trunkline.agents.events.event import Event
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted, LinkChanged
from trunkline.agents.events.round_events import RoundAlone
from trunkline.agents.events.run_events import (
    AgentExited,
    NetworkReady,
    ProgramsStarted,
    ProgramStarted,
)
from trunkline.agents.events.task_events import Sent
from trunkline.harness.live.live_state import Progress, RunState
from trunkline.harness.live.live_view import View
from trunkline.harness.live.status_lines import describe
from trunkline.harness.live.watch import Follower, PromptView, watch
from trunkline.harness.scenario.loading import load, parse

FAULT = (4, "outage", "outage oslo rome", ("oslo -> rome",))


def view_of(until_s: float, *events: Event) -> View:
    """The view of the three sites' run at that time, 3 s of ours after its begin."""
    times = iter((0.0, *[3.0] * 9))
    view = View(load(SCENARIO), lambda: next(times))
    log = event_reading.read(LOG.read_text().splitlines())
    for event in [*(event for event in log if event.t_ns <= until_s * 1e9), *events]:
        view.state.update(event)
    return view


def drawn(view: View, width: int = 110, height: int = 30) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, highlight=False)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_sites_tasks_and_links_are_shown_as_they_are_now() -> None:
    view = view_of(2.25)
    view.latest = Progress(2.2, 3, 1, 3_000_000)
    assert [line.rstrip() for line in drawn(view).splitlines()] == [
        "three  preduce, h.py, 3 sites",
        "━━━━━━━━━━━━━━━                 50%  1.6 s virtual, 3 s real (x 0.53), about 3 s left",
        "2.2 s of 4.4 s, rounds 3, tasks 1, 3 MB",
        "",
        "sites                                       tasks",
        "oslo  waiting for a group                   1  100 ms, waits for rome kyiv",
        "rome  in task 1                             links, payload of the last 5 s",
        "kyiv  in task 1                             oslo → rome  ████████····  5.03 Mbit/s, 63%",
        "                                            rome → oslo  ████████····  5.03 Mbit/s, 63%",
    ]


def test_servers_do_no_rounds_so_progress_does_not_count_them() -> None:
    servers = Path(__file__).parents[3] / "scenarios" / "parameter_servers.yaml"
    view = View(load(servers, ["stop={rounds: 20}"]), lambda: 0.0)
    view.latest = Progress(2.0, 80, 40)
    assert "rounds 80 of 160" in drawn(view)
    assert view.share == 0.5


PROGRAMS = """
name: roles
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s}
workload:
  kind: program
  programs: {server: {sites: [n1], command: [sleep, 9]}, client: {command: [sleep, 1]}}
stop: {exit: [client]}
"""


def test_a_run_that_waits_for_some_programs_shows_how_many_of_those_have_ended() -> None:
    view = View(parse(PROGRAMS, "x.yaml"), lambda: 0.0)
    for event in (
        ProgramsStarted(0, "runner"),
        *(ProgramStarted(0, "runner", who, 0) for who in ("n1.server", "n1.client", "n2.client")),
        AgentExited(10**9, "runner", "n1.server", 0, 0, asked=False),
    ):
        view.state.update(event)
    view.latest = view.state.progress()
    text = drawn(view)
    assert view.share is None
    assert " ...  1.0 s virtual" in text and "%" not in text.splitlines()[1]
    assert "1.0 s, programs ended 0 of 2 (client)" in text
    view.state.update(AgentExited(2 * 10**9, "runner", "n1.client", 0, 0, asked=False))
    view.latest = view.state.progress()
    assert view.share == 0.5
    assert "2.0 s, programs ended 1 of 2 (client)" in drawn(view)


def test_the_times_of_programs_count_from_their_start() -> None:
    view = View(parse(PROGRAMS, "x.yaml"), lambda: 0.0, held=True)
    view.state.update(ProgramsStarted(0, "runner"))
    view.state.update(ProgramStarted(10**9, "runner", "n1.server", 0))
    view.latest = view.state.progress()
    assert view.describe().startswith("1.0 s since the programs began; in all 1.0 s, programs ")


def test_a_program_that_is_to_be_started_again_has_not_ended() -> None:
    again = "client: {restart: {at_most: 1}, exit: any,"
    view = View(parse(PROGRAMS.replace("client: {", f"{again} "), "x.yaml"), lambda: 0.0)
    ended = AgentExited(10**9, "runner", "n2.client", 1, 0, asked=False)
    counts = []
    for event in (
        ProgramsStarted(0, "runner"),
        ProgramStarted(0, "runner", "n2.client", 0),
        ended,
        ProgramStarted(2 * 10**9, "runner", "n2.client", 1),
        ended,
    ):
        view.state.update(event)
        counts.append((view.state.ended, view.state.activity_of("n2")[0]))
    assert counts[1:] == [
        (0, "client running"),
        (0, "client to be started again"),
        (0, "client running"),
        (1, "client ended"),
    ]


def test_a_link_s_load_is_what_it_carried_in_the_last_seconds() -> None:
    second = 10**9
    sent = Sent(10 * second, "oslo", 9, "rome", "in", 5_000_000, 1, 0, 10 * second)
    state = view_of(0.0, sent).state
    assert state.loads_mbps() == [(("oslo", "rome"), pytest.approx(4.0))]
    state.update(Sent(20 * second, "oslo", 9, "rome", "in", 0, 1, 10 * second, 20 * second))
    assert state.loads_mbps() == [(("oslo", "rome"), 0.0)]


def test_faults_and_links_that_are_cut_are_shown_until_they_are_mended() -> None:
    at = 2_250_000_000, "runner"
    begun = [
        FaultStarted(*at, *FAULT),
        LinkChanged(*at, "oslo", "rome", 8.0, 10.0, 0.0, 0.0, ("blackhole",)),
    ]
    text = drawn(view_of(2.25, *begun))
    assert "outage oslo rome" in text and "cut now" in text
    assert view_of(2.25, *begun).describe().endswith("fault: outage oslo rome")
    assert "outage" not in drawn(view_of(2.25, *begun, FaultEnded(*at, 4)))


@pytest.mark.parametrize(("width", "height"), [(200, 60), (110, 12), (80, 24), (40, 12), (30, 11)])
def test_the_picture_fits_any_terminal_with_what_matters(width: int, height: int) -> None:
    view = view_of(1.4, FaultStarted(14 * 10**8, "runner", *FAULT))
    view.latest = Progress(2.2, 3, 1, 3_000_000)
    text = drawn(view, width, height)
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) <= height
    for words in ("about 3 s left", "waits for", "outage"):
        assert words in text


def test_a_log_is_followed_line_by_line(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "events.jsonl")
    assert list(follower.read_events()) == []
    first, second = NetworkReady(1, "runner"), NetworkReady(2, "runner")
    text = (to_line(first) + to_line(second)).decode()
    with follower.path.open("w") as log:
        for written, new in ((text[:60], [first]), (text[60:-1], []), (text[-1], [second])):
            log.write(written)
            log.flush()
            assert list(follower.read_events()) == new
    follower.close()


def test_where_there_is_no_terminal_there_are_plain_lines(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=160)
    (tmp_path / "events.jsonl").write_text(LOG.read_text())
    with watch(console, load(SCENARIO)) as shown:
        shown.follow(tmp_path)
        shown.show_progress(Progress(4.4, 6, 2, 6_250_000, 81.5))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().startswith("100% 4.4 s of 4.4 s, rounds 6, tasks 2, 6.25 MB")
    assert "\x1b" not in console.file.getvalue()


def test_at_a_prompt_the_picture_is_of_now_and_says_nothing_of_how_fast_it_goes(tmp_path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text("".join(LOG.read_text().splitlines(True)[:34]))
    # its first task starts at 0.21 s
    for terminal in (False, True):
        console = Console(
            file=io.StringIO(), width=110, height=30, force_terminal=terminal, color_system=None
        )
        view = View(load(SCENARIO), iter((0.0, 3.0)).__next__, held=True)
        with contextlib.closing(Follower(log)) as follower:
            PromptView(view, follower, console, at_s=2.0).print()
        assert isinstance(console.file, io.StringIO)
        lines = console.file.getvalue().splitlines()
        if terminal:
            assert len(lines) > 5 and lines[1].rstrip().endswith(
                "52%  2.0 s virtual, 2.2 s in all, 3 s real"
            )
        else:
            (line,) = lines
            assert line.startswith(
                "2.0 s since the first task began; in all 2.2 s of 4.4 s, rounds 2"
            )


WATCHING = """
import signal, sys
from pathlib import Path
from rich.console import Console
from trunkline.harness.scenario.loading import load, parse
from trunkline.harness.live.watch import watch
with watch(Console(stderr=True), load(sys.argv[1])) as shown:
    shown.follow(Path(sys.argv[2]))
    signal.pause()
"""


def test_ctrl_c_gives_the_terminal_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(LOG.read_text())
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        command = [sys.executable, "-c", WATCHING, str(SCENARIO), str(tmp_path)]
        os.execv(sys.executable, command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
    before = termios.tcgetattr(terminal)
    said = b""
    while b"kyiv" not in said:
        assert select.select([terminal], [], [], 60)[0], said
        said += os.read(terminal, 1 << 16)
    os.kill(pid, signal.SIGWINCH)
    os.write(terminal, b"\x03")
    try:
        while part := os.read(terminal, 1 << 16):
            said += part
    except OSError:  # the other end of a pseudo terminal is closed
        pass
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in (-signal.SIGINT, 130)
    assert said.count(b"\x1b[?1049h") == said.count(b"\x1b[?1049l") == 1
    assert said.rfind(b"\x1b[?25h") > said.rfind(b"\x1b[?25l")
    assert termios.tcgetattr(terminal) == before
    os.close(terminal)


def test_status_counts_rounds_alone_apart() -> None:
    state = RunState.of(load(SCENARIO))
    for t_ns in (1, 2, 3):
        state.update(RoundAlone(t_ns, "rome", t_ns))
    assert describe(state, 3, (), (), {}, 1.0)[0] == ("done", "0 tasks, 0 rounds and 3 alone")
