"""Plans and policies by name: a file in `agents/plans` or `agents/policies` is all it takes."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import ModuleType

from trunkline.agents import plans as plan_files
from trunkline.agents import policies as policy_files


def plans() -> dict[str, ModuleType]:
    """Every module of `agents.plans` that has `build`, by its file's name."""
    return _modules(plan_files, "build")


def policies() -> dict[str, ModuleType]:
    """Every module of `agents.policies` that has `create`, by its file's name."""
    return _modules(policy_files, "create")


@functools.cache
def _modules(package: ModuleType, entry: str) -> dict[str, ModuleType]:
    found = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        if hasattr(module, entry):
            found[info.name] = module
    return found
