"""The same links as programs see them that know nothing of us: ping and iperf3."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.measure.observation import Observation
from harness.measure.plan import PairPlan
from harness.measure.remote import Line, Remote
from harness.network import Network, NetworkError

PINGS = 10
PING_PAYLOAD_BYTES = 56
PING_PERIOD_S = 0.2

IPERF3_PERIOD_S = 0.1
"""How often iperf3 says what it received: as often as it can."""

_IPERF3_PORT = 5201
_LOOK_S = 0.01
_TIMEOUT_S = 300.0


def missing() -> tuple[str, ...]:
    """Which of the programs are not installed."""
    return tuple(program for program in ("ping", "iperf3") if shutil.which(program) is None)


def add(network: Network, plan: PairPlan, observed: Observation) -> Observation:
    """The observation with what those programs say that are installed.

    iperf3 is left out where the plan has nothing for it. It runs in reverse, its server sending: as
    a sender, its client spins while the end of a test is on its way, which in the embedded kernel
    takes minutes. Its connection is Reno's, because CUBIC leaves slow start when the round trip
    grows, and takes long to fill a link from there.

    Raises:
        NetworkError: iperf3 failed.
    """
    src, dst = observed.src, observed.dst
    absent = missing()
    if "ping" not in absent:
        with Remote(network, src, lambda _: _ping(network.address(dst))) as client:
            ping_ms, pings = client.hear()
        observed = replace(observed, ping_ms=ping_ms, pings=pings)
    duration_s = plan.iperf3_s.get((src, dst))
    if duration_s is None or "iperf3" in absent:
        return observed
    with Remote(network, src, lambda line: _serve(network.address(src), line)) as server:
        server.hear()
        with Remote(network, dst, lambda _: _ask(network.address(src), duration_s)) as client:
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


def _ask(address: str, duration_s: int) -> float:
    """What arrived in the second half, in Mbit/s."""
    how = ["--reverse", "--congestion", "reno", "--time", str(duration_s)]
    how += ["--interval", str(IPERF3_PERIOD_S), "--json"]
    said: dict[str, Any] = json.loads(_run(["iperf3", "--client", address, *how]))
    return _later_mbps(said)


def _later_mbps(said: dict[str, Any]) -> float:
    """From the middle interval to the last but one: TCP has filled the link, and goes on."""
    sums = [at["sum"] for at in said.get("intervals", ())]
    counted = sums[len(sums) // 2 : -1]
    if not counted:
        raise NetworkError(f"iperf3 says: {said.get('error', 'nothing')}")
    moved_bytes, duration_s = (
        float(sum(at[key] for at in counted)) for key in ("bytes", "seconds")
    )
    return 8e-6 * moved_bytes / duration_s


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    return done.stdout
