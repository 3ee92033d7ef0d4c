import ctypes
import mmap
import os

import numpy as np
import pytest

from trunkline.harness.processes import prefault
from trunkline.harness.processes.start_time import START_PHASE_NS, START_STEP_NS, wait_for_start

PAGES = 64
PAGE = mmap.PAGESIZE


@pytest.fixture
def area():
    """Private memory that is there; its forked copies are shared until they are written."""
    with mmap.mmap(-1, PAGES * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory[:] = b"x" * len(memory)
        yield memory


def start(memory: mmap.mmap) -> int:
    return ctypes.addressof((ctypes.c_char * len(memory)).from_buffer(memory))


def pages_of_a_child(memory: mmap.mmap, begin: int, act) -> list[int]:
    """Which pages of the memory a forked process has for itself after it did something."""
    done_read, done_write = os.pipe()
    end_read, end_write = os.pipe()
    child = os.fork()
    if child == 0:
        act()
        os.write(done_write, b"!")
        os.read(end_read, 1)
        os._exit(0)
    try:
        os.read(done_read, 1)
        owned = prefault.find_written(child)
    finally:
        os.write(end_write, b"!")
        os.waitpid(child, 0)
        for handle in (done_read, done_write, end_read, end_write):
            os.close(handle)
    addresses = (at for first, length in owned for at in range(first, first + length, PAGE))
    return [(at - begin) // PAGE for at in addresses if begin <= at < begin + len(memory)]


def test_what_a_child_wrote_is_known_and_another_child_gets_it_at_once(area):
    begin = start(area)

    def write():
        for page in (3, 4, 7, 16, 60):
            area[page * PAGE] = 1

    wanted = [*range(3, 17), 60]
    assert pages_of_a_child(area, begin, write) == wanted
    ranges = [(begin + 3 * PAGE, 14 * PAGE), (begin + 60 * PAGE, PAGE)]
    assert pages_of_a_child(area, begin, lambda: prefault.populate(ranges)) == wanted
    assert pages_of_a_child(area, begin, lambda: None) == []


def test_pages_that_a_process_does_not_have_are_left_out_without_a_failed_call(area, monkeypatch):
    begin = start(area)
    calls = []
    monkeypatch.setattr(prefault, "_madvise", lambda at, length, _: calls.append((at, length)))
    with mmap.mmap(-1, PAGE, prot=mmap.PROT_READ) as readable:
        view = np.frombuffer(readable, np.uint8)
        prefault.populate([(0, PAGE), (view.ctypes.data, PAGE), (begin + PAGE, 2 * PAGE)])
        del view
    assert calls == [(begin + PAGE, 2 * PAGE)]


def test_nothing_is_known_of_a_process_that_is_gone():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert prefault.find_written(child) == []


def test_a_run_s_clock_starts_at_a_fixed_phase_of_the_machine_s():
    assert wait_for_start() % START_STEP_NS == START_PHASE_NS
