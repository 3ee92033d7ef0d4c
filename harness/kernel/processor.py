"""The choice of the one processor that a guest runs on, if possible one without another guest.

User-Mode Linux passes every system call and page fault of a guest from one host process to another
and back. On two processors, each time a sleeping processor must be woken, which takes longer than
everything else on a virtual machine. On one processor a guest is three times as fast.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

CLAIMS = "\0trunkline/processor"


@contextlib.contextmanager
def claim() -> Iterator[int]:
    """Claim a processor that this process may use, until the context ends; yields its number.

    A claim is a name in Linux's abstract socket namespace: all users see it, and the kernel removes
    it when its owner ends. If all processors are claimed, guests share them.
    """
    allowed = sorted(os.sched_getaffinity(0))
    # The first choice differs between processes, so that guests share processors evenly.
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
