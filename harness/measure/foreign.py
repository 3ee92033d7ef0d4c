"""The same links as programs see them that know nothing of us: ping and iperf3."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.measure.observation import Observation
from harness.measure.plan import Iperf3, PairPlan
from harness.measure.remote import Line, Remote
from harness.network import Network, NetworkError

PINGS = 10
PING_PAYLOAD_BYTES = 56
PING_PERIOD_S = 0.2

_IPERF3_PORT = 5201
_LOOK_S = 0.01
_TIMEOUT_S = 300.0


def missing() -> tuple[str, ...]:
    """Which of the programs are not installed."""
    return tuple(program for program in ("ping", "iperf3") if shutil.which(program) is None)


def pinged(network: Network, observed: Observation) -> Observation:
    """The observation with ping's round trip, if it is installed; the links have to be idle."""
    if "ping" in missing():
        return observed
    address = network.address(observed.dst)
    with Remote(network, observed.src, lambda _: _ping(address)) as client:
        ping_ms, pings = client.hear()
    return replace(observed, ping_ms=ping_ms, pings=pings)


def filled(network: Network, plan: PairPlan, observed: Observation) -> Observation:
    """The observation with iperf3's goodput, if it is installed and the plan wants it.

    iperf3 runs in reverse, its server sending: as a sender, its client spins while the end of a
    test is on its way, which in the embedded kernel takes minutes. Its connection is Reno's,
    because CUBIC leaves slow start when the round trip grows, and takes long to fill a link then.

    Raises:
        NetworkError: iperf3 failed.
    """
    src, dst = observed.src, observed.dst
    times = plan.iperf3.get((src, dst))
    if times is None or "iperf3" in missing():
        return observed
    with Remote(network, src, lambda line: _serve(network.address(src), line)) as server:
        server.hear()
        with Remote(network, dst, lambda _: _ask(network.address(src), times)) as client:
            return replace(observed, iperf3_mbps=client.hear())


def _ping(address: str) -> tuple[float | None, int]:
    """Mean round trip in ms, and of how many."""
    asked = ["-c", str(PINGS), "-i", str(PING_PERIOD_S), "-s", str(PING_PAYLOAD_BYTES), "-q", "-n"]
    said = _run(["ping", *asked, address])
    count = re.search(r"(\d+) received", said)
    times = re.search(r"= [\d.]+/([\d.]+)/", said)
    return (float(times[1]) if times else None), (int(count[1]) if count else 0)


def _serve(address: str, line: Line) -> None:
    """Says when it listens, and serves one client."""
    command = ["iperf3", "--server", "--one-off", "--bind", address]
    listening = f":{_IPERF3_PORT:04X} 00000000:0000 0A"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        while listening not in Path("/proc/net/tcp").read_text():
            if server.poll() is not None:
                raise NetworkError("iperf3's server ended before it listened")
            time.sleep(_LOOK_S)
        line.tell("ready")
        server.wait(_TIMEOUT_S)


def _ask(address: str, times: Iperf3) -> float:
    """What arrived in the median period of the last two thirds, in Mbit/s.

    Where a packet was lost, a period shows too little, and the one that mends it too much.
    """
    how = ["--reverse", "--congestion", "reno", "--json", "--time", str(times.duration_s)]
    how += ["--interval", f"{times.period_s:.1f}"]
    said: dict[str, Any] = json.loads(_run(["iperf3", "--client", address, *how]))
    rates: list[float] = [at["sum"]["bits_per_second"] / 1e6 for at in said.get("intervals", ())]
    counted = rates[len(rates) // 3 : -1]
    if not counted:
        raise NetworkError(f"iperf3 says: {said.get('error', 'nothing')}")
    return statistics.median(counted)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    return done.stdout
