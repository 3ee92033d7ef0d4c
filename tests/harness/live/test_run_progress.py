"""The line of progress of a run."""

from three_sites import LOG, SCENARIO

from trunkline.agents.events import event_reading
from trunkline.agents.events.round_events import RoundAlone, RoundFinished
from trunkline.harness.live.live_state import RunState
from trunkline.harness.live.progress import describe, fraction
from trunkline.harness.scenario.loading import load
from trunkline.harness.scenario.settings import Stop


def test_a_run_that_waits_for_the_end_of_progress_shows_how_near_that_is() -> None:
    """The evaluations find 41.5, 81.5 and 81.5 %."""
    stop, state = Stop(without_progress=4), RunState(load(SCENARIO).topology)
    shown = set()
    for event in event_reading.read(LOG.read_text().splitlines()):
        state.update(event)
        progress = state.progress()
        shown.add((fraction(progress, stop, 3), describe(progress, stop, 3).rpartition(", ")[2]))
    assert shown == {
        (0.0, "0 of 4 evaluations without progress"),
        (0.25, "1 of 4 evaluations without progress"),
    }


def test_abandoned_tasks_count_as_they_do_for_the_stop() -> None:
    """The log completes two tasks, and one is abandoned."""
    state, stop = RunState(load(SCENARIO).topology), Stop(tasks=3)
    for event in event_reading.read(LOG.read_text().splitlines()):
        state.update(event)
    assert fraction(state.progress(), stop, 3) == 1.0
    assert "tasks 3 of 3 (1 abandoned)" in describe(state.progress(), stop, 3)


def test_rounds_without_a_controller_count_for_the_bar_as_they_do_for_the_stop() -> None:
    state, stop = RunState.of(load(SCENARIO)), Stop(rounds=2)
    rounds = (RoundFinished(1, "oslo", 1), RoundAlone(2, "rome", 0), RoundAlone(3, "rome", 1))
    assert all(map(state.update, rounds))  # each one is shown
    assert fraction(state.progress(), stop, 3) == 0.5
    assert ", rounds 3 of 6 (3 sites)," in describe(state.progress(), stop, 3)
