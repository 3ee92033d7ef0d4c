"""The commands of tables of numbers: the runs that they make, and their results."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import io
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd
from marked_tables import MarkerError, Result

from trunkline.harness.commands import main as command_line
from trunkline.harness.runs import provenance
from trunkline.harness.study import comparison, fluid_counts, grid, papers

ROOT = Path(__file__).resolve().parents[1]

MEASURED = (*provenance.SESSION, "trunkline.harness.session.agent_main")
FLUID = ("trunkline.harness.study.fluid_run",)
"""The modules that measured results, and those of the fluid model, depend on."""


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


@functools.cache
def read_study(command: str) -> Study:
    """Read a command `trunkline reproduce` or `compare`. Raises MarkerError."""
    words, arguments = tuple(shlex.split(command)), parse(command)
    try:
        if words[1:2] == ("compare",):
            return _read_comparison(words, arguments)
        if words[1:2] == ("reproduce",):
            return _read_reproduction(words, arguments)
    except grid.GridError as error:
        raise MarkerError(f"{command}: {error}") from None
    raise MarkerError(f"{command}: expected trunkline reproduce or compare, or a script")


def parse(command: str) -> argparse.Namespace:
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
        frozenset(field.name for field in fields(fluid_counts.Expectation)),
        not arguments.fluid,
        FLUID if arguments.fluid else (*FLUID, *MEASURED),
        ROOT / "scenarios" / figure.scenario,
    )


def _merge_axes(ours: Iterable[str], theirs: Iterable[str]) -> tuple[grid.Axis, ...]:
    axes = {axis.key: axis for axis in grid.read_axes(tuple(ours))}
    return tuple((axes | {axis.key: axis for axis in grid.read_axes(tuple(theirs))}).values())


def find_script(command: str) -> Path:
    """The script of a command `python FILE ...`. Raises MarkerError."""
    words = [word for word in shlex.split(command) if word != "sudo"]
    file = ROOT / (words[1] if len(words) > 1 else "")
    if words[:1] != ["python"] or not file.is_file():
        raise MarkerError(f"{command}: expected trunkline ... or python FILE ..., of a file here")
    return file


def run(command: str) -> str:
    """Run a command in the checkout and return its output. Raises MarkerError if it fails.

    The command ends when this process does.
    """
    sys.stdout.write(f"$ {command}\n")
    sys.stdout.flush()
    words = shlex.split(command)
    program = [sys.executable, "-m", command_line.__name__]
    if words[0] != "trunkline":
        at = words.index("python")
        program, words = [*words[:at], sys.executable], words[at:]
    words = ["setpriv", "--pdeathsig", "TERM", *program, *words[1:]]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise MarkerError(f"{command}: exit code {done.returncode}; the page stays as it is")
    return done.stdout


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
        found.append(Result(list_values(cell), numbers))
    return found


def _read_table(file: Path, keys: Sequence[str]) -> pd.DataFrame:
    """A table whose keys are texts (`null` is one), and all else but its facts numbers."""
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    for column in table.columns.difference([*keys, *comparison.FACTS]):
        table[column] = pd.to_numeric(table[column], errors="coerce")
    return table


def list_values(cell: grid.Cell) -> tuple[str, ...]:
    """The values of a cell's keys, as `--vary` has them."""
    return tuple(value for _, value in cell.values)


def find_commit() -> str:
    """The commit of the checkout; with `+` if anything but pages has changed since."""
    changed = _ask_git("status", "--porcelain", "--", ".", ":!*.md")
    return _ask_git("rev-parse", "--short", "HEAD") + "+" * bool(changed)


def find_change(page: Path, first: int, last: int) -> str:
    """The day on which one of these lines of a page changed last, or "at an unknown time"."""
    try:
        lines = _ask_git("blame", "--line-porcelain", f"-L{first},{last}", "--", str(page))
    except subprocess.CalledProcessError:
        return "at an unknown time"
    times = [line.split()[1] for line in lines.splitlines() if line.startswith("author-time ")]
    latest = datetime.datetime.fromtimestamp(max(map(int, times)), datetime.UTC)
    return f"{latest:%Y-%m-%d}"


def count_commits_since(commit: str, *folders: str) -> int | None:
    """How many commits have changed files of these folders since; None for an unknown commit."""
    try:
        return int(_ask_git("rev-list", "--count", f"{commit.rstrip('+')}..HEAD", "--", *folders))
    except subprocess.CalledProcessError:
        return None


def _ask_git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
