"""What every workload offers, and how a model's bytes are recognized again.

A workload is what one site computes and what it sends. The agents see only the `Workload`
protocol; the checks compare models by `digest` (equal or not) and by `fingerprint` (linear, so the
fingerprint of a weighted sum is the weighted sum of the fingerprints).
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import xxhash
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float32]
"""A flat, contiguous float32 array: a serialized model."""

FINGERPRINT_BUCKETS = 16
ELEMENT_BYTES = 4

POPULATE_WRITE = 23
"""`madvise`: have all pages there, writable; see madvise(2). Python has no name for it."""


@dataclass(frozen=True, slots=True)
class Term:
    """What the site `rank` put into a sum: its contribution of an iteration, times a weight."""

    rank: int
    iteration: int
    weight: float


Order: TypeAlias = "tuple[Term | Order, ...]"
"""How a sum is formed: from left to right, a nested sum being formed by itself."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How good a model is on `samples` held-out samples; `loss` is the mean over them."""

    accuracy_percent: float
    loss: float
    samples: int


@runtime_checkable
class Workload(Protocol):
    """What one site computes and contributes; one instance per worker process.

    A module `workloads/NAME.py` is a workload kind when it defines

    - `build(rank, sites, seed, *, <options>) -> Workload`,
    - `model_bytes(*, <options>) -> int`, the bytes of one contribution,
    - `problems(sites, *, <options>) -> list[OptionError]`, everything wrong with the options,
    - `preload(*, <options>) -> None`, heavy imports and data, once before agents are forked,
    - `EVALUATES: bool`, whether its models have an accuracy,
    - optionally `tensor_bytes(*, <options>) -> tuple[int, ...]`, the sizes of the tensors that a
      contribution consists of; empty for one array,
    - optionally `files(*, <options>) -> list[Path]`, what else its results depend on,
    - optionally `expected` and `is_exact`, as `synthetic` has them, for results that are known.

    The keyword-only parameters of `build` are the options of the kind. A file beside a scenario
    needs `build` and `model_bytes` only.
    """

    def compute(self, iteration: int) -> float:
        """Do the work of one iteration and return its *modelled* duration in seconds."""

    def contribution(self) -> Vector:
        """The model that this site contributes, without a copy; valid until the next `compute`."""

    def install(self, result: Vector) -> None:
        """Take over the result of a synchronization as this site's model (copied)."""

    def evaluate(self) -> Evaluation | None:
        """Evaluate the model; None when the kind has no accuracy or none is due now."""


def tensor_bytes_of(kind: Any, options: Mapping[str, Any]) -> tuple[int, ...]:
    """The sizes of a kind's tensors with these options; none where it says nothing of them."""
    found: tuple[int, ...] = kind.tensor_bytes(**options) if hasattr(kind, "tensor_bytes") else ()
    return found


def allocate(elements: int) -> Vector:
    """Return fresh memory, all of its pages there at once; it holds zeros.

    In the embedded kernel a page costs a fault at its first touch, some 100 microseconds, and 6
    where it is asked for together with others. Where the kernel has huge pages, they are those.
    """
    size = max(ELEMENT_BYTES * elements, 1)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for advice in (mmap.MADV_HUGEPAGE, POPULATE_WRITE):
        with contextlib.suppress(OSError):  # an older or smaller kernel does without
            memory.madvise(advice)
    return np.frombuffer(memory, np.float32, elements)


def digest(array: Vector) -> str:
    """Return XXH3 (16 bytes, hex) of the array's float32 buffer.

    It tells results apart, 20 times as fast as a cryptographic hash; nobody here forges models.

    Raises TypeError unless the array is float32 and contiguous.
    """
    return xxhash.xxh3_128_hexdigest(_flat(array).data)


def fingerprint(array: Vector, chunk_bytes: int) -> tuple[float, ...]:
    """Return 16 sums that are linear in the array and depend on where each chunk is.

    Chunk l adds the sum of its elements times `1 + l // 16` to bucket `l % 16`. Sums are float64,
    so they are exact for arrays of small integers. The last chunk may be short.
    Raises TypeError unless the array is float32 and contiguous, ValueError unless `chunk_bytes`
    is a positive multiple of 4.
    """
    if chunk_bytes <= 0 or chunk_bytes % ELEMENT_BYTES:
        raise ValueError(f"chunk_bytes: {chunk_bytes}: a positive multiple of {ELEMENT_BYTES}")
    sums = _chunk_sums(_flat(array), chunk_bytes // ELEMENT_BYTES)
    chunks = np.arange(sums.size)
    weighted = sums * (1 + chunks // FINGERPRINT_BUCKETS)
    buckets = np.bincount(chunks % FINGERPRINT_BUCKETS, weighted, FINGERPRINT_BUCKETS)
    return tuple(buckets.tolist())


def _flat(array: Vector) -> Vector:
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        raise TypeError(f"array: {array.dtype}, {array.shape}: must be contiguous float32")
    return array.reshape(-1)


def _chunk_sums(array: Vector, elements: int) -> NDArray[np.float64]:
    whole = array.size // elements * elements
    sums: NDArray[np.float64] = array[:whole].reshape(-1, elements).sum(axis=1, dtype=np.float64)
    if whole == array.size:
        return sums
    return np.append(sums, array[whole:].sum(dtype=np.float64))
