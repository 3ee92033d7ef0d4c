"""What `--vary` means, and what of it is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.harness.study.grid import (
    Axis,
    Cell,
    GridError,
    combine,
    combine_beside,
    read_axes,
    read_axis,
    refuse_conflicts,
)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("scheme.p=5,10", ("5", "10")),
        ("stop.time=50 s, 2 min", ("50 s", "2 min")),
        ("topology.rates=[50 Mbit/s, 80 Mbit/s],n2", ("[50 Mbit/s, 80 Mbit/s]", "n2")),
        ("scheme={plan: crew, split: even},{plan: ring}",
         ("{plan: crew, split: even}", "{plan: ring}")),
        ("topology.sites=[a, b],{c: 'aws:us-east-1', d: e}",
         ("[a, b]", "{c: 'aws:us-east-1', d: e}")),
        ("description='a, b',\"c]\",it's", ("'a, b'", '"c]"', "it's")),
    ],
)  # fmt: skip
def test_values_are_separated_by_commas_outside_of_brackets_and_quotes(option, values):
    assert read_axis(option) == Axis(option.partition("=")[0], values)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("scheme.p", "expected KEY.PATH=VALUE,VALUE,..., such as scheme.plan=crew,ring"),
        ("scheme p=3", "expected KEY.PATH=VALUE"),
        ("scheme.p=3,", "a value is missing"),
        ("scheme.p=", "a value is missing"),
        ("scheme.p=3,4,3", "3 is given twice: expected each value once"),
        ("seed=1,2", "the seed is not allowed here: --trials N varies it"),
        ("topology.rates=[1,2", "] is missing"),
        ("name='a,b", "' is missing"),
        ("name=a],b: {", "} is missing"),
        ("name=a: b: c", "not YAML"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(option, said):
    with pytest.raises(GridError) as refused:
        read_axis(option)
    assert str(refused.value).startswith(f"--vary {option}: ")
    assert said in str(refused.value)


def test_a_key_is_varied_once():
    with pytest.raises(GridError, match="--vary a is given twice: expected one list of values"):
        read_axes(["a=1,2", "b=1", "a=3"])


@pytest.mark.parametrize(
    ("varied", "overrides", "said"),
    [
        (["a=1,2"], ["a=3"], "--set a is varied, too: expected --vary a alone"),
        (["a={b: 1},{c: 2}"], ["a.c = 3"], "--set a.c is varied"),
        (["a={b: 1},{c: 2}", "a.c=4,5"], [], "--vary a.c is varied twice"),
    ],
)
def test_no_cell_sets_a_key_twice(varied, overrides, said):
    with pytest.raises(GridError) as refused:
        refuse_conflicts(combine(read_axes(varied)), overrides)
    assert str(refused.value).startswith(said)


def test_the_last_axis_changes_fastest():
    grid = combine(read_axes(["scheme.plan=crew,ring", "scheme.p=5,10"]))
    assert [str(cell) for cell in grid] == [
        "scheme.plan=crew scheme.p=5",
        "scheme.plan=crew scheme.p=10",
        "scheme.plan=ring scheme.p=5",
        "scheme.plan=ring scheme.p=10",
    ]
    assert grid[0].overrides == ("scheme.plan=crew", "scheme.p=5")


def test_without_axes_there_is_one_cell():
    assert combine(()) == (Cell((), ()),)
    assert str(Cell((), ())) == "as it is"


def test_a_mapping_sets_just_the_keys_that_it_names():
    (cell,) = combine(
        [
            Axis("scheme", ("{plan: crew, split: 'even'}",)),
            Axis("a", ("{b: {c: 3 s}, d: [x, 1.5]}",)),
        ]
    )
    assert cell.overrides == (
        'scheme.plan="crew"',
        'scheme.split="even"',
        'a.b.c="3 s"',
        'a.d=["x", 1.5]',
    )


@given(st.lists(st.from_regex("[a-z][a-z0-9]*( [a-z0-9]+)?", fullmatch=True), unique=True))
def test_plain_words_come_back_as_they_were(words):
    if words:
        assert read_axis("key=" + ", ".join(words)).values == tuple(words)


def test_a_scenario_beside_has_the_shared_axes_and_its_name_for_the_first_other_one():
    grid = read_axes(["scheme.plan=crew,ring", "topology.delays=1 ms,2 ms", "scheme.p=3"])
    beside = combine_beside(grid, "gloo")
    assert [(str(cell), cell.overrides) for cell in beside] == [
        ("scheme.plan=gloo topology.delays=1 ms scheme.p=-", ("topology.delays=1 ms",)),
        ("scheme.plan=gloo topology.delays=2 ms scheme.p=-", ("topology.delays=2 ms",)),
    ]
    assert combine(grid, "ours") == combine(grid)


def test_scenarios_are_told_apart_by_their_names_where_all_else_is_shared():
    grid = read_axes(["network.pacing=true,false"])
    assert [str(cell) for cell in (*combine(grid, "ours"), *combine_beside(grid, "gloo"))] == [
        "scenario=ours network.pacing=true",
        "scenario=ours network.pacing=false",
        "scenario=gloo network.pacing=true",
        "scenario=gloo network.pacing=false",
    ]
    assert [cell.overrides for cell in combine_beside((), "gloo")] == [()]
