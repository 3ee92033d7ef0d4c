"""The table of a comparison's cells, for the terminal and the page (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console, ConsoleOptions, Group
from rich.table import Table
from rich.text import Text

from trunkline.harness.report.pages.comparison.comparison_page import Cells
from trunkline.harness.report.pages.comparison.maps_section import format_share
from trunkline.harness.report.pages.comparison.means_section import (
    format_interval,
    format_number,
    format_ratio,
)
from trunkline.harness.study import comparison, expectation_maps, mixed_machines
from trunkline.harness.study.comparison import (
    COUNTED,
    MET,
    MISSED,
    OVER_PREDICTION,
    PREDICTED,
    REFERENCE,
    VERDICTS,
    format_keys,
)

RATIOS: Mapping[str, tuple[str, str]] = {
    "task time, s": ("task times", "task_s"),
    "rounds per worker": ("rounds", "rounds"),
    "time to the target, s": ("times to the target", "target_s"),
    "time to the best, s": ("times to the best", "converged_s"),
    "until the stop, s": ("times until the stop", "window_s"),
}
"""The title of a column of the table -> what the ratio beside it is of, and its metric."""

RATIO = "ratio of "
"""How the titles of columns of ratios begin."""

LEAST_RATIO = 1e-9
"""Ratios that differ less from 1 do so by rounding only."""

GAP = 2
"""Letters between two columns of the terminal's table."""

HEAD = 10
"""The letters that the head of a column there may have in a line, if they do not fit elsewhere."""

PLACE = "place"
"""The number of a cell's row, from 0, beside its numbers."""


def draw_table(cells: pd.DataFrame, keys: Sequence[str]) -> Group:
    """The summary as a table for the terminal; a line below says what is the same in all rows."""
    heads, rows = format_cells(cells, keys)
    same = [
        n
        for n in range(len(keys) + 1, len(heads))
        if len(rows) > 1 and len({row[n] for row in rows}) == 1
    ]
    left = [n for n in range(len(heads)) if n not in same]
    shown = _Fitted([heads[n] for n in left], [[row[n] for n in left] for row in rows], len(keys))
    words = "; ".join(f"{heads[n]}: {rows[0][n]}" for n in same)
    lines = [Text(f"the same in all: {words}")] if same else []
    if reference := _describe_reference(cells, keys, heads):
        lines.append(Text(f"ratios are taken trial by trial; 1 is {reference}"))
    return Group(shown, *lines)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A table that is cut into tables below each other where the terminal is too narrow for it.

    Each of them begins with the first `names` columns. Cells of numbers have one line.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | str]:
        """Draw the tables, with an empty line between them."""
        names = range(self.names)
        widths = [self._measure(n, len(self.heads[n])) for n in range(len(self.heads))]
        if sum(widths) + GAP * len(widths) > options.max_width:
            widths = [self._measure(n, HEAD) for n in range(len(self.heads))]
        room = options.max_width - sum(
            min(widths[n], options.max_width // (2 * self.names)) + GAP for n in names
        )
        parts: list[list[int]] = [[]]
        for n in range(self.names, len(self.heads)):
            if parts[-1] and sum(widths[m] + GAP for m in (*parts[-1], n)) > room:
                parts.append([])
            parts[-1].append(n)
        for part in parts:
            if part is not parts[0]:
                yield ""
            shown = Table(box=None, padding=(0, GAP, 0, 0))
            for n in (*names, *part):
                is_name = n < self.names
                shown.add_column(
                    self.heads[n],
                    justify="left" if n <= self.names else "right",
                    overflow="fold",
                    width=None if is_name else min(widths[n], options.max_width),
                )
            for row in self.rows:
                shown.add_row(*(row[n].replace("[", r"\[") for n in (*names, *part)))
            yield shown

    def _measure(self, column: int, least: int) -> int:
        """The letters that a column needs: `least` for its head, which may have several lines."""
        head = self.heads[column]
        words = [min(len(head), least), *map(len, head.split())]
        return max(*words, *(len(row[column]) for row in self.rows))


def _describe_reference(cells: pd.DataFrame, keys: Sequence[str], heads: Sequence[str]) -> str:
    """The cell whose ratios are 1, in words, if the table has ratios."""
    has_ratios = any(head.startswith(RATIO) for head in heads)
    return comparison.describe_reference(cells, keys) if has_ratios else ""


def format_cells(cells: pd.DataFrame, keys: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The summary as titles and a row of texts per cell: keys, trials, other keys, measurements.

    Columns without information, such as an accuracy that no trial has, are left out.
    """
    columns = [*_list_other_keys(cells, keys), *_choose_columns(cells, keys)]
    named = zip(cells.to_dict("records"), format_keys(cells, keys), strict=True)
    rows = [
        [*names, _format_verdicts(row), *(text({**row, PLACE: n}) for _, text in columns)]
        for n, (row, names) in enumerate(named)
    ]
    return [*comparison.name_keys(keys), "trials", *(title for title, _ in columns)], rows


def make_cells(
    name: str,
    varied: Sequence[str],
    command: str,
    trials: pd.DataFrame,
    cells: pd.DataFrame,
    keys: Sequence[str],
) -> Cells:
    """What the page shows of all trials; `varied` are all keys, `keys` those that are shown."""
    heads, rows = format_cells(cells, keys)
    names = comparison.name_cells(cells, keys)
    listed = comparison.list_identical, mixed_machines.list_mixed
    remarks = [
        *comparison.list_notes(trials),
        *comparison.list_lacks(cells, names),
        *(line for lines in listed for line in lines(trials, keys)),
    ]
    return Cells(
        name,
        heads,
        rows,
        varied,
        len(trials),
        remarks,
        list(comparison.list_metrics(trials, cells, keys, names)),
        maps=list(expectation_maps.list_maps(cells, keys)),
        names=names,
        missing=int((trials["verdict"] == "missing").sum()),
        command=command,
        reference=_describe_reference(cells, keys, heads),
        problems=list(comparison.list_bad_trials(trials, keys)),
    )


def _format_verdicts(row: Mapping[Any, Any]) -> str:
    """`10` if all trials passed, otherwise `10: 8 pass, 2 fail`."""
    passed, trials = _count_trials(row)
    if passed == trials:
        return str(row["trials"])
    return f"{row['trials']}: " + ", ".join(f"{row[v]} {v}" for v in VERDICTS if row[v])


Writer = Callable[[Mapping[Any, Any]], str]


def _list_other_keys(cells: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[str, Writer]]:
    """The keys of the grid that are not shown, because they have only one value."""
    for column in map(str, list(cells)[: list(cells).index("trials")]):
        if column not in keys:
            yield column, partial(_get_text, column)


def _get_text(column: str, row: Mapping[Any, Any]) -> str:
    return str(row[column])


def _choose_columns(cells: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[str, Writer]]:
    """Title and formatter of each column of numbers that has information."""
    several = bool(keys) and cells[keys[0]].nunique() > 1
    columns: list[tuple[str, str, Writer]] = [
        ("task_s", "task time, s", make_mean_formatter("task_s")),
        ("estimate_s", "expected task time, s", _format_expected),
        ("bound_s", "bound, s", lambda row: _format(row["bound_s"])),
        *_list_predicted("task_s", "task time, s"),
        ("rounds", "rounds per worker", make_mean_formatter("rounds")),
        *_list_predicted("rounds", "rounds"),
        ("bytes_sent", "sent, MB", lambda row: _format(row["bytes_sent"] / 1e6)),
        ("abandoned", "abandoned", lambda row: _format(row["abandoned"])),
        (MET, "expectations met", lambda row: format_share((row[MET], row[MET] + row[MISSED]))),
        ("computing_percent", "computing, %", make_mean_formatter("computing_percent")),
        ("accuracy_percent", "accuracy, %", make_mean_formatter("accuracy_percent")),
        ("target_reached", "time to the target, s", _format_target),
        ("best_accuracy_percent", "best accuracy, %", make_mean_formatter("best_accuracy_percent")),
        ("converged", "time to the best, s", _format_converged),
        ("accuracy_percent", "until the stop, s", make_mean_formatter("window_s")),
    ]
    for column, title, text in columns:
        if column not in cells or not cells[column].notna().any():
            continue
        if column in ("abandoned", "rounds") and not cells[column].fillna(0).any():
            continue
        yield title, text
        what, metric = RATIOS.get(title, ("", ""))
        if several and what and _differs(cells[f"{metric}_ratio"]):
            yield f"{RATIO}{what}", make_ratio_formatter(metric)


def _differs(ratios: pd.Series[float]) -> bool:
    """Whether some ratio is not 1: the numbers themselves say that they are equal."""
    return bool(((ratios - 1).abs() > LEAST_RATIO).any())


def _list_predicted(metric: str, title: str) -> list[tuple[str, str, Writer]]:
    """The columns of a prediction: its mean, and the measured value over it."""
    mean, ratio = f"{PREDICTED}{metric}", f"{metric}{OVER_PREDICTION}"
    what = title.partition(",")[0]
    return [
        (mean, f"predicted {title}", make_mean_formatter(mean)),
        (ratio, f"measured / predicted {what}", make_ratio_formatter(metric, OVER_PREDICTION)),
    ]


def make_mean_formatter(column: str) -> Writer:
    """Make a function that formats a cell's mean of this column and half its interval."""

    def text(row: Mapping[Any, Any]) -> str:
        mean = row[column]
        half = row[f"{column}_high"] - mean
        trials = _count_trials(row)
        return "-" if np.isnan(mean) else format_interval(mean, half, *trials)

    return text


def make_ratio_formatter(column: str, kind: str = "_ratio") -> Writer:
    """Make a function that formats a cell's ratio of this metric with its interval."""

    def text(row: Mapping[Any, Any]) -> str:
        mean, low, high = (row[f"{column}{kind}{end}"] for end in ("", "_low", "_high"))
        shown = "-" if np.isnan(mean) else format_ratio(mean, low, high, *_count_trials(row))
        is_reference = kind == "_ratio" and row.get(PLACE, -1) == row.get(REFERENCE)
        return f"{shown} (ref)" if is_reference and shown == "1" else shown

    return text


def _count_trials(row: Mapping[Any, Any]) -> tuple[int, int]:
    """How many trials of a cell are averaged, of how many."""
    return sum(int(row.get(verdict, 0)) for verdict in COUNTED), int(row.get("trials", 1))


def _format_target(row: Mapping[Any, Any]) -> str:
    return _format_some(row, "target_s", row["target_reached"], "not held")


def _format_converged(row: Mapping[Any, Any]) -> str:
    return _format_some(row, "converged_s", row["converged"], "still making progress")


def _format_some(row: Mapping[Any, Any], column: str, share: float, none: str) -> str:
    """The mean time of those trials that have one; of how many, if only a `share` has; or `none`.

    The mean says nothing of the others.
    """
    passed, _ = _count_trials(row)
    reached = 0.0 if np.isnan(share) else share
    text = make_mean_formatter(column)(row) if reached else none
    some = f" in {round(reached * passed)} of {passed}" if 0 < reached < 1 else ""
    return f"{text}{some}"


def _format_expected(row: Mapping[Any, Any]) -> str:
    return _format(row["estimate_s"] + row["latency_s"])


def _format(value: float) -> str:
    return "-" if np.isnan(value) else format_number(value)
