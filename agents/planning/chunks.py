"""How a model is cut into chunks (pure).

A model is one array, or tensors one behind the other. Then no chunk is of two tensors: one that is
larger than a chunk may be is cut, a smaller one stays whole (NetStorm, Section IV-C), so chunks
differ in size. A chunk is a number either way; whoever needs its elements or its size asks here.
Sizes are in elements or bytes, whichever the caller counts in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property


@dataclass(frozen=True)
class Chunking:
    """Chunk k begins at `starts[k]`; the last one ends at `total`."""

    starts: Sequence[int]
    total: int

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.starts)

    def span(self, chunk: int) -> slice:
        """Where a chunk is in the model."""
        following = chunk + 1
        return slice(
            self.starts[chunk], self.starts[following] if following < self.count else self.total
        )

    def size(self, chunk: int) -> int:
        """How large a chunk is."""
        span = self.span(chunk)
        return int(span.stop - span.start)

    def size_of(self, ranges: Iterable[tuple[int, int]]) -> int:
        """How large the chunks of half-open ranges are together."""
        return sum(self.span(stop - 1).stop - self.starts[start] for start, stop in ranges)

    @cached_property
    def sizes(self) -> tuple[int, ...] | None:
        """How large every chunk is; None where all are alike, but perhaps for the last."""
        return None if isinstance(self.starts, range) else tuple(map(self.size, range(self.count)))


@cache
def cut_model(total: int, largest: int, tensors: tuple[int, ...] = ()) -> Chunking:
    """Chunks of at most the `largest` size, of a model of one array or of these tensors.

    Raises ValueError if the tensors are not all of the model.
    """
    if not tensors:
        return Chunking(range(0, total, largest), total)
    if sum(tensors) != total or min(tensors) < 1:
        raise ValueError(f"tensors: {sum(tensors)} in all: allowed is the model's size, {total}")
    starts: list[int] = []
    begin = 0
    for size in tensors:
        starts.extend(range(begin, begin + size, largest))
        begin += size
    return Chunking(tuple(starts), total)
