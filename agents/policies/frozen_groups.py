"""The group filter against frozen groups (P-Reduce, section 4, "Group frozen avoidance"; pure).

The sync-graph joins sites that were together in one of the last T groups. There are two filters.

The paper's detects that groups are frozen, and repairs it (`repair`): if the last T groups have not
connected all active sites, the next group has to have sites of two components. Until T groups have
passed, and as long as the graph is connected, groups are first come, first served.

Ours prevents it (`prevent`), which is stricter: it chooses groups such that any T consecutive
groups connect all active sites. A group of P sites joins at most P components of the graph into
one. So if the last j groups leave c components, T - j more groups can connect them only if

    c <= 1 + (T - j) (P - 1)

It keeps this true for every j from 0 to T. For j = 0 it is the paper's lower bound of T,
and for j = T it says that the graph is connected. If all active sites wait, some group of them
keeps it true: a site waits for its group no longer than until all others are ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

Filter = Literal["prevent", "repair"]

History = tuple[frozenset[str], ...]
"""The latest groups, the newest last."""


def compute_least_history(sites: int, p: int) -> int:
    """The smallest T with which groups of p can connect this many sites: (N - 1) / (P - 1)."""
    return -(-(sites - 1) // (p - 1))


def choose(
    queue: tuple[str, ...],
    active: frozenset[str],
    history: History,
    size: int,
    last: int,
    kind: Filter = "prevent",
) -> tuple[str, ...] | None:
    """The first `size` sites of the queue that may form a group; None if the filter waits.

    `last` is T. "First" is the order of the queue: a site is left out only if the rest of the group
    has to come from other components. If faults leave more components than T groups can join, the
    group joins as many as it can.
    """
    if len(queue) < size:
        return None
    levels = list(_list_needs(active, history, size, last))
    if kind == "repair":
        whole, _ = levels[-1]
        is_frozen = len(history) == last and len(set(whole.values())) > 1
        levels = [(whole, min(size, 2))] if is_frozen else []

    def count_missing(group: Iterable[str]) -> int:
        missing = (need - len({part[site] for site in group}) for part, need in levels)
        return max(missing, default=0)

    if count_missing(queue) > 0:
        return None
    chosen: tuple[str, ...] = ()
    for site in queue:
        candidate = (*chosen, site)
        if len(candidate) + max(0, count_missing(candidate)) <= size:
            chosen = candidate
    return chosen


def remember(
    history: History, group: Iterable[str], last: int, kind: Filter = "prevent"
) -> History:
    """The history after this group: what the next decision needs, T - 1 groups, or T to repair."""
    count = last if kind == "repair" else last - 1
    return (*history, frozenset(group))[-count:] if count else ()


def forget(history: History, site: str) -> History:
    """The history without a site that takes part no more, or that has lost its model."""
    return tuple(group - {site} for group in history)


def forget_latest(history: History, site: str) -> History:
    """The history without the site in its latest group, whose task was abandoned."""
    for index in reversed(range(len(history))):
        if site in history[index]:
            return (*history[:index], history[index] - {site}, *history[index + 1 :])
    return history


def _list_needs(
    active: frozenset[str], history: History, size: int, last: int
) -> Iterator[tuple[Mapping[str, str], int]]:
    """For j = 0, 1, ...: the component of each site, and how many components the group must join.

    The components are those of the last j groups.
    """
    component = {site: site for site in active}
    for later, group in enumerate((*reversed(history), frozenset[str]())):
        count = len(set(component.values()))
        yield component, min(size, count - (last - 1 - later) * (size - 1))
        joined = {component[site] for site in group}
        component = {
            site: min(joined) if each in joined else each for site, each in component.items()
        }
