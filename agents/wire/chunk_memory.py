"""Memory for chunks and results: mapped whole, used again and again.

A page of fresh memory costs a fault at its first touch; in the embedded kernel that is two context
switches and some twenty microseconds, as much as receiving six packets. So memory is asked for in
large pieces, with all of its pages at once, and kept.
"""

from __future__ import annotations

import numpy as np

from trunkline.workloads.base import Vector, allocate

SLAB_BYTES = 1 << 20
"""Chunks are cut from pieces of at least this size."""


class Pool:
    """Pieces of one size most of all, and some that are shorter."""

    def __init__(self, elements: int) -> None:
        self._elements = elements
        self._free: dict[int, list[Vector]] = {}

    def take(self, elements: int) -> Vector:
        """A piece of as many elements, at most the pool's size, for use until `give`."""
        free = self._free.setdefault(elements, [])
        if not free and elements != self._elements:
            return np.empty(elements, np.float32)
        if not free:
            pieces = max(1, SLAB_BYTES // (4 * elements))
            free.extend(allocate(pieces * elements).reshape(pieces, elements))
        return free.pop()

    def give(self, data: Vector) -> None:
        """Nobody uses this piece any more."""
        self._free.setdefault(len(data), []).append(data)
