"""Measure why longer queues on auxiliary paths gain less (NetStorm, figure 17), in the fluid model.

    python benchmarks/auxiliary_reasons.py scenarios/paper/netstorm/dynamic.yaml --trials 6

A row is a change of the model, and has the speed-up over no auxiliary paths with queues of 1 and
of 5 chunks (geometric means over the seeds), and in how many per cent of the tasks the last chunk
came over an auxiliary path.

- `as it is`: the model of `trunkline reproduce netstorm/17 --fluid`.
- `links of their own`: chunks on auxiliary paths do not share links with those on primary paths.
  Each link has a second one of the same rate for them.
- `only if faster`: a chunk takes an auxiliary path only if it arrives earlier there than on its
  primary path, by the rates of links and all that waits for them.
- `both`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import cells

from trunkline.agents.planning.auxiliary_paths import PathQueue
from trunkline.agents.planning.fluid.fluid_links import FluidLinks
from trunkline.agents.planning.fluid.fluid_tasks import FluidChunk
from trunkline.agents.planning.plan import Directed, Edge
from trunkline.harness.fluid import fluid_run
from trunkline.harness.scenario.loading import load

TITLES = ("change", "queue of 1", "queue of 5", "last chunk by an auxiliary path, %: 1", "5")
CHANGES = {
    "as it is": (False, False),
    "links of their own": (True, False),
    "only if faster": (False, True),
    "both": (True, True),
}
LENGTHS = (1, 5)
SECOND = "'"


class Doubled(dict[Directed, float]):
    """The rates of links, each of which has a second one."""

    def __missing__(self, link: Directed) -> float:
        return self[link[0].removesuffix(SECOND), link[1]]


@dataclass(slots=True)
class Changed:
    """The changes of one prediction.

    Attributes:
        apart: whether auxiliary paths have links of their own.
        faster: whether chunks take them only if they arrive earlier there.
        links: the links of the prediction.
        sent_s: until when each link sends its present chunk.
        last: whether the last chunk of each task came over an auxiliary path.
    """

    apart: bool
    faster: bool
    links: FluidLinks = field(init=False)
    sent_s: dict[Directed, float] = field(default_factory=dict)
    last: dict[object, bool] = field(default_factory=dict)

    def name_link(self, edge: Edge, hops: int, *, primary: bool) -> Directed:
        """The link of a hop."""
        second = SECOND if self.apart and not primary else ""
        return edge[hops] + second, edge[hops + 1]

    def find_free(self, queue: PathQueue[Any, FluidChunk]) -> Edge | None:
        """The path with room on which the next chunk arrives first, of those that are allowed."""
        if len(queue.in_use.get(queue.primary, ())) <= queue.bounds.busy:
            return queue.primary
        size = queue.waiting[0][1].size_bytes
        own = set(pairwise(queue.primary))
        limit_s = self._arrive_s(queue.primary, size, primary=True) if self.faster else math.inf
        for path in queue.others:
            has_room = len(queue.in_use.get(path, ())) < queue.bounds.length
            if (
                has_room
                and own.isdisjoint(pairwise(path))
                and self._arrive_s(path, size, primary=False) < limit_s
            ):
                return path
        return None

    def _arrive_s(self, path: Edge, size: int, *, primary: bool) -> float:
        """When a chunk would arrive, if nothing came to wait for the links after it."""
        now_s = self.links.agenda.now_s
        at_s = now_s
        for hop in range(len(path) - 1):
            link = self.name_link(path, hop, primary=primary)
            rate = self.links.rates_mbps[link]
            flows = self.links.queues[link]._flows if link in self.links.queues else {}
            waiting = sum(chunk.size_bytes for items in flows.values() for chunk in items)
            free_s = max(self.sent_s.get(link, 0.0), now_s) + 8e-6 * waiting / rate
            at_s = max(at_s, free_s) + 8e-6 * size / rate
        return at_s

    def predict(self, scenario: Path, overrides: list[str], seed: int) -> float:
        """The mean time of a task in seconds."""
        plan_arrival, arrive, set_rates = (
            FluidLinks._plan_arrival,
            FluidLinks._arrive,
            FluidLinks.set_rates,
        )

        def make(agenda: Any, rates: Mapping[Directed, float], *rest: Any) -> FluidLinks:
            self.links = FluidLinks(agenda, Doubled(rates), *rest)
            return self.links

        def plan(links: FluidLinks, link: Directed, chunk: FluidChunk, *times: float) -> None:
            self.sent_s[link] = times[-1]
            plan_arrival(links, link, chunk, *times)

        def count(links: FluidLinks, chunk: FluidChunk) -> None:
            if chunk.hops + 2 == len(chunk.edge):
                self.last[chunk.of] = not chunk.primary
            arrive(links, chunk)

        def name(chunk: FluidChunk) -> Directed:
            return self.name_link(chunk.edge, chunk.hops, primary=chunk.primary)

        changes: list[tuple[Any, str, Callable[..., Any] | property]] = [
            (fluid_run, "FluidLinks", make),
            (FluidLinks, "_plan_arrival", plan),
            (FluidLinks, "_arrive", count),
            (FluidLinks, "set_rates", lambda links, rates: set_rates(links, Doubled(rates))),
            (FluidChunk, "link", property(name)),
            (PathQueue, "_find_free", lambda queue: self.find_free(queue)),
        ]
        with ExitStack() as stack:
            for where, attribute, new in changes:
                stack.enter_context(patch.object(where, attribute, new))
            found = fluid_run.predict(load(scenario, overrides, seed))
        assert found is not None
        return found.task_s


def try_change(
    scenario: Path, trials: int, without_s: list[float], *, apart: bool, faster: bool
) -> list[str]:
    """The cells of a change."""
    speeds, shares = [], []
    for length in LENGTHS:
        logs, lasts = [], []
        bounds = f"scheme.auxiliary={{busy_bound: 2, queue_length: {length}}}"
        for seed in range(1, trials + 1):
            changed = Changed(apart, faster)
            took_s = changed.predict(scenario, [bounds], seed)
            logs.append(math.log(without_s[seed - 1] / took_s))
            lasts.append(100 * fmean(changed.last.values()))
        speeds.append(f"{math.exp(fmean(logs)):.3f}")
        shares.append(f"{fmean(lasts):.0f}")
    return [*speeds, *shares]


def main() -> None:
    """Try all changes; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenario", type=Path, help="a scenario file")
    parser.add_argument("--trials", type=int, default=6, metavar="N")
    arguments = parser.parse_args()
    scenario, trials = arguments.scenario, arguments.trials
    seeds = range(1, trials + 1)
    none = ["scheme.auxiliary=null"]
    without_s = [Changed(False, False).predict(scenario, none, seed) for seed in seeds]
    rows = []
    for name, (apart, faster) in CHANGES.items():
        rows.append([name, *try_change(scenario, trials, without_s, apart=apart, faster=faster)])
        sys.stderr.write(f"{rows[-1]}\n")
    sys.stdout.write(cells.write_table(TITLES, rows))


if __name__ == "__main__":
    main()
