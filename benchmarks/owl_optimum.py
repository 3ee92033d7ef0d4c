"""Measure how far OWL and the bounds are from the optimum, on random small cases.

    python benchmarks/owl_optimum.py --cases 60

A case is a model of whole branches without start-up times (`agents/distribution/step.py`), with two
or three workers, alone in a rack or in racks that share the server's uplink. The optimum is found
by trying all hand-outs (`optimum.py`): of workers that receive from the server and from workers of
their own rack, or, with `across`, of all racks, and that receive one base after the other. Numbers
are multiples of the optimum of the same row: the median over the cases, and the least and the most.
`--any-order` adds the optimum without that order of bases, and in how many cases it is faster.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys

import cells

from trunkline.agents.distribution import baselines, owl
from trunkline.agents.distribution.handout import Cluster, Handout
from trunkline.agents.distribution.optimum import find_optimum
from trunkline.agents.distribution.step import compute_forward_end
from trunkline.workloads.layered.model import Base, Branch, LayeredModel

TITLES = ("cases", "OWL", "OOS", "OOS across")
Case = tuple[LayeredModel, Cluster]


def make_case(seed: int, *, across: bool) -> Case:
    """A random model of up to four branches, and a cluster."""
    rng = random.Random(f"optimum {seed}")
    widths = rng.choice([(2,), (3,), (1, 2), (2, 1), (1, 3), (2, 2)])
    bases = tuple(
        Base(
            str(n),
            tuple(
                Branch(str(k), 4 * rng.randint(5_000, 50_000), rng.uniform(0, 0.1), 0.0)
                for k in range(width)
            ),
        )
        for n, width in enumerate(widths)
    )
    intra_mbps, alpha = rng.uniform(20, 100), rng.choice([0.2, 0.5, 1.0])
    inter_mbps = alpha * intra_mbps
    if across:
        return LayeredModel(bases), Cluster(2, 1, intra_mbps, inter_mbps, inter_mbps)
    return LayeredModel(bases), Cluster(1, rng.choice([2, 2, 3]), intra_mbps, inter_mbps)


def compare(case: Case, *, across: bool) -> tuple[float, ...]:
    """OWL and both bounds as multiples of the optimum."""
    model, cluster = case
    best_s, _ = find_optimum(model, cluster, across=across)
    found: Handout = (owl.deploy_across if across else owl.deploy)(model, cluster)
    return (
        compute_forward_end(model, found, cluster) / best_s,
        baselines.compute_bound(model, cluster) / best_s,
        baselines.compute_bound(model, cluster, across=True) / best_s,
    )


def compare_orders(case: Case, *, across: bool) -> float:
    """The optimum of any order as a multiple of that with one base after the other."""
    best_s, _ = find_optimum(*case, across=across)
    return find_optimum(*case, across=across, in_order=False)[0] / best_s


def summarize(values: list[float]) -> str:
    """The median, the least and the most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    """Try all cases; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=60, metavar="N")
    parser.add_argument("--any-order", action="store_true", help="also without an order of bases")
    arguments = parser.parse_args()
    rows: list[list[str]] = []
    titles: tuple[str, ...] = TITLES
    for name, across in (("one rack", False), ("two racks of one, shared uplink", True)):
        seeds = range(arguments.cases)
        found = [compare(make_case(seed, across=across), across=across) for seed in seeds]
        row = [name, *map(summarize, map(list, zip(*found, strict=True)))]
        if arguments.any_order:
            free = [compare_orders(make_case(seed, across=across), across=across) for seed in seeds]
            row += [summarize(free), str(sum(each < 1 - 1e-9 for each in free))]
            titles = *TITLES, "any order", "faster in any order"
        rows.append(row)
    sys.stdout.write(cells.write_table(titles, rows))


if __name__ == "__main__":
    main()
