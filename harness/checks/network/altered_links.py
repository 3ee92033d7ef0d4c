"""Whether something else than the run changed a link (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from trunkline.agents.events.fault_events import LinkAltered, WaysAltered
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import (
    CHANGED,
    MAY_CHANGE,
    Finding,
    doubt,
    excused,
    format_time,
    judged,
)
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions


def altered_rule(rules: Rules) -> str:
    """The rule by which what a changed link did is excused."""
    return MAY_CHANGE if rules.scenario.network.may_change else CHANGED


def links_unaltered(history: History, rules: Rules) -> Iterator[Finding]:
    """Nothing but the run changed a link, a route, an address or a neighbour.

    The kernel told every change, and was read at the end.
    """
    altered: defaultdict[Directed, list[LinkAltered]] = defaultdict(list)
    for event in history.all(LinkAltered):
        altered[event.src, event.dst].append(event)
    for ends, events in altered.items():
        first = events[0]
        text = (
            f"{' -> '.join(ends)} was not as set from {format_time(first.t_ns)} on: {first.found};"
            f" set was {first.expected}"
        )
        yield from _judge(text, rules)
    ways: dict[tuple[str, str], WaysAltered] = {}
    for way in history.all(WaysAltered):
        ways.setdefault((way.node, way.what), way)
    for (node, what), way in ways.items():
        when = format_time(way.t_ns)
        text = f"at {node}, {what} was not as set from {when} on: {way.found}; set was "
        yield from _judge(text + way.expected, rules)
    yield judged(len(Conditions.of(history, rules.topology).spells) - len(altered))


def _judge(text: str, rules: Rules) -> Iterator[Finding]:
    if rules.scenario.network.may_change:
        yield excused(MAY_CHANGE, text)
    else:
        yield judged()
        yield doubt(f"{text} (network: {{may_change: true}} allows it)")
