"""What a model in layers must be, if a user's code has made it (pure).

Agents, checks and plans rely on these rules. A table that breaks them is refused line by line
(`model.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from trunkline.workloads.base import ELEMENT_BYTES
from trunkline.workloads.layered.model import Base, Branch, LayeredModel


def check(model: LayeredModel, sizes: Sequence[int]) -> LayeredModel:
    """Return the same model with its times as floats; `sizes` are the bytes of its branches.

    Raises ValueError, which names the base, the branch and what is allowed.
    """
    bases = _check_items(model.bases, Base, "bases")
    _check_names("base", (base.name for base in bases))
    for base in bases:
        branches = _check_items(base.branches, Branch, f"base {base.name}: branches")
        _check_names(f"base {base.name}, branch", (branch.name for branch in branches))
    found = LayeredModel(
        tuple(
            replace(base, branches=tuple(_check_branch(base.name, each) for each in base.branches))
            for base in bases
        )
    )
    given = tuple(branch.parameter_bytes for branch in found.branches)
    if given != tuple(sizes):
        raise ValueError(f"branches of {given!r:.60} bytes: expected those of tensor_bytes")
    return found


def _check_items(given: Any, kind: type, where: str) -> tuple[Any, ...]:
    if not isinstance(given, tuple) or not given or not all(isinstance(g, kind) for g in given):
        raise ValueError(f"{where} {given!r:.60}: expected a tuple of one {kind.__name__} or more")
    return given


def _check_names(what: str, names: Iterable[Any]) -> None:
    for name, count in Counter(map(_check_name, names)).items():
        if count > 1:
            raise ValueError(f"{what} {name}: expected each name once")


def _check_name(given: Any) -> str:
    if not isinstance(given, str) or not given.strip() or not given.isprintable():
        raise ValueError(f"the name {given!r:.60}: expected text that can be printed, not empty")
    return given


def _check_branch(base: str, branch: Branch) -> Branch:
    where, size = f"base {base}, branch {branch.name}", branch.parameter_bytes
    if type(size) is not int or size <= 0 or size % ELEMENT_BYTES:
        allowed = f"an int above 0, a multiple of {ELEMENT_BYTES} (float32)"
        raise ValueError(f"{where}: parameter_bytes {size!r:.60}: expected {allowed}")
    forward_s = _check_time(f"{where}: forward_s", branch.forward_s)
    return Branch(
        branch.name, size, forward_s, _check_time(f"{where}: backward_s", branch.backward_s)
    )


def _check_time(where: str, given: Any) -> float:
    if not isinstance(given, Real) or not 0 <= float(given) < math.inf:
        raise ValueError(f"{where} {given!r:.60}: expected a time in seconds, 0 or more")
    return float(given)
