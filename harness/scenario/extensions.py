"""The topologies, plans, policies and workloads that a scenario can name, found by file name."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILES = {
    "topologies": ("trunkline.topologies", "build"),
    "plans": ("trunkline.agents.plans", "build"),
    "policies": ("trunkline.agents.policies", "create"),
    "workloads": ("trunkline.workloads", "build"),
}
"""The kinds of extensions -> their package, and the function that each of them has."""


@dataclass(frozen=True, slots=True)
class Extensions:
    """The modules of each kind of extension, by name.

    A topology has `build(rng, *, ...)`, a plan `build(request, *, ...)`, a policy
    `create(sites, *, ...)`, a workload `build(rank, sites, seed, *, ...)`, `model_bytes(*, ...)`,
    `problems(sites, *, ...)` and `EVALUATES`. The keyword-only parameters are the options.
    """

    topologies: Mapping[str, Any]
    plans: Mapping[str, Any]
    policies: Mapping[str, Any]
    workloads: Mapping[str, Any]


@functools.cache
def discover() -> Extensions:
    """Find all extensions that come with Trunkline. Imports each of their files, but not torch."""
    # Imported here, so that commands that read no scenario start faster.
    from trunkline import topologies, workloads
    from trunkline.agents import registry

    return Extensions(
        topologies.find_builders(), registry.plans(), registry.policies(), workloads.find_kinds()
    )


def summarize(module: Any) -> str:
    """The first line of a module's docstring, without its full stop."""
    return _first_line(module.__doc__)


def summarize_kind(kind: str) -> dict[str, str]:
    """The extensions of a kind by name, with `summarize` of each.

    Their files are parsed and not imported, which is faster.
    """
    package, entry = _FILES[kind]
    found = {}
    for folder in importlib.import_module(package).__path__:
        for info in pkgutil.iter_modules([folder]):
            file = f"{info.name}/__init__.py" if info.ispkg else f"{info.name}.py"
            module = ast.parse(Path(folder, file).read_text(encoding="utf-8"))
            if entry in _list_names(module):
                found[info.name] = _first_line(ast.get_docstring(module))
    return dict(sorted(found.items()))


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().partition("\n")[0].rstrip(".")


def _list_names(module: ast.Module) -> set[str]:
    """The functions that a module defines or imports."""
    names = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    imports = [node for node in module.body if isinstance(node, ast.ImportFrom)]
    return names | {each.asname or each.name for node in imports for each in node.names}
