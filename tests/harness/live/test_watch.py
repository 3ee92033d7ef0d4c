"""What a terminal shows of a run while it goes on, and that it is as before afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
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

from trunkline.harness.live.live_view import View
from trunkline.harness.live.progress import Progress
from trunkline.harness.live.watch import Follower, Glance, watch
from trunkline.harness.scenario.loading import load

FAULT = {"fault": 4, "verb": "outage", "text": "outage oslo rome", "targets": ["oslo -> rome"]}
CHANGED = {"src": "oslo", "dst": "rome", "rate_mbps": 8.0, "delay_ms": 10.0, "jitter_ms": 0.0}


def seen(until_s: float, *events: dict[str, object]) -> View:
    """What is known of the three sites' run at that time, 3 s of ours after its begin."""
    times = iter((0.0, *[3.0] * 9))
    view = View(load(SCENARIO), lambda: next(times))
    log = [json.loads(line) for line in LOG.read_text().splitlines()]
    for event in [*(event for event in log if event["t_ns"] <= until_s * 1e9), *events]:
        view.update(event)
    return view


def drawn(view: View, width: int = 110, height: int = 30) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, highlight=False)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_sites_tasks_and_links_are_shown_as_they_are_now() -> None:
    view = seen(2.25)
    view.latest = Progress(2.2, 3, 1, 3_000_000)
    assert [line.rstrip() for line in drawn(view).splitlines()] == [
        "three  preduce, crew, 3 sites",
        "━━━━━━━━━━━━━━━                 50%  1.6 s virtual, 3 s real (x 0.53), about 3 s left",
        "2.2 s of 4.4 s, rounds 3, tasks 1, 3 MB",
        "",
        "sites                                       tasks",
        "oslo  waiting for a group                   1  100 ms, waits for kyiv rome",
        "rome  in task 1                             links, payload of the last 5 s",
        "kyiv  in task 1                             oslo → rome  ████████····  5.1 Mbit/s, 63%",
        "                                            rome → oslo  ████████····  5.1 Mbit/s, 63%",
    ]


def test_a_link_s_load_is_what_it_carried_in_the_last_seconds() -> None:
    sent = {"site": "oslo", "event": "sent", "task": 9, "dst": "rome", "phase": "in", "chunks": 1}
    view = seen(0.0, {**sent, "t_ns": 10**10, "bytes": 5_000_000, "start_ns": 0, "end_ns": 10**10})
    assert view.loads() == [(("oslo", "rome"), pytest.approx(4.0))]
    view.update({**sent, "t_ns": 2 * 10**10, "bytes": 0, "start_ns": 10**10, "end_ns": 2 * 10**10})
    assert view.loads() == [(("oslo", "rome"), 0.0)]


def test_faults_and_links_that_are_cut_are_shown_until_they_are_mended() -> None:
    at = {"t_ns": 2_250_000_000, "site": "runner"}
    begun = [
        {**at, "event": "fault_started", **FAULT},
        {**at, "event": "link_changed", **CHANGED, "loss_percent": 0.0, "cuts": ["blackhole"]},
    ]
    text = drawn(seen(2.25, *begun))
    assert "outage oslo rome" in text and "cut now" in text
    assert seen(2.25, *begun).line().endswith("fault: outage oslo rome")
    assert "outage" not in drawn(seen(2.25, *begun, {**at, "event": "fault_ended", "fault": 4}))


@pytest.mark.parametrize(("width", "height"), [(200, 60), (110, 12), (80, 24), (40, 12), (30, 11)])
def test_the_picture_fits_any_terminal_with_what_matters(width: int, height: int) -> None:
    view = seen(1.4, {"t_ns": 14 * 10**8, "site": "runner", "event": "fault_started", **FAULT})
    view.latest = Progress(2.2, 3, 1, 3_000_000)
    text = drawn(view, width, height)
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) <= height
    for words in ("about 3 s left", "waits for", "outage"):
        assert words in text


def test_a_log_is_followed_line_by_line(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "events.jsonl")
    assert list(follower.lines()) == []
    with follower.path.open("w") as log:
        for written, told in (('{"a": 1}\n{"a"', [{"a": 1}]), (": 2}", []), ("\n", [{"a": 2}])):
            log.write(written)
            log.flush()
            assert list(follower.lines()) == told
    follower.close()


def test_where_there_is_no_terminal_there_are_plain_lines(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=160)
    (tmp_path / "events.jsonl").write_text(LOG.read_text())
    with watch(console, load(SCENARIO)) as shown:
        shown.folder(tmp_path)
        shown.progress(Progress(4.4, 6, 2, 6_250_000, 81.5))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().startswith("100% 4.4 s of 4.4 s, rounds 6, tasks 2, 6.25 MB")
    assert "\x1b" not in console.file.getvalue()


def test_at_a_prompt_the_picture_is_of_now_and_says_nothing_of_how_fast_it_goes(tmp_path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text("".join(LOG.read_text().splitlines(True)[:30]))
    # its first task starts at 0.21 s
    for terminal in (False, True):
        console = Console(
            file=io.StringIO(), width=110, height=30, force_terminal=terminal, color_system=None
        )
        view = View(load(SCENARIO), iter((0.0, 3.0)).__next__, held=True)
        with contextlib.closing(Follower(log)) as follower:
            Glance(view, follower, console, at_s=2.0).print()
        assert isinstance(console.file, io.StringIO)
        lines = console.file.getvalue().splitlines()
        if terminal:
            assert len(lines) > 5 and lines[1].rstrip().endswith("52%  2.2 s virtual, 3 s real")
        else:
            (line,) = lines
            assert line.startswith("2.2 s of 4.4 s, rounds 2, tasks 1, 2 MB")


WATCHING = """
import signal, sys
from pathlib import Path
from rich.console import Console
from trunkline.harness.scenario.loading import load
from trunkline.harness.live.watch import watch
with watch(Console(stderr=True), load(sys.argv[1])) as shown:
    shown.folder(Path(sys.argv[2]))
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
