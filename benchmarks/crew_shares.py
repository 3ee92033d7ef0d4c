"""Compare the ways in which CREW and OPR share a model, on networks that are not a full mesh.

    python benchmarks/crew_shares.py

All times are those of the fluid model, so the machine does not matter. There are three kinds of
networks: sparse overlays of 6 to 10 sites; eight sites with access links of 20 to 200 Mbit/s; eight
sites on the network `os3e`, which other paths cross. Each network has one group of members. Each
row compares two plans: the median of the ratio of their times, the 5th and 95th percentile, and on
how many networks the first one is slower.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from trunkline.agents.control.planner import make_request
from trunkline.agents.planning.fluid.completion_times import estimate
from trunkline.agents.planning.plan import Plan, PlanRequest
from trunkline.agents.plans import crew, opr
from trunkline.harness.scenario import planning
from trunkline.harness.scenario.loading import parse
from trunkline.harness.scenario.settings import Scenario

REST = """
workload: {kind: synthetic, model: 10 MB}
scheme: {plan: crew, chunk: 64 KiB}
stop: {rounds: 1}
"""
SLOWER = 1.001
"""A plan is slower than another one above this ratio."""

PLANS: dict[str, Callable[[PlanRequest], Plan]] = {
    "crew routed aware": crew.build,
    "crew routed pipelined": partial(crew.build, split="pipelined"),
    "crew direct aware": partial(crew.build, hubs="direct"),
    "crew direct pipelined": partial(crew.build, hubs="direct", split="pipelined"),
    "opr routed aware": opr.build,
    "opr direct aware": partial(opr.build, hubs="direct"),
}
PAIRS = (
    ("crew direct aware", "crew routed aware"),
    ("crew direct aware", "opr direct aware"),
    ("crew routed aware", "opr routed aware"),
    ("crew routed aware", "crew routed pipelined"),
    ("crew direct pipelined", "crew routed pipelined"),
)


def draw_sparse(rng: random.Random) -> str:
    """A ring of 6 to 10 sites, where each other pair has a link with probability 0.4."""
    names = [f"n{number}" for number in range(1, rng.randint(6, 10) + 1)]
    pairs = list(zip(names, names[1:] + names[:1], strict=True))
    pairs += [
        (a, b)
        for a in names
        for b in names
        if a < b and not {(a, b), (b, a)} & set(pairs) and rng.random() < 0.4
    ]
    links = [
        f"{{src: {a}, dst: {b}, rate: {rng.uniform(20, 155):.3f} Mbit/s}}"
        for pair in pairs
        for a, b in (pair, pair[::-1])
    ]
    return f"{{builder: explicit, sites: [{', '.join(names)}], links: [{', '.join(links)}]}}"


def draw_access(rng: random.Random) -> str:
    """Eight sites behind access links of 20 to 200 Mbit/s, different in both directions."""
    entries = [
        f"{{sites: [n{number}], up: {rng.uniform(20, 200):.3f} Mbit/s,"
        f" down: {rng.uniform(20, 200):.3f} Mbit/s}}"
        for number in range(1, 9)
    ]
    return f"{{builder: full_mesh, sites: 8, rates: 1 Gbit/s, access: [{', '.join(entries)}]}}"


def draw_os3e(rng: random.Random) -> str:
    """Eight sites at nodes of `os3e`, with links of 10 or 100 Mbit/s."""
    network = parse(f"topology: {{builder: file, file: os3e, rate_factor: 0.001}}{REST}", "os3e")
    sites = ", ".join(rng.sample(network.topology.site_names, 8))
    return f"{{builder: file, file: os3e, rate_factor: 0.001, sites: [{sites}]}}"


def compute_times_s(scenario: Scenario, rng: random.Random) -> dict[str, float]:
    """The fluid time of each plan for one random group."""
    settings, topology = planning.controller_settings(scenario), scenario.topology
    sites = settings.sites
    group = tuple(sorted(rng.sample(sites, rng.randint(3, len(sites)))))
    request = make_request(settings, group, sites, settings.rates_mbps, random.Random(1))
    sizes = settings.chunk_bytes, settings.model_bytes
    rates_mbps, paths = topology.rates_mbps(), topology.overlay_paths()
    return {
        name: estimate(build(request), rates_mbps, *sizes, paths=paths)
        for name, build in PLANS.items()
    }


def compare(draw: Callable[[random.Random], str], networks: int) -> Iterator[str]:
    """A row for each pair of plans."""
    found = []
    for seed in range(1, networks + 1):
        rng = random.Random(seed)
        scenario = parse(f"topology: {draw(rng)}{REST}", draw.__name__, (), seed)
        found.append(compute_times_s(scenario, rng))
    for first, second in PAIRS:
        ratios = np.array([times[first] / times[second] for times in found])
        low, median, high = np.quantile(ratios, (0.05, 0.5, 0.95))
        slower = int((ratios > SLOWER).sum())
        kind = draw.__name__.removeprefix("draw_")
        yield (
            f"| {kind} | {first} / {second} | {median:.2f} | {low:.2f} to {high:.2f} |"
            f" {slower} of {networks} |"
        )


def main() -> None:
    """Write the table of all kinds of networks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", type=int, default=60, help="networks of each kind")
    networks = parser.parse_args().networks
    sys.stdout.write("| networks | times | median | 5 % to 95 % | first one slower |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- |\n")
    for draw in (draw_sparse, draw_access, draw_os3e):
        for row in compare(draw, networks):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
