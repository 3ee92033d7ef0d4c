"""Where the warm-up of a run ends, and what its results count (pure)."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from trunkline.harness.record.history import History
from trunkline.harness.scenario.settings import WarmUp


@dataclass(frozen=True, slots=True)
class Counted:
    """What the results count: tasks from the place `first_task` on, in order of start, and time.

    The time begins at `begin_ns`, in nanoseconds since the run's start.
    """

    first_task: int = 0
    begin_ns: int = 0

    @classmethod
    def of(cls, history: History, warm_up: WarmUp) -> Counted:
        """What the results of a run count; nothing if the run ended in its warm-up."""
        starts_ns = [task.started.t_ns for task in history.tasks]
        if warm_up.time_s is not None:
            begin_ns = min(round(warm_up.time_s * 1e9), history.end_ns)
            return cls(sum(t_ns < begin_ns for t_ns in starts_ns), begin_ns)
        if warm_up.tasks is None:
            return cls()
        ended = len(starts_ns) <= warm_up.tasks
        return cls(warm_up.tasks, history.end_ns if ended else starts_ns[warm_up.tasks])

    @property
    def begin_s(self) -> float:
        """When the time that counts begins, in seconds since the run's start."""
        return self.begin_ns / 1e9

    def select(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table of times `t_s` that the results count."""
        return table[table["t_s"] >= self.begin_s] if self.begin_ns else table


WHOLE = Counted()
"""What the results of a run without a warm-up count: everything."""


def select_counted(tasks: pd.DataFrame, *outcomes: str) -> pd.DataFrame:
    """The rows of the table of tasks that the results count, if given only with these outcomes."""
    counted = tasks[~tasks["warm_up"]]
    return counted[counted["outcome"].isin(outcomes)] if outcomes else counted
