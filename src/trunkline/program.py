"""What a program of your own imports to tell a run of it: events, synchronizations, computing."""

from trunkline.workloads.reporting import computing, report, sync

__all__ = ["computing", "report", "sync"]
