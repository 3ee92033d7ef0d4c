"""Replays a policy from the event log of a run (pure).

The log has all events that a policy got, as `policy_told`. Their order and their times are not in
the rest of a log, because messages to the controller take time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from trunkline.agents.control.decision_rules import make_plain
from trunkline.agents.events.causes import Enough
from trunkline.agents.events.event import Event
from trunkline.agents.events.policy_events import PolicyBegan, PolicyTold
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import (
    GroupPostponed,
    SiteExcluded,
    SiteReleased,
    TaskStarted,
)
from trunkline.agents.policies import policy as policies
from trunkline.agents.policies.policy import Decision, Exclude, Policy, Proceed, Start, Wake

KINDS = {kind.__name__.lower(): kind for kind in get_args(policies.Event)}
"""The types of the events of policies, by their names in the log."""


Logged = TaskStarted | GroupPostponed | SiteReleased | SiteExcluded
"""What the log has of a decision."""


class ReplayError(ValueError):
    """A log from which a policy cannot be replayed; the message says why."""


@dataclass(slots=True)
class Answer:
    """What a policy decided about an event: in the run, as `logged`, and in the replay.

    `stopped_after` is how many of these decisions were logged when one of them began the last task
    of the run: no other one begins after that. None if none did.

    The log does not have the wakes: the ticks that answer them are events. It does not have the
    batches either: sites log them when they begin to compute.
    """

    told: PolicyTold
    event: policies.Event
    decisions: tuple[Decision, ...]
    logged: list[Logged] = field(default_factory=list)
    stopped_after: int | None = None

    @property
    def controller(self) -> str:
        """The controller whose policy answered."""
        return self.told.site

    @property
    def is_same(self) -> bool:
        """Whether the replay decided as the run did."""
        return self.is_begun and len(self._decided) == len(self.logged)

    @property
    def is_begun(self) -> bool:
        """Whether the run did so up to some decision: a controller may be killed as it acts."""
        decided = self._decided
        return len(decided) >= len(self.logged) and all(map(_agree, decided, self.logged))

    @property
    def _decided(self) -> list[Decision]:
        decided: list[Decision] = [each for each in self.decisions if not isinstance(each, Wake)]
        if self.stopped_after is None:
            return decided
        first, later = decided[: self.stopped_after], decided[self.stopped_after :]
        return [*first, *(each for each in later if not isinstance(each, Start))]


def replay(
    log: Iterable[Event], create: Callable[[int], Policy], servers: Collection[str] = ()
) -> list[Answer]:
    """Give a policy the events that it got in a run, for every controller and each of its terms.

    The answers are in the order of the log. If a controller was killed as it acted on an answer,
    the log may lack a part of it.

    Args:
        log: the events of the run, in their order.
        create: creates the policy for a term, as `ControllerSettings` has it.
        servers: the sites that are passive in all of their tasks.

    Raises:
        ReplayError: the log lacks where a policy begins or the event that a decision answers, or
            has an event that no policy gets.
    """
    running: dict[str, tuple[Policy, Any]] = {}
    latest: dict[str, Answer] = {}
    started: set[int] = set()
    answers = []
    for entry in log:
        match entry:
            case PolicyBegan():
                policy = create(entry.term)
                running[entry.site] = policy, policy.initial
                latest.pop(entry.site, None)
            case PolicyTold():
                if entry.site not in running:
                    raise ReplayError(f"{_place(entry)}: its policy has not begun")
                policy, state = running[entry.site]
                event = from_values(entry.told, entry.values)
                state, decisions = policy.step(state, event)
                running[entry.site] = policy, state
                plain = tuple(_as_carried_out(each, servers) for each in decisions)
                latest[entry.site] = Answer(entry, event, plain)
                answers.append(latest[entry.site])
            case TaskStarted() | GroupPostponed() | SiteReleased() | SiteExcluded():
                if entry.site not in latest:
                    raise ReplayError(f"{_place(entry)}: its policy was told nothing")
                latest[entry.site].logged.append(entry)
                started |= {entry.task} if isinstance(entry, TaskStarted) else set()
            case Stopping(cause=cause) if entry.site in latest:
                answer = latest[entry.site]
                if answer.logged and cause == Enough(len(started)):
                    answer.stopped_after = len(answer.logged)
    return answers


def to_values(event: policies.Event) -> tuple[str, dict[str, Any]]:
    """The name of an event's type and the values of its fields, as the log has them."""
    return type(event).__name__.lower(), dataclasses.asdict(event)


def from_values(told: str, values: Mapping[str, Any]) -> policies.Event:
    """The event of a name and values from a log. Raises ReplayError if there is none."""
    tuples = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    try:
        event: policies.Event = KINDS[told](**{**values, **tuples})
    except (KeyError, TypeError) as error:
        raise ReplayError(f"{told} with {dict(values)} is not an event of a policy") from error
    return event


def _as_carried_out(decision: Decision, servers: Collection[str]) -> Decision:
    """The decision as the driver carries it out: servers are always passive."""
    plain = make_plain(decision)
    if isinstance(plain, Start):
        return dataclasses.replace(plain, passive=plain.passive.union(servers) & {*plain.group})
    return plain


def _agree(decision: Decision, logged: Logged) -> bool:
    match decision, logged:
        case Start(group, weights, scale), TaskStarted():
            members = (group, weights, scale) == (logged.group, logged.weights, logged.scale)
            return members and decision.roles == logged.roles
        case Start(group), GroupPostponed():
            return group == logged.group
        case Proceed(site), SiteReleased():
            return site == logged.worker
        case Exclude(site), SiteExcluded():
            return site == logged.worker
    return False


def _place(event: Event) -> str:
    return f"{event.site} at {event.t_ns / 1e9:.9g} s"
