"""Builds a controller's plans from the usable links and their known rates (pure).

With a non-blocking scatter, it also has the default split, by which sites send before their group
is known. The planner also remembers which auxiliary paths workers may still be using.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from trunkline.agents.planning.auxiliary_paths import find_disjoint_paths
from trunkline.agents.planning.plan import (
    Block,
    Directed,
    Edge,
    Plan,
    PlanError,
    PlanRequest,
    WrongPlanError,
    check,
)
from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.planning.rearrange import keep_split
from trunkline.agents.planning.repair import UsableOverlay, reachable_from
from trunkline.agents.planning.two_sided import restrict
from trunkline.agents.policies.policy import Start
from trunkline.agents.wire.agent_settings import ControllerSettings

NAMED = 6
"""The most members of a group that an error names."""

Build = Callable[[PlanRequest], Plan]
"""A plan file's `build` with its options filled in."""


@dataclass(slots=True)
class Planner:
    """Builds plans for groups of sites; `overlay` knows which links and sites can be used.

    `build_default` builds the `default` split for a group of all sites (CREW, Section IV-A); it is
    None without a non-blocking scatter. Plans keep as much of the default split as they can.
    `given` are all auxiliary paths, by pair of sites, that workers were ever told of, because
    chunks may still be on a path that newer paths have replaced.
    """

    settings: ControllerSettings
    overlay: UsableOverlay
    build: Build
    build_default: Build | None = None
    default: Plan | None = None
    _made_for: tuple[tuple[str, ...], dict[Directed, float]] | None = None
    _around: _Around | None = None
    given: dict[Directed, set[Edge]] = field(default_factory=dict)

    @classmethod
    def over(
        cls, settings: ControllerSettings, build: Build, build_default: Build | None = None
    ) -> Planner:
        """A planner over the whole overlay of the settings, before any site has joined."""
        rates = PlanRates(settings.rates_mbps, settings.update_threshold)
        planner = cls(settings, UsableOverlay(rates), build, build_default)
        planner._make_default(settings.sites, settings.rates_mbps)
        return planner

    @property
    def rates(self) -> PlanRates:
        """The rates that plans use."""
        return self.overlay.rates

    def plan(self, start: Start, task: int) -> Plan:
        """Build a plan over the usable links and sites. Raises PlanError if there is none."""
        first = start.group[0]
        around = self._find_around(first)
        if lost := [site for site in start.group if site not in around.sites]:
            raise PlanError("the links that are left do not connect the group", (*lost, first))
        rng = random.Random(f"{self.settings.seed} {task}")
        request = around.make_request(self.settings, start.group, rng)
        plan = self.build(request)
        if self.default is not None:
            plan = keep_split(self.default, plan)
        if request.shards or not start.is_symmetric:
            plan = restrict(plan, tuple(start.weights), start.takers, request.shards)
        try:
            check(plan, request.rates_mbps.keys())
        except WrongPlanError as error:
            raise WrongPlanError(f"{error} ({self._describe(start, task)})") from error
        return plan

    def _describe(self, start: Start, task: int) -> str:
        """The plan of a task and its group in words; of a large group, the first members."""
        members = [*start.group[:NAMED]]
        if (left := len(start.group) - NAMED) > 0:
            members.append(f"{left} others")
        return f"plan {self.settings.plan_name}, task {task} of {', '.join(members)}"

    def _find_around(self, site: str) -> _Around:
        """What a site reaches over usable links, which seldom changes from plan to plan."""
        usable_mbps, known = self.overlay.usable_mbps(), self._around
        if known is None or known.usable_mbps is not usable_mbps or site not in known.sites:
            reached = frozenset(reachable_from(site, usable_mbps))
            known = self._around = _Around.of(
                self.settings, reached, usable_mbps, self.rates.first_mbps
            )
        return known

    def refresh_default(self) -> bool:
        """Make the default split anew, of the sites that can be used now; whether it has changed.

        If the links that are left do not connect all sites, it is of those around the first one.
        """
        if self.build_default is None:
            return False
        before, usable_mbps = self.default, self.overlay.usable_mbps()
        present = [site for site in self.settings.sites if site in self.overlay.present]
        around = reachable_from(present[0], usable_mbps) if present else frozenset()
        sites = tuple(site for site in present if site in around)
        if len(sites) > 1:
            inside = {link: rate for link, rate in usable_mbps.items() if set(link) <= set(sites)}
            self._make_default(sites, inside)
        return self.default != before

    def _make_default(self, sites: tuple[str, ...], rates_mbps: Mapping[Directed, float]) -> None:
        made_for = sites, dict(rates_mbps)
        if self.build_default is None or made_for == self._made_for:
            return
        rng = random.Random(f"{self.settings.seed} default split")
        request = make_request(self.settings, sites, rates_mbps, rng)
        self.default, self._made_for = self.build_default(request), made_for

    def paths(self) -> dict[Directed, tuple[Edge, ...]]:
        """Compute all paths that workers may use now, by pair (NetStorm, Algorithm 3)."""
        pairs = itertools.permutations(sorted(self.overlay.present), 2)
        found = find_disjoint_paths(pairs, self.overlay.usable_mbps())
        for pair, paths in found.items():
            self.given.setdefault(pair, set()).update(paths)
        return found

    def forget(self, is_gone: Callable[[Edge], bool]) -> None:
        """Forget the paths that are gone: all chunks on them were lost."""
        for pair, paths in self.given.items():
            self.given[pair] = {path for path in paths if not is_gone(path)}

    def detours(self, block: Block) -> Iterable[Edge]:
        """The auxiliary paths that a chunk of this block may have taken."""
        edges = (*block.in_edges, *block.out_edges)
        return (path for edge in edges for path in self.given.get((edge[0], edge[-1]), ()))


@dataclass(frozen=True, slots=True)
class _Around:
    """The sites that may help a group, with the usable links among them.

    Attributes:
        usable_mbps: the usable links of the whole overlay, from which this was found.
        ordered: the sites in rank order.
        first_mbps: the rates of these links that were known at the run's start.
    """

    usable_mbps: Mapping[Directed, float]
    sites: frozenset[str]
    ordered: tuple[str, ...]
    rates_mbps: Mapping[Directed, float]
    delays_ms: Mapping[Directed, float]
    first_mbps: Mapping[Directed, float] | None

    @classmethod
    def of(
        cls,
        settings: ControllerSettings,
        sites: frozenset[str],
        usable_mbps: Mapping[Directed, float],
        first_mbps: Mapping[Directed, float] | None,
    ) -> _Around:
        """`first_mbps` has the rates that were known at the run's start, perhaps of more links."""
        ordered = tuple(site for site in settings.sites if site in sites)
        rates_mbps = {link: rate for link, rate in usable_mbps.items() if link[0] in sites}
        delays_ms = {link: settings.delays_ms[link] for link in rates_mbps}
        if first_mbps is not None:
            first_mbps = {link: first_mbps[link] for link in rates_mbps}
        return cls(usable_mbps, sites, ordered, rates_mbps, delays_ms, first_mbps)

    def make_request(
        self, settings: ControllerSettings, group: tuple[str, ...], rng: random.Random
    ) -> PlanRequest:
        """The request for a plan builder, which may change the values that it is given."""
        cut = settings.cut
        return PlanRequest(
            group,
            self.ordered,
            dict(self.rates_mbps),
            dict(self.delays_ms),
            cut.count,
            rng,
            None if self.first_mbps is None else dict(self.first_mbps),
            cut.sizes,
            {server: chunks for server, chunks in settings.shards.items() if server in group},
            settings.paths,
            settings.link_mbps,
            settings.racks,
            settings.layers,
        )


def make_request(
    settings: ControllerSettings,
    group: tuple[str, ...],
    rates_mbps: Mapping[Directed, float],
    rng: random.Random,
) -> PlanRequest:
    """The request for a plan of a group that no other site helps, over these links."""
    around = _Around.of(settings, frozenset(group), rates_mbps, None)
    return around.make_request(settings, group, rng)
