"""Which fault is behind the wait before a task (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trunkline.agents.events.connection_events import WorkerFound, WorkerLost
from trunkline.harness.record.history import Task
from trunkline.harness.report.explanations.late_messages import find_late_word, find_silence
from trunkline.harness.report.explanations.task_time import Run
from trunkline.harness.report.explanations.wait_reasons import HEARD
from trunkline.harness.report.explanations.waits import LATE, Wait

UNHEARD_NS = 200_000_000
"""A site that was ready for a shorter time may just have had its message on the way."""

LEAST_S = 0.001
"""A shorter time in which the controller did not hear of a site is not explained."""


def add_fault(run: Run, task: Task, wait: Wait) -> Wait:
    """The wait with the fault behind its reason, or with a late or lost message as its reason.

    Of the sites that the controller should have heard of, it has those that a fault silenced.
    """
    silenced = (
        replace(each, fault=run.faults.find_behind_silence(each.site, wait.span[1]))
        for each in wait.unheard
        if wait.push is None and wait.span[1] - each.ready_ns >= UNHEARD_NS
    )
    unheard = tuple(each for each in silenced if each.fault is not None)
    return _add_reason(run, task, replace(wait, unheard=unheard))


def _add_reason(run: Run, task: Task, wait: Wait) -> Wait:
    if wait.reason:
        waited_ms = wait.decide_s * 1e3

        def enough(before_ms: float, after_ms: float) -> bool:
            """A message is later by the difference; what takes many round trips, by its share."""
            return after_ms - before_ms >= LATE * min(waited_ms, after_ms)

        fault = run.faults.find_behind(wait.cause, wait.names, wait.span, enough)
        lost = "".join(_list_lost(run, task, wait)) if wait.postponed else ""
        return replace(wait, fault=fault, reason=wait.reason + lost)
    site, ready_ns = wait.heard
    late = None
    if wait.push is None:
        late = find_late_word(run, site, run.centre_of(task)[1], ready_ns)
    silent = find_silence(run, task, site, wait.span)
    least_s = max(LATE * wait.decide_s, LEAST_S)
    causes = [cause for cause in (late, silent) if cause and cause.seconds >= least_s]
    if not causes:
        return wait
    cause = max(causes, key=lambda part: part.seconds)
    after = ", and then TCP was silent" * (cause.seconds < wait.decide_s - LEAST_S)
    what = {
        "delay": f"the delay of {cause.where} was {cause.text}",
        "outage": f"{cause.where} was cut for {cause.seconds:.3f} s{after}",
        "stop": f"the controller was stopped for {cause.seconds:.3f} s",
    }[cause.cause]
    return replace(wait, reason=f"{HEARD} {site} late: {what}", fault=cause.fault)


def _list_lost(run: Run, task: Task, wait: Wait) -> Iterator[str]:
    """The sites of a task that counted as lost when its group was postponed, and until when."""
    t_ns = wait.postponed[-1].t_ns
    for site in task.started.group:
        news = [e for e in run.history.all(WorkerLost, WorkerFound) if e.worker == site]
        before = max((e for e in news if e.t_ns <= t_ns), key=lambda e: e.t_ns, default=None)
        if isinstance(before, WorkerLost):
            found = (e.t_ns for e in news if isinstance(e, WorkerFound) and e.t_ns > t_ns)
            back_ns = min(found, default=None)
            until = "" if back_ns is None else f" until {back_ns / 1e9:.3f} s"
            yield f"; {site} counted as lost{until}"
