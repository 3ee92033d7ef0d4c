"""Measure the same links with independent programs: ping and iperf3."""

from __future__ import annotations

import json
import math
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trunkline.agents.planning.plan import Directed
from trunkline.harness.measure.measurement_plan import Iperf3, PairPlan
from trunkline.harness.measure.observation import Observation
from trunkline.harness.measure.site_functions import Line, SiteProcess
from trunkline.harness.network.interface import Network, NetworkError

PINGS = 10
PING_PAYLOAD_BYTES = 56
PING_HEADER_BYTES = 42
PING_PERIOD_S = 0.2

_IPERF3_PORT = 5201
_LOOK_S = 0.01
_TIMEOUT_S = 60.0
_DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL")


def find_missing() -> tuple[str, ...]:
    """The programs that are not installed."""
    return tuple(program for program in ("ping", "iperf3") if shutil.which(program) is None)


def run_ping(network: Network, plan: PairPlan, observed: Observation) -> Observation:
    """Add ping's round-trip time to the observation if ping is installed; links must be idle.

    Raises:
        NetworkError: no ping was answered.
    """
    if "ping" in find_missing():
        return observed
    address = network.address(observed.dst)
    rate_mbps = min(network.topology.link(*ends).rate_mbps for ends in _list_directions(observed))
    # Two packets on a slow link would wait for each other.
    period_s = max(PING_PERIOD_S, 2 * (PING_PAYLOAD_BYTES + PING_HEADER_BYTES) * 8e-6 / rate_mbps)
    wait_s = math.ceil(1 + plan.idle_s + period_s)
    with SiteProcess(network, observed.src, lambda _: _ping(address, period_s, wait_s)) as client:
        ping_ms, pings = client.receive()
    if not pings:
        raise NetworkError(f"none of {PINGS} pings was answered")
    return replace(observed, ping_ms=ping_ms, pings=pings)


def run_iperf3(network: Network, plan: PairPlan, observed: Observation) -> Observation:
    """Add iperf3's goodput to the observation if iperf3 is installed and the plan includes it.

    The server sends (`--reverse`): a sending client spins while the end of a test is in flight,
    which takes minutes in the embedded kernel. TCP uses Reno: CUBIC leaves slow start when the
    round trip grows, and then needs long to fill a link.

    Raises:
        NetworkError: iperf3 failed.
    """
    src, dst = observed.src, observed.dst
    times = plan.iperf3.get((src, dst))
    if times is None or "iperf3" in find_missing():
        return observed
    with SiteProcess(
        network, src, lambda line: _run_server(network.address(src), times, line)
    ) as server:
        server.receive()
        with SiteProcess(
            network, dst, lambda _: _run_client(network.address(src), times)
        ) as client:
            return replace(observed, iperf3_mbps=client.receive())


def _list_directions(observed: Observation) -> tuple[Directed, Directed]:
    return (observed.src, observed.dst), (observed.dst, observed.src)


def _ping(address: str, period_s: float, wait_s: int) -> tuple[float | None, int]:
    """The mean round-trip time in ms, and the number of answers within `wait_s` seconds."""
    asked = ["-c", str(PINGS), "-i", f"{period_s:.3f}", "-W", str(wait_s)]
    asked += ["-s", str(PING_PAYLOAD_BYTES), "-q", "-n"]
    said = _run(["ping", *asked, address], _TIMEOUT_S + PINGS * period_s + 2 * wait_s)
    count = re.search(r"(\d+) received", said)
    times = re.search(r"= [\d.]+/([\d.]+)/", said)
    return (float(times[1]) if times else None), (int(count[1]) if count else 0)


def _run_server(address: str, times: Iperf3, line: Line) -> None:
    """Run a server for one client; send "ready" when it listens."""
    command = [*_DIE_WITH_US, "iperf3", "--server", "--one-off", "--bind", address]
    listening = f":{_IPERF3_PORT:04X} 00000000:0000 0A"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        while listening not in Path("/proc/net/tcp").read_text():
            if server.poll() is not None:
                raise NetworkError("iperf3's server ended before it listened")
            time.sleep(_LOOK_S)
        line.send("ready")
        server.wait(times.timeout_s)


def _run_client(address: str, times: Iperf3) -> float:
    """Run the client; return the median goodput of the last two thirds of its periods, in Mbit/s.

    The median ignores lost packets: their period shows too little, the next one too much.
    """
    how = ["--reverse", "--congestion", "reno", "--json", "--time", str(times.duration_s)]
    how += ["--interval", f"{times.period_s:.1f}"]
    answer = _run(["iperf3", "--client", address, *how], times.timeout_s)
    said: dict[str, Any] = json.loads(answer or "{}")
    rates: list[float] = [at["sum"]["bits_per_second"] / 1e6 for at in said.get("intervals", ())]
    counted = rates[len(rates) // 3 : -1]
    if not counted:
        raise NetworkError(f"iperf3 says: {said.get('error', 'nothing')}")
    return statistics.median(counted)


def _run(command: Sequence[str], timeout_s: float) -> str:
    """Run a program that dies with this process; return its output."""
    try:
        done = subprocess.run(
            [*_DIE_WITH_US, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise NetworkError(f"{command[0]} did not end in {timeout_s:.0f} s") from None
    return done.stdout
