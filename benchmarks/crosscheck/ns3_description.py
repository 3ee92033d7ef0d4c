"""A scenario as a description of its packets' sources for `ns3_flows.cc` (pure).

The plans and the times between tasks are those of the fluid model of the same run. A chunk is a
message on the TCP connection of two neighbours, as in a run. A site sends a contribution when its
task begins, a sum when all of its terms have arrived, and a result when it has it.

The packets that netem loses in a run are lost in ns-3, too: of each link those of the same numbers.

ns-3's devices have a header of 2 bytes where Ethernet's has 14. `ns3_flows.cc` adds the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from trunkline.agents.events.task_events import TaskStarted
from trunkline.agents.planning.chunks import Chunking
from trunkline.agents.planning.fluid.fluid_tasks import Trees, list_chunks
from trunkline.agents.planning.plan import Directed, Edge, Plan
from trunkline.agents.wire.framing import HEADER
from trunkline.harness.background.flows import list_flows
from trunkline.harness.faults.fault_types import Outage
from trunkline.harness.fluid import fluid_run
from trunkline.harness.network.interface import ETHERNET_HEADER_BYTES, TCP_IP_HEADER_BYTES
from trunkline.harness.network.shaping import link_seed, threshold
from trunkline.harness.record.history import History, Task
from trunkline.harness.scenario.settings import Scenario
from trunkline.topologies.links import Link
from trunkline.topologies.model import Topology

Tcp = Literal["linux", "ns3"]
"""Whose senders connections have: ours of `ns3_linux_tcp.h`, or those of ns-3."""

ALGORITHMS: Mapping[Tcp, Mapping[str, str]] = {
    "linux": {"bbr": "ns3::TcpBbr", "cubic": "ns3::CubicOfLinux", "reno": "ns3::RenoOfLinux"},
    "ns3": {"bbr": "ns3::TcpBbr", "cubic": "ns3::TcpCubic", "reno": "ns3::TcpLinuxReno"},
}

LIKE_LINUX: Mapping[str, str] = {
    "ns3::TcpL4Protocol::RecoveryType": "ns3::TcpPrrRecovery",
    "ns3::TcpSocket::SndBufSize": "1000000000",
    "ns3::TcpSocket::RcvBufSize": str(32 << 20),
    "ns3::TcpSocket::DelAckCount": "2",
    "ns3::TcpSocket::DelAckTimeout": "40ms",
    "ns3::TcpSocket::TcpNoDelay": "true",
    "ns3::TcpSocketBase::MinRto": "200ms",
    "ns3::TcpSocketBase::ClockGranularity": "200ms",
    "ns3::TcpSocketBase::Sack": "true",
    "ns3::TcpSocketBase::Timestamp": "true",
    "ns3::TcpSocketBase::WindowScaling": "true",
    "ns3::TcpSocketState::MaxPacingRate": "100Gbps",
    "ns3::TcpCubic::HyStartDelayMax": "16ms",
}
"""Attributes of ns-3 with Linux's values; the other ones are ns-3's own."""

_WORD = 0xFFFF_FFFF
_LFSR113 = ((6, 13, 18, 2), (2, 27, 2, 8), (13, 21, 7, 16), (3, 12, 13, 128))
"""The shifts of each part of the generator, and the least value of its state."""

START_BYTES, MEMBER_BYTES = 420, 20
"""About how long the message is that starts a task, and what each member adds to it."""

CALL_BYTES = 74
"""The packets that open a connection: the call, and its answer."""

OPENING_PACKETS = 4
"""The first packets of a link open connections. None is lost: tasks begin when all are open."""

HELLO_BYTES, GREETING_BYTES, READY_BYTES = 66 + 249, 66 + 127, 66 + 207
"""An acknowledgement, and then the first message of a site that calls, the controller's answer, or
the message that a site is ready."""

UNKNOWN = {
    "jitter_ms": "jitter",
    "reorder_percent": "reordering",
    "duplicate_percent": "duplicates",
    "corrupt_percent": "corruption",
}
"""What links may have that ns-3's have not here."""

STOP_S = 3600


class CannotDescribeError(ValueError):
    """The scenario has something that the description has no words for."""


@dataclass(slots=True)
class Description:
    """The lines of a description, and the numbers of what they have.

    Attributes:
        begins: the step with which each task begins.
        ends: the steps with which the receivers of each task have the result.
    """

    scenario: Scenario
    lines: list[str] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    ends: list[list[int]] = field(default_factory=list)
    _steps: int = 0
    _connections: dict[Directed, int] = field(default_factory=dict)
    _step_lines: list[str] = field(default_factory=list)

    def moment(self, delay_s: float, after: Iterable[int] = ()) -> int:
        """Add a moment; returns its step."""
        return self._step("moment", round(delay_s * 1e9), *after)

    def message(self, src: str, dst: str, size: int, after: Iterable[int]) -> int:
        """Add a message over the connection of two neighbours; returns its step."""
        rank = self.scenario.topology.rank
        ends = (src, dst) if rank(src) < rank(dst) else (dst, src)
        number = self._connections.setdefault(ends, len(self._connections))
        return self._step("message", number, int(ends[0] != src), size, *after)

    def announce(self, dst: str, members: int, after: Iterable[int]) -> int:
        """Add the start of a task, which the controller tells a site; returns its step."""
        centre, rank = self.scenario.controller_site, self.scenario.topology.rank
        if dst == centre:
            return self.moment(0, after)
        # Of two sites, the connection of the chunks has the smaller rank first, this one has not.
        ends = (dst, centre) if rank(dst) > rank(centre) else (centre, dst)
        number = self._connections.setdefault(ends, len(self._connections))
        size = START_BYTES + members * MEMBER_BYTES
        return self._step("message", number, int(ends[0] != centre), size, *after)

    def _step(self, *words: object) -> int:
        self._step_lines.append(" ".join(map(str, words)))
        self._steps += 1
        return self._steps - 1

    def write(
        self, attributes: Mapping[str, str], faults: Sequence[str], tcp: Tcp = "linux"
    ) -> str:
        """The whole text."""
        topology, options = self.scenario.topology, self.scenario.network
        algorithm, types = options.congestion_control, ALGORITHMS[tcp]  # BBR always paces
        cubic = types["cubic"]
        linux = {
            "ns3::TcpL4Protocol::SocketType": types.get(algorithm, cubic),
            "ns3::TcpSocket::SegmentSize": str(options.mtu - TCP_IP_HEADER_BYTES),
            "ns3::TcpSocket::InitialCwnd": str(options.initial_window),
            "ns3::TcpSocketState::EnablePacing": str(options.pacing or algorithm == "bbr").lower(),
            f"{cubic}::HyStart": str(bool(options.hystart)).lower(),
        }
        if isinstance(options.hystart, str):
            linux[f"{cubic}::HyStartDetect"] = {"train": "1", "delay": "2"}[options.hystart]
        settings = {**LIKE_LINUX, **linux, **attributes}
        lines = [f"sockets {tcp}", *(f"set {name} {value}" for name, value in settings.items())]
        lines += [f"node {name}" for name in topology.node_names]
        lines += self._list_links()
        for a, b in self._connections:
            lines.append(f"connection {self._path(a, b)} {self._path(b, a)}")
        lines += self._list_beats()
        lines += [*self._step_lines, *faults, *self._list_datagrams()]
        return "\n".join([*lines, f"run {self.scenario.seed} {STOP_S * 10**9}", ""])

    def _list_beats(self) -> Iterator[str]:
        if not (pause_s := self.scenario.failover.heartbeat_s):
            return
        topology = self.scenario.topology
        for site, begun_s in list_beginnings(topology, self.scenario.controller_site).items():
            times = round(pause_s * 1e9), round((begun_s + pause_s) * 1e9)
            yield " ".join(map(str, ("beats", topology.rank(site), HEADER.size, *times)))

    def _path(self, src: str, dst: str) -> str:
        nodes = self.scenario.topology.path(src, dst)
        return " ".join(map(str, (len(nodes), *map(self.scenario.topology.rank, nodes))))

    def _list_links(self) -> Iterator[str]:
        topology = self.scenario.topology
        for link in topology.links:
            back = topology.link(link.dst, link.src)
            if topology.rank(link.src) > topology.rank(link.dst):
                continue
            ends = topology.rank(link.src), topology.rank(link.dst)
            words = [*ends]
            for each in (link, back):
                _refuse_impairments(each)
                rate, queue = each.rate_mbps * 1e6, topology.queue_bytes(each)
                words += [round(each.delay_ms * 1e6), round(rate), queue]
            yield f"link {' '.join(map(str, words))}"
            for way in (ends, ends[::-1]):
                percent = (link if way == ends else back).loss_percent
                seed = link_seed(self.scenario.seed, *way)
                drawn = list_losses(seed, percent, self._most_packets())
                if lost := [packet for packet in drawn if packet >= OPENING_PACKETS]:
                    yield f"losses {' '.join(map(str, (*way, *lost)))}"

    def _most_packets(self) -> int:
        """A bound of the packets of a link, with acknowledgements and retransmissions."""
        size = sum(int(line.split()[3]) for line in self._step_lines if line.startswith("message"))
        return 10_000 + 3 * size // self.scenario.network.mtu

    def _list_datagrams(self) -> Iterator[str]:
        for flow in list_flows(self.scenario.background):
            entry = flow.entry
            if entry.kind != "constant":
                raise CannotDescribeError(f"background: {entry.kind}: expected constant")
            size = entry.packet_bytes
            interval_ns = (size + ETHERNET_HEADER_BYTES) * 8e3 / entry.rate_mbps
            stop_s = STOP_S if entry.stop_s is None else entry.stop_s
            times = (round(interval_ns), round(entry.start_s * 1e9), round(stop_s * 1e9))
            words = (self._path(flow.src, flow.dst), size, *times)
            yield f"datagrams {' '.join(map(str, words))}"


def describe(scenario: Scenario, attributes: Mapping[str, str] | None = None) -> Description:
    """Describe a scenario whose tasks follow each other.

    Raises CannotDescribeError.
    """
    quiet = replace(scenario, timeline=())
    if obstacles := list(fluid_run.list_obstacles(quiet)):
        raise CannotDescribeError(obstacles[0])
    if scenario.scheme.has_paths or scenario.scheme.scatter == "non-blocking":
        raise CannotDescribeError("scheme: auxiliary paths and early contributions have no words")
    topology, centre = scenario.topology, scenario.controller_site
    begun = list_beginnings(topology, centre)
    history = History.of(fluid_run.predict_events(quiet))
    workers = history.tasks[0].plan.contributors if history.tasks else ()
    made, ended_s = Description(scenario), -_greeted_s(topology, centre, begun, workers)
    for task in history.tasks:
        begun_s, end_ns = task.started.t_ns / 1e9, task.end_ns
        if end_ns is None or begun_s < ended_s:
            raise CannotDescribeError("tasks that overlap have no words")
        _describe_task(made, task.started, task, begun_s - ended_s)
        ended_s = end_ns / 1e9
    return made


def _greeted_s(
    topology: Topology, centre: str, begun: Mapping[str, float], workers: Collection[str]
) -> float:
    """What the model leaves out before the first task.

    When all sites have called the controller, it greets them. Then they begin to compute, and tell
    the controller when they are ready; for that, the model has the delay of the greeting.
    """
    called_s = max(begun[site] + _carry_s(topology, site, centre, HELLO_BYTES) for site in begun)
    there_and_back_s = max(
        (
            _carry_s(topology, centre, site, GREETING_BYTES)
            + _carry_s(topology, site, centre, READY_BYTES)
            for site in workers
        ),
        default=0.0,
    )
    there_s = max((_carry_s(topology, centre, site) for site in workers), default=0.0)
    return called_s + there_and_back_s - there_s


def list_beginnings(topology: Topology, centre: str) -> dict[str, float]:
    """When each site is connected to its neighbours and to the controller, in seconds.

    Sites of lower rank call those of higher rank, which wait for them; then each site calls the
    controller.
    """
    found = {}
    for site in topology.site_names:
        connected_s = 0.0
        for other in topology.overlay.neighbours(site):
            if topology.rank(other) > topology.rank(site):
                connected_s = max(connected_s, _call_s(topology, site, other))
            else:
                hello_s = _carry_s(topology, other, site, HELLO_BYTES)
                connected_s = max(connected_s, _call_s(topology, other, site) + hello_s)
        found[site] = connected_s + _call_s(topology, site, centre)
    return found


def _carry_s(topology: Topology, src: str, dst: str, size: int = 0) -> float:
    """How long packets of so many bytes take from one site to another."""
    links = [topology.link(*hop) for hop in pairwise(topology.path(src, dst))]
    return sum(link.delay_ms / 1e3 + size * 8e-6 / link.rate_mbps for link in links)


def _call_s(topology: Topology, src: str, dst: str) -> float:
    there_s = _carry_s(topology, src, dst, CALL_BYTES)
    return there_s + _carry_s(topology, dst, src, CALL_BYTES)


def list_faults(made: Description) -> Iterator[str]:
    """The lines of the timeline, which begins with the first task."""
    topology = made.scenario.topology
    for entry in made.scenario.timeline:
        fault = entry.fault
        if not isinstance(fault, Outage) or fault.how != "blackhole" or fault.for_s is None:
            raise CannotDescribeError("timeline: expected an outage as a blackhole, for some time")
        ways = [(fault.a, fault.b), (fault.b, fault.a)][: 1 + (fault.direction == "both")]
        for src, dst in ways:
            times = round(entry.at_s * 1e9), round(fault.for_s * 1e9), made.begins[0]
            yield " ".join(map(str, ("down", topology.rank(src), topology.rank(dst), *times)))


def list_losses(seed: int, percent: float, count: int) -> Iterator[int]:
    """Which of the first packets of a link netem loses; they are counted from 0 on.

    netem draws one number for each packet that has passed the queue, from the generator LFSR113 of
    P. L'Ecuyer (1999), which Linux fills with a seed of 64 bits.
    """
    if not percent:
        return
    mixed = (seed >> 32 ^ seed << 10 ^ seed) & _WORD
    states = [mixed + least if mixed < least else mixed for *_, least in _LFSR113]
    limit = threshold(percent)
    for packet in range(count):
        drawn = 0
        for part, (left, right, keep, least) in enumerate(_LFSR113):
            state = states[part]
            kept = (state & (_WORD ^ (least - 1))) << keep
            state = (kept ^ ((state << left & _WORD) ^ state) >> right) & _WORD
            states[part] = state
            drawn ^= state
        if drawn <= limit:
            yield packet


def _refuse_impairments(link: Link) -> None:
    found = [what for name, what in UNKNOWN.items() if getattr(link, name)]
    found += ["losses in bursts"] * link.has_bursts
    if found:
        text = f"link {link.src} -> {link.dst}: {', '.join(found)}: has no words"
        raise CannotDescribeError(f"{text}; expected rates, delays, queues and independent losses")


def _describe_task(made: Description, started: TaskStarted, task: Task, gap_s: float) -> None:
    plan = task.plan
    before = made.ends[-1] if made.ends else []
    begin = made.moment(gap_s, before)
    made.begins.append(begin)
    sites = [*plan.participants()]
    starts = {site: made.announce(site, len(sites), [begin]) for site in sites}
    made.ends.append(_Messages(made, plan, task.cut, starts).add_all())


@dataclass(slots=True)
class _Messages:
    """The messages of one task; `arrived` has the steps after which a site has what it waits for.

    Attributes:
        starts: the step with which each site hears of the task.
    """

    made: Description
    plan: Plan
    cut: Chunking
    starts: Mapping[str, int]
    trees: list[Trees] = field(init=False)

    def __post_init__(self) -> None:
        self.trees = [Trees.of(block) for block in self.plan.blocks]

    def add_all(self) -> list[int]:
        """Add the messages of all chunks; returns the last step of each receiver and block."""
        ends: list[int] = []
        for chunk, block in list_chunks(self.plan):
            if not self.plan.blocks[block].pipelined:
                raise CannotDescribeError("scheme: expected blocks that are pipelined")
            ends += self._add_chunk(chunk, block)
        return ends or list(self.starts.values())

    def _add_chunk(self, chunk: int, number: int) -> list[int]:
        trees, block = self.trees[number], self.plan.blocks[number]
        sums: dict[str, list[int]] = {site: [] for site in self.plan.participants()}
        for edge in _sort_inward(trees.parent):
            after = [*sums[edge[0]], self.starts[edge[0]]]
            sums[edge[-1]].append(self._send(edge, chunk, after))
        has = {block.aggregator: [*sums[block.aggregator], self.starts[block.aggregator]]}
        waiting = [block.aggregator]
        while waiting:
            site = waiting.pop(0)
            for edge in trees.children.get(site, ()):
                has[edge[-1]] = [self._send(edge, chunk, has[site])]
                waiting.append(edge[-1])
        receivers = self.plan.receivers_of(block)
        return sorted({step for site in receivers for step in has.get(site, ())})

    def _send(self, edge: Edge, chunk: int, after: Sequence[int]) -> int:
        size = HEADER.size + self.cut.size(chunk)
        step = -1
        for hop, (src, dst) in enumerate(pairwise(edge)):
            left = 2 * (len(edge) - 2 - hop)
            step = self.made.message(src, dst, size + left, after)
            after = [step]
        return step


def _sort_inward(parent: Mapping[str, Edge]) -> list[Edge]:
    """The edges of an in-tree, leaves first."""

    def depth(site: str) -> int:
        return 1 + depth(parent[site][-1]) if site in parent else 0

    return sorted(parent.values(), key=lambda edge: -depth(edge[0]))
