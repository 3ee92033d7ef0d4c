"""The protocol of workloads, and two ways to compare models.

A workload is what one site computes and sends. The agents see only the protocol `Workload`, or
`WorkloadWithChanges` if a policy moves changes of models instead of models. The checks compare
models by `digest` (equal or not) and by `fingerprint`, which is linear: the fingerprint of a
weighted sum is the weighted sum of the fingerprints.
"""

from __future__ import annotations

import contextlib
import inspect
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import xxhash

if TYPE_CHECKING:
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
"""A flat, contiguous float32 array: a serialized model."""

FINGERPRINT_BUCKETS = 16
ELEMENT_BYTES = 4

PIECE_BYTES = 256 * 1024
"""`describe` reads an array in pieces of about this size, which stay in a processor's own cache."""

UNLOCKED_BYTES = 64 * 1024
"""For a longer update xxhash takes a lock, for which Python reads the clock. Each reading moves the
embedded kernel's clock on by 256 ns."""

POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE of madvise(2), for which Python has no name: fault in all pages, writable."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a sum: the contribution of the site `rank` in an iteration, times a weight."""

    rank: int
    iteration: int
    weight: float


Order: TypeAlias = "tuple[Term | Order, ...]"
"""The order of a sum: terms are added from left to right; a nested tuple is summed first."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The quality of a model on `samples` held-out samples; `loss` is the mean over them."""

    accuracy_percent: float
    loss: float
    samples: int


@runtime_checkable
class Workload(Protocol):
    """The workload of one site; each worker process has one instance.

    A module `workloads/NAME.py` is a workload kind if it defines

    - `build(rank, sites, seed, *, <options>) -> Workload`,
    - `model_bytes(*, <options>) -> int`, the bytes of one contribution,
    - `problems(sites, *, <options>) -> list[OptionError]`, everything wrong with the options,
    - `preload(*, <options>) -> None`, heavy imports and data, once before agents are forked,
    - `EVALUATES: bool`, whether its models have an accuracy,
    - optionally `tensor_bytes(*, <options>) -> tuple[int, ...]`, the sizes of the tensors of a
      contribution; empty for one array,
    - optionally `compute_times(rank, sites, seed, *, <options>)`, whose `time_s(iteration)` is the
      modelled duration in seconds, if it is known before the run; a verdict then checks it;
      `time_s(iteration, batch)` is the duration with another batch,
    - optionally `layers(*, <options>) -> LayeredModel`, if its workloads are `WorkloadInLayers`
      (`workloads/layered/model.py`); its `compute_times` then also have `layers(iteration, batch)`,
    - optionally `GIVES_CHANGES = True`, if its workloads are `WorkloadWithChanges`,
    - optionally `try_out(*, <options>) -> list[OptionError]`, what goes wrong if this machine tries
      it; `validate` and commands that run a scenario ask this before anything starts,
    - optionally `files(*, <options>) -> list[Path]`, further files that its results depend on,
    - optionally `expected` and `is_exact`, as in `synthetic`, for results that can be predicted.

    The keyword-only parameters of `build` are the options of the kind. A file beside a scenario
    needs `build` and `model_bytes` only.
    """

    def compute(self, iteration: int) -> float:
        """Do the work of one iteration and return its *modelled* duration in seconds.

        It may take an argument `batch`, as in `WorkloadWithChanges` (see `takes_batch`).
        """

    def contribution(self) -> Vector:
        """Return the model of this site, not a copy; it is valid until the next `compute`."""

    def install(self, result: Vector) -> None:
        """Copy the result of a synchronization into this site's model."""

    def evaluate(self) -> Evaluation | None:
        """Evaluate the model; None if the kind has no accuracy."""


@runtime_checkable
class WorkloadWithChanges(Workload, Protocol):
    """A workload that computes beside its model, and says what a step adds to it.

    `compute` leaves the model alone, which is the memory of `contribution`. It keeps the step's
    result in memory of its own, because on a real clock it runs in a thread, while the agent reads
    the model for other sites and installs results.
    """

    def compute(self, iteration: int, batch: int | None = None) -> float:
        """Prepare the step of one iteration and return its *modelled* duration in seconds.

        `batch` is the number of samples per step in this iteration; None means the workload's own.
        The duration is linear in it.
        """

    def commit(self) -> None:
        """Take over the step of the last `compute` in the model; call it at most once per step.

        The model becomes the result of the step. If `install` has changed the model since that
        `compute` began, `change` is added to it instead (but see `Synthetic.commit`).
        """

    def change(self) -> Vector:
        """Return what the step of the last `compute` adds to the model that it began with.

        The vector is not the model's memory. It is valid until the next `compute`.
        """


def gives_changes(kind_or_workload: ModuleType | Workload) -> bool:
    """Whether a workload has `commit` and `change`; of a kind, its module says so beforehand."""
    if isinstance(kind_or_workload, ModuleType):
        return bool(getattr(kind_or_workload, "GIVES_CHANGES", False))
    return isinstance(kind_or_workload, WorkloadWithChanges)


def takes_batch(workload: Workload) -> bool:
    """Whether `compute` of a workload has a parameter `batch`."""
    return "batch" in inspect.signature(workload.compute).parameters


def tensor_bytes_of(kind: Any, options: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the bytes of each tensor of a workload kind; empty if its model is one array."""
    found: tuple[int, ...] = kind.tensor_bytes(**options) if hasattr(kind, "tensor_bytes") else ()
    return found


def allocate(elements: int) -> Vector:
    """Return an array of zeros whose memory pages are all present.

    In the embedded kernel the first touch of a page costs a fault of about 100 microseconds. Pages
    that are requested together cost 6 microseconds each. Pages are huge pages if the kernel has
    them.
    """
    size = max(ELEMENT_BYTES * elements, 1)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for advice in (mmap.MADV_HUGEPAGE, POPULATE_WRITE):
        with contextlib.suppress(OSError):  # some kernels lack these; the array is right anyway
            memory.madvise(advice)
    return np.frombuffer(memory, np.float32, elements)


def digest(array: Vector) -> str:
    """Return XXH3 (16 bytes, hex) of the array's float32 buffer.

    It is 20 times as fast as a cryptographic hash, which forged models would need.

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
    return describe(array, chunk_bytes)[1]


def describe(array: Vector, chunk_bytes: int) -> tuple[str, tuple[float, ...]]:
    """Return the `digest` and the `fingerprint` of an array, whose memory is read only once.

    The digest of a piece comes first: it reads memory several times as fast as a sum does, and
    the sum then finds the piece in the cache. Raises TypeError and ValueError as these two do.
    """
    if chunk_bytes <= 0 or chunk_bytes % ELEMENT_BYTES:
        raise ValueError(f"chunk_bytes: {chunk_bytes}: a positive multiple of {ELEMENT_BYTES}")
    flat, elements = _flat(array), chunk_bytes // ELEMENT_BYTES
    step = max(1, PIECE_BYTES // chunk_bytes) * elements
    hashed, pieces = xxhash.xxh3_128(), []
    for start in range(0, flat.size or 1, step):
        piece = flat[start : start + step]
        raw = piece.data.cast("B")
        for at in range(0, len(raw), UNLOCKED_BYTES):
            hashed.update(raw[at : at + UNLOCKED_BYTES])
        pieces.append(_chunk_sums(piece, elements))
    sums = np.concatenate(pieces)
    chunks = np.arange(sums.size)
    weighted = sums * (1 + chunks // FINGERPRINT_BUCKETS)
    buckets = np.bincount(chunks % FINGERPRINT_BUCKETS, weighted, FINGERPRINT_BUCKETS)
    return hashed.hexdigest(), tuple(buckets.tolist())


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
