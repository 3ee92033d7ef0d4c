"""The workloads, which compute and hold the model: one file per kind, found by its name."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import ModuleType


@functools.cache
def find_kinds() -> dict[str, ModuleType]:
    """Return the module of every workload kind, by name: the modules here that have `build`."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "build")}
