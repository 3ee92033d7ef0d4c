"""The contributions that sites sent before their task was known (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trunkline.agents.wire.messages import Report


@dataclass(slots=True)
class KnownOffers:
    """The offers that all sites can still take into a task.

    numbers: the number of each site's offer.
    spent: what workers have reported of the offers that they took into a task or discarded.
    are_whole: whether no chunk of an offer that is still to be reported can be missing.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    spent: list[dict[str, int]] = field(default_factory=list)
    are_whole: bool = True

    def note(self, site: str, report: Report) -> None:
        """Note an offer that was made to the controller before this one."""
        self.spent.append(report.spent)
        if report.offer is not None and self.are_whole:
            self.numbers[site] = report.offer

    def forget(self) -> None:
        """Chunks of any offer may be missing, also of one that is not reported yet.

        A site or a link was lost, and is used again. (Plans go around it before, and a chunk of an
        offer counts only on the way of the plan.)
        """
        self.numbers.clear()
        self.are_whole = False

    def keep_usable(self, *, all_present: bool) -> None:
        """Keep the offers that all sites can still take into a task."""
        if not all_present:
            self.numbers.clear()
        for spent in self.spent:
            for site, number in spent.items():
                if self.numbers.get(site, number + 1) <= number:
                    del self.numbers[site]
        self.spent.clear()

    def take(self, sites: Iterable[str]) -> dict[str, int]:
        """The offers of these sites, which are used up by that."""
        return {site: self.numbers.pop(site) for site in sites if site in self.numbers}
