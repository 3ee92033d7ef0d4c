"""Generate `docs/reference/api.md` from the docstrings of the public modules (pure).

`trunkline schema --api` prints it, and a test compares the file with it. The public modules are
loaded by name: no other folder may import them.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

MODULES = ("topology", "plan", "policy", "workload", "program")
"""The public modules, as `trunkline.NAME`."""

SECTION = re.compile(r"(Args|Attributes|Options|Returns|Raises|Yields):")
ENTRY = re.compile(r"(\w[\w., ]*): (.*)")
LENGTH = 88
"""The longest signature in one line."""


def write_api() -> str:
    """The text of the page."""
    parts = [_HEAD]
    for name in MODULES:
        module = importlib.import_module(f"trunkline.{name}")
        parts += [f"## trunkline.{name}", "", *_write_doc(module), ""]
        for each in module.__all__:
            parts += [f"### {each}", "", *_write_object(module, each), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _write_object(module: ModuleType, name: str) -> Iterator[str]:
    found = getattr(module, name)
    if inspect.ismodule(found):
        yield from _write_doc(found)
        return
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        yield from _write_code(f"{name} = {_format_type(found)}")
        return
    prefix = "class " if inspect.isclass(found) else ""
    yield from _write_code(prefix + _write_signature(name, found))
    yield from ("", *_write_doc(found))
    if inspect.isclass(found):
        members = list(_list_members(found))
        yield from ("", *members) if members else ()


def _list_members(found: type) -> Iterator[str]:
    """A line for each public method and property of the class that has a docstring."""
    for name, member in vars(found).items():
        function = member.fget if isinstance(member, property) else member
        function = getattr(function, "__func__", function)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        text = " ".join(inspect.cleandoc(function.__doc__).split("\n\n")[0].split())
        shown = name if isinstance(member, property) else _write_signature(name, function)
        yield f"- `{' '.join(shown.split())}`: {text}"


def _write_signature(name: str, found: Any) -> str:
    """The signature as one writes it; one parameter per line if it is long."""
    if inspect.isclass(found) and (
        issubclass(found, (Exception, enum.Enum)) or getattr(found, "_is_protocol", False)
    ):
        return name
    signature = inspect.signature(found)
    kept = [
        _clean(each) for key, each in signature.parameters.items() if key not in ("self", "cls")
    ]
    if inspect.isclass(found):
        signature = signature.replace(return_annotation=signature.empty)
    text = _unquote(f"{name}{signature.replace(parameters=kept)}")
    if len(text) <= LENGTH:
        return text
    end = _unquote(str(signature.replace(parameters=[]))).removeprefix("()")
    star = ["*"] * any(each.kind is each.KEYWORD_ONLY for each in kept)
    before = [str(each) for each in kept if each.kind is not each.KEYWORD_ONLY]
    after = [str(each) for each in kept if each.kind is each.KEYWORD_ONLY]
    inner = _unquote(",\n    ".join([*before, *star, *after]))
    return f"{name}(\n    {inner},\n){end}"


def _unquote(signature: str) -> str:
    """A signature without quotes around its types."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature).replace("= Ellipsis", "= ...")


def _clean(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter; a default without a readable form is `...`."""
    default = parameter.default
    if default is not parameter.empty and (
        dataclasses.is_dataclass(default) or repr(default).startswith("<")
    ):
        return parameter.replace(default=...)
    return parameter


def _format_type(found: Any) -> str:
    text = re.sub(r"\b(?:[a-z_0-9]+\.)+", "", str(found))
    return text.replace("'", "")


def _write_doc(found: Any) -> Iterator[str]:
    """The docstring as Markdown: its sections become lists."""
    text = inspect.cleandoc(found.__doc__ or "")
    for paragraph in re.split(r"\n\n", text):
        lines = paragraph.split("\n")
        if SECTION.fullmatch(lines[0]):
            yield f"{lines[0]}"
            yield ""
            yield from _write_entries(textwrap.dedent("\n".join(lines[1:])).split("\n"))
        elif all(line.startswith("    ") for line in lines):
            yield from _write_code(textwrap.dedent(paragraph))
        else:
            yield from lines
        yield ""


def _write_entries(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if found := ENTRY.fullmatch(line):
            yield f"- `{found[1]}`: {found[2]}"
        else:
            yield f"  {line.strip()}"


def _write_code(text: str) -> Iterator[str]:
    yield from ("```text", text, "```")


_HEAD = """\
# Python interface

What your own files beside a scenario import ([own.md](../own.md), [tutorial](../tutorial.md)).
`trunkline schema --api` writes this page from the docstrings.
"""
