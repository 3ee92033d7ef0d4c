"""The noise among runs of the same network, from their results."""

import numpy as np
from noise_floor import describe


def test_deviations_are_within_networks_and_not_between_them() -> None:
    values = np.array([[10.0, 10.0], [30.0, 30.0]])
    _, deviation, difference, of_means, _ = describe(values, values)
    assert (deviation, difference, of_means) == ("0.0", "0.0", "0.0")


def test_the_deviation_is_the_root_mean_square_over_networks() -> None:
    # Deviations of a network: sqrt(2) of 10, and 0; so sqrt((0.1414^2 + 0) / 2) = 10 %.
    values = np.array([[9.0, 11.0], [30.0, 30.0]])
    _, deviation, difference, of_means, _ = describe(values, values)
    assert deviation == "10.0"
    assert difference == "22.2"  # 11 / 9
    assert of_means == "5.1"  # 20.5 / 19.5


def test_a_network_counts_only_if_all_of_its_runs_agree() -> None:
    first = np.array([[10.0, 11.0], [10.0, 11.0], [10.0, 11.0], [10.0, 11.0]])
    values = np.array([[8.0, 9.0], [9.0, 10.5], [11.5, 12.0], [9.0, 9.5]])
    assert describe(values, first)[-1] == "2, 1, 1"
    assert describe(first, first)[-1] == ""
