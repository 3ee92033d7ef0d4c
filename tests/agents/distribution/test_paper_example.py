"""OWL's example (section 2.3, figure 4): seven layers and three workers.

All links are alike: each layer's parameters take one unit of time on a link, and a layer takes one
to compute. By the paper's text, (b), in which workers help and compute in one order, takes 8 units
less than (a), with the server alone; (c), with branches in different orders, 4 less than (b).
"""

import pytest

from trunkline.agents.distribution import baselines, owl
from trunkline.agents.distribution.handout import SERVER, Cluster, Handout, Transfer
from trunkline.agents.distribution.step import compute_forward_end, simulate_forward
from trunkline.workloads.layered.model import Base, Branch, LayeredModel

UNIT = Cluster(racks=1, workers=3, intra_mbps=1.0, inter_mbps=1.0)
ALONE, HELPED = 22, 22 - 8 - 4


def make_layers(*widths):
    """Bases with so many branches, each one layer of one unit."""
    layer = Branch("layer", 125_000, 1.0, 0.0)
    return LayeredModel(
        tuple(
            Base(f"base{n}", tuple(layer for _ in range(width))) for n, width in enumerate(widths)
        )
    )


@pytest.mark.parametrize("widths", [(1,) * 7, (1, 3, 2, 1), (1, 2, 2, 2), (1, 5, 1)])
def test_a_the_server_alone_sends_21_times_and_the_last_layer_is_computed_then(widths):
    """No order is faster: the last of 21 transfers ends after 21 units."""
    model = make_layers(*widths)
    assert compute_forward_end(model, baselines.overlap(model, UNIT), UNIT) == ALONE


@pytest.mark.parametrize("widths", [(1, 3, 2, 1), (1, 2, 2, 2), (1, 3, 3)])
def test_c_owl_with_branches_in_different_orders_takes_10_units(widths):
    model = make_layers(*widths)
    handout = owl.deploy(model, UNIT)
    assert compute_forward_end(model, handout, UNIT) == HELPED
    computed = simulate_forward(model, handout, UNIT)
    orders = {
        tuple(each.branch for each in computed if each.worker == worker) for worker in range(3)
    }
    assert len(orders) > 1


def test_c_parameters_go_to_three_workers_at_a_time_as_in_the_third_interval():
    model = make_layers(1, 3, 2, 1)
    computed = simulate_forward(model, owl.deploy(model, UNIT), UNIT)
    arrivals = [each.arrived_s for each in computed]
    assert max(map(arrivals.count, arrivals)) >= 3


def test_b_in_one_order_a_chain_of_workers_is_as_fast_so_the_drawing_is_no_optimum():
    """Each worker passes a layer on to the next one while it receives the next layer."""
    model = make_layers(*(1,) * 7)
    chain = [
        Transfer(source, target, (layer,))
        for layer in range(7)
        for source, target in ((SERVER, 0), (0, 1), (1, 2))
    ]
    assert compute_forward_end(model, Handout(3, tuple(chain)), UNIT) == HELPED
