"""Runs on another machine, which here is a real OpenSSH server on the loopback interface.

The far side is this checkout; the near side has a home folder of its own. Only the last tests carry
out runs, in the embedded kernel.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pty
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import far
import pytest

from trunkline.harness.processes.ownership import Owner
from trunkline.harness.record.run_folder import StoreError
from trunkline.harness.runs import orphans
from trunkline.harness.runs.remote import BrokenError, RemoteError, jobs, ssh
from trunkline.harness.runs.remote import client as near_side
from trunkline.harness.runs.remote.client import Host
from trunkline.harness.runs.remote.jobs import Job, Request
from trunkline.harness.runs.remote.protocol import Wire
from trunkline.harness.scenario.loading import load, resolve

COMMAND = f"{sys.executable} -m trunkline.harness.commands.main"

LONG = """
name: long
topology: {builder: full_mesh, sites: 2, rates: 100 Mbit/s, delays: 20 ms}
workload: {kind: synthetic, model: 1 MB, compute: 1 s}
scheme: {policy: bsp, plan: ring}
stop: {time: 10000 s}
limits: {run: 20000 s}
outputs: {plots: false}
"""
PROGRAM = """
name: sent
topology: {builder: full_mesh, sites: 2, rates: 100 Mbit/s, delays: 20 ms}
timeline: [{at: 0 s, do: trace n1 n2 rate.csv}]
workload: {kind: program, folder: programs, command: [./say.sh, words.txt]}
outputs: {plots: false}
"""

OWN = LONG.replace("kind: synthetic", "kind: mine.py, data: random")
MINE = """
from trunkline.workloads.synthetic import build as synthetic, model_bytes

def build(rank, sites, seed, *, model_bytes: int, compute_s: float, data: str):
    return synthetic(rank, sites, seed, model_bytes=model_bytes, compute_s=compute_s)
"""

requires_sshd = pytest.mark.skipif(
    far.SSHD is None or shutil.which("ssh-agent") is None,
    reason="there is no OpenSSH server here: apt-get install openssh-server openssh-client",
)
pytestmark = requires_sshd


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with far.Server(tmp_path_factory.mktemp("far")) as server:
        yield server


@pytest.fixture
def server(shared, monkeypatch):
    """The server, and this process as its near side."""
    monkeypatch.setenv("HOME", str(shared.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield shared
    shared.be_known()
    (shared.home / ".ssh" / "config").unlink(missing_ok=True)


@pytest.fixture
def identity(server):
    """The only key that the server knows; back in its place at the end."""
    key = server.home / ".ssh" / "id_ed25519"
    kept = key.read_bytes()
    yield key
    key.write_bytes(kept)
    key.chmod(0o600)


def reach(server: far.Server, address: str | None = None) -> str:
    """What a shell there prints, or why there is no connection."""
    named = ssh.Address.parse(address or server.address)
    with ssh.start(named, "echo reached", server.config) as program:
        with pytest.raises(BrokenError, match="the connection was closed"):
            program.wire.skip_to(b"never")
        code, said = program.wait()
    return ssh.explain(named, said, server.config) if code == ssh.FAILED else f"reached {code}"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host", ssh.Address("host")),
        ("ada@host.example.org:2222", ssh.Address("host.example.org", "ada", 2222)),
        ("[::1]:22", ssh.Address("::1", None, 22)),
        ("ada@corp@host", None),
        ("host.example.org.", ssh.Address("host.example.org.")),
        ("a..b", None),
        (f"{'h' * 64}.org", None),
        ("host:0", None),
        ("-oProxyCommand=x", None),
        ("-oProxyCommand=x@host", None),
        ("", None),
    ],
)
def test_an_address_has_a_host_and_perhaps_a_user_and_a_port(text, address):
    if address is None:
        with pytest.raises(RemoteError, match="is not an address"):
            ssh.Address.parse(text)
    else:
        assert ssh.Address.parse(text) == address


def test_a_key_that_the_server_knows_opens(server):
    assert reach(server) == "reached 0"


@pytest.fixture
def no_ssh(monkeypatch):
    """There is no `ssh` command here."""
    monkeypatch.setattr(ssh.shutil, "which", lambda name: None)


@pytest.mark.usefixtures("no_ssh")
def test_without_an_ssh_command_a_known_host_and_a_usual_key_suffice(server):
    named = ssh.Address.parse(server.address)
    with ssh.start(named, "cat; echo oops >&2; exit 3") as program:
        program.wire.send({"said": "there and back"})
        program.channel.shutdown_write()
        assert program.wire.receive()[0]["said"] == "there and back"
        with pytest.raises(BrokenError, match="the connection was closed"):
            program.wire.skip_to(b"never")
        assert program.wait() == (3, "oops")


@pytest.mark.usefixtures("no_ssh")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("known_hosts", "not found in known_hosts"),
        ("id_ed25519", "No authentication methods available"),
        ("config", "only the ssh command knows SSH configurations"),
    ],
)
def test_without_an_ssh_command_the_reason_comes_with_the_remedy(server, identity, name, said):
    file = server.home / ".ssh" / name
    if name == "config":
        file.write_text("Host *\n")
    else:
        file.unlink()
    named = ssh.Address.parse(server.address)
    starting = ssh.start(named, "true")
    with pytest.raises(RemoteError, match="install openssh-client") as raised, starting:
        pass
    assert said in str(raised.value)


def test_an_unknown_host_is_refused_with_the_command_that_asks_about_it(server):
    (server.home / ".ssh" / "known_hosts").unlink()
    said = reach(server)
    assert "no SSH connection" in said and "Host key verification failed." in said
    assert said.endswith(f": ssh -F {server.config} -p {server.port} 127.0.0.1 true")


def test_a_changed_host_key_is_refused_loudly(server):
    far.make_key(server.folder / "another")
    server.be_known("another")
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED!" in reach(server)


def test_a_key_that_the_server_does_not_know_is_refused_in_the_words_of_ssh(server, identity):
    identity.unlink()
    shutil.copy(far.make_key(server.folder / "wrong"), identity)
    assert "Permission denied (publickey)" in reach(server)


def test_a_key_with_a_passphrase_is_asked_of_an_agent(server, identity, tmp_path, monkeypatch):
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", "hunter2", "-f", identity], check=True
    )
    assert "Permission denied" in reach(server)

    agent = tmp_path / "agent"
    asker = tmp_path / "ask"
    asker.write_text("#!/bin/sh\necho hunter2\n")
    asker.chmod(0o700)
    process = subprocess.Popen(["ssh-agent", "-D", "-a", agent], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()  # so it listens
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        asking = {"SSH_ASKPASS": str(asker), "SSH_ASKPASS_REQUIRE": "force"}
        subprocess.run(["ssh-add", "-q", identity], check=True, env={**os.environ, **asking})
        assert reach(server) == "reached 0"
    finally:
        process.terminate()
        process.communicate()


def test_on_a_terminal_ssh_asks_for_the_passphrase_itself(server, identity):
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", "hunter2", "-f", identity], check=True
    )
    program = (
        "import sys; from pathlib import Path; from trunkline.harness.runs.remote import ssh\n"
        "address = ssh.Address.parse(sys.argv[1])\n"
        "with ssh.start(address, 'echo reached', Path(sys.argv[2])) as program:\n"
        "    print(program.wire.read())"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        words = [sys.executable, "-c", program, server.address, str(server.config)]
        os.execv(sys.executable, words)
    said = b""
    while b"passphrase" not in said:
        said += os.read(terminal, 1 << 10)
    os.write(terminal, b"hunter2\n")
    with contextlib.suppress(OSError):  # the terminal closes when the program ends
        while data := os.read(terminal, 1 << 10):
            said += data
    os.close(terminal)
    assert os.waitpid(pid, 0)[1] == 0 and b"b'reached\\n'" in said


def test_the_whole_ssh_configuration_holds(server, identity):
    """Include, another key, ProxyJump, ProxyCommand, a shared connection that outlives ours."""
    moved = identity.rename(server.home / "moved")
    own = server.home / ".ssh" / "config"
    (server.home / ".ssh" / "more").write_text(
        f"Host gate\n  HostName 127.0.0.1\n  Port {server.port}\n"
    )
    there = f"HostName 127.0.0.1\n  Port {server.port}"
    own.write_text(
        f"Include {server.home}/.ssh/mo*\nIdentityFile {moved}\n"
        f"Host lab\n  {there}\n  ProxyCommand ssh -F {server.config} -W %h:%p gate\n"
        f"Host beyond\n  {there}\n  ProxyJump gate\n"
        f"Host shared\n  {there}\n  ControlMaster auto\n  ControlPersist 60\n"
        f"  ControlPath {server.folder}/shared\n"
    )
    for name in ("gate", "lab", "beyond", "shared", "shared"):
        assert reach(server, name) == "reached 0"
    stop = ["ssh", "-F", server.config, "-O", "exit", "shared"]
    assert subprocess.run(stop, capture_output=True).returncode == 0
    assert "Connection refused" in reach(server, "127.0.0.1:1")


def test_what_is_missing_here_is_named(server, monkeypatch):
    with pytest.raises(
        RemoteError, match="/none/ssh_config: this SSH configuration does not exist"
    ):
        attach(dataclasses.replace(server, folder=Path("/none")))
    monkeypatch.setenv("PATH", str(server.folder))
    with pytest.raises(RemoteError, match="there is none here: apt-get install openssh-client"):
        attach(server)


def test_a_machine_that_does_not_answer_is_given_up(server, monkeypatch):
    monkeypatch.setattr(ssh, "ANSWER_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = reach(server, f"127.0.0.1:{silent.getsockname()[1]}")
    assert "timed out" in said


def options(server) -> list[str | Path]:
    return ["--remote-command", COMMAND, "--ssh-config", server.config]


def attach(server, command=COMMAND, name=None):
    """What `trunkline attach` does, without a terminal."""

    def quiet(*_):
        pass

    host = Host(server.address, command, server.config)
    return near_side.attach(host, name, server.folder / "runs", quiet, quiet)


def test_where_there_is_no_trunkline_it_is_said_what_to_do(server):
    with pytest.raises(RemoteError, match="there is no 'trunkline-x' there") as caught:
        attach(server, "trunkline-x")
    assert "--remote-command" in str(caught.value)


@pytest.mark.parametrize(
    ("says", "text"),
    [('{"trunkline": "0.0.1", "protocol": 1}', "has Trunkline 0.0.1 "), ("hello", "ended with 0")],
)
def test_another_version_and_another_program_are_refused(server, tmp_path, says, text):
    other = tmp_path / "other"
    other.write_text(f"#!/bin/sh\necho {shlex.quote(says)}\n")
    other.chmod(0o755)
    with pytest.raises(RemoteError, match=text):
        attach(server, str(other))


def test_a_message_of_the_login_shell_is_no_greeting(server):
    with pytest.raises(RemoteError, match=r"has no run of yours.*run FILE --on"):
        attach(server, f"echo Welcome to this machine! && {COMMAND}")


def test_trunkline_there_may_take_longer_to_start_than_to_speak(server, monkeypatch):
    monkeypatch.setattr(ssh, "SILENCE_S", 0.01)
    with pytest.raises(RemoteError, match="has no run of yours"):
        attach(server)


def test_a_name_from_the_other_side_stays_in_its_folder(tmp_path):
    for name in ("../evil", "/etc/evil", "a/../../evil", ""):
        sent = json.dumps({"file": name, "bytes": 1}).encode() + b"\nx"
        pieces = iter([sent, b""])
        with pytest.raises(BrokenError, match="not allowed as a file name"):
            Wire(lambda p=pieces: next(p), lambda data: None).receive_files(tmp_path / "in")


@pytest.fixture
def over(server):
    """A run that was sent there and is over."""
    job = Job(server.state / "trunkline" / "remote" / "done-20260101-000000")
    run = job.path / jobs.RUNS / "done" / "20260101-000000"
    (run / "tables").mkdir(parents=True)
    scenario = server.folder / "done.yaml"
    scenario.write_text(LONG.replace("name: long", "name: done"))
    (job.path / "source.yaml").write_text(scenario.read_text())
    (run / "scenario.yaml").write_text(scenario.read_text())
    request = Request("done", resolve(load(scenario)), str(scenario), ())
    (job.path / "request.json").write_text(json.dumps(request.to_json()))
    (job.path / "owner").write_text(Owner("0" * 8, 1, 1).tag)
    (run / "events.jsonl").write_text("{}\n" * 100_000)
    (run / "environment.json").write_text("{}")
    check = {"name": "all is well", "outcome": "pass", "detail": "yes"}
    (run / "verdict.json").write_text(json.dumps({"verdict": "pass", "checks": [check]}))
    said = {"over": {"run_dir": "done/20260101-000000", "error": None}}
    (job.path / jobs.SAID).write_text(json.dumps(said) + "\n")
    return job


def test_a_full_disk_here_leaves_the_run_there_to_be_fetched_later(server, over):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(
            StoreError, match=r"cannot be written.*\n.*fetch it with: trunkline att"
        ):
            attach(server)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (server.folder / "runs" / "done").exists()

    result = attach(server)
    assert (result.verdict.outcome, result.error) == ("pass", None)
    assert (result.run_dir / "events.jsonl").read_text() == "{}\n" * 100_000
    assert (result.run_dir.parent / "latest").resolve() == result.run_dir
    assert not server.state.joinpath("trunkline").exists()


def test_a_run_whose_machine_was_restarted_is_said_to_be_gone(server, over):
    (over.path / jobs.SAID).write_text("")
    (over.path / jobs.LOG).write_text("its last words")
    with pytest.raises(RemoteError, match=r"the machine restarted\?\nits last words"):
        attach(server, name=over.name)
    assert not over.path.exists()


def test_a_folder_that_is_too_large_to_send_is_refused_before_anything_begins(
    tmp_path, monkeypatch
):
    (tmp_path / "runs").mkdir()
    for name in ("a.py", ".git", "__pycache__", "runs/big"):
        (tmp_path / name).write_text("text")
    assert [n for n, _ in near_side._list_contents("folder", tmp_path, tmp_path / "runs")] == [
        "a.py"
    ]
    monkeypatch.setattr(near_side, "MAX_BYTES", 3)
    with pytest.raises(RemoteError, match=r"^workload.folder: .*: expected"):
        near_side._list_contents("folder", tmp_path, tmp_path / "runs")


@pytest.fixture
def begin(server, embedded):
    """Begins a run there; yields a function that returns the client and the run's name."""
    clients = []

    def start(text: str) -> tuple[subprocess.Popen[str], str]:
        file = server.folder / "scenario.yaml"
        file.write_text(text)
        words = ["run", file, "--on", server.address, *options(server)]
        client = server.trunkline(*words)
        clients.append(client)
        name = re.match(r"(\S+) runs on", client.stderr.readline())
        assert name, client.stderr.read()
        return client, name[1]

    yield start
    for client in clients:
        if client.poll() is None:
            client.send_signal(signal.SIGINT)
        client.communicate()


def test_a_run_outlives_its_connection_and_comes_back_with_what_it_sent_along(server, begin):
    programs = server.folder / "programs"
    programs.mkdir()
    (programs / "say.sh").write_text("#!/bin/sh\nsleep 1\nping -c 1 -q n1 >&2\ncat $1\n")
    (programs / "say.sh").chmod(0o755)
    (programs / "words.txt").write_text("these words were sent along\n")
    (server.folder / "rate.csv").write_text("time,rate\n0,50\n1,20\n")
    client, name = begin(PROGRAM)
    server.cut()
    _, err = client.communicate()
    assert client.returncode == 70
    assert f"pick it up with: trunkline attach --remote-command '{COMMAND}'" in err and name in err

    code, out, err = server.says("attach", server.address, name, "--quiet", *options(server))
    assert code == 0, err
    run = Path(out.removeprefix("pass  ").strip())
    assert run.parent == server.folder / "runs" / "sent"
    assert (run / "log" / "n2.out").read_text() == "these words were sent along\n"
    assert (run / "scenario.yaml").read_text() == PROGRAM
    assert f"folder: {programs}" in (run / "resolved.yaml").read_text()
    assert not server.state.joinpath("trunkline").exists()


def test_of_two_runs_there_one_is_ended_by_ctrl_c_after_its_client_was_killed(server, begin):
    """The first one is of a workload in a file beside the scenario, which goes along."""
    (server.folder / "mine.py").write_text(MINE)
    killed, first = begin(OWN)
    (server.folder / "mine.py").unlink()
    killed.kill()
    killed.communicate()
    other, second = begin(LONG)
    assert first != second
    with pytest.raises(RemoteError, match=f"name one of the runs: {first}, {second}"):
        attach(server)

    folder = server.state / "trunkline" / "remote"
    owners = {name: Owner.of_tag((folder / name / "owner").read_text()) for name in (first, second)}
    client = server.trunkline("attach", server.address, first, *options(server))
    while "rounds" not in client.stderr.readline():
        assert client.poll() is None
    client.send_signal(signal.SIGINT)
    assert client.wait() == 130
    client.communicate()
    assert not owners[first].alive() and not (folder / first).exists()
    assert owners[second].alive() and other.poll() is None

    other.send_signal(signal.SIGTERM)
    assert other.wait() == 143
    assert not owners[second].alive() and not (server.state / "trunkline").exists()
    left = orphans.find_unfinished(server.folder / "runs")
    assert [each.owner.pid for each in left] == [killed.pid]  # which is what `clean` is for
