"""What a controller waited for before it started a task, in sentences (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from trunkline.agents.events.causes import Cause
from trunkline.agents.events.event import Event
from trunkline.agents.events.policy_events import PolicyTold
from trunkline.agents.events.task_events import GroupPostponed

_REASONS = {
    "ready": "The controller waited until {site} was ready",
    "left": "The controller waited until {site} had done its rounds",
    "lost": "The controller waited until {site} counted as lost",
    "joined": "The controller waited until {site} could be reached again",
    "ended": "The controller waited until task {task} had ended",
    "tick": "The controller waited for the time that the policy had set",
}
"""What a policy heard before it decided that a task may begin, as sentences."""

HEARD = "The controller heard of"
"""The beginning of the reason that a message to the controller was late or lost."""

TICKED = _REASONS["tick"]

AGAIN = ", to try it again after failover.timeout"
"""What the controller does with a group that it postponed."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """A group of some members was postponed at a time: the reason as a sentence, and its cause."""

    t_ns: int
    reason: str
    cause: Cause


def list_postponed(
    group: Collection[str], events: Collection[GroupPostponed]
) -> Iterator[Postponed]:
    """When and why the members of a group had been postponed."""
    for event in events:
        same = set(event.group) == set(group)
        who = "group" if same else f"group of {' and '.join(event.group)}"
        said = f"The controller postponed the {who}{AGAIN}: {event.cause}"
        yield Postponed(event.t_ns, said, event.cause)


def find_reason(group: Collection[str], why: Event | None) -> tuple[str, tuple[str, ...]]:
    """Why the task did not begin when the controller heard of its last member, and about whom."""
    match why:
        case GroupPostponed(cause=cause):
            (postponed,) = list_postponed(group, [why])
            return postponed.reason, tuple(sorted(cause.names))
        case PolicyTold(told=told, values=values) if told in _REASONS:
            if told != "ready" or values["site"] not in group:
                names = (values["site"],) if "site" in values else ()
                return _REASONS[told].format(**values), names
    return "", ()
