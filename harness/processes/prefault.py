"""Gives a forked process, at once, the memory that it would otherwise get page by page.

Forked processes share their pages until one writes. In the embedded kernel every first write costs
a fault of some 100 microseconds; asked for together, pages cost 6 microseconds each. Processes that
are forked from the same state to do the same write to the same pages, so the first one shows which.
"""

from __future__ import annotations

import array
import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from trunkline.workloads.base import POPULATE_WRITE

Pages = tuple[int, int]
"""A range of addresses: where it starts, and its length, in bytes."""

GAP_PAGES = 32
"""So few untouched pages between two ranges cost less than a system call of their own, and half of
what an agent writes after it listens lies in such gaps."""

_ENTRY_BYTES = 8
_OURS_ALONE = 1 << 63 | 1 << 56
"""A page that is there and mapped only once; see Documentation/admin-guide/mm/pagemap.rst."""


def find_written(pid: int) -> list[Pages]:
    """What a forked process has of its own in its private memory: what it wrote since the fork.

    Ranges that are close together are one. Empty where the kernel does not say.
    """
    try:
        with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
            areas = list(_find_writable(Path(f"/proc/{pid}/maps").read_text()))
            return [pages for area in areas for pages in _find_own(pagemap.fileno(), *area)]
    except OSError:
        return []


def populate(ranges: list[Pages]) -> None:
    """Makes these pages this process's own; what cannot be is left to be faulted in."""
    advise = ctypes.CDLL(None).madvise
    for start, length in ranges:
        advise(ctypes.c_void_p(start), ctypes.c_size_t(length), POPULATE_WRITE)


def _find_writable(maps: str) -> Iterator[Pages]:
    for line in maps.splitlines():
        addresses, permissions, *_ = line.split(maxsplit=2)
        if permissions == "rw-p":
            start, stop = (int(address, 16) for address in addresses.split("-"))
            yield start, stop - start


def _find_own(pagemap: int, start: int, length: int) -> Iterator[Pages]:
    """The runs of pages in a range that the process has alone, and small gaps between them."""
    place = start // mmap.PAGESIZE * _ENTRY_BYTES
    entries = array.array("Q", os.pread(pagemap, length // mmap.PAGESIZE * _ENTRY_BYTES, place))
    own = [index for index, entry in enumerate(entries) if entry & _OURS_ALONE == _OURS_ALONE]
    if not own:
        return
    first = last = own[0]
    for index in (*own[1:], len(entries) + GAP_PAGES + 1):
        if index - last > GAP_PAGES + 1:
            yield start + first * mmap.PAGESIZE, (last + 1 - first) * mmap.PAGESIZE
            first = index
        last = index
