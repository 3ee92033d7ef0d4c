"""For your own programs: functions that report events, synchronizations and computing to a run."""

from trunkline.workloads.reporting import compute, computing, report, sync

__all__ = ["compute", "computing", "report", "sync"]
