"""R2SP: literal turns, gaps, drops and batches; and any run that a simulator can think of."""

import random
from dataclasses import replace

import pytest
from answers import Answers
from hypothesis import given
from hypothesis import strategies as st
from simulator import Simulator

from trunkline.agents.policies import ps, r2sp
from trunkline.agents.policies.moving_average import Average, Line
from trunkline.agents.policies.policy import (
    Ended,
    Joined,
    Left,
    Lost,
    Ready,
    Start,
    Tick,
    Traits,
    Wake,
)
from trunkline.agents.policies.random_draws import create_policy

ABC = ("a", "b", "c")
SERVERS = ("x", "y")
SEEDS = st.integers(0, 2**32)


def play(sites=ABC, at_once=1, **options):
    """The policy answers turn by turn: `push a * 0.5`, `pull a`, `wake 3`."""
    if "wait" not in options:
        options["at_once"] = at_once
    policy = r2sp.create(sites, servers=SERVERS, **options)
    return Answers(policy, tell, SERVERS)


def tell(decision):
    if isinstance(decision, Wake):
        return f"wake {decision.at_s:g}"
    (worker,) = (site for site in decision.group if site not in SERVERS)
    if decision.then == "wait":
        return f"push {worker} * {decision.scale:g}"
    batches = "".join(f", {batch}" for batch in decision.batches.values())
    return f"pull {worker}{batches}"


def test_a_worker_pushes_in_its_turn_and_pulls_as_soon_as_the_servers_have_its_update():
    policy = r2sp.create(("a",), servers=SERVERS, share=0.5, momentum=0.9)
    assert Traits.of(policy) == Traits(timed=True, gives="update")
    state, (push,) = policy.step(policy.initial, Ready("a", 0))
    everybody, servers = ("a", "x", "y"), frozenset(SERVERS)
    assert push == Start(
        everybody, {"a": 1.0}, 0.5, SERVERS, servers, keep=1.0, momentum=0.9, then="wait"
    )
    _, (pull,) = policy.step(state, Ended(0, push.group, True))
    assert pull == Start(everybody, dict.fromkeys(SERVERS, 1.0), 1.0, ("a",), servers)


def test_turns_come_in_the_order_of_the_sites_and_one_after_the_other():
    run = play(relaxation=0)
    assert run.ready("cb", 0, at_s=1.0) == ["wake 3"]  # b and c wait for a, until it is late
    assert run.ready("a", 0, at_s=1.5) == ["push a * 0.333333"]
    assert run.end("a", 2.0, 0.5) == ["pull a", "push b * 0.333333"]
    assert run.end("a", 2.5, 0.5) == []
    assert run.end("b", 2.6, 0.6) == ["pull b", "push c * 0.333333"]
    assert run.ready("a", 1, at_s=2.7) == []
    assert run.end("c", 3.0, 0.4) == ["pull c", "push a * 0.333333"]


def test_in_the_literal_form_a_worker_pushes_at_once_and_its_pull_waits_for_its_turn():
    run = play(relaxation=0, wait="pull")
    assert run.ready("c", 0, at_s=1.0) == ["push c * 0.333333"]
    assert run.ready("b", 0, at_s=1.2) == ["push b * 0.333333"]
    assert run.end("c", 1.5, 0.5) == ["wake 3.3"]  # it is the turn of a, until it is late
    assert run.end("b", 1.7, 0.5) == []
    assert run.ready("a", 0, at_s=2.0) == ["push a * 0.333333"]
    assert run.end("a", 2.5, 0.5) == ["pull a", "pull b", "pull c"]
    assert run.end("a", 2.8, 0.3) + run.ready("a", 1, at_s=3.0) == ["push a * 0.333333"]
    assert run.end("a", 3.2, 0.2) == ["pull a"]  # it missed no update, c and b come next
    assert run.end("a", 3.4, 0.2) + run.ready("a", 2, at_s=3.5) == ["push a * 0.333333"]
    assert run.end("a", 3.7, 0.2) == ["wake 6.1"]  # it is the turn of b


@pytest.mark.parametrize(("kind", "gap_s"), [("mean", 0.5 * 2 / 2), ("slowest", 0.5 * 3 / 2)])
@pytest.mark.parametrize("wait", ["push", "pull"])
def test_the_iteration_time_is_the_mean_or_that_of_the_slowest(kind, gap_s, wait):
    run = play(("a", "b"), relaxation=0.5, wait=wait, iteration_time=kind)
    assert run.ready("a", 0, at_s=1.0) == ["push a * 0.5"]
    run.ready("b", 0, at_s=3.0)
    assert run.policy._gap_s(run.state) == pytest.approx(gap_s)


def test_turns_of_pulls_are_a_share_of_the_iteration_time_apart_however_long_pushes_take():
    run = play(("a", "b"), relaxation=1, patience=9, wait="pull", iteration_time="slowest")
    assert run.ready("ab", 0, at_s=2.0) == ["push a * 0.5", "push b * 0.5"]
    assert run.end("b", 6.0, 4.0) == ["wake 18"]
    assert run.end("a", 7.0, 5.0) == ["pull a", "wake 8"]  # 2 s / 2 workers: no push counts yet
    assert run.give(Tick(8.0)) == ["pull b"]
    assert run.end("a", 8.0, 1.0) == []
    assert run.policy._gap_s(run.state) == (5 + 1 + 2) / 2


@pytest.mark.parametrize("given", [{"at_once": 2}, {"strict": True}])
def test_pushes_that_do_not_wait_are_not_limited(given):
    with pytest.raises(ValueError, match="expected none with wait: pull"):
        r2sp.create(ABC, servers=SERVERS, wait="pull", **given)


def test_as_many_pushes_run_at_once_as_there_are_servers_and_pulls_keep_the_order():
    run = play(relaxation=0, at_once=None)
    assert run.ready("abc", 0, at_s=1.0) == ["push a * 0.333333", "push b * 0.333333"]
    assert run.end("b", 1.5, 0.5) == []  # b would miss the update of a, and c would overtake a
    assert run.end("a", 2.5, 1.5) == ["pull b", "pull a", "push c * 0.333333"]
    assert run.end("c", 3.0, 0.5) == ["pull c"]


def test_a_strict_pull_waits_for_all_pushes_that_run_when_its_own_has_ended():
    run = play(("a", "b", "c", "d"), relaxation=0, at_once=2, strict=True)
    assert run.ready("abcd", 0, at_s=1.0) == ["push a * 0.25", "push b * 0.25"]
    assert run.end("a", 1.5, 0.5) == ["push c * 0.25"]  # the pull of a waits for b
    assert run.end("b", 1.6, 0.6) == ["pull a", "push d * 0.25"]
    assert run.end("c", 1.7, 0.2) == ["pull b"]
    assert run.end("d", 1.8, 0.2) == ["pull c", "pull d"]
    for site in "abcd":
        assert run.end(site, 1.9, 0.1) == []
    # a has the updates of a and b, so one turn may start beside its push; d has all four.
    assert run.ready("abcd", 1, at_s=2.0) == ["push a * 0.25", "push b * 0.25"]


def test_a_strict_turn_waits_for_a_push_that_no_other_may_overtake():
    run = play(("a", "b"), relaxation=0, at_once=2, strict=True)
    assert run.ready("a", 0, at_s=1.0) == ["push a * 0.5"]
    assert run.turn("a", 1.0, 0.1, 0.1) == ["pull a"]
    assert run.ready("b", 0, at_s=1.3) == ["push b * 0.5"]  # it misses the update of a
    assert run.ready("a", 1, at_s=1.4) == []
    assert run.end("b", 1.5, 0.2) == ["pull b", "push a * 0.5"]


def test_turns_are_apart_by_the_share_of_a_push_if_transfers_take_most_of_the_time():
    run = play(("a", "b", "c"), relaxation=0.5, at_once=2)
    assert run.ready("abc", 0, at_s=0.1) == ["push a * 0.333333", "wake 0.116667"]
    assert run.give(Tick(0.2)) == ["push b * 0.333333"]
    assert run.end("a", 2.1, 2.0) == ["pull a", "push c * 0.333333"]
    assert run.policy._gap_s(run.state) == pytest.approx(0.5 * 2.0 / 2)


def test_turns_are_a_relaxed_share_of_the_iteration_time_apart():
    run = play(("a", "b"), relaxation=0.5)
    assert run.ready("ab", 0, at_s=2.0) == ["push a * 0.5"]
    assert run.end("a", 2.1, 0.1) == ["pull a", "wake 2.5"]  # 0.5 * 2 s / 2 workers after 2 s
    assert run.give(Tick(2.5)) == ["push b * 0.5"]
    assert run.turn("b", 2.5, 0.1, 0.1) == ["pull b"]


def test_the_iteration_time_is_a_mean_over_workers_of_moving_averages():
    run = play(("a", "b"), relaxation=1)
    run.ready("ab", 0, at_s=1.0)
    run.turn("a", 1.0, 0.5, 0.5)  # a computes from 2.0 on
    run.give(Tick(1.5))
    run.turn("b", 1.5, 0.25, 0.25)
    run.ready("a", 1, at_s=5.0)  # it took 3 s, at first 1 s: 2 s on average, and 1 s to move
    progress = run.state.progress
    assert progress["a"].iteration_s == pytest.approx(1 + 2)
    assert progress["b"].iteration_s == pytest.approx(0.5 + 1)
    assert run.policy._gap_s(run.state) == pytest.approx((3 + 1.5) / 2 / 2)


def test_the_newest_value_of_a_moving_average_weighs_a_tenth():
    average = Average()
    for _ in range(20):
        average = average.add(1.0)
    assert average.add(2.0).value == pytest.approx(1.1)
    assert Average().add(1.0).add(3.0).value == 2.0


@pytest.mark.parametrize("event", [Lost("a", 1.2), Left("a", 1.2)])
def test_the_rotation_skips_workers_that_are_gone(event):
    run = play(relaxation=0)
    run.ready("b", 0, at_s=1.0)
    assert run.give(event) == ["push b * 0.333333"]
    assert run.ready("c", 0, at_s=1.3) == []
    assert run.end("b", 1.5, 0.3) == ["pull b", "push c * 0.333333"]


def test_a_push_ends_its_turn_if_its_worker_is_lost():
    run = play(relaxation=0)
    assert run.ready("abc", 0, at_s=1.0) == ["push a * 0.333333"]
    assert run.give(Lost("a", 1.1)) == ["push b * 0.333333"]


def test_a_worker_that_is_late_loses_its_turn_and_an_update_that_is_too_stale():
    run = play(("a", "b"), relaxation=0, patience=2)
    assert run.ready("b", 0, at_s=1.0) == ["wake 2"]
    assert run.give(Tick(2.0)) == ["push b * 0.5"]
    assert run.turn("b", 2.0, 0.1, 0.1) == ["pull b"]
    assert run.ready("b", 1, at_s=3.0) == ["push b * 0.5"]  # a is still late
    assert run.ready("a", 0, at_s=3.05) == []
    assert run.end("b", 3.1, 0.1) == ["pull b", "pull a"]  # two updates came before it
    assert run.end("a", 3.2, 0.1) == []
    assert run.ready("a", 1, at_s=4.0) == ["wake 6.025"]  # 3 s + 2 T
    assert run.ready("b", 2, at_s=4.1) == ["push b * 0.5"]


def test_a_push_that_was_given_up_begins_again_in_the_next_turn():
    run = play(relaxation=0)
    assert run.ready("abc", 0, at_s=1.0) == ["push a * 0.333333"]
    assert run.end("a", 1.5, 0.5, completed=False) == []
    assert run.ready("a", 0, at_s=1.5) == ["push b * 0.333333"]
    assert run.end("b", 1.6, 0.1) == ["pull b", "push c * 0.333333"]
    assert run.end("c", 1.7, 0.1) == ["pull c", "push a * 0.333333"]


def test_no_task_starts_while_a_server_is_lost():
    run = play(relaxation=0)
    assert run.give(Lost("y")) + run.ready("ab", 0) + run.ready("c", 0, given=True) == []
    assert run.give(Joined("y")) == ["pull c", "push a * 0.333333"]


def test_a_new_controller_measures_only_what_it_has_seen_from_its_start():
    run = play(relaxation=1)
    assert run.end("b", 100.0, 5.0) == []  # a task that it does not know
    assert run.ready("b", 7, at_s=100.0, given=True) == ["pull b"]
    assert run.ready("a", 7, at_s=100.0) == ["push a * 0.333333"]
    assert run.policy._gap_s(run.state) == 0


def test_a_worker_that_comes_back_only_pulls_once_its_model_is_too_old():
    run = play(("a", "b"), relaxation=0)
    assert run.give(Lost("b", 0.5)) + run.ready("a", 0, at_s=1.0) == ["push a * 0.5"]
    assert run.turn("a", 1.0, 0.1, 0.1) + run.ready("a", 1, at_s=2.0) == ["pull a", "push a * 0.5"]
    assert run.turn("a", 2.0, 0.1, 0.1) == ["pull a"]
    assert run.give(Joined("b", 2.3)) + run.ready("b", 0, at_s=2.3) == ["pull b"]
    assert run.end("b", 2.4, 0.1) == []
    assert run.ready("b", 1, at_s=3.0) == ["wake 5.3"]  # a is next; its iteration takes 1.1 s
    assert run.ready("a", 2, at_s=3.1) == ["push a * 0.5"]
    assert run.end("a", 3.2, 0.1) == ["pull a", "push b * 0.5"]


SPEEDS = {"a": 429, "b": 628, "c": 917}
"""Samples per second (R2SP, table III)."""


@pytest.mark.parametrize(
    ("moving_s", "batches"),
    [
        ({"a": 0.3, "b": 0.3, "c": 0.3}, {"a": 512, "b": 749, "c": 1094}),
        # As the paper measured it: with 512 samples b waits 0.62 s for a, and c 0.82 s.
        ({"a": 0.3, "b": 0.0582, "c": 0.1149}, {"a": 512, "b": 901, "c": 1263}),
    ],
)
def test_tuned_batches_make_all_iterations_as_long_as_the_slowest(moving_s, batches):
    run, found = play(relaxation=0, batch=512), dict.fromkeys("abc", 512)
    events = [(512 / speed, site, 0, "ready") for site, speed in SPEEDS.items()]
    for _ in range(40):
        events.sort()
        at_s, site, iteration, what = events.pop(0)
        took_s = moving_s[site] / 2
        done = run.end(site, at_s, took_s) if what != "ready" else run.ready(site, iteration, at_s)
        if what == "pulled":
            ready_s = at_s + found[site] / SPEEDS[site]
            events.append((ready_s, site, iteration + 1, "ready"))
        for words in done:
            match words.replace(",", "").split():
                case ["push", who, *_]:
                    number = run.state.known.pushes[-1].iterations[who]
                    events.append((at_s + moving_s[who] / 2, who, number, "pushed"))
                case ["pull", who, batch]:
                    found[who] = int(batch)
                    events.append((at_s + moving_s[who] / 2, who, iteration, "pulled"))
    assert found == pytest.approx(batches, abs=1)


def tune(fixed_s, slope_s, slowest_s, rounds, noise=0.0, seed=0):
    """The sizes of a worker whose computing takes `fixed_s`, and `slope_s` for the first batch."""
    rng = random.Random(seed)
    policy = r2sp.create(("a", "b"), servers=SERVERS, batch=1000)
    slow = r2sp.Progress(moving=Average(0.0, 1), computing=Line().add(1.0, slowest_s))
    worker, sizes = r2sp.Progress(moving=Average(0.0, 1)), []
    for _ in range(rounds):
        took_s = (fixed_s + slope_s * worker.batch) * (1 + noise * rng.uniform(-1, 1))
        line = worker.computing.add(worker.batch, took_s)
        worker = replace(worker, computing=line)
        state = r2sp.State(policy.initial.known, {"a": worker, "b": slow})
        worker = replace(worker, batch=policy._tune(state, worker) / 1000)
        sizes.append(worker.batch)
    return sizes


@pytest.mark.parametrize("slope_s", [0.5, 1.0])
@pytest.mark.parametrize("fixed_s", [0.0, 0.25, 0.5, 0.9])
def test_a_fixed_part_of_the_time_of_computing_does_not_make_the_batch_too_small(fixed_s, slope_s):
    found = tune(fixed_s, slope_s, fixed_s + slope_s * 2, rounds=9)
    assert found == sorted(found)  # no batch was too large before
    assert found[-1] == pytest.approx(2.0, abs=0.02)


def test_the_second_tuned_batch_is_nearly_right():
    # A fixed part of 0.5 s in iterations of 1.5 s; a proportional time gives 1.84 after nine.
    assert tune(0.5, 0.5, 1.5, rounds=2) == pytest.approx([1.5, 1.966], abs=0.002)


def test_a_batch_grows_step_by_step_if_the_time_is_mostly_fixed():
    found = tune(0.9, 0.1, 1.1, rounds=40)
    assert found == sorted(found)
    assert found[8] == pytest.approx(1.75, abs=0.01) and found[-1] == pytest.approx(1.93, abs=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_times_that_vary_do_not_make_a_batch_much_too_large(seed):
    found = tune(0.2, 0.8, 1.1, rounds=40, noise=0.05, seed=seed)
    assert max(found) < 1.25 and found[-1] == pytest.approx(1.125, abs=0.03)


def test_an_update_counts_in_proportion_to_its_batch():
    run = play(("a", "b"), relaxation=0, batch=100)
    run.ready("b", 0, at_s=1.0)
    assert run.ready("a", 0, at_s=3.0) == ["push a * 0.5"]
    assert run.turn("a", 3.0, 0.5, 0.5) == ["pull a, 100", "push b * 0.5"]
    assert run.turn("b", 3.5, 0.5, 0.5) == ["pull b, 100"]  # its transfers are not measured yet
    assert run.ready("b", 1, at_s=5.5) == ["wake 15"]
    assert run.ready("a", 1, at_s=7.0) == ["push a * 0.5"]
    assert run.turn("a", 7.0, 0.5, 0.5) == ["pull a, 100", "push b * 0.5"]
    assert run.turn("b", 7.5, 0.5, 0.5) == ["pull b, 300"]
    assert run.ready("b", 2, at_s=11.5) == []
    assert run.ready("a", 2, at_s=11.6) == ["push a * 0.5"]
    assert run.end("a", 12.1, 0.5) == ["pull a, 100", "push b * 1.5"]


def test_a_tuned_batch_has_a_limit():
    policy = r2sp.create(ABC, servers=SERVERS, batch=100)
    fast, slow = (
        r2sp.Progress(moving=Average(1.0, 1), computing=Line().add(1.0, value_s))
        for value_s in (0.001, 3.0)
    )
    state = r2sp.State(policy.initial.known, {"a": fast, "b": slow, "c": r2sp.Progress()})
    assert [policy._tune(state, each) for each in state.progress.values()] == [800, 100, 100]


def test_at_least_one_server_is_needed():
    with pytest.raises(ValueError, match="servers: at least one is needed"):
        r2sp.create(ABC, servers=())


def simulate(create, seed, workers, options, **setting):
    sites = tuple("abcdefgh"[:workers])
    policy = create_policy(create, sites, options, f"{seed}", SERVERS)
    return Simulator(policy, sites, SERVERS, random.Random(seed), **setting).play()


def check_staleness(run, task):
    """No worker begins a push whose update misses more than N - 1 others.

    A new controller does not know what happened before it, and a push whose worker is lost may
    complete while others run.
    """
    if task.is_push and not run.takeovers and not run.orphans:
        (site,) = task.active
        most = (len(run.sites) - 1) * (2 if getattr(run.policy, "wait", "") == "pull" else 1)
        assert run.version - run.workers[site].version <= most


@given(SEEDS, st.integers(1, 6), st.booleans(), st.integers(1, 3))
def test_whatever_fails_all_workers_end_and_no_update_is_too_stale(seed, workers, tunes, at_once):
    relaxation = random.Random(seed).choice((0.0, 0.8, 1.0))
    options = {"relaxation": relaxation, "batch": 32 if tunes else None, "at_once": at_once}
    options["strict"] = seed % 2 == 0
    simulate(r2sp.create, seed, workers, options, looks=(check_staleness,))


@given(SEEDS, st.integers(1, 6), st.booleans(), st.sampled_from(("mean", "slowest")))
def test_in_the_literal_form_all_workers_end_whatever_fails(seed, workers, tunes, iteration_time):
    relaxation = random.Random(seed).choice((0.0, 0.8, 1.0))
    options = {"relaxation": relaxation, "batch": 32 if tunes else None, "wait": "pull"}
    options["iteration_time"] = iteration_time
    simulate(r2sp.create, seed, workers, options, looks=(check_staleness,))


@given(SEEDS, st.integers(1, 6), st.sampled_from((0.0, 0.5, 1.0)))
def test_in_the_literal_form_pulls_take_turns_and_no_update_is_dropped(seed, workers, relaxation):
    options = {"relaxation": relaxation, "patience": 1e6, "wait": "pull"}
    run = simulate(r2sp.create, seed, workers, options, is_faulty=False)
    pulls = [(t.iterations[t.active[0]], t.active[0]) for t in run.started if not t.is_push]
    assert pulls == sorted(pulls)
    assert len(pulls) == sum(task.is_push for task in run.completed) == workers * run.rounds


@given(SEEDS, st.integers(1, 6), st.integers(1, 4))
def test_an_update_misses_few_others_and_if_strict_no_more_than_n_minus_1(seed, workers, most):
    for strict in (False, True):
        relaxation = random.Random(seed).choice((0.0, 0.8))
        options = {"relaxation": relaxation, "at_once": most, "strict": strict}
        run = simulate(r2sp.create, seed, workers, options, is_faulty=False)
        ended = [task for task in run.completed if task.is_push]
        for number, push in enumerate(ended):
            (site,) = push.active
            pulls = [t for t in run.completed if not t.is_push and t.active == [site]]
            had = [t.version for t in pulls if t.number < push.number]
            overtaken = 0 if strict else most - 1
            assert number - max(had, default=0) <= workers - 1 + overtaken


def test_asp_has_updates_that_are_staler():
    with pytest.raises(AssertionError):
        simulate(ps.create, 1, 4, {"mode": "asp"}, is_faulty=False, looks=(check_staleness,))


@given(SEEDS, st.integers(1, 6), st.sampled_from((0.0, 0.5, 1.0)))
def test_without_faults_updates_come_in_order_and_evenly_spaced(seed, workers, relaxation):
    gaps = []

    def look(run, task):
        if task.is_push:
            gap_s = run.policy._gap_s(run.state)
            before = [other.began_s for other in run.started if other.is_push]
            gaps.append(not before or task.began_s >= before[-1] + 0.999 * gap_s)

    options = {"relaxation": relaxation, "patience": 1e6, "at_once": 1}
    run = simulate(r2sp.create, seed, workers, options, is_faulty=False, looks=(look,))
    pushes = [(t.iterations[t.active[0]], t.active[0]) for t in run.completed if t.is_push]
    assert pushes == sorted(pushes)
    assert len(pushes) == workers * run.rounds
    assert all(gaps)
