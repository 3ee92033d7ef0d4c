"""Builds a controller's plans over the links that can be used, by the rates that are known (pure).

It remembers from task to task what plans must not change, and which auxiliary paths workers may
be using.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from trunkline.agents.planning.auxiliary_paths import find_disjoint_paths
from trunkline.agents.planning.plan import (
    Block,
    Directed,
    Edge,
    Plan,
    PlanError,
    PlanRequest,
    check,
)
from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.planning.repair import UsableOverlay
from trunkline.agents.wire.agent_settings import ControllerSettings

Build = Callable[[PlanRequest], Plan]
"""A plan file's `build` with its options filled in."""


@dataclass(slots=True)
class Planner:
    """Plans for groups of sites; `overlay` says which links and sites can be used.

    `given` are the auxiliary paths of each pair of sites that workers were told of. A path that is
    no longer among the latest may still have chunks on it.
    """

    settings: ControllerSettings
    overlay: UsableOverlay
    build: Build
    given: dict[Directed, set[Edge]] = field(default_factory=dict)

    @classmethod
    def over(cls, settings: ControllerSettings, build: Build) -> Planner:
        """A planner over the whole overlay of the settings: no site has joined yet."""
        rates = PlanRates(settings.rates_mbps, settings.update_threshold)
        return cls(settings, UsableOverlay(rates), build)

    @property
    def rates(self) -> PlanRates:
        """The rates that plans go by."""
        return self.overlay.rates

    def plan(self, group: tuple[str, ...], task: int) -> Plan:
        """A plan over the links and sites that can be used now; PlanError if there is none."""
        around = self.overlay.reachable_from(group[0])
        if not around.issuperset(group):
            raise PlanError("the links that are left do not connect the group")
        usable_mbps = self.overlay.usable_mbps()
        request = make_request(
            self.settings,
            group,
            around,
            {link: rate for link, rate in usable_mbps.items() if link[0] in around},
            random.Random(f"{self.settings.seed} {task}"),
            self.rates.first_mbps,
        )
        plan = self.build(request)
        check(plan, request.rates_mbps.keys())
        return plan

    def paths(self) -> dict[Directed, tuple[Edge, ...]]:
        """All paths that workers may use now, by pair (Algorithm 3)."""
        pairs = itertools.permutations(sorted(self.overlay.present), 2)
        found = find_disjoint_paths(pairs, self.overlay.usable_mbps())
        for pair, paths in found.items():
            self.given.setdefault(pair, set()).update(paths)
        return found

    def forget(self, is_gone: Callable[[Edge], bool]) -> None:
        """These paths were lost with all that was on them."""
        for pair, paths in self.given.items():
            self.given[pair] = {path for path in paths if not is_gone(path)}

    def detours(self, block: Block) -> Iterable[Edge]:
        """Every path that a chunk of the block may be on beside the block's own edges."""
        edges = (*block.in_edges, *block.out_edges)
        return (path for edge in edges for path in self.given.get((edge[0], edge[-1]), ()))


def make_request(
    settings: ControllerSettings,
    group: tuple[str, ...],
    sites: Collection[str],
    rates_mbps: Mapping[Directed, float],
    rng: random.Random,
    first_mbps: Mapping[Directed, float] | None = None,
) -> PlanRequest:
    """What a plan builder may know: the only place that puts a `PlanRequest` together.

    `sites` may help, the group included; `rates_mbps` are those of the links that can be used;
    `first_mbps` are the rates that were known when the run began, of any links.
    """
    return PlanRequest(
        group,
        tuple(site for site in settings.sites if site in sites),
        rates_mbps,
        {link: settings.delays_ms[link] for link in rates_mbps},
        settings.cut.count,
        rng,
        None if first_mbps is None else {link: first_mbps[link] for link in rates_mbps},
        settings.cut.sizes,
    )
