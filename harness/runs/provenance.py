"""Hashes of what a run's results depend on, to recognize a finished run.

A run's events depend on:

- the scenario and the files that its workload names,
- all topologies, workloads and agents, but only the run's own plan and policy,
- the harness modules that the session imports,
- the embedded kernel, Python and the packages.

Tables and verdict depend on the modules that the report imports. Other changes, such as of the
command line or of another plan, do not make a run out of date.
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
"""Packages of which a scenario may choose any file."""

CHOSEN_ALONE = ("agents/plans", "agents/policies")
"""Folders of these packages in which a run depends only on the file that it chose."""

SESSION = (
    "trunkline.harness.session.run_session",
    "trunkline.harness.kernel.boot",
    "trunkline.harness.kernel.guest",
)
REPORT = ("trunkline.harness.report.outputs",)


def identify_run(scenario: Scenario, session: tuple[str, ...] = SESSION) -> str:
    """A hash of all inputs of a run: equal hashes mean equal events on the virtual clock.

    The modules of the `session` make these events.

    The scenario's name, description and outputs are left out, and which of its values a command
    line gave. Raises OSError if a file of the workload cannot be read.
    """
    bare = replace(scenario, name="", description="", outputs=Outputs(), overrides=())
    workload = scenario.workload
    found = getattr(workload.module, "files", None)
    files = found(**workload.options) if found else ()
    parts = [
        repr(bare).encode(),
        _describe_machinery().encode(),
        hash_code(list_entries(scenario, session)).encode(),
    ]
    return _hash([*parts, *(file.read_bytes() for file in files)])


def list_entries(scenario: Scenario, session: tuple[str, ...] = SESSION) -> tuple[str, ...]:
    """The modules that a run starts from, including those that a user's own files import."""
    scheme = scenario.scheme
    needed = (name for text in scenario.code.values() for name in list_imports(text))
    chosen = (
        f"trunkline.agents.plans.{scheme.plan.kind}",
        f"trunkline.agents.policies.{scheme.policy.kind}",
    )
    return (*session, *chosen, *needed)


@functools.cache
def hash_code(entries: tuple[str, ...]) -> str:
    """A hash of the files that any scenario may choose, and of all that `entries` import."""
    alone = [PACKAGE / folder for folder in CHOSEN_ALONE]
    named = {file for package in CHOSEN_BY_NAME for file in _list_files(PACKAGE / package)}
    files = {file for file in named if file.parent not in alone} | find_imports(entries)
    return _hash(
        part
        for file in sorted(files)
        for part in (str(file.relative_to(PACKAGE)).encode(), file.read_bytes())
    )


def find_imports(entries: Iterable[str]) -> set[Path]:
    """The files of these modules and of all Trunkline modules that they import, transitively.

    What the package itself imports opens finished runs, so it is left out.
    """
    waiting, found = list(entries), set()
    while waiting:
        file = _find_file(waiting.pop())
        if file is not None and file not in found:
            found.add(file)
            waiting += list_imports(file.read_text()) if file != PACKAGE / "__init__.py" else ()
    return found


@functools.cache
def list_imports(source: str) -> tuple[str, ...]:
    """Every name that a program imports anywhere: a module, or a name in one."""
    found: list[str] = []
    for node in _list_statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    return tuple(found)


def _list_statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node's statements and those within them: expressions, which are far more, are left out."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for each in getattr(node, name, ()):
            yield each
            yield from _list_statements(each)


def _describe_machinery() -> str:
    packages = [f"{name} {run_folder.version(name)}" for name in run_folder.PACKAGES]
    return " ".join([build.key(), platform.python_version(), *packages])


@functools.cache
def _find_file(module: str) -> Path | None:
    """The file of a Trunkline module; None for other modules."""
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
        digest.update(len(part).to_bytes(8, "little"))  # so that ["ab"] differs from ["a", "b"]
        digest.update(part)
    return digest.hexdigest()
