"""The line of progress of a run."""

from three_sites import LOG, SCENARIO

from trunkline.agents.events import event_reading
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
