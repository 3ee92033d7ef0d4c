"""Maps of a comparison: at which values of two keys the expectations were met (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trunkline.harness.report.pages.markup import Child, make_scrollable, tag

WORDS = (
    "Each place has the number of trials that met all of the scenario's expectations, of those "
    "that were judged. A trial whose programs failed, or did not end in time, missed them, too. "
    "One in which another check failed or is unknown is not counted."
)


@dataclass(frozen=True, slots=True)
class Map:
    """How many trials met all expectations, over the values of two keys.

    Attributes:
        title: the values of the other keys; empty if there are none.
        down: the key of the rows, in words.
        across: the key of the columns, in words.
        rows: the values of the first key.
        columns: the values of the second key.
        counts: (row, column) -> how many trials met the expectations, of how many.
    """

    title: str
    down: str
    across: str
    rows: Sequence[str]
    columns: Sequence[str]
    counts: Mapping[tuple[str, str], tuple[int, int]]


def format_share(counts: tuple[int, int] | None) -> str:
    """`2 of 3`; `-` if no trial was judged."""
    return f"{counts[0]} of {counts[1]}" if counts and counts[1] else "-"


def write_section(maps: Sequence[Map]) -> list[Child]:
    """A table for each map, whose places have colours."""
    if not maps:
        return []
    return [*(part for shown in maps for part in _write_map(shown)), tag("p", WORDS)]


def _write_map(shown: Map) -> Iterator[Child]:
    head = [tag("th", f"{shown.down} \\ {shown.across}", scope="col")]
    head += [tag("th", column, scope="col", class_="number") for column in shown.columns]
    body = [
        tag(
            "tr",
            tag("th", row, scope="row"),
            [_write_place(shown.counts.get((row, column))) for column in shown.columns],
        )
        for row in shown.rows
    ]
    if shown.title:
        yield tag("h3", shown.title)
    label = f"expectations over {shown.down} and {shown.across}"
    caption = tag("caption", label, class_="unseen")
    table = tag("table", caption, tag("thead", tag("tr", head)), tag("tbody", body), class_="map")
    yield make_scrollable(table, label)


def _write_place(counts: tuple[int, int] | None) -> Child:
    kind = "none"
    if counts and counts[1]:
        kind = {0: "fail", counts[1]: "pass"}.get(counts[0], "unknown")
    return tag("td", format_share(counts), class_=f"number is-{kind}")
