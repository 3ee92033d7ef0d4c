"""Memory for chunks: allocated in large pieces and reused.

The first touch of a fresh page costs a page fault. In the embedded kernel that is two context
switches and about 20 microseconds, as much as receiving six packets. So memory is allocated in
large pieces with all pages mapped at once, and is never returned.
"""

from __future__ import annotations

import numpy as np

from trunkline.workloads.base import Vector, allocate

SLAB_BYTES = 1 << 20
"""Chunks are cut from pieces of at least this size."""


class Pool:
    """Memory for chunks of `elements` elements, and for a few shorter ones."""

    def __init__(self, elements: int) -> None:
        self._elements = elements
        self._free: dict[int, list[Vector]] = {}

    def take(self, elements: int) -> Vector:
        """A piece of this size, at most the pool's `elements`; it is in use until `give`."""
        free = self._free.setdefault(elements, [])
        if not free and elements != self._elements:
            return np.empty(elements, np.float32)
        if not free:
            pieces = max(1, SLAB_BYTES // (4 * elements))
            free.extend(allocate(pieces * elements).reshape(pieces, elements))
        return free.pop()

    def give(self, data: Vector) -> None:
        """Return a piece that is not used any more."""
        self._free.setdefault(len(data), []).append(data)
