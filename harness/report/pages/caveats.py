"""Reasons why the runs of a comparison are not comparable (pure).

Examples are actions by hand, failed checks and differing scenarios. A comparison shows them above
its pictures, in its table and in its legends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from trunkline.harness.report import manual_actions
from trunkline.harness.report.pages.differences import RunInputs
from trunkline.harness.report.pages.markup import Html, tag
from trunkline.harness.report.pages.run_page import RunData

MAX_LINES = 40
"""The most lines of the warning, the most important first; the rest are counted."""


def write_warning(
    runs: Mapping[str, RunData], givens: Mapping[str, RunInputs], varied: Collection[str]
) -> Html | None:
    """A box that says why the runs are not comparable; None if they are.

    `varied` are the keys that are meant to differ.
    """
    items = list(_list_lines(runs, givens, {key.partition(".")[0] for key in varied}))
    if not items:
        return None
    if len(items) > MAX_LINES:
        items[MAX_LINES:] = [f"and {len(items) - MAX_LINES} more"]
    return tag(
        "div",
        tag("strong", "These runs are not directly comparable"),
        tag("ul", [tag("li", item) for item in items]),
        class_="verdict is-unknown",
    )


def write_marks(data: RunData, clocks: Collection[str]) -> str:
    """The remark behind a run's name, such as ` (fail)`; `clocks` are those of all runs."""
    found: list[str] = [data.verdict.outcome] * (data.verdict.outcome != "pass")
    found += ["by hand"] * bool(manual_actions.list_actions(data.history))
    found += ["real clock"] * (data.scenario.clock == "real" and len(clocks) > 1)
    return f" ({', '.join(found)})" if found else ""


def _list_lines(
    runs: Mapping[str, RunData], givens: Mapping[str, RunInputs], varied: Collection[str]
) -> Iterator[str]:
    first, *_ = givens.values()
    for number, data in enumerate(runs.values(), 1):
        if hand := manual_actions.describe_actions(data.history):
            yield f"Run {number}: by hand: {hand}"
        for problem in data.verdict.problems:
            yield f"Run {number}: {data.verdict.outcome}: {problem}"
    for number, name in enumerate(runs, 1):
        if others := [part for part in givens[name].list_differences(first) if part not in varied]:
            yield f"Run {number}: differs from run 1 in: {', '.join(others)}"
