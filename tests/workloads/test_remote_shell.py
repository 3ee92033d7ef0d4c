"""The stand-in for ssh, over loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trunkline.harness.session.program_readiness import listens
from trunkline.workloads import remote_shell

CALL = "import sys; from trunkline.workloads.remote_shell import call; sys.exit(call())"


@pytest.fixture
def variables() -> Iterator[dict[str, str]]:
    """The environment of callers, while a server waits for them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = {**os.environ, "TRUNKLINE_RSH_PORT": str(port)}
    server = subprocess.Popen([sys.executable, "-m", remote_shell.__name__], env=found)
    while not listens(server.pid, port):
        assert server.poll() is None
        time.sleep(0.01)
    yield found
    server.send_signal(signal.SIGTERM)
    assert server.wait(20) == 0


def rsh(variables: dict[str, str], *words: str, **named: bytes) -> tuple[int, bytes, bytes]:
    command = [sys.executable, "-c", CALL, *words]
    done = subprocess.run(
        command, env=variables, capture_output=True, timeout=60, check=False, **named
    )
    return done.returncode, done.stdout, done.stderr


def test_a_command_has_its_own_input_output_errors_and_exit_code(variables) -> None:
    words = ("-x", "-o", "BatchMode=yes", "me@127.0.0.1", "cat;", "echo", "no", ">&2;", "exit 7")
    assert rsh(variables, *words, input=b"some input") == (7, b"some input", b"no\n")


def test_much_output_arrives_whole(variables) -> None:
    code, output, _ = rsh(variables, "127.0.0.1", "head -c 3000000 /dev/zero; kill -9 $$")
    assert (code, len(output)) == (247, 3_000_000)  # -9 as a byte


def test_a_daemon_that_a_command_leaves_does_not_hold_it(variables, tmp_path: Path) -> None:
    begun = time.monotonic()
    code, output, _ = rsh(variables, "127.0.0.1", f"sleep 30 & echo $! > {tmp_path}/pid; echo on")
    assert (code, output) == (0, b"on\n")
    assert time.monotonic() - begun < 25
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_command_ends_with_its_caller(variables, tmp_path: Path) -> None:
    words = ("127.0.0.1", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
    caller = subprocess.Popen([sys.executable, "-c", CALL, *words], env=variables)
    while not (tmp_path / "pid").exists() or not (pid := (tmp_path / "pid").read_text().strip()):
        time.sleep(0.02)
    caller.kill()
    caller.wait()
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.02)
    raise AssertionError("the command goes on")


def test_a_site_that_cannot_be_reached_is_named(variables, monkeypatch) -> None:
    code, _, errors = rsh({**variables, "TRUNKLINE_RSH_PORT": "1"}, "no.such.site", "true")
    assert code == remote_shell.UNREACHABLE
    assert b"cannot reach no.such.site" in errors
    assert rsh(variables, "127.0.0.1")[0] == remote_shell.UNREACHABLE
