"""What policies may decide: each wrong value is refused with its name and what is allowed."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from wan import Wan, mesh

from trunkline.agents.control.decision_rules import DecisionError, DecisionRules
from trunkline.agents.policies.policy import Exclude, Proceed, Ready, Start, Traits, Wake, average

SITES = ("a", "b", "s")
RULES = DecisionRules("mine.py", SITES, ("s",), Traits())
PUSH = Start(
    ("a", "s"), {"a": 1.0}, 0.5, receivers=("s",), passive=frozenset("s"), keep=1.0, then="wait"
)
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"group": ("a", "s", "s")}, "Start.group = ('a', 's', 's'): expected a tuple of sites"),
        ({"group": ("a", "s", "x")}, "each once: a, b, s"),
        ({"group": ()}, "Start.group = (): expected a tuple of sites, each once"),
        ({"group": "as"}, "Start.group = 'as'"),
        ({"group": ("a", ["s"])}, "Start.group = ('a', ['s'])"),
        ({"group": SITES}, "expected only members that contribute or receive"),
        ({"weights": {}}, "expected a weight for at least one member of the group"),
        ({"weights": {"a": 1.0, "b": 1.0}}, "and for no others"),
        ({"weights": None}, "Start.weights = None"),
        ({"weights": {"a": NAN}}, "Start.weights = {'a': nan}: expected a number from -3.402823e"),
        ({"weights": {"a": -INF}}, "for each member"),
        ({"weights": {"a": "1"}}, "for each member"),
        ({"weights": {"a": True}}, "for each member"),
        ({"weights": {"a": 10**400}}, "for each member"),
        ({"weights": {"a": 1e-300}}, "to 3.402823e+38 (float32) as the largest"),
        ({"scale": NAN}, "Start.scale = nan: expected 0, or a number of a size from 1.175494e-38"),
        ({"scale": INF}, "Start.scale = inf"),
        ({"scale": 1e300}, "Start.scale = 1e+300"),
        ({"scale": 1e-300}, "Start.scale = 1e-300"),
        ({"scale": None}, "Start.scale = None"),
        ({"receivers": ()}, "Start.receivers = (): expected a tuple of members of the group"),
        ({"receivers": ("s", "x")}, "Start.receivers = ('s', 'x')"),
        ({"receivers": ("s", "s")}, "each once, at least one"),
        ({"passive": frozenset("b")}, "Start.passive = frozenset({'b'}): expected a set of memb"),
        ({"passive": ("s",)}, "Start.passive = ('s',)"),
        ({"keep": NAN}, "Start.keep = nan: expected a number from -3.402823e+38"),
        ({"momentum": INF}, "Start.momentum = inf"),
        ({"momentum": "0.9"}, "Start.momentum = '0.9'"),
        ({"then": "stay"}, "Start.then = 'stay': expected 'proceed' or 'wait'"),
        ({"kept": "initial"}, "expected 'model'; 'initial' too if the policy has `keeps_initial"),
        ({"batches": {"s": 8}}, "Start.batches = {'s': 8}: expected a whole number from 1 for ea"),
        ({"batches": {"b": 8}}, "for each of a"),
        ({"batches": {"a": 3.5}}, "Start.batches = {'a': 3.5}"),
        ({"batches": {"a": 0}}, "Start.batches = {'a': 0}"),
        ({"batches": {"a": True}}, "Start.batches = {'a': True}"),
        ({"batches": 8}, "Start.batches = 8"),
    ],
)
def test_a_wrong_start_is_refused(changes, said):
    with pytest.raises(DecisionError) as error:
        RULES.check(replace(PUSH, **changes))
    assert str(error.value).startswith("mine.py: Start.") and said in str(error.value)


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Proceed("b"), "mine.py: Proceed.site = 'b': expected a site that is ready: a"),
        (Proceed("s"), "mine.py: Proceed.site = 's': expected a site that computes: a, b"),
        (Proceed("x"), "mine.py: Proceed.site = 'x': expected a site that computes: a, b"),
        (Proceed("a", 0), "Proceed.batch = 0: expected a whole number from 1, or None"),
        (Proceed("a", -3), "Proceed.batch = -3"),
        (Proceed("a", 1.0), "Proceed.batch = 1.0"),
        (Proceed("a", True), "Proceed.batch = True"),
        (Proceed("a", "8"), "Proceed.batch = '8'"),
        (Wake(1.0), "Wake.at_s = 1.0: expected no Wake, unless the policy has `timed = True`"),
        (Exclude("s"), "mine.py: Exclude.site = 's': expected a site that computes: a, b"),
        ("a", "mine.py: step gave 'a': expected Start, Proceed, Exclude and Wake"),
    ],
)
def test_another_wrong_decision_is_refused(decision, said):
    with pytest.raises(DecisionError) as error:
        RULES.check(decision, ready={"a"})
    assert said in str(error.value)


def test_active_members_are_ready_unless_the_policy_may_start_early():
    pair = average(("a", "b"))
    said = "mine.py: Start.group = ('a', 'b'): expected active members that are ready: a"
    with pytest.raises(DecisionError) as error:
        RULES.check(pair, ready={"a"})
    assert str(error.value) == said
    RULES.check(pair, ready={"a", "b"})
    RULES.check(replace(pair, passive=frozenset("b")), ready={"a"})
    RULES.check(PUSH, ready={"a"})
    replace(RULES, traits=Traits(early=True)).check(pair, ready={"a"})


@pytest.mark.parametrize("at_s", [NAN, INF, "1 s", None, True])
def test_a_timed_policy_wakes_at_a_finite_time(at_s):
    with pytest.raises(DecisionError, match="expected a finite time in seconds"):
        replace(RULES, traits=Traits(timed=True)).check(Wake(at_s))


def test_allowed_decisions_get_plain_values():
    given = replace(
        PUSH,
        group=["a", "s"],
        weights={"a": np.float32(2)},
        scale=Fraction(1, 2),
        receivers=["s"],
        passive={"s"},
        keep=1,
        batches={"a": np.int64(8)},
    )
    made = RULES.check(given)
    assert made == replace(PUSH, weights={"a": 2.0}, batches={"a": 8})
    assert [type(value) for value in (made.group, made.receivers, made.passive, made.keep)] == [
        tuple,
        tuple,
        frozenset,
        float,
    ]
    assert type(made.weights["a"]) is float and type(made.batches["a"]) is int
    assert RULES.check(Proceed("a", np.int64(4)), {"a"}) == Proceed("a", 4)
    assert RULES.check(Exclude("b"), {"a"}) == Exclude("b")  # it may compute


@dataclass(frozen=True)
class LateMistake:
    """A policy whose second decision is wrong."""

    wrong: object
    initial: int = 0

    def step(self, state, event):
        if not isinstance(event, Ready):
            return state, ()
        return state + 1, (self.wrong if state else Proceed(event.site),)


@pytest.mark.parametrize(
    "wrong", [Proceed("n1", -3), Proceed("n2", "8"), replace(average(("n1", "n2")), scale=NAN)]
)
def test_a_run_ends_with_the_mistake_of_its_policy(wrong):
    with pytest.raises(DecisionError, match="expected"):
        Wan(mesh(("n1", "n2")), "ps", LateMistake(wrong), tasks=3).run(limit_s=20.0)
