import gzip
import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from trunkline.harness.processes import numerics
from trunkline.workloads import training
from trunkline.workloads.base import digest
from trunkline.workloads.learning import datasets, models
from trunkline.workloads.learning.datasets import DatasetError, parse_idx
from trunkline.workloads.learning.shards import (
    Kind,
    deal,
    dirichlet,
    even_dirichlet,
    find_outliers,
    iid,
    independent_dirichlet,
)
from trunkline.workloads.option_rules import OptionError

ROOT = Path(__file__).parents[2]
SMALL = {"channels": 2, "hidden": 16, "batch": 16, "local_steps": 2}


def idx(array: np.ndarray) -> bytes:
    shape = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


@pytest.fixture
def folder(tmp_path):
    """A data set of four images, of which a test may spoil a file."""
    for part in ("train", "t10k"):
        images = np.zeros((4, 28, 28), dtype=np.uint8)
        labels = np.arange(4, dtype=np.uint8)
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    datasets.load.cache_clear()
    yield tmp_path
    datasets.load.cache_clear()


# -- the data set ---------------------------------------------------------------------------


def test_an_idx_file_is_its_shape_and_its_bytes():
    assert parse_idx(bytes.fromhex("00000802 00000002 00000003 010203040506"), 2).tolist() == [
        [1, 2, 3],
        [4, 5, 6],
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is no IDX file"),
        ("00000801", "is no IDX file"),
        ("00000d01 00000000", "is no IDX file"),
        ("00000802 00000001 00000001 01", "is no IDX file of unsigned bytes in 1 dimensions"),
        ("00000801 00000002 01", "has 1 bytes of data"),
    ],
)
def test_a_file_that_is_not_idx_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        parse_idx(bytes.fromhex(data), 1)


def test_fashion_mnist_is_whole():
    data = datasets.load()
    assert data.train_images.shape == (60_000, 28, 28)
    assert data.test_images.shape == (10_000, 28, 28)
    assert np.bincount(data.train_labels).tolist() == [6000] * 10
    assert np.bincount(data.test_labels).tolist() == [1000] * 10


def test_pixels_are_scaled_by_the_mean_and_deviation_of_the_training_set():
    images = datasets.load().train_images
    assert images.mean() == pytest.approx(training.PIXEL_MEAN, abs=0.01)
    assert images.std() == pytest.approx(training.PIXEL_DEVIATION, abs=0.01)


def test_a_small_data_set_of_the_same_form_will_do(folder):
    assert datasets.load(str(folder)).train_labels.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train-images-idx3-ubyte.gz", None, "No such file or directory"),
        ("t10k-labels-idx1-ubyte.gz", b"", "incomplete or truncated"),
        ("t10k-labels-idx1-ubyte.gz", b"\x1f\x8b\x08\x00garbage", "invalid|incomplete"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(b"no", mtime=0), "is no IDX file"),
        (
            "train-labels-idx1-ubyte.gz",
            gzip.compress(idx(np.zeros(3, dtype=np.uint8)), mtime=0),
            "train labels do not fit the images",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            gzip.compress(idx(np.full(4, 10, dtype=np.uint8)), mtime=0),
            "train labels do not fit the images",
        ),
        (
            "train-images-idx3-ubyte.gz",
            gzip.compress(idx(np.zeros((4, 8, 8), dtype=np.uint8)), mtime=0),
            "not 28 x 28",
        ),
    ],
)
def test_a_spoilt_data_set_is_named_with_its_remedy(folder, file, content, message):
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    with pytest.raises(DatasetError, match=message) as caught:
        datasets.load(str(folder))
    assert str(folder) in str(caught.value)
    assert "apt-get install dataset-fashion-mnist" in str(caught.value)


# -- shards ---------------------------------------------------------------------------------


@given(samples=st.integers(1, 500), sites=st.integers(1, 20), seed=st.integers(0, 99))
def test_iid_shards_are_an_even_partition(samples, sites, seed):
    shards = iid(samples, sites, np.random.default_rng(seed))
    assert sorted(np.concatenate(shards)) == list(range(samples))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@given(
    sites=st.integers(1, 20),
    alpha=st.sampled_from([0.01, 0.1, 1.0, 100.0]),
    seed=st.integers(0, 99),
)
def test_dirichlet_shards_are_a_partition_without_empty_ones(sites, alpha, seed):
    labels = np.repeat(np.arange(10, dtype=np.uint8), 30)
    shards = dirichlet(labels, sites, alpha, np.random.default_rng(seed))
    assert sorted(np.concatenate(shards)) == list(range(300))
    assert min(map(len, shards)) >= 1


def largest_class_share(alpha):
    labels = np.repeat(np.arange(10, dtype=np.uint8), 1000)
    shards = dirichlet(labels, 9, alpha, np.random.default_rng(1))
    return np.mean([np.bincount(labels[shard]).max() / len(shard) for shard in shards])


def test_small_alpha_gives_sites_few_classes_and_large_alpha_all():
    assert largest_class_share(0.05) > 0.5
    assert 0.15 < largest_class_share(1.0) < 0.5
    assert largest_class_share(1000.0) < 0.12


@given(
    counts=st.lists(st.integers(0, 60), min_size=1, max_size=10),
    alphas=st.lists(st.sampled_from([0.001, 0.1, 1.0, 10.0]), min_size=1, max_size=20),
    seed=st.integers(0, 99),
)
def test_even_dirichlet_shards_are_an_even_partition(counts, alphas, seed):
    assume(sum(counts) >= len(alphas))
    labels = np.repeat(np.arange(len(counts), dtype=np.uint8), counts)
    np.random.default_rng(seed).shuffle(labels)
    shards = even_dirichlet(labels, np.array(alphas), np.random.default_rng(seed))
    assert sorted(np.concatenate(shards)) == list(range(labels.size))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    again = even_dirichlet(labels, np.array(alphas), np.random.default_rng(seed))
    assert all(np.array_equal(*pair) for pair in zip(shards, again, strict=True))


def test_clients_have_the_mix_of_classes_that_is_drawn_for_them():
    """As in R2SP (VI-B1): a parameter of 10 for 75 % of 128 clients, and of 0.1 for 25 %."""
    labels = np.repeat(np.arange(10, dtype=np.uint8), 6000)
    alphas = np.full(128, 10.0)
    outliers = list(find_outliers(0.25, 128, 7))
    alphas[outliers] = 0.1
    shards = even_dirichlet(labels, alphas, np.random.default_rng(7))
    mixes = np.array([np.bincount(labels[shard], minlength=10) / len(shard) for shard in shards])
    rng = np.random.default_rng(7)
    drawn = np.array([rng.dirichlet(np.full(10, alpha)) for alpha in alphas])
    assert np.corrcoef(mixes.ravel(), drawn.ravel())[0, 1] > 0.99
    largest, expected = mixes.max(axis=1), drawn.max(axis=1)
    others = np.setdiff1d(np.arange(128), outliers)
    assert largest[outliers].mean() == pytest.approx(expected[outliers].mean(), abs=0.02)
    assert largest[others].mean() == pytest.approx(expected[others].mean(), abs=0.01)
    assert largest[outliers].mean() > 0.6
    assert largest[others].mean() < 0.2
    # The variance of a class's share in a Dirichlet distribution: 0.1 * 0.9 / (10 alpha + 1)
    assert mixes[outliers].var(axis=0).mean() == pytest.approx(0.09 / 2, rel=0.1)
    assert mixes[others].var(axis=0).mean() == pytest.approx(0.09 / 101, rel=0.2)


def mixes_of(kind, sites, seed=7):
    """The shares of ten classes of 6000 samples at each site, of which a quarter are outliers."""
    labels = np.repeat(np.arange(10, dtype=np.uint8), 6000)
    alphas = np.full(sites, 10.0)
    outliers = list(find_outliers(0.25, sites, seed))
    alphas[outliers] = 0.1
    shards = kind(labels, alphas, np.random.default_rng(seed))
    mixes = [np.bincount(labels[shard], minlength=10) / len(shard) for shard in shards]
    return shards, np.array(mixes), outliers


def test_independent_shards_share_samples_and_each_has_none_twice():
    shards, _, _ = mixes_of(independent_dirichlet, 32)
    assert [shard.size for shard in shards] == [60_000 // 32] * 32
    assert all(np.unique(shard).size == shard.size for shard in shards)
    drawn = np.concatenate(shards)
    assert 0.5 * drawn.size < np.unique(drawn).size < 0.75 * drawn.size
    again = mixes_of(independent_dirichlet, 32)[0]
    assert all(np.array_equal(*pair) for pair in zip(shards, again, strict=True))


def test_a_site_that_draws_more_samples_of_a_class_than_there_are_has_some_twice():
    labels = np.array([0, 1, 2, 3] * 3, dtype=np.uint8)
    (shard,) = independent_dirichlet(labels, np.array([1e-6]), np.random.default_rng(1))
    assert shard.size == 12 and np.unique(labels[shard]).size == 1


def test_what_outliers_have_of_a_class_regular_sites_lack_only_if_shards_are_disjoint():
    rarest = {}
    for kind in (even_dirichlet, independent_dirichlet):
        found = []
        for seed in range(5):
            _, mixes, outliers = mixes_of(kind, 32, seed)
            regular = np.delete(mixes, outliers, axis=0).mean(axis=0)
            found.append(regular.min())
        rarest[kind] = np.mean(found)
    assert rarest[even_dirichlet] < 0.07
    assert rarest[independent_dirichlet] > 0.085


def test_outliers_are_a_share_of_the_sites_that_the_seed_chooses_or_named():
    assert [len(find_outliers(share, 9, 1)) for share in (0.0, 0.1, 0.25, 1.0)] == [0, 1, 2, 9]
    assert find_outliers(0.25, 128, 1) == find_outliers(0.25, 128, 1)
    assert find_outliers(0.25, 128, 1) != find_outliers(0.25, 128, 2)
    assert find_outliers(("tokyo", "0"), ["paris", "rome", "tokyo"], 1) == (0, 2)


def test_sites_train_on_the_shards_that_their_options_and_the_seed_decide():
    def shards(seed, **options):
        built = (training.build(rank, 4, seed, **SMALL, **options) for rank in range(4))
        return [workload._shard for workload in built]

    labels = datasets.load().train_labels
    mixed = {"shards": "even-dirichlet", "alpha": 100.0, "outliers": ("2",), "outlier_alpha": 0.1}
    found = shards(1, **mixed)
    assert [len(shard) for shard in found] == [15_000] * 4
    assert sorted(np.concatenate(found)) == list(range(60_000))
    largest = [np.bincount(labels[shard]).max() for shard in found]
    assert np.argmax(largest) == 2
    again, other = shards(1, **mixed), shards(2, **mixed)
    assert all(np.array_equal(*pair) for pair in zip(found, again, strict=True))
    assert not np.array_equal(found[0], other[0])


def test_a_shard_without_samples_is_refused(folder):
    with pytest.raises(OptionError, match=r"4 samples.*: expected a sample for each of 5 sites"):
        training.build(0, 5, 1, **SMALL, data=str(folder))
    labels = np.zeros(3, dtype=np.uint8)
    for kind in get_args(Kind):
        with pytest.raises(OptionError, match="a sample for each of 4 sites"):
            deal(kind, labels, np.ones(4), np.random.default_rng(1))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"outliers": 1.5}, "1.5: expected a share from 0 to 1, or a list of sites"),
        ({"outliers": -0.1}, "-0.1: expected a share from 0 to 1, or a list of sites"),
        ({"outliers": float("nan")}, "nan: expected a share from 0 to 1, or a list of sites"),
        ({"outliers": ("rome",)}, "'rome': expected paris, tokyo, or a rank from 0 to 1"),
        ({"outliers": 0.5, "shards": "iid"}, "0.5: expected none with shards: iid"),
        ({"outliers": 0.5, "shards": "dirichlet"}, "0.5: expected none with shards: dirichlet"),
    ],
)
def test_impossible_outliers_are_refused(options, said):
    given = {"shards": "even-dirichlet", **options}
    (problem,) = training.problems(["paris", "tokyo"], **given)
    assert str(problem) == f"workload.outliers: {said}"


def make_cifar(folder, ending):
    """The files of CIFAR-10 with a sample each, for C (`.bin`) or for Python."""
    for number, name in enumerate([*datasets.CIFAR_PARTS, "test_batch"]):
        image = np.arange(3072, dtype=np.uint8) + np.uint8(number)
        if ending:
            data = bytes([number]) + image.tobytes()
        else:
            data = pickle.dumps({b"data": image[None], b"labels": [number]}, protocol=2)
        (folder / f"{name}{ending}").write_bytes(data)


@pytest.mark.parametrize("ending", ["", ".bin"])
def test_a_folder_with_the_files_of_cifar_10_is_found_by_them(tmp_path, ending):
    make_cifar(tmp_path, ending)
    found = datasets.load(str(tmp_path))
    assert (found.train_images.shape, found.test_images.shape) == ((5, 3, 32, 32), (1, 3, 32, 32))
    assert (found.train_labels.tolist(), found.test_labels.tolist()) == ([0, 1, 2, 3, 4], [5])
    assert found.train_images[1, 0, 0, :3].tolist() == [1, 2, 3]
    assert found.train_images[0, 1, 0, 0] == 1024 % 256
    pixels, labels = training.to_tensors(found.train_images, found.train_labels)
    assert pixels.shape == (5, 3, 32, 32) and labels.tolist() == [0, 1, 2, 3, 4]
    assert float(pixels[0, 2, 0, 5]) == pytest.approx((2053 % 256 - 113.87) / 66.70, rel=1e-5)
    with pytest.raises(
        DatasetError, match=r"colour images: expected grey ones, or model: FILE\.py"
    ):
        training.build(0, 3, 1, **SMALL, data=str(tmp_path))


def test_a_pickle_that_could_run_code_is_no_file_of_cifar_10(tmp_path):
    make_cifar(tmp_path, "")
    (tmp_path / "data_batch_3").write_bytes(pickle.dumps({b"data": Path("x")}, protocol=2))
    with pytest.raises(DatasetError, match=r"data_batch_3: has pathlib.*, which no file of CIFAR"):
        datasets.load(str(tmp_path))
    (tmp_path / "data_batch_3").unlink()
    with pytest.raises(DatasetError, match=r"data_batch_3: No such file.*: all files of CIFAR-10"):
        datasets.load(str(tmp_path))


# -- the model ------------------------------------------------------------------------------


@pytest.mark.parametrize(("channels", "hidden"), [(1, 1), (8, 640), (3, 50)])
def test_the_size_of_the_model_is_known_without_torch(channels, hidden):
    flat = models.flatten(models.cnn(channels, hidden, seed=1))
    assert flat.numel() == models.parameter_count(channels, hidden)
    assert training.model_bytes(channels=channels, hidden=hidden) == 4 * flat.numel()


def test_the_default_model_has_four_megabytes():
    assert training.model_bytes() == 4_043_112


def test_parameters_are_views_of_the_flat_vector():
    module = models.cnn(2, 4, seed=1)
    flat = models.flatten(module)
    flat.fill_(0.5)
    assert all(bool((parameter == 0.5).all()) for parameter in module.parameters())


def test_every_site_starts_from_the_same_model_which_the_seed_decides():
    def start(rank, seed):
        return digest(training.build(rank, 3, seed, **SMALL).contribution())

    assert start(0, 1) == start(2, 1)
    assert start(0, 1) != start(0, 2)


def test_building_a_model_leaves_the_global_random_state_alone():
    import torch

    torch.manual_seed(5)
    untouched = torch.rand(1)
    torch.manual_seed(5)
    models.cnn(1, 1, seed=1)
    assert torch.rand(1) == untouched


# -- training -------------------------------------------------------------------------------


def step(workload, iteration):
    workload.compute(iteration)
    workload.commit()


def test_the_same_seed_trains_the_same_model_to_the_bit():
    first, second = (training.build(1, 3, 7, **SMALL) for _ in range(2))
    for iteration in range(3):
        step(first, iteration)
        step(second, iteration)
    assert digest(first.contribution()) == digest(second.contribution())


def test_sites_train_on_different_batches():
    first, second = (training.build(rank, 3, 7, **SMALL) for rank in (0, 1))
    step(first, 0)
    step(second, 0)
    assert digest(first.contribution()) != digest(second.contribution())


def test_compute_returns_the_modelled_time():
    workload = training.build(1, 3, 1, **SMALL, compute_s=0.1, slowdown={"1": 4.0})
    assert workload.compute(0) == pytest.approx(0.4)
    assert workload.compute(0, 32) == pytest.approx(0.8)


def test_one_plain_step_is_the_learning_rate_times_the_gradient():
    options = {"channels": 1, "hidden": 4, "batch": 8, "local_steps": 1, "momentum": 0.0}
    slow, fast = (training.build(0, 1, 1, **options, learning_rate=rate) for rate in (0.1, 0.2))
    start = slow.contribution().copy()
    step(slow, 0)
    step(fast, 0)
    np.testing.assert_allclose(
        fast.contribution() - start, 2 * (slow.contribution() - start), atol=1e-6
    )


def test_momentum_stays_when_a_model_is_installed():
    plain, heavy = (training.build(0, 1, 1, **SMALL, momentum=momentum) for momentum in (0.0, 0.9))
    start = plain.contribution().copy()
    for workload in (plain, heavy):
        step(workload, 0)
        workload.install(start)
        step(workload, 1)
    assert digest(plain.contribution()) != digest(heavy.contribution())


OTHER = {"momentum": 0.5, "weight_decay": 0.01, "learning_rate": 0.03, "shards": "dirichlet"}
PLAIN = [
    "72ebb218517d5df69b2eead38e35737d",
    "e8a380427fdb56244f72208327a73317",
    "b1455d78214f24f384799b29214f87f8",
    "71eea7d7e8556e6b1212d49e8ddd97e0",
    "0a09e275b8534ba01b34f65a69778249",
    "2cc5cc7444bc2aabae999a7f0819d4f3",
    "678a82fc0d349af6f8a9b0ba0c2cc9ca",
    "dad74ae56f8de1c6b48c3bb31aaa6b3e",
]
WITH_OTHER = [
    "d4eb2faafe86ad04470e2095a72ea255",
    "1e08bade1de15621c0139c4746649dca",
    "5b9ac40bdfca51d5ee641b484349d98f",
    "43c69adb7b5ac88f930f54312d226e08",
    "34ed32585710903969d04a17777033fd",
    "8d836013f8089c2904a38ce20a182e2b",
    "a4fd48c5fae98136e6129a4100e9b346",
    "e5de020c28103857bc07a80679f8fbfb",
]


def follow(rank, seed, options):
    """The digests of a site's model before and after each of five iterations and two results."""
    workload = training.build(rank, 3, seed, **SMALL, **options)
    found = [digest(workload.contribution())]
    for iteration in range(5):
        step(workload, iteration)
        found.append(digest(workload.contribution()))
        if iteration in (1, 3):
            workload.install(workload.contribution() * np.float32(0.75))
            found.append(digest(workload.contribution()))
    return found


@pytest.mark.skipif(
    torch.__version__ != "2.13.0+cpu", reason="another build of torch has other routines"
)
@pytest.mark.parametrize(
    ("rank", "seed", "options", "digests"),
    [(1, 7, {}, PLAIN), (2, 9, {**OTHER, "alpha": 0.3}, WITH_OTHER)],
)
def test_models_stay_the_same_to_the_bit(rank, seed, options, digests):
    """In a process with routines that exist on every processor, which round alike everywhere."""
    source = (
        f"import json, {Path(__file__).stem} as tests\n"
        f"print(json.dumps(tests.follow({rank}, {seed}, {options})))"
    )
    variables = {**os.environ, **numerics.ONE_THREAD, **numerics.WITHOUT_AVX2}
    told = subprocess.check_output(
        [sys.executable, "-c", source], env=variables, cwd=Path(__file__).parent
    )
    assert json.loads(told) == digests


def test_compute_leaves_the_model_alone_until_commit():
    workload = training.build(0, 3, 1, **SMALL)
    model, before = workload.contribution(), workload.contribution().copy()
    quality = workload.evaluate()
    workload.compute(0)
    assert np.array_equal(model, before)
    assert workload.evaluate() == quality
    workload.commit()
    assert workload.contribution() is model
    assert not np.array_equal(model, before)
    assert workload.evaluate() != quality


def test_a_change_is_the_model_after_the_steps_minus_the_one_before():
    workload = training.build(0, 3, 1, **SMALL)
    for iteration in range(2):
        before = workload.contribution().copy()
        workload.compute(iteration)
        change = workload.change()
        assert not np.shares_memory(change, workload.contribution())
        added = change.copy()
        workload.commit()
        assert np.array_equal(added, workload.contribution() - before)
        assert np.array_equal(workload.change(), added)
        assert added.any()


def test_a_change_is_added_to_a_model_that_came_in_during_the_steps():
    workload = training.build(0, 3, 1, **SMALL)
    workload.compute(0)
    came = np.linspace(-1, 1, workload.contribution().size, dtype=np.float32)
    workload.install(came)
    workload.commit()
    assert np.array_equal(workload.contribution(), came + workload.change())
    before = workload.contribution().copy()
    step(workload, 1)
    assert np.array_equal(workload.contribution() - before, workload.change())


def test_a_change_of_one_plain_step_is_minus_the_learning_rate_times_the_gradient():
    options = {"channels": 1, "hidden": 4, "batch": 8, "local_steps": 1, "momentum": 0.0}
    workload = training.build(0, 1, 1, **options, learning_rate=0.1)
    module = models.cnn(1, 4, seed=1)
    np.copyto(models.flatten(module).numpy(), workload.contribution())
    rng = np.random.default_rng((training.BATCHES, 1, 0, 0))
    shard = iid(60_000, 1, np.random.default_rng((training.SHARDS, 1)))[0]
    samples = shard[rng.integers(60_000, size=8)]
    data = datasets.load()

    import torch

    pixels = (data.train_images[samples, None] - training.PIXEL_MEAN) / training.PIXEL_DEVIATION
    labels = torch.tensor(data.train_labels[samples].astype(int))
    scores = module(torch.tensor(pixels, dtype=torch.float32))
    torch.nn.functional.cross_entropy(scores, labels).backward()
    gradient = np.concatenate([each.grad.numpy().ravel() for each in module.parameters()])
    workload.compute(0)
    np.testing.assert_allclose(workload.change(), -0.1 * gradient, atol=1e-6)


def test_a_batch_of_another_size_makes_another_step_and_takes_its_share_of_the_time():
    own, same, twice = (training.build(0, 3, 1, **SMALL, compute_s=0.5) for _ in range(3))
    assert [own.compute(0), same.compute(0, 16), twice.compute(0, 32)] == [0.5, 0.5, 1.0]
    assert np.array_equal(own.change(), same.change())
    assert not np.array_equal(own.change(), twice.change())


def test_a_model_can_be_read_and_installed_while_another_thread_computes():
    workload = training.build(0, 3, 1, channels=4, hidden=64, batch=32, local_steps=20)
    model = workload.contribution()
    with ThreadPoolExecutor(1) as pool:
        for iteration in range(3):
            computing = pool.submit(workload.compute, iteration)
            installed = np.full(model.size, 0.01 * (1 + iteration), np.float32)
            workload.install(installed)
            while not computing.done():
                assert np.array_equal(model, installed)
            computing.result()
            workload.commit()
            np.testing.assert_allclose(model, installed + workload.change(), atol=1e-6)


def test_weight_decay_shrinks_the_model():
    plain, decayed = (training.build(0, 1, 1, **SMALL, weight_decay=decay) for decay in (0.0, 0.5))
    step(plain, 0)
    step(decayed, 0)
    assert np.linalg.norm(decayed.contribution()) < np.linalg.norm(plain.contribution())


def test_the_contribution_stays_until_an_installed_model_replaces_it():
    workload = training.build(0, 3, 1, **SMALL)
    step(workload, 0)
    before = digest(workload.contribution())
    workload.evaluate()
    assert digest(workload.contribution()) == before
    other = training.build(1, 3, 1, **SMALL)
    step(other, 0)
    workload.install(other.contribution())
    assert digest(workload.contribution()) == digest(other.contribution())
    assert workload.evaluate() == other.evaluate()


def test_three_sites_that_average_their_models_learn():
    sites = [
        training.build(rank, 3, 1, channels=4, hidden=32, batch=32, shards="dirichlet")
        for rank in range(3)
    ]
    before = sites[0].evaluate()
    for iteration in range(4):
        for site in sites:
            step(site, iteration)
        average = sum(site.contribution() for site in sites) / np.float32(3)
        for site in sites:
            site.install(average)
    after = sites[0].evaluate()
    assert before.samples == after.samples == 10_000
    assert before.accuracy_percent < 25
    assert after.accuracy_percent > 60
    assert after.loss < before.loss


WRONG = {
    "channels": (0, "a whole number from 1 to 256"),
    "hidden": (1.5, "a whole number from 1 to 65536"),
    "batch": (True, "a whole number from 1 to 4096"),
    "local_steps": (-1, "a whole number from 1 to 10000"),
    "learning_rate": (0, "a number above 0, at most 100"),
    "momentum": (1, "a number from 0 to below 1"),
    "weight_decay": (float("nan"), "a number from 0 to below 1"),
    "shards": ("random", "iid or dirichlet or even-dirichlet or independent-dirichlet"),
    "alpha": (-1.0, "a number above 0, at most 1e+06"),
    "outlier_alpha": (0, "a number above 0, at most 1e+06"),
}


@pytest.mark.parametrize("key", WRONG)
def test_an_impossible_option_is_named_with_what_is_allowed(key):
    value, allowed = WRONG[key]
    with pytest.raises(OptionError) as caught:
        training.build(0, 3, 1, **{key: value})
    assert str(caught.value) == f"workload.{key}: {value!r}: expected {allowed}"


def test_all_problems_of_a_scenario_are_found_at_once():
    options = {key: value for key, (value, _) in WRONG.items()} | {"compute_s": "t7"}
    assert {problem.key for problem in training.problems(9, **options)} == {*WRONG, "compute"}
    assert training.problems(9) == []


# -- processes ------------------------------------------------------------------------------


def run(source: str) -> object:
    completed = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return json.loads(completed.stdout)


def test_nothing_imports_torch_before_it_is_needed():
    source = """
import json, sys, workloads
workloads.find_kinds()["training"].model_bytes()
workloads.find_kinds()["training"].problems(3)
print(json.dumps("torch" in sys.modules))
"""
    assert run(source) is False


def test_forked_workers_train_like_one_process_and_share_the_loaded_data():
    source = f"""
import json, os, sys
from trunkline.workloads import training
from trunkline.workloads.learning import datasets
from trunkline.workloads.base import digest

def train():
    workload = training.build(0, 3, 1, **{SMALL!r})
    workload.compute(0)
    workload.commit()
    return [digest(workload.contribution()), datasets.load.cache_info().misses]

training.preload()
ends = os.pipe()
if os.fork() == 0:
    os.write(ends[1], json.dumps(train()).encode())
    os._exit(0)
os.wait()
print(json.dumps([json.loads(os.read(ends[0], 1000)), train()]))
"""
    child, parent = run(source)
    assert child == parent
    assert child[1] == 1


def test_evaluations_compute_the_same_as_layers_of_torch():
    fast = models.cnn(4, 32, seed=3)
    plain = torch.nn.Sequential(
        *[
            torch.nn.Linear(each.in_features, each.out_features)
            if isinstance(each, torch.nn.Linear)
            else each
            for each in fast
        ]
    )
    plain.load_state_dict(fast.state_dict())
    images = torch.randn(50, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.allclose(fast(images), plain(images), atol=1e-5)
    assert torch.equal(fast(images), plain(images))  # with gradients
