"""Where the time of an abandoned task went (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.agents.events.task_events import TaskAbandoned, TaskHalted
from trunkline.harness.record.history import Task
from trunkline.harness.report.explanations.task_time import Part, Run


def divide_abandoned(run: Run, task: Task, fault: int | None) -> Iterator[Part]:
    """The time before a fault, until the controller halted the task, and until it abandoned it.

    `fault` is the number of the fault behind the end, if there is one. The task must have been
    abandoned.
    """
    abandoned, started_ns = task.all(TaskAbandoned)[-1], task.started.t_ns
    halts = [event for event in task.all(TaskHalted) if event.t_ns <= abandoned.t_ns]
    last = halts[-1] if halts else abandoned
    begun_ns = run.faults.find_begin_ns(fault, (started_ns, last.t_ns))
    if begun_ns > started_ns:
        yield Part("before the fault", (begun_ns - started_ns) / 1e9, "", text=f"fault {fault}")
    why = f"{'halted' if halts else 'abandoned'} the task: {run.faults.describe(last.cause, fault)}"
    if silent_s := run.faults.find_silence_s(last.cause, fault, (begun_ns, last.t_ns)):
        why += f" ({silent_s:.3g} s of this were the wait for failover.timeout)"
    since = "from the fault until" if begun_ns > started_ns else "until"
    yield Part("end", (last.t_ns - begun_ns) / 1e9, "", text=f"{since} the controller {why}")
    if halts:
        yield Part("abandonment", (abandoned.t_ns - last.t_ns) / 1e9, "")
