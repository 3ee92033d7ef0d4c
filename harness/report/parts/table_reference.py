"""The page of the docs on the tables of a run: `docs/tables.md` (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.report.parts.report_parts import TABLES
from trunkline.harness.report.tables.row import find_unit

TYPES: Mapping[str, str] = {
    "bool": "True or False",
    "str": "text",
    "float64": "number",
    "int64": "whole number",
    "Int64": "whole number",
}
"""The type of a column without a unit -> its words."""


def write_page() -> str:
    """The text of `docs/tables.md`."""
    parts = [_HEAD]
    for row in TABLES:
        parts.append(f"## tables/{row.table}.csv\n\n{' '.join(str(row.__doc__).split())}\n")
        rows = [
            f"| `{name}` | {find_unit(name) or TYPES[column.kind]} | {column.meaning} |"
            for name, column in row.columns().items()
        ]
        parts.append("\n".join(["| column | unit | meaning |", "| --- | --- | --- |", *rows, ""]))
    return "\n".join(parts)


_HEAD = """\
# Tables of a run

Every run folder has `tables/*.csv`, computed from its event log; `trunkline report RUN` writes them
again. One line loads a table:

```python
import pandas as pd

tasks = pd.read_csv("runs/quickstart/latest/tables/tasks.csv")
```

`trunkline.open_run` opens all tables of a run, with their types ([export.md](export.md)).

Times are seconds since the run's start on the run's own clock. Unknown values are empty; pandas
reads them as NaN. Numbers have six digits after the point: microseconds, bits per second.
The tables of a comparison are in [compare.md](compare.md#what-comes-out).

`trunkline schema --tables` writes this page.
"""
