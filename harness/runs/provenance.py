"""Which code a result depends on, as one word: to know a finished run again by its content.

A run's events depend on the topologies, workloads and agents, of the plans and policies only on its
own, on what of the harness its session imports, on the files that a workload names, on the kernel
and on the packages. Its tables and verdict depend on what the report imports. Nothing else does: a
change of the command line, or of another plan, makes no run out of date.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import platform
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from trunkline.harness.config.paths import PACKAGE
from trunkline.harness.kernel import build
from trunkline.harness.record import run_folder
from trunkline.harness.scenario.settings import Outputs, Scenario

CHOSEN_BY_NAME = ("agents", "topologies", "workloads")
"""Packages any file of which a scenario may choose."""

CHOSEN_ALONE = ("agents/plans", "agents/policies")
"""Folders of these of which a run needs only the file that it chose, and what that imports."""

SESSION = (
    "trunkline.harness.session.run_session",
    "trunkline.harness.kernel.boot",
    "trunkline.harness.kernel.guest",
)
REPORT = ("trunkline.harness.report.outputs",)


def identify_run(scenario: Scenario) -> str:
    """Equal for two runs that must have the same events: a hash of all that they depend on.

    The scenario's name, description and wish for plots are no part of it. On the real clock the
    events differ all the same.
    """
    bare = replace(scenario, name="", description="", outputs=Outputs())
    workload = scenario.workload
    found = getattr(workload.module, "files", None)
    files = found(**workload.options) if found else ()
    parts = [
        repr(bare).encode(),
        _describe_machinery().encode(),
        hash_code(list_entries(scenario)).encode(),
    ]
    return _hash([*parts, *(file.read_bytes() for file in files)])


def list_entries(scenario: Scenario) -> tuple[str, ...]:
    """The modules that a run starts from; of a user's own file, what it imports."""
    scheme = scenario.scheme
    needed = (name for text in scenario.code.values() for name in _list_imports(text))
    chosen = (
        f"trunkline.agents.plans.{scheme.plan.kind}",
        f"trunkline.agents.policies.{scheme.policy.kind}",
    )
    return (*SESSION, *chosen, *needed)


@functools.cache
def hash_code(entries: tuple[str, ...]) -> str:
    """A hash of what any scenario may choose and of all of ours that these modules import."""
    alone = [PACKAGE / folder for folder in CHOSEN_ALONE]
    named = {file for package in CHOSEN_BY_NAME for file in _list_files(PACKAGE / package)}
    files = {file for file in named if file.parent not in alone} | find_imports(entries)
    return _hash(
        part
        for file in sorted(files)
        for part in (str(file.relative_to(PACKAGE)).encode(), file.read_bytes())
    )


def find_imports(entries: Iterable[str]) -> set[Path]:
    """The files of these modules and of all of ours that they import, directly or not."""
    waiting, found = list(entries), set()
    while waiting:
        file = _find_file(waiting.pop())
        if file is not None and file not in found:
            found.add(file)
            waiting += _list_imports(file.read_text())
    return found


def _describe_machinery() -> str:
    packages = [f"{name} {run_folder.version(name)}" for name in run_folder.PACKAGES]
    return " ".join([str(build.path()), platform.python_version(), *packages])


def _list_imports(source: str) -> Iterator[str]:
    """Every name that a program imports, wherever it does: a module, or something in one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _find_file(module: str) -> Path | None:
    """The file of a module of ours; None for anything else."""
    parts = module.split(".")
    if parts[0] != PACKAGE.name:
        return None
    path = PACKAGE.joinpath(*parts[1:])
    files = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in files if file.is_file()), None)


def _list_files(folder: Path) -> Iterator[Path]:
    return (p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
