"""The same floating-point routines on every processor, so that training gives the same bits.

torch, oneDNN, MKL and OpenBLAS choose routines by the abilities of the processor, and MKL also by
its maker. These routines round differently, and training amplifies it: after a hundred steps of SGD
the accuracies on two processors differ by points. The variables name routines that exist on every
x86-64 processor with AVX2 (Intel since 2013, AMD since 2015). Of MKL's routines only `COMPATIBLE`
gives the same bits on processors of both makers. Libraries read them when they are loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

WITH_AVX2: Mapping[str, str] = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
"""The routines that all runs use, unless the processor lacks AVX2."""

WITHOUT_AVX2: Mapping[str, str] = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
}
"""The routines on older processors, whose training differs from that on all others."""

ONE_THREAD: Mapping[str, str] = {
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""The order of a sum must not depend on how many threads share it."""


@functools.cache
def environment() -> Mapping[str, str]:
    """The variables for every process that computes in a run on this machine."""
    return {**ONE_THREAD, **(WITHOUT_AVX2 if lacks_avx2() else WITH_AVX2)}


def lacks_avx2() -> bool:
    """Whether this machine's processor lacks AVX2."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("flags")[2]
    return "avx2" not in flags.partition("\n")[0].split()
