"""A link that something else than the run has changed makes the run unknown, unless it may."""

from dataclasses import replace

from hand_made import THREE_SITES, change
from three_sites import history

from trunkline.agents.events.fault_events import LinkAltered, WaysAltered
from trunkline.harness.checks.network.altered_links import links_unaltered
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Check
from trunkline.harness.record.history import History

RULES = Rules.of(THREE_SITES)
ALTERED = (
    LinkAltered(100, "runner", "oslo", "rome", "delay 5 ms", "delay 300 ms"),
    LinkAltered(200, "runner", "oslo", "rome", "delay 5 ms", "changed"),
)


def judge(rules, *events):
    found = links_unaltered(History.of([*history().events, *events]), rules)
    return Check.of("x", "links", found)


def test_a_run_whose_links_nobody_else_changed_passes():
    found = judge(RULES)
    assert (found.outcome, found.judged) == ("pass", 6)


def test_an_altered_link_is_unknown_with_both_values_and_a_way_to_allow_it():
    found = judge(RULES, *ALTERED)
    assert (found.outcome, found.judged) == ("unknown", 6)
    assert found.detail.startswith(
        "oslo -> rome was not as set from 0.000 s on: delay 300 ms; set was delay 5 ms"
    )
    assert found.detail.endswith("(network: {may_change: true} allows it)")


def test_a_run_that_allows_it_excuses_the_link():
    network = replace(RULES.scenario.network, may_change=True)
    found = judge(change(RULES, network=network), *ALTERED)
    assert (found.outcome, found.judged, found.excused) == ("pass", 5, 1)


def test_a_changed_route_is_unknown_with_both_values_and_is_excused_if_it_may():
    events = [
        WaysAltered(100, "runner", "oslo", "the route to rome", "l0-1", "none"),
        WaysAltered(200, "runner", "oslo", "the route to rome", "l0-1", "lo"),
    ]
    found = judge(RULES, *events)
    assert (found.outcome, found.judged) == ("unknown", 7)
    assert found.detail == (
        "at oslo, the route to rome was not as set from 0.000 s on: none; set was l0-1 "
        "(network: {may_change: true} allows it)"
    )
    network = replace(RULES.scenario.network, may_change=True)
    found = judge(change(RULES, network=network), *events)
    assert (found.outcome, found.judged, found.excused) == ("pass", 6, 1)
