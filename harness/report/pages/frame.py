"""The frame of every page: head, title, contents, sections, security policy (pure)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trunkline.harness.report.overlay.overlay_section import SCRIPT
from trunkline.harness.report.pages.markup import Child, Html, join, tag

STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")

MARKS = {
    "pass": "✓ pass",
    "unknown": "? unknown",
    "fail": "✗ fail",
    "none": "not applicable",
    "prediction": "≈ prediction, not a run",
}
"""The words for each outcome, with a sign for readers who cannot tell its colour."""

PRINTED_ROWS, PRINTED_LINES = 10, 30
"""The most rows of tables, and lines of text, that are unfolded on paper in any case."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page; `name` is its anchor. A section without content is left out."""

    name: str
    title: str
    content: Sequence[Child]


def write_page(title: str, lead: Iterable[Child], sections: Iterable[Section], end: Child) -> str:
    """A whole page. Its policy forbids loading anything, and any script but its own."""
    shown = [section for section in sections if any(part is not None for part in section.content)]
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} - Trunkline"),
        tag("style", Html(STYLE)),
    )
    links = [tag("li", tag("a", part.title, href=f"#{part.name}")) for part in shown]
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("h1", title), lead),
        tag("nav", tag("ul", links), aria_label="contents"),
        tag(
            "main",
            [tag("section", tag("h2", part.title), part.content, id=part.name) for part in shown],
            id="content",
        ),
        tag("footer", end),
        tag("script", Html(SCRIPT)),
    )
    return join([Html("<!doctype html>\n"), tag("html", head, body, lang="en"), "\n"])


def mark(outcome: str) -> Html:
    """An outcome in words, with its sign and colour."""
    return tag("span", MARKS.get(outcome, outcome), class_=f"is-{outcome}")


def write_tiles(entries: Iterable[tuple[str, str, str]]) -> Html:
    """The key numbers of a run; an entry is (name, value, remark)."""
    return tag(
        "dl",
        [
            tag("div", tag("dt", what), tag("dd", value, tag("small", remark) if remark else None))
            for what, value, remark in entries
        ],
        class_="tiles",
    )


def fold(summary: str, *content: Child, file: str | None = None) -> Html:
    """Content that is folded under its summary.

    On paper, `file` is named instead if it is given and the content is long.
    """
    rows, lines = (sum(str(part or "").count(mark) for part in content) for mark in ("<tr>", "\n"))
    short = rows <= 1 + PRINTED_ROWS and lines <= PRINTED_LINES
    return tag("details", tag("summary", summary, data_file=None if short else file), *content)
