"""The calls of `torch.distributed` in programs, from their events (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.agents.events.call_events import CallFinished, CallStarted
from trunkline.harness.record.history import History


@dataclass(frozen=True, slots=True)
class Call:
    """One call at one site; `finished` is None if it never ended."""

    started: CallStarted
    finished: CallFinished | None

    @property
    def key(self) -> tuple[str, int, int]:
        """Its site, its process and its number there."""
        return self.started.site, self.started.process, self.started.call

    @property
    def duration_s(self) -> float | None:
        """From its start to its end, in seconds; None if it never ended."""
        return None if self.finished is None else (self.finished.t_ns - self.started.t_ns) / 1e9

    @property
    def outcome(self) -> str:
        """How it ended, in a word."""
        if self.finished is None:
            return "unfinished"
        return "failed" if self.finished.failed else "completed"


def list_calls(history: History) -> tuple[Call, ...]:
    """All calls in the order of their starts."""
    ends = {(each.site, each.process, each.call): each for each in history.all(CallFinished)}
    return tuple(
        Call(each, ends.get((each.site, each.process, each.call)))
        for each in history.all(CallStarted)
    )
