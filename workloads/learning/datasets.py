"""Images with labels, read into memory once: Fashion-MNIST, others in its form, and CIFAR-10.

Fashion-MNIST is installed by the Debian package `dataset-fashion-mnist`. A folder with the files of
CIFAR-10, in its form for Python (`data_batch_1`) or for C (`data_batch_1.bin`), is found by them.

The arrays are cached. A parent process reads them before it forks the workers, which then share its
memory pages.
"""

from __future__ import annotations

import functools
import io
import pickle
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
REMEDY = "apt-get install dataset-fashion-mnist, or set workload.data to a folder with its files"
CLASSES = 10

Bytes: TypeAlias = "NDArray[np.uint8]"


class DatasetError(RuntimeError):
    """A data file is missing or damaged; the message names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Images and labels 0 .. 9, all of them uint8.

    Grey images are of shape (samples, 28, 28), colour images of shape (samples, 3, 32, 32).
    """

    train_images: Bytes
    train_labels: Bytes
    test_images: Bytes
    test_labels: Bytes

    @property
    def is_grey(self) -> bool:
        """Whether the images are grey."""
        return self.train_images.ndim == 3


@functools.lru_cache(maxsize=1)
def load(folder: str = FASHION_MNIST) -> Dataset:
    """Return the data set in `folder`; the default has 60,000 training and 10,000 test samples.

    Raises DatasetError if a file is missing or damaged.
    """
    for ending, read in ((".bin", _read_binary), ("", _read_pickle)):
        if (Path(folder) / f"data_batch_1{ending}").is_file():
            return _load_cifar(Path(folder), ending, read)
    train_images, train_labels = _pair(Path(folder), "train")
    test_images, test_labels = _pair(Path(folder), "t10k")
    return Dataset(train_images, train_labels, test_images, test_labels)


def load_grey(folder: str = FASHION_MNIST) -> Dataset:
    """Return the data set in `folder`. Raises DatasetError if its images are not grey."""
    found = load(folder)
    if not found.is_grey:
        raise DatasetError(f"{folder}: colour images: expected grey ones, or model: FILE.py")
    return found


def parse_idx(data: bytes, dimensions: int) -> Bytes:
    """Return the array in an IDX file of unsigned bytes (format: yann.lecun.com/exdb/mnist).

    Raises ValueError if the header does not fit the data or the number of dimensions.
    """
    header = 4 + 4 * dimensions
    if len(data) < header or data[:4] != bytes([0, 0, 8, dimensions]):
        raise ValueError(f"is no IDX file of unsigned bytes in {dimensions} dimensions")
    shape = tuple(int.from_bytes(data[at : at + 4], "big") for at in range(4, header, 4))
    if len(data) - header != int(np.prod(shape)):
        raise ValueError(f"has {len(data) - header} bytes of data, its header says {shape}")
    return np.frombuffer(data, dtype=np.uint8, offset=header).reshape(shape)


def _pair(folder: Path, part: str) -> tuple[Bytes, Bytes]:
    images = _read(folder / f"{part}-images-idx3-ubyte.gz", 3)
    labels = _read(folder / f"{part}-labels-idx1-ubyte.gz", 1)
    if not images.size or images.shape[1:] != (28, 28):
        raise DatasetError(f"{folder}: {part} images are {images.shape}, not 28 x 28: {REMEDY}")
    if len(images) != len(labels) or labels.max() >= CLASSES:
        raise DatasetError(f"{folder}: {part} labels do not fit the images: {REMEDY}")
    return images, labels


def _read(path: Path, dimensions: int) -> Bytes:
    try:
        return parse_idx(_gunzip(path.read_bytes()), dimensions)
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror}: {REMEDY}") from error
    except (ValueError, zlib.error) as error:
        raise DatasetError(f"{path}: {error}: {REMEDY}") from error


def _gunzip(data: bytes) -> bytes:
    """Decompress into one buffer of the right size: new pages are slow in the embedded kernel."""
    # The last four bytes of a gzip file are the size of its content.
    size = int.from_bytes(data[-4:], "little")
    return zlib.decompress(data, wbits=31, bufsize=max(size, 1))


# -- CIFAR-10 -------------------------------------------------------------------------------------

Read = Callable[[bytes], tuple[Bytes, Bytes]]
"""Reads the images and labels of a file."""

CIFAR_SHAPE = (3, 32, 32)
CIFAR_BYTES = 3 * 32 * 32
CIFAR_PARTS = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")

_PICKLED = {
    ("_codecs", "encode"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
}
"""All that the pickled files of CIFAR-10 need. A pickle could otherwise run any code."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PICKLED:
            raise pickle.UnpicklingError(f"has {module}.{name}, which no file of CIFAR-10 has")
        return super().find_class(module, name)


def _load_cifar(folder: Path, ending: str, read: Read) -> Dataset:
    parts = [_check_cifar(folder / f"{name}{ending}", read) for name in CIFAR_PARTS]
    images, labels = map(np.concatenate, zip(*parts, strict=True))
    return Dataset(images, labels, *_check_cifar(folder / f"test_batch{ending}", read))


def _check_cifar(file: Path, read: Read) -> tuple[Bytes, Bytes]:
    """The images and labels of one file. Raises DatasetError."""
    try:
        images, labels = read(file.read_bytes())
    except OSError as error:
        raise DatasetError(f"{file}: {error.strerror}: all files of CIFAR-10 are needed") from error
    except (pickle.UnpicklingError, ValueError, KeyError, EOFError, TypeError) as error:
        raise DatasetError(f"{file}: {error}: expected a file of CIFAR-10") from error
    if not len(labels) or len(images) != len(labels) or labels.max() >= CLASSES:
        raise DatasetError(f"{file}: its labels do not fit its images")
    return images, labels


def _read_binary(data: bytes) -> tuple[Bytes, Bytes]:
    """Each sample is a byte with its label, and then red, green and blue."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, 1 + CIFAR_BYTES)
    return np.ascontiguousarray(rows[:, 1:]).reshape(-1, *CIFAR_SHAPE), rows[:, 0].copy()


def _read_pickle(data: bytes) -> tuple[Bytes, Bytes]:
    found = _Unpickler(io.BytesIO(data), encoding="bytes").load()
    images = np.asarray(found[b"data"], np.uint8).reshape(-1, *CIFAR_SHAPE)
    return images, np.asarray(found[b"labels"], np.uint8)
