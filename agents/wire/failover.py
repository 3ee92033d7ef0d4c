"""How long agents wait for a silent peer (pure)."""

from __future__ import annotations

from dataclasses import dataclass

BEATS = 4
"""How many heartbeats in a row a connection may miss before it counts as lost."""


@dataclass(frozen=True, slots=True)
class Failover:
    """Heartbeats every `beat_s`; a peer without a byte for `timeout_s` is lost.

    `replans` is how often a task may be planned anew.
    """

    beat_s: float = 0.5
    timeout_s: float = 2.0
    replans: int = 2

    @property
    def patience_s(self) -> float:
        """The longest time until two agents that can reach each other again are connected.

        Both must notice the loss; then the dialling agent may be in its longest pause, and one
        call may fail.
        """
        return 5 * self.timeout_s + 2 * self.beat_s
