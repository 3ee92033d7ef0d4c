"""Tensors of small integers whose weighted sums can be recomputed exactly.

Every element is a whole number from 1 to 255, so float32 adds contributions (times whole weights)
without rounding, in any order, as long as the sum stays below 2**24. A contribution is a fixed
random pattern of prime period, shifted by an amount that no other (rank, iteration) near it has:
no two chunks of one contribution, and no two contributions to one task, are alike, so a chunk that
is missing, doubled, swapped or taken from another iteration changes the result. A checker knows
the result of any task in closed form (`expected`), without the workers.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads import compute_time
from workloads.base import ELEMENT_BYTES, Vector, populated
from workloads.compute_time import Compute, ComputeTime, Slowdown
from workloads.options import OptionError, Sites, reject

EVALUATES = False

PERIOD = 1_048_573
"""The largest prime below 2**20: 4 MB, which stay in the cache while a model is filled."""

LARGEST = 255
LARGEST_TOTAL_WEIGHT = 2**24 // LARGEST
RANKS = 1021
"""Shifts are unique among this many ranks and the 1027 iterations before the same ones recur."""

_BLOCK = 1 << 14
"""Numbers of the pattern that are made at a time, in memory that is used again and again."""

STRIDE = 324_071
MODEL_LIMIT_BYTES = 16 * 2**30


class Synthetic:
    """One site's tensor; `compute` fills in the contribution of that iteration."""

    def __init__(self, rank: int, seed: int, elements: int, times: ComputeTime) -> None:
        self._rank = rank
        self._seed = seed
        self._times = times
        self._model: Vector = populated(elements)

    def compute(self, iteration: int) -> float:
        """Replace the tensor by the contribution of this iteration."""
        _fill(self._model, self._seed, self._rank, iteration)
        return self._times.time_s(iteration)

    def contribution(self) -> Vector:
        """Return the tensor itself."""
        return self._model

    def install(self, result: Vector) -> None:
        """Overwrite the tensor by the result."""
        np.copyto(self._model, result)

    def evaluate(self) -> None:
        """Return None: a tensor has no accuracy."""


def build(
    rank: int,
    sites: Sites,
    seed: int,
    *,
    model_bytes: int = 50_000_000,
    compute_s: Compute = 0.1,
    compute_factor: float = 1.0,
    slowdown: Slowdown | None = None,
) -> Synthetic:
    """Return the workload of the site `rank`.

    `model_bytes` is the size of the tensor; `compute_s` one iteration's time: seconds, a range,
    `t1`, `t2` or a lognormal; `compute_factor` multiplies it everywhere, `slowdown` at the sites
    it names. Raises OptionError.
    """
    reject(
        problems(
            sites,
            model_bytes=model_bytes,
            compute_s=compute_s,
            compute_factor=compute_factor,
            slowdown=slowdown,
        )
    )
    times = compute_time.for_site(rank, sites, seed, compute_s, compute_factor, slowdown)
    return Synthetic(rank, seed, model_bytes // ELEMENT_BYTES, times)


def model_bytes(*, model_bytes: int = 50_000_000, **_: Any) -> int:
    """Return the bytes of one contribution."""
    return model_bytes


def problems(sites: Sites, **options: Any) -> list[OptionError]:
    """Return everything that is wrong with the given options; absent ones have their defaults."""
    found = compute_time.problems(sites, options)
    size = options.get("model_bytes", ELEMENT_BYTES)
    if type(size) is not int or size % ELEMENT_BYTES or not 0 < size <= MODEL_LIMIT_BYTES:
        found.append(OptionError("model", size, "whole float32 numbers (4 B each), up to 16 GiB"))
    return found


def preload(**_: Any) -> None:
    """Make the pattern, which forked workers then share."""
    _pattern()


def contribution(seed: int, rank: int, iteration: int, elements: int) -> Vector:
    """Return what the site `rank` contributes in `iteration`: whole numbers, 1 .. 255."""
    model = np.empty(elements, dtype=np.float32)
    _fill(model, seed, rank, iteration)
    return model


def expected(
    seed: int, contributions: Iterable[tuple[int, int, float]], scale: float, elements: int
) -> Vector:
    """Return `scale` times the sum of weight times contribution over (rank, iteration, weight).

    The sum is exact; the scale is rounded to float32 and multiplied in last, with one rounding.
    Raises ValueError unless weights are whole numbers whose magnitudes sum to at most 65793.
    """
    parts = list(contributions)
    _check_weights([weight for _, _, weight in parts])
    total = np.zeros(min(elements, PERIOD), dtype=np.float32)
    term = np.empty_like(total)
    for rank, iteration, weight in parts:
        _fill(term, seed, rank, iteration)
        term *= np.float32(weight)
        total += term
    total *= np.float32(scale)
    return np.resize(total, elements)


def _check_weights(weights: list[float]) -> None:
    if not all(float(weight).is_integer() for weight in weights):
        raise ValueError(f"weights: {weights}: whole numbers, so that sums are exact")
    if sum(abs(weight) for weight in weights) > LARGEST_TOTAL_WEIGHT:
        raise ValueError(f"weights: {weights}: magnitudes sum to at most {LARGEST_TOTAL_WEIGHT}")


def _fill(out: Vector, seed: int, rank: int, iteration: int) -> None:
    """Write a contribution: the pattern, from a place of its own on, again and again."""
    word = hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
    place = int.from_bytes(word, "big") + rank + RANKS * iteration
    pattern, start, done = _pattern(), place * STRIDE % PERIOD, 0
    while done < out.size:
        piece = pattern[start : start + out.size - done]
        out[done : done + piece.size] = piece
        start, done = 0, done + piece.size


@functools.lru_cache(maxsize=1)
def _pattern() -> Vector:
    """Return PERIOD scattered values: SplitMix64's finalizer (Steele et al. 2014) of the index."""
    pattern = populated(PERIOD)
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
