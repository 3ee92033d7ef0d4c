"""What a controller knows of a task that runs (pure)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from trunkline.agents.planning.plan import Block, Plan
from trunkline.agents.policies.policy import Start


@dataclass(slots=True)
class Running:
    """A task: `blocks` are those that are not withdrawn, of the `used` numbers so far.

    `informed` sites have heard of the task, `gone` members were lost before they were known to
    have `finished`. `holders` still have the result. `awaited` members have not answered a halt;
    None while nobody is halted. `extended` says that the budget is spent, `hit` that it has to be
    halted as soon as its members have reported, `stuck` that no holder reaches who waits for the
    result. `unasked` members have not said yet that they are ready for it; they know nothing of it,
    and hear of it with the same `offers` as all others when they do.
    """

    start: Start
    plan: Plan | None
    blocks: dict[int, Block]
    used: int
    deadline_s: float
    replans: int
    budget: asyncio.TimerHandle | None = None
    offers: Mapping[str, int] = field(default_factory=dict)
    unasked: set[str] = field(default_factory=set)
    informed: set[str] = field(default_factory=set)
    former: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    holders: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    awaited: set[str] | None = None
    reason: str = ""
    extended: bool = False
    hit: bool = False
    stuck: bool = False

    @property
    def unfinished(self) -> list[str]:
        """The members that still wait for the result and can be told how to get it."""
        return [site for site in self.start.group if site not in self.finished | self.gone]
