"""Parameter servers: literal histories of pushes and pulls."""

import pytest
from answers import Answers

from trunkline.agents.policies import ps
from trunkline.agents.policies.policy import Ended, Joined, Left, Lost, Ready, Start, Traits

ABC = ("a", "b", "c")
SERVERS = ("x", "y")


def play(sites=ABC, **options):
    """The policy answers task by task: `push ab * 0.5`, `pull ab`."""
    return Answers(ps.create(sites, servers=SERVERS, **options), tell, SERVERS)


def tell(start):
    workers = [site for site in start.group if site not in SERVERS]
    if start.then == "wait":
        return f"push {''.join(workers)} * {start.scale:g}"
    return f"pull {''.join(workers)}"


def test_a_push_adds_updates_and_a_pull_replaces_models():
    policy = ps.create(("a", "b"), servers=SERVERS, momentum=0.9)
    assert Traits.of(policy) == Traits(timed=True, gives="update")
    state, _ = policy.step(policy.initial, Ready("b", 0))
    state, (push,) = policy.step(state, Ready("a", 0))
    assert push == Start(
        ("a", "b", "x", "y"),
        {"a": 1.0, "b": 1.0},
        0.5,
        receivers=("x", "y"),
        passive=frozenset({"x", "y"}),
        keep=1.0,
        momentum=0.9,
        then="wait",
    )
    _, (pull,) = policy.step(state, Ended(0, push.group, True))
    assert pull == Start(
        ("a", "b", "x", "y"),
        {"x": 1.0, "y": 1.0},
        1.0,
        receivers=("a", "b"),
        passive=frozenset({"x", "y"}),
    )


def test_bsp_pushes_and_pulls_with_all_workers():
    run = play()
    assert run.ready("ca", 0) == []
    assert run.ready("b", 0) == ["push abc * 0.333333"]
    assert run.end("abc") == ["pull abc"]
    assert run.ready("ab", 1) + run.end("abc") == []
    assert run.ready("c", 1) == ["push abc * 0.333333"]


def test_bsp_waits_for_no_worker_that_is_lost_or_has_left():
    run = play()
    assert run.ready("ab", 0) == []
    assert run.give(Lost("c")) == ["push ab * 0.5"]
    assert run.end("ab") == ["pull ab"]
    assert run.give(Joined("c"), Ready("a", 1), Ready("b", 1)) == []
    assert run.ready("c", 0) == ["pull c"]  # its update is of an older model
    assert run.ready("c", 1) == ["push abc * 0.333333"]
    assert run.give(Lost("a")) == []
    assert run.end("abc") == ["pull bc"]
    assert run.give(Left("b"), Ready("c", 2)) == ["push c * 1"]
    assert run.end("c") == ["pull c"]


def test_a_push_that_was_given_up_begins_again_when_all_its_workers_are_ready_again():
    run = play()
    assert run.ready("abc", 0) == ["push abc * 0.333333"]
    assert run.end("abc", completed=False) == []
    assert run.ready("ac", 0) == []
    assert run.ready("b", 0) == ["push abc * 0.333333"]
    assert run.end("abc") == ["pull abc"]
    assert run.end("abc", completed=False) == []
    assert run.ready("a", 0, given=True) == ["pull a"]
    assert run.ready("bc", 0, given=True) == ["pull b", "pull c"]


def test_no_task_starts_while_a_server_is_lost():
    run = play(mode="asp")
    assert run.give(Lost("y")) + run.ready("ab", 0) == []
    assert run.ready("c", 0, given=True) == []
    assert run.give(Joined("y")) == ["push a * 0.333333", "push b * 0.333333", "pull c"]
    assert run.give(Lost("x"), Lost("y")) + run.end("a") == []
    assert run.give(Joined("x")) == []
    assert run.give(Joined("y")) == ["pull a"]


@pytest.mark.parametrize("mode", ["bsp", "bk", "asp", "ssp", "hete"])
def test_after_a_takeover_workers_whose_updates_are_given_only_pull(mode):
    run = play(mode=mode)
    assert run.end("abc") == []  # a push that the new controller does not know
    pulls = run.ready("b", 7, given=True)
    assert pulls == ([] if mode == "ssp" else ["pull b"])  # a and c may be at iteration 0
    assert pulls + run.give(Left("a"), Left("c")) == ["pull b"]
    assert run.ready("b", 8) == [f"push b * {1 if mode in ('bsp', 'bk', 'hete') else 1 / 3:g}"]
    assert run.end("b") == ["pull b"]


def test_the_late_end_of_an_earlier_task_with_the_same_group_does_not_end_a_push():
    run = play(mode="asp")
    assert run.give(Ready("a", 7, at_s=20.0)) == ["push a * 0.333333"]
    assert run.end("a", at_s=20.1, took_s=5.0) == []
    assert run.end("a", completed=False) == []
    assert run.end("a", at_s=30.0, took_s=10.05) == ["pull a"]  # clocks differ a little


def test_a_push_that_never_began_is_forgotten():
    run = play(mode="asp")
    for _ in range(3):  # the links do not connect the group: no end, but ready again
        assert run.ready("a", 0) == ["push a * 0.333333"]
    assert [push.iterations for push in run.state.pushes] == [{"a": 0}]


def test_a_push_counts_although_its_worker_is_lost():
    run = play(mode="hete")
    assert run.ready("a", 0) == ["push a * 1"]
    run.give(Lost("a"), Joined("a"))
    run.end("a")
    assert run.state.updates == 1
    run.ready("a", 1)
    run.give(Lost("a"), Joined("a"), Ready("a", 1, at_s=3.0))
    assert run.end("a", at_s=5.0, took_s=2.0) == ["pull a"]  # of the later one of two pushes


def test_asp_lets_no_worker_wait_for_others():
    run = play(mode="asp", share=0.5, momentum=0.9)
    assert run.ready("b", 0) == ["push b * 0.5"]
    assert run.ready("a", 0) == ["push a * 0.5"]
    assert run.end("b") == ["pull b"]
    assert run.ready("b", 1) == ["push b * 0.5"]
    assert run.end("a") == ["pull a"]


def test_ssp_stops_the_pulls_of_workers_that_are_too_far_ahead():
    run = play(mode="ssp", bound=1)
    for iteration in (0, 1):
        assert run.ready("a", iteration) == ["push a * 0.333333"]
        ended = run.end("a")
        assert ended == (["pull a"] if iteration == 0 else [])
    assert run.ready("b", 0) + run.end("b") == ["push b * 0.333333", "pull b"]
    assert run.ready("c", 0) == ["push c * 0.333333"]
    assert run.end("c") == ["pull a", "pull c"]


@pytest.mark.parametrize("event", [Lost("c"), Left("c")])
def test_ssp_waits_for_no_worker_that_is_gone(event):
    run = play(("a", "c"), mode="ssp", bound=0)
    assert run.ready("a", 0) + run.end("a") == ["push a * 0.5"]
    assert run.give(event) == ["pull a"]


def test_with_bound_0_ssp_has_rounds():
    run = play(("a", "b"), mode="ssp", bound=0)
    assert run.ready("ab", 0) + run.end("b") == ["push a * 0.5", "push b * 0.5"]
    assert run.end("a") == ["pull b", "pull a"]


def test_hete_divides_an_update_by_the_updates_since_its_pull():
    run = play(mode="hete")
    assert run.ready("a", 0) + run.end("a") == ["push a * 1", "pull a"]
    assert run.ready("a", 1) + run.end("a") == ["push a * 1", "pull a"]
    assert run.ready("b", 0) + run.end("b") == ["push b * 0.5", "pull b"]
    assert run.ready("c", 0) == ["push c * 0.333333"]
    assert run.ready("a", 2) == ["push a * 1"]  # one update since: b's
    assert run.end("c") == ["pull c"]


def test_the_model_of_a_worker_that_comes_back_counts_as_the_initial_one():
    run = play(mode="hete")
    for iteration in range(4):
        assert run.ready("a", iteration) + run.end("a") == ["push a * 1", "pull a"]
    run.give(Lost("a"), Joined("a"))
    assert run.ready("a", 4) == ["push a * 0.25"]


def test_bk_pushes_the_first_updates_of_a_round_and_drops_the_others():
    run = play(mode="bk")
    assert run.ready("c", 0) == []
    assert run.ready("a", 0) == ["push ac * 0.5"]
    assert run.ready("b", 0) == []  # a pull would give the old model
    assert run.end("ac") == ["pull abc"]
    assert run.ready("b", 1) + run.ready("a", 1) == ["push ab * 0.5"]
    assert run.end("ab") == ["pull ab"]
    assert run.ready("c", 1) == ["pull c"]
    assert run.ready("ca", 2) == ["push ac * 0.5"]  # b did only two iterations, c is in time again


def test_bk_drops_a_late_update_although_its_pull_was_given_up():
    run = play(mode="bk")
    assert run.ready("ac", 0) + run.end("ac") == ["push ac * 0.5", "pull ac"]
    assert run.ready("b", 0) == ["pull b"]
    assert run.end("b", completed=False) == []
    assert run.ready("b", 0) == ["pull b"]
    assert run.ready("a", 1) == []
    assert run.ready("b", 1) == ["push ab * 0.5"]


def test_bk_needs_no_more_workers_than_there_are():
    run = play(("a", "b", "c", "d"), mode="bk", backups=1)
    assert run.ready("ab", 0) == []
    assert run.give(Left("c"), Lost("d")) == ["push ab * 0.5"]
    assert run.end("ab") == ["pull ab"]
    assert run.give(Left("a"), Ready("b", 1)) == ["push b * 1"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"servers": ()}, "servers: at least one is needed"),
        ({"mode": "bk", "backups": 0}, "backups: 0: expected 1 to 2, one less than the workers"),
        ({"mode": "bk", "backups": 3}, "backups: 3: expected 1 to 2, one less than the workers"),
    ],
)
def test_impossible_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        ps.create(ABC, **{"servers": SERVERS, **options})
