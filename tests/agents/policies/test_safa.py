"""SAFA: literal rounds, late updates and lags; and any run of a simulator."""

import random

import pytest
from answers import Answers
from hypothesis import given
from hypothesis import strategies as st
from simulator import Simulator

from trunkline.agents.policies import safa
from trunkline.agents.policies.policy import Joined, Lost, Ready, Start, Traits

SERVERS = ("x",)


def play(sites="abcd", **options):
    """The policy answers task by task: `push ab * 0.5`, `pull ab`."""
    return Answers(safa.create(tuple(sites), servers=SERVERS, **options), tell, SERVERS)


def tell(start):
    workers = "".join(site for site in start.group if site not in SERVERS)
    return f"push {workers} * {start.scale:g}" if start.then == "wait" else f"pull {workers}"


def test_a_round_adds_the_mean_of_the_first_updates():
    policy = safa.create(tuple("abc"), servers=SERVERS, fraction=0.5)
    assert Traits.of(policy) == Traits(timed=True, gives="update")
    state, nothing = policy.step(policy.initial, Ready("c", 0))
    assert nothing == ()
    _, (push,) = policy.step(state, Ready("a", 0))
    servers = frozenset(SERVERS)
    weights = {"a": 1.0, "c": 1.0}
    assert push == Start(("a", "c", "x"), weights, 0.5, ("x",), servers, keep=1.0, then="wait")


def test_a_late_update_is_pushed_alone_and_at_once_and_no_round_waits_for_it():
    run = play(fraction=0.5)
    assert run.ready("ab", 0) == ["push ab * 0.5"]
    assert run.end("ab") == ["pull ab"]
    assert run.ready("c", 0) == ["push c * 0.5"]
    assert run.ready("ab", 1) == ["push ab * 0.5"]
    assert run.end("c") == []  # it would get a model that is old soon
    assert run.end("ab") == ["pull abc"]


def test_a_worker_that_is_ready_during_the_push_of_a_round_is_late_by_one():
    run = play(fraction=0.5)
    assert run.ready("abc", 0) == ["push ab * 0.5"]
    assert run.end("ab") == ["pull ab", "push c * 0.5"]
    assert run.end("c") == ["pull c"]
    assert run.ready("c", 1) == []  # it has the model of this round
    assert run.ready("a", 1) == ["push ac * 0.5"]


@pytest.mark.parametrize(("lag", "then"), [(0, "pull d"), (1, "pull d"), (2, "push d * 0.5")])
def test_an_update_that_has_missed_more_rounds_than_the_lag_is_dropped(lag, then):
    run = play(fraction=0.5, lag=lag)
    for iteration in range(2):
        assert run.ready("ab", iteration) == ["push ab * 0.5"]
        assert run.end("ab") == ["pull ab"]
    assert run.ready("d", 0) == [then]


def test_a_round_needs_no_more_workers_than_there_are():
    run = play("abc", fraction=1.0)
    assert run.ready("ab", 0) == []
    assert run.give(Lost("c")) == ["push ab * 0.5"]
    assert run.end("ab") == ["pull ab"]
    assert run.give(Joined("c"), Ready("c", 0)) == ["push c * 0.333333"]  # it is back, and late


def test_a_round_that_was_given_up_begins_again_when_its_workers_are_ready():
    run = play(fraction=0.5)
    assert run.ready("ab", 0) + run.end("ab", completed=False) == ["push ab * 0.5"]
    assert run.ready("c", 0) + run.ready("a", 0) == []
    assert run.ready("b", 0) == ["push ac * 0.5"]
    assert run.state.versions == ()


def test_no_task_starts_while_a_server_is_lost():
    run = play("ab", fraction=0.5)
    assert run.give(Lost("x"), Ready("a", 0)) == []
    assert run.give(Joined("x")) == ["push a * 1"]


def test_at_least_one_server_is_needed():
    with pytest.raises(ValueError, match="servers: at least one is needed"):
        safa.create(("a", "b"), servers=())


@given(
    st.integers(0, 2**32),
    st.integers(1, 6),
    st.sampled_from((0.1, 0.5, 0.75, 1.0)),
    st.integers(0, 3),
)
def test_whatever_fails_all_workers_end(seed, workers, fraction, lag):
    sites = tuple("abcdef"[:workers])
    policy = safa.create(sites, servers=SERVERS, fraction=fraction, lag=lag)
    Simulator(policy, sites, SERVERS, random.Random(seed)).play()
