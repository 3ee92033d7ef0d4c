"""Results of a few short runs, by which a change of the agents is told from a change of results.

    python docs/reference_results.py         make the runs again, and write what has moved

A change of the agents rarely changes a result. So the tables of numbers do not depend on the code
of the agents, the planner or the session, but on what short runs of every scheme give:
`reference_results.csv` has the value of each quantity, and the day since which it is so. Several
rows are its history. A quantity has moved if it differs from its last value by more than noise
(`COMMANDS`, `EXACT`); then all tables that name its scheme are out of date if they are older. So
are those that are older than its first value. The first line says when all runs were made last, and
with which commit.

The runs are made in this checkout (`reference/`), so an interrupted one continues.
"""

from __future__ import annotations

import datetime
import functools
import re
import sys
from collections.abc import Iterator, Set
from dataclasses import dataclass

import pandas as pd
from marked_tables import MarkerError
from table_commands import (
    ROOT,
    count_commits_since,
    find_commit,
    read_results,
    read_study,
    run,
)

from trunkline.harness.config import document
from trunkline.harness.scenario.named_schemes import SCHEMES

FILE = ROOT / "docs" / "reference_results.csv"
COLUMNS = ("command", "cell", "quantity", "value", "since")
LAST = re.compile(r"# all made again (?P<when>[-\d]+ [\d:]+) at (?P<commit>\w+\+?)")
OBSERVED = ("agents", "harness", "topologies", "workloads")
"""The folders whose code the runs observe."""

EXACT = 0.001
"""A relative difference that is more than rounding: the fluid model has no noise."""

ACCURACY, TRAINING = "accuracy_percent", frozenset({"training"})
"""The quantity that a change of the numerics moves, and the workload of the tables with it."""

POLICIES = (
    *(
        f"{{name: {name}, servers: [n9]}}"
        for name in (
            *("ps-bsp", "ps-asp", "ps-ssp", "ps-hete", "ps-bk"),
            *("r2sp", "fl-bsp", "fl-r2sp", "safa"),
        )
    ),
    *("{name: allreduce}", "{name: eager-reduce}", "{name: ad-psgd}", "{name: p-reduce, p: 3}"),
)
COMMANDS = {
    "trunkline reproduce crew/4 --trials 1 --vary scheme.pipelined=true": ("task_s", 0.03),
    "trunkline reproduce crew/6 --trials 1 --vary scheme.p=3": ("rounds", 0.05),
    "trunkline reproduce crew/7 --trials 1 --vary scheme.discipline=fcfs,fair,C1": ("task_s", 0.05),
    "trunkline reproduce crew/8 --trials 1 --vary scheme.p=3": ("rounds", 0.15),
    "trunkline reproduce netstorm/18 --trials 1": ("task_s", 0.1),
    "trunkline reproduce netstorm/14 --trials 1 --vary timeline=[]": ("task_s", 0.1),
    "trunkline reproduce owl/7 --trials 1": ("step_s", 0.03),
    "trunkline reproduce p-reduce/table1 --fluid --trials 1 --set 'stop={time: 20 s}' "
    "--set 'workload={kind: synthetic, model: 1 MB, compute: [90 ms, 110 ms]}'": ("rounds", EXACT),
    "trunkline reproduce p-reduce/8 --trials 3 --set 'stop={time: 10 s}' --vary scheme.p=3": (
        ACCURACY,
        0.03,
    ),
    "trunkline reproduce r2sp/8 --fluid --trials 1": ("rounds", EXACT),
    "trunkline reproduce r2sp/15 --fluid --trials 1": ("rounds", EXACT),
    "trunkline compare scenarios/parameter_servers.yaml --trials 1 --set 'stop.time=3 s' "
    f"--vary 'scheme={','.join(POLICIES)}'": ("rounds", 0.03),
}
"""Each command, the column that is observed, and by how much harmless differences move its measured
values (relative): more if plans follow measurements or faults, because these amplify any
difference."""

WORD = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Move:
    """A quantity of a reference run that has moved: of which run, from when, by how much.

    The first value has no `percent`: what it was before is unknown. It concerns tables with all of
    its `workloads`.
    """

    run: str
    quantity: str
    since: str
    percent: float | None
    components: frozenset[str]
    workloads: frozenset[str] = frozenset()

    def __str__(self) -> str:
        if self.percent is None:
            return f"{self.run}: {self.quantity}: unknown before {self.since}"
        return f"{self.run}: {self.quantity}: {self.percent:+.1f} %"


def main() -> int:
    """Make the runs again; return 1 if a command failed."""
    now = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M}"
    try:
        commit = find_commit()
        lines = list(compare(now))
    except MarkerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _write(_read(), f"# all made again {now} at {commit}")
    sys.stdout.write("".join(f"{line}\n" for line in lines) or "Nothing has moved.\n")
    return 0


def find_moves(names: Set[str], made: str, sides: Set[str]) -> list[Move]:
    """What has moved of the components that a table names since it was made (ISO, minutes).

    Of a table that names none, all reference runs count. `sides` has `fluid`, `measured` or both.
    """
    moves = [move for move in list_moves() if move.since > made and _side(move.quantity) in sides]
    named = names & _list_components()
    moves = [move for move in moves if not named or move.components <= named]
    return [move for move in moves if move.workloads <= names]


@functools.cache
def list_moves() -> tuple[Move, ...]:
    """All moves, the oldest first."""
    moves = []
    for key, rows in _read().groupby(["command", "cell", "quantity"], sort=False):
        command, cell, quantity = map(str, key)
        components = find_components(command, cell)
        before = 0.0
        for value, since in zip(rows["value"], rows["since"], strict=True):
            percent = 100 * (value / before - 1) if before else None
            run = f"{_find_name(command)} {cell}"
            workloads = TRAINING if quantity == ACCURACY else frozenset()
            moves.append(Move(run, quantity, since, percent, components, workloads))
            before = float(value)
    return tuple(sorted(moves, key=lambda move: move.since))


def compare(now: str) -> Iterator[str]:
    """Make the runs again, and write what is new or has moved. Yields a line for each move."""
    for command, (column, noise) in COMMANDS.items():
        folder = f"{command} --quiet --out reference/{_find_name(command)}"
        run(folder)
        known = _read()
        last = {row[:3]: row[3] for row in known[[*COLUMNS]].itertuples(index=False, name=None)}
        rows = []
        for result in read_results(read_study(folder)):
            cell = ", ".join(result.values)
            for quantity, least in ((column, noise), (f"fluid {column}", EXACT)):
                value = result.numbers.get(quantity, 0.0)
                before = last.get((command, cell, quantity))
                if value > 0 and (before is None or abs(value / before - 1) > least):
                    rows.append((command, cell, quantity, value, now))
                    if before is not None:
                        change = 100 * (value / before - 1)
                        yield f"{_find_name(command)} {cell}: {quantity}: {change:+.1f} %"
        if rows:
            new = pd.DataFrame(rows, columns=[*COLUMNS])
            _write(pd.concat([known, new]), _read_first_line())


def describe_age() -> str:
    """A sentence that tells when all reference runs were made last."""
    last = LAST.fullmatch(_read_first_line())
    if last is None:
        return "It is unknown when all reference runs were made last."
    since = count_commits_since(last["commit"], *OBSERVED)
    count = "unknown" if since is None else since
    return (
        f"The reference runs were made last on {last['when']} (UTC) at {last['commit']}. "
        f"Commits since then that change {', '.join(OBSERVED)}: {count}."
    )


def _find_name(command: str) -> str:
    """`crew/4`, or the name of the scenario that is compared."""
    return command.split()[2].removeprefix("scenarios/").removesuffix(".yaml")


def _side(quantity: str) -> str:
    return "fluid" if quantity.startswith("fluid ") else "measured"


def _read() -> pd.DataFrame:
    return pd.read_csv(FILE, keep_default_na=False, comment="#")


def _read_first_line() -> str:
    return FILE.read_text().partition("\n")[0]


def _write(table: pd.DataFrame, first_line: str) -> None:
    text = table.to_csv(index=False, float_format="%.6g")
    FILE.write_text(f"{first_line}\n{text}" if first_line.startswith("#") else text)


def find_components(command: str, cell: str) -> frozenset[str]:
    """The schemes, plans and policies of a reference run; its scenario's if the cell has none."""
    known = _list_components()
    study = read_study(command)
    assert study.scenario is not None
    words = set(WORD.findall(cell)) & known
    if not words:
        text = document.read(study.scenario.read_text(), str(study.scenario)).data["scheme"]
        words = set(WORD.findall(repr(text))) & known
    return frozenset(words)


@functools.cache
def _list_components() -> frozenset[str]:
    folders = (ROOT / "agents" / "plans", ROOT / "agents" / "policies")
    files = {file.stem for folder in folders for file in folder.glob("*.py")}
    return frozenset({*SCHEMES, *files})


if __name__ == "__main__":
    sys.exit(main())
