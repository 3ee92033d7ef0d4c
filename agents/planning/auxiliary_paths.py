"""Auxiliary paths, and the choice of a path for each chunk (Li et al., NetStorm, VI; pure).

The overlay often has several paths between two sites that a tree joins by an edge. That edge is the
primary path. `find_disjoint_paths` (Algorithm 3) finds the others, the auxiliary paths. A
`PathQueue` holds the chunks that one site has to send to another. They take the primary path. While
it is busy, some take an auxiliary path instead, whose sites forward them without adding.

We deviate from the paper twice:

- Algorithm 3 as printed removes, in each turn, the edges of the shortest paths of *all* pairs.
  Hardly any edge of a tree then keeps a second path. We remove only the edges of the pair's own
  paths, so each pair gets all of its non-overlapping paths, as the paper's text says.
- The paper puts a chunk that finds all queues full into the primary queue. We let it wait for the
  first queue with room. In the paper, chunks come one by one. Here a site has its whole model to
  send when a task starts, so all of it would be in the primary queue before a chunk has left.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trunkline.agents.planning.plan import Directed, Edge
from trunkline.agents.planning.routes import shortest_paths

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


def find_disjoint_paths(
    pairs: Iterable[Directed], rates_mbps: Mapping[Directed, float]
) -> dict[Directed, tuple[Edge, ...]]:
    """For each ordered pair of sites, its paths that share no link (NetStorm, Algorithm 3).

    The length of a path is the sum of 1 / rate over its links. The first path is the shortest one.
    Each further path is the shortest one without the links of the paths before it. A pair that the
    overlay does not connect gets an empty tuple.
    """
    return {pair: tuple(_find_disjoint(*pair, rates_mbps)) for pair in pairs}


def _find_disjoint(src: str, dst: str, rates_mbps: Mapping[Directed, float]) -> Iterable[Edge]:
    left = dict(rates_mbps)
    while (path := shortest_paths(src, left).get(dst)) is not None:
        yield path
        for hop in itertools.pairwise(path):
            del left[hop]


@dataclass(frozen=True, slots=True)
class Bounds:
    """When chunks take auxiliary paths; the defaults are those of the paper (Table II).

    Attributes:
        busy: a primary path with more than this many chunks is busy (PRIMARY_BUSY_BOUND).
        length: an auxiliary path takes at most this many chunks (AUXILIARY_QUEUE_LENGTH).
    """

    busy: int = 2
    length: int = 1


@dataclass(slots=True)
class PathQueue(Generic[Key, Item]):
    """The chunks from one site to another: those that wait, and those on each path, by key.

    A chunk counts as being on the primary path until the site has sent it, and on an auxiliary path
    until it has arrived. Otherwise chunks that pile up at a slow relay would go unnoticed.

    Attributes:
        others: paths to the same site, best first. A path that shares a link with the primary path
            is not used.
        in_use: the chunks on each path.
    """

    primary: Edge
    bounds: Bounds
    others: Sequence[Edge] = ()
    waiting: deque[tuple[Key, Item]] = field(default_factory=deque)
    in_use: dict[Edge, dict[Key, Item]] = field(default_factory=dict)

    def push(self, key: Key, item: Item) -> None:
        """Let an item wait to be sent."""
        self.waiting.append((key, item))

    def take_next(self) -> tuple[Edge, Key, Item] | None:
        """Put the next item on a path with room, and return path, key and item.

        Returns None if nothing waits or no path has room.
        """
        path = self._find_free() if self.waiting else None
        if path is None:
            return None
        key, item = self.waiting.popleft()
        self.in_use.setdefault(path, {})[key] = item
        return path, key, item

    def release(self, path: Edge, key: Key) -> None:
        """Take an item off a path; nothing happens if it is not there."""
        self.in_use.get(path, {}).pop(key, None)

    def drop(self, unwanted: Callable[[Item], bool]) -> list[Item]:
        """Forget the unwanted items; returns those of them that were still waiting."""
        dropped = [item for _, item in self.waiting if unwanted(item)]
        if dropped:
            self.waiting = deque(entry for entry in self.waiting if not unwanted(entry[1]))
        for path, items in self.in_use.items():
            self.in_use[path] = {key: item for key, item in items.items() if not unwanted(item)}
        return dropped

    def _find_free(self) -> Edge | None:
        if len(self.in_use.get(self.primary, ())) <= self.bounds.busy:
            return self.primary
        hops = set(itertools.pairwise(self.primary))
        for path in self.others:
            has_room = len(self.in_use.get(path, ())) < self.bounds.length
            if has_room and hops.isdisjoint(itertools.pairwise(path)):
                return path
        return None


@dataclass(slots=True)
class PathQueues(Generic[Key, Item]):
    """The path queues of one site, by primary path.

    The key of an item is unique among the items that are under way.

    Attributes:
        go: sends an item along a path.
        paths: the paths between each ordered pair of sites, best first.
    """

    bounds: Bounds
    go: Callable[[Edge, Item], None]
    paths: Mapping[Directed, Sequence[Edge]] = field(default_factory=dict)
    _queues: dict[Edge, PathQueue[Key, Item]] = field(default_factory=dict)
    _under_way: dict[Key, tuple[PathQueue[Key, Item], Edge]] = field(default_factory=dict)
    _to_serve: deque[PathQueue[Key, Item]] = field(default_factory=deque)
    _serving: bool = False

    def put(self, primary: Edge, key: Key, item: Item) -> None:
        """Send an item along its primary path or an auxiliary one, as soon as one has room."""
        if primary not in self._queues:
            others = self.paths.get((primary[0], primary[-1]), ())
            self._queues[primary] = PathQueue(primary, self.bounds, others)
        self._queues[primary].push(key, item)
        self._serve([self._queues[primary]])

    def release(self, key: Key) -> None:
        """Note that an item was sent on its primary path, or arrived by an auxiliary path."""
        if key in self._under_way:
            queue, path = self._under_way.pop(key)
            queue.release(path, key)
            self._serve([queue])

    def switch(self, paths: Mapping[Directed, Sequence[Edge]]) -> None:
        """Use these auxiliary paths from now on; items that are under way keep their path."""
        self.paths = paths
        for queue in self._queues.values():
            queue.others = paths.get((queue.primary[0], queue.primary[-1]), ())
        self._serve(self._queues.values())

    def drop(self, unwanted: Callable[[Item], bool]) -> list[Item]:
        """Forget the unwanted items; returns those of them that were still waiting."""
        dropped = [item for queue in self._queues.values() for item in queue.drop(unwanted)]
        for key, (queue, path) in list(self._under_way.items()):
            if key not in queue.in_use[path]:
                del self._under_way[key]
        self._serve(self._queues.values())
        return dropped

    def _serve(self, queues: Iterable[PathQueue[Key, Item]]) -> None:
        """Send the items that these queues have room for."""
        self._to_serve.extend(queues)
        # `go` may call `release` before it returns. The outer call's loop then serves that queue: a
        # recursive call per item would exceed Python's stack.
        if self._serving:
            return
        self._serving = True
        try:
            while self._to_serve:
                self._serve_one(self._to_serve.popleft())
        finally:
            self._serving = False

    def _serve_one(self, queue: PathQueue[Key, Item]) -> None:
        while (found := queue.take_next()) is not None:
            path, key, item = found
            self._under_way[key] = queue, path
            self.go(path, item)
