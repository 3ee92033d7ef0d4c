"""The latest models of some sites, in memory that all processes of a run share.

A site writes its model whenever it changes. Who reads does not disturb the site: no process waits
for another one, nothing passes the network, and no time passes on a virtual clock.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trunkline.workloads.base import ELEMENT_BYTES, POPULATE_WRITE, Vector


class ModelBoard:
    """A place for the model of each of these sites; it must be made before processes are forked."""

    def __init__(self, sites: Sequence[str], elements: int) -> None:
        self._places = {site: _Place(elements) for site in sites}

    def writer(self, site: str) -> Callable[[Vector], None] | None:
        """What the process of a site calls with each new model; None if the site has no place."""
        place = self._places.get(site)
        if place is None:
            return None
        place.populate()
        return place.write

    def clear(self, site: str) -> None:
        """Forget the model of a site whose process has ended."""
        if site in self._places:
            self._places[site].clear()

    def read(self) -> Mapping[str, Vector]:
        """A copy of the model of each site that has one, in the order of the sites."""
        found = ((site, place.read()) for site, place in self._places.items())
        return {site: model for site, model in found if model is not None}


class _Place:
    """Two halves: one has the latest model while the other one is written.

    `_count` is how often the model was written, and 0 if there is none.
    """

    def __init__(self, elements: int) -> None:
        self._count = memoryview(mmap.mmap(-1, 8)).cast("q")
        self._memory = mmap.mmap(-1, 2 * max(elements, 1) * ELEMENT_BYTES)
        self._halves: NDArray[np.float32] = np.frombuffer(
            self._memory, np.float32, 2 * elements
        ).reshape(2, elements)

    def populate(self) -> None:
        """Fault in all pages at once (see `workloads.base.allocate`)."""
        with contextlib.suppress(OSError):  # some kernels lack this; the array is right anyway
            self._memory.madvise(POPULATE_WRITE)

    def write(self, model: Vector) -> None:
        count = self._count[0] + 1
        np.copyto(self._halves[count % 2], model)
        self._count[0] = count

    def clear(self) -> None:
        self._count[0] = 0

    def read(self) -> Vector | None:
        """A copy of the model. On a real clock, a copy that was overwritten is made again."""
        while count := self._count[0]:
            found: Vector = self._halves[count % 2].copy()
            if 0 <= self._count[0] - count < 2:
                return found
        return None
