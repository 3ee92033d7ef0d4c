"""Which branches of a model have arrived at a worker, and which of them it computes next (pure).

A worker computes base after base. Within a base it takes the branch that arrived first: so the plan
gives the order, by the order in which it hands the branches out (OWL, section 2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trunkline.workloads.layered.model import LayeredModel


@dataclass(frozen=True, slots=True)
class Stage:
    """A branch that can be computed, and when it arrived, in seconds."""

    branch: int
    arrived_s: float


@dataclass(slots=True)
class StageTracker:
    """The forward computation of one iteration at one worker.

    A chunk that has arrived stays, also if its plan is replaced: a plan made anew hands out the
    same model.

    Attributes:
        model: the branches.
        chunks: the chunks of each branch, by its number.
        arrived_s: when each branch arrived that has all of its chunks, in this order.
        computed: the branches that were taken, in this order.
    """

    model: LayeredModel
    chunks: Sequence[range]
    arrived_s: dict[int, float] = field(default_factory=dict)
    computed: list[int] = field(default_factory=list)
    _missing: list[set[int]] = field(init=False)
    _owner: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._missing = [set(chunks) for chunks in self.chunks]
        self._owner = {
            chunk: branch for branch, chunks in enumerate(self.chunks) for chunk in chunks
        }

    def arrive(self, chunk: int, now_s: float) -> int | None:
        """Note a chunk; returns the branch that it completes, if any."""
        branch = self._owner[chunk]
        missing = self._missing[branch]
        if chunk not in missing:
            return None
        missing.remove(chunk)
        if missing:
            return None
        self.arrived_s[branch] = now_s
        return branch

    def arrive_all(self, now_s: float) -> None:
        """Note that the worker has the whole model."""
        for branch in range(len(self.chunks)):
            self.arrived_s.setdefault(branch, now_s)

    def take(self) -> Stage | None:
        """Take the next branch to compute; None if it has not arrived, or all are taken.

        The caller takes a branch only when it has computed the one before.
        """
        for numbers in self.model.numbers:
            left = set(numbers).difference(self.computed)
            if left:
                here = [branch for branch in self.arrived_s if branch in left]
                if not here:
                    return None
                self.computed.append(here[0])
                return Stage(here[0], self.arrived_s[here[0]])
        return None

    @property
    def is_done(self) -> bool:
        """Whether all branches are taken."""
        return len(self.computed) == len(self.chunks)
