"""Runs a module that imports much: `python -m ...processes.first_imports MODULE ARGUMENT...`.

While a program imports its modules, nothing is garbage, and looking for it takes a tenth of the
time. So that begins only when the module calls `gc.enable`.
"""

from __future__ import annotations

import gc
import runpy
import sys

if __name__ == "__main__":
    gc.disable()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
