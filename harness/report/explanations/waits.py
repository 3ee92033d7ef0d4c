"""How the group of each task came together before it began (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from trunkline.agents.events.event import Event
from trunkline.agents.events.policy_events import PolicyTold
from trunkline.agents.events.round_events import ComputeStarted, Ready
from trunkline.agents.events.task_events import (
    Contributed,
    GroupPostponed,
    TaskDropped,
    TaskFinished,
    TaskStarted,
)
from trunkline.harness.record.history import History, Interval

_REASONS = {
    "ready": "when {site} was ready",
    "left": "when {site} had done its rounds",
    "lost": "when it had lost {site}",
    "joined": "when {site} could be reached again",
    "ended": "when task {task} had ended",
    "tick": "at the time that the policy had set",
}
"""What a policy heard before it decided that a task may begin."""


@dataclass(frozen=True, slots=True)
class Wait:
    """How the group of a task came together.

    Attributes:
        last: the member that was ready last.
        wait_s: how long the first one had waited for it.
        compute_s: how long the last one had computed; None if it came otherwise.
        decide_s: from then until the controller started the task.
        reason: what let it start the task then, if that was not the last member.
        span: from the time at which the last one was ready to the start, in ns.
        fault: the number of the fault behind the reason; None without one.
        heard: the member of which the controller heard last, and when that one was ready, in ns.
        after: the task that the last member was in before it computed, while the first one waited
            already; None if it was in none.
    """

    last: str
    wait_s: float
    compute_s: float | None
    decide_s: float
    reason: str
    span: Interval
    heard: tuple[str, int]
    fault: int | None = None
    after: int | None = None


def find_waits(history: History) -> dict[int, Wait]:
    """How the group of each task came together, by its number, if a member of it was ready."""
    ready: dict[str, Ready] = {}
    began: dict[str, int] = {}
    computed: dict[str, float] = {}
    told: dict[str, PolicyTold] = {}
    postponed: dict[frozenset[str], GroupPostponed] = {}
    left: dict[str, TaskFinished | TaskDropped] = {}
    found: dict[int, Wait] = {}
    for event in history.events:
        match event:
            case ComputeStarted():
                began[event.site] = event.t_ns
            case Ready():
                ready[event.site] = event
                computed.pop(event.site, None)
                if event.site in began:
                    computed[event.site] = (event.t_ns - began.pop(event.site)) / 1e9
            case TaskFinished() | TaskDropped():
                left[event.site] = event
            case Contributed():  # it waits no more, such as before a pull
                ready.pop(event.site, None)
            case PolicyTold():
                told[event.site] = event
            case GroupPostponed():
                postponed[frozenset(event.group)] = event
            case TaskStarted():
                active = set(event.group) - set(event.passive)
                if here := {site: each for site, each in ready.items() if site in active}:
                    why = postponed.pop(frozenset(event.group), told.get(event.site))
                    found[event.task] = _make_wait(event, here, computed, why, left)
    return found


def _make_wait(
    started: TaskStarted,
    ready: Mapping[str, Ready],
    computed: Mapping[str, float],
    why: Event | None,
    left: Mapping[str, TaskFinished | TaskDropped],
) -> Wait:
    last = max(ready.values(), key=lambda event: event.t_ns)
    first_ns = min(event.t_ns for event in ready.values())
    before = left.get(last.site)
    after = None if before is None or before.t_ns < first_ns else before.task
    return Wait(
        last.site,
        (last.t_ns - first_ns) / 1e9,
        computed.get(last.site),
        (started.t_ns - last.t_ns) / 1e9,
        _find_reason(started.group, why),
        (last.t_ns, started.t_ns),
        _find_heard(ready, why) or (last.site, last.t_ns),
        after=after,
    )


def _find_heard(ready: Mapping[str, Ready], why: Event | None) -> tuple[str, int] | None:
    """The member that was ready by the last word that the policy heard."""
    if not isinstance(why, PolicyTold) or why.values.get("site") not in ready:
        return None
    site = str(why.values["site"])
    return site, ready[site].t_ns


def _find_reason(group: Collection[str], why: Event | None) -> str:
    """Why the task did not begin when the controller heard of its last member."""
    match why:
        case GroupPostponed():
            return f"after it had postponed the group: {why.reason}"
        case PolicyTold() if why.told in _REASONS:
            if why.told != "ready" or why.values["site"] not in group:
                return _REASONS[why.told].format(**why.values)
    return ""
