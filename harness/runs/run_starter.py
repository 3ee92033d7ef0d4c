"""The process that starts those of many runs (`harness.runs.run_pool` starts it).

It imports what runs need, and forks itself for each run, which spares each run 1.4 s of a
processor. If a file of Trunkline has changed since, a run begins afresh, by its command.

Its arguments are that command, `--`, the names of modules to import, `--`, and a descriptor (see
`processes.fork_server.serve`).
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence

from trunkline.harness.processes.fork_server import serve

RUN = "trunkline.harness.runs.run_process"
OWN = [sys.executable, "-m", RUN]
"""The command of a run that a fork of this process can carry out itself."""

LATER = ("scipy.sparse.csgraph",)
"""What the report of nearly every run imports, but only when it comes to it."""


def main(command: Sequence[str], modules: Iterable[str], fd: int) -> None:
    """Start runs until the descriptor's socket is closed."""
    gc.disable()  # nothing is garbage while modules are imported
    afresh = functools.partial(os.execv, command[0], list(command))
    begin = _import(modules, afresh) if list(command) == OWN else afresh
    gc.freeze()  # what is here now stays: a fork need not look at it, and so copies less
    gc.enable()
    serve(fd, begin)


def _import(modules: Iterable[str], afresh: Callable[[], int]) -> Callable[[], int]:
    """Import what runs need; returns what a fork does, which is `afresh` after a change."""
    from trunkline.harness.runs import provenance

    entries = (RUN, *provenance.SESSION, *provenance.REPORT)
    for name in (RUN, *provenance.REPORT, *LATER, *modules):
        importlib.import_module(name)
    files = provenance.hash_code(entries)

    def begin() -> int:
        provenance.hash_code.cache_clear()
        same = provenance.hash_code(entries) == files
        return importlib.import_module(RUN).main() if same else afresh()

    return begin


if __name__ == "__main__":
    first = sys.argv.index("--")
    *named, _, number = sys.argv[first + 1 :]
    main(sys.argv[1:first], named, int(number))
