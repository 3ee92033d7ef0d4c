"""Extensions by name: a file in a package, with a function of a given name, is all it takes."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType


class NamedModules(Mapping[str, ModuleType]):
    """The modules of a package that have a function, by name, in the order of their names.

    Each is imported when it is first asked for; a scenario needs a few of many.
    """

    def __init__(self, package: str, folders: Sequence[str], function: str) -> None:
        """`folders` are the package's `__path__`. A module defines or imports the function."""
        self._package = package
        self._folders = folders
        # The text of a file says it sooner than an import of the file.
        imports = rf"from \S+ import (?:\([^)]*|.*)\b{function}\b"
        has = re.compile(rf"^(?:def {function}\b|{function}\b *[:=]|{imports})", re.MULTILINE)
        self._names = tuple(sorted(name for name, text in _read_files(folders) if has.search(text)))

    def __getitem__(self, name: str) -> ModuleType:
        if name not in self._names:
            raise KeyError(name)
        return importlib.import_module(f"{self._package}.{name}")

    def docstrings(self) -> dict[str, str]:
        """The docstring of each module. Their files are parsed and not imported."""
        texts = dict(_read_files(self._folders))
        return {name: ast.get_docstring(ast.parse(texts[name])) or "" for name in self}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _read_files(folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for info in pkgutil.iter_modules([folder]):
            file = f"{info.name}/__init__.py" if info.ispkg else f"{info.name}.py"
            yield info.name, Path(folder, file).read_text(encoding="utf-8")
