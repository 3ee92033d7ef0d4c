"""Branches of a base in groups of about equal size: OWL's Algorithm 1 (pure)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeAlias

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""Groups of branches, each a tuple of indices or numbers of branches."""


def group_evenly(sizes: Sequence[int], count: int) -> Groups:
    """Put the branches with these sizes into `count` groups, 1 to len(sizes) (Algorithm 1).

    The largest branch that is left goes into the smallest group. The largest group is at most
    3/2 - 1/(2 count) times as large as with the best grouping (Theorem 2).
    """
    groups: list[list[int]] = [[] for _ in range(count)]
    totals = [0] * count
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        smallest = min(range(count), key=lambda group: (totals[group], len(groups[group])))
        groups[smallest].append(index)
        totals[smallest] += sizes[index]
    return tuple(map(tuple, groups))


def group_randomly(rng: random.Random, sizes: Sequence[int], count: int) -> Groups:
    """Put each branch into a random one of `count` groups; empty groups are left out (OWL-B)."""
    groups: list[list[int]] = [[] for _ in range(count)]
    for index in range(len(sizes)):
        rng.choice(groups).append(index)
    return tuple(tuple(group) for group in groups if group)
