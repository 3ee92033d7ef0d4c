"""Fashion-MNIST as the Debian package `dataset-fashion-mnist` installs it, read into memory once.

The arrays are cached. A parent process reads them before it forks the workers, which then share its
memory pages.
"""

from __future__ import annotations

import functools
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
REMEDY = "apt-get install dataset-fashion-mnist, or set workload.data to a folder with its files"
CLASSES = 10

Bytes = NDArray[np.uint8]


class DatasetError(RuntimeError):
    """A data file is missing or damaged; the message names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Grey images, uint8 of shape (samples, 28, 28); labels 0 .. 9, uint8 of shape (samples,)."""

    train_images: Bytes
    train_labels: Bytes
    test_images: Bytes
    test_labels: Bytes


@functools.lru_cache(maxsize=1)
def load(folder: str = FASHION_MNIST) -> Dataset:
    """Return the data set in `folder`; the original has 60,000 training and 10,000 test samples.

    Raises DatasetError if a file is missing or damaged.
    """
    train_images, train_labels = _pair(Path(folder), "train")
    test_images, test_labels = _pair(Path(folder), "t10k")
    return Dataset(train_images, train_labels, test_images, test_labels)


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
