"""Runs side by side, one of them killed: the other goes on, and `clean` finds just what is left."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trunkline.harness.commands import main
from trunkline.harness.kernel import probes
from trunkline.harness.processes import ownership
from trunkline.harness.processes.ownership import Owner
from trunkline.harness.runs import orphans

ROOT = Path(__file__).parents[3]
UNTIL_GONE_S = 30.0

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="builds namespaces: needs root")

# Builds a network with a program at site a, and pings there whenever it is told to.
NETWORK = """
import sys
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology
links = tuple(Link(src, dst, 50.0) for src, dst in ("ab", "ba"))
network = MininetNetwork(Topology("pair", (Site("a"), Site("b")), links))
network.start()
shell = network.mininet["a"]
program = ["sh", "-c", "echo up && exec sleep 1000"]
programs = [network.mininet[site].popen(program) for site in "ab"]
for program in programs:
    program.stdout.readline()  # until then mnexec has not left this process group
print(*(program.pid for program in programs), flush=True)
for _ in sys.stdin:
    print("2 received" in shell.cmd("ping -c 2 -i 0.01 -W 2", network.address("b")), flush=True)
for program in programs:
    program.kill()
    program.wait()
network.stop()
"""
GUEST = """
import sys
from trunkline.harness.kernel import boot
source = "import itertools, time\\nfor i in itertools.count(): print(i); time.sleep(0.1)"
boot.run([sys.executable, "-u", "-c", source], clock="real")
"""
LONG_RUN = """
topology: {builder: full_mesh, sites: 3, rates: 50 Mbit/s, delays: 0 ms}
workload: {kind: synthetic, model: 100 kB, compute: 0.1 s}
scheme: {policy: bsp, plan: ring, chunk: 10 kB}
stop: {tasks: 10000}
backend: host
clock: real
outputs: {plots: false}
"""
FORKS = """
import logging, os, signal  # logging has functions of its own called after a fork
from trunkline.harness.processes.fork import signals_held

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, stop)
kept = 0
for _ in range(200):
    try:
        with signals_held():
            child = os.fork()
            if child == 0:
                os.kill(os.getppid(), signal.SIGTERM)
                os._exit(0)
            os.waitpid(child, 0)
    except KeyboardInterrupt:
        kept += 1
print(kept)
"""


@pytest.fixture(autouse=True)
def alone(tmp_path_factory):
    """One test at a time: `clean` would remove what another test in another process leaves."""
    with (tmp_path_factory.getbasetemp().parent / "clean.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def dead_owner():
    child = subprocess.Popen(["sleep", "1000"])
    stat = Path(f"/proc/{child.pid}/stat").read_text()
    owner = Owner(Owner.me().place, child.pid, int(stat.split()[21]))
    assert owner.alive()
    child.kill()
    child.wait()
    return owner


@pytest.fixture
def stranger():
    """A function that starts a process in a namespace, with links of its own; returns its id."""
    command = "ip link add l0-8 type veth peer name l0-9 && echo up && exec sleep 1000"
    children = []

    def start_in(namespace):
        argv = ["nsenter", f"--net={namespace}", "sh", "-c", command]
        children.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        assert children[-1].stdout.readline() == "up\n"
        return children[-1].pid

    yield start_in
    for child in children:
        with child:
            child.kill()


def start(*argv, **options):
    return subprocess.Popen(
        argv,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        **options,
    )


def exists(pid):
    """Whether there is such a process, other than one that only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids(line):
    return sorted(map(int, line.split()))


def wait_until(true):
    deadline_s = time.monotonic() + UNTIL_GONE_S
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def tagged(owner):
    """The processes that carry the owner's tag."""
    tag = f"{ownership.VARIABLE}={owner.tag}\0".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if tag in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return sorted(found)


def owner_of(child):
    stat = Path(f"/proc/{child.pid}/stat").read_text()
    return Owner(Owner.me().place, child.pid, int(stat.rpartition(")")[2].split()[19]))


def test_a_tag_names_its_owner():
    me = Owner.me()
    assert Owner.of_tag(f"trunkline-{me.tag}-x7") == me
    assert me.alive() is True
    assert Owner.of_tag("trunkline-x7") is None


def test_a_process_that_got_the_id_of_a_dead_owner_is_not_taken_for_it():
    me = Owner.me()
    assert Owner(me.place, me.pid, me.started - 1).alive() is False


def test_an_owner_that_waits_to_be_reaped_is_dead():
    child = subprocess.Popen(["sleep", "1000"])
    owner = owner_of(child)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert owner.alive() is False
    child.wait()


def test_whether_an_owner_elsewhere_is_alive_is_not_known():
    assert Owner("00000000", os.getpid(), 1).alive() is None


def test_only_scratch_folders_of_dead_owners_are_found(tmp_path, dead_owner):
    elsewhere = Owner("00000000", 1, 1)
    for owner in (dead_owner, Owner.me(), elsewhere):
        (tmp_path / f"trunkline-{owner.tag}-abc").mkdir()
    (tmp_path / "trunkline-abc").mkdir()
    (tmp_path / f"trunkline-{dead_owner.tag}-link").symlink_to(ROOT)
    (tmp_path / f"trunkline-{dead_owner.tag}-file").touch()
    found = [left for left in orphans.find([tmp_path]) if left.owner == dead_owner]
    assert [left.path.name for left in found] == [f"trunkline-{dead_owner.tag}-abc"]
    found[0].remove()
    found[0].remove()
    assert len(list(tmp_path.iterdir())) == 5


def test_a_process_whose_id_was_given_to_another_is_not_killed(dead_owner):
    with subprocess.Popen(["sleep", "1000"]) as other:
        orphans.Process(dead_owner, other.pid, "sleep").remove()
        assert other.poll() is None
        other.kill()


def test_the_folders_of_unfinished_runs_are_kept_unless_asked_for(tmp_path, dead_owner, capsys):
    owners = {"done": dead_owner, "killed": dead_owner, "running": Owner.me()}
    for name, owner in owners.items():
        run_dir = tmp_path / "ring" / name
        run_dir.mkdir(parents=True)
        (run_dir / "environment.json").write_text(json.dumps({"owner": owner.tag}))
    (tmp_path / "ring" / "old").mkdir()
    (tmp_path / "ring" / "done" / "verdict.json").write_text('{"verdict": "pass"}')
    main.main(["list", "runs", "--runs", str(tmp_path)])
    verdicts = [line.split("  ")[-1].strip() for line in capsys.readouterr().out.splitlines()]
    assert verdicts == ["pass", "not finished", "not finished", "running"]
    assert main.main(["clean", "--runs", str(tmp_path)]) == 0
    assert main.main(["clean", "--unfinished", "--dry-run", "--runs", str(tmp_path)]) == 0
    assert f"would remove folder {tmp_path}/ring/killed\n" in capsys.readouterr().out
    assert main.main(["clean", "--unfinished", "--runs", str(tmp_path)]) == 0
    assert sorted(path.name for path in (tmp_path / "ring").iterdir()) == ["done", "old", "running"]


@needs_root
def test_of_two_networks_the_killed_one_s_program_is_found_and_the_other_is_undisturbed(capsys):
    killed, other = (start(sys.executable, "-c", NETWORK, process_group=0) for _ in range(2))
    with killed, other:
        programs, others = pids(killed.stdout.readline()), pids(other.stdout.readline())
        owner = owner_of(killed)
        assert [left for left in orphans.find([]) if left.owner == owner] == []
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        wait_until(lambda: tagged(owner) == programs)
        assert main.main(["clean"]) == 0
        said = capsys.readouterr().out
        assert all(f"removed process {program} (sleep 1000)\n" in said for program in programs)
        wait_until(lambda: not any(map(exists, programs)))
        assert all(map(exists, others))
        print(file=other.stdin, flush=True)
        assert other.stdout.readline() == "True\n"
        other.stdin.close()
        assert other.wait() == 0


@needs_root
def test_links_that_live_on_in_a_stranger_s_processes_are_removed_but_nothing_of_his(stranger):
    with start(sys.executable, "-c", NETWORK, process_group=0) as network:
        programs = pids(network.stdout.readline())
        owner = owner_of(network)
        his = [stranger(f"/proc/{program}/ns/net") for program in programs]
        os.killpg(network.pid, signal.SIGKILL)
        network.wait()
    for left in orphans.find([]):
        if isinstance(left, orphans.Site):  # found through a shell that ended before the removal
            left = dataclasses.replace(left, pids=(network.pid, *left.pids))
        if left.owner == owner:
            left.remove()
    assert [left for left in orphans.find([]) if left.owner == owner] == []
    assert all(map(exists, his))
    shown = subprocess.run(
        ["nsenter", f"--net=/proc/{his[0]}/ns/net", "ip", "-brief", "link"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in shown.stdout.splitlines()] == [
        "lo",
        "l0-9@l0-8",
        "l0-8@l0-9",
    ]


@needs_root
def test_a_killed_run_takes_its_session_and_agents_along_and_is_never_the_latest(tmp_path):
    (tmp_path / "long.yaml").write_text(LONG_RUN)
    run = ("run", str(tmp_path / "long.yaml"), "--runs", str(tmp_path / "runs"), "--quiet")
    with start(sys.executable, "-m", "trunkline.harness.commands.main", *run) as runner:
        owner = owner_of(runner)
        # A session, a controller and three workers.
        wait_until(lambda: len(tagged(owner)) == 5 or runner.poll() is not None)
        assert runner.poll() is None
        runner.kill()
    wait_until(lambda: tagged(owner) == [])
    (left,) = orphans.find_unfinished(tmp_path / "runs")
    assert left.owner == owner
    assert [path.name for path in (tmp_path / "runs" / "long").iterdir()] == [left.path.name]
    for scratch in orphans.find(probes.MEMORY_FOLDERS):
        if scratch.owner == owner:
            scratch.remove()


def test_a_signal_that_comes_during_a_fork_is_not_lost():
    forks = (sys.executable, "-c", FORKS)
    assert subprocess.run(forks, capture_output=True, text=True).stdout == "200\n"


@needs_root
def test_agents_die_with_their_session(tmp_path):
    (tmp_path / "long.yaml").write_text(LONG_RUN)
    run = ("run", str(tmp_path / "long.yaml"), "--runs", str(tmp_path / "runs"), "--quiet")
    with start(sys.executable, "-m", "trunkline.harness.commands.main", *run) as runner:
        owner = owner_of(runner)
        wait_until(lambda: len(tagged(owner)) == 5 or runner.poll() is not None)
        session = Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text()
        os.kill(int(session), signal.SIGKILL)
        wait_until(lambda: tagged(owner) == [])
        assert runner.wait() == 2  # the log breaks off, so nothing is known of the run


@pytest.mark.usefixtures("embedded")
def test_of_two_guests_the_killed_one_leaves_nothing_and_the_other_is_undisturbed():
    killed, other = (start(sys.executable, "-c", GUEST) for _ in range(2))
    with killed, other:
        for guest in (killed, other):
            assert guest.stdout.readline() == "0\n"
        owner, others = owner_of(killed), owner_of(other)
        assert tagged(owner) != []
        killed.kill()
        killed.wait()
        wait_until(lambda: tagged(owner) == [])
        assert [left for left in orphans.find(probes.MEMORY_FOLDERS) if left.owner == owner] == []
        assert [other.stdout.readline() for _ in range(10)] == [f"{i}\n" for i in range(1, 11)]
        other.send_signal(signal.SIGTERM)
        other.wait()
    assert tagged(others) == []
