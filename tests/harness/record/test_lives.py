"""What each agent did at which time."""

from trunkline.agents.events.connection_events import BackupStoodDown, BackupTookOver
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted, Ready
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import is_stopped, is_unled, leads
from trunkline.harness.record.stops import list_stops


def changed(t_ns: int, who: str, do: str, fault: int = 0) -> AgentChanged:
    return AgentChanged(t_ns, "runner", who, do, fault)


def test_phases_end_where_the_next_ones_begin_and_open_ones_with_the_log() -> None:
    said = [ComputeStarted(10, "n1", 0), ComputeFinished(40, "n1", 0), Ready(45, "n1", 0)]
    history = History.of([*said, changed(90, "n2", "pause")])
    found = [(phase.doing, phase.start_ns, phase.end_ns) for phase in history.phases["n1"]]
    assert found == [(Doing.COMPUTING, 10, 40), (Doing.WAITING, 45, 90)]


def test_an_agent_that_was_only_paused_has_no_phases_but_a_stop() -> None:
    history = History.of([changed(10, "n1", "pause", 3), changed(30, "n1", "resume", 3)])
    assert "n1" not in history.phases
    assert history.lives.spans("n1", is_stopped) == [(10, 30)]
    (stop,) = list_stops(history)
    assert (stop.who, stop.do, stop.start_ns, stop.end_ns, stop.fault) == ("n1", "pause", 10, 30, 3)


def test_a_worker_has_no_controller_until_it_begins_in_its_new_life() -> None:
    said = [
        ComputeStarted(5, "n1", 0),
        changed(10, "n1", "kill"),
        changed(30, "n1", "restart"),
        ComputeStarted(50, "n1", 0),
    ]
    assert History.of(said).lives.spans("n1", is_unled) == [(10, 50)]
    assert History.of(said[:3]).lives.spans("n1", is_unled) == [(10, 30)]


def test_controllers_are_in_charge_in_turns() -> None:
    said = [
        changed(10, "controller", "kill"),
        BackupTookOver(20, "backup"),
        changed(30, "controller", "restart"),
        BackupStoodDown(40, "backup"),
        ComputeStarted(60, "n1", 0),
    ]
    lives = History.of(said).lives
    assert lives.spans("controller", leads) == [(0, 10), (30, 60)]
    assert lives.spans("backup", leads) == [(20, 40)]
    assert lives.spans("n7", leads) == []
