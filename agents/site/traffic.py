"""What a site sent and received for each task, and when (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trunkline.agents.events.task_events import Phase
from trunkline.agents.site.early_contributions import Key

Account = int | Key
"""A task, or an offer that has no task yet."""


@dataclass(slots=True)
class Traffic:
    """Payload of one task over one directed link in one phase, and when it flowed."""

    bytes: int = 0
    chunks: int = 0
    start_ns: int = 0
    end_ns: int = 0

    def add(self, size: int, start_ns: int, end_ns: int) -> None:
        """Count one chunk. With several connections, one that began later may be counted before."""
        self.join(Traffic(size, 1, start_ns, end_ns))

    def join(self, other: Traffic) -> None:
        """Add the other's counts to this one's."""
        self.start_ns = min(self.start_ns, other.start_ns) if self.chunks else other.start_ns
        self.end_ns = max(self.end_ns, other.end_ns)
        self.bytes += other.bytes
        self.chunks += other.chunks


Page = dict[tuple[str, Phase], Traffic]
"""Traffic by peer and phase. For discarded traffic the peer is the site that contributed it."""


@dataclass(slots=True)
class Book:
    """Traffic of one kind, by task or offer."""

    pages: dict[Account, Page] = field(default_factory=dict)

    def count(
        self, account: Account, peer: tuple[str, Phase], size: int, start_ns: int, end_ns: int
    ) -> None:
        """Count one chunk."""
        page = self.pages.setdefault(account, {})
        page.setdefault(peer, Traffic()).add(size, start_ns, end_ns)

    def adopt(self, task: int, keys: Iterable[Key]) -> None:
        """Count the traffic of these offers for the task that took them in."""
        page = self.pages.setdefault(task, {})
        for key in keys:
            for where, traffic in self.pages.pop(key, {}).items():
                page.setdefault(where, Traffic()).join(traffic)

    def close(self, account: Account) -> Page:
        """Forget a task or an offer; returns its traffic."""
        return self.pages.pop(account, {})
