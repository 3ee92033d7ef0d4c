"""HTML and SVG as values (pure).

`tag` is the only way to make an element. It escapes every text and attribute that is not `Html`
already, so text of a user, a file or a program cannot become markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable

UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Characters that HTML does not allow, and those that change the direction of text around them."""

VOID = frozenset({"br", "input", "link", "meta"})
"""Elements without content and without an end tag."""


_WHOLE = re.compile(
    r"\S+(?: <?-> [^\s,;:()]+)+|[+-]?[\d.,]*\d (?:%|s|ms|us|[kMG]?B|[kMG]?bit/s)(?![\w/])"
    r"|\([\d.e+-]+ to [\d.e+-]+\)|[\d.e+-]+ \u00b1 [\d.e+-]+"
)
"""A link, a number with its unit, or one with its interval."""

PROSE = frozenset({"p", "li", "td", "th", "dd", "small", "figcaption"})
"""Elements whose texts keep links and quantities on one line: see `keep_together`."""

_MARKS = frozenset(",;:.)")
"""What stays with the word before it."""

_OPENING = frozenset("([")
"""What stays with the word after it."""

LONG_WORD = 40
"""A word with more letters may be broken."""


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | int | float | None
"""The content of an element: `Html` stays as it is, other text is escaped, None is nothing."""


def tag(element: str, /, *children: Child | Iterable[Child], **attributes: Child | bool) -> Html:
    """Make an element. `class_` is `class`, `aria_label` is `aria-label`; None is left out.

    `tag("a", "<", href="#x")` is `<a href="#x">&lt;</a>`.
    """
    begin = element + "".join(
        f" {_name_attribute(key)}"
        if value is True
        else f' {_name_attribute(key)}="{_escape_text(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if element in VOID:
        return Html(f"<{begin}>")
    content = join(children, keep_together if element in PROSE else escape)
    return Html(f"<{begin}>{content}</{element}>")


def join(
    children: Iterable[Child | Iterable[Child]], write: Callable[[Child], Html] | None = None
) -> Html:
    """Join children; `write` makes markup of each, `escape` unless another is given."""
    return Html(
        "".join(
            (write or escape)(child)
            if child is None or isinstance(child, str | int | float)
            else join(child, write)
            for child in children
        )
    )


def escape(value: Child) -> Html:
    """A value as markup; numbers have up to two digits after the point."""
    if isinstance(value, Html):
        return value
    return Html("" if value is None else _escape_text(value))


def keep_together(text: Child) -> Html:
    """Escape a text; no line breaks within a link (`n1 -> n2`), a quantity or an interval.

    What stands in backticks is code.
    """
    if not isinstance(text, str) or isinstance(text, Html):
        return escape(text)
    words = text.split("`")
    if len(words) % 2 == 0:  # one of them has no other one
        return _keep_whole(text)
    parts = (
        tag("code", keep_words(each)) if number % 2 else _keep_whole(each)
        for number, each in enumerate(words)
    )
    return join(parts)


def _keep_whole(text: str) -> Html:
    """Escape a text whose quantities and links are not to be broken."""
    parts, end = [], 0
    for found in _WHOLE.finditer(text):
        start = found.start()
        while start > end and text[start - 1] in _OPENING:
            start -= 1
        parts.append(text[end:start])
        end = found.end()
        while text[end : end + 1] in _MARKS:
            end += 1
        parts.append(tag("span", text[start:end], class_="whole"))
    return join([*parts, text[end:]])


def keep_words(text: str) -> Html:
    """Escape a text; no line breaks within a word, unless it is long: a command keeps `--set`."""
    shown: list[Child] = []
    for word in text.split(" "):
        shown += [" ", word if len(word) > LONG_WORD else tag("span", word, class_="whole")]
    return join(shown[1:])


def number(value: float) -> str:
    """Write a number with up to two digits after the point: `1.50` is `1.5`, `2.00` is `2`."""
    short = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def make_table(
    heads: Iterable[Child],
    rows: Iterable[Iterable[Child]],
    caption: str,
    numeric: Iterable[int] = (),
) -> Html:
    """A table whose first column names its rows; the columns `numeric` are right-aligned."""
    right = frozenset(numeric)

    def cell(kind: str, column: int, value: Child, scope: str | None) -> Html:
        return tag(kind, value, scope=scope, class_="number" if column in right else None)

    head = [cell("th", column, value, "col") for column, value in enumerate(heads)]
    body = [
        tag(
            "tr",
            *(
                cell("td" if column else "th", column, value, None if column else "row")
                for column, value in enumerate(row)
            ),
        )
        for row in rows
    ]
    made = tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag("thead", tag("tr", head)),
        tag("tbody", body),
    )
    return make_scrollable(made, caption)


def make_scrollable(content: Html, label: str) -> Html:
    """Make content that may be wider than the window scrollable, with the keyboard too."""
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def _escape_text(value: Child) -> str:
    """Escape a value, even `Html`: an attribute holds text."""
    shown = number(value) if isinstance(value, float) else str(value)
    return html.escape(UNFIT.sub("\ufffd", shown))


def _name_attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
