"""How the group of a task came together, in sentences (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from trunkline.agents.events.task_events import TaskFinished
from trunkline.harness.config.units import count_of, join_words
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.costs.measured_costs import name_group
from trunkline.harness.report.explanations.told.fault_names import name_fault, name_subject
from trunkline.harness.report.explanations.wait_reasons import AGAIN, HEARD
from trunkline.harness.report.explanations.waits import Held, Stretch, Wait

MOST_STRETCHES = 5
"""The most parts of the wait before a task that a summary tells."""

AWAITED_S = 0.1
"""Of a task for which the controller waited for a shorter time nothing is told."""

LATE_END_S = 0.05
"""A controller that hears so much later of the end of a push heard of it late."""

LEAST_S = 0.0005
"""A shorter time is none."""


def describe_wait(number: int, wait: Wait, history: History) -> str:
    """How the group of this task came together."""
    return " ".join(_list_sentences(number, wait, history))


def _list_sentences(number: int, wait: Wait, history: History) -> Iterator[str]:
    last, is_alone = wait.last, len(wait.waited_s) == 1
    first = f"its first member waited {wait.wait_s:.3f} s for {last}, the last"
    if wait.wait_s < LEAST_S:
        first = f"all members were ready at about the same time, {last} last"
    earlier = [] if wait.after is None else [f"was in task {wait.after}"]
    if wait.behind is not None:
        earlier[0] += f", which {_refer(wait.behind, history)} held up"
    if wait.compute_s is not None:
        earlier.append(f"computed for {wait.compute_s:.3f} s")
    if wait.computed_first:
        earlier.reverse()
    until = f"{last} {', then '.join(earlier)}."
    if wait.push is not None and wait.wait_s < LEAST_S:
        who, whose = join_words([*wait.waited_s]), "its" if is_alone else "their"
        ended = f"task {wait.push}, had ended{_name_late_end(wait, history)}"
        yield f"Before task {number}, a pull, {who} waited since {whose} push, {ended}."
    elif is_alone:
        ready = f"{last} was ready at {wait.span[0] / 1e9:.3f} s of the run."
        yield f"Before task {number}, {until if earlier else ready}"
    else:
        yield f"Before task {number}, {first}."
        if earlier:
            yield f"Until then {until}"
    if wait.released:
        yield _describe_released(wait.released)
    if wait.held is not None:
        yield _describe_stop(last, wait.held, history)
    for each in wait.unheard:
        since = f"{each.site} had been ready since {each.ready_ns / 1e9:.3f} s"
        why = name_fault(each.fault, history)
        yield f"{since}, but the controller had not heard of it{why}."
    took = f"{wait.decide_s:.3f}"
    what = f"{last} was ready"
    if wait.push is not None:
        is_late = "heard" in _name_late_end(wait, history)
        what = "it had heard of that" if is_late else f"task {wait.push} had ended"
    when = f"as soon as {what}" if took == "0.000" else f"{took} s after {what}"
    yield f"The controller started the task {when}."
    if len(wait.stretches) > 1:
        yield f"It waited {join_words([*_list_reasons(wait.stretches, history)])}."
    elif wait.reason:
        behind = wait.stretches[0].fault if wait.stretches else wait.fault
        yield f"{wait.reason}{name_fault(behind, history)}."
    yield from _describe_awaited(wait, history)


def _name_late_end(wait: Wait, history: History) -> str:
    """When a push had ended, and when the controller heard of it if that was much later."""
    heard_ns = wait.span[0]
    ends_ns = [
        event.t_ns
        for task in history.tasks
        if task.number == wait.push
        for event in task.all(TaskFinished)
        if event.t_ns <= heard_ns
    ]
    ended_ns = max(ends_ns, default=heard_ns)
    if (late_s := (heard_ns - ended_ns) / 1e9) < LATE_END_S:
        return f" at {heard_ns / 1e9:.3f} s of the run"
    return f" at {ended_ns / 1e9:.3f} s of the run; the controller heard of it {late_s:.3f} s later"


def _describe_awaited(wait: Wait, history: History) -> Iterator[str]:
    """Whose task the controller waited for longest, if it waited for one."""
    awaited_s = defaultdict[int, float](float)
    for each in wait.stretches:
        if each.task is not None:
            awaited_s[each.task] += each.seconds
    longest = max(awaited_s, key=lambda number: awaited_s[number], default=None)
    task = next((each for each in history.tasks if each.number == longest), None)
    if task is not None and task.duration_s is not None and awaited_s[task.number] >= AWAITED_S:
        ran = f"was of {name_group(task.started.group)}, and took {task.duration_s:.3f} s"
        yield f"Task {task.number} {ran}; `--task {task.number}` explains it."


def _list_reasons(stretches: Iterable[Stretch], history: History) -> Iterator[str]:
    """What the controller waited for before a task, in order; of much, the longest parts.

    Parts for the same reason are one, but for those of several faults. The text of a fault is told
    once.
    """
    stretches = [*stretches]
    behind = {each.reason: each.fault for each in stretches if each.fault is not None}
    took_s = defaultdict[tuple[str, int | None], float](float)
    for each in stretches:
        fault = behind.get(each.reason) if each.fault is None else each.fault
        took_s[each.reason or "for the message of the last member", fault] += each.seconds
    longest = sorted(took_s.items(), key=lambda item: -item[1])
    shown = {key for key, s in longest[:MOST_STRETCHES] if s >= LEAST_S}
    named: set[int | None] = {None}
    for reason, fault in (key for key in took_s if key in shown):
        what = reason.removeprefix("The controller waited ").replace(AGAIN, "")
        if what.startswith(HEARD):
            what = what.replace("The", "until the", 1).replace(" late: ", ", because ", 1)
        what = what.replace("The controller", "after it had", 1)
        again = f" (fault {fault})" * (fault is not None)
        why = again if fault in named else name_fault(fault, history)
        named.add(fault)
        yield f"{took_s[reason, fault]:.3f} s {what}{why}"
    left = [s for key, s in took_s.items() if key not in shown and s >= LEAST_S]
    if left:
        yield f"{sum(left):.3f} s for {count_of(len(left), 'other reason')}"


def _refer(number: int, history: History) -> str:
    """A fault within a sentence, with its text in brackets."""
    return name_subject(number, history).replace("Fault", "fault", 1)


def _describe_released(released: Mapping[str, int]) -> str:
    """How often the policy let sites that were ready go on without a task, in a sentence."""
    words = [site + f" ({count} times)" * (count > 1) for site, count in released.items()]
    whose = "that round did" if sum(released.values()) == 1 else "these rounds did"
    return f"Meanwhile the policy let {join_words(words)} go on without a task: {whose} not count."


def _describe_stop(site: str, held: Held, history: History) -> str:
    """How long the last member had been stopped, in words."""
    done = {"pause": "paused", "kill": "dead"}[held.stop.do]
    when = "of that time" if held.computing else "before"
    anew = ", and then began its round again" if held.stop.do == "kill" else ""
    fault = name_fault(held.stop.fault, history)
    return f"{site} was {done} for {held.seconds:.3f} s {when}{fault}{anew}."
