"""The policy is replayed from the log: a falsified one does not fit its decisions."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from falsified import apply
from wan import Wan, mesh

from trunkline.agents.control.replay import ReplayError, replay
from trunkline.agents.policies import preduce, ps, r2sp
from trunkline.agents.policies.random_draws import create_policy
from trunkline.harness.checks.judging import CHECKS
from trunkline.harness.checks.verdict import Check

NAME = "policy decisions match their replay"
WORKERS, SERVERS = ("n1", "n2", "n3"), ("s1",)


@pytest.fixture(scope="module")
def wan() -> Any:
    """A run of three workers with a server, which has ended."""
    return run(ps.create, {"mode": "asp"}, rounds=4)


@pytest.fixture(scope="module")
def turns() -> Any:
    """A run whose policy wakes at times of its own: workers take turns at a server."""
    return run(r2sp.create, {"wait": "pull"}, rounds=8)


def run(create: Any, options: dict[str, Any], rounds: int) -> Any:
    policy = create_policy(create, WORKERS, options, "seed", SERVERS)
    made = Wan(mesh((*WORKERS, *SERVERS)), "ps", policy, rounds=rounds, servers=SERVERS)
    made.run()
    return made


def judged(wan: Any, log: list[dict[str, Any]], **rules: Any) -> Check:
    objects, function = CHECKS[NAME]
    history, right = wan.history(log), replace(wan.rules(), **rules)
    return Check.of(NAME, objects, function(history, right))


def log_of(wan: Any) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = json.loads(json.dumps(wan.events))
    return sorted(lines, key=lambda line: line["t_ns"])


def test_the_decisions_of_a_run_are_those_of_its_policy(wan: Any) -> None:
    check = judged(wan, log_of(wan))
    assert (check.outcome, check.detail) == ("pass", "")
    assert check.judged == len(wan.of("policy_told")) > 20


def test_another_policy_decides_otherwise(wan: Any) -> None:
    other = create_policy(ps.create, WORKERS, {"mode": "asp", "share": 0.5}, "seed", SERVERS)
    check = judged(wan, log_of(wan), policy=lambda _: other)
    assert check.outcome == "fail"
    assert "the run decided a task of n1, s1 (n1 " in check.detail
    assert "the replay a task of " in check.detail
    assert "is the policy a pure function?" in check.detail


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("the_policy_was_told_nothing", "its policy was told nothing"),
        ("no_policy_began", "its policy has not begun"),
        ("the_policy_was_not_told_of_the_end_of_a_task", "has ended and the policy was not told"),
        ("the_policy_was_told_twice", "it was told so just before"),
        ("the_policy_knew_no_time", "it has the time 0 s"),
        ("the_policy_was_told_that_tasks_ended_otherwise", "has not happened"),
        ("the_policy_was_told_of_another_iteration", "iteration=10"),
        ("the_policy_was_told_of_another_task", "has not happened"),
        ("the_policy_was_told_what_does_not_exist", "dreamt with {"),
        ("the_policy_began_with_another_term", "its policy began with the term 1"),
        ("sites_compute_with_a_batch_that_was_not_decided", "a batch of 7, which was not decided"),
    ],
)
def test_a_falsified_log_does_not_fit(wan: Any, name: str, said: str) -> None:
    check = judged(wan, apply(name, log_of(wan)))
    assert check.outcome == "fail" and said in check.detail


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a_policy_wakes_thirty_milliseconds_late", "was to wake at "),
        ("a_policy_that_decides_nothing_then_does_not_wake", "was to wake at "),
        ("a_policy_hears_of_an_end_thirty_milliseconds_late", " ended at "),
        ("the_policy_was_told_that_tasks_took_half_their_time", " took "),
        ("the_policy_was_told_of_the_first_iteration_again", " was no longer so at "),
    ],
)
def test_a_policy_is_told_at_once(turns: Any, name: str, said: str) -> None:
    assert judged(turns, log_of(turns)).outcome == "pass"
    check = judged(turns, apply(name, log_of(turns)))
    assert check.outcome == "fail" and said in check.detail


def _roles(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda line: line["roles"].update(values)


@pytest.mark.parametrize(
    "change",
    [
        _roles(keep=0.25),
        _roles(momentum=0.5),
        _roles(receivers=["n1"]),
        _roles(passive=[]),
        _roles(then="proceed"),
        _roles(kept="initial"),
        lambda line: line.update(scale=2.0),
        lambda line: line.update(group=line["group"][::-1]),
        lambda line: line.update(weights={"n1": 3.0}),
        lambda line: line.update(roles=None),
    ],
)
def test_a_task_is_logged_as_it_was_decided(
    wan: Any, change: Callable[[dict[str, Any]], None]
) -> None:
    log = copy.deepcopy(log_of(wan))
    change(next(line for line in log if line["event"] == "task_started"))
    check = judged(wan, log)
    assert check.outcome == "fail" and "the run decided a task of" in check.detail


def test_every_policy_is_judged_and_its_events_must_be_there() -> None:
    policy = preduce.create(WORKERS, p=2)
    wan = Wan(mesh(WORKERS), "crew", policy, rounds=2)
    wan.run()
    log = log_of(wan)
    check = judged(wan, log)
    assert check.outcome == "pass" and check.judged
    told = ("policy_began", "policy_told")
    check = judged(wan, [line for line in log if line["event"] not in told])
    assert check.outcome == "fail" and "its policy was told nothing" in check.detail


def test_a_site_reports_again_that_it_has_left_only_if_it_was_found_again() -> None:
    wan = Wan(mesh(WORKERS), "crew", preduce.create(WORKERS, p=2), rounds=2)
    wan.run()
    log = log_of(wan)
    last = [line for line in log if line.get("told") == "left"][-1]
    again = copy.deepcopy(last)
    place = log.index(last) + 1
    twice = [*log[:place], again, *log[place:]]
    check = judged(wan, twice)
    assert check.outcome == "fail" and "it was told so just before" in check.detail
    site = last["values"]["site"]
    found = {**last, "event": "worker_found", "worker": site}
    del found["told"], found["values"]
    check = judged(wan, [*log[: log.index(last)], found, *twice[log.index(last) :]])
    assert check.outcome == "pass"


def test_an_answer_that_a_kill_cut_off_is_excused() -> None:
    policy = create_policy(ps.create, WORKERS, {"mode": "asp"}, "seed", SERVERS)
    wan = Wan(mesh((*WORKERS, *SERVERS)), "ps", policy, rounds=4, servers=SERVERS)
    wan.run()
    log = log_of(wan)
    told = next(n for n, line in enumerate(log) if line["event"] == "policy_told")
    t_ns = log[told]["t_ns"]
    kill = {"site": "runner", "event": "agent_changed", "who": "controller", "do": "kill"}
    check = judged(wan, [*log[: told + 1], {"t_ns": t_ns, **kill, "fault": 0}])
    (excuse,) = check.excuses
    assert (excuse.rule, excuse.count) == ("the controller was killed as it acted", 1)


def test_a_task_that_a_controller_ends_again_ended_the_first_time(wan: Any) -> None:
    log = log_of(wan)
    done = next(line for line in log if line["event"] == "task_completed")
    check = judged(wan, [*log, done | {"t_ns": log[-1]["t_ns"]}])
    assert (check.outcome, check.detail) == ("pass", "")


def test_a_replay_needs_the_beginning_of_the_policy(wan: Any) -> None:
    log = wan.history([line for line in wan.events if line["event"] != "policy_began"]).events
    with pytest.raises(ReplayError, match="its policy has not begun"):
        replay(log, lambda _: wan.policy, SERVERS)
