"""What is left of a transfer's time when no cause that is known has more of it (pure).

It is TCP, or queues. A fault or background traffic may be behind it, also when it is over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING

from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.payload.byte_checks import count_planned
from trunkline.harness.record.history import Task
from trunkline.harness.record.lives import Interval
from trunkline.harness.report.explanations.critical_path import PathStep
from trunkline.harness.report.explanations.links.tcp_limits import REMEMBERED_S, SHORTEST_TIMER_S
from trunkline.harness.report.explanations.links.troubles import Trouble
from trunkline.harness.report.explanations.time_parts import Part

if TYPE_CHECKING:
    from trunkline.harness.report.explanations.task_time import Run

REMEMBERED_NS = round(REMEMBERED_S * 1e9)
"""What ended so long before matters no more to TCP."""

MUCH_BACKGROUND = 0.25
"""Background traffic with this share of a link's rate is why others wait in queues there."""


def name_rest(run: Run, task: Task, step: PathStep, left_s: float) -> Iterator[Part]:
    """The causes of what is left of a transfer."""
    if (left := _find_after_effect(run, step, left_s)) is not None:
        yield left
        left_s -= left.seconds
    if left_s > 0:
        yield _name_queue(run, task, step, left_s)


def _find_after_effect(run: Run, step: PathStep, left_s: float) -> Part | None:
    """What an earlier trouble took that left a smaller window than estimated.

    It matters until the connection has carried its link's rate again. Transfers before it tell
    how much is usual.
    """
    ends, span = (step.src, step.site), (step.start_ns, step.end_ns)
    trouble = run.limits.find_after_effect(ends, span)
    if trouble is None or run.connections.was_warm(ends, round(trouble.end_ns), span[0]):
        return None
    usual_s = run.connections.find_usual_s(ends, step.bytes, trouble.start_ns)
    part = run.name_trouble(step, trouble, left_s - usual_s)
    return part if part.seconds > 0 and part.fault is not None else None


def _name_queue(run: Run, task: Task, step: PathStep, left_s: float) -> Part:
    """The cause of what is left of a transfer, by TCP or in queues."""
    ends, span = (step.src, step.site), (step.start_ns, step.end_ns)
    lossy, rare = run.limits.find_losses(ends, span), run.limits.find_lossy(ends, span)
    if lossy is not None:
        return run.name_trouble(step, lossy, left_s)
    if (acting := run.limits.find_acting(ends, span)) is not None:
        return run.name_trouble(step, acting, left_s)
    if (part := _find_background(run, ends, span, left_s)) is not None:
        return part
    is_long = left_s > max(SHORTEST_TIMER_S, step.duration_s / 2)
    if not is_long or (rare is None and not run.history.faults):
        return Part("queueing", left_s, " -> ".join(ends))
    guess = "queues, or a wait that the log does not show"
    guess = f"perhaps {guess}; {_describe_meanwhile(run, task, span)}"
    if rare is not None:
        guess = f"perhaps a lost packet: {' -> '.join(rare.hop)} loses {rare.amount:g} %"
    return Part("unexplained", left_s, " -> ".join(ends), text=guess)


def find_earlier_losses(run: Run, ends: Directed, span: Interval) -> Trouble | None:
    """The link that lost packets of a connection before a span of time, for sure.

    TCP's slow start ended with the first loss: what the connection lost later is due to it.
    """
    since_ns = max(run.connections.find(ends, span[0])[0], span[0] - REMEMBERED_NS, 0)
    return run.limits.find_sure_losses(ends, (round(since_ns), span[0]))


def _find_background(run: Run, ends: Directed, span: Interval, seconds: float) -> Part | None:
    """Much background traffic on a way in a span of time, or before it.

    It fills queues and takes packets of others. What it has left of a connection's window
    matters until the connection has carried its link's rate again.
    """
    for hop in run.list_hops(ends):
        flows = [flow for flow in run.flows if hop in run.list_hops((flow.src, flow.dst))]
        least_mbps = MUCH_BACKGROUND * run.topology.link(*hop).rate_mbps
        begun = [flow for flow in flows if flow.entry.start_s * 1e9 < span[1]]
        if sum(flow.entry.mean_mbps for flow in begun) < least_mbps:
            continue
        until_ns = max((flow.entry.stop_s or math.inf) * 1e9 for flow in begun)
        where = " -> ".join(hop)
        if until_ns > span[0]:
            filled = f"filled the queue of {where}"
            return Part("background traffic", seconds, where, text=filled)
        is_recent = span[0] - REMEMBERED_NS < until_ns
        if is_recent and not run.connections.was_warm(ends, round(until_ns), span[0]):
            left = f"on {where} until {until_ns / 1e9:.3f} s left TCP a small window"
            return Part("background traffic", seconds, where, text=left)
    return None


def _describe_meanwhile(run: Run, task: Task, span: Interval) -> str:
    """The fault that acted on members of a task, or links between them, in a span of time."""
    pairs = [*permutations(task.started.group, 2), *count_planned(task)]
    names = {" -> ".join(hop) for ends in pairs for hop in run.list_hops(ends)}
    return run.faults.describe_meanwhile({*names, *task.started.group}, span)
