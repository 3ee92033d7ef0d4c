"""What is measured of a run: the times of its tasks, or the reports of iperf3, and its packets."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

from iperf_meter import Flow

from trunkline.agents.events.run_events import RunFinished
from trunkline.agents.events.task_events import Received, Sent
from trunkline.harness.record.history import History, Task


@dataclass(frozen=True, slots=True)
class Result:
    """What one side measured.

    Attributes:
        tasks_s: the times of the tasks. On Debian's kernel, and of our runs beside it, from the
            first byte that is sent to the last one that arrives: its processor is slow.
        flows: what iperf3 reported, in scenarios that run it.
        packets: the packets that were carried, and `drops` those that were lost.
        version: that of the Trunkline that ran or described it.
        code: a hash of the code that made it.
    """

    verdict: str
    tasks_s: tuple[float, ...]
    packets: int
    drops: int
    flows: tuple[Flow, ...] = ()
    version: str = ""
    code: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether the run did not fail."""
        return self.verdict != "fail"

    @property
    def is_measured(self) -> bool:
        """Whether there is something to compare."""
        return bool(self.tasks_s or self.flows)

    @property
    def cold_s(self) -> float:
        """The time of the first task."""
        return self.tasks_s[0]

    @property
    def warm_s(self) -> float:
        """The mean time of the later half of the tasks."""
        return statistics.fmean(self.tasks_s[len(self.tasks_s) // 2 :])

    @property
    def share_lost(self) -> float:
        """The share of packets that were lost."""
        return self.drops / (self.packets + self.drops)

    def first(self, count: int) -> Result:
        """The result without the tasks after the first ones; they do not change what was before."""
        return replace(self, tasks_s=self.tasks_s[:count])


def read_history(
    history: History, verdict: str, flows: tuple[Flow, ...] = (), *, moving: bool
) -> Result:
    """The result of a run; `moving` times are from a task's first byte to its last."""
    ended = [task for task in history.tasks if task.end_ns]
    if moving:
        times = tuple(_find_moving_s(task) for task in ended)
    else:
        times = tuple(task.duration_s or math.nan for task in ended)
    links = [link for end in history.all(RunFinished) for link in end.links]
    packets, drops = sum(x.packets for x in links), sum(x.drops for x in links)
    return Result(verdict, times, packets, drops, flows)


def _find_moving_s(task: Task) -> float:
    begun_ns = min(sent.start_ns for sent in task.all(Sent))
    return (max(received.end_ns for received in task.all(Received)) - begun_ns) / 1e9
