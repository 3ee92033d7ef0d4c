"""Iterations that are computed while their parameters arrive, in the fluid model (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from trunkline.agents.distribution.step import compute_in_order
from trunkline.agents.planning.plan import Plan
from trunkline.workloads.layered.model import LayeredModel


@dataclass(frozen=True, slots=True)
class HandOut:
    """A task that hands a model out, and when its chunks arrive.

    Attributes:
        task: the task's number.
        told_s: when each site heard of the task, in seconds.
        plan: the plan; all of a `whole` block can be used when its last chunk is there.
        branches: the chunks of each branch.
        arrived_s: site -> chunk -> time in seconds.
    """

    task: int
    plan: Plan
    branches: Sequence[range]
    told_s: dict[str, float] = field(default_factory=dict)
    arrived_s: defaultdict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def compute(self, site: str, model: LayeredModel) -> list[tuple[int, float, float, float]]:
        """The branches that a site which has the whole model has computed, in their order.

        Each comes with its arrival, and the start and the end of its forward computation, in
        seconds.
        """
        told_s = self.told_s[site]
        usable_s = {chunk: max(t_s, told_s) for chunk, t_s in self.arrived_s[site].items()}
        for block in self.plan.blocks:
            if block.whole:
                last_s = max(usable_s[chunk] for chunk in block.indexes())
                usable_s |= dict.fromkeys(block.indexes(), last_s)
        arrived_s = [max(usable_s[chunk] for chunk in chunks) for chunks in self.branches]
        computed = compute_in_order(model, arrived_s)
        return [(branch, arrived_s[branch], start_s, end_s) for branch, start_s, end_s in computed]
