"""How a model is cut into chunks (pure).

A model is one array, or a sequence of tensors. A chunk never spans two tensors: a tensor that is
larger than the chunk size is cut, a smaller one stays whole (NetStorm, Section IV-C). So chunks of
tensors differ in size. Elsewhere a chunk is only an index; this module gives its place and size.
The caller chooses the unit of sizes: elements or bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

NAMED_RUNS = 5
"""Words name at most this many runs of consecutive chunks."""


@dataclass(frozen=True)
class Chunking:
    """The chunks of one model: chunk k begins at `starts[k]`, and the last one ends at `total`."""

    starts: Sequence[int]
    total: int

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.starts)

    def span(self, chunk: int) -> slice:
        """The place of a chunk in the model."""
        following = chunk + 1
        return slice(
            self.starts[chunk], self.starts[following] if following < self.count else self.total
        )

    def size(self, chunk: int) -> int:
        """The size of a chunk."""
        span = self.span(chunk)
        return int(span.stop - span.start)

    def size_of(self, ranges: Iterable[tuple[int, int]]) -> int:
        """The total size of the chunks in half-open ranges of indexes."""
        return sum(self.span(stop - 1).stop - self.starts[start] for start, stop in ranges)

    @cached_property
    def sizes(self) -> tuple[int, ...] | None:
        """The size of every chunk; None if all are alike, except perhaps the last one."""
        return None if isinstance(self.starts, range) else tuple(map(self.size, range(self.count)))


def cut_tensors(largest: int, tensors: Iterable[int]) -> tuple[range, ...]:
    """The chunks of each tensor of a model that `cut_model` cuts, in order."""
    found: list[range] = []
    first = 0
    for size in tensors:
        following = first + -(-size // largest)
        found.append(range(first, following))
        first = following
    return tuple(found)


def name_chunks(indexes: Iterable[int]) -> str:
    """Chunks in words, such as `0 to 15, 20`; of many runs of numbers, the rest are counted."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index <= runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    words = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    left = sum(last - first + 1 for first, last in runs[NAMED_RUNS:])
    return ", ".join(words[:NAMED_RUNS]) + (f" and {left} more" if left else "")


@cache
def cut_model(total: int, largest: int, tensors: tuple[int, ...] = ()) -> Chunking:
    """Cut a model into chunks.

    Args:
        total: the model's size.
        largest: the largest size of a chunk.
        tensors: the sizes of the model's tensors; empty for a model that is one array.

    Raises:
        ValueError: a tensor is empty, or the tensors do not add up to `total`.
    """
    if not tensors:
        return Chunking(range(0, total, largest), total)
    if sum(tensors) != total or min(tensors) < 1:
        raise ValueError(f"tensors: {sum(tensors)} in all: expected the model's size, {total}")
    starts: list[int] = []
    begin = 0
    for size in tensors:
        starts.extend(range(begin, begin + size, largest))
        begin += size
    return Chunking(tuple(starts), total)
