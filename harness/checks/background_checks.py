"""Checks of background traffic: what was sent and arrived, against the schedule (pure)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from trunkline.agents.events.background_events import (
    BackgroundFailed,
    BackgroundFile,
    BackgroundReceived,
    BackgroundSent,
)
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.planning.plan import Directed
from trunkline.harness.background.flows import Flow
from trunkline.harness.checks.verdict import Finding, Rules, doubt, fail, judged, note
from trunkline.harness.record.history import History
from trunkline.topologies.model import Topology

LATE_NS = {"virtual": 1_000_000, "real": 100_000_000}
"""How much later than its schedule background traffic may be sent, by the run's clock."""


def background_follows(history: History, rules: Rules) -> Iterator[Finding]:
    """Each flow sent what its schedule says, and nothing arrived that was not sent."""
    clock = history.run.clock if history.run else "virtual"
    known = {flow.number for flow in rules.flows}
    events = history.all(BackgroundSent), history.all(BackgroundReceived)
    rare = history.all(BackgroundFile), history.all(BackgroundFailed)
    for number in sorted({event.flow for kind in (*events, *rare) for event in kind} - known):
        yield fail(f"flow {number}: allowed are the {len(known)} flows of the scenario")
    sent = received = 0
    for flow in rules.flows:
        yield judged()
        observed = _observe(history, rules, flow)
        judge = _judge_files if flow.entry.kind == "tcp" else _judge_packets
        problems = [*_check_reports(observed), *judge(observed, LATE_NS[clock])]
        for text in problems:
            words = f"background {flow.src} -> {flow.dst} (flow {flow.number}): {text}"
            yield fail(words) if clock == "virtual" else doubt(words)
        sent += sum(event.bytes for event in observed.sent)
        received += sum(event.bytes for event in observed.received)
    yield note(f"{sent} bytes sent, {received} received")


@dataclass(frozen=True, slots=True)
class _Observed:
    """What the log says of a flow, its schedule up to then, and when the run was told to stop."""

    planned: Sequence[tuple[int, int]]
    sent: Sequence[BackgroundSent]
    received: Sequence[BackgroundReceived]
    files: Sequence[BackgroundFile]
    failed: Sequence[BackgroundFailed]
    stopped_ns: int

    @property
    def reports(self) -> tuple[BackgroundSent | BackgroundReceived, ...]:
        """What was sent, then what was received."""
        return (*self.sent, *self.received)


def _observe(history: History, rules: Rules, flow: Flow) -> _Observed:
    number = flow.number
    sent = [event for event in history.all(BackgroundSent) if event.flow == number]
    received = [event for event in history.all(BackgroundReceived) if event.flow == number]
    files = [event for event in history.all(BackgroundFile) if event.flow == number]
    failed = [event for event in history.all(BackgroundFailed) if event.flow == number]
    stopped_ns = min((event.t_ns for event in history.all(Stopping)), default=0)
    said_ns = (event.t_ns for event in (*sent, *received, *files))
    end_ns = max(said_ns, default=0)
    until_ns = max(end_ns, stopped_ns)
    planned = list(takewhile(lambda entry: entry[0] <= until_ns, rules.schedule(flow)))
    return _Observed(planned, sent, received, files, failed, stopped_ns)


def _check_reports(flow: _Observed) -> Iterator[str]:
    """Each report begins when the one before it ended, or later."""
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
    for into in flow.received:
        got += into.packets
        if got > (most := bisect_right(times, into.t_ns)):
            yield f"{got} packets received until {into.t_ns / 1e9:.3f} s, {most} are scheduled"
            break
    for report in flow.reports:
        if report.bytes != report.packets * size:
            yield f"{report.bytes} bytes in {report.packets} packets of {size} bytes"
            break
    if flow.files:
        yield "files arrived, but the flow sends packets"


def _judge_files(flow: _Observed, late_ns: int) -> Iterator[str]:
    starts: defaultdict[int, list[int]] = defaultdict(list)
    for t_ns, size in flow.planned:
        starts[size].append(t_ns)
    for event in sorted(flow.files, key=lambda each: (each.start_ns, each.t_ns)):
        fitting = [t for t in starts[event.bytes] if t <= event.start_ns <= t + late_ns]
        if not fitting or event.t_ns < event.start_ns:
            began = f"{event.start_ns / 1e9:.3f} s"
            yield f"a file of {event.bytes} bytes from {began} is not in the schedule"
            break
        starts[event.bytes].remove(fitting[0])
    whole = sum(event.bytes for event in flow.files)
    out = sum(event.bytes for event in flow.sent)
    into = sum(event.bytes for event in flow.received)
    offered = sum(size for _, size in flow.planned)
    if not whole <= into <= out <= offered:
        yield (
            f"{whole} bytes in whole files, {into} received, {out} sent, {offered} scheduled:"
            " none may be more than the next"
        )
    if any(report.packets for report in flow.reports):
        yield "packets are counted, but the flow transfers files"
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
