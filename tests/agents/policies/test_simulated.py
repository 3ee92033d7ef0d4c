"""Every policy, played at random: no worker is stranded, and what a policy promises holds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator import Simulator

from trunkline.agents.policies import ad_psgd, bsp, eager_reduce, preduce, ps
from trunkline.agents.policies.random_draws import create_policy

SEEDS = st.integers(0, 2**32)
COUNTS = st.integers(1, 6)
MODES = ("bsp", "asp", "ssp", "hete", "bk")


def simulate(create, seed, workers, options, servers=2, **setting):
    """Play a policy of this many workers to its end."""
    sites, names = tuple("abcdefgh"[:workers]), tuple("xyz"[:servers])
    policy = create_policy(create, sites, options, f"{seed}", names)
    return Simulator(policy, sites, names, random.Random(seed), **setting).play()


def check_rounds(run, task):
    """The updates of a push are all of the model that the servers have, and no other push runs.

    If a push loses all its workers before its end is known, the next round does not wait for it.
    """
    if task.is_push and not run.takeovers and not run.orphans:
        assert not [other for other in run.started if other.is_push and not other.is_over]
        assert {run.workers[site].version for site in task.active} == {run.version}


def check_bound(bound):
    def look(run, task):
        if task.is_push:
            return
        here = [w for w in run.workers.values() if w.is_present and not w.has_left]
        slowest = min(w.iteration + w.given for w in here)
        assert all(task.iterations[site] + 1 - slowest <= bound for site in task.active)

    return look


@given(SEEDS, COUNTS, st.sampled_from(MODES), st.integers(1, 3))
def test_servers_finish_all_rounds_whatever_fails(seed, workers, mode, servers):
    if mode == "bk" and workers == 1:
        mode = "bsp"
    options = {"mode": mode, "backups": max(1, workers // 3)}
    looks = (check_rounds,) if mode in ("bsp", "bk") else ()
    simulate(ps.create, seed, workers, options, servers, looks=looks)


@given(SEEDS, COUNTS, st.integers(0, 4))
def test_no_worker_is_further_ahead_than_the_bound(seed, workers, bound):
    options = {"mode": "ssp", "bound": bound}
    simulate(ps.create, seed, workers, options, looks=(check_bound(bound),))


def test_asp_holds_no_bound():
    looks = (check_bound(1),)
    with pytest.raises(AssertionError):
        simulate(ps.create, 1, 4, {"mode": "asp"}, is_faulty=False, looks=looks)


@given(SEEDS, COUNTS)
def test_without_faults_bsp_has_one_push_and_one_pull_per_iteration(seed, workers):
    run = simulate(ps.create, seed, workers, {}, is_faulty=False)
    assert [t.is_push for t in run.completed] == [True, False] * run.rounds
    for number, task in enumerate(run.completed):
        assert task.iterations == dict.fromkeys(run.sites, number // 2)


@given(SEEDS, st.integers(2, 6), st.data())
def test_without_faults_each_push_of_bk_has_as_many_updates_as_it_needs(seed, workers, data):
    backups = data.draw(st.integers(1, workers - 1))
    looks = (check_rounds,)
    options = {"mode": "bk", "backups": backups}
    run = simulate(ps.create, seed, workers, options, is_faulty=False, looks=looks)
    present = max(w.iteration for w in run.workers.values())
    assert present == run.rounds
    for task in run.completed:
        if task.is_push and len(task.active) < workers - backups:
            left = [s for s in run.sites if run.left_s[s] <= task.began_s]
            assert len(task.active) == workers - len(left)


@given(SEEDS, COUNTS, st.sampled_from(("asp", "ssp", "hete")))
def test_without_faults_each_iteration_is_pushed_once_and_pulled_once(seed, workers, mode):
    run = simulate(ps.create, seed, workers, {"mode": mode}, is_faulty=False)
    for pushes in (True, False):
        tasks = [task for task in run.completed if task.is_push == pushes]
        done = sorted((site, task.iterations[site]) for task in tasks for site in task.active)
        assert done == [(site, k) for site in run.sites for k in range(run.rounds)]


@given(SEEDS, COUNTS)
def test_ad_psgd_is_atomic_and_strands_no_worker(seed, workers):
    run = simulate(ad_psgd.create, seed, workers, {}, servers=0, is_exclusive=True)
    assert all(len(task.start.group) == 2 for task in run.started)


@given(SEEDS, COUNTS)
def test_eager_reduce_strands_no_worker(seed, workers):
    simulate(eager_reduce.create, seed, workers, {}, servers=0)


@given(SEEDS, st.integers(2, 6), st.data())
def test_without_faults_rounds_of_eager_reduce_follow_each_other(seed, workers, data):
    quorum = data.draw(st.none() | st.integers(1, workers))

    def look(run, task):
        present = [site for site in run.sites if not run.workers[site].has_left]
        assert list(task.start.group) == present
        least = min(quorum or len(present) // 2 + 1, len(present))
        assert len(task.active) >= least
        assert len({task.iterations[site] for site in task.active}) == 1

    options = {} if quorum is None else {"quorum": quorum}
    run = simulate(
        eager_reduce.create,
        seed,
        workers,
        options,
        servers=0,
        is_faulty=False,
        is_exclusive=True,
        looks=(look,),
    )
    rounds = [task.iterations[task.active[0]] for task in run.started]
    assert rounds == list(range(len(rounds)))


@given(SEEDS, st.integers(2, 6), st.data())
def test_policies_without_servers_finish_in_the_same_simulator(seed, workers, data):
    p = data.draw(st.integers(2, workers))
    for create, options in ((preduce.create, {"p": p}), (bsp.create, {})):
        simulate(create, seed, workers, options, servers=0)
