"""Sums of contributions, chunk by chunk, in the order of a plan's sources."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trunkline.workloads.base import Vector

_ADDED: Vector = np.empty(0, np.float32)
"""Marks a contribution that is in the sum already."""


@dataclass(slots=True)
class Sum:
    """One chunk's sum: `added` sources are in `total`; chunks in `held` wait for their turn.

    A `lent` total is memory of the contribution, which must not be overwritten.
    """

    total: Vector | None = None
    lent: bool = False
    added: int = 0
    held: dict[str, Vector] = field(default_factory=dict)

    def add(self, data: Vector, *, lent: bool = False) -> Vector | None:
        """Add the next source's chunk; returns memory that is not used any more, if any.

        Memory of a chunk that is not `lent` may be overwritten.
        """
        self.added += 1
        if self.total is None:
            self.total, self.lent = data, lent
            return None
        np.add(self.total, data, out=data if self.lent else self.total)
        if self.lent:
            self.total, self.lent = data, False
            return None
        return None if lent else data

    def add_held(self, source: str) -> Vector | None:
        """Add the chunk that is held of the next source, in the same way."""
        unused = self.add(self.held[source])
        self.held[source] = _ADDED
        return unused

    def memory(self) -> list[Vector]:
        """The memory of the sum itself and of the chunks that wait, without what is lent."""
        waiting = [data for data in self.held.values() if data is not _ADDED]
        return waiting if self.total is None or self.lent else [*waiting, self.total]
