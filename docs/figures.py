"""Make the tables of numbers on the pages by their commands, and tell which are out of date.

    python docs/figures.py docs/reproduce/r2sp.md                 every table that is out of date
    python docs/figures.py docs/reproduce/r2sp.md --table group-size
    python docs/figures.py --check

`marked_tables.py` says how a page names the command of a table. It is carried out in this checkout,
so an interrupted comparison continues. `--check` fails if a marker is wrong, names a command or a
value that does not exist, if a table of numbers has no marker, or if a cell was changed by hand. It
only lists the tables of which something (`table_code.py`) has changed since they were made, and the
tables that no command makes, with the day on which a line of them changed last.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from marked_tables import (
    Marker,
    MarkerError,
    Result,
    check_cells,
    check_labels,
    check_selection,
    find_tables,
    list_quantities,
    render,
    replace_table,
)
from reference_results import describe_age
from table_code import hash_table, list_moves_since
from table_commands import (
    ROOT,
    Study,
    find_change,
    find_commit,
    find_script,
    list_values,
    parse,
    read_results,
    read_study,
    run,
)

from trunkline.harness.report.columns import RUN
from trunkline.harness.study import comparison, grid


def main() -> int:
    """Make the tables of pages, or check all pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    parser.add_argument("--table", metavar="NAME", help="only this table, up to date or not")
    parser.add_argument("--check", action="store_true", help="list tables that are out of date")
    arguments = parser.parse_args()
    try:
        if arguments.check:
            pages = arguments.pages or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
            return check([page.resolve() for page in pages])
        if not arguments.pages:
            parser.error("expected a PAGE such as docs/reproduce/r2sp.md, or --check")
        for page in arguments.pages:
            make(page.resolve(), arguments.table)
    except MarkerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def make(page: Path, name: str | None) -> None:
    """Make one table of a page, or all that are out of date. Raises MarkerError."""
    markers = _list_markers(page)
    if name is not None:
        made = [marker.name for marker in markers if not marker.by_hand]
        if name not in made:
            allowed = f"one of {', '.join(made)}" if made else "none: no command makes one"
            raise MarkerError(f"{page}: table {name}: expected {allowed}")
    for marker in markers:
        wanted = name in (None, marker.name) and not marker.by_hand
        if not wanted or (name is None and not find_age(marker)):
            continue
        try:
            _check_marker(marker)
            code, now = hash_table(marker), f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M}"
            rows = _draw(marker, page) if marker.rows else _print(marker)
        except MarkerError as error:
            raise MarkerError(f"{page}: {marker.name}: {error}") from None
        # The page is read again, because the commands may have taken hours.
        version = f"{now} at {find_commit()}, code {code}"
        page.write_text(replace_table(page.read_text(), marker.name, rows, version))


def check(pages: Sequence[Path]) -> int:
    """Print what is wrong, out of date or by hand; 1 if something is wrong."""
    wrong, old, by_hand = [], [], []
    current = 0
    for page in pages:
        where = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
        try:
            tables = list(find_tables(page.read_text()))
        except MarkerError as error:
            wrong.append(f"{where}: {error}")
            continue
        names = [found.marker.name for found in tables if found.marker is not None]
        for found in tables:
            line = f"{where}:{found.begin + 1}"
            marker = found.marker
            if marker is None:
                if found.has_numbers:
                    wrong.append(f"{line}: a table of numbers without a marker: {found.lines[0]}")
                continue
            try:
                if names.count(marker.name) > 1:
                    raise MarkerError(f"the name {marker.name} is given twice on this page")
                _check_marker(marker)
                if marker.rows:
                    check_labels(marker, found.lines)
                check_cells(marker, found.lines)
                if marker.by_hand:
                    date = find_change(page, found.table + 1, found.end)
                    by_hand.append(f"{line}: {marker.name}: changed {date}: {marker.by_hand}")
                elif age := find_age(marker):
                    old.append(f"{line}: {marker.name}: {age}")
                else:
                    current += 1
            except MarkerError as error:
                wrong.append(f"{line}: {marker.name}: {error}")
    _print_list("Tables that are out of date", old)
    _print_list("Tables that no command makes", by_hand)
    _print_list("Wrong", wrong)
    sys.stdout.write(f"{current} tables of numbers are up to date. {describe_age()}\n")
    return 1 if wrong else 0


def find_age(marker: Marker) -> str:
    """Why a table is out of date; empty if it is not."""
    if not marker.date:
        return "made at an unknown time"
    if marker.code != hash_table(marker):
        return f"made {marker.date}; its command, scenario or script has changed"
    if moves := list_moves_since(marker):
        some = "; ".join(map(str, moves[:3]))
        return f"made {marker.date}; since then: {some}" + "; ..." * (len(moves) > 3)
    return ""


def _print_list(title: str, lines: Sequence[str]) -> None:
    if lines:
        sys.stdout.write(f"{title} ({len(lines)}):\n" + "".join(f"  {line}\n" for line in lines))


def _list_markers(page: Path) -> list[Marker]:
    """The markers of a page. Raises MarkerError."""
    try:
        found = list(find_tables(page.read_text()))
    except MarkerError as error:
        raise MarkerError(f"{page}: {error}") from None
    return [each.marker for each in found if each.marker is not None]


def _check_marker(marker: Marker) -> None:
    """Raise MarkerError unless commands, values and quantities of a marker exist."""
    for command in marker.commands:
        if not command.startswith("trunkline "):
            find_script(command)
        elif marker.by_hand:
            parse(command)
    if not marker.rows:
        return
    studies = [read_study(command) for command in marker.commands]
    known = [Result((*list_values(cell), run), {}) for cell, run in _number(studies)]
    check_selection(marker, known)
    columns = {"trials", *comparison.VERDICTS, *RUN.columns}
    for is_fluid, column in list_quantities(marker):
        for study in studies:
            if not is_fluid and not study.measures:
                raise MarkerError(f"show: {column}: this command measures nothing: fluid {column}?")
            allowed = study.fluid if is_fluid else columns
            if allowed is not None and column not in allowed:
                side = "fluid " if is_fluid else ""
                raise MarkerError(f"show: {side}{column}: expected {', '.join(sorted(allowed))}")


def _number(studies: Sequence[Study]) -> Iterator[tuple[grid.Cell, str]]:
    for number, study in enumerate(studies, 1):
        for cell in study.cells:
            yield cell, f"run {number}"


def _draw(marker: Marker, page: Path) -> list[str]:
    """Run the comparisons of a table, and draw it. Raises MarkerError."""
    results = []
    for number, command in enumerate(marker.commands, 1):
        study = read_study(command)
        run(command)
        # Here and now: the next command may leave its results in the same folder.
        found = read_results(study)
        results += [Result((*each.values, f"run {number}"), each.numbers) for each in found]
    tables = find_tables(page.read_text())
    old = next(each for each in tables if each.marker and each.marker.name == marker.name)
    return render(marker, results, old.lines)


def _print(marker: Marker) -> list[str]:
    """Run the script of a table, and return the table that it prints. Raises MarkerError."""
    printed = run(marker.commands[0])
    rows = [line for line in printed.split("\n") if line.startswith("|")]
    if len(rows) < 3:
        raise MarkerError(f"{marker.commands[0]}: it has printed no table")
    return rows


if __name__ == "__main__":
    sys.exit(main())
