"""The same links as programs see them that know nothing of us: ping and iperf3."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.measure.observation import Observation
from harness.measure.plan import PairPlan
from harness.measure.remote import Line, Remote
from harness.network import Network, NetworkError

PINGS = 10
PING_PAYLOAD_BYTES = 56
PING_PERIOD_S = 0.2

IPERF3_WARM_S, IPERF3_S = 2, 5
"""For how long iperf3 sends until it counts, and then."""

IPERF3_BYTES = 250_000_000
"""Links on which it would send more are left out."""

_TIMEOUT_S = 300.0


def missing() -> tuple[str, ...]:
    """Which of the programs are not installed."""
    return tuple(program for program in ("ping", "iperf3") if shutil.which(program) is None)


def iperf3_bytes(rate_mbps: float) -> float:
    """About how much iperf3 sends over a link."""
    return rate_mbps * 125_000 * (IPERF3_WARM_S + IPERF3_S)


def add(network: Network, plan: PairPlan, observed: Observation) -> Observation:
    """The observation with what those programs say that are installed.

    iperf3 is left out where a TCP connection cannot fill the link, or has to move too much.
    """
    src, dst = observed.src, observed.dst
    absent = missing()
    if "ping" not in absent:
        with Remote(network, src, lambda _: _ping(network.address(dst))) as client:
            ping_ms, pings = client.hear()
        observed = replace(observed, ping_ms=ping_ms, pings=pings)
    rate_mbps = network.topology.link(src, dst).rate_mbps
    if "iperf3" in absent or (src, dst) not in plan.flows or iperf3_bytes(rate_mbps) > IPERF3_BYTES:
        return observed
    with Remote(network, dst, lambda line: _serve(network.address(dst), line)) as server:
        server.hear()
        with Remote(network, src, lambda _: _request(network.address(dst))) as client:
            client.hear()
        return replace(observed, iperf3_mbps=server.hear())


def _ping(address: str) -> tuple[float | None, int]:
    """Mean round trip in ms, and of how many."""
    asked = ["-c", str(PINGS), "-i", str(PING_PERIOD_S), "-s", str(PING_PAYLOAD_BYTES), "-q", "-n"]
    said = _run(["ping", *asked, address])
    count = re.search(r"(\d+) received", said)
    times = re.search(r"= [\d.]+/([\d.]+)/", said)
    return (float(times[1]) if times else None), (int(count[1]) if count else 0)


def _serve(address: str, line: Line) -> float:
    """Says when it listens; returns what arrived in the median second, in Mbit/s."""
    command = ["iperf3", "--server", "--one-off", "--bind", address, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        line.tell("ready")
        said, _ = server.communicate(timeout=_TIMEOUT_S)
    return _median_mbps(json.loads(said))


def _request(address: str) -> None:
    times = ["--omit", str(IPERF3_WARM_S), "--time", str(IPERF3_S)]
    _run(["iperf3", "--json", *times, "--client", address])


def _median_mbps(said: dict[str, Any]) -> float:
    seconds = [at["sum"] for at in said["intervals"] if not at["sum"]["omitted"]]
    whole: list[float] = [at["bits_per_second"] / 1e6 for at in seconds if at["seconds"] > 0.5]
    if not whole:
        raise NetworkError(f"iperf3 says: {said.get('error', 'nothing')}")
    return statistics.median(whole)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    return done.stdout
