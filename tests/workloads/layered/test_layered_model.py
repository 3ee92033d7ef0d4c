"""Tables of layered models: what they hold, and which are refused."""

import pytest

from trunkline.workloads.layered import make_tables
from trunkline.workloads.layered.layer_shapes import NETWORKS
from trunkline.workloads.layered.model import DATA, TableError, find_names, load, parse

HEAD = "base,branch,parameter_bytes,forward_us,backward_us\n"


@pytest.mark.parametrize("name", NETWORKS)
def test_a_table_is_what_the_script_makes_from_the_shapes(name):
    assert (DATA / f"{name}.csv").read_text() == (make_tables.make(name))


@pytest.mark.parametrize(
    ("name", "parameters", "multiplications"),
    [
        ("vgg-19", 143_667_240, 19.63e9),
        ("inception-v4", 42_679_816, 12.25e9),
        ("densenet-121", 7_978_856, 2.834e9),
    ],
)
def test_parameters_and_operations_are_the_published_totals(name, parameters, multiplications):
    costs = [cost for _, branches in NETWORKS[name]() for cost in branches.values()]
    assert sum(cost.parameters for cost in costs) == parameters
    assert sum(cost.operations for cost in costs) / 2 == pytest.approx(multiplications, rel=1e-3)


def test_the_weights_of_dfn_are_those_of_the_paper():
    norms = 61_568
    costs = [cost for _, branches in NETWORKS["dfn"]() for cost in branches.values()]
    assert (sum(cost.parameters for cost in costs) - norms) / 1e6 == pytest.approx(25.41, abs=0.005)


def test_every_network_has_a_table_and_only_nonlinear_ones_have_parallel_branches():
    assert find_names() == tuple(sorted(NETWORKS))
    widest = {name: max(len(base.branches) for base in load(name).bases) for name in find_names()}
    assert widest == {"densenet-121": 1, "dfn": 4, "inception-v4": 4, "vgg-19": 1}


def test_a_table_becomes_bases_with_numbered_branches():
    model = parse(f"# a comment\n{HEAD}x,a,8,1,2\n\nx,b,12,3,4.5\ny,a,4,0,0\n", "mine.csv")
    assert [base.name for base in model.bases] == ["x", "y"]
    assert model.numbers == ((0, 1), (2,))
    assert model.base_of == (0, 0, 1)
    assert model.parameter_bytes == 24
    assert model.forward_s == pytest.approx(4e-6)
    assert model.scaled(10).backward_s == pytest.approx(65e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "mine.csv: expected a first row base,branch,"),
        ("base,branch\n", "mine.csv: expected a first row base,branch,"),
        (HEAD, "mine.csv: expected at least one branch"),
        (f"{HEAD}x,a,8,1\n", "mine.csv:2: 4 values: expected 5"),
        (f"{HEAD}x,a,0,1,1\n", "mine.csv:2: parameter_bytes 0: expected a whole number above 0"),
        (f"# c\n{HEAD}x,a,8,-1,1\n", "mine.csv:3: time -1: expected a number of microseconds"),
        (f"{HEAD}x,a,8,1,slow\n", "mine.csv:2: time slow: expected a number of microseconds"),
        (
            f"{HEAD}x,a,8,1,1\ny,a,8,1,1\nx,b,8,1,1\n",
            "mine.csv: base x: expected one block of rows for each base",
        ),
        (f"{HEAD}x,a,8,1,1\nx,a,8,1,1\n", "mine.csv: base x: expected one branch a"),
    ],
)
def test_a_table_that_is_no_model_is_refused(text, said):
    with pytest.raises(TableError, match="^" + said.replace("*", ".")):
        parse(text, "mine.csv")


def test_an_unknown_table_is_refused_with_the_known_ones():
    with pytest.raises(TableError, match="model vgg: expected one of densenet-121, dfn, "):
        load("vgg")
