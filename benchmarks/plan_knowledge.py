"""How well, and how soon, plans know the rates of links that change during a run.

    python benchmarks/plan_knowledge.py
    python benchmarks/plan_knowledge.py --trials 1 --set 'stop.time=60 s' \
        --set 'timeline=[{at: 20 s, do: redraw rate=0.2..1.55 Mbit/s every 20 s}]'

It carries out NetStorm's figure 18 for its schemes that measure, as `trunkline reproduce` does, and
uses finished runs of the same folder again. From each log it reads when rates changed
(`link_changed`), what plans followed (`plans_updated`), and what was measured (`rate_measured`). A
rate is known if it is at most 20 % off. A change of a link counts for a time after it if the rate
stays until then. Cells have the mean over the runs, and half of its 95 % interval.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import cells
import numpy as np

from trunkline.agents.events.awareness_events import PlansUpdated, RateMeasured, RatesEstimated
from trunkline.agents.planning.plan import Directed
from trunkline.harness.config.paths import SCENARIOS
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.harness.report import outputs
from trunkline.topologies.model import Topology

SCHEMES = ("netstorm-std", "netstorm-pro")
FOLDER = Path("reproductions/netstorm/18")
FILE = SCENARIOS / "paper/netstorm/dynamic.yaml"
ERROR = 0.2
"""The relative error up to which a rate is known."""
UPDATE_S = 5
"""UPDATE_TIME, the default of `scheme.update`."""
PERIODS = (2, 4)
ENOUGH = 8
"""Chunks that give two measurements (`probe_count` is 4)."""


@dataclass(frozen=True, slots=True)
class Change:
    """A link got another rate. Its lists have an item for each of PERIODS.

    Attributes:
        known: whether the plans' rate was right after so many updates; None if the rate changed
            again before.
        known_at_last: whether it was right when the rate changed again, or the run ended.
        chunks: measured chunks of the link in the first PERIODS[0] updates.
    """

    known: tuple[bool | None, ...]
    known_at_last: bool
    chunks: int


def list_changes(history: History, topology: Topology) -> Iterator[Change]:
    """Every change of a link's rate in a run's log."""
    conditions = Conditions.of(history, topology)
    followed = list(follow_plans(history, topology))
    measured = history.all(RateMeasured)
    for link, spells in conditions.spells.items():
        changes = [spells[0]]
        changes += [b for a, b in pairwise(spells) if a.link.rate_mbps != b.link.rate_mbps]
        ends_ns = [*(spell.start_ns for spell in changes[1:]), history.end_ns]
        for spell, end_ns in list(zip(changes, ends_ns, strict=True))[1:]:
            rate_mbps = spell.link.rate_mbps
            at_ns = [spell.start_ns + round(UPDATE_S * n * 1e9) for n in PERIODS]
            yield Change(
                tuple(
                    is_right(find_rate(followed, link, t_ns), rate_mbps) if t_ns <= end_ns else None
                    for t_ns in at_ns
                ),
                is_right(find_rate(followed, link, end_ns), rate_mbps),
                sum(
                    event.chunks
                    for event in measured
                    if (event.src, event.dst) == link and spell.start_ns < event.t_ns <= at_ns[0]
                ),
            )


def count_wrong(history: History, topology: Topology) -> float:
    """The number of links whose rate is not known, in the mean over the updates of plans."""
    conditions = Conditions.of(history, topology)
    return float(
        np.mean(
            [
                sum(
                    not is_right(rates[link], rate)
                    for link, rate in conditions.rates_mbps(t_ns).items()
                )
                for t_ns, rates in list(follow_plans(history, topology))[1:]
            ]
        )
    )


def follow_plans(
    history: History, topology: Topology
) -> Iterator[tuple[int, Mapping[Directed, float]]]:
    """When plans began to follow which rates, in Mbit/s; the first ones are the configured."""
    rates = topology.rates_mbps()
    for estimated in history.all(RatesEstimated)[:1]:
        rates |= {(src, dst): rate for src, dst, rate in estimated.links}
    yield 0, rates
    for event in history.all(PlansUpdated):
        rates = rates | {(src, dst): rate for src, dst, rate in event.links}
        yield event.t_ns, rates


def find_rate(
    followed: Sequence[tuple[int, Mapping[Directed, float]]], link: Directed, t_ns: int
) -> float:
    """The rate of a link that plans follow at a time, in Mbit/s."""
    return [rates for begin_ns, rates in followed if begin_ns <= t_ns][-1][link]


def is_right(known_mbps: float, rate_mbps: float) -> bool:
    """Whether a rate is known."""
    return abs(known_mbps / rate_mbps - 1) <= ERROR


def summarize(history: History, topology: Topology) -> dict[str, float]:
    """What a run shows, by the title of its row; NaN for shares of nothing."""
    changes = list(list_changes(history, topology))
    first = [each for each in changes if each.known[0] is not None]
    rows = {
        f"links of {len(topology.links)} that an update does not know": count_wrong(
            history, topology
        )
    }
    for number, periods in enumerate(PERIODS):
        known = [each.known[number] for each in changes if each.known[number] is not None]
        rows[f"redrawn links known after {periods * UPDATE_S} s, %"] = share(known)
    rows["known at the next redraw or the end, %"] = share([e.known_at_last for e in changes])
    after = f"in {PERIODS[0] * UPDATE_S} s"
    crossed = [bool(each.known[0]) for each in first if each.chunks >= ENOUGH]
    idle = [bool(each.known[0]) for each in first if not each.chunks]
    rows[f"known of those that {ENOUGH} chunks crossed {after}, %"] = share(crossed)
    rows[f"known of those without a measurement {after}, %"] = share(idle)
    return rows


def share(known: Sequence[bool | None]) -> float:
    """The percentage that is true; NaN without any."""
    return 100 * sum(map(bool, known)) / len(known) if known else np.nan


def main() -> None:
    """Run what is missing, and write the table."""
    parser = cells.make_parser(__doc__, FOLDER)
    arguments = parser.parse_args()
    arguments.vary.append(f"scheme.name={','.join(SCHEMES)}")
    _, found = cells.run(FILE, arguments)
    columns = [[*map(read, cell.runs)] for cell in found]
    rows = [
        [title, *(cells.write([run[title] for run in runs], 1) for runs in columns)]
        for title in columns[0][0]
    ]
    sys.stdout.write(cells.write_table(["", *SCHEMES], rows))


def read(run_dir: Path) -> dict[str, float]:
    """What a run shows."""
    data = outputs.read(run_dir)
    return summarize(data.history, data.scenario.topology)


if __name__ == "__main__":
    main()
