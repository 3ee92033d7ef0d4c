"""Rows of tables: each column is declared once, as a field of the class of its rows (pure).

The end of a column's name is its unit: `_s` is seconds, `_mbps` is Mbit/s. Unknown values are None,
and empty in the table. Times are seconds since the run's start on the run's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

import pandas as pd

from trunkline.harness.config.units import DIMENSIONS

KINDS: Mapping[str, str] = {
    "bool": "bool",
    "str": "str",
    "float": "float64",
    "float | None": "float64",
    "int": "int64",
    "int | None": "Int64",
}
"""The type of a field -> the type of its column in pandas."""


class Column(NamedTuple):
    """The type of a column in pandas, and its meaning."""

    kind: str
    meaning: str


def column(meaning: str, *, default: Any = MISSING) -> Any:
    """A field that is a column."""
    return field(default=default, metadata={"meaning": meaning})


def columns_of(part: type[Columns]) -> Any:
    """A field that stands for all columns of `part`; they are empty if it is None."""
    return field(metadata={"part": part})


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(column, columns_of)
)
class Columns:
    """Columns and their values."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def columns(cls) -> dict[str, Column]:
        """The columns by name, in order."""
        found: dict[str, Column] = {}
        for each in fields(cls):  # type: ignore[arg-type]
            if part := each.metadata.get("part"):
                found |= part.columns()
            else:
                found[each.name] = Column(KINDS[str(each.type)], each.metadata["meaning"])
        return found

    def values(self) -> Iterator[tuple[str, Any]]:
        """The names and values of its columns; a part that is None is in no column."""
        for name, value in vars(self).items():
            if isinstance(value, Columns):
                yield from value.values()
            else:
                yield name, value


class Row(Columns):
    """A row of a table. The docstring of each class tells what has a row.

    `every` has all classes by the names of their tables.
    """

    table: ClassVar[str]
    every: ClassVar[dict[str, type[Row]]] = {}

    def __init_subclass__(cls, table: str) -> None:
        cls.table = table
        Row.every[table] = cls
        super().__init_subclass__()

    @classmethod
    def frame(cls, rows: Iterable[Self]) -> pd.DataFrame:
        """Make a data frame; order and types of columns are the same even without rows."""
        types = {name: kind for name, (kind, _) in cls.columns().items()}
        made = [dict(row.values()) for row in rows]
        return pd.DataFrame(made, columns=list(types)).astype(types)


def to_s(time_ns: int | None) -> float | None:
    """Nanoseconds as seconds; None stays None."""
    return None if time_ns is None else time_ns / 1e9


UNITS: Mapping[str, str] = {
    "mbps": "Mbit/s",
    "ms": "ms",
    "s": "s",
    "bytes": "bytes",
    "percent": "%",
}
"""The end of a column's name -> its unit."""


def find_unit(column: str) -> str:
    """The unit of a column; empty for a count or a text."""
    if column.startswith("bytes"):
        return UNITS["bytes"]
    if column.endswith("_per_s"):
        return "per second"
    ends = (dimension.suffix for dimension in DIMENSIONS)
    return next((UNITS[end] for end in ends if f"_{column}".endswith(f"_{end}")), "")
