"""A model as a sequence of bases with parallel branches (OWL, section 2.1) (pure, but for `load`).

A base consists of branches that do not depend on each other: chains of layers with one entry and
one exit. A base needs the outputs of all branches of the base before it. A linear base has one
branch. So the branches of a base may arrive, and be computed, in any order.
"""

from __future__ import annotations

import csv
import difflib
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from trunkline.workloads.base import ELEMENT_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLUMNS = ("base", "branch", "parameter_bytes", "forward_us", "backward_us")
"""The columns of a table; times are those of one sample."""

MAX_CHARACTERS = 1_000_000
"""The longest table: the resolved scenario of a run holds it."""

MAX_NAME = 100
MAX_BYTES = 16 * 2**30
MAX_TIME_US = 3.6e9
"""The largest values of a row: a name in characters, parameters in bytes, an hour."""

NUMBER = r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?"

DATA = resources.files(__package__) / "data"


class TableError(ValueError):
    """A table that is no model; the text says where and what is allowed."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A chain of layers: the bytes of its parameters, the times that it takes in seconds."""

    name: str
    parameter_bytes: int
    forward_s: float
    backward_s: float


@dataclass(frozen=True, slots=True)
class Base:
    """Branches that do not depend on each other; at least one."""

    name: str
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class LayeredModel:
    """The bases of a model, in the order of the forward computation.

    Branches are numbered from 0 through all bases.
    """

    bases: tuple[Base, ...]

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """All branches, by number."""
        return tuple(itertools.chain.from_iterable(base.branches for base in self.bases))

    @cached_property
    def base_of(self) -> tuple[int, ...]:
        """The index of the base of each branch."""
        return tuple(index for index, base in enumerate(self.bases) for _ in base.branches)

    @cached_property
    def numbers(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the branches of each base."""
        count = itertools.count()
        return tuple(tuple(next(count) for _ in base.branches) for base in self.bases)

    @property
    def parameter_bytes(self) -> int:
        """The size of the model in bytes."""
        return sum(branch.parameter_bytes for branch in self.branches)

    @property
    def forward_s(self) -> float:
        """The time of the forward computation in seconds."""
        return sum(branch.forward_s for branch in self.branches)

    @property
    def backward_s(self) -> float:
        """The time of the backward computation in seconds."""
        return sum(branch.backward_s for branch in self.branches)

    def scaled(self, factor: float) -> LayeredModel:
        """The same model with all times multiplied, such as by the samples of a batch."""
        return self._map(
            lambda branch: replace(
                branch, forward_s=factor * branch.forward_s, backward_s=factor * branch.backward_s
            )
        )

    def resized(self, factor: float) -> LayeredModel:
        """The same model with the bytes of all branches multiplied, in whole float32 numbers."""
        return self._map(
            lambda branch: replace(
                branch, parameter_bytes=4 * max(1, round(factor * branch.parameter_bytes / 4))
            )
        )

    def _map(self, change: Callable[[Branch], Branch]) -> LayeredModel:
        return LayeredModel(
            tuple(replace(base, branches=tuple(map(change, base.branches))) for base in self.bases)
        )


@runtime_checkable
class WorkloadInLayers(Protocol):
    """A workload that can compute branch after branch while parameters arrive.

    It is also a `Workload`. Its `compute` returns the time of all branches, forward and backward.
    """

    def layers(self, iteration: int, batch: int | None = None) -> LayeredModel:
        """The branches of one iteration with the times that they take at this site.

        Their bytes are those of the kind's `tensor_bytes`, in the same order.
        """


@runtime_checkable
class WorkloadWithHooks(WorkloadInLayers, Protocol):
    """A workload in layers that really computes them one by one, each when its turn comes.

    `compute` then only computes backward; it is called when all branches are computed.
    """

    def begin(self, iteration: int, batch: int | None) -> None:
        """Begin the forward computation of an iteration, and forget an earlier one."""

    def contribution(self) -> NDArray[np.float32]:
        """Return the model of this site."""

    def receive(self, place: slice, parameters: NDArray[np.float32]) -> None:
        """Take in parameters of the iteration that has begun, and their place in the model."""

    def compute_branch(self, branch: int) -> None:
        """Compute the forward pass of a branch, all of whose parameters are here."""


def find_names() -> tuple[str, ...]:
    """The names of the tables that come with Trunkline."""
    return tuple(sorted(file.name[:-4] for file in DATA.iterdir() if file.name.endswith(".csv")))


def load(table: str) -> LayeredModel:
    """Read a table: the name of one that comes with Trunkline, or a text of several lines.

    Times are those of one sample. Raises TableError.
    """
    if "\n" in table:
        return parse(table)
    names = find_names()
    if table not in names:
        near = difflib.get_close_matches(table, names, n=1)
        hint = "".join(f" (did you mean {name}?)" for name in near)
        raise TableError(f"one of {', '.join(names)}, or a file NAME.csv{hint}")
    return parse((DATA / f"{table}.csv").read_text())


def parse(text: str) -> LayeredModel:
    """Read a table with COLUMNS, a row for each branch. Raises TableError.

    Empty lines and lines that begin with `#` are skipped. Each row is one line. Rows of the same
    base stand together.
    """
    if len(text) > MAX_CHARACTERS:
        raise TableError(f"{len(text)} characters: expected {MAX_CHARACTERS} or fewer")
    rows = [
        (f"line {number}", _read_row(line, f"line {number}"))
        for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    first = rows[0] if rows else ("line 1", [])
    if tuple(first[1]) != COLUMNS:
        raise TableError(f"{first[0]}: expected a first row {','.join(COLUMNS)}")
    if len(rows) == 1:
        raise TableError("no rows of branches: expected at least one")
    read = [(*_read_branch(row, where), where) for where, row in rows[1:]]
    seen: set[tuple[str, str]] = set()
    last = read[0][0]
    for base, branch, where in read:
        if base != last and base in {earlier for earlier, _ in seen}:
            raise TableError(f"{where}: base {base}: expected one block of rows for each base")
        if (base, branch.name) in seen:
            raise TableError(f"{where}: base {base}: expected one branch {branch.name}")
        seen.add((base, branch.name))
        last = base
    return LayeredModel(
        tuple(
            Base(name, tuple(branch for _, branch, _ in group))
            for name, group in itertools.groupby(read, key=lambda each: each[0])
        )
    )


def _read_row(line: str, where: str) -> list[str]:
    """The cells of a line, without spaces around them."""
    try:
        (cells,) = csv.reader([line], strict=True)
    except csv.Error as error:
        raise TableError(f"{where}: {error}: expected a row in one line") from None
    return [cell.strip() for cell in cells]


def _read_branch(row: list[str], where: str) -> tuple[str, Branch]:
    """The name of the base, and the branch."""
    if len(row) != len(COLUMNS):
        raise TableError(f"{where}: {len(row)} values: expected {len(COLUMNS)}")
    base, name, size, *times = row
    for column, given in zip(COLUMNS, (base, name), strict=False):
        if not given.isprintable() or not 0 < len(given) <= MAX_NAME:
            allowed = f"expected a name of 1 to {MAX_NAME} printable characters"
            raise TableError(f"{where}: {column} {given[:MAX_NAME]!r}: {allowed}")
    is_whole = re.fullmatch("[0-9]{1,15}", size)
    if not is_whole or not 0 < int(size) <= MAX_BYTES or int(size) % ELEMENT_BYTES:
        allowed = f"a whole number from 4 to {MAX_BYTES}, a multiple of 4 (float32)"
        raise TableError(f"{where}: parameter_bytes {size:.20}: expected {allowed}")
    forward_us, backward_us = (
        _read_time(text, f"{where}: {column}")
        for column, text in zip(COLUMNS[3:], times, strict=True)
    )
    return base, Branch(name, int(size), 1e-6 * forward_us, 1e-6 * backward_us)


def _read_time(text: str, where: str) -> float:
    found = float(text) if re.fullmatch(NUMBER, text) else math.nan
    if not 0 <= found <= MAX_TIME_US:
        allowed = f"a number of microseconds from 0 to {MAX_TIME_US:.0f}"
        raise TableError(f"{where} {text:.20}: expected {allowed}")
    return found
