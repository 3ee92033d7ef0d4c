"""Branches of a real network that are computed as they arrive, with tensors of small integers.

Also the tables of such networks, and the script that makes them.
"""

from trunkline.workloads.layered.workload import (
    EVALUATES,
    FILE_OPTIONS,
    GIVES_CHANGES,
    Layered,
    build,
    compute_times,
    expected,
    is_exact,
    layers,
    model_bytes,
    preload,
    problems,
    tensor_bytes,
)

__all__ = [
    "EVALUATES",
    "FILE_OPTIONS",
    "GIVES_CHANGES",
    "Layered",
    "build",
    "compute_times",
    "expected",
    "is_exact",
    "layers",
    "model_bytes",
    "preload",
    "problems",
    "tensor_bytes",
]
