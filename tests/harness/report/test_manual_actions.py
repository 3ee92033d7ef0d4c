"""What somebody did to a run is told, and what its scenario did is not."""

from dataclasses import asdict

from three_sites import added, altered, history, without

from trunkline.agents.events.causes import Asked, Broken
from trunkline.harness.report import manual_actions

OUTAGE = {"verb": "outage", "text": "outage oslo rome", "targets": ["oslo -> rome"]}
HEAL = {"verb": "heal", "text": "heal", "targets": []}


def test_what_a_scenario_asks_for_is_not_done_by_hand() -> None:
    planned = history(added(500, "runner", "fault_started", fault=0, **OUTAGE))
    assert manual_actions.list_actions(planned) == ()
    assert manual_actions.describe_run(planned) == "its time of 4.4 s has passed"


def test_faults_and_commands_are_told_with_their_time_at_the_prompt() -> None:
    found = history(
        added(500, "runner", "fault_started", fault=0, **OUTAGE, asked=True),
        added(700, "runner", "command_typed", line="oslo  ping -c 1 rome"),
        added(900, "runner", "fault_started", fault=1, **HEAL, asked=True),
    )
    assert manual_actions.list_actions(found) == (
        "outage oslo rome at 0.290 s",
        "oslo ping -c 1 rome at 0.490 s",
        "heal at 0.690 s",
    )


def test_asking_for_the_end_is_one_deed_with_the_heal_that_it_brings() -> None:
    asked = history(
        added(4400, "runner", "fault_started", fault=0, **HEAL, asked=True, at_end=True),
        altered("stopping", {"cause": asdict(Asked())}),
    )
    assert manual_actions.list_actions(asked) == ("run ended at 4.190 s",)


def test_a_heal_that_a_user_typed_before_the_end_is_told() -> None:
    typed = history(
        added(4400, "runner", "fault_started", fault=0, **HEAL, asked=True),
        altered("stopping", {"cause": asdict(Asked())}),
    )
    assert manual_actions.list_actions(typed) == ("heal at 4.190 s", "run ended at 4.190 s")


def test_ctrl_c_is_told_and_so_is_a_log_without_an_end() -> None:
    cut = history(altered("run_finished", {"cause": asdict(Broken(("rome: no more",), True))}))
    assert (
        manual_actions.describe_run(cut)
        == "rome: no more; interrupted; by hand: run ended at 4.390 s (0.210 s later in tables)"
    )
    assert (
        manual_actions.describe_run(history(without("run_finished")))
        == "the log breaks off at 4.590 s"
    )


def test_many_deeds_are_counted() -> None:
    many = history(
        *(
            added(210 + 100 * number, "runner", "command_typed", line=f"oslo {number}")
            for number in range(9)
        )
    )
    assert manual_actions.describe_actions(many) == (
        "oslo 0 at 0.000 s; oslo 1 at 0.100 s; oslo 2 at 0.200 s; oslo 3 at 0.300 s; 4 more; "
        "oslo 8 at 0.800 s (0.210 s later in tables)"
    )
