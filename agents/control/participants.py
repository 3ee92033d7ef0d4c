"""What a controller tells the sites that take part in a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from trunkline.agents.control.task_state import Running
from trunkline.agents.planning.plan import Plan
from trunkline.agents.planning.site_plan import BlockPart, parts_of
from trunkline.agents.site.plan_cache import PlanCaches
from trunkline.agents.wire.messages import Control, RearrangeTask, StartTask


@dataclass(slots=True)
class Participants:
    """Tells sites their parts of plans. `tell` sends to sites that are present in the overlay."""

    servers: tuple[str, ...]
    plan_caches: PlanCaches
    tell: Callable[[str, Control], None]

    def invite(
        self,
        site: str,
        task: int,
        running: Running,
        plan: Plan,
        parts: tuple[BlockPart, ...],
        floor: int = 0,
        offers: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Tell a site about a task that it does not know or has forgotten."""
        running.informed.add(site)
        member = site in running.start.group
        unchanged = self.plan_caches.record(site, parts)
        message = StartTask(
            task=task,
            group=running.start.group,
            blocks=running.used,
            floor=floor,
            left_s=max(0.0, running.deadline_s - asyncio.get_running_loop().time()),
            weights=dict(running.start.weights),
            scale=running.start.scale,
            contributes=member and site in plan.contributors,
            receives=member and site in plan.receivers,
            offers=dict(offers),
            parts=() if unchanged else parts,
            version=self.plan_caches.rates.version,
            unchanged=unchanged,
            roles=running.start.roles,
            batch=running.start.batches.get(site),
            count=running.count,
        )
        self.tell(site, message)

    def announce(
        self,
        task: int,
        running: Running,
        plan: Plan,
        first: int,
        floor: int,
        withdrawn: Sequence[int] = (),
        holder: str | None = None,
    ) -> None:
        """Tell all participants their parts of the blocks from number `first` on."""
        for site in sorted(running.informed | set(plan.participants())):
            parts = parts_of(plan, site, first)
            if site == holder:  # its result is complete, so it adds nothing
                parts = tuple(replace(each, sources=(), originals=()) for each in parts)
            if site in running.informed:
                message = RearrangeTask(task, running.used, floor, tuple(withdrawn), parts)
                self.tell(site, message)
            else:
                self.invite(site, task, running, plan, parts, first)
