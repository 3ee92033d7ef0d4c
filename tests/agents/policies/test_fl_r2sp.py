"""FL-R2SP: literal rounds, turns, stragglers and outliers; and any run of a simulator."""

import math
import random
from collections import Counter
from fractions import Fraction

import pytest
from answers import Answers
from hypothesis import given
from hypothesis import strategies as st
from simulator import Simulator

from trunkline.agents.policies import fl_r2sp
from trunkline.agents.policies.policy import (
    Compared,
    Ended,
    Exclude,
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

SERVERS = ("x", "y")
SEEDS = st.integers(0, 2**32)


def play(sites="abcd", groups=2, **options):
    """The policy answers `push ac * 0.25 + 0.5`, `pull a`, `exclude a`, `wake 3`."""
    policy = fl_r2sp.create(tuple(sites), servers=SERVERS, groups=groups, **options)
    return Answers(policy, tell, SERVERS)


def tell(decision):
    match decision:
        case Wake(at_s):
            return f"wake {at_s:g}"
        case Exclude(site):
            return f"exclude {site}"
    clients = "".join(site for site in decision.group if site not in SERVERS)
    if decision.then == "wait":
        return f"push {clients} * {decision.scale:g} + {decision.keep:g}"
    return f"pull {clients}"


def test_a_push_mixes_the_mean_of_a_groups_models_into_that_of_the_servers():
    policy = fl_r2sp.create(tuple("abcd"), servers=SERVERS, groups=2, fraction=1.0)
    assert Traits.of(policy) == Traits(timed=True, gives="model", compares=True)
    state, _ = policy.step(policy.initial, Ready("a", 0))
    state, (push,) = policy.step(state, Ready("c", 0))
    group, servers = ("a", "c", "x", "y"), frozenset(SERVERS)
    weights = {"a": 1.0, "c": 1.0}
    assert push == Start(group, weights, 0.25, SERVERS, servers, keep=0.5, then="wait")
    _, (pull,) = policy.step(state, Ended(0, push.group, True))
    assert pull == Start(group, {"x": 1.0, "y": 1.0}, 1.0, ("a", "c"), servers)


def test_a_push_of_changes_adds_their_mean_to_the_model_of_the_servers():
    policy = fl_r2sp.create(tuple("abcd"), servers=SERVERS, groups=2, fraction=1.0, mix="delta")
    assert Traits.of(policy) == Traits(timed=True, gives="update", compares=True)
    state, _ = policy.step(policy.initial, Ready("a", 0))
    _, (push,) = policy.step(state, Ready("c", 0))
    group, servers = ("a", "c", "x", "y"), frozenset(SERVERS)
    weights = {"a": 1.0, "c": 1.0}
    assert push == Start(group, weights, 0.25, SERVERS, servers, keep=1.0, then="wait")


class Recursion:
    """Clients whose model is one number, to which each round adds 1. Groups push in turn."""

    def __init__(self, groups, **options):
        self.sites = tuple(f"c{number}" for number in range(groups))
        self.policy = fl_r2sp.create(
            self.sites, servers=SERVERS, groups=groups, fraction=1.0, patience=1e6, **options
        )
        self.state, self.model = self.policy.initial, 0.0
        self.bases = dict.fromkeys(self.sites, 0.0)

    def give(self, event):
        self.state, decisions = self.policy.step(self.state, event)
        for decision in decisions:
            if isinstance(decision, Wake):
                self.give(Tick(decision.at_s))
            elif decision.then == "wait":
                (site,) = decision.weights
                given = 1 + (self.bases[site] if self.policy.gives == "model" else 0)
                self.model = decision.keep * self.model + decision.scale * given
                self.give(Ended(0, decision.group, True, event.at_s))
            else:
                self.bases[decision.receivers[0]] = self.model

    def count_rounds(self, goal):
        """How many rounds of all groups it takes until the servers' model is at the goal."""
        for done in range(1000):
            for site in self.sites:
                self.give(Ready(site, done, at_s=float(done)))
            if self.model >= goal - 1e-9:
                return done + 1
        raise AssertionError("it never gets there")


def test_what_bsp_learns_in_30_rounds_takes_eight_groups_57_as_the_paper_mixes_and_30_by_changes():
    assert Recursion(1).count_rounds(30) == Recursion(1, mix="delta").count_rounds(30) == 30
    assert Recursion(8).count_rounds(30) == 57
    assert Recursion(8, mix="delta").count_rounds(30) == 30


@pytest.mark.parametrize("groups", [2, 4])
def test_a_round_as_the_paper_mixes_makes_m_of_2_m_minus_1_of_the_progress_of_bsp(groups):
    rounds = Recursion(groups, mix="paper").count_rounds(120)
    assert rounds == pytest.approx(120 * (2 * groups - 1) / groups, abs=1)


def test_if_pulls_wait_a_client_pushes_alone_and_at_once_and_its_group_pulls_in_its_turn():
    run = play("abcdef", groups=2, fraction=0.6, mix="delta", wait="pull", patience=10)
    assert run.ready("b", 0, at_s=0.5) == ["push b * 0.25 + 1"]
    assert run.ready("c", 0, at_s=1.0) == ["push c * 0.25 + 1"]
    assert run.ready("e", 0, at_s=1.2) == ["push e * 0.25 + 1"]
    assert run.ready("a", 0, at_s=1.3) == []  # its group has enough
    assert run.end("b", at_s=1.4, took_s=0.9) == []
    assert run.end("c", at_s=1.5, took_s=0.5) == []
    assert run.end("e", at_s=2.0, took_s=0.8) == ["pull ace"]
    assert run.ready("d", 0, at_s=2.1) == ["push d * 0.25 + 1"]
    assert run.end("d", at_s=2.3, took_s=0.2) == ["wake 3.075"]  # 2 s + (2 + 2.3) / 2 / 2
    assert run.ready("c", 1, at_s=3.0) == ["push c * 0.25 + 1"]
    assert run.give(Tick(3.075)) == ["pull bd"]
    assert run.ready("f", 0, at_s=3.1) == ["pull f"]  # a straggler


def test_updates_that_come_alone_cannot_replace_a_part_of_the_model():
    with pytest.raises(ValueError, match="wait: 'pull': expected push, as mix: paper needs"):
        play(wait="pull", mix="paper")


@pytest.mark.parametrize("groups", [1, 8])
def test_a_round_makes_the_progress_of_bsp_if_updates_come_alone(groups):
    assert Recursion(groups, mix="delta", wait="pull").count_rounds(30) == 30


def test_one_group_replaces_the_model_by_the_mean_and_waits_for_no_gap():
    run = play(groups=1, fraction=0.75)
    assert run.ready("ab", 0, at_s=1.0) == []
    assert run.ready("d", 0, at_s=2.0) == ["push abd * 0.333333 + 0"]
    assert run.end("abd", at_s=2.1, took_s=0.1) == ["pull abd"]
    assert run.ready("abd", 1, at_s=2.2) == ["push abd * 0.333333 + 0"]


def test_a_new_controller_does_not_take_the_age_of_the_run_for_a_round():
    run = play(fraction=1.0)
    assert run.ready("ac", 7, at_s=60.0) == ["push ac * 0.25 + 0.5"]
    assert run.ready("bd", 5, at_s=60.1) == ["push bd * 0.25 + 0.5"]
    assert run.end("ac", at_s=60.2, took_s=0.2) == ["pull ac"]
    assert run.end("bd", at_s=60.3, took_s=0.2) == ["pull bd"]
    assert run.ready("ac", 8, at_s=61.0) == ["push ac * 0.25 + 0.5"]
    assert run.ready("bd", 6, at_s=61.1) == ["wake 61.5"]  # T = 1 s, M = 2


def test_clients_are_in_the_group_of_their_number_modulo_m():
    run = play("abcdefg", groups=3)
    assert [run.policy.numbers[site] for site in "abcdefg"] == [0, 1, 2, 0, 1, 2, 0]


def test_only_the_earliest_share_counts_and_a_straggler_gets_the_latest_model_at_once():
    run = play("abcdef", groups=2, fraction=0.6, patience=10)  # a c e and b d f
    assert run.ready("ce", 0, at_s=1.0) == ["push ce * 0.25 + 0.5"]
    assert run.end("ce", at_s=1.1, took_s=0.1) == ["pull ce"]
    assert run.ready("a", 0, at_s=1.3) == ["pull a"]
    assert run.ready("bd", 0, at_s=2.0) == ["push bd * 0.25 + 0.5"]
    assert run.end("bd", at_s=2.1, took_s=0.1) == ["pull bd"]
    assert run.ready("a", 1, at_s=3.0) == []  # the count is that of this round
    assert run.ready("e", 1, at_s=3.1) == ["push ae * 0.25 + 0.5"]


def test_a_client_that_is_ready_during_the_push_or_before_the_turn_pulls_with_its_group():
    run = play("abcdef", groups=2, fraction=0.5, patience=10)
    assert run.ready("bd", 0, at_s=1.0) == ["wake 10"]  # it is the turn of a, c and e
    assert run.ready("f", 0, at_s=1.1) == []
    assert run.ready("ac", 0, at_s=2.0) == ["push ac * 0.25 + 0.5", "wake 2.75"]
    assert run.ready("e", 0, at_s=2.1) == []
    assert run.end("ac", at_s=2.2, took_s=0.2) == ["pull ace"]
    assert run.give(Tick(2.75)) == ["push bd * 0.25 + 0.5"]
    assert run.end("bd", at_s=2.9, took_s=0.15) == ["pull bdf"]


def test_the_time_of_a_round_is_that_to_the_collection_and_turns_are_a_share_of_it_apart():
    run = play("abcd", groups=2, fraction=1.0, patience=10)
    assert run.ready("ac", 0, at_s=2.0) == ["push ac * 0.25 + 0.5"]
    assert run.ready("bd", 0, at_s=2.5) == ["wake 3.125"]  # (2 + 2.5) / 2 / 2 after 2
    assert run.state.round_s.value == 2.25
    assert run.give(Tick(3.125)) == ["push bd * 0.25 + 0.5"]
    assert run.end("ac", at_s=3.2, took_s=1.2) == ["pull ac"]
    run.end("bd", at_s=3.3, took_s=0.175)
    assert run.ready("ac", 1, at_s=4.5) == ["push ac * 0.25 + 0.5"]  # 2.5 s after its push
    assert run.state.round_s.value == pytest.approx((2 + 2.5 + 2.5) / 3)


@pytest.mark.parametrize("gone", [Lost, Left])
def test_a_group_without_clients_does_not_stop_the_rotation(gone):
    run = play("abc", groups=3, fraction=1.0)
    assert run.ready("b", 0, at_s=1.0) == ["wake 3"]
    assert run.give(gone("a", 1.5)) == ["push b * 0.333333 + 0.666667"]
    run.end("b", at_s=1.6, took_s=0.1)
    assert run.ready("c", 0, at_s=2.5) == ["push c * 0.333333 + 0.666667"]
    run.end("c", at_s=2.6, took_s=0.1)
    assert run.ready("b", 1, at_s=4.0) == ["push b * 0.333333 + 0.666667"]


def test_lost_clients_are_not_counted_and_a_group_goes_on_without_them():
    run = play("abcdef", groups=2, fraction=1.0)
    assert run.ready("ac", 0, at_s=1.0) == []
    assert run.give(Lost("e", 1.5)) == ["push ac * 0.25 + 0.5"]
    assert run.give(Lost("a", 1.6)) == []
    assert run.end("ace", at_s=1.7, took_s=0.7) == []  # another task
    assert run.end("ac", at_s=1.8, took_s=0.3) == ["pull c"]


def test_the_rotation_goes_on_without_a_group_that_is_late():
    run = play("ab", groups=2, patience=2.0)
    assert run.ready("b", 0, at_s=1.0) == ["wake 2"]
    assert run.give(Tick(2.0)) == ["push b * 0.5 + 0.5"]
    run.end("b", at_s=2.1, took_s=0.1)
    assert run.ready("a", 0, at_s=2.2) == ["wake 2.8"]  # T is (1 + 2.2) / 2
    assert run.give(Tick(2.8)) == ["push a * 0.5 + 0.5"]


def test_a_client_that_comes_back_has_an_old_model_and_pulls_first():
    run = play("ab", groups=2, patience=50)
    assert run.ready("a", 0, at_s=1.0) == ["push a * 0.5 + 0.5"]
    assert run.end("a", at_s=1.1, took_s=0.1) == ["pull a"]
    assert run.give(Lost("a", 2.0), Joined("a", 9.0)) == []
    assert run.state.groups[0].since_s == 9.0  # its time begins anew
    assert run.ready("a", 1, at_s=9.5) == ["pull a"]
    assert run.ready("b", 0, at_s=9.6) == ["push b * 0.5 + 0.5"]


def test_a_push_that_was_given_up_is_pushed_again_in_the_next_turn():
    run = play("abcd", groups=2, fraction=1.0)
    assert run.ready("ac", 0, at_s=1.0) == ["push ac * 0.25 + 0.5"]
    assert run.end("ac", at_s=1.2, completed=False) == []
    assert run.ready("bd", 0, at_s=2.0) == ["push bd * 0.25 + 0.5"]
    assert run.ready("ac", 0, at_s=2.1) == ["wake 2.75"]
    assert run.state.round_s.count == 2  # the round of a and c counts once
    assert run.give(Tick(2.75)) == ["push ac * 0.25 + 0.5"]


def test_no_task_starts_while_a_server_is_lost():
    run = play("ab", groups=2, patience=50)
    assert run.give(Lost("y", 0.5)) + run.ready("a", 0, at_s=1.0) == []
    assert run.give(Joined("y", 2.0)) == ["push a * 0.5 + 0.5"]


@pytest.mark.parametrize(
    ("fraction", "clients", "needed"),
    [(1.0, 3, 3), (0.75, 16, 12), (0.7, 10, 7), (0.1, 10, 1), (0.01, 4, 1), (0.34, 3, 2)],
)
def test_a_share_is_a_whole_number_of_clients(fraction, clients, needed):
    sites = tuple(f"c{number}" for number in range(clients))
    run = play(sites, groups=1, fraction=fraction)
    for number, site in enumerate(sites[:needed], start=1):
        assert (run.ready([site], 0) != []) == (number == needed)


def test_a_client_is_excluded_when_its_updates_point_elsewhere_three_times_in_a_row():
    run = play("abcd", groups=1, fraction=1.0)
    low, high = Compared("a", 0.49), Compared("a", 0.5)
    assert run.give(low, low, high, low, low) == []
    assert run.give(low, low) == ["exclude a"]
    assert run.ready("bcd", 0) == ["push bcd * 0.333333 + 0"]  # and no one waits for it
    assert run.ready("a", 4) == ["exclude a"]
    assert run.give(Left("a")) == []


def test_a_client_that_waits_is_excluded_and_its_group_goes_on_without_it():
    run = play("abc", groups=1, fraction=1.0, strikes=1)
    assert run.ready("ab", 0) == []
    assert run.give(Compared("a", -1.0)) == ["exclude a"]
    assert run.ready("c", 0) == ["push bc * 0.5 + 0"]


def test_without_a_least_similarity_no_client_is_excluded():
    run = play(similarity=None, strikes=1)
    assert not Traits.of(run.policy).compares
    assert run.give(Compared("a", -1.0)) == []


def test_by_default_there_are_as_many_groups_as_in_the_paper():
    sites = tuple(map(str, range(128)))
    assert fl_r2sp.create(sites, servers=SERVERS).groups == 8
    assert fl_r2sp.create(sites[:5], servers=SERVERS).groups == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"servers": ()}, "servers: at least one"),
        ({"groups": 0}, "groups = 0 is not from 1 to the number of clients, 4"),
        ({"groups": 5}, "groups = 5 is not from 1 to the number of clients, 4"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fl_r2sp.create(tuple("abcd"), **{"servers": SERVERS, **options})


def simulate(seed, clients, options, **setting):
    options = dict(options)
    options |= options.pop("form", {})
    sites = tuple("abcdefgh"[:clients])
    policy = create_policy(fl_r2sp.create, sites, options, f"{seed}", SERVERS)
    return Simulator(policy, sites, SERVERS, random.Random(seed), **setting).play()


def list_clients(run, number):
    """The clients of a group that are there and not excluded."""
    there = run.state.known.workers - run.state.excluded
    return [site for site in there if run.policy.numbers[site] == number]


def check_push(run, task):
    """A push has models of one group only, a whole share, none older than the group's push."""
    policy = run.policy
    if not task.is_push or run.takeovers or policy.wait == "pull":
        return
    (number,) = {policy.numbers[site] for site in task.active}
    assert task.start.scale == 1.0 / (policy.groups * len(task.active))
    there = [s for s in list_clients(run, number) if not run.workers[s].has_left]
    assert len(task.active) == max(1, math.ceil(policy.fraction * len(there)))
    if not run.orphans:
        ended = [t for t in run.completed if t.is_push and policy.numbers[t.active[0]] == number]
        least = run.completed.index(ended[-1]) if ended else 0
        versions = sum(t.is_push for t in run.completed[: least + 1]) if ended else 0
        assert all(run.workers[site].version >= versions for site in task.active)


FREE = {"mix": "delta", "wait": "pull"}
OPTIONS = st.fixed_dictionaries(
    {
        "fraction": st.sampled_from((0.01, 0.34, 0.5, 0.75, 1.0)),
        "patience": st.sampled_from((1.0, 3.0)),
        "similarity": st.sampled_from((None, -0.5, 0.5)),
        "form": st.sampled_from(({"mix": "paper"}, {"mix": "delta"}, FREE)),
    }
)


@given(SEEDS, st.integers(1, 8), st.integers(1, 8), OPTIONS)
def test_whatever_fails_all_clients_end(seed, clients, groups, options):
    options = {**options, "groups": min(groups, clients)}
    run = simulate(seed, clients, options)
    assert options["similarity"] is not None or not run.excluded


@given(SEEDS, st.integers(1, 8), st.integers(1, 8), OPTIONS)
def test_a_push_has_a_share_of_one_group(seed, clients, groups, options):
    options = {**options, "groups": min(groups, clients)}
    simulate(seed, clients, options, is_faulty=False, looks=(check_push,))


@given(SEEDS, st.integers(1, 8), st.integers(1, 8), st.sampled_from((0.34, 0.75, 1.0)))
def test_if_pulls_wait_a_group_pushes_no_more_than_it_needs(seed, clients, groups, fraction):
    groups = min(groups, clients)
    options = {**FREE, "groups": groups, "patience": 1e6, "similarity": None, "fraction": fraction}
    pushed = Counter()

    def look(run, task):
        numbers = run.policy.numbers
        if not task.is_push:
            for number in {numbers[site] for site in task.active if run.workers[site].given}:
                pushed[number] = 0
            return
        (site,) = task.active
        clients = list_clients(run, numbers[site])
        there = [client for client in clients if not run.workers[client].has_left]
        pushed[numbers[site]] += 1
        assert pushed[numbers[site]] <= max(1, math.ceil(run.policy.fraction * len(there)))

    run = simulate(seed, clients, options, is_faulty=False, looks=(look,))
    assert any(task.is_push for task in run.completed)


@given(SEEDS, st.integers(2, 8), st.integers(2, 8))
def test_without_faults_groups_take_turns_in_order_and_evenly_spaced(seed, clients, groups):
    groups = min(groups, clients)
    options = {"groups": groups, "patience": 1e6, "similarity": None, "fraction": 1.0}
    gaps = []

    def look(run, task):
        if task.is_push:
            gap_s = run.policy._gap_s(run.state)
            before = [other.began_s for other in run.started if other.is_push]
            gaps.append(not before or task.began_s >= before[-1] + 0.999 * gap_s)

    run = simulate(seed, clients, options, is_faulty=False, looks=(look,))
    turns = [run.policy.numbers[task.active[0]] for task in run.started if task.is_push]
    assert turns == [turn % groups for turn in range(run.rounds * groups)]
    assert all(gaps)


def test_fractions_are_taken_as_written():
    assert fl_r2sp.create(("a",), servers=SERVERS, fraction=0.7).fraction == Fraction(7, 10)
