"""How the groups of tasks came together, from made-up logs."""

from trunkline.agents.events.round_events import ComputeStarted, Ready
from trunkline.agents.events.task_events import TaskFinished, TaskStarted
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.explanation_text import describe_wait
from trunkline.harness.report.explanations.waits import find_waits

MS = 1_000_000


def start(at_ms: int, task: int) -> TaskStarted:
    weights = {"n1": 1.0, "n2": 1.0}
    return TaskStarted(at_ms * MS, "controller", task, "", "", ("n1", "n2"), weights, 0.5, 0, 0, {})


def ready(site: str, from_ms: int, to_ms: int) -> tuple[ComputeStarted, Ready]:
    return ComputeStarted(from_ms * MS, site, 1, 0), Ready(to_ms * MS, site, 1)


def explain(*events: ComputeStarted | Ready | TaskFinished | TaskStarted) -> str:
    history = History.of(sorted(events, key=lambda event: event.t_ns))
    return describe_wait(find_waits(history)[7], history)


def test_a_member_that_was_in_a_task_while_others_waited_is_named_with_the_task() -> None:
    early, late = ready("n1", 0, 100), ready("n2", 900, 1100)
    said = explain(*early, TaskFinished(900 * MS, "n2", 3, "", ()), *late, start(1110, 7))
    assert said == (
        "Before it, its group waited up to 1.000 s for n2, which was in task 3 and then computed "
        "for 0.200 s; the controller started it 0.010 s later."
    )


def test_a_member_whose_last_task_ended_before_anyone_waited_only_computed() -> None:
    early, late = ready("n1", 0, 100), ready("n2", 50, 1100)
    said = explain(TaskFinished(40 * MS, "n2", 3, "", ()), *early, *late, start(1110, 7))
    assert said == (
        "Before it, its group waited up to 1.000 s for n2, which had computed for 1.050 s; the "
        "controller started it 0.010 s later."
    )
