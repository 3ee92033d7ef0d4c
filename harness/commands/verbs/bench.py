"""measure how accurately the emulated network matches the scenario."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.harness.commands import terminal

if TYPE_CHECKING:
    from rich.table import Table

    from trunkline.harness.measure.readings import Reading

SUBJECTS = ("fidelity",)

EPILOG = """\
examples:
  trunkline bench fidelity                                       six kinds of links
  trunkline bench fidelity --grid                                5 to 1000 Mbit/s, 0 to 150 ms
  trunkline bench fidelity --scenario scenarios/quickstart.yaml
  trunkline bench fidelity --set network.offloads=true
  trunkline bench fidelity --no-foreign                          without ping and iperf3

A bar is the largest error that passes. Exit codes: 0 all errors are within their bars, 1 an error
is not, 2 unknown (the real clock was late).
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the network to measure, and how."""
    parser.add_argument(
        "subject",
        choices=SUBJECTS,
        metavar="{" + ",".join(SUBJECTS) + "}",
        help="compare links with the scenario",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--scenario", metavar="FILE", help="measure every link of this scenario")
    which.add_argument("--grid", action="store_true", help="measure rates x delays x losses")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY.PATH=VALUE",
        help="change a value of the scenario, such as network.mtu=9000; may be repeated",
    )
    parser.add_argument(
        "--seed", type=terminal.parse_whole, metavar="N", help="change the scenario's seed"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the folder of the results, which is created (default: a new folder in runs)",
    )
    parser.add_argument(
        "--foreign",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also measure with ping and iperf3 if they are installed (default: yes)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="send a tenth of the packets to count losses and their like, with wider bars",
    )
    terminal.add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure a network; print a table and the verdict."""
    from trunkline.harness.live import progress
    from trunkline.harness.measure import foreign, networks, readings, self_check
    from trunkline.harness.record import run_folder
    from trunkline.harness.scenario.loading import load, parse

    if arguments.scenario:
        scenario = load(arguments.scenario, arguments.set, arguments.seed)
    else:
        text = networks.write_grid() if arguments.grid else networks.write_small()
        scenario = parse(text, "(built-in network)", arguments.set, arguments.seed)
    if arguments.out:
        folder = run_folder.RunFolder(Path(arguments.out).resolve())
    else:
        folder = run_folder.RunFolder.create(
            Path("runs").resolve(), f"{scenario.name}.bench", datetime.now()
        )
    with_foreign = arguments.foreign
    with progress.live(terminal.make_console(stderr=True, quiet=arguments.quiet)) as show:
        found = self_check.check(scenario, folder, show, with_foreign, arguments.quick)
    if arguments.quiet:
        print(f"{found.verdict.outcome}  {folder.path}")
        return terminal.EXIT_CODES[found.verdict.outcome]
    console = terminal.make_console()
    console.print(_make_table(found.readings))
    for program in foreign.find_missing() if with_foreign else ():
        console.print(f"{program} is not installed: its measurements are missing")
    for line in (*readings.list_unjudged(found.readings), *found.verdict.problems):
        console.print(line, markup=False)
    console.print(f"verdict  {found.verdict.outcome}")
    console.print(f"results  {folder.path}", markup=False, soft_wrap=True)
    return terminal.EXIT_CODES[found.verdict.outcome]


def _make_table(readings: tuple[Reading, ...]) -> Table:
    """A table with a line per quantity, which shows its worst link."""
    from rich.table import Table

    from trunkline.harness.measure.readings import QUANTITIES, find_worst

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("quantity", "verdict"):
        table.add_column(name)
    for name in ("links", "not judged", "set", "measured", "worst error", "bar"):
        table.add_column(name, justify="right")
    for name in ("", "of link"):
        table.add_column(name)
    for name in QUANTITIES:
        rows = [row for row in readings if row.quantity == name]
        judged = [row for row in rows if row.outcome]
        row = find_worst(judged)
        if row is None or row.expected is None or row.measured is None:
            if rows:
                left = str(len(rows) - len(judged))
                table.add_row(name, _find_outcome(judged), str(len(judged)), left)
            continue
        table.add_row(
            *(name, _find_outcome(judged), str(len(judged)), str(len(rows) - len(judged))),
            *(f"{row.expected:.6g} {row.unit}", f"{row.measured:.6g}"),
            *(f"{row.error:+.2g}", f"{row.bar:.2g}", row.error_unit),
            f"{row.src} -> {row.dst}",
        )
    return table


def _find_outcome(rows: list[Reading]) -> str:
    outcomes = {row.outcome for row in rows}
    return next((name for name in ("fail", "unknown", "pass") if name in outcomes), "")
