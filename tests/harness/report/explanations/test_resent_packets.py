"""How many packets a connection sent again, from what senders told."""

from __future__ import annotations

import pytest
from three_sites import added, altered, history

from trunkline.harness.report.explanations.links.resent_packets import Resent, ResentPackets

ENDS = "oslo", "rome"
TOLD = {100: 4, 200: None, 300: 9, 400: 9}
"""What the sender told at these times."""


def find(ends, span, *made_ns: int) -> tuple[int, int, int] | None:
    known = ResentPackets({ENDS: tuple(TOLD.items())}, {frozenset(ENDS): made_ns})
    found = known.find(ends, span)
    return None if found is None else (found.count, *found.span)


@pytest.mark.parametrize(
    ("span", "found"),
    [
        ((0, 50), (4, 0, 100)),
        ((0, 100), (4, 0, 100)),
        ((100, 250), (5, 100, 300)),
        ((150, 250), (5, 100, 300)),
        ((310, 390), (0, 300, 400)),
        ((300, 400), (0, 300, 400)),
        ((0, 390), (9, 0, 400)),
        ((210, 250), None),  # the last report before it told nothing
        ((120, 180), None),  # nor did the first one after it
        ((310, 410), None),  # there is none after it
    ],
)
def test_the_reports_around_a_span_tell_what_was_sent_again(span, found) -> None:
    assert find(ENDS, span) == found
    assert find(ENDS[::-1], span) is None


@pytest.mark.parametrize(
    ("made_ns", "found"),
    [
        (90, (5, 100, 300)),
        (120, (9, 120, 300)),  # since then TCP counts anew
        (200, None),
        (290, None),
        (310, (5, 100, 300)),
    ],
)
def test_a_new_connection_counts_from_0(made_ns, found) -> None:
    assert find(ENDS, (150, 250), made_ns) == found


def test_the_log_has_the_counts_and_the_losses_of_connections() -> None:
    made = added(1_600, "rome", "link_found", peer="oslo")
    first, second = (210_000_000, 1_150_000_000), (1_700_000_000, 2_230_000_000)
    assert ResentPackets.of(history(made)).find(ENDS, first) is None
    counted = altered("sent", {"resent": 3}, site="oslo", dst="rome")
    found = ResentPackets.of(history(counted, made))
    assert found.find(ENDS, first) == Resent(3, (0, 1_480_000_000))
    assert found.find(ENDS, (1_500_000_000, second[1])) is None
    assert found.find(ENDS, second) == Resent(3, (1_600_000_000, 2_300_000_000))
