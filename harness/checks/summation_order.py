"""The order in which a task's contributions were added, so that checks can repeat the sum (pure).

Floating-point addition is not associative: only the same order gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.agents.events.task_events import TaskRearranged, TaskReplanned
from trunkline.agents.planning import site_plan
from trunkline.agents.planning.plan import Plan
from trunkline.harness.record.history import Task
from trunkline.workloads.base import ELEMENT_BYTES, Order, Term

Ranges = tuple[tuple[int, int], ...]
"""(first, after the last) of ranges of a model's elements."""


def find_orders(task: Task, terms: Mapping[str, Term], elements: int) -> list[tuple[Ranges, Order]]:
    """Ranges of elements, each with the order in which its contributions were added.

    `terms` are the contributions by site, `elements` is the model's length. The result is empty if
    the order is not known: a chunk moved to a block that adds in another order.
    """
    orders: dict[int, site_plan.Order] = {}
    for plan in find_plans(task):
        for block in plan.blocks:
            order = site_plan.summation_order(plan, block)
            for chunk in block.indexes():
                if orders.setdefault(chunk, order) != order:
                    return []
    ranges: dict[site_plan.Order, list[tuple[int, int]]] = {}
    for chunk, order in orders.items():
        span = task.cut.span(chunk)
        ends = (span.start // ELEMENT_BYTES, span.stop // ELEMENT_BYTES)
        ranges.setdefault(order, []).append(ends)
    return [(tuple(spans), _replace_sites(order, terms)) for order, spans in ranges.items()]


def find_plans(task: Task) -> list[Plan]:
    """The plan that made the result, and those whose blocks took over from some of its blocks.

    A task that is planned anew begins again. With a holder, the new plan only passes on a result
    that is already summed.
    """
    forests = [task.started.forest]
    anew = [event for event in task.replanned if event.holder is None]
    changes: list[TaskRearranged | TaskReplanned] = [*task.rearranged, *anew]
    for event in sorted(changes, key=lambda event: event.t_ns):
        if isinstance(event, TaskReplanned):
            forests.clear()
        forests.append(event.forest)
    return list(map(Plan.from_json, forests))


def _replace_sites(order: site_plan.Order, terms: Mapping[str, Term]) -> Order:
    return tuple(terms[e] if isinstance(e, str) else _replace_sites(e, terms) for e in order)
