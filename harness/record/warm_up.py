"""Where the warm-up of a run ends, and what its results count (pure)."""

from __future__ import annotations

from dataclasses import dataclass

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


WHOLE = Counted()
"""What the results of a run without a warm-up count: everything."""
