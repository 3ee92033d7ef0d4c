"""OWL and the bounds beside the optimum of small cases."""

import pytest
from owl_optimum import compare, make_case, summarize

from trunkline.agents.distribution.handout import Cluster
from trunkline.workloads.layered.model import Base, Branch, LayeredModel


def test_with_help_across_racks_the_optimum_is_below_oos() -> None:
    branches = Branch("a", 625_000, 0, 0), Branch("b", 625_000, 0, 0)
    case = LayeredModel((Base("x", branches),)), Cluster(2, 1, 10, 10, 10)
    # 1.5 s at best; both branches in one message take 2 s, and so does OOS; 1 s for the uplink.
    assert compare(case, across=True) == pytest.approx((4 / 3, 4 / 3, 2 / 3))
    assert compare(case, across=False) == pytest.approx((1.0, 1.0, 0.5))


def test_cases_are_the_same_each_time_and_columns_have_median_and_ends() -> None:
    assert make_case(3, across=True) == make_case(3, across=True) != make_case(4, across=True)
    assert summarize([1.0, 3.0, 1.5]) == "1.50 (1.00 to 3.00)"
