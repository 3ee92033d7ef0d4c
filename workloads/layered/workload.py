"""The branches of a real network, with the tensors of `synthetic` (OWL, section 2.1).

A site computes base after base, forward and then backward. It can begin a forward computation while
its parameters arrive. Sizes and times come from a table (`model.py`); values are the whole numbers
of `synthetic`, so every result can be computed again.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trunkline.workloads import compute_time
from trunkline.workloads.base import ELEMENT_BYTES, Vector
from trunkline.workloads.compute_time import ComputeTime, Slowdown
from trunkline.workloads.layered.model import LayeredModel, TableError, load
from trunkline.workloads.option_rules import (
    OptionError,
    Rule,
    Sites,
    find_broken,
    positive,
    reject,
    whole,
)
from trunkline.workloads.synthetic import MODEL_LIMIT_BYTES, Synthetic, expected, is_exact, preload

__all__ = ["expected", "is_exact", "preload"]

EVALUATES = False
GIVES_CHANGES = True

Table = Literal["densenet-121", "dfn", "inception-v4", "vgg-19"] | str
"""One of the tables of `data/`, or the text of a table."""

FILE_OPTIONS: Mapping[str, str] = {"table": ".csv"}
"""The option that may name a file with this ending: its value is then the text of the file."""

FACTOR = positive(1e6)

RULES: Mapping[str, Rule] = {
    "size_factor": positive(100),
    "batch": whole(1, 1_000_000),
    "compute_factor": Rule(lambda value: _is_factor(value), f"{FACTOR.allowed}, or [low, high]"),
}


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """The branches of one site's iterations.

    `model` has the times of one sample, `factors` the factor of each iteration.
    """

    model: LayeredModel
    factors: ComputeTime
    batch: int

    def layers(self, iteration: int, batch: int | None = None) -> LayeredModel:
        """The branches of an iteration; `batch` is the number of samples, by default the own."""
        return self.model.scaled((batch or self.batch) * self.factors.time_s(iteration))

    def time_s(self, iteration: int, batch: int | None = None) -> float:
        """The time of an iteration in seconds, forward and backward."""
        layers = self.layers(iteration, batch)
        return layers.forward_s + layers.backward_s


class Layered:
    """One site's model: a `Synthetic` whose iterations consist of branches."""

    def __init__(self, tensor: Synthetic, times: LayerTimes) -> None:
        self._tensor = tensor
        self._times = times

    def layers(self, iteration: int, batch: int | None = None) -> LayeredModel:
        """The branches of an iteration at this site."""
        return self._times.layers(iteration, batch)

    def compute(self, iteration: int, batch: int | None = None) -> float:
        """Choose the contribution of this iteration; returns the time of all branches."""
        self._tensor.compute(iteration)
        return self._times.time_s(iteration, batch)

    def commit(self) -> None:
        """Replace the model by the contribution."""
        self._tensor.commit()

    def change(self) -> Vector:
        """Return the contribution, as `synthetic` does."""
        return self._tensor.change()

    def contribution(self) -> Vector:
        """Return the model itself."""
        return self._tensor.contribution()

    def install(self, result: Vector) -> None:
        """Overwrite the model by the result."""
        self._tensor.install(result)

    def evaluate(self) -> None:
        """Return None: a tensor has no accuracy."""


def build(
    rank: int,
    sites: Sites,
    seed: int,
    *,
    table: Table = "inception-v4",
    size_factor: float = 1.0,
    batch: int = 32,
    compute_factor: float | tuple[float, float] = 1.0,
    slowdown: Slowdown | None = None,
) -> Layered:
    """Return the workload of the site `rank`. Raises OptionError.

    Options:
        table: the network: bytes and times of its branches. It is one of the names, or a CSV file
            of your own, NAME.csv, relative to the scenario (docs/overlap.md has its columns).
        size_factor: multiplies the bytes of all branches. With rates multiplied by the same factor,
            times stay alike.
        batch: samples in an iteration. An iteration with n times as many takes n times as long.
        compute_factor: multiplies all times: a number, or [low, high] for a uniform one that each
            site draws for each iteration.
        slowdown: multiplies the times of some sites: site -> factor.
    """
    given: dict[str, Any] = {
        "table": table,
        "size_factor": size_factor,
        "batch": batch,
        "compute_factor": compute_factor,
        "slowdown": slowdown,
    }
    reject(problems(sites, **given))
    elements = model_bytes(**given) // ELEMENT_BYTES
    times = compute_times(rank, sites, seed, **given)
    return Layered(Synthetic(rank, seed, elements, times.factors), times)


def layers(
    *, table: Table = "inception-v4", size_factor: float = 1.0, batch: int = 32, **_: Any
) -> LayeredModel:
    """Return the branches of an iteration of a site that nothing slows down."""
    return _load(table, size_factor).scaled(batch)


def compute_times(
    rank: int,
    sites: Sites,
    seed: int,
    *,
    table: Table = "inception-v4",
    size_factor: float = 1.0,
    batch: int = 32,
    compute_factor: Any = 1.0,
    slowdown: Slowdown | None = None,
    **_: Any,
) -> LayerTimes:
    """Return the branches of all iterations of the site `rank`. Raises OptionError."""
    factors = compute_time.for_site(rank, sites, seed, compute_factor, 1.0, slowdown)
    return LayerTimes(_load(table, size_factor), factors, batch)


def model_bytes(*, table: Table = "inception-v4", size_factor: float = 1.0, **_: Any) -> int:
    """Return the bytes of one contribution."""
    return _load(table, size_factor).parameter_bytes


def tensor_bytes(
    *, table: Table = "inception-v4", size_factor: float = 1.0, **_: Any
) -> tuple[int, ...]:
    """Return the bytes of each branch."""
    return tuple(branch.parameter_bytes for branch in _load(table, size_factor).branches)


def problems(sites: Sites, **options: Any) -> list[OptionError]:
    """Return everything that is wrong with the given options; absent ones have their defaults."""
    found = find_broken(RULES, options)
    try:
        compute_time.slowdown_factor(options.get("slowdown"), 0, sites)
    except OptionError as error:
        found.append(error)
    return found + _find_table_problems(**options)


def _find_table_problems(
    *, table: Table = "inception-v4", size_factor: float = 1.0, **_: Any
) -> list[OptionError]:
    factor = size_factor if RULES["size_factor"].holds(size_factor) else 1.0
    try:
        size = _load(table, factor).parameter_bytes
    except TableError as error:
        text = f"a table of branches: {error}" if "\n" in table else str(error)
        return [OptionError("table", table, text)]
    if size > MODEL_LIMIT_BYTES:
        return [OptionError("table", table, f"a model of up to 16 GiB; it has {size} bytes")]
    return []


def _is_factor(value: Any) -> bool:
    """Whether a value is a factor of times above 0, or a range of such factors."""
    ends = value if isinstance(value, list | tuple) else (value, value)
    return len(ends) == 2 and all(map(FACTOR.holds, ends)) and ends[0] <= ends[1]


@functools.cache
def _load(table: Table, size_factor: float) -> LayeredModel:
    return load(table).resized(size_factor)
