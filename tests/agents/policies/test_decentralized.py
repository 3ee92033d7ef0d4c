"""AD-PSGD and Eager-Reduce: literal histories."""

import pytest
from answers import Answers

from trunkline.agents.policies import ad_psgd, eager_reduce
from trunkline.agents.policies.policy import (
    Ended,
    Joined,
    Left,
    Lost,
    Proceed,
    Ready,
    Start,
    Traits,
)

ABCD = ("a", "b", "c", "d")


class Drawn:
    """A generator that chooses what a test says."""

    def __init__(self, *choices):
        self.choices = list(choices)

    def choice(self, others):
        site = self.choices.pop(0)
        assert site in others
        return site


def tell(decision):
    """Of a task the group, with `*` at active members."""
    if isinstance(decision, Proceed):
        return f"proceed {decision.site}"
    return " ".join(site + "*" * (site not in decision.passive) for site in decision.group)


def pairs(*choices):
    return Answers(ad_psgd.create(ABCD, rng=Drawn(*choices)), tell)


def eager(**options):
    return Answers(eager_reduce.create(ABCD, **options), tell)


def end(sites, completed=True, at_s=0.0, **report):
    return Ended(0, tuple(sites), completed, at_s, report)


def test_ad_psgd_averages_a_ready_worker_with_a_neighbour_that_computes():
    policy = ad_psgd.create(ABCD, rng=Drawn("a"))
    assert Traits.of(policy) == Traits(timed=True, promises=())
    _, decisions = policy.step(policy.initial, Ready("c", 0))
    group = ("a", "c")
    assert decisions == (Start(group, {"a": 1.0, "c": 1.0}, 0.5, passive=frozenset({"a"})),)


def test_averagings_of_other_workers_run_at_the_same_time():
    run = pairs("b", "d")
    assert run.ready("ac", 0) == ["a* b", "c* d"]


def test_a_pair_waits_while_one_of_its_workers_is_in_an_averaging():
    run = pairs("b", "c", "b")
    assert run.ready("a", 0) == ["a* b"]
    assert run.ready("b", 0) == []  # b itself is busy
    assert run.ready("d", 0) == []  # its neighbour b is busy
    assert run.give(end("ab")) == ["b* c"]  # in the order of signals
    assert run.give(end("bc")) == ["b d*"]


def test_no_later_pair_overtakes_on_a_worker_for_which_one_waits():
    run = pairs("b", "b", "c")
    assert run.ready("a", 0) == ["a* b"]
    assert run.ready("c", 0) == []  # waits for b
    assert run.ready("d", 0) == []  # c is free, but promised to b
    assert run.give(end("ab")) == ["b c*"]
    assert run.give(end("bc")) == ["c d*"]


def test_a_member_that_is_ready_before_its_averaging_ends_waits_for_the_end():
    run = pairs("b", "c")
    assert run.ready("a", 0) == ["a* b"]
    assert run.ready("a", 1) == []
    assert run.give(end("ab")) == ["a* c"]


def test_an_averaging_that_was_given_up_or_never_began_frees_both():
    run = pairs("b", "c", "b")
    assert run.ready("a", 0) + run.ready("a", 0) == ["a* b", "a* c"]
    assert run.ready("d", 0) == ["b d*"]


def test_the_late_end_of_an_averaging_that_was_given_up_frees_nobody():
    run = pairs("b", "b", "a")
    assert run.give(Ready("a", 0, at_s=1.0), Ready("a", 0, at_s=5.0)) == ["a* b", "a* b"]
    assert run.give(end("ab", False, at_s=5.1, duration_s=4.1), Ready("c", 0)) == []
    assert run.give(end("ab", at_s=6.0, duration_s=1.0)) == ["a c*"]


def test_a_lost_worker_frees_its_neighbour_and_is_nobodys_neighbour():
    run = pairs("b", "b", "a", "c")
    assert run.ready("a", 0) == ["a* b"]
    assert run.ready("c", 0) == []  # waits for b
    assert run.ready("d", 0) == []  # waits for a
    assert run.give(Lost("a")) == ["b c*"]
    assert run.give(end("bc")) == ["c d*"]  # d has drawn again


def test_a_worker_waits_for_the_end_when_its_neighbour_is_lost():
    run = pairs("b", "c")
    assert run.ready("a", 0) + run.give(Lost("b")) == ["a* b"]
    assert run.give(end("ab", False)) == []
    assert run.ready("a", 0) == ["a* c"]


def test_the_last_worker_goes_on_alone():
    run = pairs("b", "a")
    assert run.ready("a", 0) == ["a* b"]
    assert run.give(Left("c"), Left("d"), Ready("b", 0)) == []
    assert run.give(Left("a")) == ["proceed b"]
    assert run.ready("b", 1) == ["proceed b"]
    assert run.give(Joined("c")) == []


def test_after_a_takeover_ends_of_unknown_averagings_change_nothing():
    run = pairs("b")
    assert run.give(end("cd"), Ready("a", 5, given=True)) == ["a* b"]


def test_eager_reduce_has_all_workers_once_most_are_ready():
    policy = eager_reduce.create(ABCD, momentum=0.9)
    traits = Traits(timed=True, gives="update", accumulates=True, promises=())
    assert Traits.of(policy) == traits
    run = Answers(policy, tell)
    assert run.ready("da", 0) == []
    _, decisions = policy.step(run.state, Ready("b", 0))
    assert decisions == (
        Start(
            ABCD,
            {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0},
            0.25,
            passive=frozenset({"c"}),
            keep=1.0,
            momentum=0.9,
        ),
    )


def test_a_worker_that_is_late_for_its_round_goes_on():
    run = eager()
    assert run.ready("abc", 0) == ["a* b* c* d"]
    assert run.ready("d", 0) == ["proceed d"]
    assert run.ready("d", 1) + run.ready("ab", 1) == []  # the reduce before still runs
    assert run.give(end("abcd")) == ["a* b* c d*"]
    assert run.ready("c", 1) == ["proceed c"]


def test_the_quorum_is_an_option():
    assert eager(quorum=1).ready("b", 0) == ["a b* c d"]
    assert eager(quorum=4).ready("bca", 0) == []


def test_the_quorum_is_of_the_workers_that_are_there():
    run = eager()
    assert run.ready("ab", 0) == []
    assert run.give(Lost("d")) == ["a* b* c"]
    run = eager(quorum=3)
    assert run.ready("ab", 0) == []
    assert run.give(Lost("d"), Left("c")) == ["a* b*"]


def test_a_reduce_that_was_given_up_ends_its_round():
    run = eager()
    assert run.ready("abc", 0) == ["a* b* c* d"]
    assert run.give(end("abcd", False)) == []
    assert run.ready("abc", 0) == ["proceed a", "proceed b", "proceed c"]
    assert run.ready("abc", 1) == ["a* b* c* d"]


def test_a_reduce_that_never_began_ends_when_its_workers_are_ready_again():
    run = eager()
    assert run.ready("abc", 0) == ["a* b* c* d"]
    assert run.ready("abc", 0) == ["proceed a", "proceed b", "proceed c"]
    assert run.give(end("abcd", False, at_s=0.0, duration_s=9.0)) == []
    assert run.ready("abc", 1) == ["a* b* c* d"]


def test_a_reduce_whose_ready_workers_are_all_lost_holds_up_no_round():
    run = eager(quorum=1)
    assert run.ready("a", 0) == ["a* b c d"]
    assert run.ready("b", 1) == []
    assert run.give(Lost("a")) == ["b* c d"]


def test_a_takeover_continues_with_the_latest_round():
    run = eager()
    assert run.give(end("abcd")) == []
    assert run.ready("a", 4) == []
    assert run.ready("b", 5) == ["proceed a"]
    assert run.ready("ac", 5) == ["a* b* c* d"]


def test_the_last_worker_of_eager_reduce_goes_on_alone():
    run = eager()
    assert run.ready("a", 3) == []
    assert run.give(Left("b"), Left("c"), Lost("d")) == ["proceed a"]
    assert run.ready("a", 4) == ["proceed a"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quorum": 0}, "quorum: 0: expected 1 to 4, the number of sites"),
        ({"quorum": 5}, "quorum: 5: expected 1 to 4, the number of sites"),
    ],
)
def test_impossible_options_of_eager_reduce_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        eager(**options)
