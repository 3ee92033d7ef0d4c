"""What a history tells of its events."""

from __future__ import annotations

from trunkline.agents.events.connection_events import BackupStoodDown, BackupTookOver
from trunkline.harness.record.history import History


def test_events_of_several_kinds_come_in_order_of_time() -> None:
    said = [
        BackupTookOver(1, "backup"),
        BackupStoodDown(2, "backup"),
        BackupTookOver(3, "backup"),
        BackupStoodDown(4, "backup"),
    ]
    history = History.of(said)
    assert history.all(BackupTookOver, BackupStoodDown) == tuple(said)
    assert history.all(BackupStoodDown, BackupTookOver) == tuple(said)
