"""What a process would share with the processes that it forks: memory, locks, pipes and sockets.

Programs are forked from a process that has imported the modules of `preload`. A lock of
`multiprocessing` that a module makes as it is imported would be one lock for all sites.
"""

from __future__ import annotations

from pathlib import Path

ENDS = ("pipe:", "socket:", "anon_inode:")
"""How the targets of descriptors begin that two processes can use to reach each other."""


def list_shared() -> frozenset[str]:
    """The shared mappings of memory and the descriptors of this process that forks would share."""
    found = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, _, _, _, *path = line.split(maxsplit=5)
        if rights.endswith("s"):
            found.add(_describe(path[0] if path else span))
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:  # that of the folder itself
            continue
        if target.startswith(ENDS):
            found.add(target)
    return frozenset(found)


def _describe(path: str) -> str:
    name = Path(path).name
    return f"the lock {name}" if name.startswith("sem.") else f"the shared memory {path}"
