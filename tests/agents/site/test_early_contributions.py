"""Which offers a site keeps, takes in and forgets."""

from __future__ import annotations

import numpy as np

from trunkline.agents.site.early_contributions import Offers
from trunkline.agents.wire.framing import ChunkHeader

SOURCE = 3


def offered(*numbers):
    """The offers of one site, with one chunk each."""
    offers = Offers()
    for number in numbers:
        header = ChunkHeader(True, number, 0, 0, SOURCE, (), True, 4, early=True)
        offers.hold(header, np.zeros(1, np.float32))
    return offers


def test_an_offer_that_is_not_needed_any_more_is_taken_in_by_no_task():
    offers = offered(1)
    offers.settle([(SOURCE, 1)])
    offers.adopt(7, {SOURCE: 1})
    assert offers.of(7) == []
    offers.adopt(8, {SOURCE: 2})
    assert offers.of(8) == [(SOURCE, 2)]


def test_a_newer_offer_makes_older_ones_obsolete_but_not_those_of_tasks():
    offers = offered(1, 2)
    offers.adopt(7, {SOURCE: 1})
    assert offers.superseded((SOURCE, 3)) == [(SOURCE, 2)]
    assert offers.superseded((SOURCE, 1)) == []
    assert offers.superseded((SOURCE + 1, 9)) == []
