"""The section on what faults cost, and on why tasks were slow (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trunkline.harness.config.units import count_of
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.costs.measured_costs import TASK_TITLES, TITLES, Measured
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.told.choice import Chosen, choose
from trunkline.harness.report.explanations.told.explanation_text import (
    describe_measured,
    list_paragraphs,
    list_parts,
)
from trunkline.harness.report.explanations.told.lost_time_bars import draw_lost_time
from trunkline.harness.report.pages.frame import fold
from trunkline.harness.report.pages.markup import Child, Html, make_table, tag

SHOWN = 5
"""The most tasks that the page explains."""


def explain_lost_time(
    found: list[Explanation],
    history: History,
    run: Iterable[str] = (),
    faults: Iterable[str] = (),
    measured: Measured | None = None,
) -> list[Child]:
    """Say what each fault cost, and explain notable tasks; nothing without any.

    `run` and `faults` have what the command says of the whole run, and of each fault. Tasks that
    failed come first, then those that lost most time. `measured` is what faults cost the run.
    """
    costs = [tag("li", each) for each in faults]
    is_slow = any(each.is_notable for each in found)
    if not costs and not is_slow:
        return []
    words = (
        "The parts of a task's time are those of its critical path: the chain of transfers that "
        "decided when it ended. Those that lost most time come first, then those that failed. ",
        tag("code", "trunkline explain RUN ", tag("span", "--task N", class_="whole")),
        " explains any task.",
    )
    shown = choose(found, SHOWN) if is_slow else []
    explained = (tag("div", *_explain(each, history, measured), class_="slow") for each in shown)
    return [
        draw_lost_time(found, history),
        *(tag("p", each) for each in run),
        tag("ul", costs) if costs else None,
        None if measured is None else _tabulate(measured),
        *([tag("p", *words), *explained] if is_slow else []),
    ]


def _tabulate(measured: Measured) -> Html:
    rows = list(measured.list_rows())
    columns = range(1, len(TITLES))
    what = f"The run without some of its faults: {count_of(len(rows) - 1, 'run')}"
    return fold(what, make_table(TITLES, rows, "outcomes", columns), file="trunkline explain")


def _explain(chosen: Chosen, history: History, measured: Measured | None) -> Iterator[Html]:
    found = chosen.explained
    first, *rest = [*list_paragraphs(found, history), *filter(None, [chosen.describe_alike()])]
    yield tag("p", first)
    yield from (tag("p", each, class_="facts") for each in rest)
    if rows := list(list_parts(found, history)):
        table = make_table(("took (s)", "share", "cause"), rows, "causes", (0, 1))
        what = "The critical path" if found.steps else "Its time"
        yield fold(
            f"{what} in numbers: {count_of(len(rows), 'part')}",
            table,
            file="trunkline explain",
        )
    if measured is not None:
        table = make_table(
            TASK_TITLES, measured.list_task_rows(found.task.number), "outcomes", (1, 2, 3)
        )
        if said := describe_measured(found, measured):
            yield tag("p", said, class_="facts")
        what = f"Task {found.task.number} without some of the faults"
        yield fold(what, table, file="trunkline explain")
