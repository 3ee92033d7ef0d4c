"""How far a run has come, from its events alone (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STARTS = ("task_started", "programs_started")
"""Events that a timeline counts from: the first of them."""


@dataclass(slots=True)
class Tally:
    """What has been counted."""

    virtual_s: float = 0.0
    rounds: int = 0
    tasks: int = 0
    bytes_moved: int = 0
    accuracy_percent: float | None = None

    def update(self, event: Mapping[str, Any]) -> bool:
        """Take in one event; True if there is something new to show."""
        begins = not self.virtual_s
        self.virtual_s = max(self.virtual_s, event["t_ns"] / 1e9)
        match event["event"]:
            case "compute_started":
                return begins
            case "round_finished":
                self.rounds += 1
            case "task_completed":
                self.tasks += 1
            case "sync_finished":
                self.tasks = max(self.tasks, event["task"] + 1)
            case "sent":
                self.bytes_moved += event["bytes"]
                return False
            case "evaluated":
                self.accuracy_percent = event["accuracy_percent"]
            case _:
                return False
        return True

    def fields(self) -> dict[str, Any]:
        """As the keyword arguments of `harness.live.progress.Progress`."""
        return {name: getattr(self, name) for name in self.__slots__}
