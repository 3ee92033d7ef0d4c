"""For your own workloads: the protocol and its types, compute times, and a workload to build on.

A workload file has `build(rank: int, sites: tuple[str, ...], seed: int, *, <options>) -> Workload`
and `model_bytes(*, <options>) -> int`.
"""

from trunkline.workloads import compute_time, synthetic
from trunkline.workloads.base import Evaluation, Vector, Workload
from trunkline.workloads.layered.model import Base, Branch, LayeredModel
from trunkline.workloads.option_rules import OptionError

__all__ = [
    "Base",
    "Branch",
    "Evaluation",
    "LayeredModel",
    "OptionError",
    "Vector",
    "Workload",
    "compute_time",
    "synthetic",
]
