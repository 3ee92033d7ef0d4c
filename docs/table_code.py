"""The code that a table of numbers depends on, as a hash and as a commit.

The code of a table is

- its commands, the values that the figure varies, the schemes, and the scenario without comments;
- what the results depend on: the modules that the fluid model, the run or the script imports, and
  of the plans, policies, topologies and workloads those that the command or the scenario names.

Docstrings, comments and empty lines are left out. So new wording does not make a table out of date.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import re
import subprocess
import tokenize
from collections.abc import Iterable
from pathlib import Path

from marked_tables import Marker
from table_commands import MEASURED, ROOT, find_script, read_study

from trunkline.harness.config import document
from trunkline.harness.config.paths import SCENARIOS
from trunkline.harness.runs import provenance
from trunkline.harness.scenario.named_schemes import SCHEMES

BY_NAME = ("agents/plans", "agents/policies", "topologies", "workloads")
"""Folders of which a table depends only on the files that its command or scenario names."""

WORD = r"[\w.-]+"


def hash_table(marker: Marker) -> str:
    """Eight digits of a hash over the commands of a table and the code that they depend on."""
    parts = []
    for command in marker.commands:
        files, facts = find_dependencies(command)
        parts += [command, *facts, *(read_code(file) for file in files)]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:8]


@functools.cache
def find_dependencies(command: str) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The files of code that a command depends on, and texts that describe its scenarios."""
    if command.startswith("trunkline "):
        study = read_study(command)
        facts = [str(cell) for cell in study.cells]
        facts += [_describe(file) for file in (study.scenario,) if file is not None]
        names = _find_names(f"{command} {facts}")
        files = _find_code(study.entries, names)
    else:
        script = find_script(command)
        text = script.read_text()
        said = _find_names(f"{command} {text}")
        facts = [_describe(file) for file in sorted(SCENARIOS.rglob("*.yaml")) if file.name in said]
        names = _find_names(f"{command} {text} {facts}")
        files = [script, *_find_script_code(script, text, names)]
    facts += [repr(SCHEMES[name]) for name in sorted(names & set(SCHEMES))]
    return tuple(files), tuple(facts)


def _describe(scenario: Path) -> str:
    """A scenario without its comments and description."""
    data = document.read(scenario.read_text(), str(scenario)).data
    return repr({key: value for key, value in data.items() if key != "description"})


def _find_names(text: str) -> set[str]:
    """All words of a text, and those of the schemes that it names."""
    words = set(re.findall(WORD, text))
    schemes = " ".join(repr(SCHEMES[word]) for word in words & set(SCHEMES))
    return words | set(re.findall(WORD, schemes))


def _find_script_code(script: Path, text: str, names: set[str]) -> list[Path]:
    """What a script imports; what runs depend on, too, if it may start one."""
    imported = provenance.list_imports(text)
    beside = [file for name in imported if (file := script.with_name(f"{name}.py")).is_file()]
    entries = {
        *imported,
        *(each for f in beside for each in provenance.list_imports(f.read_text())),
    }
    found = _find_code(entries, names)
    if any(file.parent.name == "runs" for file in found):
        found = _find_code((*entries, *MEASURED), names)
    return [*beside, *found]


def _find_code(entries: Iterable[str], names: set[str]) -> list[Path]:
    """The imported files, and of those that are found by name the ones that are named."""
    named = [
        f"trunkline.{folder.replace('/', '.')}.{file.stem}"
        for folder in BY_NAME
        for file in sorted((ROOT / folder).glob("*.py"))
        if file.stem in names
    ]
    return sorted(provenance.find_imports([*entries, *named]))


@functools.cache
def read_code(file: Path) -> str:
    """A program without docstrings, comments and empty lines; the same on every Python."""
    text = file.read_text()
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for row in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[row] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def find_commit(marker: Marker) -> str:
    """The last commit that changed the code of a table; with `+` if it has changed since."""
    files = {file.resolve() for each in marker.commands for file in find_dependencies(each)[0]}
    paths = ["--", *sorted(map(str, files))]
    last = _ask_git("log", "-1", "--format=%h", *paths) or "none"
    return last + "+" * bool(_ask_git("status", "--porcelain", *paths))


def _ask_git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
