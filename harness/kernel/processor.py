"""Which processor a guest runs on: one, and if possible one that no other guest has.

User-Mode Linux hands every system call and page fault of a guest from one host process to another
and back. On two processors each of these hand-overs wakes a sleeping one, which on a virtual
machine takes longer than all the rest: on one processor everything in a guest is three times as
fast. Guests side by side take different ones.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

CLAIMS = "\0trunkline/processor"


@contextlib.contextmanager
def claim() -> Iterator[int]:
    """The number of a processor that we may use; claimed until the context ends, or we do.

    A claim is a name in Linux's abstract socket namespace: seen by all users, and gone with its
    owner, however that ends. When all processors are claimed, guests share them.
    """
    allowed = sorted(os.sched_getaffinity(0))
    start = os.getpid() % len(allowed)
    for number in allowed[start:] + allowed[:start]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claim:
            try:
                claim.bind(f"{CLAIMS}/{number}")
            except OSError:
                continue
            yield number
            return
    yield allowed[start]
