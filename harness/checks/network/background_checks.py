"""Checks of background traffic: what was sent and arrived, against the schedule (pure)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, takewhile

from trunkline.agents.events.background_events import (
    BackgroundFailed,
    BackgroundFile,
    BackgroundReceived,
    BackgroundSent,
)
from trunkline.agents.events.run_events import RunFinished, Stopping
from trunkline.agents.events.task_events import Sent
from trunkline.agents.planning.plan import Directed
from trunkline.harness.background.endpoint import REPORT_NS
from trunkline.harness.background.flows import UDP_IP_HEADER_BYTES, Flow
from trunkline.harness.checks.control_paths import Paths
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import BY_CLOCK, CLOCK_NS, COUNTED_NS
from trunkline.harness.checks.verdict import Finding, doubt, fail, judged, note
from trunkline.harness.network.interface import ETHERNET_HEADER_BYTES
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.topologies.model import Topology

BURST_BYTES, EXACT_BYTES, PACE = 256 * 1024, 1514, 1.05
"""A file passes a shaper at its rate within this share, but for this much at its start; the shaper
of the embedded kernel lets no more than a packet pass."""

SLOW_START_ROUNDS, FIRST_WINDOW_BYTES, LEAST_RATE_SHARE = 3, 10_000, 0.8
"""A file needs at most so many round trips besides one for each doubling of its first window, and
gets at least this share of the slowest link's rate, after all other traffic."""

MISSED_NS = 1_000_000_000
"""A file that did not arrive is missed this long after its start, or later."""

DROPPED_NS = 3_000_000_000
"""TCP may wait so long in all for packets that a full queue dropped."""


def background_follows(history: History, rules: Rules) -> Iterator[Finding]:
    """Each flow followed its schedule, and nothing arrived that was not sent."""
    clock = history.run.clock if history.run else "virtual"
    exact_ns = COUNTED_NS if clock == "virtual" else math.inf
    late_ns, more_ns = BY_CLOCK[clock].background_ns, BY_CLOCK[clock].arrival_ns
    known = {flow.number for flow in rules.flows}
    events = history.all(BackgroundSent), history.all(BackgroundReceived)
    rare = history.all(BackgroundFile), history.all(BackgroundFailed)
    for number in sorted({event.flow for kind in (*events, *rare) for event in kind} - known):
        yield fail(f"flow {number}: expected one of the {len(known)} flows of the scenario")
    sent = received = 0
    paths = Paths(history, rules)
    for flow in rules.flows:
        yield judged()
        observed = _observe(history, rules, flow, _Way.of(history, rules, paths, flow, more_ns))
        judge = _judge_files if flow.entry.kind == "tcp" else _judge_packets
        problems = [*_check_reports(observed, exact_ns), *judge(observed, late_ns)]
        for text in problems:
            words = f"background {flow.src} -> {flow.dst} (flow {flow.number}): {text}"
            yield fail(words) if clock == "virtual" else doubt(words)
        sent += sum(event.bytes for event in observed.sent)
        received += sum(event.bytes for event in observed.received)
    yield note(f"{sent} bytes sent, {received} received")


@dataclass(frozen=True, slots=True)
class _Way:
    """What the path of a flow allows.

    Attributes:
        least_ns: the smallest delay from the sender to the receiver.
        round_ns: the smallest round trip.
        most_ns: within so much a packet arrives, also if all queues are full.
        rate_mbps: the largest rate of its slowest link.
        troubles: when a link of it, or of the way back, was cut, or lost, corrupted, duplicated or
            reordered packets: (start, end) in ns.
        drops: the packets that its interfaces dropped.
        burst_bytes: so much a shaper lets pass at once.
        hops: its links.
        least_mbps: the smallest rate of any of its links.
        most_round_ns: the longest round trip, with full queues.
        conditions: the values of all links over time.
    """

    least_ns: int
    round_ns: int
    most_ns: int
    rate_mbps: float
    troubles: tuple[tuple[int, int], ...]
    drops: int
    burst_bytes: int
    hops: tuple[Directed, ...]
    least_mbps: float
    most_round_ns: int
    conditions: Conditions

    def count_most(self, packets: int) -> int:
        """How many packets may arrive if so many are sent: links may duplicate some."""
        for hop in self.hops:
            packets += self.conditions.most_copies(hop, packets)
        return packets

    def is_calm(self, start_ns: int, end_ns: int) -> bool:
        """Whether nothing was cut or lossy then."""
        return not any(start <= end_ns and start_ns <= end for start, end in self.troubles)

    @classmethod
    def of(cls, history: History, rules: Rules, paths: Paths, flow: Flow, more_ns: int) -> _Way:
        topology = rules.topology
        conditions = Conditions.to_judge(history, topology)
        spells = conditions.spells
        hops = tuple(pairwise(topology.path(flow.src, flow.dst)))
        back = tuple(pairwise(topology.path(flow.dst, flow.src)))
        troubles = []
        for hop in (*hops, *back):
            for number, spell in enumerate(spells[hop]):
                later = spells[hop][number + 1 :]
                end_ns = later[0].start_ns if later else history.end_ns
                if spell.is_cut or spell.link.slows_tcp:
                    troubles.append((spell.start_ns, end_ns))

        def sum_most_ms(links: tuple[Directed, ...]) -> float:
            return sum(
                max(spell.link.most_delay_ms for spell in spells[hop])
                + topology.queue_bytes(topology.link(*hop))
                * 8e-3
                / min(spell.link.rate_mbps for spell in spells[hop])
                for hop in links
            )

        totals = [totals for run in history.all(RunFinished) for totals in run.links]
        return cls(
            paths.control_ns(flow.src, flow.dst),
            paths.control_ns(flow.src, flow.dst) + paths.control_ns(flow.dst, flow.src),
            round(sum_most_ms(hops) * 1e6) + more_ns,
            min(max(spell.link.rate_mbps for spell in spells[hop]) for hop in hops),
            tuple(troubles),
            sum(each.drops for each in totals if (each.src, each.dst) in hops),
            EXACT_BYTES if history.run and history.run.backend == "embedded" else BURST_BYTES,
            hops,
            min(spell.link.rate_mbps for hop in hops for spell in spells[hop]),
            round(sum_most_ms((*hops, *back)) * 1e6) + 2 * more_ns,
            conditions,
        )


@dataclass(frozen=True, slots=True)
class _Observed:
    """What the log says of a flow, its schedule up to then, and when the run was told to stop.

    `stopped_ns` is 0 if it was not, or broke off: then the last counts are missing. `others` are
    all transfers on its links, also those of agents: (start, end, bytes).
    """

    planned: Sequence[tuple[int, int]]
    sent: Sequence[BackgroundSent]
    received: Sequence[BackgroundReceived]
    files: Sequence[BackgroundFile]
    failed: Sequence[BackgroundFailed]
    stopped_ns: int
    way: _Way
    others: Sequence[tuple[int, int, int]]

    @property
    def reports(self) -> tuple[BackgroundSent | BackgroundReceived, ...]:
        """What was sent, then what was received."""
        return (*self.sent, *self.received)


def _observe(history: History, rules: Rules, flow: Flow, way: _Way) -> _Observed:
    number = flow.number
    sent = [event for event in history.all(BackgroundSent) if event.flow == number]
    received = [event for event in history.all(BackgroundReceived) if event.flow == number]
    files = [event for event in history.all(BackgroundFile) if event.flow == number]
    failed = [event for event in history.all(BackgroundFailed) if event.flow == number]
    stops_ns = [] if history.broke_off else [event.t_ns for event in history.all(Stopping)]
    stopped_ns = min(stops_ns, default=0)
    said_ns = (event.t_ns for event in (*sent, *received, *files))
    end_ns = max(said_ns, default=0)
    until_ns = max(end_ns, stopped_ns)
    planned = list(takewhile(lambda entry: entry[0] <= until_ns, rules.schedule(flow)))
    others = list(_list_transfers(history, rules, way.hops)) if files else []
    return _Observed(planned, sent, received, files, failed, stopped_ns, way, others)


def _list_transfers(
    history: History, rules: Rules, hops: Collection[Directed]
) -> Iterator[tuple[int, int, int]]:
    """What crossed any of these links, of agents and of background traffic: (start, end, bytes)."""

    def crosses(src: str, dst: str) -> bool:
        return any(hop in hops for hop in pairwise(rules.topology.path(src, dst)))

    for task in history.tasks:
        for sent in task.all(Sent):
            if crosses(sent.site, sent.dst):
                yield sent.start_ns, sent.end_ns, sent.bytes
    crossing = {flow.number for flow in rules.flows if crosses(flow.src, flow.dst)}
    for got in history.all(BackgroundSent):
        if got.flow in crossing:
            yield got.since_ns, got.t_ns, got.bytes


def _check_reports(flow: _Observed, exact_ns: float) -> Iterator[str]:
    """Each report is of one second of the run, and begins when the one before it ended, or later.

    The last ones come when the run has stopped.
    """
    for event in flow.reports:
        late_ns = event.t_ns % REPORT_NS
        since_ns = event.since_ns - (event.t_ns - late_ns - REPORT_NS)
        is_exact = late_ns <= exact_ns and 0 <= since_ns <= exact_ns
        if not is_exact and math.isfinite(exact_ns) and event.t_ns < flow.stopped_ns:
            yield f"the bytes until {event.t_ns / 1e9:.3f} s are not those of one second"
            break
    for reports in (flow.sent, flow.received):
        before_ns = 0
        for event in reports:
            if not before_ns <= event.since_ns <= event.t_ns:
                yield f"the bytes until {event.t_ns / 1e9:.3f} s are counted from a wrong time"
            before_ns = event.t_ns


def _judge_packets(flow: _Observed, late_ns: int) -> Iterator[str]:
    size = flow.planned[0][1] if flow.planned else 0
    times = [t_ns for t_ns, _ in flow.planned]
    count = got = 0
    for event in flow.sent:
        count += event.packets
        most = bisect_right(times, event.t_ns)
        if not bisect_right(times, event.t_ns - late_ns) <= count <= most:
            yield f"{count} packets sent until {event.t_ns / 1e9:.3f} s, {most} are scheduled"
            break
    if (least := bisect_right(times, flow.stopped_ns - late_ns)) > count:
        yield f"{count} packets sent in all, {least} are scheduled"
    most_ns = flow.way.most_ns
    calm = [t for t in times[:least] if flow.way.is_calm(t, t + most_ns)]
    for into in flow.received:
        got += into.packets
        most = flow.way.count_most(bisect_right(times, into.t_ns - flow.way.least_ns + CLOCK_NS))
        if got > most:
            yield f"{got} packets received until {into.t_ns / 1e9:.3f} s, {most} could arrive"
            break
        if (text := _find_missing(flow, calm, got, into.t_ns)) is not None:
            yield text
            break
    if (text := _find_missing(flow, calm, got, flow.stopped_ns)) is not None:
        yield text
    for report in flow.reports:
        if report.bytes != report.packets * size:
            yield f"{report.bytes} bytes in {report.packets} packets of {size} bytes"
            break
    if flow.files:
        yield "files arrived, but the flow sends packets"


def _find_missing(flow: _Observed, calm: Sequence[int], got: int, until_ns: int) -> str | None:
    """What is wrong if fewer packets came until then than had been sent a delay earlier."""
    due = bisect_right(calm, until_ns - flow.way.most_ns)
    if got >= due - flow.way.drops:
        return None
    text = f"{due} were sent while nothing was cut or lossy, {flow.way.drops} dropped"
    return f"{got} packets received until {until_ns / 1e9:.3f} s, {text}"


def _find_wrong_counts(flow: _Observed) -> Iterator[str]:
    """Whether a count has fewer bytes than the files that were whole, or more than had begun."""
    starts_ns = [t_ns for t_ns, _ in flow.planned]
    begun = [0, *accumulate(size for _, size in flow.planned)]
    files = sorted(flow.files, key=lambda each: each.t_ns)
    ends_ns = [each.t_ns for each in files]
    whole = [0, *accumulate(each.bytes for each in files)]
    for reports in (flow.sent, flow.received):
        for event, total in zip(reports, accumulate(each.bytes for each in reports), strict=True):
            least = whole[bisect_right(ends_ns, event.t_ns)]
            most = begun[bisect_right(starts_ns, event.t_ns)]
            if not least <= total <= most:
                when = f"{event.t_ns / 1e9:.3f} s"
                yield f"{total} bytes until {when}, {least} in whole files and {most} begun"
                return


def _find_late_files(flow: _Observed) -> Iterator[str]:
    """Whether all files that had begun were here at a count, although some are reported later."""
    got = 0
    for into in flow.received:
        got += into.bytes
        begun = [each for each in flow.files if each.start_ns <= into.t_ns]
        later = sum(each.t_ns > into.t_ns + CLOCK_NS for each in begun)
        all_end = len(begun) >= sum(t_ns <= into.t_ns for t_ns, _ in flow.planned)
        if later and all_end and got >= sum(each.bytes for each in begun):
            yield f"{later} files had arrived at {into.t_ns / 1e9:.3f} s, but are reported later"
            return


def _find_slow_files(flow: _Observed) -> Iterator[str]:
    """Whether a file took longer than its path allows.

    While something is cut or lossy nothing is judged.
    """
    for event in flow.files:
        took_ns = event.t_ns - event.start_ns
        if not flow.way.is_calm(event.start_ns, event.t_ns):
            continue
        allowed_ns = _most_ns(flow, event.bytes, event.start_ns, event.t_ns)
        if took_ns > allowed_ns:
            took, allowed = (f"{each / 1e9:.3f} s" for each in (took_ns, allowed_ns))
            yield f"a file of {event.bytes} bytes took {took}, more than {allowed}"
            return


def _find_missing_files(
    flow: _Observed, missing: Mapping[int, Sequence[int]], late_ns: int
) -> Iterator[str]:
    """Whether one of the `missing` files, by size, must have arrived before the run stopped.

    That is so if its path was calm, and long enough for it, until the stop, or for a second after
    its start, two, four and so on.
    """
    for size, start_ns in ((size, t_ns) for size, times in missing.items() for t_ns in times):
        given_ns = MISSED_NS
        while start_ns < flow.stopped_ns:
            end_ns = min(start_ns + given_ns, flow.stopped_ns)
            allowed_ns = late_ns + _most_ns(flow, size, start_ns, end_ns)
            if end_ns - start_ns > allowed_ns and flow.way.is_calm(start_ns, end_ns):
                began, allowed = (f"{each / 1e9:.3f} s" for each in (start_ns, allowed_ns))
                yield f"a file of {size} bytes from {began} is missing; it needs up to {allowed}"
                return
            if end_ns == flow.stopped_ns:
                break
            given_ns *= 2


def _most_ns(flow: _Observed, size: int, start_ns: int, end_ns: int) -> float:
    """How long a file may take that is under way from `start_ns` to `end_ns`.

    It needs a handshake and a slow start, with full queues, and the rate of the slowest link for
    itself and for all other traffic there. If an interface of the path dropped packets, DROPPED_NS
    more are allowed.
    """
    way = flow.way
    rounds = SLOW_START_ROUNDS + math.ceil(math.log2(1 + size / FIRST_WINDOW_BYTES))
    others = sum(
        moved
        for since_ns, until_ns, moved in flow.others
        if since_ns < end_ns and start_ns < until_ns
    )
    paced_ns = (size + others) * 8e3 / (way.least_mbps * LEAST_RATE_SHARE)
    return rounds * way.most_round_ns + paced_ns + (DROPPED_NS if way.drops else 0)


def _judge_files(flow: _Observed, late_ns: int) -> Iterator[str]:
    starts: defaultdict[int, list[int]] = defaultdict(list)
    for t_ns, size in flow.planned:
        starts[size].append(t_ns)
    for event in sorted(flow.files, key=lambda each: (each.start_ns, each.t_ns)):
        fitting = [t for t in starts[event.bytes] if t <= event.start_ns <= t + late_ns]
        way = flow.way
        # A connection is made first; a shaper lets some bytes pass at once.
        paced_ns = max(0, event.bytes - way.burst_bytes) * 8e3 / (way.rate_mbps * PACE)
        if event.t_ns < event.start_ns + way.round_ns + way.least_ns + paced_ns - CLOCK_NS:
            took = f"{(event.t_ns - event.start_ns) / 1e9:.3f} s"
            yield f"a file of {event.bytes} bytes took {took}, less than its path allows"
            break
        if not fitting:
            began = f"{event.start_ns / 1e9:.3f} s"
            yield f"a file of {event.bytes} bytes from {began} is not in the schedule"
            break
        starts[event.bytes].remove(fitting[0])
    yield from _find_wrong_counts(flow)
    yield from _find_late_files(flow)
    yield from _find_slow_files(flow)
    yield from _find_missing_files(flow, starts, late_ns)
    whole = sum(event.bytes for event in flow.files)
    out = sum(event.bytes for event in flow.sent)
    into = sum(event.bytes for event in flow.received)
    offered = sum(size for _, size in flow.planned)
    if flow.stopped_ns and not whole <= into <= out <= offered:
        yield (
            f"{whole} bytes in whole files, {into} received, {out} sent, {offered} scheduled:"
            " none may be more than the next"
        )
    if any(report.packets for report in flow.reports):
        yield "packets are counted, but the flow transfers files"
    left = sum(t_ns <= flow.stopped_ns for times in starts.values() for t_ns in times)
    due_bytes = sum(size * sum(t <= flow.stopped_ns for t in ts) for size, ts in starts.items())
    if left and not flow.failed and into - whole >= due_bytes:
        yield f"{left} files are not whole, but {into - whole} bytes of them arrived"
    early_ns = flow.stopped_ns - flow.way.round_ns - flow.way.most_ns
    if not into and any(
        t <= early_ns and flow.way.is_calm(t, flow.stopped_ns) for t, _ in flow.planned
    ):
        yield "nothing arrived, and nothing was cut or lossy"
    for failure in flow.failed:
        if flow.way.is_calm(0, failure.t_ns) and failure.t_ns < flow.stopped_ns:
            yield f"a connection failed at {failure.t_ns / 1e9:.3f} s without a fault"
    due = sum(t_ns <= flow.stopped_ns - late_ns for t_ns, _ in flow.planned)
    if due and not (flow.sent or flow.failed):
        yield f"nothing was sent, {due} files are scheduled"


def count_payload(history: History, topology: Topology, flows: Sequence[Flow]) -> Counter[Directed]:
    """The payload of flows that arrived, on each link that it crossed."""
    paths = {flow.number: tuple(pairwise(topology.path(flow.src, flow.dst))) for flow in flows}
    found = Counter[Directed]()
    for event in history.all(BackgroundReceived):
        for hop in paths.get(event.flow, ()):
            found[hop] += event.bytes
    return found


def measure_background(
    history: History, topology: Topology, flows: Sequence[Flow]
) -> tuple[Counter[Directed], Counter[Directed]]:
    """On each link, the most bytes of background traffic, and its packets of UDP.

    Of UDP these are all that were sent, with their headers. Of TCP these are the payload and what
    the link dropped: its headers are smaller than EMPTY_PACKET_BYTES.
    """
    size, packets = Counter[Directed](), Counter[Directed]()
    known = {flow.number: flow for flow in flows}
    hops = {flow.number: tuple(pairwise(topology.path(flow.src, flow.dst))) for flow in flows}
    for event in history.all(BackgroundSent):
        for hop in hops.get(event.flow, ()):
            header_bytes = ETHERNET_HEADER_BYTES + UDP_IP_HEADER_BYTES
            size[hop] += event.bytes + event.packets * header_bytes
            packets[hop] += event.packets
    crossed = {h for n, way in hops.items() if known[n].entry.kind == "tcp" for h in way}
    for totals in (each for run in history.all(RunFinished) for each in run.links):
        if (totals.src, totals.dst) in crossed:
            size[totals.src, totals.dst] += totals.drops * EXACT_BYTES
    return size, packets
