"""What `trunkline` can do: one file per verb, found by its name.

A verb's file has a docstring whose first line is its help, `add(parser)`, which declares its
arguments, and `run(arguments)`, which carries it out and returns the exit code; `EPILOG`, if there
is one, ends its help. What they share is in `harness.commands.terminal`. A verb imports what is
slow to import when it runs: all files are imported at every start. A trailing underscore keeps a
verb that is a Python word from shadowing it (`list_`).
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any


def find_verbs() -> dict[str, Any]:
    """Verb -> its module, in the order of their names."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name.rstrip("_"): importlib.import_module(f"{__name__}.{name}") for name in found}
