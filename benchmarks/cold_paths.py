"""Measure how long a new TCP connection takes to fill a path, and what holds it back.

    python benchmarks/cold_paths.py                                 all paths, the main variants
    python benchmarks/cold_paths.py --paths 121/118 --variants all
    python benchmarks/cold_paths.py --paths 121/118 --flows returned --variants default bbr --curve
    python benchmarks/cold_paths.py --flows returned --table

Two sites have one link in each direction, in the embedded kernel. They have one connection, with
the options of an agent's connection. A path is named by its rate in Mbit/s and its one-way delay in
ms. There are two flows:

    one-way     site a sends as fast as it can, and b's answers are acknowledgements only
    returned    a does the same, and b sends back each chunk (`scheme.chunk`) that it has got, as a
                server sends sums. The flow from b to a is measured, from its first byte on

Each variant changes one thing. For each path, flow and variant: the seconds until the flow has 90 %
of the payload's rate for a quarter of a second, the goodput of the first 5 s relative to that rate,
when slow start ended, why it ended (from the kernel's counters), the window then relative to the
bandwidth-delay product, the shares of the time in which the receiver's window or the send buffer
held the connection back (TCP_INFO), and the packets that were sent again.

With `--table`, the output is a Markdown table of the first two numbers alone. It has a row for each
path and a column for each variant, and the window at which slow start ended by default; or, for a
single path, a row for each variant and a column for each flow.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product, starmap
from pathlib import Path
from typing import Any, Literal, TextIO

from trunkline.agents.wire.dial import RECEIVE_BUFFER_BYTES
from trunkline.agents.wire.lane import UNSENT_BYTES
from trunkline.harness.kernel import boot, build
from trunkline.harness.measure.site_functions import Line, SiteProcess
from trunkline.harness.network.interface import NetworkOptions, payload_share
from trunkline.harness.network.mininet_net import MininetNetwork
from trunkline.topologies.model import Link, Site, Topology

ROOT = Path(__file__).resolve().parents[1]
PORT = 5400

PATHS = (
    *("121/1", "121/10", "121/30", "121/60", "121/118"),
    *("10/30", "10/118", "1000/10"),
)
FLOWS = ("one-way", "returned")
LIMIT_S = 30.0
"""How long a flow may take to reach 90 % of the rate."""
FIRST_S, SUSTAINED_S, BIN_S = 5.0, 0.25, 0.01

CHUNK_BYTES = 256 * 1024
"""The default of `scheme.chunk`."""
WAKE_BYTES = 16 * 1024
"""A site reads when so much has come; agents wait for up to 1 MiB of a chunk."""

REASONS = {
    "TCPHystartTrainDetect": "HyStart, train",
    "TCPHystartDelayDetect": "HyStart, delay",
}
_SO_RCVBUFFORCE, _SO_MAX_PACING_RATE = 33, 47
_UNLIMITED_BYTES_PER_S = 2**40
_NO_THRESHOLD = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Variant:
    """What differs from an agent's connection over a network with the default options.

    `sysctls` are those of each site. The queue is in bandwidth-delay products. Site a sends at
    `share` of the link's rate at most. The kernel chooses the size of a tuned buffer; agents have
    a fixed one.
    """

    options: NetworkOptions = field(default_factory=NetworkOptions)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    queue: float = 1.0
    chunk_bytes: int = CHUNK_BYTES
    share: float = math.inf
    pacing: bool = True
    tuned_buffer: bool = False
    quick_acks: bool = False
    connections: int = 1


MAIN = {
    "default": Variant(),
    "hystart=train": Variant(NetworkOptions(hystart="train")),
    "hystart=delay": Variant(NetworkOptions(hystart="delay")),
    "hystart=false": Variant(NetworkOptions(hystart=False)),
    "bbr": Variant(NetworkOptions(congestion_control="bbr")),
    "initial_window=500": Variant(NetworkOptions(initial_window=500)),
}
VARIANTS = MAIN | {
    "reno": Variant(NetworkOptions(congestion_control="reno")),
    "initial_window=100": Variant(NetworkOptions(initial_window=100)),
    "a at 90 %": Variant(share=0.9),
    "chunk: 64 KiB": Variant(chunk_bytes=64 * 1024),
    "chunk: 4 MiB": Variant(chunk_bytes=4 << 20),
    "pacing=false": Variant(pacing=False),
    "paced at 400 %": Variant(sysctls={"tcp_pacing_ss_ratio": "400"}),
    "4 connections": Variant(connections=4),
    "quick acks": Variant(quick_acks=True),
    "tuned buffer": Variant(tuned_buffer=True),
    "Linux's buffers": Variant(
        tuned_buffer=True,
        sysctls={"tcp_rmem": "4096 131072 6291456", "tcp_wmem": "4096 16384 4194304"},
    ),
    "offloads=true": Variant(NetworkOptions(offloads=True)),
    "mtu=9000": Variant(NetworkOptions(mtu=9000)),
    "queue of 0.1": Variant(queue=0.1),
    "queue of 4": Variant(queue=4.0),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement."""

    path: str
    flow: Literal["one-way", "returned"]
    variant: str

    @property
    def rate_mbps(self) -> float:
        """The rate of both links."""
        return float(self.path.split("/")[0])

    @property
    def delay_ms(self) -> float:
        """The delay of both links."""
        return float(self.path.split("/")[1])

    @property
    def settings(self) -> Variant:
        """What differs."""
        return VARIANTS[self.variant]

    @property
    def payload_bytes_per_s(self) -> float:
        """What a link carries without headers."""
        return self.rate_mbps * 125_000 * payload_share(self.settings.options.mtu)

    @property
    def window_packets(self) -> float:
        """The bandwidth-delay product in packets."""
        wire_bytes = self.settings.options.mtu + 14
        return self.rate_mbps * 125_000 * 2e-3 * self.delay_ms / wire_bytes


@dataclass(frozen=True, slots=True)
class Row:
    """What a measurement found; None for what did not happen."""

    path: str
    flow: str
    variant: str
    full_s: float | None
    first_5_s: float
    slow_start_s: float | None
    ended_by: str
    ended_at: float | None
    receiver_limited: float
    buffer_limited: float
    sent_again: int


def main() -> None:
    """Measure all combinations of the command line; print each row at once."""
    if sys.argv[1:2] == ["inside"]:
        _say(json.dumps(measure(Case(*json.loads(sys.argv[2])))))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--paths", nargs="+", default=PATHS, metavar="MBIT/MS")
    parser.add_argument("--flows", nargs="+", default=FLOWS, choices=FLOWS)
    known = [*VARIANTS, "main", "all"]
    parser.add_argument("--variants", nargs="+", default=["main"], choices=known)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--curve", action="store_true", help="print windows and rates over time")
    output.add_argument("--table", action="store_true", help="print a Markdown table only")
    parser.add_argument("--csv", type=Path, help="where to write the rows")
    arguments = parser.parse_args()
    if arguments.table and len(arguments.paths) > 1 and len(arguments.flows) > 1:
        parser.error("--table: expected one of --paths, or one of --flows")
    named = {"main": MAIN, "all": VARIANTS}
    variants = [name for group in arguments.variants for name in named.get(group, [group])]
    build.ensure(boot.try_out)
    rows = []
    for case in starmap(Case, product(arguments.paths, arguments.flows, variants)):
        bins, samples, counters = _run_inside(case)
        rows.append(judge(case, bins, samples, counters))
        _show(rows[-1], sys.stderr if arguments.table else sys.stdout)
        if arguments.curve:
            _show_curve(bins, samples)
    if arguments.table:
        sys.stdout.write(make_table(rows))
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Row.__dataclass_fields__)
            writer.writerows(
                [getattr(row, key) for key in Row.__dataclass_fields__] for row in rows
            )


def judge(
    case: Case,
    bins: Sequence[int],
    samples: Sequence[Mapping[str, float]],
    counters: Mapping[str, int],
) -> Row:
    """Find in a flow's bytes, states and counters what a row has."""
    last = samples[-1]
    ended = next((at for at in samples if at["threshold"] < _NO_THRESHOLD), None)
    if case.settings.options.congestion_control == "bbr":
        ended = None  # BBR does not use the threshold
    reasons = [REASONS[name] for name in REASONS if counters[name]]
    return Row(
        case.path,
        case.flow,
        case.variant,
        full_s=find_full(bins, case.payload_bytes_per_s),
        first_5_s=sum(bins[: round(FIRST_S / BIN_S)]) / FIRST_S / case.payload_bytes_per_s,
        slow_start_s=ended["t_s"] if ended else None,
        ended_by="-" if ended is None else " and ".join(reasons) or "loss",
        ended_at=ended["window"] * case.settings.connections / case.window_packets
        if ended
        else None,
        receiver_limited=last["receiver_limited_s"] / last["busy_s"],
        buffer_limited=last["buffer_limited_s"] / last["busy_s"],
        sent_again=int(last["sent_again"]),
    )


def find_full(bins: Sequence[int], bytes_per_s: float) -> float | None:
    """The first quarter of a second with 90 % of the rate: its start, in s, or None."""
    width = round(SUSTAINED_S / BIN_S)
    carried = sum(bins[:width])
    for start in range(len(bins) - width):
        if carried >= 0.9 * bytes_per_s * SUSTAINED_S:
            return start * BIN_S
        carried += bins[start + width] - bins[start]
    return None


def make_table(rows: Sequence[Row]) -> str:
    """A Markdown table of `SECONDS, PERCENT`, of several paths of one flow, or of one path."""
    import cells  # it imports pandas, which the guests do not need

    cells_of = {
        (row.path, row.flow, row.variant): f"{_format_full(row)}, {row.first_5_s:.0%}"
        for row in rows
    }
    paths, flows, variants = (list(dict.fromkeys(names)) for names in zip(*cells_of, strict=True))
    if len(paths) == 1:
        lines = [
            [f"`{variant}`", *(cells_of[paths[0], flow, variant] for flow in flows)]
            for variant in variants
        ]
        return cells.write_table(["variant", *flows], lines)
    lines = [[path, *(cells_of[path, flows[0], variant] for variant in variants)] for path in paths]
    windows = {row.path: row.ended_at for row in rows if row.variant == "default"}
    for line in lines if windows else ():
        window = windows[line[0]]
        line.insert(1, "" if window is None else f"{window:.2f}")
    heads = ["Mbit/s / ms", *["window"] * bool(windows), *(f"`{name}`" for name in variants)]
    return cells.write_table(heads, lines)


def _run_inside(case: Case) -> tuple[list[int], list[dict[str, float]], dict[str, int]]:
    """Run `measure` in a guest of its own."""
    lines: list[bytes] = []
    argv = [sys.executable, __file__, "inside", json.dumps([case.path, case.flow, case.variant])]
    parameters = case.settings.options.kernel_parameters
    code = boot.run(argv, cwd=ROOT, seed=1, parameters=parameters, on_output=lines.append)
    output = b"".join(lines).decode()
    if code:
        raise SystemExit(f"the measurement ended with code {code}:\n{output}")
    bins, samples, counters = json.loads(output)
    return bins, samples, counters


# What runs inside the embedded kernel.


def measure(case: Case) -> tuple[list[int], list[dict[str, float]], dict[str, int]]:
    """Let the two sites exchange data; return the measured flow's bytes, states and counters."""
    variant = case.settings
    queue_bytes = variant.queue * case.rate_mbps * 125_000 * 2e-3 * case.delay_ms
    smallest_bytes = 3 * (variant.options.mtu + 14)
    links = tuple(
        Link(
            *ends,
            case.rate_mbps,
            case.delay_ms,
            queue_bytes=max(smallest_bytes, round(queue_bytes)),
        )
        for ends in (("a", "b"), ("b", "a"))
    )
    network = MininetNetwork(Topology("path", (Site("a"), Site("b")), links), variant.options)
    network.start()
    try:
        start_s = time.time() + 2 + 10e-3 * case.delay_ms
        with (
            SiteProcess(network, "b", _act(case, network.address("b"), "b", start_s)) as there,
            SiteProcess(network, "a", _act(case, network.address("b"), "a", start_s)) as here,
        ):
            found = {"a": here.receive(), "b": there.receive()}
    finally:
        network.stop()
    sender, receiver = ("a", "b") if case.flow == "one-way" else ("b", "a")
    return found[receiver]["bins"], found[sender]["samples"], found[sender]["counters"]


def _act(case: Case, server: str, me: str, start_s: float) -> Callable[[Line], object]:
    """Site b listens; site a connects to it and sends from `start_s` on."""

    def act(_: Line) -> object:
        for name, text in case.settings.sysctls.items():
            Path("/proc/sys/net/ipv4", name).write_text(text)
        with socket.socket() as listener:
            if me == "b":
                _prepare(listener, case, me)
                listener.bind((server, PORT))
                listener.listen()
                connections = [listener.accept()[0] for _ in range(case.settings.connections)]
            else:
                time.sleep(1)
                connections = [_connect(case, server) for _ in range(case.settings.connections)]
        time.sleep(start_s - time.time())
        measured = (case.flow == "one-way") == (me == "b")
        bins, samples = _exchange(connections, case, me, start_s, measured)
        return {"bins": bins, "samples": samples, "counters": _read_counters()}

    return act


def _prepare(sock: socket.socket, case: Case, me: str) -> None:
    """Sets what `agents.wire` sets for an agent's connection, with the variant's differences."""
    variant = case.settings
    if not variant.tuned_buffer:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    limit = variant.share * case.rate_mbps * 125_000 if me == "a" else math.inf
    limit = round(min(limit, _UNLIMITED_BYTES_PER_S))
    if variant.pacing:
        sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", limit))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES[1])


def _connect(case: Case, server: str) -> socket.socket:
    sock = socket.socket()
    _prepare(sock, case, "a")
    sock.connect((server, PORT))
    return sock


def _exchange(
    connections: Sequence[socket.socket], case: Case, me: str, start_s: float, measured: bool
) -> tuple[list[int], list[dict[str, float]]]:
    """Send and receive until the measured flow is known; return bytes and the sender's states.

    Both are per BIN_S from the flow's first byte on.
    """
    links = {sock.fileno(): sock for sock in connections}
    owed = dict.fromkeys(links, math.inf if me == "a" else 0)
    held = dict.fromkeys(links, 0)
    poll = select.poll()
    for handle, sock in links.items():
        sock.setblocking(False)
        if not case.settings.tuned_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WAKE_BYTES)
        poll.register(handle, select.POLLIN | select.POLLOUT * (me == "a"))
    data, buffer = bytes(1 << 20), bytearray(1 << 20)
    bins: list[int] = []
    samples: list[dict[str, float]] = []
    first_s = start_s if me == "a" and not measured else math.inf
    next_s = start_s
    while True:
        now_s = time.time()
        if now_s >= next_s:
            next_s += BIN_S
            if now_s >= first_s and not measured:
                samples.append({"t_s": now_s - first_s, **_read_state(connections[0])})
        try:
            for handle, events in poll.poll(max(0.0, (next_s - time.time()) * 1e3)):
                if events & select.POLLIN:
                    if case.settings.quick_acks:
                        links[handle].setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                    count = links[handle].recv_into(buffer)
                    if not count:
                        return bins, samples
                    if measured:
                        now_s = time.time()
                        first_s = min(first_s, now_s - case.delay_ms * 1e-3)
                        at = int((now_s - first_s) / BIN_S)
                        bins += [0] * (at + 1 - len(bins))
                        bins[at] += count
                    elif case.flow == "returned":
                        held[handle] += count
                        whole = held[handle] - held[handle] % case.settings.chunk_bytes
                        if whole:
                            held[handle] -= whole
                            owed[handle] += whole
                            poll.modify(handle, select.POLLIN | select.POLLOUT)
                            first_s = min(first_s, time.time())
                if events & select.POLLOUT:
                    owed[handle] -= links[handle].send(data[: int(min(owed[handle], len(data)))])
                    if not owed[handle]:
                        poll.modify(handle, select.POLLIN)
        except ConnectionError:
            return bins, samples
        if measured and len(bins) % 10 == 9 and _is_known(bins, case.payload_bytes_per_s):
            for sock in connections:
                sock.close()
            return bins, samples


def _is_known(bins: Sequence[int], bytes_per_s: float) -> bool:
    passed_s = len(bins) * BIN_S
    return passed_s > LIMIT_S or (passed_s > FIRST_S and find_full(bins, bytes_per_s) is not None)


def _read_state(sock: socket.socket) -> dict[str, float]:
    """The fields of struct tcp_info that tell what holds a connection back."""
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    round_trip_us, _, threshold, window = struct.unpack_from("=4I", raw, 68)
    (sent_again,) = struct.unpack_from("=I", raw, 100)
    busy_us, receiver_us, buffer_us = struct.unpack_from("=3Q", raw, 168)
    return {
        "window": window,
        "threshold": threshold,
        "round_trip_ms": round_trip_us * 1e-3,
        "busy_s": busy_us * 1e-6,
        "receiver_limited_s": receiver_us * 1e-6,
        "buffer_limited_s": buffer_us * 1e-6,
        "sent_again": sent_again,
    }


def _read_counters() -> dict[str, int]:
    lines = Path("/proc/self/net/netstat").read_text().splitlines()
    pairs = zip(lines[::2], lines[1::2], strict=True)
    found = {
        name: value
        for names, values in pairs
        for name, value in zip(names.split(), values.split(), strict=True)
    }
    return {name: int(found[name]) for name in REASONS}


def _format_full(row: Row) -> str:
    return "never" if row.full_s is None else f"{row.full_s:.2f} s"


def _show(row: Row, stream: TextIO) -> None:
    full = _format_full(row)
    ended = "-" if row.slow_start_s is None else f"{row.slow_start_s:.2f} s, {row.ended_at:.2f} BDP"
    stream.write(
        f"{row.path:8} {row.flow:8} {row.variant:18} 90 %: {full:>7}  first 5 s: "
        f"{row.first_5_s:4.0%}  slow start: {ended:17} {row.ended_by:14} limited by receiver "
        f"{row.receiver_limited:4.0%}, by buffer {row.buffer_limited:4.0%}  sent again "
        f"{row.sent_again}\n"
    )
    stream.flush()


def _show_curve(bins: Sequence[int], samples: Sequence[Mapping[str, Any]]) -> None:
    step = round(0.2 / BIN_S)
    for at in range(0, min(len(bins), len(samples)), step):
        state = samples[at]
        mbps = sum(bins[at : at + step]) * 8e-6 / 0.2
        _say(
            f"  {state['t_s']:5.2f} s: {mbps:6.1f} Mbit/s, window {state['window']:5}, round trip "
            f"{state['round_trip_ms']:5.0f} ms, sent again {state['sent_again']}"
        )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
