"""How many packets TCP sent again on the connections between sites (pure).

Senders log what TCP has counted since a connection was made whenever they report a task's payload.
So the count for a span of time is known between the reports around it: 0 is certain, and more may
have been sent again for what followed the span.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from trunkline.agents.events.connection_events import LinkFound, LinkLost
from trunkline.agents.events.task_events import Sent
from trunkline.agents.planning.plan import Directed
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval

Report = tuple[int, int | None]
"""When a sender told its count, in ns, and the count."""


@dataclass(frozen=True, slots=True)
class Resent:
    """How many packets a connection sent again between two reports of its sender."""

    count: int
    span: Interval


@dataclass(frozen=True, slots=True)
class ResentPackets:
    """What senders told of each connection, in order of time.

    Attributes:
        made_ns: when two sites lost their connection or made it again; then TCP counts anew.
    """

    told: Mapping[Directed, Sequence[Report]] = field(default_factory=dict)
    made_ns: Mapping[frozenset[str], Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, history: History) -> ResentPackets:
        """What the senders of a run told."""
        told: defaultdict[Directed, list[Report]] = defaultdict(list)
        for event in (each for task in history.tasks for each in task.all(Sent)):
            told[event.site, event.dst].append((event.t_ns, event.resent))
        made_ns: defaultdict[frozenset[str], list[int]] = defaultdict(list)
        for change in history.all(LinkFound, LinkLost):
            made_ns[frozenset({change.site, change.peer})].append(change.t_ns)
        ordered = {ends: sorted(found, key=itemgetter(0)) for ends, found in told.items()}
        return cls(ordered, dict(made_ns))

    def find(self, ends: Directed, span: Interval) -> Resent | None:
        """The packets that a connection sent again in a span of time, and until the reports around.

        None if that is not known, as the sender told nothing, or the connection was lost or made
        between the two reports.
        """
        told = self.told.get(ends, ())
        earlier = [each for each in told if each[0] <= span[0]]
        later = [each for each in told if each[0] >= span[1]]
        since_ns, before = earlier[-1] if earlier else (0, 0)
        until_ns, after = later[0] if later else (0, None)
        made_ns = [t_ns for t_ns in self.made_ns.get(frozenset(ends), ()) if t_ns <= until_ns]
        if any(t_ns > span[0] for t_ns in made_ns):
            return None
        if any(t_ns > since_ns for t_ns in made_ns):
            since_ns, before = max(made_ns), 0
        if before is None or after is None:
            return None
        return Resent(max(0, after - before), (since_ns, until_ns))
