"""Plans and policies by name: a file in `agents/plans` or `agents/policies` is all it takes."""

from __future__ import annotations

import functools

from trunkline.agents import plans as plan_files
from trunkline.agents import policies as policy_files
from trunkline.named_modules import NamedModules


@functools.cache
def plans() -> NamedModules:
    """Every module of `agents.plans` that has `build`, by its file's name."""
    return NamedModules(plan_files.__name__, plan_files.__path__, "build")


@functools.cache
def policies() -> NamedModules:
    """Every module of `agents.policies` that has `create`, by its file's name."""
    return NamedModules(policy_files.__name__, policy_files.__path__, "create")
