"""Builds a controller's plans: over what can be used now, by what is known of it (pure).

It remembers from task to task what plans are not to change, and which auxiliary paths workers may
be using.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from trunkline.agents.awareness.known_rates import Knowledge
from trunkline.agents.planning.auxiliary_paths import disjoint_paths
from trunkline.agents.planning.plan import (
    Block,
    Directed,
    Edge,
    Plan,
    PlanError,
    PlanRequest,
    check,
)
from trunkline.agents.planning.repair import Overlay
from trunkline.agents.policies.policy import Start
from trunkline.agents.wire.agent_settings import ControllerSettings


@dataclass(slots=True)
class Planner:
    """`overlay` has the rates that plans go by, and says which links and sites can be used.

    `given` are the auxiliary paths of each pair that workers were told of; a path that is no
    longer among the latest may still have chunks on it.
    """

    settings: ControllerSettings
    overlay: Overlay
    build: Callable[[PlanRequest], Plan]
    knowledge: Knowledge = field(init=False)
    given: dict[Directed, set[Edge]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.knowledge = Knowledge(self.settings.rates_mbps, self.settings.update_threshold)

    def refresh(self, latest_mbps: Mapping[Directed, float]) -> bool:
        """Plan by these rates from now on, if they are different enough."""
        changed = self.knowledge.refresh(latest_mbps)
        self.overlay.rates_mbps = self.knowledge.rates_mbps
        return changed

    def plan(self, start: Start, task: int) -> Plan:
        """A plan over the links and sites that can be used now; PlanError if there is none."""
        settings = self.settings
        around = self.overlay.around(start.group[0])
        if not around.issuperset(start.group):
            raise PlanError("the links that are left do not connect the group")
        usable = self.overlay.usable_mbps()
        rates = {link: rate for link, rate in usable.items() if link[0] in around}
        plan = self.build(
            PlanRequest(
                start.group,
                tuple(site for site in settings.sites if site in around),
                rates,
                {link: settings.delays_ms[link] for link in rates},
                settings.cut.count,
                random.Random(f"{settings.seed} {task}"),
                {link: self.knowledge.first_mbps[link] for link in rates},
                settings.cut.sizes,
            )
        )
        check(plan, rates.keys())
        return plan

    def paths(self) -> dict[Directed, tuple[Edge, ...]]:
        """All paths that workers may use now, by pair (Algorithm 3)."""
        pairs = itertools.permutations(sorted(self.overlay.present), 2)
        found = disjoint_paths(pairs, self.overlay.usable_mbps())
        for pair, paths in found.items():
            self.given.setdefault(pair, set()).update(paths)
        return found

    def forget(self, gone: Callable[[Edge], bool]) -> None:
        """These paths were lost with all that was on them."""
        for pair, paths in self.given.items():
            self.given[pair] = {path for path in paths if not gone(path)}

    def detours(self, block: Block) -> Iterable[Edge]:
        """Every path that a chunk of the block may be on beside the block's own edges."""
        edges = (*block.in_edges, *block.out_edges)
        return (path for edge in edges for path in self.given.get((edge[0], edge[-1]), ()))
