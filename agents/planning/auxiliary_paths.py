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
    """For each ordered pair all paths that share no link, by their summed 1 / rate.

    The first is the shortest path; each further one is the shortest that is left without the
    links of those before it. A pair without any path has none.
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
    """A primary path is busy with more than `busy` chunks; an auxiliary one takes `length`.

    In the paper PRIMARY_BUSY_BOUND and AUXILIARY_QUEUE_LENGTH, with its defaults (Table II).
    """

    busy: int = 2
    length: int = 1


@dataclass(slots=True)
class PathQueue(Generic[Key, Item]):
    """What waits for its way, and what is on each path, by key.

    A chunk is on the primary path until the site has sent it, and on an auxiliary one until it has
    arrived: only so is seen what waits at a slow relay. `others` are paths to the same site, the
    best first; those that share a link with the primary one are no auxiliary ones.
    """

    primary: Edge
    bounds: Bounds
    others: Sequence[Edge] = ()
    waiting: deque[tuple[Key, Item]] = field(default_factory=deque)
    on: dict[Edge, dict[Key, Item]] = field(default_factory=dict)

    def push(self, key: Key, item: Item) -> None:
        """Something more to send."""
        self.waiting.append((key, item))

    def next(self) -> tuple[Edge, Key, Item] | None:
        """The path, key and item of what need not wait; it counts as being there now."""
        path = self._free() if self.waiting else None
        if path is None:
            return None
        key, item = self.waiting.popleft()
        self.on.setdefault(path, {})[key] = item
        return path, key, item

    def done(self, path: Edge, key: Key) -> None:
        """It has left a path, as far as it is known to be there."""
        self.on.get(path, {}).pop(key, None)

    def drop(self, unwanted: Callable[[Item], bool]) -> list[Item]:
        """Forget these items; returns those of them that were still waiting."""
        dropped = [item for _, item in self.waiting if unwanted(item)]
        if dropped:
            self.waiting = deque(entry for entry in self.waiting if not unwanted(entry[1]))
        for path, items in self.on.items():
            self.on[path] = {key: item for key, item in items.items() if not unwanted(item)}
        return dropped

    def _free(self) -> Edge | None:
        if len(self.on.get(self.primary, ())) <= self.bounds.busy:
            return self.primary
        hops = set(itertools.pairwise(self.primary))
        for path in self.others:
            has_room = len(self.on.get(path, ())) < self.bounds.length
            if has_room and hops.isdisjoint(itertools.pairwise(path)):
                return path
        return None


@dataclass(slots=True)
class PathQueues(Generic[Key, Item]):
    """All lanes of a site, by primary path; `go` sends an item along a path.

    Keys tell apart all that is under way at one time. `paths` are by pair, the best first.
    """

    bounds: Bounds
    go: Callable[[Edge, Item], None]
    paths: Mapping[Directed, Sequence[Edge]] = field(default_factory=dict)
    _queues: dict[Edge, PathQueue[Key, Item]] = field(default_factory=dict)
    _under_way: dict[Key, tuple[PathQueue[Key, Item], Edge]] = field(default_factory=dict)
    _to_serve: deque[PathQueue[Key, Item]] = field(default_factory=deque)
    _serving: bool = False

    def put(self, primary: Edge, key: Key, item: Item) -> None:
        """Send an item along its primary path, or an auxiliary one, now or later."""
        if primary not in self._queues:
            others = self.paths.get((primary[0], primary[-1]), ())
            self._queues[primary] = PathQueue(primary, self.bounds, others)
        self._queues[primary].push(key, item)
        self._serve([self._queues[primary]])

    def done(self, key: Key) -> None:
        """An item has left its primary path, or arrived by an auxiliary one."""
        if key in self._under_way:
            lane, path = self._under_way.pop(key)
            lane.done(path, key)
            self._serve([lane])

    def switch(self, paths: Mapping[Directed, Sequence[Edge]]) -> None:
        """From now on auxiliary paths are among these; what is under way goes on as it set out."""
        self.paths = paths
        for lane in self._queues.values():
            lane.others = paths.get((lane.primary[0], lane.primary[-1]), ())
        self._serve(self._queues.values())

    def drop(self, unwanted: Callable[[Item], bool]) -> list[Item]:
        """Forget these items; returns those of them that were still waiting."""
        dropped = [item for lane in self._queues.values() for item in lane.drop(unwanted)]
        for key, (lane, path) in list(self._under_way.items()):
            if key not in lane.on[path]:
                del self._under_way[key]
        self._serve(self._queues.values())
        return dropped

    def _serve(self, lanes: Iterable[PathQueue[Key, Item]]) -> None:
        """Let go what may; sending may make room at once, which is seen to in the same loop."""
        self._to_serve.extend(lanes)
        if self._serving:
            return
        self._serving = True
        try:
            while self._to_serve:
                self._serve_one(self._to_serve.popleft())
        finally:
            self._serving = False

    def _serve_one(self, lane: PathQueue[Key, Item]) -> None:
        while (found := lane.next()) is not None:
            path, key, item = found
            self._under_way[key] = lane, path
            self.go(path, item)
