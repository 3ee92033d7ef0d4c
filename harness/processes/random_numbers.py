"""Has the embedded kernel's random numbers start again, from the seed of the run.

How many numbers were drawn so far, for processes, folders and ports, depends on where things are
installed. A kernel without a seed ignores the request.
"""

from __future__ import annotations

import fcntl
import os

_CLEAR_POOL = 0x5206
"""RNDCLEARPOOL; see random(4), and kernel/seeded-random.patch for its meaning here."""


def restart() -> None:
    """Start again. Raises OSError: only root in the embedded kernel may."""
    device = os.open("/dev/urandom", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _CLEAR_POOL)
    finally:
        os.close(device)
