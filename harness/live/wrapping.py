"""Breaks long lines between words, where a terminal would break them within a word."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap

_FIRST_COLUMN = re.compile(r"\S+(?: \S+)* {2,}")


def wrap_lines(text: str, width: int) -> str:
    """The text with lines of at most `width` columns, if its words allow it.

    What continues a line of a table stands below its second column.
    """
    return "".join(
        line if len(line) <= width else _wrap(line, width)
        for line in text.splitlines(keepends=True)
    )


def _wrap(line: str, width: int) -> str:
    first = _FIRST_COLUMN.match(line)
    indent = len(first[0]) if first and len(first[0]) <= width // 2 else 0
    wrapped = textwrap.fill(
        line.rstrip("\n"),
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped + "\n" * line.endswith("\n")


def fit_terminal(text: str) -> str:
    """The text with lines that fit the terminal, if the output is one."""
    if not sys.stdout.isatty():
        return text
    return wrap_lines(text, shutil.get_terminal_size().columns)
