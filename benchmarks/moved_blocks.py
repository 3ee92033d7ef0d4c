"""Measure where two blocks go whose members have lost each other, and what the choice is worth.

    python benchmarks/moved_blocks.py --networks 400

In networks with the rates of CREW's N2, every site aggregates a block of the same size, and two
members of a group lose the link between them. So the blocks of both move. A row has, for CREW's
equation (3) alone and for the rule of the agents, how often both blocks go to the same site, and
how much longer the task takes with (3) alone, in the fluid model: the geometric mean and its 95 %
interval.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cells

from trunkline.agents.planning.chunks import cut_model
from trunkline.agents.planning.fluid.completion_times import estimate
from trunkline.agents.planning.plan import Block, Plan, star
from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.planning.repair import (
    UsableOverlay,
    choose_aggregator,
    move_block,
    move_hits,
    sum_loads,
)
from trunkline.harness.study import comparison
from trunkline.topologies import full_mesh

SIZES = ((8, 3), (8, 6), (16, 4))
BLOCK_CHUNKS, CHUNK_BYTES = 10, 4000


@dataclass(frozen=True, slots=True)
class Choice:
    """What became of two blocks: whether one site has both, and the time of the task in seconds."""

    is_shared: bool
    task_s: float


def compare(sites: int, size: int, seed: int) -> tuple[Choice, Choice]:
    """The choice by equation (3) alone, and that of the agents, in a network drawn from a seed."""
    topology = full_mesh.build(random.Random(seed), sites=sites, rates_mbps="n2")
    rates, names = topology.overlay.rates_mbps(), topology.site_names
    group, a, b = names[:size], *names[:2]
    overlay = UsableOverlay(PlanRates(rates), set(names), {a: frozenset({b}), b: frozenset({a})})
    cut = cut_model(sites * BLOCK_CHUNKS * CHUNK_BYTES, CHUNK_BYTES)
    direct = {link: link for link in rates}
    blocks = [
        Block(((n * BLOCK_CHUNKS, (n + 1) * BLOCK_CHUNKS),), hub, *star(hub, group, direct))
        for n, hub in enumerate(names)
    ]
    plan = Plan(group, group, cut.count, tuple(blocks))
    loads = sum_loads([dict(enumerate(blocks))], cut)
    alone = []
    for block in blocks[:2]:
        block_bytes = cut.size_of(block.chunks)
        hub = choose_aggregator(group, block_bytes, loads, sorted(names), overlay)
        assert hub is not None
        loads[block.aggregator] -= block_bytes
        loads[hub] += block_bytes
        alone.append(move_block(plan, block, hub))
    loads = sum_loads([dict(enumerate(blocks))], cut)
    now = [block for block in move_hits(plan, blocks[:2], loads, overlay, cut) if block]

    def choice(moved: Sequence[Block]) -> Choice:
        repaired = replace(plan, blocks=(*moved, *blocks[2:]))
        task_s = estimate(repaired, overlay.usable_mbps(), CHUNK_BYTES, cut.total)
        return Choice(moved[0].aggregator == moved[1].aggregator, task_s)

    return choice(alone), choice(now)


def main() -> None:
    """Draw the networks, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--networks", type=int, default=400, metavar="N", help="for each size")
    networks = parser.parse_args().networks
    rows = []
    for sites, size in SIZES:
        alone, now = zip(*(compare(sites, size, seed) for seed in range(networks)), strict=True)
        shares = [100 * sum(each.is_shared for each in some) / networks for some in (alone, now)]
        times_s = [{seed: each.task_s for seed, each in enumerate(some)} for some in (alone, now)]
        ratio = comparison.compute_ratio(*times_s)
        rows.append(
            [
                f"({sites}, {size})",
                *(f"{share:.0f} %" for share in shares),
                f"{ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f})",
            ]
        )
    titles = [
        "(sites, group)",
        "one site, by (3) alone",
        "one site, now",
        "time by (3) alone / now",
    ]
    sys.stdout.write(cells.write_table(titles, rows))


if __name__ == "__main__":
    main()
