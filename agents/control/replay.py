"""Replays a policy from the event log of a run (pure).

The log has all events of a policy that is timed or draws random numbers, as `policy_told`. The
order and the times of these events are not in the rest of a log, because messages to the controller
take time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from trunkline.agents.events.event import Event
from trunkline.agents.events.policy_events import PolicyBegan, PolicyTold
from trunkline.agents.events.task_events import GroupPostponed, SiteReleased, TaskStarted
from trunkline.agents.policies import policy as policies
from trunkline.agents.policies.policy import Decision, Policy, Proceed, Start, Wake

KINDS = {kind.__name__.lower(): kind for kind in get_args(policies.Event)}
"""The types of the events of policies, by their names in the log."""


@dataclass(slots=True)
class Answer:
    """What a policy decided about an event: in the run, as `logged`, and in the replay.

    The log does not have the wakes: the ticks that answer them are events.
    """

    controller: str
    event: policies.Event
    decisions: tuple[Decision, ...]
    logged: list[TaskStarted | GroupPostponed | SiteReleased] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether the replay decided as the run did."""
        decided = [each for each in self.decisions if not isinstance(each, Wake)]
        return len(decided) == len(self.logged) and all(map(_agree, decided, self.logged))


def replay(log: Iterable[Event], create: Callable[[int], Policy]) -> list[Answer]:
    """Give a policy the events that it got in a run, for every controller and each of its terms.

    The answers are in the order of the log. If a controller was killed as it acted on an answer,
    the log may lack a part of it.

    Args:
        log: the events of the run, in their order.
        create: creates the policy for a term, as `ControllerSettings` has it.
    """
    running: dict[str, tuple[Policy, Any]] = {}
    latest: dict[str, Answer] = {}
    answers = []
    for entry in log:
        match entry:
            case PolicyBegan():
                policy = create(entry.term)
                running[entry.site] = policy, policy.initial
            case PolicyTold():
                policy, state = running[entry.site]
                event = from_values(entry.told, entry.values)
                state, decisions = policy.step(state, event)
                running[entry.site] = policy, state
                latest[entry.site] = Answer(entry.site, event, decisions)
                answers.append(latest[entry.site])
            case TaskStarted() | GroupPostponed() | SiteReleased() if entry.site in latest:
                latest[entry.site].logged.append(entry)
    return answers


def to_values(event: policies.Event) -> tuple[str, dict[str, Any]]:
    """The name of an event's type and the values of its fields, as the log has them."""
    return type(event).__name__.lower(), dataclasses.asdict(event)


def from_values(told: str, values: Mapping[str, Any]) -> policies.Event:
    """The event of a name and values from a log."""
    tuples = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    event: policies.Event = KINDS[told](**{**values, **tuples})
    return event


def _agree(decision: Decision, logged: Event) -> bool:
    match decision, logged:
        case Start(group, weights, scale), TaskStarted():
            return (group, weights, scale) == (logged.group, logged.weights, logged.scale)
        case Start(group), GroupPostponed():
            return group == logged.group
        case Proceed(site), SiteReleased():
            return site == logged.worker
    return False
