"""What a controller knows about a running task (pure)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from trunkline.agents.events.causes import Halting
from trunkline.agents.planning.plan import Block, Plan
from trunkline.agents.policies.policy import Start


@dataclass(slots=True)
class Running:
    """A running task.

    plan: None if another controller started the task.
    blocks: the valid blocks by number; withdrawn blocks are left out.
    used: how many block numbers the task has used so far.
    begun_s: when the task began, in seconds of the event loop's clock.
    deadline_s: the end of the budget, by the same clock.
    replans: how often the task may still be planned anew.
    count: how many tasks of the run had begun with it, as far as its controller knew.
    offers: the contributors' offers that the task takes in, by site.
    unasked: members that are not ready yet and have not been told of the task.
    informed: sites that know the task; `former` sites knew it before they were lost or the task
        was planned anew.
    finished: members known to have installed the result; `holders` still have it in memory.
    gone: members that were lost before the controller heard that they finished.
    awaited: members that have not answered a halt yet; None while the task is not halted.
    halted_by: why the task was halted last.
    extended: the budget is spent once already.
    hit: the task must be halted as soon as all members have reported.
    stuck: no holder can reach the members that wait for the result.
    """

    start: Start
    plan: Plan | None
    blocks: dict[int, Block]
    used: int
    begun_s: float
    deadline_s: float
    replans: int
    count: int = 0
    budget: asyncio.TimerHandle | None = None
    offers: Mapping[str, int] = field(default_factory=dict)
    unasked: set[str] = field(default_factory=set)
    informed: set[str] = field(default_factory=set)
    former: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    holders: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    awaited: set[str] | None = None
    halted_by: Halting | None = None
    extended: bool = False
    hit: bool = False
    stuck: bool = False

    @property
    def unfinished(self) -> list[str]:
        """The receivers within reach that still wait for the result."""
        return [site for site in self.start.takers if site not in self.finished | self.gone]
