import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from trunkline import workloads
from trunkline.workloads import synthetic
from trunkline.workloads.base import describe, digest, fingerprint, gives_changes, takes_batch

CHUNK_BYTES = 64
ELEMENTS = CHUNK_BYTES // 4


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def integers(seed: int, chunks: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 256, chunks * ELEMENTS).astype(np.float32)


def test_digest_is_xxh3_of_the_little_endian_floats():
    raw = bytes.fromhex("0000803f00000040")
    assert digest(vector(1.0, 2.0)) == xxhash.xxh3_128_hexdigest(raw)
    assert digest(vector()) == "99aa06d3014798d86001c324468d497f"  # of nothing, as published


def test_fingerprint_adds_each_chunk_to_the_bucket_of_its_index():
    assert fingerprint(vector(1, 2, 3, 4, 5), 8) == (3.0, 7.0, 5.0) + (0.0,) * 13


def test_fingerprint_weighs_chunks_by_how_often_the_buckets_went_round():
    ones = np.ones(34, dtype=np.float32)
    assert fingerprint(ones, 4) == (1.0 + 2 + 3, 1.0 + 2 + 3) + (1.0 + 2,) * 14


def test_an_empty_model_has_a_fingerprint_of_zeros():
    assert fingerprint(vector(), 8) == (0.0,) * 16


@pytest.mark.parametrize("chunk_bytes", [0, -4, 6])
def test_fingerprint_refuses_chunks_that_split_a_number(chunk_bytes):
    with pytest.raises(ValueError, match=f"chunk_bytes: {chunk_bytes}: a positive multiple of 4"):
        fingerprint(vector(1.0), chunk_bytes)


@pytest.mark.parametrize("array", [np.zeros(2), np.zeros(8, dtype=np.float32)[::2]])
def test_only_contiguous_float32_arrays_are_recognized(array):
    with pytest.raises(TypeError, match="must be contiguous float32"):
        digest(array)
    with pytest.raises(TypeError, match="must be contiguous float32"):
        fingerprint(array, 4)


@given(
    size=st.integers(0, 300_000),
    elements=st.sampled_from([1, 3, 1000, 8192, 10_000, 65_536, 100_000]),
    seed=st.integers(0, 99),
)
def test_a_description_is_rounded_like_sums_and_a_digest_of_the_whole_array(size, elements, seed):
    random = np.random.default_rng(seed)
    model = (random.standard_normal(size) * 10.0 ** random.integers(-9, 9, size)).astype(np.float32)
    whole = size // elements * elements
    sums = [*model[:whole].reshape(-1, elements).sum(axis=1, dtype=np.float64)]
    sums += [model[whole:].sum(dtype=np.float64)] * (whole < size)
    buckets = [0.0] * 16
    for chunk, total in enumerate(sums):
        buckets[chunk % 16] += (1 + chunk // 16) * total
    assert describe(model, 4 * elements) == (digest(model), tuple(buckets))


@given(chunks=st.integers(1, 40), weights=st.lists(st.integers(-9, 9), min_size=1, max_size=4))
def test_fingerprint_of_a_weighted_sum_is_the_weighted_sum_of_fingerprints(chunks, weights):
    models = [integers(seed, chunks) for seed in range(len(weights))]
    total = sum(np.float32(weight) * model for weight, model in zip(weights, models, strict=True))
    parts = [np.array(fingerprint(model, CHUNK_BYTES)) for model in models]
    combined = sum(weight * part for weight, part in zip(weights, parts, strict=True))
    assert fingerprint(total, CHUNK_BYTES) == tuple(combined)


@given(
    chunks=st.integers(2, 40),
    places=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    harm=st.sampled_from(["missing", "doubled", "swapped"]),
)
def test_a_harmed_chunk_changes_digest_and_fingerprint(chunks, places, harm):
    model = np.arange(1, chunks * ELEMENTS + 1, dtype=np.float32)
    rows = model.copy().reshape(chunks, ELEMENTS)
    first, second = places[0] % chunks, places[1] % chunks
    if harm == "swapped":
        if first == second:
            second = (first + 1) % chunks
        rows[[first, second]] = rows[[second, first]]
    else:
        rows[first] *= 0 if harm == "missing" else 2
    harmed = rows.reshape(-1)
    assert digest(harmed) != digest(model)
    assert fingerprint(harmed, CHUNK_BYTES) != fingerprint(model, CHUNK_BYTES)


def test_kinds_are_the_files_that_define_build():
    kinds = workloads.find_kinds()
    assert list(kinds) == ["layered", "program", "synthetic", "training", "training_in_layers"]
    assert {name: kind.EVALUATES for name, kind in kinds.items()} == {
        "layered": False,
        "program": False,
        "synthetic": False,
        "training": True,
        "training_in_layers": True,
    }


def test_a_kind_says_before_a_run_whether_its_workloads_give_changes():
    kinds = workloads.find_kinds()
    assert {name: gives_changes(kind) for name, kind in kinds.items()} == {
        "layered": True,
        "program": False,
        "synthetic": True,
        "training": True,
        "training_in_layers": True,
    }


class Plain:
    """A workload without any of the optional methods."""

    def compute(self, iteration):
        return 0.1

    def contribution(self):
        return vector(1.0)

    def install(self, result): ...

    def evaluate(self): ...


class Committing(Plain):
    def commit(self): ...


class Stepping(Committing):
    def compute(self, iteration, batch=None):
        return 0.1

    def change(self):
        return vector(2.0)


@pytest.mark.parametrize(
    ("workload", "changes", "batch"),
    [
        (Plain(), False, False),
        (Committing(), False, False),
        (Stepping(), True, True),
        (synthetic.build(0, 1, 1, model_bytes=4), True, True),
    ],
)
def test_a_workload_shows_by_its_methods_what_it_can_do(workload, changes, batch):
    assert (gives_changes(workload), takes_batch(workload)) == (changes, batch)
