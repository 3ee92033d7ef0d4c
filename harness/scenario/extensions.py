"""The topologies, plans, policies and workloads that a scenario can name, found by file name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Extensions:
    """The modules of each kind of extension, by name.

    A topology has `build(rng, *, ...)`, a plan `build(request, *, ...)`, a policy
    `create(sites, *, ...)`, a workload `build(rank, sites, seed, *, ...)`, `model_bytes(*, ...)`,
    `problems(sites, *, ...)` and `EVALUATES`. The keyword-only parameters are the options.
    """

    topologies: Mapping[str, Any]
    plans: Mapping[str, Any]
    policies: Mapping[str, Any]
    workloads: Mapping[str, Any]


@functools.cache
def discover() -> Extensions:
    """Find all extensions that come with Trunkline. A file is imported when it is asked for."""
    # Imported here, so that commands that read no scenario start faster.
    from trunkline import topologies, workloads
    from trunkline.agents import registry

    return Extensions(
        topologies.find_builders(), registry.plans(), registry.policies(), workloads.find_kinds()
    )


def summarize(module: Any) -> str:
    """The first line of a module's docstring, without its full stop."""
    return _first_line(module.__doc__)


def summarize_kind(kind: str) -> dict[str, str]:
    """The extensions of a kind by name, with `summarize` of each, without importing them."""
    found = getattr(discover(), kind)
    return {name: _first_line(docstring) for name, docstring in found.docstrings().items()}


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().partition("\n")[0].rstrip(".")
