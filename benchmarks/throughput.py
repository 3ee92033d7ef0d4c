"""Measure the bytes that the emulation moves per second of one core, and the upper limit.

    python benchmarks/throughput.py embedded      all-to-all of eight sites, embedded kernel
    sudo python benchmarks/throughput.py host     all-to-all of four sites, this host, and iperf3

In the embedded kernel, the same links carry the same bytes twice: between agents, and in a bare
loop of sends and receives, which is the least that any program has to do. The cost is processor
seconds of all guest processes, so other work on the machine matters less; the best of `--repeat`
counts. On the host, agents and iperf3 fill the machine one after the other, and real time counts.
Neither paces its packets there: links without a delay have no round trip to spread them over.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from trunkline.agents.events.run_events import AgentFailed
from trunkline.agents.events.task_events import TaskCompleted, TaskStarted
from trunkline.agents.wire.dial import WORKER_PORT, Peer, listen, mesh
from trunkline.agents.wire.identity import Gate, Identity
from trunkline.harness.kernel import boot, build
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.harness.scenario.loading import parse
from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.session.agent_children import AgentChildren
from trunkline.harness.session.supervisor import Supervisor

ROOT = Path(__file__).resolve().parents[1]

EMBEDDED_BYTES = 10_480_000
"""The model's size. An all-to-all of eight sites has 56 flows: 587 MB."""
EMBEDDED = f"""
topology: {{builder: full_mesh, sites: 8, rates: [20 Mbit/s, 150 Mbit/s], delays: 30 ms}}
workload: {{kind: synthetic, model: {EMBEDDED_BYTES} B, compute: 0.1 s}}
scheme: {{policy: bsp, plan: a2a}}
stop: {{tasks: 1}}
"""

HOST_BYTES = 200_000_000
HOST_TASKS = 9
"""The number of tasks. The first one is not counted: its connections and memory are new."""
HOST = f"""
backend: host
topology: {{builder: full_mesh, sites: 4, rates: 100 Gbit/s, delays: 0 ms}}
network: {{offloads: true, pacing: false}}
workload: {{kind: synthetic, model: {HOST_BYTES} B, compute: 0.1 s}}
scheme: {{policy: bsp, plan: a2a, chunk: 1 MiB}}
stop: {{tasks: {HOST_TASKS}}}
"""
IPERF_S = 5
IPERF_PORT = 5300

BARE_CALL_BYTES = 1 << 20
HELLO_S = 60
FAILED = b"!"
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run the measurement that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("embedded", "host", "agents", "bare"))
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the best counts")
    arguments = parser.parse_args()
    match arguments.what:
        case "embedded":
            measure_embedded(arguments.repeat)
        case "host":
            measure_host(arguments.repeat)
        case "agents":
            _run_agents(parse(EMBEDDED, "throughput.yaml"), _mark)
        case "bare":
            _run_bare(parse(EMBEDDED, "throughput.yaml"))


def measure_embedded(repeat: int) -> None:
    """Measure agents and the bare loop in the embedded kernel, by turns."""
    build.ensure(boot.try_out)
    best = {"agents": 0.0, "bare": 0.0}
    for _ in range(repeat):
        for what in best:
            cpu_s, virtual_s = _measure_in_guest(what)
            rate = 56 * EMBEDDED_BYTES / cpu_s / 1e6
            best[what] = max(best[what], rate)
            _say(f"{what:8} {rate:6.1f} MB per core second; {virtual_s:.4f} s of virtual time")
    _say(
        f"best     {best['agents']:6.1f} of {best['bare']:.1f}, {best['agents'] / best['bare']:.2f}"
    )


def measure_host(repeat: int) -> None:
    """Measure agents, and iperf3 from every site to every other, on this host without shaping."""
    scenario = parse(HOST, "throughput.yaml")
    for _ in range(repeat):
        spans = _run_agents(scenario, lambda _: None)[1:]
        ours = 12 * HOST_BYTES * len(spans) / sum(spans)
        theirs = _run_iperf(scenario)
        _say(f"agents {ours / 1e6:7.0f} MB/s, iperf3 {theirs / 1e6:7.0f} MB/s, {ours / theirs:.2f}")


def _measure_in_guest(what: str) -> tuple[float, float]:
    """Run this file in the guest; return processor and virtual seconds between its two marks."""
    marks: list[tuple[float, float]] = []
    rest = b""

    def hear(data: bytes) -> None:
        nonlocal rest
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"mark "):
                marks.append((_read_children_cpu_s(), int(line.split()[1]) / 1e9))

    if code := boot.run([sys.executable, __file__, what], cwd=ROOT, seed=1, on_output=hear):
        raise SystemExit(f"the measurement ended with code {code}: {rest.decode()}")
    (cpu_s, now_s), (end_cpu_s, end_s) = marks
    return end_cpu_s - cpu_s, end_s - now_s


def _read_children_cpu_s() -> float:
    """Processor seconds of our children's sessions, ended processes included."""
    stats = list(_read_stats())
    sessions = {fields[3] for fields in stats if int(fields[1]) == os.getpid()}
    ticks = 0
    for fields in stats:
        if fields[3] in sessions and int(fields[3]) != os.getsid(0):
            ticks += sum(map(int, fields[11:13]))
            if int(fields[1]) == os.getpid():
                ticks += sum(map(int, fields[13:15]))
    return ticks / CLOCK_TICKS_PER_S


def _read_stats() -> Iterator[list[str]]:
    """The fields of /proc/PID/stat of every process, from the state on."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = (process / "stat").read_text()
            yield stat[stat.rindex(")") + 2 :].split()


def _run_agents(scenario: Scenario, mark: Callable[[int], None]) -> list[float]:
    """Run the agents; return the seconds of each task.

    `mark` gets the start of the first task and the end of the last one, in ns.
    """
    scenario.workload.module.preload(**scenario.workload.options)
    spans: list[float] = []
    started_ns = 0
    with (
        _run_network(scenario) as network,
        tempfile.TemporaryDirectory() as logs,
        Supervisor(
            scenario, AgentChildren(scenario, network, "throughput", Path(logs))
        ) as supervisor,
    ):
        supervisor.start()
        for logged in supervisor.events():
            match event := logged.event:
                case TaskStarted():
                    started_ns = event.t_ns
                    if not spans:
                        mark(started_ns)
                case TaskCompleted():
                    spans.append((event.t_ns - started_ns) / 1e9)
                    if len(spans) == scenario.stop.tasks:
                        mark(event.t_ns)
                case AgentFailed():
                    raise SystemExit(event.reason)
    return spans


def _run_bare(scenario: Scenario) -> None:
    """Run the bare loop: a process per site sends to all others and receives from them."""
    with _run_network(scenario) as network:
        sites = scenario.topology.site_names
        ready, report = os.pipe()
        wait, go = os.pipe()
        children = []
        for site in sites:
            if (pid := os.fork()) == 0:
                try:
                    network.enter(site)
                    _exchange(network, site, report, wait)
                except BaseException:
                    traceback.print_exc()
                    os.write(report, FAILED)
                    os._exit(1)
                os._exit(0)
            children.append(pid)
        for state in ("all listen", "all are connected"):
            for _ in sites:
                if os.read(ready, 1) == FAILED:
                    raise SystemExit("a site's process failed")
            if state == "all are connected":
                _mark(time.monotonic_ns())
            os.write(go, bytes(len(sites)))
        if any(os.waitpid(pid, 0)[1] for pid in children):
            raise SystemExit("a site's process failed")
        _mark(time.monotonic_ns())


def _exchange(network: MininetNetwork, me: str, report: int, wait: int) -> None:
    """Send a model to every other site and drop incoming bytes, in as few calls as possible.

    The connections are made and configured like those of the agents.
    """
    sites = network.topology.site_names
    here = sites.index(me)
    peers = [
        Peer(site, network.address(site), WORKER_PORT, network.device(me, site), pacing=True)
        for site in sites
        if site != me
    ]
    listener = listen(network.address(me), WORKER_PORT)
    os.write(report, b".")
    os.read(wait, 1)
    gate = Gate(Identity("bare", b""), me, 0, HELLO_S, lambda why, _: _say(why))
    links = asyncio.run(mesh(listener, gate, peers[:here], peers[here:])).values()
    os.write(report, b".")
    os.read(wait, 1)
    poll = select.epoll()
    buffer = bytearray(BARE_CALL_BYTES)
    by_fd = {link.fileno(): link for link in links}
    to_send = dict.fromkeys(by_fd, memoryview(bytes(EMBEDDED_BYTES)))
    to_get = dict.fromkeys(by_fd, EMBEDDED_BYTES)
    for fd, link in by_fd.items():
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, BARE_CALL_BYTES)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, BARE_CALL_BYTES)
        poll.register(fd, select.EPOLLIN | select.EPOLLOUT)
    while to_send or to_get:
        for fd, events in poll.poll():
            if events & select.EPOLLOUT and fd in to_send:
                to_send[fd] = to_send[fd][by_fd[fd].send(to_send[fd]) :]
                if not to_send[fd]:
                    del to_send[fd]
                    poll.modify(fd, select.EPOLLIN)
            if events & select.EPOLLIN and fd in to_get:
                to_get[fd] -= by_fd[fd].recv_into(buffer)
                if 0 < to_get[fd] < BARE_CALL_BYTES:
                    by_fd[fd].setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, to_get[fd])
                if not to_get[fd]:
                    del to_get[fd]
            if fd not in to_send and fd not in to_get:
                poll.unregister(fd)  # the peer may now close the connection


def _run_iperf(scenario: Scenario) -> float:
    """The total bytes per second of simultaneous iperf3 flows between all sites."""
    with _run_network(scenario) as network, contextlib.ExitStack() as stack:
        sites = scenario.topology.site_names
        flows = [(src, dst) for src in sites for dst in sites if src != dst]
        servers = []
        for number, (_, dst) in enumerate(flows):
            port = str(IPERF_PORT + number)
            server = _start_program(
                network, dst, ["iperf3", "-s", "-1", "--forceflush", "-p", port], stack
            )
            servers.append(server)
        for server in servers:
            while b"listening" not in server.stdout.readline():
                pass
        clients = []
        for number, (src, dst) in enumerate(flows):
            where = ["-c", network.address(dst), "-p", str(IPERF_PORT + number)]
            command = ["iperf3", "-J", "-t", str(IPERF_S), *where]
            clients.append(_start_program(network, src, command, stack))
        reports = [json.loads(client.communicate()[0]) for client in clients]
    bits = (report["end"]["sum_received"]["bits_per_second"] for report in reports)
    return float(sum(bits) / 8)


def _start_program(
    network: MininetNetwork, site: str, command: Sequence[str], stack: contextlib.ExitStack
) -> Any:
    """Start a program at a site; the stack kills it."""
    assert network.mininet is not None
    process = network.mininet[site].popen(command, stdout=subprocess.PIPE)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


@contextlib.contextmanager
def _run_network(scenario: Scenario) -> Iterator[MininetNetwork]:
    network = MininetNetwork(scenario.topology, scenario.network, scenario.seed)
    network.start()
    try:
        yield network
    finally:
        network.stop()


def _mark(t_ns: int) -> None:
    _say(f"mark {t_ns}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
