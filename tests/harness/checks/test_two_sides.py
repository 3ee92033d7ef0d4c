"""Checks of tasks with two sides: servers, pushes, pulls, passive members, sums of updates."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hand_made import change, make_scenario
from three_sites import Change, added, altered, changed, list_rows, without
from two_servers import LOG, RULES, SUMS_LOG, SUMS_RULES, Line, history
from wan import Wan, mesh

from trunkline.agents.events import event_reading
from trunkline.agents.events.causes import RoundsDone
from trunkline.agents.events.task_events import TaskStarted
from trunkline.agents.policies import preduce
from trunkline.agents.policies.policy import Traits
from trunkline.harness.checks.judging import CHECKS
from trunkline.harness.checks.model_checks import models_follow
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Check
from trunkline.harness.live.live_state import RunState
from trunkline.harness.record.history import History
from trunkline.harness.scenario.settings import Stop
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

NOT_HERE = {
    "the log is complete",
    "the run matches the scenario",
    "every agent exited cleanly",
    "every byte arrived",
    "interface counters match the payload",
}
"""What the two logs do not have: the frame of a run, and bytes."""

WORKERS = "workers followed the protocol"
MESSAGES = "messages came after their causes"
AGREED = "all members agreed on the outcome"
SAME = "all members hold the same result"
SUMS = "every result is the weighted sum"
EXACT = "every result is exact to the byte"
INPUTS = "every contribution is exact"
CHAIN = "server versions form a chain"
MODELS = "models follow from results"
DROPS = "abandoned tasks left models unchanged"
ONCE = "every contribution counts once"
WAITS = "no site was left blocked"

MS = 1_000_000
ZEROS = [0.0] * 16
NOTHING: Line = {"digest": "", "fingerprint": []}
NO_MODEL: Line = {"base": "", "base_fingerprint": [], "step": [], **NOTHING}


def one(name: str, *changes: Change, of: list[Line] = LOG, rules: Rules = RULES) -> tuple[str, str]:
    objects, function = CHECKS[name]
    check = Check.of(name, objects, function(history(*changes, of=of), rules))
    return check.outcome, check.detail or check.counts


def sums(name: str, *changes: Change) -> tuple[str, str]:
    return one(name, *changes, of=SUMS_LOG, rules=SUMS_RULES)


def with_roles(task: int, **changed: Any) -> Change:
    """Gives other roles to a task."""

    def change(log: list[Line]) -> list[Line]:
        for line in log:
            if line["event"] == "task_started" and line["task"] == task:
                line["roles"] |= changed
        return log

    return change


def later(t_ms: float, event: str, **match: Any) -> Change:
    """Moves an event to another time."""
    return altered(event, {"t_ns": int(t_ms * MS)}, **match)


def test_two_good_histories_pass() -> None:
    for check in (one, sums):
        for name in CHECKS.keys() - NOT_HERE:
            assert check(name)[0] in ("pass", "none"), (check, name, check(name))
    assert one(CHAIN) == ("pass", "18 versions judged")
    assert one(INPUTS) == ("pass", "12 contributions judged")
    assert one(EXACT) == ("pass", "4 results judged")
    assert one(AGREED)[0] == "pass"
    assert sums(MODELS) == ("pass", "4 models judged")
    assert sums(INPUTS) == ("pass", "4 contributions judged")


BAD: dict[str, dict[str, list[Change]]] = {
    WORKERS: {
        "rome at 0.330 s: task_joined: it had not merged the result of task 0": [
            without("model_merged", task=0, site="rome")
        ],
        "oslo at 0.250 s: compute_started: the site is a server": [
            added(250, "oslo", "compute_started", iteration=0)
        ],
        "rome at 0.220 s: contributed: the site was 'idle'": [without("server_began", site="rome")],
        "rome at 0.330 s: contributed: it was in the task already": [
            added(330, "rome", "contributed", task=2, iteration=1, weight=1.0, **NOTHING)
        ],
        "oslo at 0.360 s: model_merged: it had no result of task 0 to merge": [
            added(360, "oslo", "model_merged", task=0, version=3, **NO_MODEL)
        ],
        "kyiv at 0.325 s: task_finished: it is not a receiver of the result": [
            altered(
                "contribution_taken",
                {"event": "task_finished", "digest": "x", "fingerprint": ZEROS},
                task=0,
            )
        ],
        "kyiv at 0.400 s: it finished a round without a task, and was not released": [
            with_roles(2, then="wait")
        ],
    },
    MESSAGES: {
        "task 2 with kyiv began at 0.314000 s, 1.000 ms too early": [
            later(314, "task_started", task=2),
            without("task_joined", task=2),
        ],
        "task 0: kyiv learned of its end, but no controller completed it": [
            without("task_completed", task=0)
        ],
        "task 0 was completed, but rome did not finish it": [
            without("task_finished", task=0, site="rome")
        ],
    },
    AGREED: {
        "task 0: kyiv was not told how it ended": [without("contribution_taken", task=0)],
        "task 0: kyiv counts its contribution as taken, but no member has the result": [
            without("task_finished", task=0)
        ],
        "task 0: rome is a receiver, and has no result": [
            altered("task_finished", {"event": "contribution_taken"}, task=0, site="rome")
        ],
    },
    SAME: {
        "task 0: members hold 2 different results": [
            with_roles(0, receivers=["oslo", "rome"]),
            added(300, "oslo", "task_finished", task=0, digest="x", fingerprint=ZEROS),
        ]
    },
    SUMS: {
        "task 0: the fingerprint at oslo and rome is off by 7.5, rounding explains 0.000229": [
            altered("task_finished", {"fingerprint": ZEROS}, task=0, site="rome")
        ]
    },
    EXACT: {
        "task 2: the result at kyiv is not the exact sum": [
            altered("task_finished", {"digest": "x"}, task=2)
        ]
    },
    INPUTS: {
        "task 2: iteration 0 of kyiv is not what the seed gives": [
            altered("contributed", {"digest": "x"}, task=2, site="kyiv")
        ]
    },
    CHAIN: {
        "task 1 at rome: version 3 came after version 1": [
            altered("model_merged", {"version": 3}, task=1, site="rome")
        ],
        "task 1 at rome: the model before has another fingerprint": [
            altered("model_merged", {"base_fingerprint": ZEROS}, task=1, site="rome")
        ],
        "task 1 at rome: version 2 has another number of fingerprints than its terms": [
            altered("model_merged", {"fingerprint": []}, task=1, site="rome")
        ],
        "task 0 at rome: the result was merged twice": [
            altered("model_merged", {"task": 0}, task=1, site="rome")
        ],
        "task 1 at oslo: the step is off by 1.75, rounding explains 0.000412": [
            with_roles(1, momentum=0.0)
        ],
        "task 1 at oslo: version 2 is off by 3.5, rounding explains 0.000465": [
            with_roles(1, keep=0.0)
        ],
        "task 3: rome contributed version 1, but had version 2": [
            altered("contributed", {"iteration": 1}, task=3, site="rome")
        ],
        "task 3: rome contributed another model than it had": [
            altered("contributed", {"fingerprint": ZEROS}, task=3, site="rome")
        ],
        "task 0: rome contributed another model than it had": [
            without("server_began", site="rome")
        ],
    },
    DROPS: {
        "task 1: the model of rome changed": [
            altered(
                "task_finished",
                {"event": "task_dropped", "cause": None, "digest": "x"},
                task=1,
                site="rome",
            ),
            without("model_merged", task=1, site="rome"),
        ]
    },
    ONCE: {
        "kyiv contributed iteration 1, which it did not compute": [
            altered("contributed", {"iteration": 1}, task=0, site="kyiv")
        ]
    },
    WAITS: {
        "kyiv waited after task 0 at 0.325 s and waited to the end of the log": [
            without("contributed", task=2, site="kyiv"),
            without("task_finished", task=2),
            without("round_finished", site="kyiv"),
            without("worker_finished", site="kyiv"),
        ]
    },
}


@pytest.mark.parametrize(("name", "said", "changes"), list_rows(BAD))
def test_bad_histories_with_servers(name: str, said: str, changes: list[Change]) -> None:
    outcome, detail = one(name, *changes)
    assert outcome == "fail"
    assert detail.split("; ")[0] == said


def test_a_diverged_model_is_no_other_model_than_before() -> None:
    def diverge(log: list[Line]) -> list[Line]:
        for line in log:
            for key in ("fingerprint", "base_fingerprint", "step"):
                if line.get(key):
                    line[key] = [float("nan")] * 16
        return log

    outcome, detail = one(CHAIN, diverge, rules=replace(RULES, replay=None))
    assert outcome == "unknown"
    said = [each for each in detail.split("; ") if "not finite numbers" not in each]
    assert said == ["and 3 more"]


BAD_SUMS: dict[str, dict[str, list[Change]]] = {
    WORKERS: {
        "bern at 0.250 s: round_finished: the worker was 'computing'": [
            added(250, "bern", "round_finished", rounds=1)
        ],
        "bern at 0.251 s: ready: a task was still to replace its model": [
            later(251, "ready", site="bern"),
            later(250, "compute_finished", site="bern"),
        ],
        "bern at 0.220 s: contributed: it has iteration 1, not 0": [
            altered("contributed", {"iteration": 1}, task=0, site="bern")
        ],
    },
    INPUTS: {
        "task 0: iteration 0 of bern is not what the seed gives": [
            altered("contributed", {"digest": "x"}, task=0, site="bern")
        ]
    },
    EXACT: {
        "task 1: the result at kyiv is not the exact sum": [
            altered("task_finished", {"digest": "x"}, task=1)
        ]
    },
    MODELS: {
        "task 1 at bern: version 2 is not made of the model before": [
            altered("model_merged", {"base": "x"}, task=1, site="bern")
        ],
        "task 0 at bern: version 1 is not exact to the byte": [
            altered("model_merged", {"digest": "x"}, task=0, site="bern")
        ],
    },
    WAITS: {
        "bern was in task 0 with iteration 0 at 0.220 s and waited to the end of the log": [
            without("task_finished", task=0, site="bern")
        ]
    },
}


@pytest.mark.parametrize(("name", "said", "changes"), list_rows(BAD_SUMS))
def test_bad_histories_with_passive_workers(name: str, said: str, changes: list[Change]) -> None:
    outcome, detail = sums(name, *changes)
    assert outcome == "fail"
    assert detail.split("; ")[0] == said


def test_a_kill_excuses_what_a_server_lost() -> None:
    lost = [
        without("task_finished", task=1, site="rome"),
        without("model_merged", task=1, site="rome"),
        without("contributed", task=3, site="rome"),
        changed(340, "rome", "kill"),
    ]
    assert one(CHAIN, *lost) == (
        "pass",
        "15 of 16 versions judged; 1 excused: a loss kept the result from the server",
    )
    assert one(SUMS, *lost[:2], lost[3]) == (
        "pass",
        "3 of 4 results judged; 1 excused: a loss kept a server from its part of the result",
    )
    assert one(AGREED, *lost[:2], lost[3])[0] == "pass"


def test_a_server_that_was_killed_begins_again_with_the_initial_model() -> None:
    began = next(line for line in LOG if line["event"] == "server_began")
    shown = {key: began[key] for key in ("digest", "fingerprint")}
    again = added(500, "rome", "server_began", **shown)
    assert one(CHAIN, changed(480, "rome", "kill"), again) == ("pass", "19 versions judged")
    assert one(CHAIN, again)[0] == "fail"


def test_a_contributor_may_go_on_before_its_task_ends() -> None:
    early = [
        with_roles(0, then="proceed"),
        added(250, "kyiv", "round_finished", rounds=1),
        added(250, "kyiv", "compute_started", iteration=1),
        *(
            without(event, task=task)
            for task in (2,)
            for event in ("task_started", "task_joined", "contributed", "task_finished")
        ),
        without("task_completed", task=2),
        without("contribution_taken", task=2),
        without("round_finished", site="kyiv", t_ns=400 * MS),
        without("worker_finished", site="kyiv"),
        added(450, "kyiv", "compute_finished", iteration=1),
        added(450, "kyiv", "worker_finished", rounds=1),
    ]
    assert one(WORKERS, *early)[0] == "pass"
    assert one(WAITS, *early)[0] == "pass"
    unheard = without("contribution_taken", task=0)
    assert one(WORKERS, *early, unheard) == ("fail", "kyiv did not end its part of task 0")
    assert one(WAITS, *early, unheard)[0] == "fail"


def test_only_what_a_policy_promises_counts_once() -> None:
    twice = altered("contributed", {"iteration": 0}, task=1, site="kyiv")
    assert sums(ONCE, twice)[0] == "pass"
    rules = replace(SUMS_RULES, traits=Traits(gives="update"))
    assert one(ONCE, twice, of=SUMS_LOG, rules=rules) == (
        "fail",
        "iteration 0 of kyiv is in tasks 0, 1; iteration 0 of bern is in tasks 0, 1",
    )


def test_a_worker_waits_after_a_push_and_a_server_has_no_phases() -> None:
    found = history().phases
    assert found.keys() - {"controller"} >= {"kyiv", "bern"}
    assert not {"oslo", "rome"} & {site for site, spans in found.items() if spans}
    doing = [(span.doing, span.start_ns // MS, span.end_ns // MS) for span in found["kyiv"]]
    assert doing == [
        ("computing", 100, 190),
        ("waiting", 190, 220),
        ("in a task", 220, 325),
        ("waiting", 325, 330),
        ("in a task", 330, 400),
    ]
    passive = history(of=SUMS_LOG).phases["bern"]
    assert [span.doing for span in passive] == ["computing", "waiting", "in a task"]


def test_pushes_and_sums_are_updates_and_pulls_are_not() -> None:
    assert [task.updates for task in history().tasks] == [True, True, False, False]
    assert [task.updates for task in history(of=SUMS_LOG).tasks] == [True, True]
    assert not any(task.mixes for task in (*history().tasks, *history(of=SUMS_LOG).tasks))


def test_the_time_of_an_iteration_depends_on_its_batch() -> None:
    asked: list[tuple[Any, ...]] = []

    def compute_s(*args: Any) -> float:
        asked.append(args)
        return 0.09

    name, rules = "computing took the modelled time", replace(RULES, compute_s=compute_s)
    assert one(name, altered("compute_started", {"batch": 64}, site="bern"), rules=rules) == (
        "pass",
        "0.180 s of computing",
    )
    assert asked == [("kyiv", 0), ("bern", 0, 64)]


def test_the_state_of_a_run_shows_servers_and_workers_that_wait() -> None:
    state = RunState(RULES.topology)
    doing: dict[str, list[str]] = {"kyiv": [], "oslo": []}
    for event in history().events:
        state.update(event)
        for site, seen in doing.items():
            now = state.activity_of(site)[0]
            if seen[-1:] != [now]:
                seen.append(now)
        if isinstance(event, TaskStarted):
            assert state.tasks[event.task].unfinished == set(event.receivers)
    assert doing["oslo"] == ["serving"]
    assert doing["kyiv"] == [
        "not begun",
        "computing",
        "between two steps",
        "waiting for a group",
        "in task 0",
        "waiting for a group",
        "in task 2",
        "between two steps",
        "finished",
    ]
    assert (state.completed, state.tasks) == (4, {})


def mixed_with_the_initial_model() -> list[Line]:
    """The log of a run whose groups of two give missing versions to the initial model."""
    policy = preduce.create(("a", "b", "c"), p=2, weights="dynamic", missing="initial")
    wan = Wan(mesh("abc"), "crew", policy, tasks=8)
    wan.compute_s = {"c": 0.35}
    wan.run()
    return sorted(wan.events, key=lambda line: line["t_ns"])


def test_every_merge_keeps_a_share_of_the_same_initial_model() -> None:
    def judge_models(lines: list[Line]) -> list[str]:
        history = History.of(event_reading.read(map(json.dumps, lines)))
        sites = ("a", "b", "c")
        links = tuple(Link(a, b, 1.0) for a in sites for b in sites if a != b)
        rules = Rules(make_scenario(Topology("three", tuple(map(Site, sites)), links)))
        return [finding.outcome for finding in models_follow(history, rules)]

    log = mixed_with_the_initial_model()
    merges = [line for line in log if line["event"] == "model_merged"]
    assert len({line["site"] for line in merges}) < len(merges)
    assert set(judge_models(log)) == {"pass"}
    for wrong in ({"base": "x"}, {"base_fingerprint": [1.0] * 16}, {"fingerprint": [1.0] * 16}):
        changed = [line | wrong if line is merges[-1] else line for line in log]
        assert "fail" in judge_models(changed), wrong


def test_a_run_ends_by_exclusion_only_if_a_site_was_excluded() -> None:
    excluded = asdict(RoundsDone(within_reach=False, excluded=True))
    rules = change(RULES, stop=Stop(rounds=1))
    outcome, detail = one(
        "the run ended as specified", altered("stopping", {"cause": excluded}), rules=rules
    )
    assert outcome == "fail"
    assert "no site was excluded" in detail
