"""Which parts of plans workers know already, so that they need not be told again (pure).

Before it sends anything, a worker asks with the version of the table that it has, and waits for
the answer: an update, or that there is none (NetStorm, Section VII-A). So nobody sends by an old
table. What arrives before the answer does is kept until then (`agents.site.executor`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.planning.site_plan import BlockPart

Parts = tuple[BlockPart, ...]


@dataclass(slots=True)
class Table:
    """A worker's own: the parts that it was told last, and by which version they were made."""

    version: int = 0
    parts: Parts = ()

    def take(self, version: int, parts: Parts, unchanged: bool) -> Parts:
        """The answer to a question: an update, or that what is here holds; returns what does."""
        if not unchanged:
            self.version, self.parts = version, parts
        return self.parts


@dataclass(slots=True)
class Tables:
    """A controller's: what it has told each worker, and which version each says it has."""

    rates: PlanRates
    told: dict[str, tuple[int, Parts]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def asked(self, site: str, version: int) -> None:
        """A worker asks, and has this version."""
        self.versions[site] = version

    def forget(self, site: str) -> None:
        """A worker has come, perhaps another one than before."""
        self.told.pop(site, None)
        self.versions.pop(site, None)

    def is_known(self, site: str, parts: Parts) -> bool:
        """Whether a worker that is to be told its parts has them already; it will from now on."""
        now = self.rates.version, parts
        known = self.told.get(site) == now and self.versions.get(site) == self.rates.version
        self.told[site] = now
        return known
