"""The verbs of `trunkline`: one file per verb, found by its name.

The first line of a file's docstring is the verb's help. `add(parser)` declares its arguments, and
`run(arguments)` carries it out and returns the exit code. An optional `EPILOG` ends the help. A
name that Python uses ends with an underscore (`list_`). `harness.commands.terminal` has shared
parts.

Every start of `trunkline` imports all verbs, so slow imports belong into functions.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any


def find_verbs() -> dict[str, Any]:
    """Verb -> its module, sorted by name."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name.rstrip("_"): importlib.import_module(f"{__name__}.{name}") for name in found}
