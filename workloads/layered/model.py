"""A model as a sequence of bases with parallel branches (OWL, section 2.1) (pure, but for `load`).

A base consists of branches that do not depend on each other: chains of layers with one entry and
one exit. A base needs the outputs of all branches of the base before it. A linear base has one
branch. So the branches of a base may arrive, and be computed, in any order.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("base", "branch", "parameter_bytes", "forward_us", "backward_us")
"""The columns of a table; times are those of one sample."""

DATA = resources.files(__package__) / "data"


class TableError(ValueError):
    """A table that is no model; the text names the line and says what is allowed."""


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
                branch,
                forward_s=factor * branch.forward_s,
                backward_s=factor * branch.backward_s,
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


def load(name: str) -> LayeredModel:
    """Read a table that comes with Trunkline; times are those of one sample. Raises TableError."""
    if name not in find_names():
        raise TableError(f"model {name}: expected one of {', '.join(find_names())}")
    return parse((DATA / f"{name}.csv").read_text(), name)


def parse(text: str, where: str) -> LayeredModel:
    """Read a table with COLUMNS, a row for each branch; `where` is its name. Raises TableError.

    Lines that begin with `#` are skipped. Rows of the same base stand together.
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    rows = list(csv.reader(line for _, line in lines))
    if not rows or tuple(rows[0]) != COLUMNS:
        raise TableError(f"{where}: expected a first row {','.join(COLUMNS)}")
    if len(rows) == 1:
        raise TableError(f"{where}: expected at least one branch")
    read = [
        (row[0], _read_branch(row, f"{where}:{number}"))
        for (number, _), row in zip(lines[1:], rows[1:], strict=True)
    ]
    bases = tuple(
        Base(name, tuple(branch for _, branch in group))
        for name, group in itertools.groupby(read, key=lambda pair: pair[0])
    )
    for name in _find_repeated(base.name for base in bases):
        raise TableError(f"{where}: base {name}: expected one block of rows for each base")
    for base in bases:
        for name in _find_repeated(branch.name for branch in base.branches):
            raise TableError(f"{where}: base {base.name}: expected one branch {name}")
    return LayeredModel(bases)


def _find_repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _read_branch(row: list[str], where: str) -> Branch:
    if len(row) != len(COLUMNS):
        raise TableError(f"{where}: {len(row)} values: expected {len(COLUMNS)}")
    _, name, size, *times = row
    if not size.isdecimal() or not int(size):
        raise TableError(f"{where}: parameter_bytes {size}: expected a whole number above 0")
    forward_us, backward_us = (_read_time(text, where) for text in times)
    return Branch(name, int(size), 1e-6 * forward_us, 1e-6 * backward_us)


def _read_time(text: str, where: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise TableError(f"{where}: time {text}: expected a number of microseconds, 0 or more")
    return found
