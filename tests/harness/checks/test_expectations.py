"""What a user expects: of runs of agents and of programs, in time and late, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hand_made import THREE_SITES, change
from three_sites import history

from trunkline.agents.events.causes import Broken, ProgramFailed
from trunkline.agents.events.event import Event
from trunkline.agents.events.round_events import RoundFinished, SyncFinished, SyncStarted
from trunkline.agents.events.run_events import (
    AgentExited,
    ExpectedOutput,
    LinkBytes,
    LinksCounted,
    LinkTotals,
    OutputOutOfBounds,
    RunFinished,
)
from trunkline.harness.checks.expectations.expectation_checks import list_checks
from trunkline.harness.checks.expectations.user_check import UserCheck
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Check
from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.record.history import History
from trunkline.harness.scenario.loading import parse, resolve
from trunkline.harness.scenario.sections.expectations import Expectation

S = 1_000_000_000
AGENTS = """
topology: {builder: full_mesh, sites: [oslo, rome, kyiv], rates: 8 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 1 MB}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 3}
"""
PROGRAMS = """
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [sh]}
"""
TOTALS = (LinkTotals("n1", "n2", 1000, 3, 0), LinkTotals("n2", "n1", 60, 1, 0))
OF_PROGRAMS: tuple[Event, ...] = (
    SyncStarted(1 * S, "n1", 0, 100, "allreduce"),
    SyncStarted(1 * S, "n2", 0, 100, "allreduce"),
    SyncFinished(2 * S, "n1", 0),
    SyncFinished(3 * S, "n2", 0),
    RoundFinished(3 * S, "n1", 1),
    ExpectedOutput(4 * S, "runner", "n1", 0, "loss=0.4"),
    LinksCounted(4 * S, "runner", (LinkBytes("n1", "n2", 600), LinkBytes("n2", "n1", 60))),
    LinksCounted(5 * S, "runner", (LinkBytes("n1", "n2", 1000),)),
    AgentExited(6 * S, "runner", "n1", code=0, signal=0, asked=False),
    AgentExited(7 * S, "runner", "n2", code=3, signal=0, asked=False),
    RunFinished(
        8 * S,
        "runner",
        None,
        (LinkTotals("n1", "n2", 1000, 3, 0), LinkTotals("n2", "n1", 60, 1, 0)),
    ),
)


def judge(rules: Rules, log: History, *done: UserCheck) -> tuple[str, str]:
    """The outcome and the text of the check of the only expectation."""
    ((name, objects, check),) = list_checks(rules, {each.entry: each for each in done})
    found = Check.of(name, objects, check(log, rules))
    assert found.judged or found.outcome == "unknown"
    return found.outcome, found.detail


def judge_programs(expected: Expectation, events: Sequence[Event] = OF_PROGRAMS) -> tuple[str, str]:
    rules = change(Rules.of(parse(PROGRAMS, "x.yaml")), expect=(expected,))
    return judge(rules, History.of(events))


@pytest.mark.parametrize(
    ("options", "outcome", "text"),
    [
        ({"tasks": 2}, "pass", "2 completed"),
        ({"tasks": 3}, "fail", "2 were completed"),
        ({"tasks": 2, "by_s": 1.6}, "fail", "1 were completed"),
        ({"rounds": 1}, "pass", ""),
        ({"rounds": 9, "sites": ("oslo",)}, "fail", "oslo finished 1"),
        ({"accuracy_percent": 81.5}, "pass", "the best was 81.50 %"),
        ({"accuracy_percent": 81.6}, "fail", "the best of 3 evaluations was 81.50 %"),
        ({"accuracy_percent": 10.0, "by_s": 0.1}, "fail", "nothing was evaluated"),
    ],
)
def test_agents_did_what_was_expected(options: dict[str, Any], outcome: str, text: str) -> None:
    rules = Rules.of(replace(THREE_SITES, expect=(Expectation(**options),)))
    assert judge(rules, history()) == (outcome, text)


@pytest.mark.parametrize(
    ("options", "outcome", "text"),
    [
        ({"tasks": 1}, "pass", "1 completed"),
        ({"tasks": 1, "by_s": 2.5}, "fail", "0 were completed"),
        ({"rounds": 1}, "fail", "n2 finished 0"),
        ({"rounds": 1, "sites": ("n1",)}, "pass", ""),
        ({"carried_bytes": 1000, "link": "n1 -> n2"}, "pass", "n1 -> n2 carried 1000 bytes"),
        (
            {"carried_bytes": 1000, "link": "n1 -> n2", "by_s": 4.5},
            "fail",
            "n1 -> n2 carried 600 bytes",
        ),
        ({"carried_bytes": 100, "link": "n1-n2"}, "fail", "n2 -> n1 carried 60 bytes"),
        ({"output": "loss"}, "pass", "n1 wrote 'loss=0.4' at 4.000 s"),
        ({"output": "loss", "by_s": 3.9}, "fail", "n1 wrote it at 4.000 s"),
        ({"output": "loss", "sites": ("n2",)}, "fail", "no program at n2 wrote such a line"),
        (
            {"output": "loss=(.*)", "at_most": 0.3},
            "fail",
            "n1 wrote 'loss=0.4', which is another line",
        ),
        ({"never": "loss"}, "fail", "n1 wrote 'loss=0.4' at 4.000 s"),
        ({"never": "loss", "by_s": 3.9}, "pass", ""),
        ({"never": "loss", "sites": ("n2",)}, "pass", ""),
        ({"never": "timeout"}, "pass", ""),
        ({"exit": 0}, "fail", "n2 exited with code 3"),
        ({"exit": 3, "sites": ("n2",)}, "pass", ""),
        (
            {"exit": 3, "sites": ("n2",), "by_s": 6.5},
            "fail",
            "no program at n2 had exited by itself",
        ),
        ({"exit": 0, "sites": ("n1",)}, "pass", ""),
    ],
)
def test_programs_did_what_was_expected(options: dict[str, Any], outcome: str, text: str) -> None:
    assert judge_programs(Expectation(**options)) == (outcome, text)


def test_nothing_that_is_missing_is_held_against_a_run_that_broke_off() -> None:
    interrupted = RunFinished(8 * S, "runner", Broken((), interrupted=True), TOTALS)
    log = [*OF_PROGRAMS[:-1], interrupted]
    assert judge_programs(Expectation(tasks=5), log)[0] == "unknown"
    assert judge_programs(Expectation(tasks=5, by_s=9), log)[0] == "unknown"
    assert judge_programs(Expectation(tasks=5, by_s=7), log) == ("fail", "1 were completed")


@pytest.mark.parametrize(
    ("site", "line", "text"),
    [
        (
            None,
            "loss=0.4",
            "no program wrote such a number: 3 lines have the pattern, the nearest is 'loss=0.4'"
            " of n2",
        ),
        ("n1", "loss=0.4", "no program at n1 wrote such a line"),
        (None, "loss=0.1", "n2 wrote 'loss=0.1', which is not out of bounds"),
        (None, "x=0.4", "n2 wrote 'x=0.4', which is not out of bounds"),
    ],
)
def test_numbers_out_of_bounds_are_told(site: str | None, line: str, text: str) -> None:
    near = OutputOutOfBounds(5 * S, "runner", "n2", 0, 3, line)
    log = [*OF_PROGRAMS[:5], near, *OF_PROGRAMS[6:]]
    sites = None if site is None else (site,)
    expected = Expectation(output=r"loss=(\S*)", at_most=0.3, sites=sites)
    outcome, found = judge_programs(expected, log)
    assert outcome == "fail"
    assert text in found


def test_programs_that_report_no_rounds_are_told_so() -> None:
    log = [event for event in OF_PROGRAMS if not isinstance(event, RoundFinished)]
    outcome, text = judge_programs(Expectation(rounds=1, sites=("n1",)), log)
    assert (outcome, text) == (
        "fail",
        "n1 finished 0: programs have to report rounds (docs/programs.md, Reports)",
    )
    assert str(Expectation(output=r"step (\d+)")) == r"output 'step (\d+)'"
    assert str(Expectation(never="\x1b2J")) == r"never output '\x1b2J'"


def test_a_long_line_is_cut_where_it_is_shown() -> None:
    line = "loss" + "x" * 4000
    log = [*OF_PROGRAMS[:5], ExpectedOutput(4 * S, "runner", "n1", 0, line), *OF_PROGRAMS[6:]]
    outcome, found = judge_programs(Expectation(output="loss"), log)
    assert outcome == "pass"
    assert len(found) < 160


def test_exit_codes_of_programs_that_the_run_has_ended_do_not_count() -> None:
    asked = AgentExited(7 * S, "runner", "n2", code=0, signal=15, asked=True)
    log = [*OF_PROGRAMS[:-2], asked, OF_PROGRAMS[-1]]
    assert judge_programs(Expectation(exit=0), log)[0] == "pass"
    of_n2 = Expectation(exit=0, sites=("n2",))
    assert judge_programs(of_n2, log) == ("fail", "no program at n2 had exited by itself")
    failed = RunFinished(8 * S, "runner", ProgramFailed(), TOTALS)
    assert judge_programs(of_n2, [*log[:-1], failed])[0] == "unknown"


def test_what_was_not_due_when_a_program_failed_is_not_known() -> None:
    log = [*OF_PROGRAMS[:-1], RunFinished(8 * S, "runner", ProgramFailed(), TOTALS)]
    assert judge_programs(Expectation(tasks=5), log)[0] == "unknown"
    assert judge_programs(Expectation(tasks=5, by_s=9), log)[0] == "unknown"
    assert judge_programs(Expectation(tasks=5, by_s=7), log)[0] == "fail"


@pytest.mark.parametrize(
    ("done", "found"),
    [
        ((), ("unknown", "it was not carried out: trunkline report RUN does so")),
        ((UserCheck(0, 0, "", "fine"),), ("pass", "fine")),
        ((UserCheck(0, 2, "", "wrong"),), ("fail", "it exited with code 2: wrong")),
        ((UserCheck(0, None, "took longer than 600 s"),), ("unknown", "it took longer than 600 s")),
    ],
)
def test_a_check_of_the_user_decides(done: tuple[UserCheck, ...], found: tuple[str, str]) -> None:
    expected = (Expectation(check=("grep", "x")),)
    rules = change(Rules.of(parse(PROGRAMS, "x.yaml")), expect=expected)
    assert judge(rules, History.of(OF_PROGRAMS), *done) == found


@pytest.mark.parametrize(
    ("line", "is_found"),
    [("loss=0.4", True), ("loss=0.6", False), ("loss=", False), ("loss=none", False)],
)
def test_a_number_is_found_in_a_line(line: str, is_found: bool) -> None:
    expected = Expectation(output=r"loss=(\S*)", at_least=0.1, at_most=0.5)
    assert expected.find(line) == is_found


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        (
            "{}",
            "expected exactly one of tasks, rounds, accuracy, carried, output, never, exit, check",
        ),
        ("{tasks: 1, exit: 0}", "expected exactly one of tasks, rounds"),
        ("{tasks: 1, sites: [n1]}", "sites: only with rounds or output or never or exit"),
        ("{carried: 1 MB}", "link: expected the link that carries so much"),
        ("{rounds: 1, sites: []}", "sites: expected at least one site"),
        ("{check: [x], by: 1 s}", "check: expected a program and its arguments, without by"),
        ("{output: '('}", "output: expected a regular expression: missing )"),
        ("{output: ''}", "output: expected a pattern that is not in every line"),
        ("{output: 'l=(.)', at_least: 5, at_most: 3}", "at_least: expected at_most or less"),
        ("{exit: 0, sites: [n1, n1]}", "sites: expected each site once"),
        ("{never: '^'}", "never: expected a pattern that is not in every line"),
        ("{output: x, at_most: 1}", "output: expected a group around the number"),
        ("{rounds: 1, sites: [n9]}", "expected one of n1, n2"),
        ("{carried: 1 MB, link: n1 -> n9}", "n9"),
    ],
)
def test_a_wrong_expectation_is_refused(text: str, allowed: str) -> None:
    with pytest.raises(ScenarioErrors) as refused:
        parse(f"{PROGRAMS}expect: [{text}]\n", "x.yaml")
    assert "x.yaml:4: expect[0]" in str(refused.value)
    assert allowed in str(refused.value)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("{output: x}", "expect[0].output: x: only if sites run programs"),
        ("{exit: 0}", "expect[0].exit: 0: only if sites run programs"),
        (
            "{carried: 1 MB, link: oslo-rome, by: 1 s}",
            "expect[0].by: 1 s: with carried, only if sites run programs",
        ),
        ("{accuracy: 50 %}", "expect[0].accuracy: 50 %: the workload has no accuracy"),
    ],
)
def test_an_expectation_that_agents_cannot_meet_is_refused(text: str, allowed: str) -> None:
    with pytest.raises(ScenarioErrors) as refused:
        parse(f"{AGENTS}expect: [{text}]\n", "x.yaml")
    assert allowed in str(refused.value)


def test_a_resolved_scenario_expects_the_same() -> None:
    expected = "expect: [{tasks: 1, by: 2 s}, {check: [grep, 1], folder: /opt}, {exit: 3}]\n"
    scenario = parse(PROGRAMS + expected, "/opt/x.yaml")
    again = parse(resolve(scenario), "/elsewhere/y.yaml")
    assert again.expect == scenario.expect
    assert list(map(str, again.expect)) == ["1 tasks by 2 s", "check grep 1", "exit code 3"]
