"""What a table of numbers depends on, as a hash, and what has moved since it was made.

A table depends on

- its commands, the values that the figure varies, the schemes, and the scenario without comments;
- the code of its script, or of a figure that has a model of its own;
- the results of agents, planner and fluid model, which `reference_results.py` observes.

Docstrings, comments and empty lines are left out. So new wording does not make a table out of date.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path

from marked_tables import Marker
from reference_results import Move, find_moves
from table_commands import find_script, read_study

from trunkline.harness.config import document
from trunkline.harness.config.paths import SCENARIOS
from trunkline.harness.runs import provenance
from trunkline.harness.scenario.named_schemes import SCHEMES

WORD = r"[\w.-]+"
BOTH = frozenset({"fluid", "measured"})


@dataclass(frozen=True, slots=True)
class Basis:
    """What a command depends on.

    Attributes:
        facts: texts that describe its cells, scenarios and schemes.
        files: the code of its script, or of its own model.
        names: all words of the command, its script and its scenarios.
        sides: of which reference results it depends: `fluid`, `measured`, both or none.
    """

    facts: tuple[str, ...]
    files: tuple[Path, ...]
    names: frozenset[str]
    sides: frozenset[str]


def hash_table(marker: Marker) -> str:
    """Eight digits of a hash over the commands of a table, what they vary, and their own code."""
    digest = hashlib.sha256()
    for command in marker.commands:
        basis = find_basis(command)
        for part in (command, *basis.facts, *(read_code(file) for file in basis.files)):
            digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:8]


def list_moves_since(marker: Marker) -> list[Move]:
    """The reference results that have moved since a table was made."""
    bases = [find_basis(command) for command in marker.commands]
    moved = [move for basis in bases for move in find_moves(basis.names, marker.date, basis.sides)]
    return list(dict.fromkeys(moved))


@functools.cache
def find_basis(command: str) -> Basis:
    """What a command depends on. Raises MarkerError if there is no such command."""
    if not command.startswith("trunkline "):
        return _find_script_basis(command)
    study = read_study(command)
    facts = [str(cell) for cell in study.cells]
    facts += [_describe(file) for file in (study.scenario,) if file is not None]
    names = _find_names(f"{command} {facts}")
    files = () if study.scenario else tuple(sorted(provenance.find_imports(study.entries)))
    sides = {"measured"} if study.measures else set()
    if study.scenario is not None and study.fluid:
        sides.add("fluid")
    return Basis((*facts, *_list_schemes(names)), files, frozenset(names), frozenset(sides))


def _find_script_basis(command: str) -> Basis:
    script = find_script(command)
    text = script.read_text()
    imported = provenance.list_imports(text)
    beside = tuple(file for name in imported if (file := script.with_name(f"{name}.py")).is_file())
    said = _find_names(f"{command} {text}")
    facts = [_describe(file) for file in sorted(SCENARIOS.rglob("*.yaml")) if file.name in said]
    names = _find_names(f"{command} {text} {facts}")
    return Basis((*facts, *_list_schemes(names)), (script, *beside), frozenset(names), BOTH)


def _list_schemes(names: set[str]) -> list[str]:
    return [repr(SCHEMES[name]) for name in sorted(names & set(SCHEMES))]


def _describe(scenario: Path) -> str:
    """A scenario without its comments and description."""
    data = document.read(scenario.read_text(), str(scenario)).data
    return repr({key: value for key, value in data.items() if key != "description"})


def _find_names(text: str) -> set[str]:
    """All words of a text, and those of the schemes that it names."""
    words = set(re.findall(WORD, text))
    schemes = " ".join(repr(SCHEMES[word]) for word in words & set(SCHEMES))
    return words | set(re.findall(WORD, schemes))


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
