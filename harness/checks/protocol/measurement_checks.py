"""Checks of what sites measure: exchanges of the time with a server, and rates of links (pure).

How far a clock or an estimate is off is a result, and not judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from trunkline.agents.events.awareness_events import ClockSynchronized, RateMeasured, TimeServed
from trunkline.agents.events.event import CONTROLLER
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.harness.checks.control_paths import Paths
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged
from trunkline.harness.record.history import History


def measurements_fit(history: History, rules: Rules, paths: Paths) -> Iterator[Finding]:
    """Sites ask the servers that they were given, and measure links that are theirs."""
    measured = history.all(ClockSynchronized, RateMeasured)
    if measured and rules.scenario.scheme.awareness is None:
        yield fail("sites measured clocks or rates, which the scenario does not ask for")
        return
    yield from _judge_clocks(history, rules, paths)
    yield from _judge_rates(history, rules)


def _judge_clocks(history: History, rules: Rules, paths: Paths) -> Iterator[Finding]:
    """An exchange is with a server that was named before, and takes a round trip at least.

    Only the first one of a process finds a clock that was never corrected.
    """
    servers: defaultdict[str, set[str]] = defaultdict(set)
    corrected = set[str]()
    for event in history.events:
        if isinstance(event, TimeServed):
            for site, server in event.servers.items():
                servers[site].add(server)
        elif isinstance(event, AgentChanged) and event.do in ("kill", "restart"):
            corrected.discard(event.who)
        elif isinstance(event, ClockSynchronized):
            site, when = event.site, format_time(event.t_ns)
            if event.server not in servers[site]:
                yield fail(f"{site} asked {event.server} for the time at {when}, not its server")
            if (event.before_ns is None) is (site in corrected):
                had = "its clock had been" if site in corrected else "its clock had not been"
                yield fail(f"{site} at {when}: {had} corrected before")
            corrected.add(site)
            asked = rules.controllers if event.server == CONTROLLER else (event.server,)
            least_ns = min(paths.control_ns(site, e) + paths.control_ns(e, site) for e in asked)
            if event.delay_ms * 1e6 < least_ns:
                yield fail(f"{site} had the time at {when} after {event.delay_ms:g} ms")
            yield judged()


def _judge_rates(history: History, rules: Rules) -> Iterator[Finding]:
    """A rate is of a link of its site, and of whole chunks, of which a measurement has enough."""
    awareness = rules.scenario.scheme.awareness
    if awareness is None:
        return
    links = {(link.src, link.dst) for link in rules.topology.overlay.links}
    most_bytes, least_bytes = rules.scenario.scheme.chunk_bytes, awareness.probe_chunk_bytes or 0
    for event in history.all(RateMeasured):
        what = f"{event.site} at {format_time(event.t_ns)}: {event.src} -> {event.dst}"
        end = event.src if awareness.estimator == "round_trip" else event.dst
        if (event.src, event.dst) not in links or event.site != end:
            yield fail(f"{what} is no link that it measures")
        if not event.rate_mbps > 0:
            yield fail(f"{what} cannot have {event.rate_mbps:g} Mbit/s")
        enough = awareness.probe_count <= event.chunks <= 2 * awareness.probe_count
        if not enough or not least_bytes * event.chunks <= event.bytes <= most_bytes * event.chunks:
            yield fail(f"{what} was measured by {event.chunks} chunks of {event.bytes} bytes")
        yield judged()
