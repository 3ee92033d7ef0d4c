"""Make the tables of numbers on the pages by their commands, and check what they say of them.

    python docs/figures.py docs/reproduce/r2sp.md                        every table of the page
    python docs/figures.py docs/reproduce/r2sp.md --table group-size
    python docs/figures.py --check

`marked_tables.py` says how a page names the command of a table. It is carried out in this checkout,
so an interrupted comparison continues. `--check` fails if a table of numbers has no comment, or if
the comment cannot be read, names a command, file or column that does not exist, or has a cell that
does not select one result of the commands.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

import marked_tables
import pandas as pd
from marked_tables import Marker, MarkerError, Result, find_column, find_tables

from trunkline.harness.commands import main as command_line
from trunkline.harness.report.tables.run_table import RunRow
from trunkline.harness.study import comparison, grid, papers, reproduction

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {"python": "", "trunkline": f"-m {command_line.__name__}"}


def main() -> int:
    """Make tables of pages, or check pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    parser.add_argument("--table", metavar="NAME", help="only this table")
    parser.add_argument("--check", action="store_true", help="only check, by default all pages")
    arguments = parser.parse_args()
    if not (arguments.pages or arguments.check):
        parser.error("expected a PAGE such as docs/reproduce/r2sp.md, or --check")
    code = 0
    for page in arguments.pages or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        try:
            check(page) if arguments.check else make(page, arguments.table)
        except MarkerError as error:
            sys.stderr.write(f"{page}: {error}\n")
            code = 1
    return code


def make(page: Path, name: str | None = None) -> None:
    """Make one table of a page, or all that commands make. Raises MarkerError."""
    names = []
    for marker, old in list(find_tables(page.read_text())):
        if marker is None or marker.specification:
            continue
        names.append(marker.name)
        if name in (None, marker.name):
            version, rows = find_version(), draw(marker, old)
            # The page is read again, because the commands may have taken hours.
            text = marked_tables.replace_table(page.read_text(), marker.name, rows, version)
            page.write_text(text)
    if name is not None and name not in names:
        raise MarkerError(f"--table {name}: expected one of {', '.join(names) or 'none'}")


def draw(marker: Marker, old: Sequence[str]) -> list[str]:
    """Carry out the commands of a table, and return its rows. Raises MarkerError."""
    check_commands(marker)
    columns = {find_column(show) for *_, show in marker.list_cells()}
    results: list[Result] = []
    for number, command in enumerate(marker.commands, 1):
        printed = run(command)
        if not marker.rows:
            rows = [line for line in printed.splitlines() if line.startswith("|")]
            if not rows:
                raise MarkerError(f"{command}: it has printed no table")
            return rows
        # Here and now: the next command may leave its results in the same folder.
        results += read_results(read_command(command)[0], columns, f"run {number}")
    return marked_tables.render(marker, results, old)


def run(command: str) -> str:
    """Run a command in the checkout and return its output. Raises MarkerError if it fails."""
    sys.stdout.write(f"$ {command}\n")
    sys.stdout.flush()
    program, *words = shlex.split(command)
    words = [sys.executable, *PROGRAMS[program].split(), *words]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise MarkerError(f"{command}: exit code {done.returncode}")
    return done.stdout


def read_results(folder: Path, columns: Collection[str], name: str) -> Iterator[Result]:
    """The cells of a comparison in a folder, from those of its tables that have these columns."""
    cells: dict[tuple[str, ...], dict[str, float]] = {}
    for side, file in (("", "cells.csv"), ("fluid ", "fluid.csv")):
        if not any(column.startswith("fluid ") == bool(side) for column in columns):
            continue
        path = folder / "tables" / file
        heads = [*map(str, pd.read_csv(path, nrows=0))]
        keys = heads[: heads.index("trial" if side else "trials")]
        types = dict.fromkeys(keys, str)  # a key's `null` is a text
        table = pd.read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
        for row in (comparison.summarize(table, keys) if side else table).to_dict("records"):
            numbers = cells.setdefault(tuple(row.pop(key) for key in keys), {})
            numbers |= {f"{side}{column}": value for column, value in row.items()}
    for values, numbers in cells.items():
        yield (*values, name), numbers


def check(page: Path) -> None:
    """Raise MarkerError at the first wrong table of a page."""
    names = set()
    for marker, rows in find_tables(page.read_text()):
        if marker is None:
            cells = [cell for row in rows[2:] for cell in marked_tables.split_row(row)[1:] if cell]
            numbers = [cell for cell in cells if re.match(r"[-+±~]?\d", cell)]
            if 2 * len(numbers) > len(cells):
                raise MarkerError(f"a table of numbers without a comment: {rows[0]}")
            continue
        if marker.name in names or not marker.made:
            raise MarkerError(f"{marker.name}: expected `made`, and each name once")
        names.add(marker.name)
        check_commands(marker)
        if marker.rows:
            marked_tables.check_labels(marker, rows)
            results = [each for run in enumerate(marker.commands, 1) for each in list_results(*run)]
            for row, column, of, _ in marker.list_cells():
                marked_tables.select(f"{marker.name}: {row}, {column}", of, results)


def check_commands(marker: Marker) -> None:
    """Raise MarkerError unless the commands, files and columns of a table exist."""
    script = len(marker.commands) == 1 and not marker.specification
    if not (script or (marker.rows if marker.commands else marker.specification)):
        expected = "expected a script, commands with rows and columns, or specification: WHAT"
        raise MarkerError(f"{marker.name}: {expected}")
    for label, line in (*marker.rows.items(), *marker.columns.items()):
        if line.by_hand and "paper" not in label:
            raise MarkerError(f"{marker.name}: {label}: by hand: expected numbers of `the paper`")
    for command in marker.commands:
        program, *words = shlex.split(command)
        if program not in ("sudo", "python", "trunkline"):
            raise MarkerError(f"{command}: expected python FILE ... or trunkline ...")
        for word in words:
            if word.endswith((".py", ".yaml")) and not (ROOT / word).is_file():
                raise MarkerError(f"{command}: {word} does not exist")
        if program == "trunkline":
            parse(command)
        columns = read_command(command)[1] if marker.rows else ()
        for *_, show in marker.list_cells():
            if find_column(show) not in columns:
                raise MarkerError(f"show: {show}: {command}: expected one of {sorted(columns)}")


def read_command(command: str) -> tuple[Path, Collection[str]]:
    """The folder of a comparison's results, and their columns. Raises MarkerError."""
    arguments, verb = parse(command), shlex.split(command)[1]
    measured = {"trials", comparison.MET, *comparison.VERDICTS, *RunRow.columns()}
    if verb == "compare" and (ROOT / arguments.file).is_file():
        return ROOT / (arguments.out or f"comparisons/{Path(arguments.file).stem}"), measured
    known = papers.find_figures()
    if verb != "reproduce" or arguments.figure not in known:
        raise MarkerError(f"{command}: expected compare SCENARIO, or reproduce {', '.join(known)}")
    figure = known[arguments.figure]
    is_model = isinstance(figure, papers.ModelFigure)
    has_own = arguments.fluid if is_model else figure.predict is not None
    fluid = comparison.METRICS if has_own else reproduction.METRICS
    columns = {f"fluid {column}" for column in fluid} | (set() if arguments.fluid else measured)
    return ROOT / (arguments.out or f"reproductions/{arguments.figure}"), columns


def list_results(number: int, command: str) -> Iterator[Result]:
    """The results that a comparison will have, without numbers. Raises MarkerError."""
    arguments = parse(command)
    axes = {axis.key: axis for axis in grid.read_axes(arguments.vary)}
    if "figure" in arguments:
        figure = papers.find_figures()[arguments.figure]
        if isinstance(figure, papers.ModelFigure) and not arguments.fluid:
            figure = figure.measured
        axes = {axis.key: axis for axis in grid.read_axes(figure.vary)} | axes
    for cell in grid.combine(tuple(axes.values())):
        yield (*(value for _, value in cell.values), f"run {number}"), {}


def parse(command: str) -> argparse.Namespace:
    """The arguments of a command `trunkline ...`. Raises MarkerError."""
    try:
        return command_line.make_parser().parse_args(shlex.split(command)[1:])
    except SystemExit:
        raise MarkerError(f"{command}: wrong arguments") from None


def find_version() -> str:
    """The time, and the commit of the checkout, with `+` if other files than pages differ."""
    ask = partial(subprocess.check_output, cwd=ROOT, text=True)
    changed = ask(["git", "status", "--porcelain", "--", ".", ":!*.md"])
    commit = ask(["git", "rev-parse", "--short", "HEAD"]).strip() + "+" * bool(changed)
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} at {commit}"


if __name__ == "__main__":
    sys.exit(main())
