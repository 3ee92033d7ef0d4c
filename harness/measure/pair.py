"""Measure the two links between a pair of sites, by a process at each site."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trunkline.agents.planning.plan import Directed
from trunkline.harness.measure import foreign
from trunkline.harness.measure.datagrams import Receiver, Sender
from trunkline.harness.measure.measurement_plan import Flow, PairPlan, Train
from trunkline.harness.measure.observation import Arrivals, Moved, Observation
from trunkline.harness.measure.site_functions import Line, SiteProcess
from trunkline.harness.network.interface import Network, NetworkError
from trunkline.harness.processes.start_time import START_PHASE_NS, START_STEP_NS

PORT = 5000
LEAD_S = 0.05
"""The time from telling both ends the start to the start of the first stage."""

WATCH_PERIOD_S = 0.01

_DRAIN_PACKETS = 50_000
_SO_RCVBUFFORCE, _SO_MAX_PACING_RATE, _TCP_WINDOW_CLAMP = 33, 47, 10
_RECEIVE_BUFFER_BYTES = 1 << 28
_PIECE_BYTES = 1 << 18


def measure(
    network: Network, plan: PairPlan, *, real_clock: bool = False, with_foreign: bool = True
) -> tuple[Observation, Observation]:
    """Measure both directions of the pair.

    `real_clock` also measures how late timers are; `with_foreign` also runs ping and iperf3.

    Raises:
        NetworkError: a measurement failed.
    """
    with contextlib.ExitStack() as stack:

        def at(site: str | None, function: Any) -> SiteProcess:
            return stack.enter_context(SiteProcess(network, site, function))

        watch = at(None, _watch_timers) if real_clock else None
        ends = {
            here: at(here, lambda line, h=here, t=there: _run_end(network, plan, h, t, line))
            for here, there in ((plan.a, plan.b), (plan.b, plan.a))
        }
        for end in ends.values():
            end.receive()
        epoch_ns = _align_start_ns(time.time_ns() + round(LEAD_S * 1e9))
        for end in ends.values():
            end.send(epoch_ns)
        said = {site: end.receive() for site, end in ends.items()}
        seen = [
            _combine_ends((src, dst), said[src], said[dst])
            for src, dst in ((plan.a, plan.b), (plan.b, plan.a))
        ]
        seen = [
            _try_measure("goodput", _measure_flow, network, plan, observed) for observed in seen
        ]
        if with_foreign:
            time.sleep(plan.idle_s)  # until the last acknowledgements have arrived
            for name, asked in (("ping", foreign.run_ping), ("iperf3", foreign.run_iperf3)):
                seen = [_try_measure(name, asked, network, plan, observed) for observed in seen]
        if watch is not None:
            watch.send("stop")
            late = watch.receive()
            seen = [replace(observed, late=late) for observed in seen]
    there, back = seen
    return there, back


def _try_measure(
    quantity: str,
    measured: Callable[[Network, PairPlan, Observation], Observation],
    network: Network,
    plan: PairPlan,
    observed: Observation,
) -> Observation:
    """Add one more quantity to the observation, or the reason why it could not be measured."""
    try:
        return measured(network, plan, observed)
    except NetworkError as error:
        return replace(observed, failed={**observed.failed, quantity: str(error)})


def _align_start_ns(earliest_ns: int) -> int:
    """The first time from then on at the phase at which runs start (`wait_for_start`)."""
    return -(-(earliest_ns - START_PHASE_NS) // START_STEP_NS) * START_STEP_NS + START_PHASE_NS


def _run_end(network: Network, plan: PairPlan, here: str, there: str, line: Line) -> dict[str, Any]:
    """Run one end of the pair: send its trains and collect arrivals."""
    receiver = Receiver((network.address(here), PORT))
    address, device = (network.address(there), PORT), network.device(here, there)
    ours = [stage.trains.get((here, there)) for stage in plan.stages]
    senders = [
        Sender(address, device, number, train.payload_bytes) if train else None
        for number, train in enumerate(ours)
    ]
    line.send("ready")
    start_ns = line.receive()["value"]
    sent_ns: dict[str, int] = {}
    came: list[NDArray[np.int64]] = []
    for stage, train, sender in zip(plan.stages, ours, senders, strict=True):
        _sleep_until(start_ns)
        if train and sender:
            sent_ns[stage.name] = _send(sender, train)
        end_ns = start_ns + round(stage.length_s * 1e9)
        theirs = stage.trains.get((there, here))
        came.append(_drain(receiver, start_ns, end_ns, theirs.packets if theirs else 0))
        start_ns = end_ns
    return {"sent_ns": sent_ns, "arrived": sort_arrivals(plan, (there, here), np.concatenate(came))}


def sort_arrivals(plan: PairPlan, ends: Directed, came: NDArray[np.int64]) -> dict[str, Any]:
    """Sort arrivals by train: the first packets of a train may arrive before its stage begins."""
    return {
        stage.name: asdict(Arrivals.of(came[came[:, 0] == number, 1:], train.packets, 0))
        for number, stage in enumerate(plan.stages)
        if (train := stage.trains.get(ends))
    }


def _combine_ends(ends: Directed, at_src: Any, at_dst: Any) -> Observation:
    """Combine the reports of both ends about one direction."""
    trains = {
        name: {**train, "sent_ns": at_src["sent_ns"][name]}
        for name, train in at_dst["arrived"].items()
    }
    src, dst = ends
    return Observation.from_json({"src": src, "dst": dst, "trains": trains, "flow": None})


def _send(sender: Sender, train: Train) -> int:
    """Send the train; return the time from its first packet to its last, in ns."""
    first_ns = last_ns = time.time_ns()
    for group, number in enumerate(range(0, train.packets, train.group)):
        if group:
            _sleep_until(first_ns + round(group * train.period_s * 1e9))
        last_ns = sender.send(number, min(train.group, train.packets - number))
    return last_ns - first_ns


def _drain(receiver: Receiver, start_ns: int, end_ns: int, packets: int) -> NDArray[np.int64]:
    """Collect arrivals until `end_ns`, often enough that the socket's buffer never overflows."""
    came = []
    parts = 1 + packets // _DRAIN_PACKETS
    for part in range(1, parts + 1):
        _sleep_until(start_ns + (end_ns - start_ns) * part // parts)
        came.append(receiver.drain())
    return np.concatenate(came)


def _measure_flow(network: Network, plan: PairPlan, observed: Observation) -> Observation:
    """Add TCP's goodput to the observation if the plan includes it."""
    src, dst = observed.src, observed.dst
    flow = plan.flows.get((src, dst))
    if flow is None:
        return observed
    address, device = (network.address(dst), PORT), network.device(src, dst)
    with (
        SiteProcess(network, dst, lambda line: _receive_flow(address, flow, line)) as server,
        SiteProcess(network, src, lambda line: _send_flow(address, device, flow, line)) as client,
    ):
        server.receive()
        client.send("go")
        client.receive()
        return replace(observed, flow=Moved(**server.receive()))


def _listen(address: tuple[str, int], flow: Flow) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    server.setsockopt(socket.IPPROTO_TCP, _TCP_WINDOW_CLAMP, flow.window_bytes)
    _set_timeouts(server, flow)
    server.bind(address)
    server.listen()
    return server


def _send_flow(address: tuple[str, int], device: str, flow: Flow, line: Line) -> None:
    """Send the flow. Its first part is paced just below the rate, so that it fits any queue."""
    line.receive()
    with socket.socket() as client, _report_stall(flow):
        # Reno's slow start ends at the window; CUBIC's already when the round trip grows.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        pace(client, flow.warm_rate)
        _set_timeouts(client, flow)
        client.connect(address)
        piece = memoryview(bytes(_PIECE_BYTES))
        left_bytes, counted = flow.warm_bytes + flow.counted_bytes, False
        while left_bytes:
            left_bytes -= client.send(piece[:left_bytes])
            if not counted and left_bytes <= flow.counted_bytes:
                pace(client, flow.rate)
                counted = True


def _receive_flow(address: tuple[str, int], flow: Flow, line: Line) -> dict[str, Any]:
    """Receive the flow; count from the end of its first part to its end."""
    with _listen(address, flow) as server, _report_stall(flow):
        line.send("ready")
        connection, _ = server.accept()
    with connection, _report_stall(flow):
        # With the first packets the kernel recomputes the window's limit: set it again.
        total = len(connection.recv(1))
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_WINDOW_CLAMP, flow.window_bytes)
        lowest = min(1 << 16, flow.window_bytes // 16)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, max(1, lowest))
        buffer = bytearray(1 << 20)
        first_bytes = first_ns = last_ns = 0
        while count := connection.recv_into(buffer):
            total, last_ns = total + count, time.monotonic_ns()
            if total < flow.warm_bytes:
                first_bytes, first_ns = total, last_ns
        return asdict(Moved(total - first_bytes, (last_ns - first_ns) / 1e9))


def pace(connection: socket.socket, bytes_per_s: int) -> None:
    """Set the connection's pacing; `setsockopt` of a Python int ends at 17 Gbit/s, so pack it."""
    rate = struct.pack("=Q", bytes_per_s)
    connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate)


def _set_timeouts(connection: socket.socket, flow: Flow) -> None:
    """Set the kernel's timeouts: Python's own would add a system call to each send and receive."""
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("qq", flow.stall_s, 0))


@contextlib.contextmanager
def _report_stall(flow: Flow) -> Iterator[None]:
    """Turn the kernel's timeout into a NetworkError."""
    try:
        yield
    except BlockingIOError:
        raise NetworkError(f"TCP made no progress for {flow.stall_s} s") from None


def _watch_timers(line: Line) -> float:
    """Sleep until told to stop; return the share of the time by which timers were late."""
    late_s, start_s = 0.0, time.monotonic()
    while not select.select([line.connection], [], [], 0)[0]:
        before_s = time.monotonic()
        time.sleep(WATCH_PERIOD_S)
        late_s += max(0.0, time.monotonic() - before_s - WATCH_PERIOD_S)
    return late_s / max(time.monotonic() - start_s, WATCH_PERIOD_S)


def _sleep_until(time_ns: int) -> None:
    left_ns = time_ns - time.time_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)
