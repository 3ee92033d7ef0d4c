"""A link that something else than the run has changed makes the run unknown, unless it may."""

from dataclasses import replace

import pytest
from hand_made import THREE_SITES, change
from three_sites import history

from trunkline.agents.events.fault_events import LinkAltered, WaysAltered
from trunkline.agents.events.run_events import LinkBytes, LinksCounted
from trunkline.harness.checks.causality_checks import messages_take_time
from trunkline.harness.checks.network.altered_links import links_unaltered
from trunkline.harness.checks.network.counter_checks import interfaces_agree
from trunkline.harness.checks.network.network_checks import rates_kept
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import CHANGED, MAY_CHANGE, Check
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


SLOWER = replace(
    THREE_SITES.topology,
    links=tuple(
        replace(link, rate_mbps=0.01, delay_ms=1000.0) for link in THREE_SITES.topology.links
    ),
)
"""Its links were set to be slower than those of the log are."""


@pytest.mark.parametrize(
    ("check", "outcome"),
    [(rates_kept, "unknown"), (interfaces_agree, "unknown"), (messages_take_time, "fail")],
)
@pytest.mark.parametrize("may_change", [False, True])
def test_links_that_others_changed_are_not_judged_by_what_was_set(check, outcome, may_change):
    network = replace(RULES.scenario.network, may_change=may_change)
    rules = change(RULES, topology=SLOWER, network=network)
    before = Check.of("x", "objects", check(history(), rules))
    assert before.outcome == outcome
    ways = WaysAltered(0, "runner", "oslo", "the route to rome", "l0-1", "lo")
    after = Check.of("x", "objects", check(History.of([ways, *history().events]), rules))
    if check is messages_take_time:
        assert (after.outcome, after.excused) == ("pass", 0)
    else:
        rule = MAY_CHANGE if may_change else CHANGED
        assert (after.outcome, after.judged) == ("none" if may_change else "unknown", 0)
        assert [excuse.rule for excuse in after.excuses] == [rule]
        assert "let the run go on" not in after.detail


def test_counters_that_begin_again_with_new_shaping_are_no_failure():
    grown = LinksCounted(100, "runner", (LinkBytes("oslo", "rome", 2_000_000),))
    again = LinksCounted(200, "runner", (LinkBytes("oslo", "rome", 1_000),))
    counted = [*history().events, grown, again]
    before = Check.of("x", "links", interfaces_agree(History.of(counted), RULES))
    assert "oslo -> rome: its bytes did not grow at 0.000 s" in before.detail
    after = Check.of("x", "links", interfaces_agree(History.of([*counted, *ALTERED]), RULES))
    assert "oslo -> rome" not in after.detail
    assert after.excused == 2
