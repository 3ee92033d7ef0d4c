"""Forked processes: how they end, and the lines in which they talk."""

import os
import signal

import pytest

from trunkline.harness.processes.fork import FAILED, fork
from trunkline.harness.processes.lines import Lines, decode, encode


def fail() -> int:
    os.close(2)  # the traceback is not for this terminal
    raise ValueError


@pytest.mark.parametrize(("act", "code"), [(lambda: 3, 3), (fail, FAILED)])
def test_a_forked_process_exits_with_what_comes_back(act, code):
    process = fork(act)
    assert (process.wait(), process.code) == (code, code)
    process.end()


def test_a_forked_process_that_runs_is_killed_and_reaped():
    process = fork(lambda: signal.pause() or 0)
    process.end()
    assert process.code == -signal.SIGKILL


def test_lines_are_whole_however_their_bytes_come():
    lines = Lines()
    assert [lines.split(data) for data in (b"a", b"b\n\nc", b"\nd")] == [[], [b"ab", b""], [b"c"]]
    assert lines.rest == b"d"


def test_a_message_is_a_json_object_in_a_line():
    assert decode(encode({"a": 1})) == {"a": 1}
    assert [decode(line) for line in (b"", b"[1]", b"5", b"{", b"\xff")] == [None] * 5
