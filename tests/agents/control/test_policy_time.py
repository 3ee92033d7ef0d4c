"""Policies that know time: wakes, ticks and the ends of tasks, in the driver and in whole runs."""

import asyncio
import json
import math
import random
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_setting import Setting
from protocol_model import Model
from wan import Wan, mesh, schedule

from trunkline.agents.control.driver import Driver, Told
from trunkline.agents.control.replay import ReplayError, from_values, replay, to_values
from trunkline.agents.events import event_reading
from trunkline.agents.events.policy_events import PolicyTold
from trunkline.agents.policies import preduce
from trunkline.agents.policies.policy import (
    TICK_S,
    Ended,
    Joined,
    Left,
    Lost,
    Proceed,
    Ready,
    Tick,
    Wake,
    average,
)
from trunkline.agents.policies.random_draws import create_policy
from trunkline.agents.wire.agent_settings import TASKS_PER_CONTROLLER, AgentError

SITES = ("s0", "s1", "s2", "s3")
SLOW = 40_000
"""Elements of a model that takes about a second to synchronize."""


@dataclass(frozen=True)
class Windows:
    """Who is ready at a multiple of `every_s` synchronizes; the state is who is ready."""

    timed = True
    every_s: float
    initial: frozenset = frozenset()

    def step(self, state, event):
        match event:
            case Ready(site):
                following_s = (math.floor(event.at_s / self.every_s) + 1) * self.every_s
                return state | {site}, (Wake(following_s),)
            case Left(site) | Lost(site):
                return state - {site}, ()
            case Tick() if state:
                group = tuple(sorted(state))
                return frozenset(), (average(group) if len(group) > 1 else Proceed(*group),)
        return state, ()


@dataclass(frozen=True)
class Scripted:
    """Wakes so long after each event as a script says; the state counts the events."""

    timed = True
    script: tuple
    initial: int = 0

    def step(self, state, event):
        after = self.script[state % len(self.script)]
        return state + 1, tuple(Wake(event.at_s + each) for each in after)


def driver(policy):
    settings = SimpleNamespace(policy_name="mine.py", sites=SITES, servers=())
    return Driver(policy, SimpleNamespace(settings=settings))


def told(actions):
    return [action.event for action in actions if isinstance(action, Told)]


def assert_ticks_answer_wakes(answers, late_s=1e-8):
    """Every wake got one tick, in time, and no tick came without one. `answers`: with decisions."""
    waiting, last_s, ticked_s = set(), 0.0, -math.inf
    for event, decisions in answers:
        assert event.at_s >= last_s - late_s
        due_s = max(min(waiting, default=math.inf), ticked_s + TICK_S)
        if isinstance(event, Tick):
            assert max(due_s, last_s) - 1e-12 <= event.at_s <= max(due_s, last_s) + late_s
            waiting = {at_s for at_s in waiting if at_s > event.at_s}
            ticked_s = event.at_s
        else:
            assert event.at_s <= max(due_s, last_s) + late_s
        last_s = event.at_s
        waiting |= {each.at_s for each in decisions if isinstance(each, Wake)}
    return waiting


afters = st.lists(st.one_of(st.just(0.0), st.floats(-0.2, 0.3)), max_size=2)
site_events = st.sampled_from(
    [Ready("s0", 0), Ready("s1", 3), Lost("s1"), Joined("s1"), Left("s0"), Ended(0, SITES, False)]
)


@given(
    st.lists(afters, min_size=1, max_size=6),
    st.lists(st.tuples(st.floats(0.0, 0.1), site_events), max_size=8),
    st.floats(0.0, 0.02),
)
def test_every_wake_gets_one_tick_in_order_whatever_happens_in_between(script, happens, late_s):
    policy = Scripted(tuple(map(tuple, script)))
    subject, now_s, got = driver(policy), 0.0, []

    def let_pass(until_s):
        while subject.wake_s is not None and subject.wake_s + late_s <= until_s:
            got.extend(told(subject.tick(subject.wake_s + late_s)))

    for after_s, event in happens:
        let_pass(now_s + after_s)
        now_s = max([now_s + after_s, *(each.at_s for each in got[-1:])])
        got.extend(told(subject.step(event, now_s)))
    answers = [(event, policy.step(number, event)[1]) for number, event in enumerate(got)]
    waiting = assert_ticks_answer_wakes(answers, late_s + 1e-9)
    assert bool(waiting) == (subject.wake_s is not None)
    assert [type(e) for e in got if not isinstance(e, Tick)] == [type(e) for _, e in happens]


def test_a_tick_comes_at_its_time_and_answers_all_wakes_up_to_then():
    subject = driver(Scripted(((2.0, 1.0), ())))
    assert told(subject.step(Ready("s0", 0), 10.0)) == [Ready("s0", 0, 10.0)]
    assert subject.wake_s == 11.0
    assert told(subject.tick(10.999)) == []
    assert told(subject.tick(12.5)) == [Tick(12.5)]
    assert subject.wake_s is None


def test_a_wake_in_the_past_ticks_at_once():
    subject = driver(Scripted(((-3.0,), ())))
    assert told(subject.step(Ready("s0", 0), 10.0)) == [Ready("s0", 0, 10.0), Tick(10.0)]
    assert subject.wake_s is None


def test_a_policy_that_always_wakes_at_once_lets_time_pass():
    subject = driver(Scripted(((0.0,),)))
    assert told(subject.step(Ready("s0", 0), 10.0)) == [Ready("s0", 0, 10.0), Tick(10.0)]
    for number in range(1, 4):
        assert subject.wake_s == pytest.approx(10.0 + number * TICK_S)
        assert told(subject.tick(subject.wake_s)) == [Tick(pytest.approx(10.0 + number * TICK_S))]


def test_only_a_timed_policy_hears_of_the_ends_of_tasks():
    assert told(driver(preduce.create(SITES)).step(Ended(0, SITES, True), 1.0)) == []
    ended = Ended(0, SITES, True, report={"duration_s": 0.5})
    assert told(driver(Scripted(((),))).step(ended, 1.0)) == [
        Ended(0, SITES, True, 1.0, {"duration_s": 0.5})
    ]


@pytest.mark.parametrize(
    ("timed", "at_s", "allowed"),
    [
        (False, 2.0, "Wake.at_s = 2.0: expected no Wake, unless the policy has `timed"),
        (True, math.nan, "Wake.at_s = nan: expected a finite time"),
        (True, math.inf, "Wake.at_s = inf: expected a finite time"),
    ],
)
def test_an_impossible_wake_is_refused(timed, at_s, allowed):
    @dataclass(frozen=True)
    class Wrong:
        timed: bool
        initial: None = None

        def step(self, state, event):
            return state, (Wake(at_s),)

    with pytest.raises(AgentError, match=allowed):
        list(driver(Wrong(timed)).step(Ready("s0", 0), 1.0))
    with pytest.raises(AgentError, match=allowed):
        Wan(mesh(SITES), "a2a", Wrong(timed), tasks=1).run(limit_s=20.0)


# -- policies that draw ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """As soon as three sites are ready, two of them, drawn at random, synchronize."""

    sites: tuple
    rng: object
    initial: tuple = field(default=((), 4))

    def step(self, state, event):
        ready, here = state
        match event:
            case Ready(site):
                ready = (*ready, site)
            case Joined():
                here += 1
            case Left(site) | Lost(site):
                ready, here = tuple(each for each in ready if each != site), here - 1
        if here < 3:
            return ((), here), tuple(map(Proceed, ready))
        if len(ready) < 3:
            return (ready, here), ()
        pair = tuple(sorted(self.rng.sample(ready, 2)))
        return (tuple(each for each in ready if each not in pair), here), (average(pair),)


def pairs(term=0):
    return create_policy(lambda sites, *, rng: Pairs(sites, rng), SITES, {}, f"7 policy {term}")


def drawn(policy, steps=20):
    state, groups = policy.initial, []
    for number in range(3 * steps):
        state, made = policy.step(state, Ready(SITES[number % 4], number // 4))
        groups += [each.group for each in made]
    return groups


def test_what_a_policy_draws_depends_on_seed_and_state_alone():
    policy = pairs()
    assert drawn(policy) == drawn(policy) == drawn(pairs()) != drawn(pairs(term=1))
    assert len(set(drawn(policy))) > 2
    ready = (12, (("s0", "s1"), 4))
    assert policy.step(ready, Ready("s2", 0)) == policy.step(ready, Ready("s2", 0))


def test_a_policy_gets_a_generator_only_if_it_asks():
    policy = create_policy(preduce.create, SITES, {"p": 2}, "7")
    assert policy == preduce.create(SITES, p=2)


# -- whole runs -----------------------------------------------------------------------------------


def read(wan):
    log = sorted(wan.events, key=lambda event: event["t_ns"])
    return event_reading.read(map(json.dumps, log))


def replayed(wan, create):
    """The answers of the run's policy, after checks; the replay decides as the run did."""
    verdict = wan.verdict()
    assert (verdict.outcome, verdict.problems) == ("pass", ())
    answers = replay(read(wan), create)
    assert answers and all(answer.is_same for answer in answers)
    return answers


def windows(*, every_s=1.0, **options):
    wan = Wan(mesh(SITES), "a2a", Windows(every_s), **options)
    wan.compute_s = dict(zip(SITES, (0.3, 0.4, 1.3, 2.0), strict=True))
    return wan


def events(answers, kind):
    return [answer.event for answer in answers if isinstance(answer.event, kind)]


def test_tasks_start_at_the_ticks_and_the_policy_hears_how_they_end():
    wan = windows(tasks=6)
    wan.run()
    answers = replayed(wan, lambda _: Windows(1.0))
    started = {e["task"]: e for e in wan.of("task_started")}
    assert [e["t_ns"] for e in started.values()] == [n * 10**9 for n in range(1, 7)]
    assert_ticks_answer_wakes([(each.event, each.decisions) for each in answers])
    ends = events(answers, Ended)
    completed = {e["task"]: e["t_ns"] for e in wan.of("task_completed")}
    assert len(ends) >= 4
    for end in ends:
        assert (list(end.group), end.completed) == (started[end.task]["group"], True)
        assert end.at_s == completed[end.task] / 1e9
        took_ns = completed[end.task] - started[end.task]["t_ns"]
        assert end.report == {"duration_s": pytest.approx(took_ns / 1e9, abs=2e-9)}


def test_the_stop_of_a_run_cancels_its_wakes():
    wan = windows(every_s=1000.0, time_s=5.0)
    wan.run()
    assert max(e["values"]["at_s"] for e in wan.of("policy_told")) < 5.0
    assert max(e["t_ns"] for e in wan.events) < 6e9


def test_no_tick_comes_while_the_last_task_of_a_stopped_run_goes_on():
    # The task of 5 s takes more than a second; a wake for 6 s is pending as the run stops.
    wan = windows(elements=SLOW, time_s=5.5)
    wan.run()
    replayed(wan, lambda _: Windows(1.0))
    assert max(e["t_ns"] for e in wan.of("task_completed")) > 6.1e9
    assert max(e["values"]["at_s"] for e in wan.of("policy_told")) < 5.5


def test_a_policy_knows_that_sites_are_lost_when_it_hears_of_their_task():
    wan = windows(elements=SLOW, task_s=20.0, time_s=12.0)

    async def lose(wan):
        await asyncio.sleep(1.5)  # the group of the first window is at work
        wan.kill("s0")
        wan.kill("s1")

    wan.run(lose)
    answers = replayed(wan, lambda _: Windows(1.0))
    *lost, ended = events(answers, Lost | Ended)[:3]
    assert {(type(each), each.site) for each in lost} == {(Lost, "s0"), (Lost, "s1")}
    assert (ended.group, ended.completed, ended.at_s) == (("s0", "s1"), False, lost[1].at_s)


def test_a_takeover_forgets_the_wakes_and_tells_of_the_tasks_that_it_took_over():
    wan = windows(every_s=4.0, elements=SLOW, task_s=30.0, time_s=30.0, backup=True)

    async def take_over(wan):
        await asyncio.sleep(4.2)  # the group of the first window is at work
        wan.kill("controller")

    wan.run(take_over)
    answers = replayed(wan, lambda _: Windows(4.0))
    assert [(e["site"], e["term"]) for e in wan.of("policy_began")][:2] == [
        ("controller", 0),
        ("backup", TASKS_PER_CONTROLLER),
    ]
    for name in ("controller", "backup"):
        own = [(each.event, each.decisions) for each in answers if each.controller == name]
        assert_ticks_answer_wakes(own)
        assert events([each for each in answers if each.controller == name], Tick)
    (first,) = (e for e in wan.of("task_started") if e["site"] == "controller")
    adopted = [a.event for a in answers if a.controller == "backup" and isinstance(a.event, Ended)]
    assert adopted[0].task == first["task"] and list(adopted[0].group) == first["group"]
    since_s = adopted[0].at_s - first["t_ns"] / 1e9
    assert adopted[0].report["duration_s"] == pytest.approx(since_s, abs=0.2)


@pytest.mark.parametrize("seed", range(3, 15))
def test_ticks_and_replays_are_right_whatever_fails(seed):
    wan = windows(every_s=0.7, task_s=20.0, time_s=40.0, backup=seed % 2 == 1)
    wan.run(schedule(seed, wan))
    answers = replayed(wan, lambda _: Windows(0.7))
    for began in wan.of("policy_began"):
        ends_ns = [e["t_ns"] for e in wan.of("policy_began") if e["site"] == began["site"]]
        until_s = min((t for t in ends_ns if t > began["t_ns"]), default=math.inf) / 1e9
        own = [
            (each.event, each.decisions)
            for each in answers
            if each.controller == began["site"] and began["t_ns"] / 1e9 <= each.event.at_s < until_s
        ]
        assert_ticks_answer_wakes(own)
    assert events(answers, Tick)


@pytest.mark.parametrize("seed", range(30))
def test_a_policy_that_ticks_breaks_no_promise_in_any_order_of_messages(seed):
    setting = replace(Setting.draw(random.Random(seed)), policy=Windows((0.3, 1.0, 3.0)[seed % 3]))
    Model(seed, setting=setting).run()


@pytest.mark.parametrize("seed", range(4))
def test_a_run_that_draws_can_be_replayed(seed):
    wan = Wan(mesh(SITES), "a2a", pairs(), task_s=20.0, time_s=20.0, backup=True)
    wan.run(schedule(seed, wan))
    answers = replayed(wan, lambda _: pairs())
    assert not events(answers, Ended | Tick)
    assert [a for a in replay(read(wan), lambda _: pairs(term=5)) if not a.is_same]


def test_a_policy_without_time_and_draws_can_be_replayed_from_its_events_only():
    wan = Wan(mesh(SITES), "a2a", preduce.create(SITES, p=2), tasks=3)
    wan.run()
    answers = replay(read(wan), lambda _: preduce.create(SITES, p=2))
    assert answers and all(answer.is_same for answer in answers)
    assert not all(a.is_same for a in replay(read(wan), lambda _: preduce.create(SITES, p=3)))
    told = [event for event in read(wan) if not isinstance(event, PolicyTold)]
    with pytest.raises(ReplayError, match="its policy was told nothing"):
        replay(told, lambda _: preduce.create(SITES, p=2))


@pytest.mark.parametrize(
    "event",
    [
        Ready("s1", 4, 0.1 + 0.2),
        Left("s1", 1.0),
        Lost("s1", 1.0),
        Joined("s1", 1.0),
        Ended(3, ("s0", "s1"), True, 2.5, {"duration_s": 1 / 3}),
        Tick(1e-9),
    ],
)
def test_the_log_has_an_event_as_the_policy_got_it(event):
    name, values = json.loads(json.dumps(to_values(event)))
    assert from_values(name, values) == event
