"""Tables of layered models: what they hold, and which are refused."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    model = parse(f"# a comment\n{HEAD}x,a,8,1,2\n\nx,b,12,3,4.5\ny,a,4,0,0\n")
    assert [base.name for base in model.bases] == ["x", "y"]
    assert model.numbers == ((0, 1), (2,))
    assert model.base_of == (0, 0, 1)
    assert model.parameter_bytes == 24
    assert model.forward_s == pytest.approx(4e-6)
    assert model.scaled(10).backward_s == pytest.approx(65e-6)


def test_a_table_may_come_from_a_spreadsheet():
    text = f'\ufeff{HEAD}"x", a , 8,1e0,.5\n'.replace("\n", "\r\n")
    ((base, branch),) = [(base.name, base.branches[0]) for base in parse(text).bases]
    assert (base, branch.name, branch.parameter_bytes) == ("x", "a", 8)
    assert (branch.forward_s, branch.backward_s) == pytest.approx((1e-6, 5e-7))


SIZE = "expected a whole number from 4 to 17179869184, a multiple of 4 (float32)"
TIME = "expected a number of microseconds from 0 to 3600000000"
NAME = "expected a name of 1 to 100 printable characters"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: expected a first row base,branch,"),
        ("# c\nbase,branch\n", "line 2: expected a first row base,branch,"),
        (HEAD, "no rows of branches: expected at least one"),
        (f"{HEAD}x,a,8,1\n", "line 2: 4 values: expected 5"),
        (f"{HEAD}x,a,0,1,1\n", f"line 2: parameter_bytes 0: {SIZE}"),
        (f"{HEAD}x,a,6,1,1\n", f"line 2: parameter_bytes 6: {SIZE}"),
        (f"{HEAD}x,a,17179869188,1,1\n", f"line 2: parameter_bytes 17179869188: {SIZE}"),
        (f"{HEAD}x,a,{'9' * 5000},1,1\n", f"line 2: parameter_bytes {'9' * 20}: {SIZE}"),
        (f"{HEAD}x,a,\u0664,1,1\n", f"line 2: parameter_bytes \u0664: {SIZE}"),
        (f"# c\n{HEAD}x,a,8,-1,1\n", f"line 3: forward_us -1: {TIME}"),
        (f"{HEAD}x,a,8,1,slow\n", f"line 2: backward_us slow: {TIME}"),
        (f"{HEAD}x,a,8,nan,1\n", f"line 2: forward_us nan: {TIME}"),
        (f"{HEAD}x,a,8,1,1e300\n", f"line 2: backward_us 1e300: {TIME}"),
        (f"{HEAD}x,a,8,1_0,1\n", f"line 2: forward_us 1_0: {TIME}"),
        (f"{HEAD},a,8,1,1\n", f"line 2: base '': {NAME}"),
        (f"{HEAD}x, ,8,1,1\n", f"line 2: branch '': {NAME}"),
        (f"{HEAD}x,{'b' * 101},8,1,1\n", f"line 2: branch '{'b' * 100}': {NAME}"),
        (f'{HEAD}x,"a\nb",8,1,1\n', "line 2: unexpected end of data: expected a row in one line"),
        (
            f"{HEAD}x,a,8,1,1\ny,a,8,1,1\nx,b,8,1,1\n",
            "line 4: base x: expected one block of rows for each base",
        ),
        (f"{HEAD}x,a,8,1,1\nx,a,8,1,1\n", "line 3: base x: expected one branch a"),
        ("#" * 1_000_001, "1000001 characters: expected 1000000 or fewer"),
    ],
)
def test_a_table_that_is_no_model_is_refused(text, said):
    with pytest.raises(TableError, match="^" + re.escape(said)):
        parse(text)


@given(st.text() | st.text(alphabet='xa0189,.\n"# -e').map(lambda rows: HEAD + rows))
def test_any_text_is_a_model_or_refused(text):
    with contextlib.suppress(TableError):
        assert parse(text).parameter_bytes % 4 == 0


def test_an_unknown_table_is_refused_with_the_known_ones():
    with pytest.raises(TableError, match=r"^one of densenet-121, dfn, .*mean vgg-19\?"):
        load("vgg")
