"""Make the tables of numbers on the pages by their commands, and tell which are out of date.

    python docs/figures.py docs/reproduce/r2sp.md                 every table that is out of date
    python docs/figures.py docs/reproduce/r2sp.md --table group-size
    python docs/figures.py --check

`marked_tables.py` says how a page names the command of a table. It is carried out in this checkout,
so an interrupted comparison continues. `--check` fails if a marker is wrong, names a command or a
value that does not exist, or if a table of numbers has no marker. It only lists the tables whose
code has changed since they were made.

The code of a table is a hash over

- its commands, the values that the figure varies, the schemes, and the scenario without comments;
- what the results depend on: the modules that the fluid model, the run or the script imports, and
  of the plans, policies, topologies and workloads those that the command or the scenario names.

Docstrings, comments and layout are left out. So new wording does not make a table out of date.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime
import functools
import hashlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd
from marked_tables import (
    Found,
    Marker,
    MarkerError,
    Result,
    check_selection,
    find_tables,
    list_quantities,
    render,
    replace_table,
)

from trunkline.harness.commands import main as command_line
from trunkline.harness.config import document
from trunkline.harness.report.columns import RUN
from trunkline.harness.runs import provenance
from trunkline.harness.scenario.reader import SCHEMES
from trunkline.harness.study import comparison, fluid_run, grid, papers

ROOT = Path(__file__).resolve().parents[1]
BY_NAME = ("agents/plans", "agents/policies", "topologies", "workloads")
"""Folders of which a table depends only on the files that its command or scenario names."""

WORD = r"[\w.-]+"

MEASURED = (*provenance.SESSION, "trunkline.harness.session.agent_main")
FLUID = ("trunkline.harness.study.fluid_run",)


@dataclass(frozen=True, slots=True)
class Study:
    """One command that makes a comparison, as far as it is known before it runs.

    Attributes:
        words: the command's words.
        folder: where its results will be.
        cells: all cells of its grid.
        fluid: the columns that the fluid model predicts; None if they are not known in advance.
        measures: whether it runs the scenario.
        entries: the modules that its results depend on.
        scenario: its scenario's file; None for a figure with a model of its own.
    """

    words: tuple[str, ...]
    folder: Path
    cells: tuple[grid.Cell, ...]
    fluid: frozenset[str] | None
    measures: bool
    entries: tuple[str, ...]
    scenario: Path | None


def main() -> int:
    """Make the tables of pages, or check all pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    parser.add_argument("--table", metavar="NAME", help="only this table, up to date or not")
    parser.add_argument("--check", action="store_true", help="list tables that are out of date")
    arguments = parser.parse_args()
    try:
        if arguments.check:
            pages = arguments.pages or sorted((ROOT / "docs").rglob("*.md"))
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
    markers = [marker for marker, _ in _list_marked(page)]
    if name is not None and name not in [marker.name for marker in markers]:
        names = ", ".join(marker.name for marker in markers) or "none on this page"
        raise MarkerError(f"{page}: table {name}: expected one of {names}")
    run = functools.cache(_run)
    for marker in markers:
        wanted = name in (None, marker.name) and not marker.by_hand
        if not wanted or (name is None and marker.code == hash_table(marker)):
            continue
        for command in marker.commands:
            sys.stdout.write(f"{marker.name}: {command}\n")
        sys.stdout.flush()
        # The page is read again, because the commands may have taken hours.
        outputs = [run(command) for command in marker.commands]
        text = page.read_text()
        try:
            rows = _render(marker, outputs, text)
        except MarkerError as error:
            raise MarkerError(f"{page}: {error}") from None
        today = datetime.date.today().isoformat()
        made = f"{today} at {_find_commit(marker)}, code {hash_table(marker)}"
        page.write_text(replace_table(text, marker.name, rows, made))


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
                if marker.by_hand:
                    by_hand.append(f"{line}: {marker.name}: {marker.by_hand}")
                elif marker.code != hash_table(marker):
                    old.append(f"{line}: {marker.name}: made {marker.made or 'at an unknown time'}")
                else:
                    current += 1
            except MarkerError as error:
                wrong.append(f"{line}: {marker.name}: {error}")
    _print_list("Tables whose code has changed since they were made", old)
    _print_list("Tables that no command makes", by_hand)
    _print_list("Wrong", wrong)
    sys.stdout.write(f"{current} tables of numbers are up to date.\n")
    return 1 if wrong else 0


def _print_list(title: str, lines: Sequence[str]) -> None:
    if lines:
        sys.stdout.write(f"{title} ({len(lines)}):\n" + "".join(f"  {line}\n" for line in lines))


def _list_marked(page: Path) -> list[tuple[Marker, Found]]:
    try:
        found = list(find_tables(page.read_text()))
    except MarkerError as error:
        raise MarkerError(f"{page}: {error}") from None
    return [(each.marker, each) for each in found if each.marker is not None]


def _check_marker(marker: Marker) -> None:
    """Raise MarkerError unless commands, values and quantities of a marker exist."""
    for command in marker.commands:
        if not command.startswith("trunkline "):
            _find_script(command)
        elif marker.by_hand:
            _parse(command)
    if not marker.rows:
        return
    studies = [read_study(command) for command in marker.commands]
    known = [Result((*_list_values(cell), run), {}) for cell, run in _number(studies)]
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


def _list_values(cell: grid.Cell) -> tuple[str, ...]:
    return tuple(value for _, value in cell.values)


@functools.cache
def read_study(command: str) -> Study:
    """Read a command `trunkline reproduce` or `compare`. Raises MarkerError."""
    words, arguments = tuple(shlex.split(command)), _parse(command)
    try:
        if words[1:2] == ("compare",):
            return _read_comparison(words, arguments)
        if words[1:2] == ("reproduce",):
            return _read_reproduction(words, arguments)
    except grid.GridError as error:
        raise MarkerError(f"{command}: {error}") from None
    raise MarkerError(f"{command}: expected trunkline reproduce or compare, or a script")


def _parse(command: str) -> argparse.Namespace:
    """The arguments of a command `trunkline ...`. Raises MarkerError."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return command_line.make_parser().parse_args(shlex.split(command)[1:])
    except SystemExit:
        raise MarkerError(f"{command}: {' '.join(errors.getvalue().split())}") from None


def _read_comparison(words: tuple[str, ...], arguments: argparse.Namespace) -> Study:
    scenario = ROOT / arguments.file
    if not scenario.is_file():
        raise MarkerError(f"{shlex.join(words)}: {arguments.file} does not exist")
    cells = grid.combine(grid.read_axes(arguments.vary))
    folder = ROOT / (arguments.out or Path("comparisons") / scenario.stem)
    return Study(words, folder, cells, frozenset(), True, MEASURED, scenario)


def _read_reproduction(words: tuple[str, ...], arguments: argparse.Namespace) -> Study:
    known = papers.find_figures()
    if arguments.figure not in known:
        raise MarkerError(f"{shlex.join(words)}: expected one of {', '.join(known)}")
    figure = known[arguments.figure]
    folder = ROOT / (arguments.out or Path("reproductions") / arguments.figure)
    if isinstance(figure, papers.ModelFigure) and arguments.fluid:
        entries: tuple[str, ...] = (figure.predict.__module__,)
        axes = _merge_axes(figure.vary, arguments.vary)
        return Study(words, folder, grid.combine(axes), None, False, entries, None)
    if isinstance(figure, papers.ModelFigure):
        figure = figure.measured
    return Study(
        words,
        folder,
        grid.combine(_merge_axes(figure.vary, arguments.vary)),
        frozenset(field.name for field in fields(fluid_run.Expectation)),
        not arguments.fluid,
        FLUID if arguments.fluid else (*FLUID, *MEASURED),
        ROOT / "scenarios" / figure.scenario,
    )


def _merge_axes(ours: Iterable[str], theirs: Iterable[str]) -> tuple[grid.Axis, ...]:
    axes = {axis.key: axis for axis in grid.read_axes(tuple(ours))}
    return tuple((axes | {axis.key: axis for axis in grid.read_axes(tuple(theirs))}).values())


def _find_script(command: str) -> Path:
    """The script of a command `python FILE ...`. Raises MarkerError."""
    words = [word for word in shlex.split(command) if word != "sudo"]
    file = ROOT / (words[1] if len(words) > 1 else "")
    if words[:1] != ["python"] or not file.is_file():
        raise MarkerError(f"{command}: expected trunkline ... or python FILE ..., of a file here")
    return file


def _run(command: str) -> str:
    """Run a command in the checkout and return what it prints. Raises MarkerError if it fails."""
    words = shlex.split(command)
    program = [sys.executable, "-m", command_line.__name__]
    if words[0] != "trunkline":
        program = [*words[: words.index("python")], sys.executable]
        words = words[words.index("python") :]
    done = subprocess.run([*program, *words[1:]], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise MarkerError(f"{command}: exit code {done.returncode}; the page stays as it is")
    return done.stdout


def _render(marker: Marker, outputs: Sequence[str], text: str) -> list[str]:
    """The table of a marker from what its commands have left. Raises MarkerError."""
    if not marker.rows:
        rows = [line for line in outputs[0].split("\n") if line.startswith("|")]
        if len(rows) < 3:
            raise MarkerError(f"{marker.commands[0]}: it has printed no table")
        return rows
    old = next(f for f in find_tables(text) if f.marker and f.marker.name == marker.name)
    studies = [read_study(command) for command in marker.commands]
    results = [
        Result((*result.values, f"run {number}"), result.numbers)
        for number, study in enumerate(studies, 1)
        for result in read_results(study)
    ]
    return render(marker, results, old.lines)


def read_results(study: Study) -> list[Result]:
    """The cells that a command has left in its folder, measured and of the fluid model."""
    keys = tuple(key for key, _ in study.cells[0].values)
    sides = {}
    if study.measures:
        sides[""] = _read_table(study.folder / "tables" / "cells.csv", keys)
    if study.fluid != frozenset():
        trials = _read_table(study.folder / "tables" / "fluid.csv", keys)
        sides["fluid "] = comparison.summarize(trials, keys)
    found = []
    for cell in study.cells:
        numbers = {}
        for side, table in sides.items():
            here = table
            for key, value in cell.values:
                here = here[here[key] == value]
            for column in here.columns.difference([*keys]):
                numbers[f"{side}{column}"] = float(here[column].iloc[0])
        found.append(Result(_list_values(cell), numbers))
    return found


def _read_table(file: Path, keys: Sequence[str]) -> pd.DataFrame:
    """A table whose keys are texts (`null` is one), and all else but its facts numbers."""
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    for column in table.columns.difference([*keys, *comparison.FACTS]):
        table[column] = pd.to_numeric(table[column], errors="coerce")
    return table


def hash_table(marker: Marker) -> str:
    """Eight digits of a hash over the commands of a table and the code that they depend on."""
    parts = []
    for command in marker.commands:
        files, facts = find_dependencies(command)
        parts += [command, *facts, *(read_code(file) for file in files)]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:8]


@functools.cache
def find_dependencies(command: str) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The files of code that a command depends on, and texts that describe its scenario."""
    if not command.startswith("trunkline "):
        return _find_script_dependencies(command), ()
    study = read_study(command)
    facts = [str(cell) for cell in study.cells]
    if study.scenario is not None:
        data = document.read(study.scenario.read_text(), str(study.scenario)).data
        facts.append(repr({key: value for key, value in data.items() if key != "description"}))
    words = set(re.findall(WORD, f"{command} {facts}"))
    facts += [repr(SCHEMES[word]) for word in sorted(words & set(SCHEMES))]
    return tuple(_find_code(study.entries, f"{command} {facts}")), tuple(facts)


def _find_script_dependencies(command: str) -> tuple[Path, ...]:
    script = _find_script(command)
    text = script.read_text()
    entries = [*provenance.list_imports(text)]
    if any(name.startswith("trunkline.harness.runs") for name in entries):
        entries += MEASURED
    beside = [script.parent / f"{name}.py" for name in entries]
    return (script, *(file for file in beside if file.is_file()), *_find_code(entries, text))


def _find_code(entries: Iterable[str], text: str) -> list[Path]:
    """The imported files, and of those that are found by name the ones that the text names."""
    words = set(re.findall(WORD, text))
    named = [
        f"trunkline.{folder.replace('/', '.')}.{file.stem}"
        for folder in BY_NAME
        for file in sorted((ROOT / folder).glob("*.py"))
        if file.stem in words
    ]
    return sorted(provenance.find_imports([*entries, *named]))


@functools.cache
def read_code(file: Path) -> str:
    """A program without docstrings, comments and layout."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _find_commit(marker: Marker) -> str:
    """The last commit that changed the code that a table depends on."""
    files = {file.resolve() for each in marker.commands for file in find_dependencies(each)[0]}
    command = ["git", "log", "-1", "--format=%h", "--", *sorted(map(str, files))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip() or "none"


if __name__ == "__main__":
    sys.exit(main())
