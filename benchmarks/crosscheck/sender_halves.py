"""Find which half of a TCP sender makes ns-3 differ: its congestion control, or all the rest.

    python benchmarks/crosscheck/sender_halves.py            the cases that differ by more than 5 %
    python benchmarks/crosscheck/sender_halves.py --only 'pair-*' --least 0

The sender of ns-3 and that of Linux (`ns3_linux_tcp.h`) have two halves: congestion control, such
as CUBIC, and the rest: loss recovery, timeouts, acknowledgements. Each case of the cross-checks is
simulated with all four combinations (seed 1). A row has the differences of its first and of its
later tasks from Trunkline's, in percent. Trunkline's runs are those of `crosscheck.py`.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import against_ns3
import crosscheck
import ns3_description
from crosscheck_results import FOLDER, NS3, OWN_TCP, UNPACED, Case, Store, read_cases
from run_result import Result

SEED = 1
LINUX: ns3_description.Tcp = "linux"
OWN: ns3_description.Tcp = "ns3"
COMBINATIONS: tuple[tuple[str, ns3_description.Tcp, ns3_description.Tcp], ...] = (
    ("both of Linux", LINUX, LINUX),
    ("congestion control of ns-3", OWN, LINUX),
    ("the rest of ns-3", LINUX, OWN),
    ("both of ns-3", OWN, OWN),
)
"""A title, whose congestion control, and whose rest."""

SOCKET_TYPE = "ns3::TcpL4Protocol::SocketType"


def find_differences(result: Result, ours: Result) -> tuple[float, float]:
    """By how much first and later tasks differ from ours, in percent."""
    pairs = (result.cold_s, ours.cold_s), (result.warm_s, ours.warm_s)
    first, later = (100 * (theirs / own - 1) for theirs, own in pairs)
    return first, later


def choose(cases: Iterator[Case], store: Store, least: float) -> Iterator[tuple[Case, Result]]:
    """The cases that ns-3 with its TCP has measured and that differ by more, and our results."""
    for case in cases:
        own = store.read(case, SEED, OWN_TCP) if OWN_TCP in case.sides else None
        ours = store.read(case, SEED, UNPACED)
        if own and ours and max(map(abs, find_differences(own, ours))) > least:
            yield case, ours


def simulate(case: Case, control: ns3_description.Tcp, rest: ns3_description.Tcp) -> Result:
    """Simulate a case with the congestion control of one sender, and the rest of another one."""
    scenario = case.load(SEED, NS3)
    name = ns3_description.ALGORITHMS[control][scenario.network.congestion_control]
    program = against_ns3.build(against_ns3.find_cache())
    found = against_ns3.simulate(scenario, program, {SOCKET_TYPE: name}, rest)
    return Result("pass", found.tasks_s, found.packets, found.drops)


def write_row(case: Case, ours: Result) -> list[str]:
    """The row of a case."""
    found = (simulate(case, control, rest) for _, control, rest in COMBINATIONS)
    texts = ("{:+.1f} | {:+.1f}".format(*find_differences(each, ours)) for each in found)
    return [f"`{case.name}`", *texts]


def main() -> None:
    """Simulate, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of these cases")
    parser.add_argument("--least", type=float, default=5.0, help="percent that a case differs by")
    parser.add_argument("--jobs", type=int, default=crosscheck.JOBS, help="how many at once")
    arguments = parser.parse_args()
    cases = read_cases(crosscheck.CASES.read_text(), crosscheck.CASES.parent)
    named = (case for case in cases if fnmatch.fnmatch(case.name, arguments.only))
    chosen = [*choose(named, Store(FOLDER), arguments.least)]
    if not chosen:
        parser.error("no such case was measured with ns-3's TCP: see crosscheck.py")
    titles = [f"{title}: {which}" for title, *_ in COMBINATIONS for which in ("first", "later")]
    lines = ["case", *titles], ["---"] * (1 + len(titles))
    for line in lines:
        sys.stdout.write(f"| {' | '.join(line)} |\n")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(write_row, *zip(*chosen, strict=True)):
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
