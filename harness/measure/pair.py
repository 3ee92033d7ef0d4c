"""Measures the two links between a pair of sites, from a process at each of them."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.alarm import START_PHASE_NS, START_STEP_NS
from harness.measure import foreign
from harness.measure.datagrams import Receiver, Sender
from harness.measure.observation import Arrivals, Moved, Observation
from harness.measure.plan import Flow, PairPlan, Train
from harness.measure.remote import Line, Remote
from harness.network import Directed, Network

PORT = 5000
PATIENCE_S = 120.0
"""How long a TCP connection may stand still before the measurement is given up."""

LEAD_S = 0.05
"""From when both ends are told of it until the first stage begins."""

WATCH_PERIOD_S = 0.01

_DRAIN_PACKETS = 50_000
_SO_RCVBUFFORCE, _SO_MAX_PACING_RATE, _TCP_WINDOW_CLAMP = 33, 47, 10
_RECEIVE_BUFFER_BYTES = 1 << 28
_PIECE_BYTES = 1 << 18


def measure(
    network: Network, plan: PairPlan, *, real_clock: bool = False, with_foreign: bool = True
) -> tuple[Observation, Observation]:
    """Both directions of the pair. `real_clock` watches whether the timers are punctual.

    Raises:
        NetworkError: an instrument failed.
    """
    with contextlib.ExitStack() as stack:

        def at(site: str | None, function: Any) -> Remote:
            return stack.enter_context(Remote(network, site, function))

        watch = at(None, _watch) if real_clock else None
        ends = {
            here: at(here, lambda line, h=here, t=there: _end(network, plan, h, t, line))
            for here, there in ((plan.a, plan.b), (plan.b, plan.a))
        }
        for end in ends.values():
            end.hear()
        epoch_ns = _next_start_ns(time.time_ns() + round(LEAD_S * 1e9))
        for end in ends.values():
            end.tell(epoch_ns)
        said = {site: end.hear() for site, end in ends.items()}
        seen = [
            _observation((src, dst), said[src], said[dst])
            for src, dst in ((plan.a, plan.b), (plan.b, plan.a))
        ]
        if with_foreign:
            seen = [foreign.pinged(network, observed) for observed in seen]
            seen = [foreign.filled(network, plan, observed) for observed in seen]
        if watch is not None:
            watch.tell("stop")
            late = watch.hear()
            seen = [replace(observed, late=late) for observed in seen]
    there, back = seen
    return there, back


def _next_start_ns(earliest_ns: int) -> int:
    """The first time from then on at the phase where runs start (`alarm.wait_for_start`)."""
    return -(-(earliest_ns - START_PHASE_NS) // START_STEP_NS) * START_STEP_NS + START_PHASE_NS


def _end(network: Network, plan: PairPlan, here: str, there: str, line: Line) -> dict[str, Any]:
    """One end of the pair: sends its trains, collects what arrives, then does the same over TCP."""
    receiver = Receiver((network.address(here), PORT))
    address, device = (network.address(there), PORT), network.device(here, there)
    ours = [stage.trains.get((here, there)) for stage in plan.stages]
    senders = [
        Sender(address, device, number, train.payload_bytes) if train else None
        for number, train in enumerate(ours)
    ]
    into, out = plan.flows.get((there, here)), plan.flows.get((here, there))
    server = _listen((network.address(here), PORT), into) if into else None
    line.tell("ready")
    start_ns = line.hear()["value"]
    sent_ns: dict[str, int] = {}
    arrived: dict[str, Any] = {}
    for number, (stage, train, sender) in enumerate(zip(plan.stages, ours, senders, strict=True)):
        _sleep_until(start_ns)
        if train and sender:
            sent_ns[stage.name] = _send(sender, train)
        end_ns = start_ns + round(stage.length_s * 1e9)
        theirs = stage.trains.get((there, here))
        came = _drain(receiver, start_ns, end_ns, theirs.packets if theirs else 0)
        if theirs:
            packets = came[came[:, 0] == number, 1:]
            arrived[stage.name] = asdict(Arrivals.of(packets, theirs.packets, 0))
        start_ns = end_ns
    moved = None
    for outwards in (True, False) if here == plan.a else (False, True):
        if outwards and out:
            _pour(address, device, out)
        elif not outwards and into and server:
            moved = asdict(_swallow(server, into))
    return {"sent_ns": sent_ns, "arrived": arrived, "moved": moved}


def _observation(ends: Directed, at_src: Any, at_dst: Any) -> Observation:
    """What the two ends say about one direction."""
    trains = {
        name: {**train, "sent_ns": at_src["sent_ns"][name]}
        for name, train in at_dst["arrived"].items()
    }
    src, dst = ends
    return Observation.from_json(
        {"src": src, "dst": dst, "trains": trains, "flow": at_dst["moved"]}
    )


def _send(sender: Sender, train: Train) -> int:
    """Sends the train; returns how long that took from its first packet to its last, in ns."""
    first_ns = last_ns = time.time_ns()
    for group, number in enumerate(range(0, train.packets, train.group)):
        if group:
            _sleep_until(first_ns + round(group * train.period_s * 1e9))
        last_ns = sender.send(number, min(train.group, train.packets - number))
    return last_ns - first_ns


def _drain(receiver: Receiver, start_ns: int, end_ns: int, packets: int) -> NDArray[np.int64]:
    """What arrives until the time `end_ns`, read often enough that the buffer holds it."""
    came = []
    parts = 1 + packets // _DRAIN_PACKETS
    for part in range(1, parts + 1):
        _sleep_until(start_ns + (end_ns - start_ns) * part // parts)
        came.append(receiver.drain())
    return np.concatenate(came)


def _listen(address: tuple[str, int], flow: Flow) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    server.setsockopt(socket.IPPROTO_TCP, _TCP_WINDOW_CLAMP, flow.window_bytes)
    _be_patient(server)
    server.bind(address)
    server.listen()
    return server


def _pour(address: tuple[str, int], device: str, flow: Flow) -> None:
    """Sends all of the flow. The first part leaves just below the rate, so as to fit any queue."""
    with socket.socket() as client:
        # Its slow start ends at the window, and not, as CUBIC's, when the round trip grows.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        client.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, flow.warm_rate)
        _be_patient(client)
        client.connect(address)
        piece = memoryview(bytes(_PIECE_BYTES))
        left_bytes, counted = flow.warm_bytes + flow.counted_bytes, False
        while left_bytes:
            left_bytes -= client.send(piece[:left_bytes])
            if not counted and left_bytes <= flow.counted_bytes:
                client.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, flow.rate)
                counted = True


def _swallow(server: socket.socket, flow: Flow) -> Moved:
    """Takes all of the flow; counts from when its first part is over until its end."""
    connection, _ = server.accept()
    server.close()
    with connection:
        # The kernel forgets the limit when it sees how much room real packets take.
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
        return Moved(total - first_bytes, (last_ns - first_ns) / 1e9)


def _be_patient(connection: socket.socket) -> None:
    """Lets calls that wait fail after `PATIENCE_S`; unlike a timeout of Python's, it is free."""
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("qq", int(PATIENCE_S), 0))


def _watch(line: Line) -> float:
    """The share of the time by which timers were late, until told to stop."""
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
