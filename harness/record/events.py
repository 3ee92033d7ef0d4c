"""Names of a run's processes that are no sites."""

from trunkline.agents.events.event import BACKUP, CONTROLLER, RUNNER

__all__ = ["BACKUP", "CONTROLLER", "RUNNER"]
