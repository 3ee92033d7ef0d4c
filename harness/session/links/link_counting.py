"""Logs what links carried so far, from time to time, in runs whose processes do not log it."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from trunkline.agents.events.event import RUNNER
from trunkline.agents.events.event_writing import LoggedEvent
from trunkline.agents.events.run_events import LinkBytes, LinksCounted, SiteQuiet
from trunkline.agents.planning.plan import Directed
from trunkline.agents.timing.exact_waits import Alarm
from trunkline.harness.network.count_times import period_ns
from trunkline.harness.network.interface import EMPTY_PACKET_BYTES, LinkCounters, Network

QUIET_NS = 1_000_000_000
"""A site that moves no data for this time is logged."""


class LinkCounting:
    """Counts from `start` on; `fd` becomes readable when `count` is to be called."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._alarm = Alarm()
        self.fd = self._alarm.fd
        self._opened = contextlib.ExitStack()
        self._count_data = self._opened.enter_context(network.counting_data())
        self._epoch_ns = self._next_ns = self._counts = 0
        self._last: dict[Directed, LinkCounters] = {}
        self._carried: set[str] = set()
        self._with_data = Counter[str]()
        self._active_ns = dict.fromkeys(network.topology.site_names, 0)

    def close(self) -> None:
        """Free the alarm and the files with the sites' counters."""
        self._alarm.close()
        self._opened.close()

    def start(self, epoch_ns: int) -> None:
        """Count from this time on, by `time.monotonic_ns`; it is the epoch of the run's clock."""
        self._epoch_ns = self._next_ns = epoch_ns
        self._wait()

    def count(self) -> Iterator[LoggedEvent]:
        """The events of the count that is due.

        They are the links whose bytes have changed, and the sites that were quiet until now.
        """
        self._counts += 1
        before, self._last = self._last, self._network.counters()
        new = {
            ends: (before.get(ends, LinkCounters()), now)
            for ends, now in self._last.items()
            if now.bytes != before.get(ends, LinkCounters()).bytes
        }
        self._wait()
        if new:
            links = tuple(LinkBytes(*ends, self._last[ends].bytes) for ends in new)
            t_ns = time.monotonic_ns() - self._epoch_ns
            yield LoggedEvent.of(LinksCounted(t_ns, RUNNER, links))
            active = self._find_active(new)
            yield from self._list_quiet(t_ns, [site for site in self._active_ns if site in active])
            self._active_ns.update(dict.fromkeys(active, t_ns))

    def finish(self, t_ns: int) -> Iterator[LoggedEvent]:
        """The events of the sites that are quiet when the run ends, in time since its start.

        There are none if nothing was counted.
        """
        if self._counts:
            yield from self._list_quiet(t_ns, self._active_ns)

    def _find_active(self, new: Mapping[Directed, tuple[LinkCounters, LinkCounters]]) -> set[str]:
        """The sites that moved data, by the counters of links that changed, before and now.

        The kernel says which sites sent data. A link counts a packet only after its delay, so a
        site whose link has carried something is asked until it has sent data, too. Packets that are
        too large to be empty say where data arrived.
        """
        sites = self._active_ns.keys()
        self._carried.update(src for src, _ in new)
        sent = Counter({s: self._count_data(s) for s in sites if s in self._carried})
        senders = {site for site, count in sent.items() if count != self._with_data[site]}
        self._with_data |= sent
        self._carried -= senders
        receivers = {dst for (_, dst), counters in new.items() if _delivered_data(*counters)}
        return senders | (receivers & sites)

    def _list_quiet(self, t_ns: int, sites: Iterable[str]) -> Iterator[LoggedEvent]:
        """Of sites that were quiet until now, those that were so long enough."""
        for site in sites:
            since_ns = self._active_ns[site]
            if t_ns - since_ns >= QUIET_NS:
                yield LoggedEvent.of(SiteQuiet(t_ns, RUNNER, site, since_ns))

    def _wait(self) -> None:
        self._next_ns += period_ns(self._counts)
        self._alarm.set(self._next_ns)


def _delivered_data(before: LinkCounters, now: LinkCounters) -> bool:
    """Whether a link surely delivered data: its packets were too large to be empty."""
    packets = now.packets - before.packets
    is_full = now.bytes - before.bytes > EMPTY_PACKET_BYTES * packets
    return is_full and now.swallowed == before.swallowed
