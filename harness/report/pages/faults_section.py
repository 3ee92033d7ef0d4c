"""The section on faults: what happened when, by both clocks, and what never began (pure)."""

from __future__ import annotations

import pandas as pd

from trunkline.harness.report.faults.fault_layout import LETTERS, shorten
from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.markup import Child, make_table, tag

SHOWN = 100
"""The most faults that the page lists; the table has all."""

SAME_S = 0.0005
"""With less between the two clocks, their times are the same on the page."""


def write_faults(found: pd.DataFrame, begin: str) -> list[Child]:
    """List the faults of the table of that name; nothing if it is empty.

    The timeline's clock starts with the `begin`.
    """
    if not len(found):
        return []
    offsets_s = (found["start_s"] - found["at_s"]).dropna()
    is_one = len(offsets_s) > 0 and offsets_s.abs().max() < SAME_S
    clocks = ("from (s)", "until (s)") if is_one else (
        f"from (s after the {begin})", f"until (s after the {begin})",
        "from (s of the run)", "until (s of the run)",
    )  # fmt: skip
    heads = ("fault", "what", *clocks, "targets")
    rows = []
    for row in found[:SHOWN].to_dict("records"):
        missed = pd.isna(row["start_s"])
        before_s = row["start_s"] - row["at_s"]
        times_s = (row["at_s"], row["end_s"] - before_s, row["start_s"], row["end_s"])
        shown_s = (row["at_s"], row["end_s"]) if is_one else times_s
        targets = charts.truncate(str(row["targets"]), 400) or "all links"
        rows.append(
            (
                charts.format_known(row["fault"]),
                f"{shorten(str(row['text']), LETTERS)}{', by hand' if row['by_hand'] else ''}",
                *(charts.format_known(time_s, ".3f") for time_s in shown_s),
                "did not begin: the run ended before" if missed else targets,
            )
        )
    later = f", {offsets_s.iloc[0]:.3f} s after that of the run" if len(offsets_s) else ""
    words = (
        f"A timeline and the shell count from the start of the {begin}{later}; "
        "charts, evaluations and tables count from the start of the run."
    )
    if is_one:
        words = f"All times count from the start of the run, and the {begin} began with it."
    more = f"The first {SHOWN} of {len(found)}; tables/faults.csv has all."
    return [
        tag("p", words),
        make_table(heads, rows, "faults", (0, *range(2, len(heads) - 1))),
        tag("p", more) if len(found) > len(rows) else None,
    ]
