"""The tables of the cross-checks (pure, but for what is read from the store)."""

from __future__ import annotations

import math
import statistics
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import iperf_meter
from crosscheck_results import (
    BASELINES,
    INSTRUCTION_NS,
    KERNEL,
    MACHINES,
    NS3,
    OURS,
    OWN_TCP,
    ROOT,
    Case,
    Store,
    hash_code,
    read_all,
)
from iperf_meter import Flow
from run_result import Result

from trunkline.harness.study.comparison import confidence_interval

WORST = 12
SINGLE = "task "
"""A difference of one task has this and its number, from 1 on."""

COMPARED = NS3, OWN_TCP, *MACHINES
"""The sides of the summary."""

BOTH = "both"
"""The first two of these that are independent, together, in what both have measured."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A case on another side beside Trunkline: both means, and the difference in percent.

    `singles` are the differences of its seeds. Their mean is `percent`, in which seeds that differ
    in opposite directions cancel out. The mean of their sizes is `size`.
    """

    case: Case
    side: str
    what: str
    ours: str
    other: str
    percent: float
    half: float
    singles: tuple[float, ...]

    @property
    def size(self) -> float:
        """The mean size of the seeds' differences."""
        return statistics.fmean(map(abs, self.singles))

    @property
    def is_single(self) -> bool:
        """Whether it is of one task."""
        return self.what.startswith(SINGLE)

    def write(self) -> list[str]:
        """A row of a table."""
        text = f"{self.percent:+.1f}" + (f" ± {self.half:.1f}" if self.half >= 0.05 else "")
        return [f"`{self.case.name}`", self.side, self.what, self.ours, self.other, text]


QUANTITIES: Mapping[str, Callable[[Result], float]] = {
    "first task": lambda result: result.cold_s,
    "later tasks": lambda result: result.warm_s,
}


def compare(cases: Iterable[Case], store: Store, sides: Iterable[str]) -> Iterator[Difference]:
    """Compare all that both sides have measured, seed by seed.

    That are `QUANTITIES` and single tasks, or what iperf3 reported (`iperf_meter.MEANS`).
    """
    for case in cases:
        for side in (each for each in sides if each in case.sides):
            if pairs := _list_pairs(case, store, side):
                doubt = "" if all(each.verdict == "pass" for _, each in pairs) else " (unknown)"
                for what, value in _list_quantities(pairs).items():
                    values = [(value(first), value(second)) for first, second in pairs]
                    yield make_difference(case, side, what, values, doubt)


def _list_pairs(case: Case, store: Store, side: str) -> list[tuple[Result, Result]]:
    """Our result and the other one of each seed that both have, with as many tasks each."""
    ours, others = store.results(case, BASELINES[side]), store.results(case, side)
    pairs = [(ours[seed], others[seed]) for seed in ours if seed in others]
    count = min((len(each.tasks_s) for pair in pairs for each in pair), default=0)
    return [(first.first(count), second.first(count)) for first, second in pairs]


def _list_quantities(
    pairs: Sequence[tuple[Result, Result]],
) -> dict[str, Callable[[Result], float]]:
    """What is compared of these pairs."""

    def of_flows(mean: Callable[[Sequence[Flow]], float]) -> Callable[[Result], float]:
        return lambda result: mean(result.flows)

    def of_task(number: int) -> Callable[[Result], float]:
        return lambda result: result.tasks_s[number]

    first, _ = pairs[0]
    if first.flows:
        return {what: of_flows(mean) for what, mean in iperf_meter.MEANS.items()}
    single = {f"{SINGLE}{n + 1}": of_task(n) for n in range(len(first.tasks_s))}
    return {**QUANTITIES, **single}


def make_difference(
    case: Case, side: str, what: str, values: Sequence[tuple[float, float]], doubt: str
) -> Difference:
    """The difference of what seeds have, Trunkline first; `doubt` follows the other's mean."""
    singles = tuple(100 * (other / ours - 1) for ours, other in values)
    percents = confidence_interval(singles)
    half = 0.0 if math.isnan(percents.high) else percents.high - percents.mean
    mine, theirs = (f"{statistics.fmean(each):.3f}" for each in zip(*values, strict=True))
    return Difference(case, side, what, mine, theirs + doubt, percents.mean, half, singles)


def draw(name: str, found: Sequence[Difference]) -> tuple[Sequence[str], list[list[str]]]:
    """The titles and the rows of the table `summary`, `worst` or `tasks`."""
    if name == "summary":
        titles = (
            "side", "what", "differences",
            "mean differences: median, %", "95th percentile, %", "largest, %",
            "mean sizes: median, %", "95th percentile, %", "largest, %",
            "single seeds: 95th percentile, %", "largest, %",
        )  # fmt: skip
        groups: dict[tuple[str, str], list[Difference]] = {}
        for name, sides in {**{x: (x,) for x in COMPARED}, BOTH: (NS3, KERNEL)}.items():
            for each in found:
                if each.side in sides:
                    what = "single tasks" if each.is_single else each.what
                    groups.setdefault((name, what), []).append(each)
        return titles, [
            [*key, *_summarize(those)]
            for key, those in groups.items()
            if key[0] != BOTH or len({each.side for each in those}) > 1
        ]
    chosen = [each for each in found if each.is_single == (name == "tasks")]
    chosen = sorted(chosen, key=lambda each: -each.size)[:WORST]
    columns = "case", "side", "what", "Trunkline", "the other", "difference, %", "mean size, %"
    return columns, [[*x.write(), f"{x.size:.1f}"] for x in chosen]


def draw_sides(
    sides: Sequence[str], found: Iterable[Difference]
) -> tuple[Sequence[str], list[list[str]]]:
    """A row for each case: its `QUANTITIES` in Trunkline, and on each of these sides beside it.

    Where two sides are compared with other runs or seeds of Trunkline, its cell has two numbers.
    """
    titles = ["case"]
    for what in QUANTITIES:
        titles.append(f"{what}, s: Trunkline")
        titles += [each for side in sides for each in (side, "difference, %")]
    cases: dict[str, dict[tuple[str, str], Difference]] = {}
    for each in found:
        if each.side in sides and each.what in QUANTITIES:
            cases.setdefault(each.case.name, {})[each.what, each.side] = each
    rows = []
    for name, those in cases.items():
        row = [f"`{name}`"]
        for what in QUANTITIES:
            cells = [those.get((what, side)) for side in sides]
            row.append(" / ".join(dict.fromkeys(cell.ours for cell in cells if cell)))
            for cell in cells:
                row += cell.write()[-2:] if cell else ["", ""]
        rows.append(row)
    return titles, rows


def draw_flows(
    cases: Iterable[Case], store: Store, sides: Sequence[str] = tuple(INSTRUCTION_NS)
) -> tuple[Sequence[str], list[list[str]]]:
    """What iperf3 reported on Debian's kernel and beside it: a row for each case and side."""
    rows = []
    for case in cases:
        for side in (each for each in sides if each in case.sides):
            pairs = _list_pairs(case, store, side)
            if not pairs or not pairs[0][0].flows:
                continue
            row = [f"`{case.name}`", side, str(len(pairs))]
            for found in compare([case], store, (side,)):
                row += [found.ours, found.other, found.write()[-1]]
            again = [[iperf_meter.count_again(each.flows) for each in pair] for pair in pairs]
            row += [f"{statistics.fmean(each):.1f}" for each in zip(*again, strict=True)]
            rows.append(row)
    titles = ["case", "side", "seeds"]
    for what in iperf_meter.MEANS:
        titles += [f"{what}: Trunkline", "the other", "difference, %"]
    return [*titles, "packets sent again: Trunkline", "the other"], rows


def draw_losses(cases: Iterable[Case], store: Store) -> tuple[Sequence[str], list[list[str]]]:
    """The packets that were lost on Debian's kernel and beside it, in the same tasks.

    `at random` is the share that links lose, of all packets on Trunkline's; the rest did not fit.
    """
    rows = []
    for case in (each for each in cases if KERNEL in each.sides):
        ours, others = store.results(case, OURS), store.results(case, KERNEL)
        seeds = [seed for seed in ours if seed in others]
        if not any(side[seed].drops for side in (ours, others) for seed in seeds):
            continue
        means = [statistics.fmean(x[seed].drops for seed in seeds) for x in (ours, others)]
        found = confidence_interval([others[seed].drops - ours[seed].drops for seed in seeds])
        half = "" if math.isnan(found.high) else f" ± {found.high - found.mean:.0f}"
        percent = max(link.loss_percent for link in case.load(1, OURS).topology.links)
        sent = statistics.fmean(ours[seed].packets + ours[seed].drops for seed in seeds)
        texts = f"{sent:.0f}", *(f"{mean:.0f}" for mean in means), f"{found.mean:+.0f}{half}"
        at_random = f"{sent * percent / 100:.0f}"
        rows.append([f"`{case.name}`", str(len(seeds)), *texts, at_random])
    titles = "case", "seeds", "packets", "lost in Trunkline", "on Debian's kernel", "difference"
    return (*titles, "at random"), rows


def draw_versions(
    cases: Iterable[Case], store: Store, sides: Iterable[str]
) -> tuple[Sequence[str], list[list[str]]]:
    """How many results of each side which version has made, the oldest first."""
    rows = []
    for side in sides:
        results = [x for *_, x in read_all(cases, store, (side,)) if x]
        for (version, code), count in count_versions(results).items():
            commit = version.rpartition(" ")[2]
            shown = f"{commit[:9]}{'-dirty' * commit.endswith('-dirty')}" if commit else "not kept"
            is_present = "yes" if code == hash_code(side) else "no"
            rows.append([side, str(count), shown, _date(commit), is_present])
    rows.sort(key=lambda row: row[3])
    return ("side", "results", "commit", "of", "the present code"), rows


def count_versions(results: Iterable[Result | None]) -> Mapping[tuple[str, str], int]:
    """How many results each version and code of Trunkline made."""
    return Counter((result.version, result.code) for result in results if result is not None)


def _date(commit: str) -> str:
    """When a commit was made; nothing if that is not known."""
    name = commit.removesuffix("-dirty")
    command = ["git", "log", "-1", "--date=format:%Y-%m-%d %H:%M", "--format=%cd", name, "--"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if name else ""


def _summarize(found: Sequence[Difference]) -> list[str]:
    means = [abs(each.percent) for each in found]
    sizes = [each.size for each in found]
    singles = [abs(percent) for each in found for percent in each.singles]
    numbers = *_rank(means), max(means), *_rank(sizes), max(sizes), _rank(singles)[1], max(singles)
    return [str(len(means)), *(f"{each:.1f}" for each in numbers)]


def _rank(values: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile."""
    ranked = sorted(values)
    high = ranked[min(len(ranked) - 1, math.ceil(0.95 * len(ranked)) - 1)]
    return statistics.median(ranked), high
