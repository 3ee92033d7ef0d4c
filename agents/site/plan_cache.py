"""Which parts of plans workers know already, so that they are not sent again (pure).

Before a worker sends chunks, it reports the version of its cached parts and waits for the answer:
new parts, or that the cached ones still hold (NetStorm, Section VII-A). So no worker sends by old
parts. Chunks that arrive before the answer are kept until then (`agents.site.executor`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.planning.site_plan import BlockPart

Parts = tuple[BlockPart, ...]


@dataclass(slots=True)
class PlanCache:
    """A worker's cache: the parts that it was sent last, and the version of their rates."""

    version: int = 0
    parts: Parts = ()

    def take(self, version: int, parts: Parts, unchanged: bool) -> Parts:
        """Handle the controller's answer: store new parts unless `unchanged`; returns the parts."""
        if not unchanged:
            self.version, self.parts = version, parts
        return self.parts


@dataclass(slots=True)
class PlanCaches:
    """A controller's view: the parts `sent` to each worker, and the version that each reports."""

    rates: PlanRates
    sent: dict[str, tuple[int, Parts]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def note_version(self, site: str, version: int) -> None:
        """Note the version that a worker reports."""
        self.versions[site] = version

    def forget(self, site: str) -> None:
        """Forget a site's cache: its worker may be a new process with an empty one."""
        self.sent.pop(site, None)
        self.versions.pop(site, None)

    def record(self, site: str, parts: Parts) -> bool:
        """Note that these parts go to a worker; True if it has them already."""
        now = self.rates.version, parts
        known = self.sent.get(site) == now and self.versions.get(site) == self.rates.version
        self.sent[site] = now
        return known
