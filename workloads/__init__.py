"""The workloads, which compute and hold the model: one file per kind, found by its name."""

from __future__ import annotations

from trunkline.named_modules import NamedModules


def find_kinds() -> NamedModules:
    """The module of every workload kind, by name: the modules here that have `build`."""
    return NamedModules(__name__, __path__, "build")
