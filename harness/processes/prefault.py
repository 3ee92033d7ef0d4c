"""Gives a forked process in one step the memory pages that it would otherwise fault in one by one.

A forked process shares its pages with its parent until one of them writes. In the embedded kernel
the first write to a page costs a fault of about 100 microseconds. Pages that are requested together
cost 6 microseconds each. Processes that do the same work after a fork write to the same pages, so
the pages of the first process predict those of the others.
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
"""A range of addresses: its start and its length, in bytes."""

GAP_PAGES = 32
"""Ranges with at most so many untouched pages between them become one: these pages cost less than a
second system call, and half of the pages that an agent writes after it listens are in such gaps."""

_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

_ENTRY_BYTES = 8
_OURS_ALONE = 1 << 63 | 1 << 56
"""The bits of a page that is present and mapped exactly once; see the kernel's
Documentation/admin-guide/mm/pagemap.rst."""


def find_written(pid: int) -> list[Pages]:
    """The private pages that a forked process has written since the fork.

    Ranges that are close together become one. The list is empty if the kernel does not tell.
    """
    try:
        with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
            areas = list(_find_writable(Path(f"/proc/{pid}/maps").read_text()))
            return [pages for area in areas for pages in _find_own(pagemap.fileno(), *area)]
    except OSError:
        return []


def populate(ranges: list[Pages]) -> None:
    """Fault in these pages of the calling process, writable, and leave out those it does not have.

    A call for pages that are not there fails, and a failed call takes virtual time. Which pages are
    there depends on the lengths of paths and of folders, and the times of a run must not.
    """
    try:
        areas = list(_find_writable(Path("/proc/self/maps").read_text()))
    except OSError:
        return  # the process faults in its pages itself, only more slowly
    for start, length in ranges:
        for area_start, area_length in areas:
            begin = max(start, area_start)
            end = min(start + length, area_start + area_length)
            if begin < end:
                _madvise(begin, end - begin, POPULATE_WRITE)


def _find_writable(maps: str) -> Iterator[Pages]:
    for line in maps.splitlines():
        addresses, permissions, *_ = line.split(maxsplit=2)
        if permissions == "rw-p":
            start, stop = (int(address, 16) for address in addresses.split("-"))
            yield start, stop - start


def _find_own(pagemap: int, start: int, length: int) -> Iterator[Pages]:
    """The ranges of pages that belong to the process alone, with the small gaps between them."""
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
