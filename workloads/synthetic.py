"""Tensors of small integers whose weighted sums can be recomputed exactly.

Every element is a whole number from 1 to 255. So float32 adds contributions, times whole weights,
without rounding and in any order, as long as the sum stays below 2**24.

A contribution is a fixed random pattern of prime period, shifted by an amount that is unique among
nearby ranks and iterations. So no two chunks of a contribution are alike, and no two contributions
to a task. A chunk that is missing, doubled, swapped or from another iteration changes the result.

`expected` computes the result of any task without the workers. With weights that are not small
whole numbers, it repeats the float32 operations of the executors in the same order.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from trunkline.workloads import compute_time, tensors
from trunkline.workloads.base import ELEMENT_BYTES, Order, Term, Vector, allocate
from trunkline.workloads.compute_time import Compute, ComputeTime, Delay, Slowdown
from trunkline.workloads.option_rules import OptionError, Rule, Sites, find_broken, reject, whole
from trunkline.workloads.tensors import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

EVALUATES = False
GIVES_CHANGES = True
compute_times = compute_time.of_options

PERIOD = 1_048_573
"""The largest prime below 2**20. The pattern takes 4 MB and stays in the processor's cache. A prime
shares no factor with the size of a chunk, so the pattern starts differently in every chunk."""

LARGEST = 255
LARGEST_TOTAL_WEIGHT = 2**24 // LARGEST
RANKS = 1021
"""Shifts are unique among this many ranks, and repeat after 1027 iterations."""

_BLOCK = 1 << 14
"""Elements of the pattern that are computed at a time, so that few new pages are touched."""

STRIDE = 324_071
"""The shift between contributions of neighbouring ranks: 0.309 periods, so that the contributions
of a few ranks start far apart."""

MODEL_LIMIT_BYTES = 16 * 2**30

RULES: Mapping[str, Rule] = {"batch": whole(1, 1_000_000)}


class Synthetic:
    """One site's tensor: zeros, until `commit` fills it with the contribution of an iteration.

    `compute` only remembers the iteration. The change of an iteration is its contribution itself:
    whole numbers, as the model.
    """

    def __init__(self, rank: int, seed: int, elements: int, times: ComputeTime) -> None:
        self._rank = rank
        self._seed = seed
        self._times = times
        self._model: Vector = allocate(elements)
        self._change: Vector | None = None
        self._iteration: int | None = None
        self._has_change = False

    def compute(self, iteration: int, batch: int | None = None) -> float:
        """Choose the contribution of this iteration; `batch` only scales the time."""
        self._iteration, self._has_change = iteration, False
        return self._times.time_s(iteration, batch)

    def commit(self) -> None:
        """Replace the tensor by the contribution, also after `install`."""
        self._fill(self._model)

    def change(self) -> Vector:
        """Return the contribution, in memory that is allocated at the first call."""
        if self._change is None:
            self._change = allocate(self._model.size)
        if not self._has_change:
            self._fill(self._change)
            self._has_change = True
        return self._change

    def contribution(self) -> Vector:
        """Return the tensor itself."""
        return self._model

    def install(self, result: Vector) -> None:
        """Overwrite the tensor by the result."""
        np.copyto(self._model, result)

    def evaluate(self) -> None:
        """Return None: a tensor has no accuracy."""

    def _fill(self, out: Vector) -> None:
        if self._iteration is None:
            raise RuntimeError("nothing is computed yet")
        _fill(out, self._seed, self._rank, self._iteration)


def build(
    rank: int,
    sites: Sites,
    seed: int,
    *,
    model_bytes: int | Model = 50_000_000,
    compute_s: Compute = 0.1,
    compute_factor: float = 1.0,
    slowdown: Slowdown | None = None,
    batch: int = 32,
    delay_s: Delay = 0.0,
) -> Synthetic:
    """Return the workload of the site `rank`. Raises OptionError.

    Options:
        model_bytes: the size of one tensor, or the name of a model with several tensors.
        compute_s: the time of an iteration: one time, [low, high] (uniform), t1, t2, {lognormal:
            {mean: 0.1 s, deviation: 0.05 s, low: 0 s, high: 1 s}}, measured times ({csv: FILE} or
            {measured: [0.11 s, 0.12 s]}), or one of these for each site, and for `others`.
        compute_factor: multiplies the times of all sites.
        slowdown: multiplies the times of some sites: site -> factor.
        batch: samples in an iteration. An iteration with n times as many takes n times as long.
        delay_s: a time that a site waits after computing, before its update is there; in the forms
            of `compute`, or site -> time. No factor and no batch changes it.
    """
    reject(
        problems(
            sites,
            model_bytes=model_bytes,
            compute_s=compute_s,
            compute_factor=compute_factor,
            slowdown=slowdown,
            batch=batch,
            delay_s=delay_s,
        )
    )
    times = compute_time.for_site(
        rank, sites, seed, compute_s, compute_factor, slowdown, batch, delay_s
    )
    return Synthetic(rank, seed, _size_bytes(model_bytes) // ELEMENT_BYTES, times)


def model_bytes(*, model_bytes: int | Model = 50_000_000, **_: Any) -> int:
    """Return the bytes of one contribution."""
    return _size_bytes(model_bytes)


def tensor_bytes(*, model_bytes: int | Model = 50_000_000, **_: Any) -> tuple[int, ...]:
    """Return the bytes of each tensor of a named model; empty for a size."""
    if isinstance(model_bytes, int):
        return ()
    return tuple(ELEMENT_BYTES * size for size in tensors.sizes(model_bytes))


def problems(sites: Sites, **options: Any) -> list[OptionError]:
    """Return everything that is wrong with the given options; absent ones have their defaults."""
    found = find_broken(RULES, options) + compute_time.problems(sites, options)
    size = options.get("model_bytes", ELEMENT_BYTES)
    if size in get_args(Model):
        return found
    if type(size) is not int or size % ELEMENT_BYTES or not 0 < size <= MODEL_LIMIT_BYTES:
        found.append(OptionError("model", size, "whole float32 numbers (4 B each), up to 16 GiB"))
    return found


def preload(**_: Any) -> None:
    """Compute the pattern, so that forked workers share it."""
    _pattern()


def contribution(seed: int, rank: int, iteration: int, elements: int) -> Vector:
    """Return the contribution of the site `rank` in `iteration`: whole numbers, 1 .. 255."""
    model = np.empty(elements, dtype=np.float32)
    _fill(model, seed, rank, iteration)
    return model


def expected(
    seed: int, parts: Iterable[tuple[Iterable[tuple[int, int]], Order]], scale: float, elements: int
) -> Vector:
    """Return `scale` times the weighted sum of contributions, in float32.

    Each product of weight and contribution, each addition, and finally the scaling is rounded to
    float32, as in the executors. With whole weights (`is_exact`) only the scaling rounds, so every
    order gives the same result.

    Args:
        seed: the scenario's seed.
        parts: half-open ranges of elements and the order of their sum; together all elements.
        scale: the factor of the sum.
        elements: the size of the result.
    """
    spans: dict[Order, list[tuple[int, int]]] = {}
    for ranges, order in parts:
        spans.setdefault(order, []).extend(ranges)
    result = np.empty(elements, dtype=np.float32)
    for order, ranges in spans.items():
        total = _add_terms(seed, order, min(elements, PERIOD))
        total *= np.float32(scale)
        for start, stop in ranges:
            _repeat(total, result[start:stop], start)
    return result


def is_exact(weights: Iterable[float]) -> bool:
    """Whether sums with these weights are exact in any order: whole, at most 65793 in total."""
    every = list(weights)
    return all(float(each).is_integer() for each in every) and (
        sum(map(abs, every)) <= LARGEST_TOTAL_WEIGHT
    )


def _size_bytes(model: int | Model) -> int:
    return model if isinstance(model, int) else ELEMENT_BYTES * sum(tensors.sizes(model))


def _add_terms(seed: int, order: Order, elements: int) -> Vector:
    """Return the first elements of a sum; the sum repeats after PERIOD elements."""
    total: Vector | None = None
    for each in order:
        if isinstance(each, Term):
            term = np.empty(elements, dtype=np.float32)
            _fill(term, seed, each.rank, each.iteration)
            term *= np.float32(each.weight)
        else:
            term = _add_terms(seed, each, elements)
        total = term if total is None else np.add(total, term, out=total)
    assert total is not None
    return total


def _fill(out: Vector, seed: int, rank: int, iteration: int) -> None:
    """Write a contribution: the pattern, repeated, from a start that depends on its arguments."""
    word = hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
    place = int.from_bytes(word, "big") + rank + RANKS * iteration
    pattern, start, done = _pattern(), place * STRIDE % PERIOD, 0
    while done < out.size:
        piece = pattern[start : start + out.size - done]
        out[done : done + piece.size] = piece
        start, done = 0, done + piece.size


def _repeat(period: Vector, out: Vector, first: int) -> None:
    """Fill `out` with the endless repetition of `period`, from its element `first` on."""
    done = 0
    while done < out.size:
        place = (first + done) % period.size
        piece = period[place : place + out.size - done]
        out[done : done + piece.size] = piece
        done += piece.size


@functools.lru_cache(maxsize=1)
def _pattern() -> Vector:
    """Return PERIOD scattered values: SplitMix64's finalizer (Steele et al. 2014) of the index."""
    pattern = allocate(PERIOD)
    for start in range(0, PERIOD, _BLOCK):
        stop = min(start + _BLOCK, PERIOD)
        word: NDArray[np.uint64] = np.arange(start + 1, stop + 1, dtype=np.uint64)
        word *= np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        word ^= word >> np.uint64(31)
        pattern[start:stop] = 1 + word % np.uint64(LARGEST)
    pattern.setflags(write=False)
    return pattern
